; wide_indices: 256 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_wide_indices(ptr addrspace(1) noalias readonly align 4 %arg.x, i64 %arg.x.extent.0, ptr addrspace(1) noalias align 4 %arg.y, i64 %arg.y.extent.0, i64 %own.threads.x, i64 %own.num_groups.x, i64 %own.num_groups.y, i64 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = zext i32 %v1 to i64
  %v5 = zext i32 %v2 to i64
  %v6 = zext i32 %v3 to i64
  %v7 = call range(i32 0, 256) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v8 = zext i32 %v7 to i64
  %v9 = mul nuw nsw i64 %v4, 256
  %v10 = add nuw nsw i64 %v9, %v8
  %v11 = icmp slt i64 %v10, %own.threads.x
  br i1 %v11, label %active12, label %end
active12:
  ; <golden wide_indices>:1: y[i] = x[2 * i]
  %v13 = mul i64 %v10, 2
  %v14 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i64 %v13
  %v15 = load float, ptr addrspace(1) %v14, align 4
  %v16 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i64 %v10
  store float %v15, ptr addrspace(1) %v16, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="256" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
