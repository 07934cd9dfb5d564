"""Barriers, and reductions and scans over a block: shuffles within a wave, shared memory between waves.

A wave is the threads that run in step and pass values to each other (NVIDIA's warp).  A reduction ends with every
wave's result in shared memory, which every thread combines in the order of waves, so that all get the same; a scan adds
the sums of the waves before.  f16 and bf16 sums are carried in f32 and rounded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from poot.dtypes import DType, bf16, f16, f32
from poot.kernel.ir import Collective, Kernel
from poot.kernel.render.llvm_casts import cast
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value
from poot.kernel.render.llvm_ops import extreme

_HALVES = (f16, bf16)


class Collectives(ABC):
    """Writes the collectives of one kernel; `globals` collects the shared memory that they need.

    `wave` is the threads of a wave; subclasses say how one maker's GPUs wait, vote and shuffle.
    """

    def __init__(self, e: Emitter, kernel: Kernel, wave: int) -> None:
        self.e = e
        self.size = kernel.group_invocations
        self.wave = wave
        self.waves = -(-self.size // wave)
        self.globals: list[str] = []
        self._used = False

    @abstractmethod
    def barrier(self) -> None:
        """Wait for the block; its writes become visible to all of it."""

    @abstractmethod
    def thread(self) -> str:
        """The number of a thread in its block."""

    @abstractmethod
    def lane(self) -> str:
        """The number of a thread in its wave."""

    @abstractmethod
    def vote(self, op: str, text: str, looping: bool) -> str:
        """Whether an i1 holds for "any" thread of the block, or for "all"."""

    @abstractmethod
    def word(self, mode: str, text: str, by: str) -> str:
        """32 bits of another thread of the wave: "idx" lane `by`, "bfly" this lane xor `by`, "up" and "down" as many
        lanes before and behind; anything where that lane is not in the wave, or has no thread.
        """

    def __call__(self, node: Collective, arg: Value, *, looping: bool) -> Value:
        """The value of a collective; `looping` says that it may run more than once."""
        if node.op in ("any", "all"):
            return Value(self.vote(node.op, arg.text, looping), node.dtype)
        wide = node.dtype in _HALVES
        value = cast(self.e, arg, f32) if wide else arg
        combine = self._combine(node.op, value.dtype)
        found = self._scan(value, combine, looping) if node.op == "scan" else self._reduce(value, combine, looping)
        return cast(self.e, found, node.dtype) if wide else found

    def _combine(self, op: str, dtype: DType) -> Callable[[str, str], str]:
        e, t = self.e, REGISTER[dtype]
        if op in ("max", "min"):
            return lambda a, b: extreme(e, op, dtype, t, a, b)
        return lambda a, b: e.emit(f"{'fadd' if dtype.is_float else 'add'} {t} {a}, {b}")

    # --- within a wave ---

    def number(self) -> str:
        """The number of a thread's wave in its block."""
        thread = self.thread()
        return self.e.known(("wave",), f"lshr i32 {thread}, {self.wave.bit_length() - 1}")

    def last(self) -> str:
        """Whether a thread is in the last wave, which may have fewer threads than others."""
        return self.e.known(("last",), f"icmp eq i32 {self.number()}, {self.waves - 1}")

    def _threads(self) -> str:
        """The number of threads in this wave."""
        rest = self.size % self.wave
        if not rest or self.waves == 1:
            return str(rest or self.wave)
        return self.e.known(("threads",), f"select i1 {self.last()}, i32 {rest}, i32 {self.wave}")

    def _shuffle(self, mode: str, value: str, dtype: DType, by: str) -> str:
        """Another lane's value: words of 32 bits at a time."""
        e, t = self.e, REGISTER[dtype]
        bits = f"i{dtype.bits}"
        text = value if t == bits else e.emit(f"bitcast {t} {value} to {bits}")

        if dtype.bits < 32:
            text = self.word(mode, e.emit(f"zext {bits} {text} to i32"), by)
            text = e.emit(f"trunc i32 {text} to {bits}")
        elif dtype.bits == 32:
            text = self.word(mode, text, by)
        else:
            lower = self.word(mode, e.emit(f"trunc i64 {text} to i32"), by)
            low = e.emit(f"zext i32 {lower} to i64")
            upper = e.emit(f"trunc i64 {e.emit(f'lshr i64 {text}, 32')} to i32")
            upper = self.word(mode, upper, by)
            high = e.emit(f"shl i64 {e.emit(f'zext i32 {upper} to i64')}, 32")
            text = e.emit(f"or disjoint i64 {low}, {high}")
        return text if t == bits else e.emit(f"bitcast {bits} {text} to {t}")

    def _reduce(self, value: Value, combine: Callable[[str, str], str], looping: bool) -> Value:
        e, dtype, text = self.e, value.dtype, value.text
        t, lane, whole = REGISTER[dtype], self.lane(), self.size % self.wave == 0
        by = 1
        while by < min(self.size, self.wave):
            by *= 2
        while by := by // 2:
            other = self._shuffle("bfly" if whole else "down", text, dtype, str(by))
            joined = combine(text, other)
            if not whole:
                ok = e.emit(f"icmp ult i32 {e.emit(f'add i32 {lane}, {by}')}, {self._threads()}")
                joined = e.emit(f"select i1 {ok}, {t} {joined}, {t} {text}")
            text = joined
        if self.waves > 1:
            slots = self.exchange(value.dtype, text, e.emit(f"icmp eq i32 {lane}, 0"), looping)
            text = slots[0]
            for slot in slots[1:]:
                text = combine(text, slot)
        elif not whole:
            text = self._shuffle("idx", text, dtype, "0")
        return Value(text, dtype)

    def _scan(self, value: Value, combine: Callable[[str, str], str], looping: bool) -> Value:
        e, dtype, text = self.e, value.dtype, value.text
        t, lane, by = REGISTER[dtype], self.lane(), 1
        while by < min(self.size, self.wave):
            joined = combine(self._shuffle("up", text, dtype, str(by)), text)
            ok = e.emit(f"icmp uge i32 {lane}, {by}")
            text = e.emit(f"select i1 {ok}, {t} {joined}, {t} {text}")
            by *= 2
        if self.waves > 1:
            last = e.emit(f"icmp eq i32 {lane}, {e.emit(f'sub i32 {self._threads()}, 1')}")
            slots = self.exchange(dtype, text, last, looping)
            before = slots[0]
            sums = [before]
            for slot in slots[1:-1]:
                before = combine(before, slot)
                sums.append(before)
            for wave, total in enumerate(sums, start=1):
                mine = e.emit(f"icmp eq i32 {self.number()}, {wave}")
                text = e.emit(f"select i1 {mine}, {t} {combine(total, text)}, {t} {text}")
        return Value(text, dtype)

    # --- between waves ---

    def exchange(self, dtype: DType, text: str, writes: str, looping: bool) -> list[str]:
        """One value from every wave, given by the thread that `writes`."""
        e, t = self.e, REGISTER[dtype]
        if not self.globals:
            self.globals.append(f"@poot_warps = internal addrspace(3) global [{self.waves} x i64] undef, align 16")
        # Threads may still be reading what the collective before this one wrote.
        if self._used or looping:
            self.barrier()
        self._used = True
        share, shared = e.name("share"), e.name("shared")
        e.branch(writes, share, shared)
        e.label(share)
        with e.scope():
            place = e.emit(f"getelementptr {t}, ptr addrspace(3) @poot_warps, i32 {self.number()}")
            e.do(f"store {t} {text}, ptr addrspace(3) {place}, align {dtype.itemsize}")
        e.label(shared)
        self.barrier()
        slots: list[str] = []
        for wave in range(self.waves):
            place = f"getelementptr ({t}, ptr addrspace(3) @poot_warps, i32 {wave})"
            slots.append(e.emit(f"load {t}, ptr addrspace(3) {place}, align {dtype.itemsize}"))
        return slots
