"""The text of `poot_run` and `poot_call`: a list of launches on the calling thread and, for wide ones, the workers."""

from __future__ import annotations

from string import Template
from typing import Final

RUN: Final = Template("""
define internal void @chunk(ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %index) alwaysinline nounwind {
  %begin = mul i64 %index, %grain
  %rest = sub i64 %groups, %begin
  %short = icmp slt i64 %rest, %grain
  %size = select i1 %short, i64 %rest, i64 %grain
  %end = add i64 %begin, %size
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  ret void
}

define internal i1 @cancelled(ptr %pool, i64 %generation) alwaysinline nounwind {
  %at = getelementptr i8, ptr %pool, i64 $cancel
  %now = load atomic i64, ptr %at monotonic, align 8
  %moved = icmp ne i64 %now, %generation
  ret i1 %moved
}

; Whether to stop here.  The slice starts at the first question, so that a single small launch reads no clock.
define internal i1 @must_stop(ptr %pool, i64 %generation, ptr %started) alwaysinline nounwind {
entry:
  %now = call i64 @ticks()
  %start = load i64, ptr %started
  %first = icmp eq i64 %start, 0
  %since = select i1 %first, i64 %now, i64 %start
  store i64 %since, ptr %started
  %spent = sub i64 %now, %since
  %at = getelementptr i8, ptr %pool, i64 $slice
  %slice = load i64, ptr %at
  %over = icmp ugt i64 %spent, %slice
  %cancelled = call i1 @cancelled(ptr %pool, i64 %generation)
  %stop = or i1 %over, %cancelled
  ret i1 %stop
}

; Every chunk from %first on this thread alone; the first chunk that has not run.
define internal i64 @run_alone(ptr %pool, ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %chunks,
                               i64 %first, i64 %generation, ptr %started) nounwind {
entry:
  br label %loop
loop:
  %index = phi i64 [ %first, %entry ], [ %following, %more ]
  call void @chunk(ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %index)
  %following = add i64 %index, 1
  %done = icmp sge i64 %following, %chunks
  br i1 %done, label %out, label %more
more:
  %stop = call i1 @must_stop(ptr %pool, i64 %generation, ptr %started)
  br i1 %stop, label %out, label %loop
out:
  ret i64 %following
}

; The same with the workers, by the owner.
define internal i64 @run_shared(ptr %pool, ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %chunks,
                                i64 %first, i64 %generation, ptr %started) nounwind {
entry:
  %at.function = getelementptr i8, ptr %pool, i64 $function
  %at.arguments = getelementptr i8, ptr %pool, i64 $arguments
  %at.groups = getelementptr i8, ptr %pool, i64 $groups
  %at.grain = getelementptr i8, ptr %pool, i64 $grain
  %at.chunks = getelementptr i8, ptr %pool, i64 $chunks
  %at.next = getelementptr i8, ptr %pool, i64 $next
  store ptr %function, ptr %at.function
  store ptr %arguments, ptr %at.arguments
  store i64 %groups, ptr %at.groups
  store i64 %grain, ptr %at.grain
  store atomic i64 %chunks, ptr %at.chunks monotonic, align 8
  store atomic i64 %first, ptr %at.next monotonic, align 8
  %before = atomicrmw or ptr %pool, i32 u0x80000000 seq_cst
  %at.sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %sleepers = load atomic i32, ptr %at.sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %wake, label %take
wake:
  %others = sub i64 %chunks, %first
  %useful = sub i64 %others, 1
  %many = icmp sgt i64 %useful, $fanout
  %most = select i1 %many, i64 $fanout, i64 %useful
  call void @place_workers(ptr %pool)
  call void @wake_workers(ptr %pool, i64 %most)
  br label %take
take:
  %index = atomicrmw add ptr %at.next, i64 1 seq_cst
  %left = icmp slt i64 %index, %chunks
  br i1 %left, label %work, label %close
work:
  call void @chunk(ptr %function, ptr %arguments, i64 %groups, i64 %grain, i64 %index)
  %stop = call i1 @must_stop(ptr %pool, i64 %generation, ptr %started)
  br i1 %stop, label %interrupt, label %take
interrupt:
  ; No one takes a chunk after this; all before it have been taken.
  %taken = atomicrmw xchg ptr %at.next, i64 $beyond seq_cst
  %short = icmp slt i64 %taken, %chunks
  %reached = select i1 %short, i64 %taken, i64 %chunks
  br label %close
close:
  %result = phi i64 [ %chunks, %take ], [ %reached, %interrupt ]
  call void @close_gate(ptr %pool)
  ret i64 %result
}

define internal void @close_gate(ptr %pool) nounwind {
entry:
  %at.spin = getelementptr i8, ptr %pool, i64 $spin
  %spin = load i64, ptr %at.spin
  %old = atomicrmw and ptr %pool, i32 u0x7fffffff seq_cst
  %old.joined = and i32 %old, $joined
  %alone = icmp eq i32 %old.joined, 0
  br i1 %alone, label %out, label %spinning
spinning:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %again ]
  %gate = load atomic i32, ptr %pool seq_cst, align 4
  %inside = and i32 %gate, $joined
  %clear = icmp eq i32 %inside, 0
  br i1 %clear, label %out, label %relaxing
relaxing:
  call void @turn(ptr %pool, i64 %turn)
  %turn.next = add i64 %turn, 1
  %patient = icmp slt i64 %turn.next, %spin
  br i1 %patient, label %again, label %announce
again:
  br label %spinning
announce:
  %unannounced = atomicrmw or ptr %pool, i32 $waiter seq_cst
  br label %waiting
waiting:
  %seen = load atomic i32, ptr %pool seq_cst, align 4
  %seen.joined = and i32 %seen, $joined
  %empty = icmp eq i32 %seen.joined, 0
  br i1 %empty, label %withdraw, label %wait
wait:
  call void @wait_gate(ptr %pool, i32 %seen)
  br label %waiting
withdraw:
  %announced = atomicrmw xor ptr %pool, i32 $waiter seq_cst
  br label %out
out:
  ret void
}

; The number of a turn: the second word of the arguments, and where the first points, if anywhere.
define internal void @set_turn(ptr %arguments, i64 %number) alwaysinline nounwind {
entry:
  %at.number = getelementptr i64, ptr %arguments, i64 1
  store i64 %number, ptr %at.number
  %counter = load ptr, ptr %arguments
  %none = icmp eq ptr %counter, null
  br i1 %none, label %out, label %tell
tell:
  %narrow = trunc i64 %number to i32
  store i32 %narrow, ptr %counter
  br label %out
out:
  ret void
}

define i64 @poot_run(ptr %pool, ptr %list, i64 %count, i64 %position, i64 %generation) nounwind {
entry:
  %started = alloca i64
  store i64 0, ptr %started
  %woken.wide = lshr i64 %position, $wake_bit
  %woken.given = trunc i64 %woken.wide to i1
  %index.wide = lshr i64 %position, $chunk_bits
  %index.given = and i64 %index.wide, $index_mask
  %first.given = and i64 %position, $chunk_mask
  %at.workers = getelementptr i8, ptr %pool, i64 $workers
  %at.owner = getelementptr i8, ptr %pool, i64 $owner
  %any = icmp slt i64 %index.given, %count
  br i1 %any, label %head, label %nothing
nothing:
  ret i64 0

; What stands at %index; a decision has its target in the place of the groups, and a limit in that of the grain.
head:
  %index = phi i64 [ %index.given, %entry ], [ %index.next, %following ]
  %first = phi i64 [ %first.given, %entry ], [ 0, %following ]
  %woken = phi i1 [ %woken.given, %entry ], [ false, %following ]
  %owned = phi i1 [ false, %entry ], [ %owned.after, %following ]
  %launch = getelementptr [5 x i64], ptr %list, i64 %index
  %at.arguments = getelementptr i64, ptr %launch, i64 1
  %at.groups = getelementptr i64, ptr %launch, i64 2
  %at.grain = getelementptr i64, ptr %launch, i64 3
  %at.flags = getelementptr i64, ptr %launch, i64 4
  %function = load ptr, ptr %launch
  %arguments = load ptr, ptr %at.arguments
  %groups = load i64, ptr %at.groups
  %grain = load i64, ptr %at.grain
  %flags = load i64, ptr %at.flags
  %beyond = add i64 %index, 1
  %decision = icmp eq ptr %function, null
  br i1 %decision, label %decide, label %launching
launching:
  %single = icmp sle i64 %groups, %grain
  br i1 %single, label %one, label %several

one:
  %empty = icmp sle i64 %groups, 0
  br i1 %empty, label %next, label %call
call:
  call void %function(ptr %arguments, i64 0, i64 %groups)
  %quick = and i64 %flags, $quick
  %slow = icmp eq i64 %quick, 0
  br label %next

decide:
  %operation = lshr i64 %flags, $control
  switch i64 %operation, label %move [ i64 $op_test, label %test i64 $op_start, label %start i64 $op_turn, label %turn ]
test:
  %at.bool = load ptr, ptr %arguments
  %bool = load i8, ptr %at.bool
  %false = icmp eq i8 %bool, 0
  %tested = select i1 %false, i64 %groups, i64 %beyond
  br label %move
start:
  %counting = getelementptr [5 x i64], ptr %list, i64 %groups, i64 1
  %counted = load ptr, ptr %counting
  call void @set_turn(ptr %counted, i64 0)
  br label %move
turn:
  %at.number = getelementptr i64, ptr %arguments, i64 1
  %number = load i64, ptr %at.number
  %number.next = add i64 %number, 1
  call void @set_turn(ptr %arguments, i64 %number.next)
  %again = icmp slt i64 %number.next, %grain
  %turned = select i1 %again, i64 %groups, i64 %beyond
  %some = and i64 %number.next, $turns_mask
  %due = icmp eq i64 %some, 0
  br label %move
move:
  %target = phi i64 [ %groups, %decide ], [ %tested, %test ], [ %beyond, %start ], [ %turned, %turn ]
  %check.time = phi i1 [ false, %decide ], [ false, %test ], [ false, %start ], [ %due, %turn ]
  br label %next

several:
  %padded = add i64 %groups, %grain
  %rounded = sub i64 %padded, 1
  %chunks = udiv i64 %rounded, %grain
  %inline = and i64 %flags, $inline
  %share = icmp eq i64 %inline, 0
  %workers = load atomic i64, ptr %at.workers monotonic, align 8
  %staffed = icmp sgt i64 %workers, 0
  %wanted = and i1 %share, %staffed
  br i1 %wanted, label %claim, label %alone
claim:
  br i1 %owned, label %staff, label %try
try:
  %attempt = cmpxchg ptr %at.owner, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue { i32, i1 } %attempt, 1
  br i1 %got, label %staff, label %alone

staff:
  %needed = xor i1 %woken, true
  %ask = and i1 %needed, $ask
  br i1 %ask, label %look, label %shared
look:
  %at.sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %sleepers = load atomic i32, ptr %at.sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %call.workers, label %shared
call.workers:
  store atomic i32 0, ptr %at.owner release, align 4
  %here = call i64 @encode(i64 %index, i64 %first)
  %request = or i64 %here, $wake
  ret i64 %request

shared:
  %reached.shared = call i64 @run_shared(ptr %pool, ptr %function, ptr %arguments, i64 %groups, i64 %grain,
                                         i64 %chunks, i64 %first, i64 %generation, ptr %started)
  br label %check
alone:
  %reached.alone = call i64 @run_alone(ptr %pool, ptr %function, ptr %arguments, i64 %groups, i64 %grain,
                                       i64 %chunks, i64 %first, i64 %generation, ptr %started)
  br label %check
check:
  %reached = phi i64 [ %reached.shared, %shared ], [ %reached.alone, %alone ]
  %owned.now = phi i1 [ true, %shared ], [ %owned, %alone ]
  %partial = icmp slt i64 %reached, %chunks
  br i1 %partial, label %stop, label %next

next:
  %owned.after = phi i1 [ %owned, %one ], [ %owned, %call ], [ %owned.now, %check ], [ %owned, %move ]
  %index.next = phi i64 [ %beyond, %one ], [ %beyond, %call ], [ %beyond, %check ], [ %target, %move ]
  %long = phi i1 [ false, %one ], [ %slow, %call ], [ true, %check ], [ %check.time, %move ]
  %more = icmp slt i64 %index.next, %count
  br i1 %more, label %time, label %done
time:
  br i1 %long, label %pause, label %following
pause:
  %over = call i1 @must_stop(ptr %pool, i64 %generation, ptr %started)
  br i1 %over, label %stop, label %following
following:
  br label %head

stop:
  %stop.index = phi i64 [ %index, %check ], [ %index.next, %pause ]
  %stop.chunk = phi i64 [ %reached, %check ], [ 0, %pause ]
  %stop.owned = phi i1 [ %owned.now, %check ], [ %owned.after, %pause ]
  call void @release(ptr %pool, i1 %stop.owned)
  %cancelled = call i1 @cancelled(ptr %pool, i64 %generation)
  %resume = call i64 @encode(i64 %stop.index, i64 %stop.chunk)
  %result = select i1 %cancelled, i64 -1, i64 %resume
  ret i64 %result

done:
  call void @release(ptr %pool, i1 %owned.after)
  ret i64 0
}

; A list from its start, with its arguments in memory: foreign calls from Python cost by the argument.
define i64 @poot_call(ptr %call) nounwind {
  %at.list = getelementptr i64, ptr %call, i64 1
  %at.count = getelementptr i64, ptr %call, i64 2
  %at.generation = getelementptr i64, ptr %call, i64 3
  %pool = load ptr, ptr %call
  %list = load ptr, ptr %at.list
  %count = load i64, ptr %at.count
  %at.cancel = getelementptr i8, ptr %pool, i64 $cancel
  %generation = load atomic i64, ptr %at.cancel monotonic, align 8
  store i64 %generation, ptr %at.generation
  %position = call i64 @poot_run(ptr %pool, ptr %list, i64 %count, i64 0, i64 %generation)
  ret i64 %position
}

define internal i64 @encode(i64 %index, i64 %chunk) alwaysinline nounwind {
  %high = shl i64 %index, $chunk_bits
  %position = or i64 %high, %chunk
  ret i64 %position
}

define internal void @release(ptr %pool, i1 %owned) alwaysinline nounwind {
entry:
  br i1 %owned, label %clear, label %out
clear:
  %at = getelementptr i8, ptr %pool, i64 $owner
  store atomic i32 0, ptr %at release, align 4
  br label %out
out:
  ret void
}
""")
