; kernel row_sums: 16 lanes, i32 indices
define void @kernel.row_sums(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
  %c39 = alloca <16 x i32>
  %arg.x = load ptr, ptr %args, align 8, !invariant.load !1
  %v1 = getelementptr i8, ptr %args, i64 8
  %arg.y = load ptr, ptr %v1, align 8, !invariant.load !1
  %v2 = getelementptr i8, ptr %args, i64 16
  %own.num_groups.x = load i32, ptr %v2, align 8, !invariant.load !1
  %v3 = getelementptr i8, ptr %args, i64 24
  %own.num_groups.y = load i32, ptr %v3, align 8, !invariant.load !1
  %v4 = getelementptr i8, ptr %args, i64 32
  %own.num_groups.z = load i32, ptr %v4, align 8, !invariant.load !1
  %v5 = getelementptr i8, ptr %args, i64 40
  %own.launch = load i32, ptr %v5, align 8, !invariant.load !1
  %v6 = getelementptr i8, ptr %args, i64 48
  %own.fault = load ptr, ptr %v6, align 8, !invariant.load !1
  %v7 = sext i32 %own.num_groups.x to i64
  %v8 = sext i32 %own.num_groups.y to i64
  %v9 = sext i32 %own.num_groups.z to i64
  %v13 = icmp slt i64 %begin, %end
  br i1 %v13, label %start, label %done10
start:
  %v14 = urem i64 %begin, %v7
  %v15 = udiv i64 %begin, %v7
  %v16 = urem i64 %v15, %v8
  %v17 = udiv i64 %v15, %v8
  br label %row11
row11:
  %g = phi i64 [ %begin, %start ], [ %g.next, %next12 ]
  %gx = phi i64 [ %v14, %start ], [ 0, %next12 ]
  %gy = phi i64 [ %v16, %start ], [ %gy.next, %next12 ]
  %gz = phi i64 [ %v17, %start ], [ %gz.next, %next12 ]
  %v18 = sub i64 %v7, %gx
  %v19 = sub i64 %end, %g
  %v20 = call i64 @llvm.smin.i64(i64 %v18, i64 %v19)
  %v21 = add i64 %gx, %v20
  %v27 = icmp slt i64 %gx, %v21
  br i1 %v27, label %loop22, label %after24
loop22:
  %g25 = phi i64 [ %gx, %row11 ], [ %g26, %next23 ]
  %v28 = trunc nsw i64 %g25 to i32
  %v29 = trunc nsw i64 %gy to i32
  %v30 = trunc nsw i64 %gz to i32
  %v32 = mul i64 %g25, 16
  %v33 = trunc nsw i64 %v32 to i32
  %v34 = mul i64 %gy, 1
  %v35 = trunc nsw i64 %v34 to i32
  %v36 = mul i64 %gz, 1
  %v37 = trunc nsw i64 %v36 to i32
  store <16 x i32> splat (i32 0), ptr %c39
  %v45 = call i32 @llvm.ssub.sat.i32(i32 64, i32 16)
  %v46 = icmp slt i32 0, 64
  br i1 %v46, label %body42, label %exit40
body42:
  %i43 = phi i32 [ 0, %loop22 ], [ %n44, %latch41 ]
  %v47 = load <16 x i32>, ptr %c39
  %v48 = add nsw i32 %i43, 0
  %v49 = mul nsw i64 %g25, 64
  %v50 = sext i32 %v48 to i64
  %v51 = getelementptr i32, ptr %arg.x, i64 %v49
  %v52 = getelementptr i32, ptr %v51, i64 %v50
  %v53 = load <16 x i32>, ptr %v52, align 4, !alias.scope !5, !noalias !6
  %v54 = add <16 x i32> %v47, %v53
  store <16 x i32> %v54, ptr %c39
  br label %latch41
latch41:
  %v55 = icmp slt i32 %i43, %v45
  %n44 = add nsw i32 %i43, 16
  br i1 %v55, label %body42, label %exit40
exit40:
  %v56 = load <16 x i32>, ptr %c39
  %v57 = shufflevector <16 x i32> %v56, <16 x i32> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v58 = shufflevector <16 x i32> %v56, <16 x i32> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v59 = add <8 x i32> %v57, %v58
  %v60 = shufflevector <8 x i32> %v59, <8 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v61 = shufflevector <8 x i32> %v59, <8 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v62 = add <4 x i32> %v60, %v61
  %v63 = shufflevector <4 x i32> %v62, <4 x i32> poison, <2 x i32> <i32 0, i32 1>
  %v64 = shufflevector <4 x i32> %v62, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
  %v65 = add <2 x i32> %v63, %v64
  %v66 = shufflevector <2 x i32> %v65, <2 x i32> poison, <1 x i32> <i32 0>
  %v67 = shufflevector <2 x i32> %v65, <2 x i32> poison, <1 x i32> <i32 1>
  %v68 = add <1 x i32> %v66, %v67
  %v69 = extractelement <1 x i32> %v68, i32 0
  %v70 = getelementptr i32, ptr %arg.y, i64 %g25
  store i32 %v69, ptr %v70, align 4, !alias.scope !7, !noalias !8
  br label %end38
end38:
  br label %skip31
skip31:
  br label %next23
next23:
  %g26 = add nsw i64 %g25, 1
  %v71 = icmp slt i64 %g26, %v21
  br i1 %v71, label %loop22, label %after24, !llvm.loop !10
after24:
  br label %next12
next12:
  %g.next = add i64 %g, %v20
  %v72 = add i64 %gy, 1
  %v73 = icmp eq i64 %v72, %v8
  %gy.next = select i1 %v73, i64 0, i64 %v72
  %v74 = zext i1 %v73 to i64
  %gz.next = add i64 %gz, %v74
  %v75 = icmp slt i64 %g.next, %end
  br i1 %v75, label %row11, label %done10, !llvm.loop !11
done10:
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
