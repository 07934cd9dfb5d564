"""Checked accesses and assertions of one thread: what fails claims the fault record, and the thread goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poot.kernel.render.gpu_memory import Memory
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, first_outside

_CLAIM = """\
define internal void @poot.fault(ptr addrspace(1) %record, i32 %launch, i32 %site, i32 %axis, i64 %index, i64 %end) #1 {
  %claim = cmpxchg ptr addrspace(1) %record, i32 0, i32 1 syncscope("SCOPE") monotonic monotonic
"""

_BRANCH = """\
  %won = extractvalue { i32, i1 } %claim, 1
  br i1 %won, label %write, label %done
write:
  %p1 = getelementptr i8, ptr addrspace(1) %record, i64 4
  store i32 %launch, ptr addrspace(1) %p1, align 4
  %p2 = getelementptr i8, ptr addrspace(1) %record, i64 8
  store i32 %site, ptr addrspace(1) %p2, align 4
  %p3 = getelementptr i8, ptr addrspace(1) %record, i64 12
  store i32 %axis, ptr addrspace(1) %p3, align 4
  %p4 = getelementptr i8, ptr addrspace(1) %record, i64 16
  store i64 %index, ptr addrspace(1) %p4, align 4
  %p6 = getelementptr i8, ptr addrspace(1) %record, i64 24
  store i64 %end, ptr addrspace(1) %p6, align 4
  br label %done
done:
  ret void
}
"""


def record_function(scope: str, write: str = _BRANCH) -> str:
    """Claims the record by compare-and-swap in a scope, and fills it in; see FAULT_WORDS in ir.py for its layout.

    `write` goes on from `%claim` to the function's end.
    """
    return _CLAIM.replace("SCOPE", scope) + write


class Faults:
    """The hidden arguments of a kernel's checks; `sites` gives a node's number by its id."""

    def __init__(self, e: Emitter, record: str, launch: str, sites: Mapping[int, int]) -> None:
        self._e = e
        self._record = record
        self._launch = launch
        self._sites = sites
        self.used = False

    def inside(self, array: Memory, indices: Sequence[Value]) -> str:
        """An i1: whether each index is within its extent; "" where all are known to be."""
        e, inside = self._e, ""
        for index, extent in zip(indices, array.extents, strict=True):
            if _proven(index, extent):
                continue
            # As unsigned numbers, negative indices are past every extent.
            ok = e.emit(f"icmp ult {REGISTER[index.dtype]} {index.text}, {extent.text}")
            inside = e.emit(f"and i1 {inside}, {ok}") if inside else ok
        return inside

    def report(
        self, node: object, indices: Sequence[Value] = (), extents: Sequence[Value] = (), first: int = 0
    ) -> None:
        """Record a fault, of the first axis whose index is outside, counted from `first`."""
        e = self._e
        self.used = True
        axis, at, end = first_outside(
            e, len(indices), lambda number: (self._wide(indices[number]), self._wide(extents[number])), first
        )
        e.do(
            f"call void @poot.fault(ptr addrspace(1) {self._record}, i32 {self._launch}, "
            f"i32 {self._sites[id(node)]}, i32 {axis}, i64 {at}, i64 {end})"
        )

    def _wide(self, value: Value) -> str:
        if value.constant is not None:
            return str(value.constant)
        if REGISTER[value.dtype] == "i64":
            return value.text
        extend = "sext" if value.dtype.kind == "int" else "zext"
        return self._e.emit(f"{extend} {REGISTER[value.dtype]} {value.text} to i64")


def _proven(index: Value, extent: Value) -> bool:
    end, low, high = extent.constant, index.low, index.high
    return end is not None and low is not None and high is not None and low >= 0 and high < end
