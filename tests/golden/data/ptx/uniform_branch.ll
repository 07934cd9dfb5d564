; uniform_branch: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_uniform_branch(ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.n, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c7 = alloca i32
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  ; <golden uniform_branch>:1: total = 0
  store i32 0, ptr %c7
  ; <golden uniform_branch>:2: if n > 3:
  %v8 = icmp sgt i32 %arg.n, 3
  br i1 %v8, label %then9, label %joined11
then9:
  ; <golden uniform_branch>:3: total = n * 2
  %v12 = mul i32 %arg.n, 2
  store i32 %v12, ptr %c7
  br label %joined11
joined11:
  ; <golden uniform_branch>:4: y[i] = total
  %v13 = load i32, ptr %c7
  %v14 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v6
  store i32 %v13, ptr addrspace(1) %v14, align 4
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
