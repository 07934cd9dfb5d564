"""Contractions by dots: threads of a work-group stride along K and combine."""

from __future__ import annotations

from dataclasses import replace

from poot.kernel.ir import Expr
from poot.plan.elements import Elements
from poot.plan.indexing import Axis, of_axis
from poot.plan.schedules.common import GroupPlan, bind_together, extent, make_grid, power_of_two, setup, start
from poot.plan.schedules.shape import Shape, Side, add_product, epilogue, nest, term, zero

#: A dot product along K per result pays only up to this many rows.
_FEW_ROWS = 4


def contiguous_along(side: Side, shape: Shape) -> bool:
    """Whether an operand is contiguous along a K that fills work-groups."""
    long = bool(shape.along) and shape.length >= shape.context.costs.row_lanes
    return long and side.step(shape.along[-1]) == 1


def by_dots(shape: Shape) -> bool:
    """Few rows, and both operands contiguous along a long K."""
    contiguous = contiguous_along(shape.rows, shape) and contiguous_along(shape.lanes, shape)
    return contiguous and min(shape.row_count, shape.lane_count) <= _FEW_ROWS


def dots(shape: Shape) -> GroupPlan:
    """One work-group for a few columns and all (few) rows: threads stride along K."""
    if shape.row_count > shape.lane_count:
        shape = replace(shape, rows=shape.lanes, lanes=shape.rows)
    context, group = shape.context, shape.group
    loops = shape.loops(shape.along)
    inner = loops[-1]
    width = power_of_two(extent(inner), context.costs.row_lanes)
    columns = _columns(shape)
    block = Axis("block", shape.lane_count // columns)
    grid = make_grid(context, group, [*shape.loops(shape.batch), (block,)], width, whole=True)
    elements = start(context, group, grid)
    k = elements.k
    turns = extent(inner)
    main = turns // width * width
    with grid.bind(k):
        lane = k.index("local", 0)
        sums = _Sums(elements, shape, k.local(of_axis(block)), columns)

        def stride() -> None:
            if main:
                with k.for_(k.i(0), k.i(main), width, hint="k") as base:
                    k.bind(inner, k.let(k.op("add", base, lane), "k"))
                    sums.add()
            if main < turns:
                with k.if_(k.op("lt", lane, k.i(turns - main))):
                    k.bind(inner, k.let(k.op("add", lane, k.i(main)), "k"))
                    sums.add()

        nest(elements, loops[:-1], stride)
        sums.combine(lane)
    return GroupPlan((setup(elements, grid.groups),))


def _columns(shape: Shape) -> int:
    """Columns of a work-group: they share what is read of the rows."""
    most = max(shape.context.costs.dot_sums // shape.row_count, 1)
    return next(count for count in range(most, 0, -1) if shape.lane_count % count == 0)


class _Sums:
    """The running sums of one work-group: every row's with each of its columns."""

    def __init__(self, elements: Elements, shape: Shape, block: Expr, columns: int) -> None:
        self.elements, self.shape = elements, shape
        k = elements.k
        first = k.let(k.op("mul", block, k.i(columns)), "first") if columns > 1 else block
        self._columns = [k.let(k.op("add", first, k.i(n)), "column") if n else first for n in range(columns)]
        self._totals = [[zero(elements, shape) for _ in range(shape.row_count)] for _ in self._columns]

    def add(self) -> None:
        """Add the products at the k bound now."""
        elements, shape, k = self.elements, self.shape, self.elements.k
        factors: list[Expr] = []
        for row in range(shape.row_count):
            with k.forgetting():
                bind_together(k, shape.loops(shape.rows.free), k.i(row))
                factors.append(k.let(term(elements, shape, shape.rows), "a"))
        for column, totals in zip(self._columns, self._totals, strict=True):
            with k.forgetting():
                bind_together(k, shape.loops(shape.lanes.free), column)
                b = k.let(term(elements, shape, shape.lanes), "b")
                for total, a in zip(totals, factors, strict=True):
                    add_product(elements, total, a, b)

    def combine(self, lane: Expr) -> None:
        """Add up the threads' sums; the first thread computes what follows."""
        elements, shape, k = self.elements, self.shape, self.elements.k
        sums = [[k.collective("sum", total, "sum") for total in totals] for totals in self._totals]
        with k.if_(k.op("eq", lane, k.i(0))):
            for column, totals in zip(self._columns, sums, strict=True):
                for row, total in enumerate(totals):
                    with k.forgetting():
                        bind_together(k, shape.loops(shape.lanes.free), column)
                        bind_together(k, shape.loops(shape.rows.free), k.i(row))
                        epilogue(elements, shape, total)
