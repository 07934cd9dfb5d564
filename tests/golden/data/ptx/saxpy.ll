; saxpy: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_saxpy(ptr addrspace(1) noalias readonly align 16 %arg.x, i32 %arg.x.extent.0, ptr addrspace(1) noalias align 16 %arg.y, i32 %arg.y.extent.0, float %arg.a, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
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
  ; <golden saxpy>:1: y[i] = a * x[i] + y[i]
  %v9 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load float, ptr addrspace(1) %v9, align 4
  %v11 = fmul float %arg.a, %v10
  %v12 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v6
  %v13 = load float, ptr addrspace(1) %v12, align 4
  %v14 = fadd float %v11, %v13
  store float %v14, ptr addrspace(1) %v12, align 4
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
