"""Neighbouring points of a loop, done together: what each reads lies beside what the others read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poot.kernel.ir import Expr
from poot.plan.emitter import Emitter
from poot.plan.indexing import Affine, Axis, Indices, combine, expand, of_axis
from poot.plan.schedules.common import Loop, bind_together

#: Neighbours that a thread reads or writes at a time, so that targets may transpose them in registers.
TOGETHER = 16


class Points:
    """Neighbouring points of a loop: called with an index and n, it gives the index at the n-th of them."""

    def __init__(self, k: Emitter, loops: Sequence[Loop], first: Expr, count: int) -> None:
        self.count = count
        self._axis: Axis | None = None
        if count == 1:
            bind_together(k, loops, first)
            return
        ((self._axis,),) = loops
        self._lead = Axis(self._axis.name, self._axis.extent - count + 1)
        k.bind((self._lead,), first)

    def __call__(self, index: Indices, n: int) -> Indices:
        if self._axis is None:
            return index
        return tuple(self._moved(expand(form), n) for form in index)

    def _moved(self, form: Affine, n: int) -> Affine:
        assert self._axis is not None
        step = form.coefficient(self._axis)
        lead = combine([(of_axis(self._lead), 1)], n)
        return combine([(form, 1), (of_axis(self._axis), -step), (lead, step)])


def together(loops: Sequence[Loop]) -> int:
    """How many neighbours along a loop are read or written at a time."""
    return TOGETHER if len(loops) == 1 and len(loops[0]) == 1 else 1


def plus(k: Emitter, place: Expr, n: int) -> Expr:
    """A place, and n further on."""
    return k.op("add", place, k.i(n)) if n else place


def tiled(k: Emitter, count: int, most: int, body: Callable[[Expr, int], None]) -> None:
    """Run a body for tiles of a count: whole ones in a loop, then what is left."""
    size = min(most, count)
    whole = count // size * size
    if whole == size:
        body(k.i(0), size)
    else:
        with k.for_(k.i(0), k.i(whole), size, hint="tile") as first:
            body(first, size)
    if whole < count:
        body(k.i(whole), count - whole)
