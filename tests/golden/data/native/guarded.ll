; kernel guarded: 32 lanes, i32 indices
define void @kernel.guarded(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
  %arg.x = load ptr, ptr %args, align 8, !invariant.load !1
  %v1 = getelementptr i8, ptr %args, i64 8
  %arg.x.extent.0 = load i32, ptr %v1, align 8, !invariant.load !1
  %v2 = getelementptr i8, ptr %args, i64 16
  %arg.y = load ptr, ptr %v2, align 8, !invariant.load !1
  %v3 = getelementptr i8, ptr %args, i64 24
  %arg.y.extent.0 = load i32, ptr %v3, align 8, !invariant.load !1
  %v4 = getelementptr i8, ptr %args, i64 32
  %own.threads.x = load i32, ptr %v4, align 8, !invariant.load !1
  %v5 = getelementptr i8, ptr %args, i64 40
  %own.num_groups.x = load i32, ptr %v5, align 8, !invariant.load !1
  %v6 = getelementptr i8, ptr %args, i64 48
  %own.num_groups.y = load i32, ptr %v6, align 8, !invariant.load !1
  %v7 = getelementptr i8, ptr %args, i64 56
  %own.num_groups.z = load i32, ptr %v7, align 8, !invariant.load !1
  %v8 = getelementptr i8, ptr %args, i64 64
  %own.launch = load i32, ptr %v8, align 8, !invariant.load !1
  %v9 = getelementptr i8, ptr %args, i64 72
  %own.fault = load ptr, ptr %v9, align 8, !invariant.load !1
  %v10 = sext i32 %own.threads.x to i64
  %v11 = sext i32 %own.num_groups.x to i64
  %v12 = sext i32 %own.num_groups.y to i64
  %v13 = sext i32 %own.num_groups.z to i64
  %v17 = icmp slt i64 %begin, %end
  br i1 %v17, label %start, label %done14
start:
  %v18 = urem i64 %begin, %v11
  %v19 = udiv i64 %begin, %v11
  %v20 = urem i64 %v19, %v12
  %v21 = udiv i64 %v19, %v12
  br label %row15
row15:
  %g = phi i64 [ %begin, %start ], [ %g.next, %next16 ]
  %gx = phi i64 [ %v18, %start ], [ 0, %next16 ]
  %gy = phi i64 [ %v20, %start ], [ %gy.next, %next16 ]
  %gz = phi i64 [ %v21, %start ], [ %gz.next, %next16 ]
  %v22 = sub i64 %v11, %gx
  %v23 = sub i64 %end, %g
  %v24 = call i64 @llvm.smin.i64(i64 %v22, i64 %v23)
  %v25 = add i64 %gx, %v24
  %v26 = trunc nsw i64 %gy to i32
  %v27 = trunc nsw i64 %gz to i32
  %v28 = mul i64 %gx, 256
  %v29 = mul i64 %v25, 256
  %v30 = call i64 @llvm.smin.i64(i64 %v29, i64 %v10)
  %v31 = sext i32 %arg.y.extent.0 to i64
  %v32 = call i64 @llvm.smin.i64(i64 %v30, i64 %v31)
  %v33 = sub i64 %v32, 31
  %v39 = icmp slt i64 %v28, %v33
  br i1 %v39, label %loop34, label %after36
loop34:
  %g37 = phi i64 [ %v28, %row15 ], [ %g38, %next35 ]
  %v40 = trunc nsw i64 %g37 to i32
  %v42 = sext i32 %arg.x.extent.0 to i64
  %v43 = icmp ult i64 %g37, %v42
  %v44 = add i64 %g37, 31
  %v45 = icmp ult i64 %v44, %v42
  %v46 = and i1 %v43, %v45
  %v47 = xor i1 %v46, true
  br i1 %v47, label %outside48, label %inside49, !prof !0
inside49:
  %v51 = getelementptr float, ptr %arg.x, i64 %g37
  %v52 = load <32 x float>, ptr %v51, align 4, !alias.scope !5, !noalias !6
  br label %loaded50
outside48:
  %v53 = insertelement <32 x i32> poison, i32 %v40, i64 0
  %v54 = shufflevector <32 x i32> %v53, <32 x i32> poison, <32 x i32> zeroinitializer
  %v55 = add <32 x i32> %v54, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v56 = insertelement <32 x i32> poison, i32 %arg.x.extent.0, i64 0
  %v57 = shufflevector <32 x i32> %v56, <32 x i32> poison, <32 x i32> zeroinitializer
  %v58 = icmp ult <32 x i32> %v55, %v57
  %v59 = xor <32 x i1> %v58, splat (i1 true)
  %v60 = bitcast <32 x i1> %v59 to i32
  %v61 = call i32 @llvm.cttz.i32(i32 %v60, i1 true)
  %v62 = extractelement <32 x i32> %v55, i32 %v61
  %v63 = sext i32 %v62 to i64
  call void @poot.fault(ptr %own.fault, i32 %own.launch, i32 0, i32 0, i64 %v63, i64 %v42)
  %v64 = getelementptr float, ptr %arg.x, i64 %g37
  %v65 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr align 4 %v64, <32 x i1> %v58, <32 x float> zeroinitializer), !alias.scope !5, !noalias !6
  br label %loaded50
loaded50:
  %v66 = phi <32 x float> [ %v52, %inside49 ], [ %v65, %outside48 ]
  %v67 = getelementptr float, ptr %arg.y, i64 %g37
  store <32 x float> %v66, ptr %v67, align 4, !alias.scope !7, !noalias !8
  br label %end41
end41:
  br label %next35
next35:
  %g38 = add nsw i64 %g37, 32
  %v68 = icmp slt i64 %g38, %v33
  br i1 %v68, label %loop34, label %after36, !llvm.loop !10
after36:
  %v69 = sub i64 %v32, %v28
  %v70 = call i64 @llvm.smax.i64(i64 %v69, i64 0)
  %v71 = and i64 %v70, 31
  %v74 = icmp ne i64 %v71, 0
  br i1 %v74, label %some72, label %after73
some72:
  %v75 = sub i64 %v32, %v71
  %v76 = trunc nsw i64 %v75 to i32
  %v77 = trunc i64 %v71 to i8
  %v78 = insertelement <32 x i8> poison, i8 %v77, i64 0
  %v79 = shufflevector <32 x i8> %v78, <32 x i8> poison, <32 x i32> zeroinitializer
  %v80 = icmp ult <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31>, %v79
  %v82 = insertelement <32 x i32> poison, i32 %v76, i64 0
  %v83 = shufflevector <32 x i32> %v82, <32 x i32> poison, <32 x i32> zeroinitializer
  %v84 = add <32 x i32> %v83, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v85 = insertelement <32 x i32> poison, i32 %arg.x.extent.0, i64 0
  %v86 = shufflevector <32 x i32> %v85, <32 x i32> poison, <32 x i32> zeroinitializer
  %v87 = icmp ult <32 x i32> %v84, %v86
  %v88 = xor <32 x i1> %v87, splat (i1 true)
  %v89 = and <32 x i1> %v80, %v88
  %v90 = bitcast <32 x i1> %v89 to i32
  %v91 = icmp ne i32 %v90, 0
  br i1 %v91, label %outside92, label %inside93, !prof !0
outside92:
  %v94 = call i32 @llvm.cttz.i32(i32 %v90, i1 true)
  %v95 = extractelement <32 x i32> %v84, i32 %v94
  %v96 = sext i32 %v95 to i64
  %v97 = sext i32 %arg.x.extent.0 to i64
  call void @poot.fault(ptr %own.fault, i32 %own.launch, i32 0, i32 0, i64 %v96, i64 %v97)
  br label %inside93
inside93:
  %v98 = getelementptr float, ptr %arg.x, i64 %v75
  %v99 = and <32 x i1> %v80, %v87
  %v100 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr align 4 %v98, <32 x i1> %v99, <32 x float> zeroinitializer), !alias.scope !5, !noalias !6
  %v101 = getelementptr float, ptr %arg.y, i64 %v75
  call void @llvm.masked.store.v32f32.p0(<32 x float> %v100, ptr align 4 %v101, <32 x i1> %v80), !alias.scope !7, !noalias !8
  br label %end81
end81:
  br label %after73
after73:
  br label %next16
next16:
  %g.next = add i64 %g, %v24
  %v102 = add i64 %gy, 1
  %v103 = icmp eq i64 %v102, %v12
  %gy.next = select i1 %v103, i64 0, i64 %v102
  %v104 = zext i1 %v103 to i64
  %gz.next = add i64 %gz, %v104
  %v105 = icmp slt i64 %g.next, %end
  br i1 %v105, label %row15, label %done14, !llvm.loop !11
done14:
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
