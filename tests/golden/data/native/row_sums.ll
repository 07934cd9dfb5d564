; kernel row_sums: 16 lanes, i32 indices
define void @kernel.row_sums(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
  %c46 = alloca <16 x i32>
  %v1 = load ptr, ptr %args, align 8, !invariant.load !1
  %v2 = getelementptr i8, ptr %args, i64 8
  %v3 = load ptr, ptr %v2, align 8, !invariant.load !1
  %v4 = getelementptr i8, ptr %args, i64 16
  %v5 = load i32, ptr %v4, align 8, !invariant.load !1
  %v6 = getelementptr i8, ptr %args, i64 24
  %v7 = load i32, ptr %v6, align 8, !invariant.load !1
  %v8 = getelementptr i8, ptr %args, i64 32
  %v9 = load i32, ptr %v8, align 8, !invariant.load !1
  %v10 = getelementptr i8, ptr %args, i64 40
  %v11 = load i32, ptr %v10, align 8, !invariant.load !1
  %v12 = getelementptr i8, ptr %args, i64 48
  %v13 = load ptr, ptr %v12, align 8, !invariant.load !1
  %v14 = sext i32 %v5 to i64
  %v15 = sext i32 %v7 to i64
  %v16 = sext i32 %v9 to i64
  %v20 = icmp slt i64 %begin, %end
  br i1 %v20, label %start, label %done17
start:
  %v21 = urem i64 %begin, %v14
  %v22 = udiv i64 %begin, %v14
  %v23 = urem i64 %v22, %v15
  %v24 = udiv i64 %v22, %v15
  br label %row18
row18:
  %g = phi i64 [ %begin, %start ], [ %g.next, %next19 ]
  %gx = phi i64 [ %v21, %start ], [ 0, %next19 ]
  %gy = phi i64 [ %v23, %start ], [ %gy.next, %next19 ]
  %gz = phi i64 [ %v24, %start ], [ %gz.next, %next19 ]
  %v25 = sub i64 %v14, %gx
  %v26 = sub i64 %end, %g
  %v27 = call i64 @llvm.smin.i64(i64 %v25, i64 %v26)
  %v28 = add i64 %gx, %v27
  %v34 = icmp slt i64 %gx, %v28
  br i1 %v34, label %loop29, label %after31
loop29:
  %g32 = phi i64 [ %gx, %row18 ], [ %g33, %next30 ]
  %v35 = trunc nsw i64 %g32 to i32
  %v36 = trunc nsw i64 %gy to i32
  %v37 = trunc nsw i64 %gz to i32
  %v39 = mul i64 %g32, 16
  %v40 = trunc nsw i64 %v39 to i32
  %v41 = mul i64 %gy, 1
  %v42 = trunc nsw i64 %v41 to i32
  %v43 = mul i64 %gz, 1
  %v44 = trunc nsw i64 %v43 to i32
  store <16 x i32> splat (i32 0), ptr %c46
  %v52 = call i32 @llvm.ssub.sat.i32(i32 64, i32 16)
  %v53 = icmp slt i32 0, 64
  br i1 %v53, label %body49, label %exit47
body49:
  %i50 = phi i32 [ 0, %loop29 ], [ %n51, %latch48 ]
  %v54 = load <16 x i32>, ptr %c46
  %v55 = add nsw i32 %i50, 0
  %v56 = mul nsw i64 %g32, 64
  %v57 = sext i32 %v55 to i64
  %v58 = getelementptr i32, ptr %v1, i64 %v56
  %v59 = getelementptr i32, ptr %v58, i64 %v57
  %v60 = load <16 x i32>, ptr %v59, align 4, !alias.scope !5, !noalias !6
  %v61 = add <16 x i32> %v54, %v60
  store <16 x i32> %v61, ptr %c46
  br label %latch48
latch48:
  %v62 = icmp slt i32 %i50, %v52
  %n51 = add nsw i32 %i50, 16
  br i1 %v62, label %body49, label %exit47
exit47:
  %v63 = load <16 x i32>, ptr %c46
  %v64 = shufflevector <16 x i32> %v63, <16 x i32> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v65 = shufflevector <16 x i32> %v63, <16 x i32> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v66 = add <8 x i32> %v64, %v65
  %v67 = shufflevector <8 x i32> %v66, <8 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v68 = shufflevector <8 x i32> %v66, <8 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v69 = add <4 x i32> %v67, %v68
  %v70 = shufflevector <4 x i32> %v69, <4 x i32> poison, <2 x i32> <i32 0, i32 1>
  %v71 = shufflevector <4 x i32> %v69, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
  %v72 = add <2 x i32> %v70, %v71
  %v73 = shufflevector <2 x i32> %v72, <2 x i32> poison, <1 x i32> <i32 0>
  %v74 = shufflevector <2 x i32> %v72, <2 x i32> poison, <1 x i32> <i32 1>
  %v75 = add <1 x i32> %v73, %v74
  %v76 = extractelement <1 x i32> %v75, i32 0
  %v77 = getelementptr i32, ptr %v3, i64 %g32
  store i32 %v76, ptr %v77, align 4, !alias.scope !7, !noalias !8
  br label %end45
end45:
  br label %skip38
skip38:
  br label %next30
next30:
  %g33 = add nsw i64 %g32, 1
  %v78 = icmp slt i64 %g33, %v28
  br i1 %v78, label %loop29, label %after31, !llvm.loop !10
after31:
  br label %next19
next19:
  %g.next = add i64 %g, %v27
  %v79 = add i64 %gy, 1
  %v80 = icmp eq i64 %v79, %v15
  %gy.next = select i1 %v80, i64 0, i64 %v79
  %v81 = zext i1 %v80 to i64
  %gz.next = add i64 %gz, %v81
  %v82 = icmp slt i64 %g.next, %end
  br i1 %v82, label %row18, label %done17, !llvm.loop !11
done17:
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
