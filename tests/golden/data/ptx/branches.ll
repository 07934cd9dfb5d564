; branches: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_branches(ptr addrspace(1) noalias readonly align 4 %arg.x, i32 %arg.x.extent.0, ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c11 = alloca float
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, %own.threads.x
  br i1 %v7, label %active8, label %end
active8:
  %v9 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load float, ptr addrspace(1) %v9, align 4
  store float %v10, ptr %c11
  ; <golden branches>:1: if v < 0:
  %v12 = load float, ptr %c11
  %v13 = fcmp olt float %v12, 0x0000000000000000
  br i1 %v13, label %then14, label %else15
then14:
  ; <golden branches>:2: v = -v
  %v17 = load float, ptr %c11
  %v18 = fneg float %v17
  store float %v18, ptr %c11
  br label %joined16
else15:
  ; <golden branches>:3: v = v + 1
  %v19 = load float, ptr %c11
  %v20 = fadd float %v19, 0x3FF0000000000000
  store float %v20, ptr %c11
  br label %joined16
joined16:
  ; <golden branches>:4: y[i] = v
  %v21 = load float, ptr %c11
  %v22 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v6
  store float %v21, ptr addrspace(1) %v22, align 4
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
