; loop_with_exits: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_loop_with_exits(ptr addrspace(1) noalias readonly align 4 %arg.x, i32 %arg.x.extent.0, ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %arg.n, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c9 = alloca i32
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, %own.threads.x
  br i1 %v7, label %active8, label %end
active8:
  ; <golden loop_with_exits>:1: total = 0
  store i32 0, ptr %c9
  ; <golden loop_with_exits>:2: for j in range(0, n, 3):
  %v14 = icmp slt i32 0, %arg.n
  br i1 %v14, label %turn12, label %done11
turn12:
  %count13 = phi i32 [ 0, %active8 ], [ %after15, %next10 ]
  %v16 = getelementptr inbounds i32, ptr addrspace(1) %arg.x, i32 %count13
  %v17 = load i32, ptr addrspace(1) %v16, align 4
  ; <golden loop_with_exits>:3: if v < 0: continue
  %v18 = icmp slt i32 %v17, 0
  br i1 %v18, label %then19, label %joined21
then19:
  br label %next10
joined21:
  ; <golden loop_with_exits>:4: if v > i: break
  %v22 = icmp sgt i32 %v17, %v6
  br i1 %v22, label %then23, label %joined25
then23:
  br label %done11
joined25:
  ; <golden loop_with_exits>:5: total += v
  %v26 = load i32, ptr %c9
  %v27 = add i32 %v26, %v17
  store i32 %v27, ptr %c9
  br label %next10
next10:
  %v28 = sub i32 %arg.n, %count13
  %v29 = icmp ugt i32 %v28, 3
  %after15 = add i32 %count13, 3
  br i1 %v29, label %turn12, label %done11
done11:
  ; <golden loop_with_exits>:6: y[i] = total
  %v30 = load i32, ptr %c9
  %v31 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v6
  store i32 %v30, ptr addrspace(1) %v31, align 4
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
