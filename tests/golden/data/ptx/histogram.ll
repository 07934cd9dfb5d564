; histogram: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_histogram(ptr addrspace(1) noalias readonly align 1 %arg.x, i32 %arg.x.extent.0, ptr addrspace(1) noalias align 4 %arg.bins, ptr addrspace(1) noalias align 4 %arg.last, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, %own.threads.x
  br i1 %v7, label %active8, label %end
active8:
  ; <golden histogram>:1: atomic_add(bins, x[i], 1)
  %v9 = getelementptr inbounds i8, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load i8, ptr addrspace(1) %v9, align 1
  %v11 = zext i8 %v10 to i32
  %v12 = getelementptr inbounds i32, ptr addrspace(1) %arg.bins, i32 %v11
  %v13 = atomicrmw add ptr addrspace(1) %v12, i32 1 syncscope("device") monotonic
  ; <golden histogram>:2: old = atomic_exchange(last, 0, 1.5)
  %v14 = atomicrmw xchg ptr addrspace(1) %arg.last, float 0x3FF8000000000000 syncscope("device") monotonic
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
