; kernel scale: 16 lanes, i32 indices
define void @kernel.scale(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
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
  %v22 = trunc nsw i64 %gy to i32
  %v23 = trunc nsw i64 %gz to i32
  %v24 = mul i64 %gx, 16
  %v25 = mul i64 %v21, 16
  %v26 = call i64 @llvm.smin.i64(i64 %v25, i64 100)
  %v27 = sub i64 %v26, 16
  %v28 = call i64 @llvm.smax.i64(i64 %v27, i64 0)
  %v34 = icmp slt i64 %v24, %v26
  br i1 %v34, label %loop29, label %after31
loop29:
  %g32 = phi i64 [ %v24, %row11 ], [ %g33, %next30 ]
  %v35 = call i64 @llvm.smin.i64(i64 %g32, i64 %v28)
  %v36 = trunc nsw i64 %v35 to i32
  %v38 = getelementptr float, ptr %arg.x, i64 %v35
  %v39 = load <16 x float>, ptr %v38, align 4, !alias.scope !5, !noalias !6
  %v40 = fmul <16 x float> %v39, splat (float 0x4000000000000000)
  %v41 = getelementptr float, ptr %arg.y, i64 %v35
  store <16 x float> %v40, ptr %v41, align 4, !alias.scope !7, !noalias !8
  br label %end37
end37:
  br label %next30
next30:
  %g33 = add nsw i64 %g32, 16
  %v42 = icmp slt i64 %g33, %v26
  br i1 %v42, label %loop29, label %after31, !llvm.loop !10
after31:
  br label %next12
next12:
  %g.next = add i64 %g, %v20
  %v43 = add i64 %gy, 1
  %v44 = icmp eq i64 %v43, %v8
  %gy.next = select i1 %v44, i64 0, i64 %v43
  %v45 = zext i1 %v44 to i64
  %gz.next = add i64 %gz, %v45
  %v46 = icmp slt i64 %g.next, %end
  br i1 %v46, label %row11, label %done10, !llvm.loop !11
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
