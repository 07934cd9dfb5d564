; tile_transpose: 256 threads a block
target triple = "amdgcn-amd-amdhsa"

@poot_tile_transpose_tile = internal addrspace(3) global [272 x float] undef, align 16

define amdgpu_kernel void @poot_tile_transpose(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 !reqd_work_group_size !1 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.amdgcn.workgroup.id.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.amdgcn.workgroup.id.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.amdgcn.workgroup.id.z()
  %v4 = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %v5 = getelementptr inbounds i8, ptr addrspace(4) %v4, i64 4
  %v6 = load i32, ptr addrspace(4) %v5, align 4
  %v7 = icmp ne i32 %v6, %own.num_groups.y
  br i1 %v7, label %folded9, label %plain8, !prof !0
folded9:
  %v10 = mul nuw i32 %v3, %v6
  %v11 = add nuw i32 %v10, %v2
  %v12 = urem i32 %v11, %own.num_groups.y
  %v13 = udiv i32 %v11, %own.num_groups.y
  %v14 = icmp uge i32 %v13, %own.num_groups.z
  br i1 %v14, label %end, label %plain8
plain8:
  %v15 = phi i32 [ %v2, %entry ], [ %v12, %folded9 ]
  %v16 = phi i32 [ %v3, %entry ], [ %v13, %folded9 ]
  %v17 = call range(i32 0, 256) i32 @llvm.amdgcn.workitem.id.x()
  %v18 = urem i32 %v17, 16
  %v19 = mul nuw nsw i32 %v1, 16
  %v20 = add nuw nsw i32 %v19, %v18
  %v21 = udiv i32 %v17, 16
  %v22 = mul nuw nsw i32 %v15, 16
  %v23 = add nuw nsw i32 %v22, %v21
  ; <golden tile_transpose>:1: tile = shared(f32, (16, 17))
  ; <golden tile_transpose>:2: tile[ly, lx] = x[gy * 16 + ly, gx * 16 + lx]
  %v24 = mul i32 %v15, 16
  %v25 = add i32 %v24, %v21
  %v26 = mul i32 %v1, 16
  %v27 = add i32 %v26, %v18
  %v28 = mul nsw i32 %v25, 64
  %v29 = add nsw i32 %v28, %v27
  %v30 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v29
  %v31 = load float, ptr addrspace(1) %v30, align 4
  %v32 = mul nsw i32 %v21, 17
  %v33 = add nsw i32 %v32, %v18
  %v34 = getelementptr inbounds float, ptr addrspace(3) @poot_tile_transpose_tile, i32 %v33
  store float %v31, ptr addrspace(3) %v34, align 4
  ; <golden tile_transpose>:3: barrier()
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  ; <golden tile_transpose>:4: y[gx * 16 + ly, gy * 16 + lx] = tile[lx, ly]
  %v35 = mul i32 %v1, 16
  %v36 = add i32 %v35, %v21
  %v37 = mul i32 %v15, 16
  %v38 = add i32 %v37, %v18
  %v39 = mul nsw i32 %v18, 17
  %v40 = add nsw i32 %v39, %v21
  %v41 = getelementptr inbounds float, ptr addrspace(3) @poot_tile_transpose_tile, i32 %v40
  %v42 = load float, ptr addrspace(3) %v41, align 4
  %v43 = mul nsw i32 %v36, 64
  %v44 = add nsw i32 %v43, %v38
  %v45 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v44
  store float %v42, ptr addrspace(1) %v45, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}
!1 = !{i32 256, i32 1, i32 1}
!llvm.module.flags = !{!2}
!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}

declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
