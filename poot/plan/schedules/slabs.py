"""Contractions of few rows with a wide operand that lies row by row: slabs of K, each read as it lies in memory.

A register tile would walk down a few columns and touch a new page with every k.  Here a work-group takes consecutive
k, and for a few of them at a time goes along the columns, whose sums stay in private memory, hence in cache:

    partial[batch, slab, row, column] = sum over the k of a slab

A second kernel adds up the slabs and computes what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from poot.dtypes import ArraySpec
from poot.kernel.ir import Expr
from poot.plan.elements import Elements
from poot.plan.indexing import Affine, Axis, flatten, of_axis, whole
from poot.plan.schedules.common import GroupPlan, Setup, bind_together, extent, make_grid, power_of_two, setup, start
from poot.plan.schedules.shape import Shape, add_product, epilogue, term, zero

#: Rows up to which reading the wide operand is what takes the time.
_FEW_ROWS = 4
#: Bytes of the wide operand that repay a second kernel, and the fewest k of a slab.
_LARGE = 1 << 18
_SHORT = 128
#: Columns of a work-group, and the products of one column that are summed in registers.
_COLUMNS = 16384
_PRODUCTS = 8


def by_slabs(shape: Shape) -> bool:
    """Few rows, and an operand contiguous along its columns that is large."""
    loops, along = shape.loops(shape.lanes.free), shape.loops(shape.along)
    if not shape.context.costs.slabs or shape.row_count > _FEW_ROWS or len(loops) != 1 or len(along) != 1:
        return False
    nbytes = shape.length * shape.lane_count * shape.lanes.stored
    return shape.lanes.step(loops[0][-1]) == 1 and shape.length >= _SHORT and nbytes >= _LARGE


@dataclass(frozen=True, slots=True)
class _Cut:
    """`slabs` of `depth` k each, `pieces` of `columns` columns each, in vectors of `width`."""

    width: int
    columns: int
    pieces: int
    depth: int
    slabs: int

    @property
    def vectors(self) -> int:
        return self.columns // self.width


def _cut(shape: Shape) -> _Cut:
    costs, lanes = shape.context.costs, shape.lane_count
    width = power_of_two(lanes, costs.vector(shape.accumulator))
    vectors = -(-lanes // width)
    pieces = -(-vectors * width // _COLUMNS)
    columns = -(-vectors // pieces) * width
    pieces = -(-lanes // columns)
    batch = prod(axis.extent for axis in shape.batch)
    wanted = -(-2 * costs.parallel // (pieces * batch))
    depth = max(-(-shape.length // wanted), _SHORT)
    depth = -(-depth // _PRODUCTS) * _PRODUCTS
    return _Cut(width, columns, pieces, depth, -(-shape.length // depth))


def slabs(shape: Shape) -> GroupPlan:
    """Partial sums, then one more kernel."""
    cut = _cut(shape)
    batch = prod(axis.extent for axis in shape.batch)
    spec = ArraySpec(shape.accumulator, (batch, cut.slabs, shape.row_count, shape.lane_count))
    return GroupPlan((_partials(shape, cut, spec), _join(shape, cut, spec)), (spec,), main=0)


# --- partial sums -----------------------------------------------------------------------------------------------------


class _Sums:
    """The sums of one work-group: every row's, vector by vector of its columns."""

    def __init__(self, elements: Elements, shape: Shape, cut: _Cut, piece: Expr) -> None:
        self.elements, self.shape, self.cut = elements, shape, cut
        self._piece = piece
        self._first = elements.k.let(elements.k.op("mul", piece, elements.k.i(cut.columns)), "first")
        self._full = self._whole_vectors()
        self._array = elements.k.alloc("sums", shape.accumulator, (shape.row_count * cut.vectors,), "private")

    def vectors(self, body: Callable[[Expr, Expr], None]) -> None:
        """Every vector of columns by its number and column, those that stick out under a mask."""
        k, cut, lanes = self.elements.k, self.cut, self.shape.lane_count
        with k.for_(k.i(0), self._full, hint="vector") as vector:
            body(vector, self._column(vector))
        if lanes % cut.width:
            with k.if_(k.op("lt", self._full, k.i(cut.vectors))):
                column = self._column(self._full)
                with k.if_(k.op("lt", column, k.i(lanes))):
                    body(self._full, column)

    def _whole_vectors(self) -> Expr:
        """The vectors of this piece that do not stick out."""
        k, cut, lanes = self.elements.k, self.cut, self.shape.lane_count
        full = lanes // cut.width
        if full % cut.vectors == 0 or cut.pieces == 1:
            return k.i(min(full, cut.vectors))
        rest = k.op("sub", k.i(full), k.op("mul", self._piece, k.i(cut.vectors)))
        return k.let(k.op("min", k.i(cut.vectors), rest), "full")

    def _column(self, vector: Expr) -> Expr:
        k = self.elements.k
        return k.let(
            k.op("add", k.op("add", self._first, k.op("mul", vector, k.i(self.cut.width))), k.index("local", 0)),
            "column",
        )

    def _place(self, row: int, vector: Expr) -> tuple[Expr]:
        k = self.elements.k
        return (k.op("add", vector, k.i(row * self.cut.vectors)) if row else vector,)

    def clear(self) -> None:
        def body(vector: Expr, _: Expr) -> None:
            for row in range(self.shape.row_count):
                k = self.elements.k
                k.store(self._array, self._place(row, vector), k.const(0, self.shape.accumulator))

        self.vectors(body)

    def add(self, along: Expr, count: int) -> None:
        """Add the products of `count` k from `along` on."""
        elements, shape, k = self.elements, self.shape, self.elements.k
        (loop,) = shape.loops(shape.along)
        places = [k.let(k.op("add", along, k.i(n)), "k") if n else along for n in range(count)]
        factors: list[list[Expr]] = []
        for row in range(shape.row_count):
            factors.append([])
            for place in places:
                with k.forgetting():
                    k.bind(loop, place)
                    bind_together(k, shape.loops(shape.rows.free), k.i(row))
                    factors[-1].append(k.let(term(elements, shape, shape.rows), "a"))

        def body(vector: Expr, column: Expr) -> None:
            totals = [
                k.variable(k.load(self._array, self._place(row, vector)), "sum") for row in range(shape.row_count)
            ]
            for number, place in enumerate(places):
                with k.forgetting():
                    k.bind(loop, place)
                    bind_together(k, shape.loops(shape.lanes.free), column)
                    b = k.let(term(elements, shape, shape.lanes), "b")
                    for total, row in zip(totals, factors, strict=True):
                        add_product(elements, total, row[number], b)
            for row, total in enumerate(totals):
                k.store(self._array, self._place(row, vector), total)

        self.vectors(body)

    def keep(self, part: str, batch: Expr, slab: Expr) -> None:
        """Write the sums as this slab's part."""

        def body(vector: Expr, column: Expr) -> None:
            for row in range(self.shape.row_count):
                k = self.elements.k
                k.store(part, (batch, slab, k.i(row), column), k.load(self._array, self._place(row, vector)))

        self.vectors(body)


def _partials(shape: Shape, cut: _Cut, spec: ArraySpec) -> Setup:
    slab, piece = Axis("slab", cut.slabs), Axis("piece", cut.pieces)
    grid = make_grid(shape.context, shape.group, [*shape.loops(shape.batch), (slab,), (piece,)], cut.width, whole=True)
    elements = start(shape.context, shape.group, grid, "_part")
    k = elements.k
    step = max(_PRODUCTS // shape.row_count, 2)
    length = shape.length
    with grid.bind(k):
        number = k.local(of_axis(slab))
        sums = _Sums(elements, shape, cut, k.expr(of_axis(piece)))
        sums.clear()
        begin = k.let(k.op("mul", number, k.i(cut.depth)), "begin")
        end = k.let(k.op("min", k.op("add", begin, k.i(cut.depth)), k.i(length // step * step)), "end")
        with k.for_(begin, end, step, hint="k") as along:
            sums.add(along, step)
        if length % step:
            with (
                k.if_(k.op("eq", number, k.i(cut.slabs - 1))),
                k.for_(k.i(length // step * step), k.i(length), hint="k") as along,
            ):
                sums.add(along, 1)
        part = elements.temporary(0, spec, "write")
        sums.keep(part, k.expr(_number(shape.batch)), number)
    return setup(elements, grid.groups)


# --- what follows -----------------------------------------------------------------------------------------------------


def _join(shape: Shape, cut: _Cut, spec: ArraySpec) -> Setup:
    """A thread a sum: the slabs added up."""
    loops = [*shape.loops(shape.batch), *shape.loops(shape.rows.free), *shape.loops(shape.lanes.free)]
    width = power_of_two(extent(loops[-1]), shape.context.costs.vector(shape.accumulator))
    grid = make_grid(shape.context, shape.group, loops, width, whole=False)
    elements = start(shape.context, shape.group, grid, "_join")
    k = elements.k
    with grid.bind(k):
        part = elements.temporary(0, spec, "read")
        batch, row, column = (k.local(_number(axes)) for axes in (shape.batch, shape.rows.free, shape.lanes.free))
        total = zero(elements, shape)
        with k.for_(k.i(0), k.i(cut.slabs), hint="slab", unroll=cut.slabs <= 2 * _PRODUCTS) as slab:
            k.assign(total, k.op("add", total, k.load(part, (batch, slab, row, column))))
        epilogue(elements, shape, total)
    return setup(elements, grid.groups)


def _number(axes: tuple[Axis, ...]) -> Affine:
    return flatten(whole(axes), [axis.extent for axis in axes])
