; tile_transpose: 256 threads a block
target triple = "nvptx64-nvidia-cuda"

@poot_tile_transpose_tile = internal addrspace(3) global [272 x float] undef, align 16

define ptx_kernel void @poot_tile_transpose(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %v5 = icmp ne i32 %v4, %own.num_groups.y
  br i1 %v5, label %folded7, label %plain6, !prof !0
folded7:
  %v8 = mul nuw i32 %v3, %v4
  %v9 = add nuw i32 %v8, %v2
  %v10 = urem i32 %v9, %own.num_groups.y
  %v11 = udiv i32 %v9, %own.num_groups.y
  %v12 = icmp uge i32 %v11, %own.num_groups.z
  br i1 %v12, label %end, label %plain6
plain6:
  %v13 = phi i32 [ %v2, %entry ], [ %v10, %folded7 ]
  %v14 = phi i32 [ %v3, %entry ], [ %v11, %folded7 ]
  %v15 = call range(i32 0, 256) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v16 = urem i32 %v15, 16
  %v17 = mul nuw nsw i32 %v1, 16
  %v18 = add nuw nsw i32 %v17, %v16
  %v19 = udiv i32 %v15, 16
  %v20 = mul nuw nsw i32 %v13, 16
  %v21 = add nuw nsw i32 %v20, %v19
  ; <golden tile_transpose>:1: tile = shared(f32, (16, 17))
  ; <golden tile_transpose>:2: tile[ly, lx] = x[gy * 16 + ly, gx * 16 + lx]
  %v22 = mul i32 %v13, 16
  %v23 = add i32 %v22, %v19
  %v24 = mul i32 %v1, 16
  %v25 = add i32 %v24, %v16
  %v26 = mul nsw i32 %v23, 64
  %v27 = add nsw i32 %v26, %v25
  %v28 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v27
  %v29 = load float, ptr addrspace(1) %v28, align 4
  %v30 = mul nsw i32 %v19, 17
  %v31 = add nsw i32 %v30, %v16
  %v32 = getelementptr inbounds float, ptr addrspace(3) @poot_tile_transpose_tile, i32 %v31
  store float %v29, ptr addrspace(3) %v32, align 4
  ; <golden tile_transpose>:3: barrier()
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ; <golden tile_transpose>:4: y[gx * 16 + ly, gy * 16 + lx] = tile[lx, ly]
  %v33 = mul i32 %v1, 16
  %v34 = add i32 %v33, %v19
  %v35 = mul i32 %v13, 16
  %v36 = add i32 %v35, %v16
  %v37 = mul nsw i32 %v16, 17
  %v38 = add nsw i32 %v37, %v19
  %v39 = getelementptr inbounds float, ptr addrspace(3) @poot_tile_transpose_tile, i32 %v38
  %v40 = load float, ptr addrspace(3) %v39, align 4
  %v41 = mul nsw i32 %v34, 64
  %v42 = add nsw i32 %v41, %v36
  %v43 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v42
  store float %v40, ptr addrspace(1) %v43, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="256" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
