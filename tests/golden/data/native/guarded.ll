; kernel guarded: 32 lanes, i32 indices
define void @kernel.guarded(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
  %v1 = load ptr, ptr %args, align 8, !invariant.load !1
  %v2 = getelementptr i8, ptr %args, i64 8
  %v3 = load i32, ptr %v2, align 8, !invariant.load !1
  %v4 = getelementptr i8, ptr %args, i64 16
  %v5 = load ptr, ptr %v4, align 8, !invariant.load !1
  %v6 = getelementptr i8, ptr %args, i64 24
  %v7 = load i32, ptr %v6, align 8, !invariant.load !1
  %v8 = getelementptr i8, ptr %args, i64 32
  %v9 = load i32, ptr %v8, align 8, !invariant.load !1
  %v10 = getelementptr i8, ptr %args, i64 40
  %v11 = load i32, ptr %v10, align 8, !invariant.load !1
  %v12 = getelementptr i8, ptr %args, i64 48
  %v13 = load i32, ptr %v12, align 8, !invariant.load !1
  %v14 = getelementptr i8, ptr %args, i64 56
  %v15 = load i32, ptr %v14, align 8, !invariant.load !1
  %v16 = getelementptr i8, ptr %args, i64 64
  %v17 = load i32, ptr %v16, align 8, !invariant.load !1
  %v18 = getelementptr i8, ptr %args, i64 72
  %v19 = load ptr, ptr %v18, align 8, !invariant.load !1
  %v20 = sext i32 %v9 to i64
  %v21 = sext i32 %v11 to i64
  %v22 = sext i32 %v13 to i64
  %v23 = sext i32 %v15 to i64
  %v27 = icmp slt i64 %begin, %end
  br i1 %v27, label %start, label %done24
start:
  %v28 = urem i64 %begin, %v21
  %v29 = udiv i64 %begin, %v21
  %v30 = urem i64 %v29, %v22
  %v31 = udiv i64 %v29, %v22
  br label %row25
row25:
  %g = phi i64 [ %begin, %start ], [ %g.next, %next26 ]
  %gx = phi i64 [ %v28, %start ], [ 0, %next26 ]
  %gy = phi i64 [ %v30, %start ], [ %gy.next, %next26 ]
  %gz = phi i64 [ %v31, %start ], [ %gz.next, %next26 ]
  %v32 = sub i64 %v21, %gx
  %v33 = sub i64 %end, %g
  %v34 = call i64 @llvm.smin.i64(i64 %v32, i64 %v33)
  %v35 = add i64 %gx, %v34
  %v36 = trunc nsw i64 %gy to i32
  %v37 = trunc nsw i64 %gz to i32
  %v38 = mul i64 %gx, 256
  %v39 = mul i64 %v35, 256
  %v40 = call i64 @llvm.smin.i64(i64 %v39, i64 %v20)
  %v41 = sext i32 %v7 to i64
  %v42 = call i64 @llvm.smin.i64(i64 %v40, i64 %v41)
  %v43 = sub i64 %v42, 31
  %v49 = icmp slt i64 %v38, %v43
  br i1 %v49, label %loop44, label %after46
loop44:
  %g47 = phi i64 [ %v38, %row25 ], [ %g48, %next45 ]
  %v50 = trunc nsw i64 %g47 to i32
  %v52 = sext i32 %v3 to i64
  %v53 = icmp ult i64 %g47, %v52
  %v54 = add i64 %g47, 31
  %v55 = icmp ult i64 %v54, %v52
  %v56 = and i1 %v53, %v55
  %v57 = xor i1 %v56, true
  br i1 %v57, label %outside58, label %inside59, !prof !0
inside59:
  %v61 = getelementptr float, ptr %v1, i64 %g47
  %v62 = load <32 x float>, ptr %v61, align 4, !alias.scope !5, !noalias !6
  br label %loaded60
outside58:
  %v63 = insertelement <32 x i32> poison, i32 %v50, i64 0
  %v64 = shufflevector <32 x i32> %v63, <32 x i32> poison, <32 x i32> zeroinitializer
  %v65 = add <32 x i32> %v64, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v66 = insertelement <32 x i32> poison, i32 %v3, i64 0
  %v67 = shufflevector <32 x i32> %v66, <32 x i32> poison, <32 x i32> zeroinitializer
  %v68 = icmp ult <32 x i32> %v65, %v67
  %v69 = xor <32 x i1> %v68, splat (i1 true)
  %v70 = bitcast <32 x i1> %v69 to i32
  %v71 = call i32 @llvm.cttz.i32(i32 %v70, i1 true)
  %v72 = extractelement <32 x i32> %v65, i32 %v71
  %v73 = sext i32 %v72 to i64
  call void @poot.fault(ptr %v19, i32 %v17, i32 0, i32 0, i64 %v73, i64 %v52)
  %v74 = getelementptr float, ptr %v1, i64 %g47
  %v75 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr align 4 %v74, <32 x i1> %v68, <32 x float> zeroinitializer), !alias.scope !5, !noalias !6
  br label %loaded60
loaded60:
  %v76 = phi <32 x float> [ %v62, %inside59 ], [ %v75, %outside58 ]
  %v77 = getelementptr float, ptr %v5, i64 %g47
  store <32 x float> %v76, ptr %v77, align 4, !alias.scope !7, !noalias !8
  br label %end51
end51:
  br label %next45
next45:
  %g48 = add nsw i64 %g47, 32
  %v78 = icmp slt i64 %g48, %v43
  br i1 %v78, label %loop44, label %after46, !llvm.loop !10
after46:
  %v79 = sub i64 %v42, %v38
  %v80 = call i64 @llvm.smax.i64(i64 %v79, i64 0)
  %v81 = and i64 %v80, 31
  %v84 = icmp ne i64 %v81, 0
  br i1 %v84, label %some82, label %after83
some82:
  %v85 = sub i64 %v42, %v81
  %v86 = trunc nsw i64 %v85 to i32
  %v87 = trunc i64 %v81 to i8
  %v88 = insertelement <32 x i8> poison, i8 %v87, i64 0
  %v89 = shufflevector <32 x i8> %v88, <32 x i8> poison, <32 x i32> zeroinitializer
  %v90 = icmp ult <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31>, %v89
  %v92 = insertelement <32 x i32> poison, i32 %v86, i64 0
  %v93 = shufflevector <32 x i32> %v92, <32 x i32> poison, <32 x i32> zeroinitializer
  %v94 = add <32 x i32> %v93, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v95 = insertelement <32 x i32> poison, i32 %v3, i64 0
  %v96 = shufflevector <32 x i32> %v95, <32 x i32> poison, <32 x i32> zeroinitializer
  %v97 = icmp ult <32 x i32> %v94, %v96
  %v98 = xor <32 x i1> %v97, splat (i1 true)
  %v99 = and <32 x i1> %v90, %v98
  %v100 = bitcast <32 x i1> %v99 to i32
  %v101 = icmp ne i32 %v100, 0
  br i1 %v101, label %outside102, label %inside103, !prof !0
outside102:
  %v104 = call i32 @llvm.cttz.i32(i32 %v100, i1 true)
  %v105 = extractelement <32 x i32> %v94, i32 %v104
  %v106 = sext i32 %v105 to i64
  %v107 = sext i32 %v3 to i64
  call void @poot.fault(ptr %v19, i32 %v17, i32 0, i32 0, i64 %v106, i64 %v107)
  br label %inside103
inside103:
  %v108 = getelementptr float, ptr %v1, i64 %v85
  %v109 = and <32 x i1> %v90, %v97
  %v110 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr align 4 %v108, <32 x i1> %v109, <32 x float> zeroinitializer), !alias.scope !5, !noalias !6
  %v111 = getelementptr float, ptr %v5, i64 %v85
  call void @llvm.masked.store.v32f32.p0(<32 x float> %v110, ptr align 4 %v111, <32 x i1> %v90), !alias.scope !7, !noalias !8
  br label %end91
end91:
  br label %after83
after83:
  br label %next26
next26:
  %g.next = add i64 %g, %v34
  %v112 = add i64 %gy, 1
  %v113 = icmp eq i64 %v112, %v22
  %gy.next = select i1 %v113, i64 0, i64 %v112
  %v114 = zext i1 %v113 to i64
  %gz.next = add i64 %gz, %v114
  %v115 = icmp slt i64 %g.next, %end
  br i1 %v115, label %row25, label %done24, !llvm.loop !11
done24:
  ret void
}

define internal void @poot.fault(ptr %record, i32 %launch, i32 %site, i32 %axis, i64 %index, i64 %extent) #1 {
  %claim = cmpxchg ptr %record, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %claim, 1
  br i1 %won, label %write, label %done
write:
  %p1 = getelementptr i8, ptr %record, i64 4
  store i32 %launch, ptr %p1
  %p2 = getelementptr i8, ptr %record, i64 8
  store i32 %site, ptr %p2
  %p3 = getelementptr i8, ptr %record, i64 12
  store i32 %axis, ptr %p3
  %p4 = getelementptr i8, ptr %record, i64 16
  store i64 %index, ptr %p4, align 4
  %p6 = getelementptr i8, ptr %record, i64 24
  store i64 %extent, ptr %p6, align 4
  br label %done
done:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="512" }
attributes #1 = { cold noinline nounwind }
!0 = !{!"branch_weights", i32 1, i32 2000}
!1 = !{}
!2 = distinct !{!2}
!3 = distinct !{!3, !2}
!4 = distinct !{!4, !2}
!5 = !{!3}
!6 = !{!4}
!7 = !{!4}
!8 = !{!3}
!9 = !{!"llvm.loop.unroll.disable"}
!10 = distinct !{!10, !9}
!11 = distinct !{!11, !9}
