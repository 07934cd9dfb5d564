; narrow_integers: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_narrow_integers(ptr addrspace(1) noalias readonly align 1 %arg.x, ptr addrspace(1) noalias align 1 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, 300
  br i1 %v7, label %active8, label %end
active8:
  %v9 = getelementptr inbounds i8, ptr addrspace(1) %arg.x, i32 %v6
  %v10 = load i8, ptr addrspace(1) %v9, align 1
  ; <golden narrow_integers>:1: y[i] = u8(popcount(a) + clz(a)) >> 1
  %v11 = call i8 @llvm.ctpop.i8(i8 %v10)
  %v12 = call i8 @llvm.ctlz.i8(i8 %v10, i1 false)
  %v13 = add i8 %v11, %v12
  %v14 = icmp ult i8 1, 8
  %v15 = and i8 1, 7
  %v16 = lshr i8 %v13, %v15
  %v17 = select i1 %v14, i8 %v16, i8 0
  %v18 = getelementptr inbounds i8, ptr addrspace(1) %arg.y, i32 %v6
  store i8 %v17, ptr addrspace(1) %v18, align 1
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i8 @llvm.ctlz.i8(i8, i1)
declare i8 @llvm.ctpop.i8(i8)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
