"""Copies of operands of contractions, laid out as tiles read them.

    panels[batch, block, k, lane]

holds the elements of `width` rows or columns at each k side by side, padded with zeros past the last one.  An operand
that is contiguous along K is read several k at a time, so that targets may transpose it in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from poot.dtypes import ArraySpec
from poot.kernel.ir import Expr
from poot.plan.elements import Elements
from poot.plan.indexing import Affine, Axis, flatten, of_axis, whole
from poot.plan.schedules.common import Setup, bind_together, extent, make_grid, setup, start
from poot.plan.schedules.shape import Shape, Side

#: The k that a work-group copies.
_TURNS = 16


@dataclass(frozen=True, slots=True)
class Panels:
    """The copy of one side: temporary `number` of the group."""

    number: int
    spec: ArraySpec


def panels_of(shape: Shape, side: Side, width: int, number: int) -> Panels:
    """Panels of `width` rows or columns of a side."""
    batch = prod(axis.extent for axis in shape.side_batch(side))
    blocks = -(-prod(axis.extent for axis in side.free) // width)
    return Panels(number, ArraySpec(side.atom.dtype, (batch, blocks, shape.length, width)))


def position(axes: Sequence[Axis]) -> Affine:
    """The number that counts through axes, the last one fastest."""
    return flatten(whole(axes), [axis.extent for axis in axes])


class _Copy:
    """One kernel that copies a side: `turns` k of a block a work-group."""

    def __init__(self, shape: Shape, side: Side, panels: Panels, suffix: str) -> None:
        self.shape, self.side, self.panels = shape, side, panels
        loops = shape.loops(shape.along)
        self.inner = loops[-1] if loops else ()
        self.turns = min(_TURNS, extent(self.inner))
        self.count = prod(axis.extent for axis in side.free)
        self.block = Axis("block", panels.spec.shape[1])
        self.piece = Axis("piece", -(-extent(self.inner) // self.turns))
        outer = [*((axis,) for axis in shape.side_batch(side)), (self.block,), *loops[:-1]]
        self.grid = make_grid(shape.context, shape.group, [*outer, (self.piece,)], self.width, whole=True)
        # One name for all, so that equal copies are one kernel whatever the contraction is followed by.
        self.elements: Elements = start(shape.context, shape.group, self.grid, suffix, name="pack")

    @property
    def width(self) -> int:
        return self.panels.spec.shape[-1]

    def emit(self) -> Setup:
        k, side = self.elements.k, self.side
        with self.grid.bind(k):
            for axis in self.shape.batch:
                if axis not in self.shape.side_batch(side):  # the element is the same whatever its value
                    k.bind((axis,), k.i(0))
            buffer = self.elements.temporary(self.panels.number, self.panels.spec, "write")
            number, lane = k.let(k.expr(of_axis(self.block)), "block"), k.index("local", 0)
            column = k.let(k.op("add", k.op("mul", number, k.i(self.width)), lane), "column")
            bind_together(k, self.shape.loops(side.free), column)
            self._copy(buffer, number, column)
        return setup(self.elements, self.grid.groups)

    def _copy(self, buffer: str, number: Expr, column: Expr) -> None:
        """The k of this work-group: written out where the operand is transposed and nothing sticks out, else a loop."""
        k = self.elements.k
        side, free = self.side, self.side.free
        apart = bool(free) and bool(self.inner) and side.step(free[-1]) != 1 and side.step(self.inner[-1]) == 1
        if not apart or self.turns < _TURNS or self.count < self.width:
            self._loop(buffer, number, column)
            return
        limits = [(k.expr(of_axis(self.piece)), extent(self.inner), self.turns), (number, self.count, self.width)]
        inside = [k.op("lt", place, k.i(total // step)) for place, total, step in limits if total % step]
        if not inside:
            self._written_out(buffer, number)
            return
        whole = k.let(inside[0] if len(inside) == 1 else k.op("and", *inside), "whole")
        with k.if_(whole):
            self._written_out(buffer, number)
        with k.if_(k.op("not", whole)):
            self._loop(buffer, number, column)

    def _written_out(self, buffer: str, number: Expr) -> None:
        """All reads, then all stores, so that reads of neighbours stand one after another."""
        places = self._places(self.turns)
        for place, element in zip(places, self._read(places), strict=True):
            with self.elements.k.forgetting():
                self._bind(place)
                self._store(buffer, number, element)

    def _loop(self, buffer: str, number: Expr, column: Expr) -> None:
        """One k after another; columns past the last one are zeros."""
        k = self.elements.k
        first = k.let(k.op("mul", k.expr(of_axis(self.piece)), k.i(self.turns)), "first")
        stop = k.op("min", k.op("add", first, k.i(self.turns)), k.i(extent(self.inner)))
        with k.for_(first, stop, hint="k") as place:
            self._bind(place)
            if self.count % self.width == 0:
                self._store(buffer, number, self.elements.read(self.side.atom, self.side.index))
                return
            element = k.variable(k.const(0, self.panels.spec.dtype), "element")
            with k.if_(k.op("lt", column, k.i(self.count))):
                k.assign(element, self.elements.read(self.side.atom, self.side.index))
            self._store(buffer, number, element)

    def _places(self, turns: int) -> list[Expr]:
        """Where this work-group is on the inner loop, turn by turn."""
        k = self.elements.k
        first = k.let(k.op("mul", k.expr(of_axis(self.piece)), k.i(self.turns)), "k")
        return [k.let(k.op("add", first, k.i(turn)), "k") if turn else first for turn in range(turns)]

    def _read(self, places: Sequence[Expr]) -> list[Expr]:
        found: list[Expr] = []
        for place in places:
            with self.elements.k.forgetting():
                self._bind(place)
                found.append(self.elements.read(self.side.atom, self.side.index))
        return found

    def _bind(self, place: Expr) -> None:
        if self.inner:
            self.elements.k.bind(self.inner, place)

    def _store(self, buffer: str, number: Expr, element: Expr) -> None:
        k, shape = self.elements.k, self.shape
        batch = k.expr(position(shape.side_batch(self.side)))
        k.store(buffer, (batch, number, k.expr(position(shape.along)), k.index("local", 0)), element)


def pack(shape: Shape, side: Side, panels: Panels, suffix: str = "_panels") -> Setup:
    """The kernel that fills panels."""
    return _Copy(shape, side, panels, suffix).emit()
