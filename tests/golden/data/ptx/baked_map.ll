; baked_map: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_baked_map(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) noalias align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = ashr i32 %v6, 6
  %v8 = and i32 %v6, 63
  ; <golden baked_map>:1: y[row, column] = max(x[column, row], 0)
  %v9 = mul nsw i32 %v8, 64
  %v10 = add nsw i32 %v9, %v7
  %v11 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v10
  %v12 = load float, ptr addrspace(1) %v11, align 4
  %v13 = call float @llvm.maximum.f32(float %v12, float 0x0000000000000000)
  %v14 = mul nsw i32 %v7, 64
  %v15 = add nsw i32 %v14, %v8
  %v16 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v15
  store float %v13, ptr addrspace(1) %v16, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare float @llvm.maximum.f32(float, float)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
