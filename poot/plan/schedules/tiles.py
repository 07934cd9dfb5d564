"""Contractions by register tiles: rows x lanes sums a work-group, which goes along K.

panels[batch, block, k, lane] hold the operand of the lane side where it is copied first, padded with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from poot.dtypes import ArraySpec
from poot.kernel.ir import Expr, Var
from poot.plan.elements import Elements
from poot.plan.indexing import Affine, Axis, flatten, loops_of, of_axis, whole
from poot.plan.schedules.common import (
    GroupPlan,
    Setup,
    bind_together,
    extent,
    make_grid,
    power_of_two,
    setup,
    start,
)
from poot.plan.schedules.shape import Shape, add_product, epilogue, nest, panel_batch, term, zero

#: Sums that a thread keeps where there are few rows: then neighbouring vectors of columns share one work-group.
_FEW_SUMS = 8


def _tile_rows(shape: Shape, width: int) -> int:
    """Rows of a register tile: the size up to the target's that wastes fewest."""
    costs = shape.context.costs
    most = min(costs.tile_rows * costs.tile_lanes // width, 2 * costs.tile_rows)
    if shape.row_count <= most:
        return max(shape.row_count, 1)
    return min(range(most, most // 2, -1), key=lambda rows: -(-shape.row_count // rows) * rows)


def _tile_columns(shape: Shape, width: int, rows: int) -> int:
    """Vectors of columns of a tile: several where rows are few, as long as enough work-groups are left."""
    columns = 1
    while (
        2 * columns * rows <= _FEW_SUMS
        and shape.lane_count % (2 * columns * width) == 0
        and shape.lane_count // (2 * columns * width) >= shape.context.costs.parallel
    ):
        columns *= 2
    return columns


@dataclass(slots=True)
class _Tile:
    """One kernel of tiles: `numbers` are the rows of a thread, `clamped` those within the operand, by row."""

    shape: Shape
    elements: Elements
    width: int
    rows: int
    columns: int
    panels: ArraySpec | None
    block: Axis
    lanes: list[Expr]
    numbers: list[Expr]
    clamped: list[Expr]
    totals: list[list[Var]]

    @property
    def whole_rows(self) -> bool:
        return self.shape.row_count % self.rows == 0

    @property
    def whole_lanes(self) -> bool:
        return self.shape.lane_count % (self.width * self.columns) == 0

    def bind_row(self, number: Expr) -> None:
        bind_together(self.elements.k, self.shape.loops(self.shape.rows.free), number)

    def bind_lane(self, column: int) -> None:
        bind_together(self.elements.k, self.shape.loops(self.shape.lanes.free), self.lanes[column])

    # --- along K ---

    def step(self, load: Callable[[], Expr]) -> None:
        """One k: an element of every row, a vector of every column, and their products."""
        k = self.elements.k
        a: list[Expr] = []
        for number in self.clamped:
            with k.forgetting():
                self.bind_row(number)
                a.append(k.let(term(self.elements, self.shape, self.shape.rows), "a"))
        for column in range(self.columns):
            with k.forgetting():
                self.bind_lane(column)
                b = load()
                for row, total in enumerate(self.totals[column]):
                    add_product(self.elements, total, a[row], b)

    def loader(self) -> Callable[[], Expr]:
        """Reads the lane operand at the k bound now, from its panels or from where it lies."""
        elements, shape, k = self.elements, self.shape, self.elements.k
        if self.panels is None:
            return lambda: term(elements, shape, shape.lanes)
        buffer = elements.temporary(0, self.panels, "read")
        batch = k.let(k.expr(_position(panel_batch(shape))), "batch")
        block = k.expr(of_axis(self.block))

        def load() -> Expr:
            place = (batch, block, k.expr(_position(shape.along)), k.index("local", 0))
            return k.cast(k.let(k.load(buffer, place), "b"), shape.accumulator)

        return load

    # --- after it ---

    def finish(self) -> None:
        """Compute and store the outputs from the sums."""
        k = self.elements.k
        for column in range(self.columns):
            with k.forgetting():
                self.bind_lane(column)
                _ahead(self.elements, self.shape)
                for number, total in zip(self.numbers, self.totals[column], strict=True):
                    with k.forgetting():
                        self.bind_row(number)
                        if self.whole_rows:
                            epilogue(self.elements, self.shape, total)
                        else:
                            with k.if_(k.op("lt", number, k.i(self.shape.row_count))):
                                epilogue(self.elements, self.shape, total)


def tiles(shape: Shape, width: int, panels: ArraySpec | None) -> Setup:
    """Work-groups of rows x lanes; along x the rows, so that consecutive ones share their columns."""
    rows = _tile_rows(shape, width)
    columns = 1 if panels is not None else _tile_columns(shape, width, rows)
    across = width * columns
    tile = Axis("tile", -(-shape.row_count // rows))
    block = Axis("block", -(-shape.lane_count // across))
    grid = make_grid(shape.context, shape.group, [*shape.loops(shape.batch), (block,), (tile,)], width, whole=True)
    elements = start(shape.context, shape.group, grid)
    k = elements.k
    with grid.bind(k):
        first = k.let(k.op("mul", k.expr(of_axis(tile)), k.i(rows)), "row")
        lane = k.let(k.op("add", k.op("mul", k.expr(of_axis(block)), k.i(across)), k.index("local", 0)), "lane")
        lanes = [k.let(k.op("add", lane, k.i(width * c)), "lane") if c else lane for c in range(columns)]
        numbers: list[Expr] = [k.let(k.op("add", first, k.i(r)), "row") if r else first for r in range(rows)]
        last = k.i(shape.row_count - 1)
        exact = shape.row_count % rows == 0
        clamped = [number if exact else k.let(k.op("min", number, last), "row") for number in numbers]
        totals = [[zero(elements, shape) for _ in range(rows)] for _ in range(columns)]
        made = _Tile(shape, elements, width, rows, columns, panels, block, list(lanes), numbers, clamped, totals)
        _emit(made, lane)
    return setup(elements, grid.groups)


def _emit(tile: _Tile, lane: Expr) -> None:
    """Sums, then outputs; lanes past the last column do nothing but, over panels, add zeros."""
    k, loops = tile.elements.k, tile.shape.loops(tile.shape.along)
    load = tile.loader()
    inside = k.op("lt", lane, k.i(tile.shape.lane_count))
    if tile.whole_lanes:
        nest(tile.elements, loops, lambda: tile.step(load))
        tile.finish()
    elif tile.panels is None:
        with k.if_(inside):
            nest(tile.elements, loops, lambda: tile.step(load))
            tile.finish()
    else:
        nest(tile.elements, loops, lambda: tile.step(load))
        with k.if_(inside):
            tile.finish()


def _ahead(elements: Elements, shape: Shape) -> None:
    """Read what does not depend on the row, once for all rows of a tile."""
    group, rows = shape.group, set(shape.rows.free) | set(shape.along)
    for value in group.reads.values():
        places = group.places.get(value.id)
        if places and value.id not in group.conditional:
            for index in places:
                if not any(axis in rows for form in index for axis in loops_of(form)):
                    elements.read(value, index)


def _position(axes: Sequence[Axis]) -> Affine:
    return flatten(whole(axes), [axis.extent for axis in axes])


# --- panels -----------------------------------------------------------------------------------------------------------


def panelled(shape: Shape) -> GroupPlan:
    """Copy the lane operand into panels, then tiles over them."""
    batch = prod(axis.extent for axis in panel_batch(shape))
    after = replace(shape)
    after.use_panels()
    loops = after.loops(shape.lanes.free)
    width = power_of_two(extent(loops[-1]) if loops else 1, shape.context.costs.tile_lanes)
    blocks = -(-shape.lane_count // width)
    panels = ArraySpec(shape.lanes.atom.dtype, (batch, blocks, shape.length, width))
    return GroupPlan((_pack(shape, width, blocks, panels), tiles(after, width, panels)), (panels,))


def _pack(shape: Shape, width: int, blocks: int, panels: ArraySpec) -> Setup:
    """panels[batch, block, k, lane] = operand element, or zero past the last column."""
    context, group = shape.context, shape.group
    block = Axis("block", blocks)
    outer = [*((axis,) for axis in panel_batch(shape)), (block,)]
    loops = [*outer, *((axis,) for axis in shape.along)]
    grid = make_grid(context, group, loops, width, whole=True)
    elements = start(context, group, grid, "_panels")
    k = elements.k
    with grid.bind(k):
        lane = k.index("local", 0)
        number = k.expr(of_axis(block))
        packed = panel_batch(shape)
        for axis in shape.batch:
            if axis not in packed:  # the element is the same whatever its value, which its index may still name
                k.bind((axis,), k.i(0))
        column = k.let(k.op("add", k.op("mul", number, k.i(width)), lane), "column")
        bind_together(k, shape.loops(shape.lanes.free), column)
        zero = k.variable(k.const(0, panels.dtype), "element")
        if shape.lane_count % width:
            with k.if_(k.op("lt", column, k.i(shape.lane_count))):
                k.assign(zero, elements.read(shape.lanes.atom, shape.lanes.index))
        else:
            k.assign(zero, elements.read(shape.lanes.atom, shape.lanes.index))
        buffer = elements.temporary(0, panels, "write")
        place = (k.expr(_position(packed)), number, k.expr(_position(shape.along)), lane)
        k.store(buffer, place, zero)
    return setup(elements, grid.groups)
