"""The sizes of register tiles: which rows and lanes a work-group takes, and in which order work-groups go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from poot.plan.schedules.common import extent, power_of_two
from poot.plan.schedules.shape import Shape

#: Where a target has one tile: sums that a thread keeps where there are few rows, in neighbouring vectors of columns.
_FEW_SUMS = 8
#: Bytes of a CPU's vectors and of its first two caches, as far as a tile's columns may fill them.
_VECTOR = 64
_NEAR = 24 << 10
_FAR = 512 << 10
#: Cycles that a vector takes to come from the second cache, and from beyond it.
_FROM_NEAR = 2.0
_FROM_FAR = 6.0
#: Cycles of every step along K, and those that starting a tile and storing one of its vectors take.
_STEP = 1.0
_START = 40.0
_FINISH = 6.0
#: The most rows of a tile.
_ROWS = 12
#: Rows of a panel of the row operand.
ROW_PANEL = 16
#: Bytes of the rows that work-groups stay with while they go through the columns, and the fewest rows.
_BAND = 256 << 10
_BAND_ROWS = 64


@dataclass(frozen=True, slots=True)
class Blocking:
    """`rows` by `columns` vectors of `width` lanes a work-group; `band` tiles of rows meet all columns, then the next.

    A `band` of 0 is all rows.
    """

    width: int
    columns: int
    rows: int
    band: int = 0

    @property
    def across(self) -> int:
        return self.width * self.columns


def blocking(shape: Shape, *, panels: bool, row_panels: bool = False) -> Blocking:
    """The tile that is expected to take the least time; over `panels` with one vector of columns."""
    loops = shape.loops(shape.lanes.free)
    most = power_of_two(extent(loops[-1]) if loops else 1, shape.context.costs.vector(shape.accumulator))
    if not shape.context.costs.sums:
        rows = _usual_rows(shape, most)
        return Blocking(most, 1 if panels else _usual_columns(shape, most, rows), rows)
    found = min(
        _candidates(shape, most, panels=panels, row_panels=row_panels),
        key=lambda blocking: _cycles(shape, blocking),
        default=Blocking(most, 1, 1),  # where so few sums do not hold the rows that go together
    )
    row_bytes = max(shape.length * shape.rows.atom.dtype.itemsize, 1)
    band = max(_BAND // row_bytes, _BAND_ROWS)
    return Blocking(found.width, found.columns, found.rows, -(-band // found.rows) if band < shape.row_count else 0)


# --- one tile, for targets whose registers are the compiler's business -----------------------------------------------


def _usual_rows(shape: Shape, width: int) -> int:
    """Rows of a register tile: the size up to the target's that wastes fewest."""
    costs = shape.context.costs
    most = min(costs.tile_rows * costs.tile_lanes // width, 2 * costs.tile_rows)
    if shape.row_count <= most:
        return max(shape.row_count, 1)
    return min(range(most, most // 2, -1), key=lambda rows: -(-shape.row_count // rows) * rows)


def _usual_columns(shape: Shape, width: int, rows: int) -> int:
    """Vectors of columns of a tile: several where rows are few, as long as enough work-groups are left."""
    columns = 1
    while (
        2 * columns * rows <= _FEW_SUMS
        and shape.lane_count % (2 * columns * width) == 0
        and shape.lane_count // (2 * columns * width) >= shape.context.costs.parallel
    ):
        columns *= 2
    return columns


# --- the best of several, for vectors of known length -----------------------------------------------------------------


def _candidates(shape: Shape, most: int, *, panels: bool, row_panels: bool) -> Iterator[Blocking]:
    costs = shape.context.costs
    # Rows that are stored side by side are transposed in registers, four or more at a time.
    apart = not shape.contiguous_lanes() and shape.contiguous_rows()
    multiple = 4 if apart and shape.row_count >= 4 else 1
    widths = [width for width in (most, most // 2, most // 4) if width * shape.accumulator.itemsize >= _VECTOR]
    for width in widths or [most]:
        for columns in (1, 2, 3, 4):
            vectors = _vectors(shape, width) * columns
            if columns > 1 and (panels or shape.lane_count % (width * columns)):
                continue
            for rows in range(1, min(shape.row_count, _ROWS, max(costs.sums // vectors, 1)) + 1):
                if rows % multiple == 0 and not (row_panels and ROW_PANEL % rows):
                    yield Blocking(width, columns, rows)


def _vectors(shape: Shape, width: int) -> int:
    """The machine's vectors in one of so many lanes."""
    return max(width * shape.accumulator.itemsize // _VECTOR, 1)


def _cycles(shape: Shape, blocking: Blocking) -> float:
    """About how long all tiles take: products or loads, whichever is more, and what each tile costs anew."""
    rows, vectors = blocking.rows, _vectors(shape, blocking.width) * blocking.columns
    nbytes = vectors * _VECTOR * shape.length
    transfer = vectors * (_FROM_FAR if nbytes > _FAR else _FROM_NEAR if nbytes > _NEAR else 1.0)
    step = max(rows * vectors, vectors + rows / 2, transfer, 4.0) + _STEP
    tiles = -(-shape.row_count // rows) * -(-shape.lane_count // blocking.across)
    return tiles * (step * shape.length + _START + _FINISH * rows * vectors)
