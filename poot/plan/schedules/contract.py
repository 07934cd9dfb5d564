"""Contractions: sums of products, by register tiles or by rows.

The result's axes are batch axes, those of the left operand (M) and those of the right one (N); K are the contracted
axes.  One side runs along lanes, the other along the rows of a register tile; the operand of the lane side must be
contiguous along its lanes, so that one load fills a vector, while the other is read one element for all lanes.

- *Tiles* (`tiles.py`): a work-group keeps rows x lanes sums in registers and goes along K.  Where the lane operand is
  not contiguous, or so large that its columns would not stay in cache, a first kernel copies it into panels.
- *Dots* (`dots.py`): where both operands are contiguous along K and there are few rows, threads stride along K and
  combine.

What follows the contraction (bias, activation, residual) is computed on the sums before they are stored, in whatever
layout the outputs have.
"""

from __future__ import annotations

from poot.plan.groups import Group
from poot.plan.schedules.common import Context, GroupPlan, extent, power_of_two
from poot.plan.schedules.dots import by_dots, contiguous_along, dots
from poot.plan.schedules.shape import analyse
from poot.plan.schedules.tiles import panelled, tiles

#: Bytes of one block of columns beyond which its panels are copied, and the least rows that repay it.
_PANEL_BYTES = 1 << 16
_PANEL_ROWS = 32


def lower_contraction(context: Context, group: Group) -> GroupPlan:
    """The kernels of a group with a contraction."""
    shape = analyse(context, group)
    if by_dots(shape):
        return dots(shape)
    loops = shape.loops(shape.lanes.free)
    width = power_of_two(extent(loops[-1]) if loops else 1, context.costs.tile_lanes)
    contiguous = not loops or (len(loops) == 1 and shape.lanes.step(loops[-1][-1]) == 1)
    column_bytes = shape.length * width * shape.accumulator.itemsize
    if contiguous and (column_bytes <= _PANEL_BYTES or shape.row_count <= _PANEL_ROWS):
        return GroupPlan((tiles(shape, width, None),))
    if shape.row_count == 1 and not shape.batch and contiguous_along(shape.lanes, shape):
        return dots(shape)
    return panelled(shape)
