"""Reductions, with what feeds them and what follows.

A row is one point of the parallel axes; along it run the reduced axes.  Either a work-group takes a row, its threads
striding along it and combining at the end; or, where rows are short or elements of neighbouring rows lie side by side,
one thread takes a row; or, where rows are few and long, work-groups reduce chunks of rows, and a second kernel the
partial results.  Values that are dear and needed by two passes over a row are kept in shared memory, where it is short
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poot.dtypes import ArraySpec
from poot.kernel.ir import Expr
from poot.plan import cost
from poot.plan.elements import Elements
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Axis, flatten, of_axis, whole
from poot.plan.schedules.common import (
    Context,
    GroupPlan,
    Loop,
    Setup,
    bind_together,
    extent,
    make_grid,
    power_of_two,
    setup,
    start,
    widest,
)
from poot.plan.schedules.passes import RowPlan, Sweep, finish, identity, operand, run_passes, settle, store_rows
from poot.trace.primitives import Reduction


def lower_rows(context: Context, group: Group) -> GroupPlan:
    """The kernels of a group with reductions."""
    plan = RowPlan(context, group)
    # Without memory to share, or threads to share it, each thread goes along a row of its own.
    collective = context.costs.row_lanes > 1 and all(rule.collective is not None for rule in plan.rules.values())
    along = plan.runs_along_rows()
    if collective and plan.passes == 1 and not plan.full and cost.splits(context.costs, group.rows, group.length):
        return _two_stages(plan)
    if collective and ((along and group.length > cost.SHORT_ROW) or group.rows < context.costs.lanes <= group.length):
        return _group_a_row(plan)
    return _thread_a_row(plan)


# --- one thread a row -------------------------------------------------------------------------------------------------


def _thread_a_row(plan: RowPlan) -> GroupPlan:
    context, group = plan.context, plan.group
    turns = extent(plan.row_loops[-1]) if plan.row_loops else 1
    width = power_of_two(turns, context.costs.width(widest(group)))
    grid = make_grid(context, group, plan.row_loops, width, whole=False)
    elements = start(context, group, grid)
    k = elements.k

    def sweep(body: Callable[[], None], loops: Sequence[Loop] = tuple(plan.loops)) -> None:
        if not loops:
            body()
            return
        with k.for_(k.i(0), k.i(extent(loops[0])), hint="k") as var:
            k.bind(loops[0], var)
            sweep(body, loops[1:])

    with grid.bind(k):
        run_passes(plan, elements, sweep, lambda rule, total: total, 1)
        store_rows(plan, elements)
    return GroupPlan((setup(elements, grid.groups),))


# --- one work-group a row ---------------------------------------------------------------------------------------------


def _strided(elements: Elements, loop: Loop, width: int) -> Sweep:
    """A sweep of a work-group along one loop: whole strides, then what is left."""
    k = elements.k
    turns = extent(loop)
    main = turns // width * width

    def sweep(body: Callable[[], None]) -> None:
        lane = k.index("local", 0)
        if main:
            with k.for_(k.i(0), k.i(main), width, hint="k") as base:
                k.bind(loop, k.let(k.op("add", base, lane), "k"))
                body()
        if main < turns:
            with k.if_(k.op("lt", lane, k.i(turns - main))):
                k.bind(loop, k.let(k.op("add", lane, k.i(main)) if main else lane, "k"))
                body()

    return sweep


def _group_a_row(plan: RowPlan) -> GroupPlan:
    context, group = plan.context, plan.group
    inner = plan.loops[-1] if plan.loops else ()
    width = power_of_two(extent(inner), context.costs.row_lanes)
    grid = make_grid(context, group, plan.row_loops, width, whole=True)
    elements = start(context, group, grid)
    k = elements.k
    strided = _strided(elements, inner, width)

    def sweep(body: Callable[[], None], loops: Sequence[Loop] = tuple(plan.loops[:-1])) -> None:
        if not loops:
            strided(body)
            return
        with k.for_(k.i(0), k.i(extent(loops[0])), hint="k") as var:
            k.bind(loops[0], var)
            sweep(body, loops[1:])

    with grid.bind(k):
        run_passes(plan, elements, sweep, lambda rule, total: _together(elements, rule, total), width)
        if plan.row:
            with k.if_(k.op("eq", k.index("local", 0), k.i(0))):
                store_rows(plan, elements)
    return GroupPlan((setup(elements, grid.groups),))


def _together(elements: Elements, rule: Reduction, total: Expr) -> Expr:
    assert rule.collective is not None
    return elements.k.collective(rule.collective, total, "total")


# --- few long rows: partial results, then one more reduction ---------------------------------------------------------


def _two_stages(plan: RowPlan) -> GroupPlan:
    context, group = plan.context, plan.group
    width = context.costs.row_lanes
    turns = group.length
    chunk = -(-turns // (context.costs.parallel * 4))
    chunk = -(-chunk // width) * width
    count = -(-turns // chunk)
    reductions = plan.reductions(1)
    specs = tuple(
        ArraySpec(rule.accumulator(equation.outputs[0].dtype), (group.rows, count)) for equation, rule in reductions
    )
    first = _partials(plan, width, chunk, count, specs)
    return GroupPlan((first, _combine(plan, width, count, specs)), specs, main=0)


def _partials(plan: RowPlan, width: int, chunk: int, count: int, specs: Sequence[ArraySpec]) -> Setup:
    """Each work-group reduces a chunk of a row."""
    piece = Axis("piece", count)
    grid = make_grid(plan.context, plan.group, [*plan.row_loops, (piece,)], width, whole=True)
    elements = start(plan.context, plan.group, grid, "_part")
    k = elements.k
    turns = plan.group.length
    main = turns // width * width
    with grid.bind(k):
        number = k.local(of_axis(piece))
        lane = k.index("local", 0)
        totals = [identity(elements, equation, rule) for equation, rule in plan.reductions(1)]

        def body(place: Expr) -> None:
            bind_together(k, plan.loops, k.let(place, "k"))
            for (equation, rule), total in zip(plan.reductions(1), totals, strict=True):
                k.assign(total, rule.combine(k, total, operand(plan, elements, equation, total)))

        settle(plan, elements, 0)
        begin = k.let(k.op("mul", number, k.i(chunk)), "begin")
        end = k.let(k.op("min", k.op("add", begin, k.i(chunk)), k.i(main)), "end")
        with k.for_(begin, end, width, hint="k") as base:
            body(k.op("add", base, lane))
        if main < turns:
            with k.if_(k.op("eq", number, k.i(count - 1))), k.if_(k.op("lt", lane, k.i(turns - main))):
                body(k.op("add", lane, k.i(main)))
        sums = [_together(elements, rule, total) for (_, rule), total in zip(plan.reductions(1), totals, strict=True)]
        with k.if_(k.op("eq", lane, k.i(0))):
            for place, (spec, total) in enumerate(zip(specs, sums, strict=True)):
                part = elements.temporary(place, spec, "write")
                k.store(part, (k.expr(_row_number(plan)), number), total)
    return setup(elements, grid.groups)


def _row_number(plan: RowPlan) -> Affine:
    axes = [axis for loop in plan.row_loops for axis in loop]
    return flatten(whole(axes), [axis.extent for axis in axes])


def _combine(plan: RowPlan, width: int, count: int, specs: Sequence[ArraySpec]) -> Setup:
    """One work-group a row reduces its partial results and computes what follows."""
    piece = Axis("piece", count)
    width = power_of_two(count, width)
    grid = make_grid(plan.context, plan.group, plan.row_loops, width, whole=True)
    elements = start(plan.context, plan.group, grid, "_join")
    k = elements.k
    with grid.bind(k):
        row = k.local(_row_number(plan))
        totals = [identity(elements, equation, rule) for equation, rule in plan.reductions(1)]
        parts = [elements.temporary(place, spec, "read") for place, spec in enumerate(specs)]

        def body() -> None:
            for (_, rule), total, part in zip(plan.reductions(1), totals, parts, strict=True):
                k.assign(total, rule.combine(k, total, k.load(part, (row, k.expr(of_axis(piece))))))

        _strided(elements, (piece,), width)(body)
        for (equation, rule), total in zip(plan.reductions(1), totals, strict=True):
            finish(elements, equation, _together(elements, rule, total))
        with k.if_(k.op("eq", k.index("local", 0), k.i(0))):
            store_rows(plan, elements)
    return setup(elements, grid.groups)
