; scan: 96 threads a block
target triple = "amdgcn-amd-amdhsa"

@poot_warps = internal addrspace(3) global [2 x i64] undef, align 16

define amdgpu_kernel void @poot_scan(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 !reqd_work_group_size !1 {
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
  %v17 = call range(i32 0, 96) i32 @llvm.amdgcn.workitem.id.x()
  %v18 = mul nuw nsw i32 %v1, 96
  %v19 = add nuw nsw i32 %v18, %v17
  ; <golden scan>:1: y[i] = group_scan(x[i])
  %v20 = getelementptr inbounds i32, ptr addrspace(1) %arg.x, i32 %v17
  %v21 = load i32, ptr addrspace(1) %v20, align 4
  %v22 = and i32 %v17, 63
  %v23 = sub i32 %v22, 1
  %v24 = shl i32 %v23, 2
  %v25 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v24, i32 %v21)
  %v26 = add i32 %v25, %v21
  %v27 = icmp uge i32 %v22, 1
  %v28 = select i1 %v27, i32 %v26, i32 %v21
  %v29 = sub i32 %v22, 2
  %v30 = shl i32 %v29, 2
  %v31 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v30, i32 %v28)
  %v32 = add i32 %v31, %v28
  %v33 = icmp uge i32 %v22, 2
  %v34 = select i1 %v33, i32 %v32, i32 %v28
  %v35 = sub i32 %v22, 4
  %v36 = shl i32 %v35, 2
  %v37 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v36, i32 %v34)
  %v38 = add i32 %v37, %v34
  %v39 = icmp uge i32 %v22, 4
  %v40 = select i1 %v39, i32 %v38, i32 %v34
  %v41 = sub i32 %v22, 8
  %v42 = shl i32 %v41, 2
  %v43 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v42, i32 %v40)
  %v44 = add i32 %v43, %v40
  %v45 = icmp uge i32 %v22, 8
  %v46 = select i1 %v45, i32 %v44, i32 %v40
  %v47 = sub i32 %v22, 16
  %v48 = shl i32 %v47, 2
  %v49 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v48, i32 %v46)
  %v50 = add i32 %v49, %v46
  %v51 = icmp uge i32 %v22, 16
  %v52 = select i1 %v51, i32 %v50, i32 %v46
  %v53 = sub i32 %v22, 32
  %v54 = shl i32 %v53, 2
  %v55 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v54, i32 %v52)
  %v56 = add i32 %v55, %v52
  %v57 = icmp uge i32 %v22, 32
  %v58 = select i1 %v57, i32 %v56, i32 %v52
  %v59 = lshr i32 %v17, 6
  %v60 = icmp eq i32 %v59, 1
  %v61 = select i1 %v60, i32 32, i32 64
  %v62 = sub i32 %v61, 1
  %v63 = icmp eq i32 %v22, %v62
  br i1 %v63, label %share64, label %shared65
share64:
  %v66 = getelementptr i32, ptr addrspace(3) @poot_warps, i32 %v59
  store i32 %v58, ptr addrspace(3) %v66, align 4
  br label %shared65
shared65:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %v67 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 0), align 4
  %v68 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 1), align 4
  %v69 = icmp eq i32 %v59, 1
  %v70 = add i32 %v67, %v58
  %v71 = select i1 %v69, i32 %v70, i32 %v58
  %v72 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v17
  store i32 %v71, ptr addrspace(1) %v72, align 4
  ; <golden scan>:2: some = group_any(x[i] < 0)
  %v73 = load i32, ptr addrspace(1) %v20, align 4
  %v74 = icmp slt i32 %v73, 0
  %v75 = call i64 @llvm.amdgcn.ballot.i64(i1 %v74)
  %v76 = icmp ne i64 %v75, 0
  %v77 = zext i1 %v76 to i32
  %v78 = icmp eq i32 %v22, 0
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br i1 %v78, label %share79, label %shared80
share79:
  %v81 = getelementptr i32, ptr addrspace(3) @poot_warps, i32 %v59
  store i32 %v77, ptr addrspace(3) %v81, align 4
  br label %shared80
shared80:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %v82 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 0), align 4
  %v83 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 1), align 4
  %v84 = or i32 %v82, %v83
  %v85 = icmp ne i32 %v84, 0
  br i1 %v85, label %then86, label %joined88
then86:
  ; <golden scan>:3: y[0] = -1
  store i32 -1, ptr addrspace(1) %arg.y, align 4
  br label %joined88
joined88:
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="96,96" "uniform-work-group-size"="true" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}
!1 = !{i32 96, i32 1, i32 1}
!llvm.module.flags = !{!2}
!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}

declare i64 @llvm.amdgcn.ballot.i64(i1)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
