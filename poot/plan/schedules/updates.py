"""Updates: a few elements of a large value change in the memory of the old one, one thread a point of the update."""

from __future__ import annotations

from poot.plan.groups import Group
from poot.plan.indexing import whole
from poot.plan.schedules.common import Context, GroupPlan, make_grid, power_of_two, setup, start, stored, widest
from poot.plan.updates import update_of


def lower_update(context: Context, group: Group) -> GroupPlan:
    """One kernel that stores what changes; the buffer of its result holds the old value before it runs."""
    equation = group.members[group.update]
    update = update_of(equation)
    assert update is not None
    loops = [(axis,) for axis in group.parallel_leaves()]
    width = power_of_two(loops[-1][0].extent if loops else 1, context.costs.width(widest(group)))
    grid = make_grid(context, group, loops, width, whole=False)
    elements = start(context, group, grid)
    with grid.bind(elements.k):
        elements.update(equation, update, whole(group.parallel))
        for value, index in stored(group):
            if value not in equation.outputs:
                elements.store(value, index, elements.read(value, index))
    return GroupPlan((setup(elements, grid.groups),))
