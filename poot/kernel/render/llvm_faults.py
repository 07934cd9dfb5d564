"""Checked accesses and assertions: lanes that fail are left out, and the first of them claims the fault record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value
from poot.kernel.render.llvm_memory import Array, wide

#: Claims the record by compare-and-swap and fills it in; see FAULT_WORDS in ir.py for its layout.
RECORD_FUNCTION = """
define internal void @poot.fault(ptr %record, i32 %launch, i32 %site, i32 %axis, i64 %index, i64 %extent) #1 {
  %claim = cmpxchg ptr %record, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %claim, 1
  br i1 %won, label %write, label %done
write:
  %p1 = getelementptr i8, ptr %record, i64 4
  store i32 %launch, ptr %p1
  %p2 = getelementptr i8, ptr %record, i64 8
  store i32 %site, ptr %p2
  %p3 = getelementptr i8, ptr %record, i64 12
  store i32 %axis, ptr %p3
  %p4 = getelementptr i8, ptr %record, i64 16
  store i64 %index, ptr %p4, align 4
  %p6 = getelementptr i8, ptr %record, i64 24
  store i64 %extent, ptr %p6, align 4
  br label %done
done:
  ret void
}
"""


class Bounds(NamedTuple):
    """The outcome of a check: an i1 for all lanes together, or a mask of the lanes inside."""

    inside: str
    vector: bool


class Faults:
    """The hidden arguments of a kernel's checks; `sites` gives a node's number by its id."""

    def __init__(self, e: Emitter, record: str, launch: str, sites: Mapping[int, int]) -> None:
        self._e = e
        self._record = record
        self._launch = launch
        self._sites = sites
        self.used = False

    def bounds(self, array: Array, indices: Sequence[Value]) -> Bounds | None:
        """Compare each index with its extent; None where all are known to be inside."""
        e = self._e
        checks = [
            (index, extent) for index, extent in zip(indices, array.extents, strict=True) if not _inside(index, extent)
        ]
        if not checks:
            return None
        vector = any(not index.uniform for index, _ in checks)
        inside = ""
        for index, extent in checks:
            # As unsigned numbers, negative indices are past every extent.
            if vector:
                t = e.register[index.dtype]
                ok = e.emit(f"icmp ult {t} {e.vector(index)}, {e.vector(extent)}")
            else:
                ok = e.emit(f"icmp ult {REGISTER[index.dtype]} {index.text}, {extent.text}")
            inside = e.emit(f"and {e.mask_type if vector else 'i1'} {inside}, {ok}") if inside else ok
        return Bounds(inside, vector)

    def outside(self, bounds: Bounds) -> tuple[str, str]:
        """The lanes that fail (a mask, "" where all fail together) and whether there is one (an i1)."""
        e = self._e
        if not bounds.vector:
            return "", e.emit(f"xor i1 {bounds.inside}, true")
        failed = e.without(bounds.inside)
        return failed, e.any(failed)

    def report(self, node: object, failed: str, indices: Sequence[Value] = (), extents: Sequence[Value] = ()) -> None:
        """Record the fault of the first lane of `failed`, on the first axis that it misses."""
        e = self._e
        self.used = True
        lane = e.first_lane(failed) if failed else ""
        axis, at, extent = "0", "0", "0"
        for number in reversed(range(len(indices))):
            index, end = self._index(indices[number], lane), wide(e, extents[number])
            if number == len(indices) - 1:
                axis, at, extent = str(number), index, end
                continue
            past = e.emit(f"icmp uge i64 {index}, {end}")
            axis = e.emit(f"select i1 {past}, i32 {number}, i32 {axis}")
            at = e.emit(f"select i1 {past}, i64 {index}, i64 {at}")
            extent = e.emit(f"select i1 {past}, i64 {end}, i64 {extent}")
        e.do(
            f"call void @poot.fault(ptr {self._record}, i32 {self._launch}, i32 {self._sites[id(node)]}, "
            f"i32 {axis}, i64 {at}, i64 {extent})"
        )

    def _index(self, index: Value, lane: str) -> str:
        """One lane's index as an i64."""
        e = self._e
        if index.uniform:
            return wide(e, index)
        t = REGISTER[index.dtype]
        one = e.lane(e.vector(index), e.register[index.dtype], lane)
        return one if t == "i64" else e.emit(f"sext {t} {one} to i64")


def _inside(index: Value, extent: Value) -> bool:
    end, low, high = extent.constant, index.low, index.high
    return end is not None and low is not None and high is not None and low >= 0 and high < end
