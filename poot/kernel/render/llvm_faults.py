"""Checked accesses and assertions: lanes that fail are left out, and the first of them claims the fault record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, first_outside
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


@dataclass(slots=True)
class Bounds:
    """The outcome of a check: `bad` (an i1) says that an active lane is outside.

    With `vector` lanes may differ, and `inside` is the mask of those that are inside, "" while nobody has asked for it.
    `whole` says that all lanes are active and were checked by the first and the last of them.
    """

    bad: str
    vector: bool
    checks: Sequence[tuple[Value, Value]]
    inside: str = ""
    whole: bool = False


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
        if all(index.uniform for index, _ in checks):
            inside = self._all(e.emit(_below("i64", wide(e, index), wide(e, extent))) for index, extent in checks)
            return Bounds(e.emit(f"xor i1 {inside}, true"), False, checks)
        if e.mask is None and all(index.form is not None for index, _ in checks):
            inside = self._all(text for index, extent in checks for text in self._ends(index, extent))
            return Bounds(e.emit(f"xor i1 {inside}, true"), True, checks, whole=True)
        bounds = Bounds("", True, checks)
        bounds.bad = e.any(self.failed(bounds))
        return bounds

    def _ends(self, index: Value, extent: Value) -> Iterator[str]:
        """The checks of the first and last lane of an index that steps evenly, all of whose lanes are active."""
        e, first, end = self._e, wide(self._e, index), wide(self._e, extent)
        yield e.emit(_below("i64", first, end))
        if index.form is not None and index.form.stride:
            last = e.emit(f"add i64 {first}, {index.form.stride * (e.lanes - 1)}")
            yield e.emit(_below("i64", last, end))

    def _all(self, conditions: Iterable[str]) -> str:
        result = ""
        for condition in conditions:
            result = self._e.emit(f"and i1 {result}, {condition}") if result else condition
        return result

    def inside(self, bounds: Bounds) -> str:
        """The mask of the lanes that are inside, active or not."""
        e = self._e
        if not bounds.inside:
            for index, extent in bounds.checks:
                ok = e.emit(_below(e.register[index.dtype], e.vector(index), e.vector(extent)))
                bounds.inside = e.emit(f"and {e.mask_type} {bounds.inside}, {ok}") if bounds.inside else ok
        return bounds.inside

    def failed(self, bounds: Bounds) -> str:
        """The mask of the active lanes that are outside, "" where all go the same way."""
        return self._e.without(self.inside(bounds)) if bounds.vector else ""

    def report(
        self,
        node: object,
        failed: str,
        indices: Sequence[Value] = (),
        extents: Sequence[Value] = (),
        first: int = 0,
    ) -> None:
        """Record the fault of the first lane of `failed`, on the first axis that it misses, counted from `first`."""
        e = self._e
        self.used = True
        # Where all fail together, any lane that is active will do.
        together = all(index.uniform for index in indices)
        lane = "" if together else e.first_lane(failed or e.mask or e.all_lanes)
        axis, at, extent = first_outside(
            e, len(indices), lambda number: (self._index(indices[number], lane), wide(e, extents[number])), first
        )
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
        return one if t == "i64" else e.emit(f"{'sext' if index.dtype.kind == 'int' else 'zext'} {t} {one} to i64")


def _below(t: str, index: str, extent: str) -> str:
    """As unsigned numbers, negative indices are past every extent."""
    return f"icmp ult {t} {index}, {extent}"


def _inside(index: Value, extent: Value) -> bool:
    end, low, high = extent.constant, index.low, index.high
    return end is not None and low is not None and high is not None and low >= 0 and high < end
