; private_registers: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_private_registers(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) noalias align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c1 = alloca [4 x float], align 16
  %v2 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v4 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v5 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v6 = mul nuw nsw i32 %v2, 128
  %v7 = add nuw nsw i32 %v6, %v5
  ; <golden private_registers>:1: acc = private(f32, 4)
  ; <golden private_registers>:2: acc[0] = x[0, i]
  %v8 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v7
  %v9 = load float, ptr addrspace(1) %v8, align 4
  store float %v9, ptr %c1, align 4
  ; <golden private_registers>:3: acc[1] = x[1, i]
  %v10 = getelementptr inbounds float, ptr addrspace(1) %v8, i64 256
  %v11 = load float, ptr addrspace(1) %v10, align 4
  %v12 = getelementptr inbounds float, ptr %c1, i64 1
  store float %v11, ptr %v12, align 4
  ; <golden private_registers>:4: acc[2] = x[2, i]
  %v13 = getelementptr inbounds float, ptr addrspace(1) %v8, i64 512
  %v14 = load float, ptr addrspace(1) %v13, align 4
  %v15 = getelementptr inbounds float, ptr %c1, i64 2
  store float %v14, ptr %v15, align 4
  ; <golden private_registers>:5: acc[3] = x[3, i]
  %v16 = getelementptr inbounds float, ptr addrspace(1) %v8, i64 768
  %v17 = load float, ptr addrspace(1) %v16, align 4
  %v18 = getelementptr inbounds float, ptr %c1, i64 3
  store float %v17, ptr %v18, align 4
  ; <golden private_registers>:6: y[i] = acc[0] + acc[3]
  %v19 = load float, ptr %c1, align 4
  %v20 = load float, ptr %v18, align 4
  %v21 = fadd float %v19, %v20
  %v22 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v7
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
