; casts: 128 threads a block
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @poot_casts(ptr addrspace(1) noalias readonly align 8 %arg.x, ptr addrspace(1) noalias align 1 %arg.to_bool, ptr addrspace(1) noalias align 1 %arg.to_i8, ptr addrspace(1) noalias align 8 %arg.to_i64, ptr addrspace(1) noalias align 4 %arg.to_u32, ptr addrspace(1) noalias align 2 %arg.to_f16, ptr addrspace(1) noalias align 2 %arg.to_bf16, ptr addrspace(1) noalias align 4 %arg.to_f32, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %v1 = call range(i32 0, -2147483648) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %v3 = call range(i32 0, 65536) i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %v4 = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = mul nuw nsw i32 %v1, 128
  %v6 = add nuw nsw i32 %v5, %v4
  %v7 = getelementptr inbounds double, ptr addrspace(1) %arg.x, i32 %v6
  %v8 = load double, ptr addrspace(1) %v7, align 8
  ; <golden casts>:1: to_bool[i] = bool(a)
  %v9 = fcmp une double %v8, 0.0
  %v10 = getelementptr inbounds i8, ptr addrspace(1) %arg.to_bool, i32 %v6
  %v11 = zext i1 %v9 to i8
  store i8 %v11, ptr addrspace(1) %v10, align 1
  ; <golden casts>:2: to_i8[i] = i8(a)
  %v12 = fcmp ord double %v8, %v8
  %v13 = fcmp olt double %v8, 0x405FC00000000000
  %v14 = select i1 %v13, double %v8, double 0x405FC00000000000
  %v15 = fcmp ogt double %v14, 0xC060000000000000
  %v16 = select i1 %v15, double %v14, double 0xC060000000000000
  %v17 = select i1 %v12, double %v16, double 0.0
  %v18 = fptosi double %v17 to i32
  %v19 = trunc i32 %v18 to i8
  %v20 = getelementptr inbounds i8, ptr addrspace(1) %arg.to_i8, i32 %v6
  store i8 %v19, ptr addrspace(1) %v20, align 1
  ; <golden casts>:3: to_i64[i] = i64(a)
  %v21 = fcmp ord double %v8, %v8
  %v22 = fptosi double %v8 to i64
  %v23 = freeze i64 %v22
  %v24 = fcmp oge double %v8, 0x43E0000000000000
  %v25 = fcmp ole double %v8, 0xC3E0000000000000
  %v26 = select i1 %v24, i64 9223372036854775807, i64 %v23
  %v27 = select i1 %v25, i64 -9223372036854775808, i64 %v26
  %v28 = select i1 %v21, i64 %v27, i64 0
  %v29 = getelementptr inbounds i64, ptr addrspace(1) %arg.to_i64, i32 %v6
  store i64 %v28, ptr addrspace(1) %v29, align 8
  ; <golden casts>:4: to_u32[i] = u32(a)
  %v30 = fcmp ord double %v8, %v8
  %v31 = fcmp olt double %v8, 0x41EFFFFFFFE00000
  %v32 = select i1 %v31, double %v8, double 0x41EFFFFFFFE00000
  %v33 = fcmp ogt double %v32, 0x0000000000000000
  %v34 = select i1 %v33, double %v32, double 0x0000000000000000
  %v35 = select i1 %v30, double %v34, double 0.0
  %v36 = fptoui double %v35 to i32
  %v37 = getelementptr inbounds i32, ptr addrspace(1) %arg.to_u32, i32 %v6
  store i32 %v36, ptr addrspace(1) %v37, align 4
  ; <golden casts>:5: to_f16[i] = f16(a)
  %v38 = fptrunc double %v8 to float
  %v39 = fpext float %v38 to double
  %v40 = bitcast float %v38 to i32
  %v41 = and i32 %v40, 1
  %v42 = icmp eq i32 %v41, 0
  %v43 = fcmp one double %v39, %v8
  %v44 = and i1 %v42, %v43
  %v45 = call double @llvm.fabs.f64(double %v39)
  %v46 = call double @llvm.fabs.f64(double %v8)
  %v47 = fcmp olt double %v45, %v46
  %v48 = select i1 %v47, i32 1, i32 -1
  %v49 = add i32 %v40, %v48
  %v50 = select i1 %v44, i32 %v49, i32 %v40
  %v51 = bitcast i32 %v50 to float
  %v52 = fptrunc float %v51 to half
  %v53 = bitcast half %v52 to i16
  %v54 = getelementptr inbounds i16, ptr addrspace(1) %arg.to_f16, i32 %v6
  store i16 %v53, ptr addrspace(1) %v54, align 2
  ; <golden casts>:6: to_bf16[i] = bf16(a)
  %v55 = fptrunc double %v8 to float
  %v56 = fpext float %v55 to double
  %v57 = bitcast float %v55 to i32
  %v58 = and i32 %v57, 1
  %v59 = icmp eq i32 %v58, 0
  %v60 = fcmp one double %v56, %v8
  %v61 = and i1 %v59, %v60
  %v62 = call double @llvm.fabs.f64(double %v56)
  %v63 = call double @llvm.fabs.f64(double %v8)
  %v64 = fcmp olt double %v62, %v63
  %v65 = select i1 %v64, i32 1, i32 -1
  %v66 = add i32 %v57, %v65
  %v67 = select i1 %v61, i32 %v66, i32 %v57
  %v68 = bitcast i32 %v67 to float
  %v69 = fptrunc float %v68 to bfloat
  %v70 = bitcast bfloat %v69 to i16
  %v71 = getelementptr inbounds i16, ptr addrspace(1) %arg.to_bf16, i32 %v6
  store i16 %v70, ptr addrspace(1) %v71, align 2
  ; <golden casts>:7: to_f32[i] = f32(a)
  %v72 = fptrunc double %v8 to float
  %v73 = getelementptr inbounds float, ptr addrspace(1) %arg.to_f32, i32 %v6
  store float %v72, ptr addrspace(1) %v73, align 4
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="128" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare double @llvm.fabs.f64(double)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
