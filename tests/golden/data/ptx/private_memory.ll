; private_memory: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_private_memory(ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.n, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c1 = alloca [8 x i32], align 16
  %v2 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v4 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v5 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v6 = mul nuw nsw i32 %v2, 128
  %v7 = add nuw nsw i32 %v6, %v5
  ; <golden private_memory>:1: for j in range(8): acc[j] = j * i
  %v12 = icmp slt i32 0, 8
  br i1 %v12, label %turn10, label %done9
turn10:
  %count11 = phi i32 [ 0, %entry ], [ %after13, %next8 ]
  %v14 = mul nsw i32 %count11, %v7
  %v15 = getelementptr inbounds i32, ptr %c1, i32 %count11
  store i32 %v14, ptr %v15, align 4
  br label %next8
next8:
  %after13 = add nsw i32 %count11, 1
  %v16 = icmp slt i32 %after13, 8
  br i1 %v16, label %turn10, label %done9
done9:
  ; <golden private_memory>:2: y[i] = acc[n]
  %v17 = icmp ult i32 %arg.n, 8
  br i1 %v17, label %inside18, label %outside19
inside18:
  %v21 = getelementptr inbounds i32, ptr %c1, i32 %arg.n
  %v22 = load i32, ptr %v21, align 4
  br label %loaded20
outside19:
  %v23 = sext i32 %arg.n to i64
  call void @poot.fault(ptr addrspace(1) %own.fault, i32 %own.launch, i32 0, i32 0, i64 %v23, i64 8)
  br label %loaded20
loaded20:
  %v24 = phi i32 [ %v22, %inside18 ], [ 0, %outside19 ]
  %v25 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v7
  store i32 %v24, ptr addrspace(1) %v25, align 4
  br label %end
end:
  ret void
}

define internal void @poot.fault(ptr addrspace(1) %record, i32 %launch, i32 %site, i32 %axis, i64 %index, i64 %end) #1 {
  %claim = cmpxchg ptr addrspace(1) %record, i32 0, i32 1 syncscope("device") monotonic monotonic
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

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
