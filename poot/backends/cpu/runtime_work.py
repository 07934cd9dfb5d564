"""The text of `poot_work`, which a worker runs, and of what stops workers and runs."""

from __future__ import annotations

from string import Template
from typing import Final

WORK: Final = Template("""
; Whether a launch is open and has chunks that no one has taken: a hint, which joining then settles.
define internal i1 @has_work(ptr %pool) alwaysinline nounwind {
  %gate = load atomic i32, ptr %pool seq_cst, align 4
  %open = icmp slt i32 %gate, 0
  %at.next = getelementptr i8, ptr %pool, i64 $next
  %at.chunks = getelementptr i8, ptr %pool, i64 $chunks
  %next = load atomic i64, ptr %at.next monotonic, align 8
  %chunks = load atomic i64, ptr %at.chunks monotonic, align 8
  %left = icmp slt i64 %next, %chunks
  %work = and i1 %open, %left
  ret i1 %work
}

define internal i1 @is_closing(ptr %pool) alwaysinline nounwind {
  %at = getelementptr i8, ptr %pool, i64 $closing
  %word = load atomic i32, ptr %at seq_cst, align 4
  %closing = icmp ne i32 %word, 0
  ret i1 %closing
}

define internal void @take_part(ptr %pool, i1 %woken) nounwind {
entry:
  %joined = atomicrmw add ptr %pool, i32 1 seq_cst
  %open = icmp slt i32 %joined, 0
  br i1 %open, label %inside, label %leave
inside:
  %at.function = getelementptr i8, ptr %pool, i64 $function
  %at.arguments = getelementptr i8, ptr %pool, i64 $arguments
  %at.groups = getelementptr i8, ptr %pool, i64 $groups
  %at.grain = getelementptr i8, ptr %pool, i64 $grain
  %at.chunks = getelementptr i8, ptr %pool, i64 $chunks
  %at.next = getelementptr i8, ptr %pool, i64 $next
  %function = load ptr, ptr %at.function
  %arguments = load ptr, ptr %at.arguments
  %groups = load i64, ptr %at.groups
  %grain = load i64, ptr %at.grain
  %chunks = load atomic i64, ptr %at.chunks monotonic, align 8
  br i1 %woken, label %pass.on, label %take
pass.on:
  %at.sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %sleepers = load atomic i32, ptr %at.sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  %next = load atomic i64, ptr %at.next monotonic, align 8
  %spare = icmp slt i64 %next, %chunks
  %more = and i1 %asleep, %spare
  br i1 %more, label %wake, label %take
wake:
  call void @wake_workers(ptr %pool, i64 $fanout)
  br label %take
take:
  %index = atomicrmw add ptr %at.next, i64 1 seq_cst
  %left = icmp slt i64 %index, %chunks
  br i1 %left, label %work, label %leave
work:
  call void @chunk(ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %index)
  br label %take
leave:
  %before = atomicrmw sub ptr %pool, i32 1 seq_cst
  %state = and i32 %before, u0x7fffffff
  %last = icmp eq i32 %state, $last
  br i1 %last, label %tell, label %out
tell:
  call void @wake_owner(ptr %pool)
  br label %out
out:
  ret void
}

define void @poot_work(ptr %pool) nounwind {
entry:
  %at.spin = getelementptr i8, ptr %pool, i64 $spin
  %at.sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %at.epoch = getelementptr i8, ptr %pool, i64 $epoch
  %at.owner = getelementptr i8, ptr %pool, i64 $owner
  %spin = load i64, ptr %at.spin
  call void @begin_work(ptr %pool)
  br label %idle

idle:
  %woken = phi i1 [ false, %entry ], [ false, %join ], [ true, %asleep ], [ false, %changed ]
  br label %look
look:
  %turn = phi i64 [ 0, %idle ], [ %turn.next, %again ]
  %closing = call i1 @is_closing(ptr %pool)
  br i1 %closing, label %out, label %ready
ready:
  %work = call i1 @has_work(ptr %pool)
  br i1 %work, label %join, label %rest
join:
  call void @take_part(ptr %pool, i1 %woken)
  br label %idle
rest:
  call void @turn(ptr %pool, i64 %turn)
  %turn.next = add i64 %turn, 1
  %patient = icmp slt i64 %turn.next, %spin
  br i1 %patient, label %again, label %expect
expect:
  ; A list in progress will probably share another launch soon, and waking up for it would take long.
  %owner = load atomic i32, ptr %at.owner monotonic, align 4
  %owned = icmp ne i32 %owner, 0
  %most = mul i64 %spin, $eager
  %early = icmp slt i64 %turn.next, %most
  %stay.up = and i1 %owned, %early
  br i1 %stay.up, label %again, label %drowsy
again:
  br label %look

drowsy:
  %counted = atomicrmw add ptr %at.sleepers, i32 1 seq_cst
  %epoch = load atomic i32, ptr %at.epoch seq_cst, align 4
  %closing.now = call i1 @is_closing(ptr %pool)
  %work.now = call i1 @has_work(ptr %pool)
  %stay = or i1 %closing.now, %work.now
  br i1 %stay, label %changed, label %asleep
changed:
  %uncounted = atomicrmw sub ptr %at.sleepers, i32 1 seq_cst
  br label %idle
asleep:
  %back = call i1 @sleep(ptr %pool, i32 %epoch)
  br i1 %back, label %idle, label %gone
gone:
  ret void
out:
  ret void
}

define void @poot_stop(ptr %pool) nounwind {
  %at = getelementptr i8, ptr %pool, i64 $closing
  store atomic i32 1, ptr %at seq_cst, align 4
  call void @wake_workers(ptr %pool, i64 2147483647)
  ret void
}

define void @poot_cancel(ptr %pool) nounwind {
  %at = getelementptr i8, ptr %pool, i64 $cancel
  %old = atomicrmw add ptr %at, i64 1 seq_cst
  ret void
}
""")
