"""The native side of the worker pool, as LLVM IR text.

Memory
    A *pool* is one block of words, a cache line for each group that is written together (`POOL_*` are byte offsets).
    A *list* is `count` descriptors of five 64-bit words: function, argument pointer, groups, groups a chunk, flags.
    One without a function is a decision, its `Operation` above the flags: where to go on instead of groups, a number of
    turns instead of groups a chunk.  What a loop has to remember stands in its arguments, so that a run that came back
    is resumed by the number of a descriptor alone.

Functions
    `poot_run(pool, list, count, position, generation) -> position`
        Runs the list from `position` (0 is its start); 0 says that all of it is done.  A positive result is where to
        resume: the time slice is over, or (`WAKE`) workers have to be woken by the caller first.  A negative one says
        that the pool's cancel word moved away from `generation`.
    `poot_call(words) -> position`
        The same from the start; the words are pool, list, count, and one for the generation, which it reads itself.
    `poot_work(pool)`
        A worker: takes part in launches until the pool is closing (futex), or until it has found nothing to do for a
        while (threads).
    `poot_stop(pool)`, `poot_cancel(pool)`, `poot_slice() -> ticks`

Protocol
    One launch at a time is shared, by the thread that holds `owner`.  It writes the launch into the pool, sets the open
    bit of `gate`, and takes chunks itself.  A worker that sees the bit adds one to the gate's low bits, its joined
    workers; if the bit was still set it takes chunks too, then subtracts one.  At the end the owner clears the bit and
    waits until no one is joined, so it waits only for workers that are running a chunk, never for one that has yet to
    wake.  Going to sleep, a worker first counts itself in `sleepers` and then looks at the gate again; the owner opens
    the gate and then looks at `sleepers`: whichever comes second sees the other (all of it sequentially consistent).
"""

from __future__ import annotations

from enum import IntEnum
from string import Template
from typing import Final, Literal

from poot.backends.cpu.runtime_place import PLACE
from poot.backends.cpu.runtime_run import RUN
from poot.backends.cpu.runtime_work import WORK

Kind = Literal["futex", "threads"]

POOL_BYTES: Final = 448
POOL_GATE: Final = 0
POOL_EPOCH: Final = 64
POOL_SLEEPERS: Final = 68
POOL_CLOSING: Final = 72
POOL_OWNER: Final = 128
POOL_CANCEL: Final = 136
POOL_WORKERS: Final = 192
POOL_SPIN: Final = 200
POOL_SLICE: Final = 208
POOL_YIELD: Final = 216
POOL_FUNCTION: Final = 256
POOL_ARGUMENTS: Final = 264
POOL_GROUPS: Final = 272
POOL_GRAIN: Final = 280
POOL_CHUNKS: Final = 288
POOL_NEXT: Final = 320
POOL_CPU: Final = 384
POOL_PLACES: Final = 388
POOL_PLACED: Final = 392
POOL_THREADS: Final = 396

INLINE_FLAG: Final = 1
QUICK_FLAG: Final = 2
CONTROL_SHIFT: Final = 8
CHUNK_BITS: Final = 38
INDEX_BITS: Final = 24
WAKE: Final = 1 << (CHUNK_BITS + INDEX_BITS)

EXPORTS: Final = ("poot_run", "poot_call", "poot_work", "poot_stop", "poot_cancel", "poot_slice")
FUTEX_ARCHITECTURES: Final = ("x86_64", "aarch64")

# How many sleeping workers one thread wakes; each that joins wakes as many again, so that waking many takes few steps.
_FANOUT: Final = 2
# How many times longer than usual an idle worker stays awake while a list is in progress.
_EAGER: Final = 8
# A power of two; some 2 µs.
_TURNS_A_YIELD: Final = 64
# A power of two: so many turns of a loop go by, of launches that need not be timed, between two looks at the clock.
_TURNS_A_LOOK: Final = 16


class Operation(IntEnum):
    """What a descriptor without a function does."""

    JUMP = 0
    TEST = 1
    START = 2
    TURN = 3


def runtime_ir(arch: str, kind: Kind) -> str:
    """The pool's module for an architecture of LLVM's name.

    `kind` is how idle workers wait: "futex" (Linux, on `FUTEX_ARCHITECTURES`), or "threads": in Python.  On other
    architectures there is no clock either, and a run is never sliced.
    """
    if kind == "futex":
        names = {**_NAMES, **_CALLS[arch]}
        waiting = _FUTEX.substitute(names, syscall=_SYSTEM_CALL[arch]) + PLACE.substitute(names)
    else:
        waiting = _THREADS.substitute(_NAMES)
    ask = "true" if kind == "threads" else "false"
    return "\n".join(
        (
            _CPU.get(arch, _ANY_CPU),
            waiting,
            _TURN.substitute(_NAMES),
            RUN.substitute(_NAMES, ask=ask),
            WORK.substitute(_NAMES),
        )
    )


_NAMES: Final = {
    "gate": POOL_GATE,
    "epoch": POOL_EPOCH,
    "sleepers": POOL_SLEEPERS,
    "closing": POOL_CLOSING,
    "owner": POOL_OWNER,
    "cancel": POOL_CANCEL,
    "workers": POOL_WORKERS,
    "spin": POOL_SPIN,
    "slice": POOL_SLICE,
    "yield_": POOL_YIELD,
    "function": POOL_FUNCTION,
    "arguments": POOL_ARGUMENTS,
    "groups": POOL_GROUPS,
    "grain": POOL_GRAIN,
    "chunks": POOL_CHUNKS,
    "next": POOL_NEXT,
    "cpu": POOL_CPU,
    "places": POOL_PLACES,
    "placed": POOL_PLACED,
    "threads": POOL_THREADS,
    "fanout": _FANOUT,
    "eager": _EAGER,
    "yield_mask": _TURNS_A_YIELD - 1,
    "turns_mask": _TURNS_A_LOOK - 1,
    "chunk_bits": CHUNK_BITS,
    "chunk_mask": (1 << CHUNK_BITS) - 1,
    "index_mask": (1 << INDEX_BITS) - 1,
    "wake_bit": CHUNK_BITS + INDEX_BITS,
    "wake": WAKE,
    "inline": INLINE_FLAG,
    "quick": QUICK_FLAG,
    "control": CONTROL_SHIFT,
    "op_test": int(Operation.TEST),
    "op_start": int(Operation.START),
    "op_turn": int(Operation.TURN),
    "beyond": 1 << 62,
    "waiter": 1 << 30,
    "joined": (1 << 30) - 1,
    "last": (1 << 30) | 1,
}

# --- the CPU: a tick counter that needs no system call, and a hint for spinning --------------------------------------

_CPU: Final = {
    # The slice is a power of two near a fourteenth of a second: 54 to 134 ms between 2 and 5 GHz.
    "x86_64": """
define internal i64 @ticks() alwaysinline nounwind {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
declare i64 @llvm.readcyclecounter()
define i64 @poot_slice() nounwind {
  ret i64 268435456
}
define internal void @relax() alwaysinline nounwind {
  call void asm sideeffect "pause", "~{memory}"()
  ret void
}
""",
    # A sixteenth of the counter's stated frequency is 62 ms.
    "aarch64": """
define internal i64 @ticks() alwaysinline nounwind {
  %now = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()
  ret i64 %now
}
define i64 @poot_slice() nounwind {
  %frequency = call i64 asm sideeffect "mrs $0, cntfrq_el0", "=r"()
  %ticks = lshr i64 %frequency, 4
  ret i64 %ticks
}
define internal void @relax() alwaysinline nounwind {
  call void asm sideeffect "isb", "~{memory}"()
  ret void
}
""",
}
_ANY_CPU: Final = """
define internal i64 @ticks() alwaysinline nounwind {
  ret i64 0
}
define i64 @poot_slice() nounwind {
  ret i64 1
}
define internal void @relax() alwaysinline nounwind {
  fence seq_cst
  ret void
}
"""

# One turn of a spinning loop.  Now and then it lets another thread have the CPU, for that may be the one waited for.
_TURN: Final = Template("""
define internal void @turn(ptr %pool, i64 %number) alwaysinline nounwind {
entry:
  call void @relax()
  %phase = and i64 %number, $yield_mask
  %due = icmp eq i64 %phase, $yield_mask
  br i1 %due, label %give, label %out
give:
  call void @give_way(ptr %pool)
  br label %out
out:
  ret void
}
""")

# --- waiting ---------------------------------------------------------------------------------------------------------

_SYSTEM_CALL: Final = {
    "x86_64": (
        'asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},~{rcx},~{r11},~{memory}"'
        "(i64 %number, i64 %first, i64 %second, i64 %third, i64 0)"
    ),
    "aarch64": (
        'asm sideeffect "svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},~{memory}"'
        "(i64 %number, i64 %first, i64 %second, i64 %third, i64 0)"
    ),
}
_CALLS: Final = {
    "x86_64": {"futex": 202, "sched_yield": 24, "gettid": 186, "getcpu": 309, "setaffinity": 203, "getaffinity": 204},
    "aarch64": {"futex": 98, "sched_yield": 124, "gettid": 178, "getcpu": 168, "setaffinity": 122, "getaffinity": 123},
}

# FUTEX_WAIT_PRIVATE is 128 and FUTEX_WAKE_PRIVATE 129.  Every wait sits in a loop that looks again, so that a signal, a
# value that has changed and a wake meant for another are all harmless.
_FUTEX: Final = Template("""
define internal i64 @system(i64 %number, i64 %first, i64 %second, i64 %third) nounwind {
  %result = call i64 $syscall
  ret i64 %result
}
define internal void @futex(ptr %word, i64 %operation, i64 %value) nounwind {
  %address = ptrtoint ptr %word to i64
  %result = call i64 @system(i64 $futex, i64 %address, i64 %operation, i64 %value)
  ret void
}
define internal void @give_way(ptr %pool) nounwind {
  %result = call i64 @system(i64 $sched_yield, i64 0, i64 0, i64 0)
  ret void
}
define internal void @wake_workers(ptr %pool, i64 %most) nounwind {
  %epoch = getelementptr i8, ptr %pool, i64 $epoch
  %old = atomicrmw add ptr %epoch, i32 1 seq_cst
  call void @futex(ptr %epoch, i64 129, i64 %most)
  ret void
}
define internal i1 @sleep(ptr %pool, i32 %epoch) nounwind {
  %word = getelementptr i8, ptr %pool, i64 $epoch
  %value = zext i32 %epoch to i64
  call void @futex(ptr %word, i64 128, i64 %value)
  %sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %old = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  ret i1 true
}
define internal void @begin_work(ptr %pool) alwaysinline nounwind {
  call void @register(ptr %pool)
  ret void
}
define internal void @wait_gate(ptr %pool, i32 %seen) nounwind {
  %value = zext i32 %seen to i64
  call void @futex(ptr %pool, i64 128, i64 %value)
  ret void
}
define internal void @wake_owner(ptr %pool) nounwind {
  call void @futex(ptr %pool, i64 129, i64 1)
  ret void
}
""")

# Idle workers go back to Python, counted in `sleepers` from then until they are back; the owner asks Python to call
# them, and gives its time slice away while it waits for the last of them.
_THREADS: Final = Template("""
define internal void @place_workers(ptr %pool) alwaysinline nounwind {
  ret void
}
define internal void @wake_workers(ptr %pool, i64 %most) nounwind {
  ret void
}
define internal i1 @sleep(ptr %pool, i32 %epoch) nounwind {
  ret i1 false
}
define internal void @begin_work(ptr %pool) alwaysinline nounwind {
  %sleepers = getelementptr i8, ptr %pool, i64 $sleepers
  %old = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  ret void
}
define internal void @wait_gate(ptr %pool, i32 %seen) nounwind {
  call void @give_way(ptr %pool)
  ret void
}
define internal void @give_way(ptr %pool) nounwind {
entry:
  %at = getelementptr i8, ptr %pool, i64 $yield_
  %yield = load ptr, ptr %at
  %none = icmp eq ptr %yield, null
  br i1 %none, label %spin, label %give
spin:
  call void @relax()
  ret void
give:
  %ignored = call i32 %yield()
  ret void
}
define internal void @wake_owner(ptr %pool) nounwind {
  ret void
}
""")
