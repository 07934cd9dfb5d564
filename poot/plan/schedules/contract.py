"""Contractions: sums of products, by register tiles or by rows.

The result's axes are batch axes, those of the left operand (M) and those of the right one (N); K are the contracted
axes.  One side runs along lanes, the other along the rows of a register tile; the operand of the lane side must be
contiguous along its lanes, so that one load fills a vector, while the other is read one element for all lanes.

- *Tiles*: a work-group keeps rows x lanes sums in registers and goes along K.  Where the lane operand is not
  contiguous, or so large that its columns would not stay in cache, a first kernel copies it into panels,
  [batch, block, K, lanes], padded with zeros.
- *Dots*: where both operands are contiguous along K and there are few rows, threads stride along K and combine.

What follows the contraction (bias, activation, residual) is computed on the sums before they are stored, in whatever
layout the outputs have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import cast

from poot.dtypes import ArraySpec, DType
from poot.kernel.ir import Expr, Var
from poot.plan.elements import Elements
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Axis, Indices, expand, flatten, of_axis, whole
from poot.plan.joins import Setting, probes
from poot.plan.schedules.common import (
    Context,
    GroupPlan,
    Loop,
    Setup,
    accesses,
    bind_together,
    collapse,
    extent,
    make_grid,
    pinned,
    power_of_two,
    setup,
    start,
    stored,
)
from poot.trace.graph import Atom, Equation, Value
from poot.trace.primitives import Pull, lookup
from poot.trace.primitives.contract import dimension_numbers, free_axes

#: A dot product along K per result pays only up to this many rows.
_FEW_ROWS = 4
#: Bytes of one block of columns beyond which its panels are copied, and the least rows that repay it.
_PANEL_BYTES = 1 << 16
_PANEL_ROWS = 32


@dataclass(slots=True)
class Side:
    """One operand: what is read, at which index, its own (free) axes, and the flat form of what lies in memory."""

    atom: Atom
    index: Indices
    free: tuple[Axis, ...]
    form: Affine | None

    def step(self, axis: Axis) -> int | None:
        """The stride in memory along an axis, if the operand is a view of a buffer."""
        return None if self.form is None else self.form.coefficient(axis)


@dataclass(slots=True)
class Shape:
    """A contraction by its axes: `rows` is the side read one element at a time, `lanes` the other."""

    context: Context
    group: Group
    equation: Equation
    batch: tuple[Axis, ...]
    rows: Side
    lanes: Side
    forms: list[Affine] = field(init=False)
    fixed: set[Axis] = field(init=False)

    def __post_init__(self) -> None:
        self.forms = accesses(self.group)
        self.fixed = pinned(self.group, self.forms)

    @property
    def value(self) -> Value:
        return self.equation.outputs[0]

    @property
    def accumulator(self) -> DType:
        return cast("DType", self.equation.params["accumulate"])

    @property
    def along(self) -> tuple[Axis, ...]:
        """The contracted axes."""
        return self.group.reduced_leaves()

    @property
    def row_count(self) -> int:
        return prod(axis.extent for axis in self.rows.free)

    @property
    def lane_count(self) -> int:
        return prod(axis.extent for axis in self.lanes.free)

    @property
    def length(self) -> int:
        return self.group.length

    def loops(self, axes: Sequence[Axis]) -> list[Loop]:
        return collapse(axes, self.forms, self.fixed)

    def use_panels(self) -> None:
        """The lane operand is not read where it lies: how it lies no longer matters to the loops."""
        self.forms = [form for form in self.forms if form != self.lanes.form]


def lower_contraction(context: Context, group: Group) -> GroupPlan:
    """The kernels of a group with a contraction."""
    shape = _analyse(context, group)
    if _by_dots(shape):
        return _dots(shape)
    loops = shape.loops(shape.lanes.free)
    width = power_of_two(extent(loops[-1]) if loops else 1, context.costs.tile_lanes)
    contiguous = not loops or shape.lanes.step(loops[-1][-1]) == 1
    column_bytes = shape.length * width * shape.accumulator.itemsize
    if (contiguous and len(loops) <= 1) and (column_bytes <= _PANEL_BYTES or shape.row_count <= _PANEL_ROWS):
        return GroupPlan((_tiles(shape, width, None),))
    if shape.row_count == 1 and shape.batch == () and _along_lanes(shape):
        return _dots(shape)
    return _panelled(shape)


# --- analysis ---------------------------------------------------------------------------------------------------------


def _analyse(context: Context, group: Group) -> Shape:
    """Which side runs along lanes: the one along which the output is contiguous, if its operand is so too."""
    equation = group.members[group.contraction]
    left_contract, _, left_batch, _ = dimension_numbers(equation.params)
    index = (group.places[equation.outputs[0].id] or [])[0]
    left, right = equation.inputs
    left_free = len(free_axes(len(left.shape), left_contract, left_batch))
    batch = len(left_batch)
    left_index, right_index = group.operands[group.contraction]
    sides = (
        _side(context, group, left, left_index, index[batch : batch + left_free]),
        _side(context, group, right, right_index, index[batch + left_free :]),
    )
    axes = _leaves(index[:batch])
    ordinary = Shape(context, group, equation, axes, sides[0], sides[1])
    swapped = Shape(context, group, equation, axes, sides[1], sides[0])
    return swapped if _lane_score(swapped) > _lane_score(ordinary) else ordinary


def _lane_score(shape: Shape) -> int:
    free = shape.lanes.free
    if not free:
        return -1
    value, index = stored(shape.group)[0]
    output = flatten(index, value.shape).coefficient(free[-1]) == 1
    return 2 * output + (shape.lanes.step(free[-1]) == 1) - (free[-1].extent < 8)


def _leaves(index: Indices) -> tuple[Axis, ...]:
    """The axes of an index, outermost first within each dimension."""
    return tuple(
        axis for form in index for axis, _ in sorted(expand(form).terms, key=lambda term: (-term[1], term[0].number))
    )


def _side(context: Context, group: Group, atom: Atom, index: Indices, free: Indices) -> Side:
    return Side(atom, index, _leaves(free), _in_memory(context, group, atom, index))


def _in_memory(context: Context, group: Group, atom: Atom, index: Indices) -> Affine | None:
    """The flat form of an operand that the group reads through views alone."""
    producers = {value.id: equation for equation in group.members.values() for value in equation.outputs}
    setting = Setting(context.space, context.costs, 0, producers)
    while isinstance(atom, Value) and atom.id in producers:
        equation = producers[atom.id]
        rule = lookup(equation.primitive).lower
        if not isinstance(rule, Pull):
            return None
        (found,) = probes(setting, equation, rule, [index])
        if not found.view:
            return None
        atom, index = equation.inputs[found.reads[0].operand], found.reads[0].index
    return flatten(index, atom.shape) if isinstance(atom, Value) else None


# --- what both schedules emit -----------------------------------------------------------------------------------------


def _along(elements: Elements, loops: Sequence[Loop], body: Callable[[], None]) -> None:
    """A nest of loops over the contracted axes."""
    if not loops:
        body()
        return
    k = elements.k
    with k.for_(k.i(0), k.i(extent(loops[0])), hint="k") as var:
        k.bind(loops[0], var)
        _along(elements, loops[1:], body)


def _term(elements: Elements, shape: Shape, side: Side) -> Expr:
    return elements.k.cast(elements.read(side.atom, side.index), shape.accumulator)


def _zero(elements: Elements, shape: Shape, hint: str = "sum") -> Var:
    return elements.k.variable(elements.k.const(0, shape.accumulator), hint)


def _add_product(elements: Elements, total: Var, a: Expr, b: Expr) -> None:
    k = elements.k
    k.assign(total, k.op("add", total, k.op("mul", a, b)))


def _epilogue(elements: Elements, shape: Shape, total: Expr) -> None:
    """Compute and store the outputs from one sum, at the axes bound now."""
    k = elements.k
    elements.resident[shape.value.id] = k.variable(k.cast(total, shape.value.dtype), "dot")
    for value, index in stored(shape.group):
        elements.store(value, index, elements.read(value, index))


def _ahead(elements: Elements, shape: Shape) -> None:
    """Read what does not depend on the row, once for all rows of a tile."""
    group, rows = shape.group, set(shape.rows.free) | set(shape.along)
    for value in group.reads.values():
        places = group.places.get(value.id)
        if places and value.id not in group.conditional:
            for index in places:
                if not any(axis in rows for form in index for axis in expand(form).axes):
                    elements.read(value, index)


# --- tiles ------------------------------------------------------------------------------------------------------------


def _tile_rows(shape: Shape, width: int) -> int:
    """Rows of a register tile: the size up to the target's that wastes fewest."""
    costs = shape.context.costs
    most = min(costs.tile_rows * costs.tile_lanes // width, 2 * costs.tile_rows)
    if shape.row_count <= most:
        return max(shape.row_count, 1)
    return min(range(most, most // 2, -1), key=lambda rows: -(-shape.row_count // rows) * rows)


def _tiles(shape: Shape, width: int, panels: ArraySpec | None) -> Setup:
    """Work-groups of rows x lanes; along x the rows, so that consecutive ones share their columns."""
    context, group = shape.context, shape.group
    rows = _tile_rows(shape, width)
    tile = Axis("tile", -(-shape.row_count // rows))
    block = Axis("block", -(-shape.lane_count // width))
    grid = make_grid(context, group, [*shape.loops(shape.batch), (block,), (tile,)], width, whole=True)
    elements = start(context, group, grid)
    k = elements.k
    with grid.bind(k):
        first = k.let(k.op("mul", k.expr(of_axis(tile)), k.i(rows)), "row")
        lane = k.let(k.op("add", k.op("mul", k.expr(of_axis(block)), k.i(width)), k.index("local", 0)), "lane")
        bind_together(k, shape.loops(shape.lanes.free), lane)
        exact = shape.row_count % rows == 0
        numbers = [k.let(k.op("add", first, k.i(row)), "row") if row else first for row in range(rows)]
        last = k.i(shape.row_count - 1)
        clamped = numbers if exact else [k.let(k.op("min", number, last), "row") for number in numbers]
        totals = [_zero(elements, shape) for _ in range(rows)]
        guard = shape.lane_count % width != 0
        load = _lane_loader(elements, shape, panels, block, guard)

        def step() -> None:
            b = load()
            for number, total in zip(clamped, totals, strict=True):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), number)
                    _add_product(elements, total, _term(elements, shape, shape.rows), b)

        def finish() -> None:
            _ahead(elements, shape)
            for number, total in zip(numbers, totals, strict=True):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), number)
                    if exact:
                        _epilogue(elements, shape, total)
                    else:
                        with k.if_(k.op("lt", number, k.i(shape.row_count))):
                            _epilogue(elements, shape, total)

        def whole_tile() -> None:
            _along(elements, shape.loops(shape.along), step)
            finish()

        if guard and panels is None:
            with k.if_(k.op("lt", lane, k.i(shape.lane_count))):
                whole_tile()
        elif guard:
            _along(elements, shape.loops(shape.along), step)
            with k.if_(k.op("lt", lane, k.i(shape.lane_count))):
                finish()
        else:
            whole_tile()
    return setup(elements, grid.groups)


def _lane_loader(
    elements: Elements, shape: Shape, panels: ArraySpec | None, block: Axis, guard: bool
) -> Callable[[], Expr]:
    k = elements.k
    if panels is None:
        return lambda: _term(elements, shape, shape.lanes)
    buffer = elements.temporary(0, panels, "read")
    number = k.let(_batch_number(elements, shape), "batch")

    def load() -> Expr:
        place = (number, k.expr(of_axis(block)), k.expr(_position(shape.along)), k.index("local", 0))
        return k.cast(k.let(k.load(buffer, place), "b"), shape.accumulator)

    return load


def _batch_number(elements: Elements, shape: Shape) -> Expr:
    return elements.k.expr(_position(_panel_batch(shape)))


def _position(axes: Sequence[Axis]) -> Affine:
    return flatten(whole(axes), [axis.extent for axis in axes])


def _panel_batch(shape: Shape) -> tuple[Axis, ...]:
    """The batch axes that the lane operand goes along; others share panels."""
    form = shape.lanes.form
    return shape.batch if form is None else tuple(axis for axis in shape.batch if form.coefficient(axis))


# --- panels -----------------------------------------------------------------------------------------------------------


def _panelled(shape: Shape) -> GroupPlan:
    """Copy the lane operand into panels, then tiles over them."""
    batch = prod(axis.extent for axis in _panel_batch(shape))
    after = replace(shape)
    after.use_panels()
    loops = after.loops(shape.lanes.free)
    width = power_of_two(extent(loops[-1]) if loops else 1, shape.context.costs.tile_lanes)
    blocks = -(-shape.lane_count // width)
    panels = ArraySpec(shape.lanes.atom.dtype, (batch, blocks, shape.length, width))
    return GroupPlan((_pack(shape, width, blocks, panels), _tiles(after, width, panels)), (panels,))


def _pack(shape: Shape, width: int, blocks: int, panels: ArraySpec) -> Setup:
    """panels[batch, block, k, lane] = operand element, or zero past the last column."""
    context, group = shape.context, shape.group
    block = Axis("block", blocks)
    outer = [*((axis,) for axis in _panel_batch(shape)), (block,)]
    loops = [*outer, *((axis,) for axis in shape.along)]
    grid = make_grid(context, group, loops, width, whole=True)
    elements = start(context, group, grid, "_panels")
    k = elements.k
    with grid.bind(k):
        lane = k.index("local", 0)
        number = k.expr(of_axis(block))  # before the columns' loops can divide the axis
        packed = _panel_batch(shape)
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
        place = (_batch_number(elements, shape), number, k.expr(_position(shape.along)), lane)
        k.store(buffer, place, zero)
    return setup(elements, grid.groups)


# --- dots -------------------------------------------------------------------------------------------------------------


def _by_dots(shape: Shape) -> bool:
    """Few rows, and both operands contiguous along a long K."""
    if not shape.along or shape.length < shape.context.costs.row_lanes:
        return False
    last = shape.along[-1]
    contiguous = shape.rows.step(last) == 1 and shape.lanes.step(last) == 1
    return contiguous and min(shape.row_count, shape.lane_count) <= _FEW_ROWS


def _along_lanes(shape: Shape) -> bool:
    """Whether the lane operand is contiguous along a K that fills work-groups."""
    long = bool(shape.along) and shape.length >= shape.context.costs.row_lanes
    return long and shape.lanes.step(shape.along[-1]) == 1


def _dots(shape: Shape) -> GroupPlan:
    """One work-group a column and all (few) rows: threads stride along K."""
    if shape.row_count > shape.lane_count:
        shape = Shape(shape.context, shape.group, shape.equation, shape.batch, shape.lanes, shape.rows)
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
        totals = [_zero(elements, shape) for _ in range(shape.row_count)]

        def step() -> None:
            b = _term(elements, shape, shape.lanes)
            for number, total in enumerate(totals):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), k.i(number))
                    _add_product(elements, total, _term(elements, shape, shape.rows), b)

        def stride() -> None:
            if main:
                with k.for_(k.i(0), k.i(main), width, hint="k") as base:
                    k.bind(inner, k.let(k.op("add", base, lane), "k"))
                    step()
            if main < turns:
                with k.if_(k.op("lt", lane, k.i(turns - main))):
                    k.bind(inner, k.let(k.op("add", lane, k.i(main)), "k"))
                    step()

        _along(elements, loops[:-1], stride)
        sums = [k.collective("sum", total, "sum") for total in totals]
        with k.if_(k.op("eq", lane, k.i(0))):
            for number, total in enumerate(sums):
                with k.forgetting():
                    bind_together(k, shape.loops(shape.rows.free), k.i(number))
                    _epilogue(elements, shape, total)
    return GroupPlan((setup(elements, grid.groups),))
