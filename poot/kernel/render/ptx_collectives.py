"""Barriers, and reductions and scans over a block: shuffles within a warp, shared memory between warps.

A reduction ends with every warp's result in shared memory, which every thread combines in the order of warps, so that
all get the same; a scan adds the sums of the warps before.  f16 and bf16 sums are carried in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from poot.dtypes import DType, bf16, f16, f32
from poot.kernel.ir import Collective, Kernel
from poot.kernel.render.llvm_casts import cast
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value
from poot.kernel.render.llvm_ops import extreme

_WARP = 32
_HALVES = (f16, bf16)


class Collectives:
    """Writes the collectives of one kernel; `globals` collects the shared memory that they need."""

    def __init__(self, e: Emitter, kernel: Kernel) -> None:
        self.e = e
        self.size = kernel.group_invocations
        self.warps = -(-self.size // _WARP)
        self.globals: list[str] = []
        self._used = False

    def barrier(self) -> None:
        """Wait for the block; its writes become visible to all of it."""
        self.e.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def __call__(self, node: Collective, arg: Value, *, looping: bool) -> Value:
        """The value of a collective; `looping` says that it may run more than once."""
        if node.op in ("any", "all"):
            way = "or" if node.op == "any" else "and"
            call = f"call i1 @llvm.nvvm.barrier.cta.red.{way}.aligned.all(i32 0, i1 {arg.text})"
            return Value(self.e.emit(call), node.dtype)
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

    # --- within a warp ---

    def _lane(self) -> str:
        return self.e.known(("laneid",), "call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.laneid()")

    def _warp(self) -> str:
        tid = self.e.known(("tid",), f"call range(i32 0, {self.size}) i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        return self.e.known(("warp",), f"lshr i32 {tid}, 5")

    def _members(self) -> str:
        """The mask of a warp's threads; the last warp may have fewer than 32."""
        rest = self.size % _WARP
        if not rest:
            return "-1"
        if self.warps == 1:
            return str((1 << rest) - 1)
        last = self.e.known(("last",), f"icmp eq i32 {self._warp()}, {self.warps - 1}")
        return self.e.known(("members",), f"select i1 {last}, i32 {(1 << rest) - 1}, i32 -1")

    def _threads(self) -> str:
        """The number of threads in this warp."""
        rest = self.size % _WARP
        if not rest or self.warps == 1:
            return str(rest or _WARP)
        last = self.e.known(("last",), f"icmp eq i32 {self._warp()}, {self.warps - 1}")
        return self.e.known(("threads",), f"select i1 {last}, i32 {rest}, i32 {_WARP}")

    def _shuffle(self, mode: str, value: str, dtype: DType, by: str) -> str:
        """Another lane's value: words of 32 bits at a time."""
        e, t = self.e, REGISTER[dtype]
        clamp = 0 if mode == "up" else 31
        bits = f"i{dtype.bits}"
        text = value if t == bits else e.emit(f"bitcast {t} {value} to {bits}")

        def word(part: str) -> str:
            operands = f"i32 {self._members()}, i32 {part}, i32 {by}, i32 {clamp}"
            return e.emit(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32({operands})")

        if dtype.bits < 32:
            text = e.emit(f"trunc i32 {word(e.emit(f'zext {bits} {text} to i32'))} to {bits}")
        elif dtype.bits == 32:
            text = word(text)
        else:
            low = e.emit(f"zext i32 {word(e.emit(f'trunc i64 {text} to i32'))} to i64")
            upper = e.emit(f"trunc i64 {e.emit(f'lshr i64 {text}, 32')} to i32")
            high = e.emit(f"shl i64 {e.emit(f'zext i32 {word(upper)} to i64')}, 32")
            text = e.emit(f"or disjoint i64 {low}, {high}")
        return text if t == bits else e.emit(f"bitcast {bits} {text} to {t}")

    def _reduce(self, value: Value, combine: Callable[[str, str], str], looping: bool) -> Value:
        e, dtype, text = self.e, value.dtype, value.text
        t, lane, whole = REGISTER[dtype], self._lane(), self.size % _WARP == 0
        by = 1
        while by < min(self.size, _WARP):
            by *= 2
        while by := by // 2:
            other = self._shuffle("bfly" if whole else "down", text, dtype, str(by))
            joined = combine(text, other)
            if not whole:
                ok = e.emit(f"icmp ult i32 {e.emit(f'add i32 {lane}, {by}')}, {self._threads()}")
                joined = e.emit(f"select i1 {ok}, {t} {joined}, {t} {text}")
            text = joined
        if self.warps > 1:
            slots = self._exchange(value.dtype, text, e.emit(f"icmp eq i32 {lane}, 0"), looping)
            text = slots[0]
            for slot in slots[1:]:
                text = combine(text, slot)
        elif not whole:
            text = self._shuffle("idx", text, dtype, "0")
        return Value(text, dtype)

    def _scan(self, value: Value, combine: Callable[[str, str], str], looping: bool) -> Value:
        e, dtype, text = self.e, value.dtype, value.text
        t, lane, by = REGISTER[dtype], self._lane(), 1
        while by < min(self.size, _WARP):
            joined = combine(self._shuffle("up", text, dtype, str(by)), text)
            ok = e.emit(f"icmp uge i32 {lane}, {by}")
            text = e.emit(f"select i1 {ok}, {t} {joined}, {t} {text}")
            by *= 2
        if self.warps > 1:
            last = e.emit(f"icmp eq i32 {lane}, {e.emit(f'sub i32 {self._threads()}, 1')}")
            slots = self._exchange(dtype, text, last, looping)
            before = slots[0]
            sums = [before]
            for slot in slots[1:-1]:
                before = combine(before, slot)
                sums.append(before)
            for warp, total in enumerate(sums, start=1):
                mine = e.emit(f"icmp eq i32 {self._warp()}, {warp}")
                text = e.emit(f"select i1 {mine}, {t} {combine(total, text)}, {t} {text}")
        return Value(text, dtype)

    # --- between warps ---

    def _exchange(self, dtype: DType, text: str, writes: str, looping: bool) -> list[str]:
        """One value from every warp, given by the thread that `writes`."""
        e, t = self.e, REGISTER[dtype]
        if not self.globals:
            self.globals.append(f"@poot_warps = internal addrspace(3) global [{self.warps} x i64] undef, align 16")
        # Threads may still be reading what the collective before this one wrote.
        if self._used or looping:
            self.barrier()
        self._used = True
        share, shared = e.name("share"), e.name("shared")
        e.branch(writes, share, shared)
        e.label(share)
        with e.scope():
            place = e.emit(f"getelementptr {t}, ptr addrspace(3) @poot_warps, i32 {self._warp()}")
            e.do(f"store {t} {text}, ptr addrspace(3) {place}, align {dtype.itemsize}")
        e.label(shared)
        self.barrier()
        slots: list[str] = []
        for warp in range(self.warps):
            place = f"getelementptr ({t}, ptr addrspace(3) @poot_warps, i32 {warp})"
            slots.append(e.emit(f"load {t}, ptr addrspace(3) {place}, align {dtype.itemsize}"))
        return slots
