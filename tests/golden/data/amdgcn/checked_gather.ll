; checked_gather: 128 threads a block
target triple = "amdgcn-amd-amdhsa"

define amdgpu_kernel void @poot_checked_gather(ptr addrspace(1) noalias readonly align 4 %arg.x, i32 %arg.x.extent.0, i32 %arg.x.extent.1, i32 %arg.x.stride.0, ptr addrspace(1) noalias readonly align 4 %arg.at, i32 %arg.at.extent.0, ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 !reqd_work_group_size !1 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.amdgcn.workgroup.id.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.amdgcn.workgroup.id.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.amdgcn.workgroup.id.z()
  %v4 = call range(i32 0, 128) i32 @llvm.amdgcn.workitem.id.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, %own.threads.x
  br i1 %v7, label %active8, label %end
active8:
  ; <golden checked_gather>:1: y[i] = x[at[i, 0], at[i, 1]]
  %v9 = icmp ult i32 %v6, %arg.at.extent.0
  br i1 %v9, label %inside10, label %outside11
inside10:
  %v13 = sext i32 %v6 to i64
  %v14 = mul nsw i64 %v13, 2
  %v15 = getelementptr inbounds i32, ptr addrspace(1) %arg.at, i64 %v14
  %v16 = load i32, ptr addrspace(1) %v15, align 4
  br label %loaded12
outside11:
  %v17 = sext i32 %v6 to i64
  %v18 = sext i32 %arg.at.extent.0 to i64
  %v19 = icmp uge i64 %v17, %v18
  %v20 = select i1 %v19, i32 0, i32 1
  %v21 = select i1 %v19, i64 %v17, i64 0
  %v22 = select i1 %v19, i64 %v18, i64 2
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 0, i32 %v20, i64 %v21, i64 %v22)
  br label %loaded12
loaded12:
  %v23 = phi i32 [ %v16, %inside10 ], [ 0, %outside11 ]
  %v24 = icmp ult i32 %v6, %arg.at.extent.0
  br i1 %v24, label %inside25, label %outside26
inside25:
  %v28 = sext i32 %v6 to i64
  %v29 = mul nsw i64 %v28, 2
  %v30 = getelementptr inbounds i32, ptr addrspace(1) %arg.at, i64 %v29
  %v31 = getelementptr inbounds i32, ptr addrspace(1) %v30, i64 1
  %v32 = load i32, ptr addrspace(1) %v31, align 4
  br label %loaded27
outside26:
  %v33 = sext i32 %v6 to i64
  %v34 = sext i32 %arg.at.extent.0 to i64
  %v35 = icmp uge i64 %v33, %v34
  %v36 = select i1 %v35, i32 0, i32 1
  %v37 = select i1 %v35, i64 %v33, i64 1
  %v38 = select i1 %v35, i64 %v34, i64 2
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 1, i32 %v36, i64 %v37, i64 %v38)
  br label %loaded27
loaded27:
  %v39 = phi i32 [ %v32, %inside25 ], [ 0, %outside26 ]
  %v40 = icmp ult i32 %v23, %arg.x.extent.0
  %v41 = icmp ult i32 %v39, %arg.x.extent.1
  %v42 = and i1 %v40, %v41
  br i1 %v42, label %inside43, label %outside44
inside43:
  %v46 = sext i32 %v23 to i64
  %v47 = sext i32 %arg.x.stride.0 to i64
  %v48 = mul nsw i64 %v46, %v47
  %v49 = sext i32 %v39 to i64
  %v50 = add nsw i64 %v48, %v49
  %v51 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i64 %v50
  %v52 = load float, ptr addrspace(1) %v51, align 4
  br label %loaded45
outside44:
  %v53 = sext i32 %v39 to i64
  %v54 = sext i32 %arg.x.extent.1 to i64
  %v55 = sext i32 %v23 to i64
  %v56 = sext i32 %arg.x.extent.0 to i64
  %v57 = icmp uge i64 %v55, %v56
  %v58 = select i1 %v57, i32 0, i32 1
  %v59 = select i1 %v57, i64 %v55, i64 %v53
  %v60 = select i1 %v57, i64 %v56, i64 %v54
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 3, i32 %v58, i64 %v59, i64 %v60)
  br label %loaded45
loaded45:
  %v61 = phi float [ %v52, %inside43 ], [ 0.0, %outside44 ]
  %v62 = icmp ult i32 %v6, %arg.y.extent.0
  br i1 %v62, label %inside63, label %outside64
inside63:
  %v66 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v6
  store float %v61, ptr addrspace(1) %v66, align 4
  br label %stored65
outside64:
  %v67 = sext i32 %v6 to i64
  %v68 = sext i32 %arg.y.extent.0 to i64
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 2, i32 0, i64 %v67, i64 %v68)
  br label %stored65
stored65:
  ; <golden checked_gather>:2: assert at[i, 0] < 1000, 'small'
  %v69 = icmp slt i32 %v23, 1000
  %v72 = xor i1 %v69, true
  br i1 %v72, label %failed70, label %held71, !prof !0
failed70:
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 4, i32 0, i64 0, i64 0)
  br label %held71
held71:
  br label %end
end:
  ret void
}

define internal void @poot.fault(ptr addrspace(1) %record, i32 %launch, i32 %site, i32 %axis, i64 %index, i64 %end) #1 {
  %claim = cmpxchg ptr addrspace(1) %record, i32 0, i32 1 syncscope("agent") monotonic monotonic
  %won = extractvalue { i32, i1 } %claim, 1
  br i1 %won, label %write, label %done
write:
  %p1 = getelementptr i8, ptr addrspace(1) %record, i64 4
  store i32 %launch, ptr addrspace(1) %p1, align 4
  %p2 = getelementptr i8, ptr addrspace(1) %record, i64 8
  store i32 %site, ptr addrspace(1) %p2, align 4
  %p3 = getelementptr i8, ptr addrspace(1) %record, i64 12
  store i32 %axis, ptr addrspace(1) %p3, align 4
  %p4 = getelementptr i8, ptr addrspace(1) %record, i64 16
  store i64 %index, ptr addrspace(1) %p4, align 4
  %p6 = getelementptr i8, ptr addrspace(1) %record, i64 24
  store i64 %end, ptr addrspace(1) %p6, align 4
  br label %done
done:
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="128,128" "uniform-work-group-size"="true" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}
!1 = !{i32 128, i32 1, i32 1}
!llvm.module.flags = !{!2}
!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
