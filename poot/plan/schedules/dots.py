"""Contractions by dots: threads of a work-group stride along K and combine."""

from __future__ import annotations

from dataclasses import replace

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
    """One work-group a column and all (few) rows: threads stride along K."""
    if shape.row_count > shape.lane_count:
        shape = replace(shape, rows=shape.lanes, lanes=shape.rows)
    context, group = shape.context, shape.group
    loops = shape.loops(shape.along)
    inner = loops[-1]
    width = power_of_two(extent(inner), context.costs.row_lanes)
    outer = [*shape.loops(shape.batch), *shape.loops(shape.lanes.free)]
    grid = make_grid(context, group, outer, width, whole=True)
    elements = start(context, group, grid)
    k = elements.k
    turns = extent(inner)
    main = turns // width * width
    with grid.bind(k):
        lane = k.index("local", 0)
        totals = [zero(elements, shape) for _ in range(shape.row_count)]

        def step() -> None:
            b = term(elements, shape, shape.lanes)
            for number, total in enumerate(totals):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), k.i(number))
                    add_product(elements, total, term(elements, shape, shape.rows), b)

        def stride() -> None:
            if main:
                with k.for_(k.i(0), k.i(main), width, hint="k") as base:
                    k.bind(inner, k.let(k.op("add", base, lane), "k"))
                    step()
            if main < turns:
                with k.if_(k.op("lt", lane, k.i(turns - main))):
                    k.bind(inner, k.let(k.op("add", lane, k.i(main)), "k"))
                    step()

        nest(elements, loops[:-1], stride)
        sums = [k.collective("sum", total, "sum") for total in totals]
        with k.if_(k.op("eq", lane, k.i(0))):
            for number, total in enumerate(sums):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), k.i(number))
                    epilogue(elements, shape, total)
    return GroupPlan((setup(elements, grid.groups),))
