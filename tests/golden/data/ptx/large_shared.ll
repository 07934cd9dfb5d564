; large_shared: 256 threads a block
target triple = "nvptx64-nvidia-cuda"

@poot_large_shared_shared = external addrspace(3) global [0 x i8], align 16

define ptx_kernel void @poot_large_shared(ptr addrspace(1) align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = getelementptr inbounds i8, ptr addrspace(3) @poot_large_shared_shared, i32 0
  %v2 = getelementptr inbounds i8, ptr addrspace(3) @poot_large_shared_shared, i32 65536
  %v3 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v4 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v5 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v6 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %v7 = icmp ne i32 %v6, %own.num_groups.y
  br i1 %v7, label %folded9, label %plain8, !prof !0
folded9:
  %v10 = mul nuw i32 %v5, %v6
  %v11 = add nuw i32 %v10, %v4
  %v12 = urem i32 %v11, %own.num_groups.y
  %v13 = udiv i32 %v11, %own.num_groups.y
  %v14 = icmp uge i32 %v13, %own.num_groups.z
  br i1 %v14, label %end, label %plain8
plain8:
  %v15 = phi i32 [ %v4, %entry ], [ %v12, %folded9 ]
  %v16 = phi i32 [ %v5, %entry ], [ %v13, %folded9 ]
  %v17 = call range(i32 0, 256) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v18 = mul nuw nsw i32 %v3, 256
  %v19 = add nuw nsw i32 %v18, %v17
  ; <golden large_shared>:1: a[i * 64] = i
  %v20 = mul nsw i32 %v17, 64
  %v21 = sitofp i32 %v17 to float
  %v22 = getelementptr inbounds float, ptr addrspace(3) %v1, i32 %v20
  store float %v21, ptr addrspace(3) %v22, align 4
  ; <golden large_shared>:2: atomic_add(b, 1, 1)
  %v23 = getelementptr inbounds i32, ptr addrspace(3) %v2, i64 1
  %v24 = atomicrmw add ptr addrspace(3) %v23, i32 1 syncscope("block") monotonic
  ; <golden large_shared>:3: barrier()
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ; <golden large_shared>:4: y[i] = a[64]
  %v25 = getelementptr inbounds float, ptr addrspace(3) %v1, i64 64
  %v26 = load float, ptr addrspace(3) %v25, align 4
  %v27 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v17
  store float %v26, ptr addrspace(1) %v27, align 4
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
