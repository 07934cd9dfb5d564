"""Contractions: sums of products, by register tiles or by rows.

The result's axes are batch axes, those of the left operand (M) and those of the right one (N); K are the contracted
axes.  One side runs along lanes, the other along the rows of a register tile; the operand of the lane side must be
contiguous along its lanes, so that one load fills a vector, while the other is read one element for all lanes.

- *Tiles* (`tiles.py`): a work-group keeps rows x lanes sums in registers and goes along K; `blocking.py` says how many.
  Where the lane operand is not contiguous, or so large that its columns would not stay in cache, a first kernel copies
  it into panels; so does one for rows that lie side by side rather than along K (`panels.py`).
- *Dots* (`dots.py`): where both operands are contiguous along K and there are few rows, threads stride along K and
  combine.
- *Slabs* (`slabs.py`): on the CPU, few rows with a large operand that is contiguous along its columns; work-groups take
  consecutive k, and a second kernel adds up.

What follows the contraction (bias, activation, residual) is computed on the sums before they are stored, in whatever
layout the outputs have.
"""

from __future__ import annotations

from dataclasses import replace

from poot.plan.groups import Group
from poot.plan.schedules.blocking import ROW_PANEL, blocking
from poot.plan.schedules.common import Context, GroupPlan, Setup
from poot.plan.schedules.dots import by_dots, contiguous_along, dots
from poot.plan.schedules.panels import Panels, pack, panels_of
from poot.plan.schedules.shape import Shape, analyse
from poot.plan.schedules.slabs import by_slabs, slabs
from poot.plan.schedules.tiles import tiles

#: Bytes of one block of columns beyond which its panels are copied, and the least rows that repay it.
_PANEL_BYTES = 1 << 16
_PANEL_ROWS = 32
#: The fewest columns and k that repay a copy of the rows.
_PANEL_LANES = 256
_PANEL_LENGTH = 64
#: Bytes of an operand that stays in a core's cache from step to step.
_CACHED_BYTES = 1 << 18


def lower_contraction(context: Context, group: Group) -> GroupPlan:
    """The kernels of a group with a contraction."""
    shape = analyse(context, group)
    cached = _cached(shape)
    if by_dots(shape) and not cached:
        return dots(shape)
    if by_slabs(shape):
        return slabs(shape)
    loops = shape.loops(shape.lanes.free)
    contiguous = not loops or (len(loops) == 1 and shape.lanes.step(loops[-1][-1]) == 1)
    chosen = blocking(shape, panels=False)
    column_bytes = shape.length * chosen.width * shape.accumulator.itemsize
    direct = contiguous and (column_bytes <= _PANEL_BYTES or shape.row_count <= _PANEL_ROWS)
    if not direct and not cached and shape.row_count == 1 and not shape.batch and contiguous_along(shape.lanes, shape):
        return dots(shape)
    return _tiled(shape, panels=not direct, row_panels=_strided_rows(shape))


def _cached(shape: Shape) -> bool:
    """Whether the lane operand stays the same, in the CPU's cache: then panels serve a single row better than dots."""
    size = shape.lane_count * shape.length * shape.lanes.atom.dtype.itemsize
    return shape.context.target.backend == "cpu" and shape.lanes.constant and size <= _CACHED_BYTES


def _strided_rows(shape: Shape) -> bool:
    """Whether the rows lie side by side rather than along K, and are read often enough to copy them."""
    rows, along = shape.rows, shape.along
    if not shape.context.costs.sums or not rows.free or not along or rows.step(along[-1]) == 1:
        return False
    large = shape.row_count >= ROW_PANEL and shape.lane_count >= _PANEL_LANES and shape.length >= _PANEL_LENGTH
    return large and rows.step(rows.free[-1]) == 1


def _tiled(shape: Shape, *, panels: bool, row_panels: bool) -> GroupPlan:
    """Tiles, after copies of the operands that do not lie well."""
    after = replace(shape)
    for side in [shape.lanes] * panels + [shape.rows] * row_panels:
        after.use_panels(side)
    chosen = blocking(after, panels=panels, row_panels=row_panels)
    copies: list[Setup] = []
    made: list[Panels | None] = []
    for wanted, side, width, name in (
        (panels, shape.lanes, chosen.width, "_panels"),
        (row_panels, shape.rows, ROW_PANEL, "_rows"),
    ):
        found = panels_of(shape, side, width, len(copies)) if wanted else None
        made.append(found)
        if found is not None:
            copies.append(pack(shape, side, found, name))
    specs = tuple(found.spec for found in made if found is not None)
    return GroupPlan((*copies, tiles(after, chosen, *made)), specs)
