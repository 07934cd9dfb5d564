"""Contractions by their axes: the two operands as rows and lanes, and what every schedule of them emits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import cast

from poot.dtypes import DType
from poot.kernel.ir import Expr, Var
from poot.plan.elements import Elements
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Axis, Indices, expand, flatten, loops_of
from poot.plan.joins import Setting, probes
from poot.plan.schedules.common import Context, Loop, accesses, collapse, extent, pinned, stored
from poot.trace.graph import Atom, Equation, Literal, Value
from poot.trace.primitives import Elementwise, Pull, lookup
from poot.trace.primitives.contract import dimension_numbers, free_axes

#: Multiplications that take as long as copying one element, and the fewest lanes that a vector has.
_PRODUCTS = 32
_VECTOR = 16


@dataclass(slots=True)
class Side:
    """One operand: what is read, at which index, its own (free) axes, and where it lies in memory.

    `form` is the flat form of the largest of the buffers that it is made of, `stored` their bytes an element, and
    `moving` the loop axes that any of them goes along; `form` and `moving` are None where that is not known.  A
    `constant` one is made of values that stay the same from step to step, so that its panels are copied once.
    """

    atom: Atom
    index: Indices
    free: tuple[Axis, ...]
    form: Affine | None
    stored: int
    moving: frozenset[Axis] | None
    constant: bool = False

    def step(self, axis: Axis) -> int | None:
        """The stride in memory along an axis, if the operand is read where it lies."""
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

    def use_panels(self, side: Side) -> None:
        """An operand is not read where it lies: how it lies no longer matters to the loops."""
        self.forms = [form for form in self.forms if form != side.form]

    def side_batch(self, side: Side) -> tuple[Axis, ...]:
        """The batch axes that an operand goes along; others share its panels."""
        moving = side.moving
        return self.batch if moving is None else tuple(axis for axis in self.batch if axis in moving)

    def apart(self, neighbours: bool) -> float:
        """What an element costs whose lanes lie apart; less where its neighbours are needed too."""
        return 0.4 if neighbours and self.context.costs.sums else 2.0

    def contiguous_rows(self) -> bool:
        """Whether neighbouring rows of the first output lie side by side."""
        return self._contiguous(self.rows.free)

    def contiguous_lanes(self) -> bool:
        """Whether neighbouring lanes of the first output lie side by side."""
        return self._contiguous(self.lanes.free)

    def _contiguous(self, free: tuple[Axis, ...]) -> bool:
        value, index = stored(self.group)[0]
        return bool(free) and flatten(index, value.shape).coefficient(free[-1]) == 1


# --- analysis ---------------------------------------------------------------------------------------------------------


def analyse(context: Context, group: Group) -> Shape:
    """Which side runs along lanes: the one for which that costs less."""
    equation = group.members[group.contraction]
    left_contract, _, left_batch, _ = dimension_numbers(equation.params)
    index = (group.places[equation.outputs[0].id] or [])[0]
    left, right = equation.inputs
    left_free = len(free_axes(len(left.shape), left_contract, left_batch))
    batch = len(left_batch)
    left_index, right_index = group.operands[group.contraction]
    accumulator = cast("DType", equation.params["accumulate"])
    sides = (
        _side(context, group, accumulator, left, left_index, index[batch : batch + left_free]),
        _side(context, group, accumulator, right, right_index, index[batch + left_free :]),
    )
    axes = _leaves(index[:batch])
    ordinary = Shape(context, group, equation, axes, sides[0], sides[1])
    swapped = Shape(context, group, equation, axes, sides[1], sides[0])
    return swapped if _cost(swapped) < _cost(ordinary) else ordinary


def _cost(shape: Shape) -> float:
    """What a choice of sides costs, in copied elements: its multiplications, panels, and scattered stores."""
    lanes = max(shape.lane_count, 1)
    width = min(1 << (lanes - 1).bit_length(), shape.context.costs.tile_lanes)
    padded = -(-lanes // width) * max(width, _VECTOR)
    batch = prod(axis.extent for axis in shape.batch)
    total = shape.row_count * padded * shape.length * batch / _PRODUCTS
    free = shape.lanes.free
    even = not free or shape.contiguous_lanes()
    total += shape.row_count * lanes * batch * (0.1 if even else shape.apart(shape.contiguous_rows()))
    if free and shape.lanes.step(free[-1]) != 1 and not shape.lanes.constant:
        along = bool(shape.along) and shape.lanes.step(shape.along[-1]) == 1
        total += shape.apart(along) * lanes * shape.length * prod(axis.extent for axis in shape.side_batch(shape.lanes))
    return total


def _leaves(index: Indices) -> tuple[Axis, ...]:
    """The axes of an index, outermost first within each dimension."""
    return tuple(
        axis for form in index for axis, _ in sorted(expand(form).terms, key=lambda term: (-term[1], term[0].number))
    )


def _side(context: Context, group: Group, accumulator: DType, atom: Atom, index: Indices, free: Indices) -> Side:
    constant = _is_constant(context, group, atom)
    atom, index = _below_cast(context, group, accumulator, atom, index)
    sources = _sources(context, group, atom, index)
    if sources is None:
        return Side(atom, index, _leaves(free), None, atom.dtype.itemsize, None, constant)
    moving = frozenset(axis for _, form in sources for axis in loops_of(form))
    values = [(value, form) for value, form in sources if isinstance(value, Value)]
    main, form = max(values, key=lambda source: source[0].spec.size, default=(atom, None))
    return Side(atom, index, _leaves(free), form, main.dtype.itemsize, moving, constant)


def _below_cast(context: Context, group: Group, accumulator: DType, atom: Atom, index: Indices) -> tuple[Atom, Indices]:
    """What a cast to the accumulator's dtype is made of, since each product casts its factors to that anyway.

    Panels then hold the narrower dtype.
    """
    producers = _producers(group)
    setting = Setting(context.space, context.costs, 0, producers)
    below, at = atom, index
    while isinstance(below, Value) and below.id in producers:
        equation = producers[below.id]
        if equation.primitive == "cast":
            return (equation.inputs[0], at) if below.dtype is accumulator else (atom, index)
        rule = lookup(equation.primitive).lower
        if not isinstance(rule, Pull):
            break
        (found,) = probes(setting, equation, rule, [at])
        if not found.view:
            break
        below, at = equation.inputs[found.reads[0].operand], found.reads[0].index
    return atom, index


def _producers(group: Group) -> dict[int, Equation]:
    return {value.id: equation for equation in group.members.values() for value in equation.outputs}


def _is_constant(context: Context, group: Group, atom: Atom) -> bool:
    """Whether all that an operand is made of stays the same from step to step."""
    producers = _producers(group)
    pending = [atom]
    while pending:
        each = pending.pop()
        if isinstance(each, Value):
            if each.id in producers:
                pending += producers[each.id].inputs
            elif each.id not in context.constants:
                return False
    return True


def _sources(context: Context, group: Group, atom: Atom, index: Indices) -> list[tuple[Atom | None, Affine]] | None:
    """What an operand is read from, through views and MAPs, with the flat form of each; None where it is not known.

    Where a view reads nothing, its index stands for what it is made of.
    """
    producers = _producers(group)
    setting = Setting(context.space, context.costs, 0, producers)
    pending, found = [(atom, index)], dict[tuple[Atom | None, Affine], None]()
    seen: set[tuple[Atom, Indices]] = set()
    while pending:
        atom, index = pending.pop()
        if isinstance(atom, Literal) or (atom, index) in seen:
            continue
        seen.add((atom, index))
        equation = producers.get(atom.id)
        if equation is None:
            found[atom, flatten(index, atom.shape)] = None
            continue
        rule = lookup(equation.primitive).lower
        if isinstance(rule, Elementwise):
            pending += [(each, index if each.shape else ()) for each in equation.inputs]
            continue
        if not isinstance(rule, Pull):
            return None
        (result,) = probes(setting, equation, rule, [index])
        if not result.view and not result.constant:
            return None
        pending += [(equation.inputs[read.operand], read.index) for read in result.reads]
        found.update({(None, form): None for form in index if result.constant})
    return list(found)


# --- what both schedules emit -----------------------------------------------------------------------------------------


def nest(elements: Elements, loops: Sequence[Loop], body: Callable[[], None]) -> None:
    """A nest of loops over the contracted axes."""
    if not loops:
        body()
        return
    k = elements.k
    with k.for_(k.i(0), k.i(extent(loops[0])), hint="k") as var:
        k.bind(loops[0], var)
        nest(elements, loops[1:], body)


def term(elements: Elements, shape: Shape, side: Side) -> Expr:
    """An operand's element at the axes bound now, in the accumulator's dtype."""
    return elements.k.cast(elements.read(side.atom, side.index), shape.accumulator)


def zero(elements: Elements, shape: Shape, hint: str = "sum") -> Var:
    """A sum of nothing."""
    return elements.k.variable(elements.k.const(0, shape.accumulator), hint)


def add_product(elements: Elements, total: Var, a: Expr, b: Expr) -> None:
    """Add a * b to a running sum."""
    k = elements.k
    k.assign(total, k.op("add", total, k.op("mul", a, b)))


def results(elements: Elements, shape: Shape, total: Expr) -> list[Expr]:
    """The outputs from one sum, at the axes bound now."""
    k = elements.k
    elements.resident[shape.value.id] = k.variable(k.cast(total, shape.value.dtype), "dot")
    return [elements.read(value, index) for value, index in stored(shape.group)]


def epilogue(elements: Elements, shape: Shape, total: Expr) -> None:
    """Compute and store the outputs from one sum, at the axes bound now."""
    for (value, index), element in zip(stored(shape.group), results(elements, shape, total), strict=True):
        elements.store(value, index, element)
