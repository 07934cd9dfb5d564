; rounding: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_rounding(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) noalias align 4 %arg.y_floor, ptr addrspace(1) noalias align 4 %arg.y_ceil, ptr addrspace(1) noalias align 4 %arg.y_trunc, ptr addrspace(1) noalias align 4 %arg.y_round, ptr addrspace(1) noalias align 4 %arg.y_sqrt, ptr addrspace(1) noalias align 4 %arg.y_neg, ptr addrspace(1) noalias align 4 %arg.y_abs, ptr addrspace(1) noalias align 4 %arg.least, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v6
  %v8 = load float, ptr addrspace(1) %v7, align 4
  ; <golden rounding>:1: floor[i] = floor(a)
  %v9 = call float @llvm.floor.f32(float %v8)
  %v10 = getelementptr inbounds float, ptr addrspace(1) %arg.y_floor, i32 %v6
  store float %v9, ptr addrspace(1) %v10, align 4
  ; <golden rounding>:2: ceil[i] = ceil(a)
  %v11 = call float @llvm.ceil.f32(float %v8)
  %v12 = getelementptr inbounds float, ptr addrspace(1) %arg.y_ceil, i32 %v6
  store float %v11, ptr addrspace(1) %v12, align 4
  ; <golden rounding>:3: trunc[i] = trunc(a)
  %v13 = call float @llvm.trunc.f32(float %v8)
  %v14 = getelementptr inbounds float, ptr addrspace(1) %arg.y_trunc, i32 %v6
  store float %v13, ptr addrspace(1) %v14, align 4
  ; <golden rounding>:4: round[i] = round(a)
  %v15 = call float @llvm.roundeven.f32(float %v8)
  %v16 = getelementptr inbounds float, ptr addrspace(1) %arg.y_round, i32 %v6
  store float %v15, ptr addrspace(1) %v16, align 4
  ; <golden rounding>:5: sqrt[i] = sqrt(a)
  %v17 = call float @llvm.sqrt.f32(float %v8)
  %v18 = getelementptr inbounds float, ptr addrspace(1) %arg.y_sqrt, i32 %v6
  store float %v17, ptr addrspace(1) %v18, align 4
  ; <golden rounding>:6: neg[i] = neg(a)
  %v19 = fneg float %v8
  %v20 = getelementptr inbounds float, ptr addrspace(1) %arg.y_neg, i32 %v6
  store float %v19, ptr addrspace(1) %v20, align 4
  ; <golden rounding>:7: abs[i] = abs(a)
  %v21 = call float @llvm.fabs.f32(float %v8)
  %v22 = getelementptr inbounds float, ptr addrspace(1) %arg.y_abs, i32 %v6
  store float %v21, ptr addrspace(1) %v22, align 4
  ; <golden rounding>:8: least[i] = min(a, 1 / a)
  %v23 = fdiv float 0x3FF0000000000000, %v8
  %v24 = call float @llvm.minimum.f32(float %v8, float %v23)
  %v25 = getelementptr inbounds float, ptr addrspace(1) %arg.least, i32 %v6
  store float %v24, ptr addrspace(1) %v25, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare float @llvm.ceil.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.floor.f32(float)
declare float @llvm.minimum.f32(float, float)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @llvm.roundeven.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.trunc.f32(float)
