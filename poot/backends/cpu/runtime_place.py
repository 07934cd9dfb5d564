"""The text of `place_workers`: sleeping workers are to wake on other CPUs than the one that their caller is on.

Linux wakes a thread on an idle CPU, but looks at fewer CPUs the busier they are lately, and on a machine of two it
soon looks at none: caller and worker then share one CPU, each at half speed, for as long as a scheduler's tick, while
the other CPU idles.  So the owner of a launch, before it wakes anyone, takes the CPU that it is on out of the workers'
affinity, if it has moved there since it last did.  What it starts from is its own affinity at that moment, so workers
never run where the caller may not.
"""

from __future__ import annotations

from string import Template
from typing import Final

#: Workers that have a place in the pool's words; with more than that, the system finds idle CPUs.
PLACES: Final = 7

PLACE: Final = Template("""
; A worker gives its thread number, once.
define internal void @register(ptr %pool) nounwind {
entry:
  %at.places = getelementptr i8, ptr %pool, i64 $places
  %places = load atomic i32, ptr %at.places monotonic, align 4
  %any = icmp sgt i32 %places, 0
  br i1 %any, label %count, label %out
count:
  %at.placed = getelementptr i8, ptr %pool, i64 $placed
  %mine = atomicrmw add ptr %at.placed, i32 1 seq_cst
  %fits = icmp slt i32 %mine, %places
  br i1 %fits, label %tell, label %out
tell:
  %thread = call i64 @system(i64 $gettid, i64 0, i64 0, i64 0)
  %narrow = trunc i64 %thread to i32
  %at.threads = getelementptr i8, ptr %pool, i64 $threads
  %at.mine = getelementptr i32, ptr %at.threads, i32 %mine
  store atomic i32 %narrow, ptr %at.mine seq_cst, align 4
  ; Whoever wakes workers next places this one too.
  %at.cpu = getelementptr i8, ptr %pool, i64 $cpu
  store atomic i32 -1, ptr %at.cpu seq_cst, align 4
  br label %out
out:
  ret void
}

define internal void @place_workers(ptr %pool) nounwind {
entry:
  %here = alloca i32
  %mask = alloca <16 x i64>
  %at.places = getelementptr i8, ptr %pool, i64 $places
  %places = load atomic i32, ptr %at.places monotonic, align 4
  %any = icmp sgt i32 %places, 0
  br i1 %any, label %ask, label %out
ask:
  store i32 -1, ptr %here
  %here.word = ptrtoint ptr %here to i64
  %asked = call i64 @system(i64 $getcpu, i64 %here.word, i64 0, i64 0)
  %cpu = load i32, ptr %here
  %at.cpu = getelementptr i8, ptr %pool, i64 $cpu
  %before = atomicrmw xchg ptr %at.cpu, i32 %cpu seq_cst
  %stayed = icmp eq i32 %before, %cpu
  %known = icmp ult i32 %cpu, 1024
  %moved = xor i1 %stayed, true
  %needed = and i1 %known, %moved
  br i1 %needed, label %look, label %out
look:
  store <16 x i64> zeroinitializer, ptr %mask
  %mask.word = ptrtoint ptr %mask to i64
  %got = call i64 @system(i64 $getaffinity, i64 0, i64 128, i64 %mask.word)
  %word.index = lshr i32 %cpu, 6
  %at.word = getelementptr i64, ptr %mask, i32 %word.index
  %bit.index = and i32 %cpu, 63
  %bit.wide = zext i32 %bit.index to i64
  %bit = shl i64 1, %bit.wide
  %others = xor i64 %bit, -1
  %word = load i64, ptr %at.word
  %rest = and i64 %word, %others
  store i64 %rest, ptr %at.word
  %all = load <16 x i64>, ptr %mask
  %union = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %all)
  %some = icmp ne i64 %union, 0
  br i1 %some, label %loop, label %out
loop:
  %index = phi i32 [ 0, %look ], [ %index.next, %following ]
  %at.threads = getelementptr i8, ptr %pool, i64 $threads
  %at.thread = getelementptr i32, ptr %at.threads, i32 %index
  %thread = load atomic i32, ptr %at.thread seq_cst, align 4
  %there = icmp sgt i32 %thread, 0
  br i1 %there, label %set, label %following
set:
  %thread.wide = zext i32 %thread to i64
  %ignored = call i64 @system(i64 $setaffinity, i64 %thread.wide, i64 128, i64 %mask.word)
  br label %following
following:
  %index.next = add i32 %index, 1
  %more = icmp slt i32 %index.next, %places
  br i1 %more, label %loop, label %out
out:
  ret void
}
declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)
""")
