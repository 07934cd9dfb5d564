"""Contractions by register tiles: rows x lanes sums a work-group, which goes along K.

Where an operand does not lie as a tile reads it, a first kernel copies it into panels (`panels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from poot.kernel.ir import Expr, Var
from poot.plan.elements import Elements
from poot.plan.emitter import Emitter
from poot.plan.indexing import Affine, Axis, combine, loops_of, of_axis
from poot.plan.schedules.blocking import Blocking
from poot.plan.schedules.common import (
    Setup,
    bind_together,
    make_grid,
    setup,
    start,
    stored,
)
from poot.plan.schedules.panels import Panels, position
from poot.plan.schedules.shape import Shape, add_product, epilogue, nest, results, term, zero


@dataclass(slots=True)
class _Tile:
    """One kernel of tiles: `numbers` are the rows of a thread, `clamped` those within the operand, by row."""

    shape: Shape
    elements: Elements
    width: int
    rows: int
    columns: int
    panels: Panels | None
    row_panels: Panels | None
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

    def step(self, load_row: Callable[[int], Expr], load: Callable[[], Expr]) -> None:
        """One k: an element of every row, a vector of every column, and their products."""
        k = self.elements.k
        a: list[Expr] = []
        for row in range(self.rows):
            with k.forgetting():
                a.append(k.let(load_row(row), "a"))
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
        panels = self.panels
        buffer = elements.temporary(panels.number, panels.spec, "read")
        batch = k.let(k.expr(position(shape.side_batch(shape.lanes))), "batch")
        block = k.expr(of_axis(self.block))

        def load() -> Expr:
            place = (batch, block, k.expr(position(shape.along)), k.index("local", 0))
            return k.cast(k.let(k.load(buffer, place), "b"), shape.accumulator)

        return load

    def row_loader(self) -> Callable[[int], Expr]:
        """Reads the row operand of a row of the tile at the k bound now."""
        elements, shape, k = self.elements, self.shape, self.elements.k
        if self.row_panels is None:

            def read(row: int) -> Expr:
                self.bind_row(self.clamped[row])
                return term(elements, shape, shape.rows)

            return read
        panels = self.row_panels
        width = panels.spec.shape[-1]
        buffer = elements.temporary(panels.number, panels.spec, "read")
        batch = k.let(k.expr(position(shape.side_batch(shape.rows))), "batch")
        block = k.let(k.op("floor_div", self.numbers[0], k.i(width)), "block")
        first = k.let(k.op("rem", self.numbers[0], k.i(width)), "first")

        def load(row: int) -> Expr:
            place = (batch, block, k.expr(position(shape.along)), k.op("add", first, k.i(row)) if row else first)
            return k.cast(k.let(k.load(buffer, place), "a"), shape.accumulator)

        return load

    # --- after it ---

    def finish(self) -> None:
        """Compute and store the outputs from the sums."""
        k = self.elements.k
        for column in range(self.columns):
            with k.forgetting():
                self.bind_lane(column)
                _ahead(self.elements, self.shape)
                if self.whole_rows:
                    self._store_rows(column)
                    continue
                for number, total in zip(self.numbers, self.totals[column], strict=True):
                    with k.forgetting():
                        self.bind_row(number)
                        with k.if_(k.op("lt", number, k.i(self.shape.row_count))):
                            epilogue(self.elements, self.shape, total)

    def _store_rows(self, column: int) -> None:
        """Every row's outputs, then their stores one after another, so that neighbours may be written together."""
        k, outputs = self.elements.k, stored(self.shape.group)
        made: list[list[Expr]] = []
        for number, total in zip(self.numbers, self.totals[column], strict=True):
            with k.forgetting():
                self.bind_row(number)
                made.append(results(self.elements, self.shape, total))
        for place, (value, index) in enumerate(outputs):
            for number, row in zip(self.numbers, made, strict=True):
                with k.forgetting():
                    self.bind_row(number)
                    self.elements.store(value, index, row[place])


def tiles(shape: Shape, chosen: Blocking, panels: Panels | None = None, row_panels: Panels | None = None) -> Setup:
    """Work-groups of rows x lanes; along x the rows, so that consecutive ones share their columns."""
    rows, columns, width = chosen.rows, chosen.columns, chosen.width
    count = -(-shape.row_count // rows)
    bands = -(-count // chosen.band) if chosen.band else 1
    each = -(-count // bands)
    band, tile = Axis("band", bands), Axis("tile", each)
    block = Axis("block", -(-shape.lane_count // chosen.across))
    loops = [*shape.loops(shape.batch), (band,), (block,), (tile,)]
    grid = make_grid(shape.context, shape.group, loops, width, whole=True)
    elements = start(shape.context, shape.group, grid)
    k = elements.k
    number = combine([(of_axis(band), each), (of_axis(tile), 1)])
    with grid.bind(k), _within(k, number, count) if bands * each > count else nullcontext():
        first = k.let(k.op("mul", k.expr(number), k.i(rows)), "row")
        lane = k.let(k.op("add", k.op("mul", k.expr(of_axis(block)), k.i(chosen.across)), k.index("local", 0)), "lane")
        lanes = [k.let(k.op("add", lane, k.i(width * c)), "lane") if c else lane for c in range(columns)]
        numbers: list[Expr] = [k.let(k.op("add", first, k.i(r)), "row") if r else first for r in range(rows)]
        last = k.i(shape.row_count - 1)
        exact = shape.row_count % rows == 0 or row_panels is not None
        clamped = [number if exact else k.let(k.op("min", number, last), "row") for number in numbers]
        totals = [[zero(elements, shape) for _ in range(rows)] for _ in range(columns)]
        made = _Tile(
            shape, elements, width, rows, columns, panels, row_panels, block, list(lanes), numbers, clamped, totals
        )
        _emit(made, lane)
    return setup(elements, grid.groups)


def _within(k: Emitter, number: Affine, count: int) -> AbstractContextManager[None]:
    return k.if_(k.op("lt", k.expr(number), k.i(count)))


def _emit(tile: _Tile, lane: Expr) -> None:
    """Sums, then outputs; lanes past the last column do nothing but, over panels, add zeros."""
    k, loops = tile.elements.k, tile.shape.loops(tile.shape.along)
    load_row, load = tile.row_loader(), tile.loader()
    inside = k.op("lt", lane, k.i(tile.shape.lane_count))
    if tile.whole_lanes:
        nest(tile.elements, loops, lambda: tile.step(load_row, load))
        tile.finish()
    elif tile.panels is None:
        with k.if_(inside):
            nest(tile.elements, loops, lambda: tile.step(load_row, load))
            tile.finish()
    else:
        nest(tile.elements, loops, lambda: tile.step(load_row, load))
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
