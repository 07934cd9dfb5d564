; halves: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_halves(ptr addrspace(1) noalias readonly align 2 %arg.x, ptr addrspace(1) noalias align 2 %arg.y, ptr addrspace(1) noalias align 2 %arg.z, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, 1000
  br i1 %v7, label %active8, label %end
active8:
  ; <golden halves>:1: v = x[i] * x[i]
  %v9 = getelementptr inbounds i16, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load i16, ptr addrspace(1) %v9, align 2
  %v11 = zext i16 %v10 to i32
  %v12 = shl i32 %v11, 16
  %v13 = bitcast i32 %v12 to float
  %v14 = load i16, ptr addrspace(1) %v9, align 2
  %v15 = zext i16 %v14 to i32
  %v16 = shl i32 %v15, 16
  %v17 = bitcast i32 %v16 to float
  %v18 = fmul float %v13, %v17
  %v19 = fptrunc float %v18 to bfloat
  %v20 = bitcast bfloat %v19 to i16
  ; <golden halves>:2: y[i] = f16(v)
  %v21 = zext i16 %v20 to i32
  %v22 = shl i32 %v21, 16
  %v23 = bitcast i32 %v22 to float
  %v24 = fptrunc float %v23 to half
  %v25 = bitcast half %v24 to i16
  %v26 = getelementptr inbounds i16, ptr addrspace(1) %arg.y, i32 %v6
  store i16 %v25, ptr addrspace(1) %v26, align 2
  ; <golden halves>:3: z[i] = v + 1
  %v27 = zext i16 %v20 to i32
  %v28 = shl i32 %v27, 16
  %v29 = bitcast i32 %v28 to float
  %v30 = fadd float %v29, 0x3FF0000000000000
  %v31 = fptrunc float %v30 to bfloat
  %v32 = bitcast bfloat %v31 to i16
  %v33 = getelementptr inbounds i16, ptr addrspace(1) %arg.z, i32 %v6
  store i16 %v32, ptr addrspace(1) %v33, align 2
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
