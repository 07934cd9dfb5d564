; mandelbrot: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_mandelbrot(ptr addrspace(1) noalias align 4 %arg.y, i32 %arg.y.extent.0, i32 %own.threads.x, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c12 = alloca float
  %c13 = alloca i32
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = icmp slt i32 %v6, %own.threads.x
  br i1 %v7, label %active8, label %end
active8:
  ; <golden mandelbrot>:1: c = i / 1024 - 1.5
  %v9 = sitofp i32 %v6 to float
  %v10 = fmul float %v9, 0x3F50000000000000
  %v11 = fsub float %v10, 0x3FF8000000000000
  store float 0x0000000000000000, ptr %c12
  store i32 0, ptr %c13
  ; <golden mandelbrot>:2: while z * z < 4 and count < 100:
  br label %while14
while14:
  %v17 = load float, ptr %c12
  %v18 = load float, ptr %c12
  %v19 = fmul float %v17, %v18
  %v20 = fcmp olt float %v19, 0x4010000000000000
  %v21 = load i32, ptr %c13
  %v22 = icmp slt i32 %v21, 100
  %v23 = and i1 %v20, %v22
  br i1 %v23, label %turn16, label %done15
turn16:
  ; <golden mandelbrot>:3: z = z * z + c
  %v24 = load float, ptr %c12
  %v25 = load float, ptr %c12
  %v26 = fmul float %v24, %v25
  %v27 = fadd float %v26, %v11
  store float %v27, ptr %c12
  ; <golden mandelbrot>:4: count += 1
  %v28 = load i32, ptr %c13
  %v29 = add i32 %v28, 1
  store i32 %v29, ptr %c13
  br label %while14
done15:
  ; <golden mandelbrot>:5: y[i] = count
  %v30 = load i32, ptr %c13
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
