; grid_3d: 64 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_grid_3d(ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.1, i32 %arg.y.extent.2, i32 %arg.y.stride.0, i32 %arg.y.stride.1, i32 %arg.y.stride.2, i32 %own.threads.x, i32 %own.threads.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
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
  %v15 = call range(i32 0, 64) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v16 = urem i32 %v15, 8
  %v17 = mul nuw nsw i32 %v1, 8
  %v18 = add nuw nsw i32 %v17, %v16
  %v19 = icmp slt i32 %v18, %own.threads.x
  %v20 = udiv i32 %v15, 8
  %v21 = urem i32 %v20, 4
  %v22 = mul nuw nsw i32 %v13, 4
  %v23 = add nuw nsw i32 %v22, %v21
  %v24 = icmp slt i32 %v23, %own.threads.y
  %v25 = and i1 %v19, %v24
  %v26 = udiv i32 %v15, 32
  %v27 = mul nuw nsw i32 %v14, 2
  %v28 = add nuw nsw i32 %v27, %v26
  br i1 %v25, label %active29, label %end
active29:
  ; <golden grid_3d>:1: y[z, y, x] = x + y
  %v30 = add i32 %v23, %v18
  %v31 = sitofp i32 %v30 to float
  %v32 = sext i32 %v28 to i64
  %v33 = sext i32 %arg.y.stride.0 to i64
  %v34 = mul nsw i64 %v32, %v33
  %v35 = sext i32 %v23 to i64
  %v36 = sext i32 %arg.y.stride.1 to i64
  %v37 = mul nsw i64 %v35, %v36
  %v38 = add nsw i64 %v34, %v37
  %v39 = sext i32 %v18 to i64
  %v40 = sext i32 %arg.y.stride.2 to i64
  %v41 = mul nsw i64 %v39, %v40
  %v42 = add nsw i64 %v38, %v41
  %v43 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i64 %v42
  store float %v31, ptr addrspace(1) %v43, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="64" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
