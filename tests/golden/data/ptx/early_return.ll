; early_return: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_early_return(ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %arg.n, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
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
  ; <golden early_return>:1: if i % n == 0: return
  %v9 = icmp eq i32 %arg.n, 0
  %v10 = icmp eq i32 %arg.n, -1
  %v11 = select i1 %v9, i32 1, i32 %arg.n
  %v12 = select i1 %v10, i32 1, i32 %v11
  %v13 = sdiv i32 %v6, %v12
  %v14 = mul i32 %v13, %v12
  %v15 = sub i32 %v6, %v14
  %v16 = xor i32 %v15, %v12
  %v17 = icmp slt i32 %v16, 0
  %v18 = icmp ne i32 %v15, 0
  %v19 = and i1 %v18, %v17
  %v20 = sub i32 %v13, 1
  %v21 = select i1 %v19, i32 %v20, i32 %v13
  %v22 = sub i32 0, %v6
  %v23 = select i1 %v10, i32 %v22, i32 %v21
  %v24 = select i1 %v9, i32 0, i32 %v23
  %v25 = mul i32 %v24, %arg.n
  %v26 = sub i32 %v6, %v25
  %v27 = icmp eq i32 %arg.n, 0
  %v28 = select i1 %v27, i32 0, i32 %v26
  %v29 = icmp eq i32 %v28, 0
  br i1 %v29, label %then30, label %joined32
then30:
  br label %end
joined32:
  ; <golden early_return>:2: y[i] = i
  %v33 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v6
  store i32 %v6, ptr addrspace(1) %v33, align 4
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
