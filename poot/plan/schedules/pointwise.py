"""Pointwise groups: one thread an element, contiguous axes merged, the fastest one along x."""

from __future__ import annotations

from poot.plan.groups import Group
from poot.plan.indexing import flatten
from poot.plan.schedules.common import (
    Context,
    GroupPlan,
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
    grid = make_grid(context, group, loops, width, whole=False)
    elements = start(context, group, grid)
    with grid.bind(elements.k):
        for value, at in outputs:
            elements.store(value, at, elements.read(value, at))
    return GroupPlan((setup(elements, grid.groups),))
