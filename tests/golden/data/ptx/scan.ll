; scan: 96 threads a block
target triple = "nvptx64-nvidia-cuda"

@poot_warps = internal addrspace(3) global [3 x i64] undef, align 16

define ptx_kernel void @poot_scan(ptr addrspace(1) noalias readonly align 4 %arg.x, ptr addrspace(1) align 4 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %v5 = icmp ne i32 %v4, %own.num_groups.y
  br i1 %v5, label %folded7, label %plain6, !prof !0
folded7:
  %v8 = mul nuw i32 %v3, %v4
  %v9 = add nuw i32 %v8, %v2
  %v10 = urem i32 %v9, %own.num_groups.y
  %v11 = udiv i32 %v9, %own.num_groups.y
  %v12 = icmp uge i32 %v11, %own.num_groups.z
  br i1 %v12, label %end, label %plain6
plain6:
  %v13 = phi i32 [ %v2, %entry ], [ %v10, %folded7 ]
  %v14 = phi i32 [ %v3, %entry ], [ %v11, %folded7 ]
  %v15 = call range(i32 0, 96) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v16 = mul nuw nsw i32 %v1, 96
  %v17 = add nuw nsw i32 %v16, %v15
  ; <golden scan>:1: y[i] = group_scan(x[i])
  %v18 = getelementptr inbounds i32, ptr addrspace(1) %arg.x, i32 %v15
  %v19 = load i32, ptr addrspace(1) %v18, align 4
  %v20 = call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %v21 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v19, i32 1, i32 0)
  %v22 = add i32 %v21, %v19
  %v23 = icmp uge i32 %v20, 1
  %v24 = select i1 %v23, i32 %v22, i32 %v19
  %v25 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v24, i32 2, i32 0)
  %v26 = add i32 %v25, %v24
  %v27 = icmp uge i32 %v20, 2
  %v28 = select i1 %v27, i32 %v26, i32 %v24
  %v29 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v28, i32 4, i32 0)
  %v30 = add i32 %v29, %v28
  %v31 = icmp uge i32 %v20, 4
  %v32 = select i1 %v31, i32 %v30, i32 %v28
  %v33 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v32, i32 8, i32 0)
  %v34 = add i32 %v33, %v32
  %v35 = icmp uge i32 %v20, 8
  %v36 = select i1 %v35, i32 %v34, i32 %v32
  %v37 = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %v36, i32 16, i32 0)
  %v38 = add i32 %v37, %v36
  %v39 = icmp uge i32 %v20, 16
  %v40 = select i1 %v39, i32 %v38, i32 %v36
  %v41 = sub i32 32, 1
  %v42 = icmp eq i32 %v20, %v41
  br i1 %v42, label %share43, label %shared44
share43:
  %v45 = lshr i32 %v15, 5
  %v46 = getelementptr i32, ptr addrspace(3) @poot_warps, i32 %v45
  store i32 %v40, ptr addrspace(3) %v46, align 4
  br label %shared44
shared44:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %v47 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 0), align 4
  %v48 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 1), align 4
  %v49 = load i32, ptr addrspace(3) getelementptr (i32, ptr addrspace(3) @poot_warps, i32 2), align 4
  %v50 = add i32 %v47, %v48
  %v51 = lshr i32 %v15, 5
  %v52 = icmp eq i32 %v51, 1
  %v53 = add i32 %v47, %v40
  %v54 = select i1 %v52, i32 %v53, i32 %v40
  %v55 = icmp eq i32 %v51, 2
  %v56 = add i32 %v50, %v54
  %v57 = select i1 %v55, i32 %v56, i32 %v54
  %v58 = getelementptr inbounds i32, ptr addrspace(1) %arg.y, i32 %v15
  store i32 %v57, ptr addrspace(1) %v58, align 4
  ; <golden scan>:2: some = group_any(x[i] < 0)
  %v59 = load i32, ptr addrspace(1) %v18, align 4
  %v60 = icmp slt i32 %v59, 0
  %v61 = call i1 @llvm.nvvm.barrier.cta.red.or.aligned.all(i32 0, i1 %v60)
  br i1 %v61, label %then62, label %joined64
then62:
  ; <golden scan>:3: y[0] = -1
  store i32 -1, ptr addrspace(1) %arg.y, align 4
  br label %joined64
joined64:
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="96" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare i1 @llvm.nvvm.barrier.cta.red.or.aligned.all(i32, i1)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
