; row_softmax: 256 threads a block
target triple = "nvptx64-nvidia-cuda"

@poot_warps = internal addrspace(3) global [8 x i64] undef, align 16

define ptx_kernel void @poot_row_softmax(ptr addrspace(1) noalias readonly align 16 %arg.x, ptr addrspace(1) align 16 %arg.y, i32 %own.num_groups.x, i32 %own.num_groups.y, i32 %own.num_groups.z, i32 %own.launch, ptr addrspace(1) %own.fault) #0 {
entry:
  %c18 = alloca float
  %c75 = alloca float
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
  %v15 = call range(i32 0, 256) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v16 = mul nuw nsw i32 %v1, 256
  %v17 = add nuw nsw i32 %v16, %v15
  store float 0xFFF0000000000000, ptr %c18
  ; <golden row_softmax>:1: for k0 in range(0, 1024, 256): top = max(top, x[row, k0 + lane])
  %v23 = icmp slt i32 0, 1024
  br i1 %v23, label %turn21, label %done20
turn21:
  %count22 = phi i32 [ 0, %plain6 ], [ %after24, %next19 ]
  %v25 = load float, ptr %c18
  %v26 = add nsw i32 %count22, %v15
  %v27 = mul nsw i32 %v1, 1024
  %v28 = add nsw i32 %v27, %v26
  %v29 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v28
  %v30 = load float, ptr addrspace(1) %v29, align 4
  %v31 = call float @llvm.maximum.f32(float %v25, float %v30)
  store float %v31, ptr %c18
  br label %next19
next19:
  %after24 = add nsw i32 %count22, 256
  %v32 = icmp slt i32 %after24, 1024
  br i1 %v32, label %turn21, label %done20
done20:
  ; <golden row_softmax>:2: top = group_max(top)
  %v33 = load float, ptr %c18
  %v34 = call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %v35 = bitcast float %v33 to i32
  %v36 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v35, i32 16, i32 31)
  %v37 = bitcast i32 %v36 to float
  %v38 = call float @llvm.maximum.f32(float %v33, float %v37)
  %v39 = bitcast float %v38 to i32
  %v40 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v39, i32 8, i32 31)
  %v41 = bitcast i32 %v40 to float
  %v42 = call float @llvm.maximum.f32(float %v38, float %v41)
  %v43 = bitcast float %v42 to i32
  %v44 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v43, i32 4, i32 31)
  %v45 = bitcast i32 %v44 to float
  %v46 = call float @llvm.maximum.f32(float %v42, float %v45)
  %v47 = bitcast float %v46 to i32
  %v48 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v47, i32 2, i32 31)
  %v49 = bitcast i32 %v48 to float
  %v50 = call float @llvm.maximum.f32(float %v46, float %v49)
  %v51 = bitcast float %v50 to i32
  %v52 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v51, i32 1, i32 31)
  %v53 = bitcast i32 %v52 to float
  %v54 = call float @llvm.maximum.f32(float %v50, float %v53)
  %v55 = icmp eq i32 %v34, 0
  br i1 %v55, label %share56, label %shared57
share56:
  %v58 = lshr i32 %v15, 5
  %v59 = getelementptr float, ptr addrspace(3) @poot_warps, i32 %v58
  store float %v54, ptr addrspace(3) %v59, align 4
  br label %shared57
shared57:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %v60 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 0), align 4
  %v61 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 1), align 4
  %v62 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 2), align 4
  %v63 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 3), align 4
  %v64 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 4), align 4
  %v65 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 5), align 4
  %v66 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 6), align 4
  %v67 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 7), align 4
  %v68 = call float @llvm.maximum.f32(float %v60, float %v61)
  %v69 = call float @llvm.maximum.f32(float %v68, float %v62)
  %v70 = call float @llvm.maximum.f32(float %v69, float %v63)
  %v71 = call float @llvm.maximum.f32(float %v70, float %v64)
  %v72 = call float @llvm.maximum.f32(float %v71, float %v65)
  %v73 = call float @llvm.maximum.f32(float %v72, float %v66)
  %v74 = call float @llvm.maximum.f32(float %v73, float %v67)
  store float 0x0000000000000000, ptr %c75
  ; <golden row_softmax>:3: for k0 in range(0, 1024, 256): total += exp(x[row, k0 + lane] - top)
  %v80 = icmp slt i32 0, 1024
  br i1 %v80, label %turn78, label %done77
turn78:
  %count79 = phi i32 [ 0, %shared57 ], [ %after81, %next76 ]
  %v82 = add nsw i32 %count79, %v15
  %v83 = mul nsw i32 %v1, 1024
  %v84 = add nsw i32 %v83, %v82
  %v85 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v84
  %v86 = load float, ptr addrspace(1) %v85, align 4
  %v87 = fsub float %v86, %v74
  %v88 = fcmp ogt float %v87, 0x4056400000000000
  %v89 = select i1 %v88, float 0x4056400000000000, float %v87
  %v90 = fcmp olt float %v89, 0xC05A000000000000
  %v91 = select i1 %v90, float 0xC05A000000000000, float %v89
  %v92 = fmul float %v91, 0x3FF7154760000000
  %v93 = call float @llvm.roundeven.f32(float %v92)
  %v94 = fmul float %v93, 0x3FE62E4000000000
  %v95 = fsub float %v91, %v94
  %v96 = fmul float %v93, 0x3EB7F7D1C0000000
  %v97 = fsub float %v95, %v96
  %v98 = fmul float %v97, 0x3F56A4AA80000000
  %v99 = fadd float %v98, 0x3F81239AC0000000
  %v100 = fmul float %v99, %v97
  %v101 = fadd float %v100, 0x3FA5558B40000000
  %v102 = fmul float %v101, %v97
  %v103 = fadd float %v102, 0x3FC5554920000000
  %v104 = fmul float %v103, %v97
  %v105 = fadd float %v104, 0x3FDFFFFFC0000000
  %v106 = fmul float %v97, %v97
  %v107 = fmul float %v105, %v106
  %v108 = fadd float %v107, %v97
  %v109 = fadd float %v108, 0x3FF0000000000000
  %v110 = fadd float %v93, 0x4168000000000000
  %v111 = bitcast float %v110 to i32
  %v112 = call i32 @llvm.umin.i32(i32 1, i32 31)
  %v113 = ashr i32 %v111, %v112
  %v114 = load float, ptr %c75
  %v115 = icmp ult i32 23, 32
  %v116 = and i32 23, 31
  %v117 = shl i32 %v113, %v116
  %v118 = select i1 %v115, i32 %v117, i32 0
  %v119 = add i32 %v118, 1065353216
  %v120 = bitcast i32 %v119 to float
  %v121 = fmul float %v109, %v120
  %v122 = sub i32 %v111, %v113
  %v123 = icmp ult i32 23, 32
  %v124 = and i32 23, 31
  %v125 = shl i32 %v122, %v124
  %v126 = select i1 %v123, i32 %v125, i32 0
  %v127 = add i32 %v126, 1065353216
  %v128 = bitcast i32 %v127 to float
  %v129 = fmul float %v121, %v128
  %v130 = fadd float %v114, %v129
  store float %v130, ptr %c75
  br label %next76
next76:
  %after81 = add nsw i32 %count79, 256
  %v131 = icmp slt i32 %after81, 1024
  br i1 %v131, label %turn78, label %done77
done77:
  ; <golden row_softmax>:4: total = group_sum(total)
  %v132 = load float, ptr %c75
  %v133 = bitcast float %v132 to i32
  %v134 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v133, i32 16, i32 31)
  %v135 = bitcast i32 %v134 to float
  %v136 = fadd float %v132, %v135
  %v137 = bitcast float %v136 to i32
  %v138 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v137, i32 8, i32 31)
  %v139 = bitcast i32 %v138 to float
  %v140 = fadd float %v136, %v139
  %v141 = bitcast float %v140 to i32
  %v142 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v141, i32 4, i32 31)
  %v143 = bitcast i32 %v142 to float
  %v144 = fadd float %v140, %v143
  %v145 = bitcast float %v144 to i32
  %v146 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v145, i32 2, i32 31)
  %v147 = bitcast i32 %v146 to float
  %v148 = fadd float %v144, %v147
  %v149 = bitcast float %v148 to i32
  %v150 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v149, i32 1, i32 31)
  %v151 = bitcast i32 %v150 to float
  %v152 = fadd float %v148, %v151
  %v153 = icmp eq i32 %v34, 0
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %v153, label %share154, label %shared155
share154:
  %v156 = lshr i32 %v15, 5
  %v157 = getelementptr float, ptr addrspace(3) @poot_warps, i32 %v156
  store float %v152, ptr addrspace(3) %v157, align 4
  br label %shared155
shared155:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %v158 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 0), align 4
  %v159 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 1), align 4
  %v160 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 2), align 4
  %v161 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 3), align 4
  %v162 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 4), align 4
  %v163 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 5), align 4
  %v164 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 6), align 4
  %v165 = load float, ptr addrspace(3) getelementptr (float, ptr addrspace(3) @poot_warps, i32 7), align 4
  %v166 = fadd float %v158, %v159
  %v167 = fadd float %v166, %v160
  %v168 = fadd float %v167, %v161
  %v169 = fadd float %v168, %v162
  %v170 = fadd float %v169, %v163
  %v171 = fadd float %v170, %v164
  %v172 = fadd float %v171, %v165
  ; <golden row_softmax>:5: for k0 in range(0, 1024, 256): y[row, k0 + lane] = exp(x[row, k0 + lane] - top) / total
  %v177 = icmp slt i32 0, 1024
  br i1 %v177, label %turn175, label %done174
turn175:
  %count176 = phi i32 [ 0, %shared155 ], [ %after178, %next173 ]
  %v179 = add nsw i32 %count176, %v15
  %v180 = mul nsw i32 %v1, 1024
  %v181 = add nsw i32 %v180, %v179
  %v182 = getelementptr inbounds float, ptr addrspace(1) %arg.x, i32 %v181
  %v183 = load float, ptr addrspace(1) %v182, align 4
  %v184 = fsub float %v183, %v74
  %v185 = fcmp ogt float %v184, 0x4056400000000000
  %v186 = select i1 %v185, float 0x4056400000000000, float %v184
  %v187 = fcmp olt float %v186, 0xC05A000000000000
  %v188 = select i1 %v187, float 0xC05A000000000000, float %v186
  %v189 = fmul float %v188, 0x3FF7154760000000
  %v190 = call float @llvm.roundeven.f32(float %v189)
  %v191 = fmul float %v190, 0x3FE62E4000000000
  %v192 = fsub float %v188, %v191
  %v193 = fmul float %v190, 0x3EB7F7D1C0000000
  %v194 = fsub float %v192, %v193
  %v195 = fmul float %v194, 0x3F56A4AA80000000
  %v196 = fadd float %v195, 0x3F81239AC0000000
  %v197 = fmul float %v196, %v194
  %v198 = fadd float %v197, 0x3FA5558B40000000
  %v199 = fmul float %v198, %v194
  %v200 = fadd float %v199, 0x3FC5554920000000
  %v201 = fmul float %v200, %v194
  %v202 = fadd float %v201, 0x3FDFFFFFC0000000
  %v203 = fmul float %v194, %v194
  %v204 = fmul float %v202, %v203
  %v205 = fadd float %v204, %v194
  %v206 = fadd float %v205, 0x3FF0000000000000
  %v207 = fadd float %v190, 0x4168000000000000
  %v208 = bitcast float %v207 to i32
  %v209 = call i32 @llvm.umin.i32(i32 1, i32 31)
  %v210 = ashr i32 %v208, %v209
  %v211 = add nsw i32 %count176, %v15
  %v212 = icmp ult i32 23, 32
  %v213 = and i32 23, 31
  %v214 = shl i32 %v210, %v213
  %v215 = select i1 %v212, i32 %v214, i32 0
  %v216 = add i32 %v215, 1065353216
  %v217 = bitcast i32 %v216 to float
  %v218 = fmul float %v206, %v217
  %v219 = sub i32 %v208, %v210
  %v220 = icmp ult i32 23, 32
  %v221 = and i32 23, 31
  %v222 = shl i32 %v219, %v221
  %v223 = select i1 %v220, i32 %v222, i32 0
  %v224 = add i32 %v223, 1065353216
  %v225 = bitcast i32 %v224 to float
  %v226 = fmul float %v218, %v225
  %v227 = fdiv float %v226, %v172
  %v228 = add nsw i32 %v180, %v211
  %v229 = getelementptr inbounds float, ptr addrspace(1) %arg.y, i32 %v228
  store float %v227, ptr addrspace(1) %v229, align 4
  br label %next173
next173:
  %after178 = add nsw i32 %count176, 256
  %v230 = icmp slt i32 %after178, 1024
  br i1 %v230, label %turn175, label %done174
done174:
  br label %end
end:
  ret void
}

attributes #0 = { nounwind "nvvm.maxntid"="256" }
attributes #1 = { nounwind alwaysinline }
!0 = !{!"branch_weights", i32 1, i32 1048576}

declare float @llvm.maximum.f32(float, float)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare float @llvm.roundeven.f32(float)
declare i32 @llvm.umin.i32(i32, i32)
