; kernel scale: 16 lanes, i32 indices
define void @kernel.scale(ptr noalias %args, i64 %begin, i64 %end) #0 {
entry:
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
  %v29 = trunc nsw i64 %gy to i32
  %v30 = trunc nsw i64 %gz to i32
  %v31 = mul i64 %gx, 16
  %v32 = mul i64 %v28, 16
  %v33 = call i64 @llvm.smin.i64(i64 %v32, i64 100)
  %v34 = sub i64 %v33, 16
  %v35 = call i64 @llvm.smax.i64(i64 %v34, i64 0)
  %v41 = icmp slt i64 %v31, %v33
  br i1 %v41, label %loop36, label %after38
loop36:
  %g39 = phi i64 [ %v31, %row18 ], [ %g40, %next37 ]
  %v42 = call i64 @llvm.smin.i64(i64 %g39, i64 %v35)
  %v43 = trunc nsw i64 %v42 to i32
  %v45 = getelementptr float, ptr %v1, i64 %v42
  %v46 = load <16 x float>, ptr %v45, align 4, !alias.scope !5, !noalias !6
  %v47 = fmul <16 x float> %v46, splat (float 0x4000000000000000)
  %v48 = getelementptr float, ptr %v3, i64 %v42
  store <16 x float> %v47, ptr %v48, align 4, !alias.scope !7, !noalias !8
  br label %end44
end44:
  br label %next37
next37:
  %g40 = add nsw i64 %g39, 16
  %v49 = icmp slt i64 %g40, %v33
  br i1 %v49, label %loop36, label %after38, !llvm.loop !10
after38:
  br label %next19
next19:
  %g.next = add i64 %g, %v27
  %v50 = add i64 %gy, 1
  %v51 = icmp eq i64 %v50, %v15
  %gy.next = select i1 %v51, i64 0, i64 %v50
  %v52 = zext i1 %v51 to i64
  %gz.next = add i64 %gz, %v52
  %v53 = icmp slt i64 %g.next, %end
  br i1 %v53, label %row18, label %done17, !llvm.loop !11
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
