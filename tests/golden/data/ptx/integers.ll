; integers: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_integers(ptr addrspace(1) noalias readonly align 4 %arg.x, i32 %arg.x.extent.0, ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %arg.b, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
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
  %v9 = getelementptr inbounds i32, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load i32, ptr addrspace(1) %v9, align 4
  ; <golden integers>:1: y[i] = (a // b) ^ (a % 7) + (a << b)
  %v11 = icmp eq i32 %arg.b, 0
  %v12 = icmp eq i32 %arg.b, -1
  %v13 = select i1 %v11, i32 1, i32 %arg.b
  %v14 = select i1 %v12, i32 1, i32 %v13
  %v15 = sdiv i32 %v10, %v14
  %v16 = mul i32 %v15, %v14
  %v17 = sub i32 %v10, %v16
  %v18 = xor i32 %v17, %v14
  %v19 = icmp slt i32 %v18, 0
  %v20 = icmp ne i32 %v17, 0
  %v21 = and i1 %v20, %v19
  %v22 = sub i32 %v15, 1
  %v23 = select i1 %v21, i32 %v22, i32 %v15
  %v24 = sub i32 0, %v10
  %v25 = select i1 %v12, i32 %v24, i32 %v23
  %v26 = select i1 %v11, i32 0, i32 %v25
  %v27 = srem i32 %v10, 7
  %v28 = icmp slt i32 %v27, 0
  %v29 = add i32 %v27, 7
  %v30 = select i1 %v28, i32 %v29, i32 %v27
  %v31 = icmp ult i32 %arg.b, 32
  %v32 = and i32 %arg.b, 31
  %v33 = shl i32 %v10, %v32
  %v34 = select i1 %v31, i32 %v33, i32 0
  %v35 = add i32 %v30, %v34
  %v36 = xor i32 %v26, %v35
  %v37 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v6
  store i32 %v36, ptr addrspace(1) %v37, align 4
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
