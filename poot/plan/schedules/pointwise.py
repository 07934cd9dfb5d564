"""Pointwise groups: one thread an element, contiguous axes merged, the fastest one along x."""

from __future__ import annotations

from poot.plan.elements import Elements
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Axis, flatten, of_axis
from poot.plan.schedules.common import (
    Context,
    GroupPlan,
    Loop,
    accesses,
    by_stride,
    collapse,
    extent,
    make_grid,
    pinned,
    power_of_two,
    setup,
    start,
    stored,
    widest,
)


def lower_pointwise(context: Context, group: Group) -> GroupPlan:
    """One kernel over the elements of the first output."""
    outputs = stored(group)
    first, index = outputs[0]
    forms = accesses(group)
    axes = by_stride(group.parallel_leaves(), flatten(index, first.shape))
    loops = collapse(axes, forms, pinned(group, forms))
    turns = extent(loops[-1]) if loops else 1
    width = power_of_two(turns, context.costs.width(widest(group)))
    across = _across(loops, forms)
    if across is not None and turns % width == 0:
        return _turned(context, group, loops, across, width)
    grid = make_grid(context, group, loops, width, whole=False)
    elements = start(context, group, grid)
    with grid.bind(elements.k):
        _store(elements, group)
    return GroupPlan((setup(elements, grid.groups),))


def _store(elements: Elements, group: Group) -> None:
    for value, at in stored(group):
        elements.store(value, at, elements.read(value, at))


def _across(loops: list[Loop], forms: list[Affine]) -> int | None:
    """The loop along which an operand is contiguous that is not so along the lanes: a transpose."""
    if len(loops) < 2:
        return None
    last = loops[-1][-1]
    for form in forms:
        if abs(form.coefficient(last)) > 1:
            for place, loop in enumerate(loops[:-1]):
                if form.coefficient(loop[-1]) == 1:
                    return place
    return None


def _turned(context: Context, group: Group, loops: list[Loop], across: int, width: int) -> GroupPlan:
    """Consecutive work-groups go along the loop `across`, so that the cache lines that one gathers serve the next."""
    blocks = Axis("block", extent(loops[-1]) // width)
    outer = [loop for place, loop in enumerate(loops[:-1]) if place != across]
    grid = make_grid(context, group, [*outer, (blocks,), loops[across]], width, whole=True)
    elements = start(context, group, grid)
    k = elements.k
    with grid.bind(k):
        lane = k.op("add", k.op("mul", k.expr(of_axis(blocks)), k.i(width)), k.index("local", 0))
        k.bind(loops[-1], lane)
        _store(elements, group)
    return GroupPlan((setup(elements, grid.groups),))
