"""Masks: which keys a query may attend to, where attention's scores say so by comparing the places of the two.

    scores = select(key <= query + 3, …, -inf)      keys past query + 3 need not be visited

A span is read off the equations that make the scores.  What it leaves out has the value `fill`, whose power is zero as
long as the row has a score that is greater by `GAP`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from poot.dtypes import DType, f64
from poot.plan.elements import probe
from poot.plan.emitter import Emitter
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Indices, Space, bounds, combine, expand, flatten, whole
from poot.trace.graph import Atom, Equation, Literal, Value
from poot.trace.primitives import Pull, lookup

#: Index arithmetic that stays within this range cannot have wrapped in the dtypes that are followed.
_REACH = 1 << 30
_NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def gap(dtype: DType) -> float:
    """How far below the maximum a score is when its power rounds to zero: past ln of half the least subnormal."""
    return 746.0 if dtype is f64 else 104.0


@dataclass(frozen=True, slots=True)
class Span:
    """The keys that matter to a query: none before a form of `low`, none from a form of `high` on."""

    low: tuple[Affine, ...]
    high: tuple[Affine, ...]
    fill: float

    def __bool__(self) -> bool:
        return bool(self.low or self.high)


def span(space: Space, group: Group) -> Span | None:
    """The keys that attention's scores leave, or None where they might leave all."""
    assert group.attention is not None
    found = _Masks(space, group).of_scores(group.attention.score)
    return found if found else None


class _Masks:
    def __init__(self, space: Space, group: Group) -> None:
        assert group.attention is not None
        self.space = space
        self.makers = {value.id: equation for equation in group.members.values() for value in equation.outputs}
        self.places = group.places
        self.keys = tuple(leaf for axis in group.attention.keys for leaf in axis.leaves())
        self.lengths = flatten(whole(self.keys), [axis.extent for axis in self.keys])

    def maker(self, atom: Atom) -> Equation | None:
        return self.makers.get(atom.id) if isinstance(atom, Value) else None

    def place(self, value: Value) -> Indices | None:
        places = self.places.get(value.id)
        return places[0] if places is not None and len(places) == 1 else None

    def through(self, atom: Atom, index: Indices) -> tuple[Atom, Indices]:
        """A value through the views that made it."""
        while (equation := self.maker(atom)) is not None:
            rule = lookup(equation.primitive).lower
            if not isinstance(rule, Pull) or len(equation.outputs) != 1:
                break
            found = probe(Emitter("probe", self.space, probing=True), equation, rule, index)
            if not found.view:
                break
            atom, index = equation.inputs[found.reads[0].operand], found.reads[0].index
        return atom, index if atom.shape else ()

    def literal(self, atom: Atom, index: Indices) -> float | None:
        atom, _ = self.through(atom, index)
        return float(atom.value) if isinstance(atom, Literal) else None

    # --- scores ---

    def of_scores(self, score: Value) -> Span | None:
        """The span of `select(condition, …, fill)`, also through casts and positive factors."""
        place = self.place(score)
        equation = None if place is None else self.maker(score)
        if equation is None or place is None:
            return None
        match equation.primitive:
            case "cast":
                return self._inner(equation.inputs[0])
            case "mul" | "div":
                return self._scaled(equation, place)
            case "select":
                return self._select(equation, place)
            case _ if isinstance(lookup(equation.primitive).lower, Pull):
                return self._inner(equation.inputs[0]) if len(equation.inputs) == 1 else None
            case _:
                return None

    def _inner(self, atom: Atom) -> Span | None:
        return self.of_scores(atom) if isinstance(atom, Value) else None

    def _scaled(self, equation: Equation, place: Indices) -> Span | None:
        left, right = equation.inputs
        factor, other = self.literal(right, place), left
        if factor is None and equation.primitive == "mul":
            factor, other = self.literal(left, place), right
        inner = self._inner(other)
        if inner is None or factor is None or not 0 < factor < math.inf:
            return None
        scaled = inner.fill * factor if equation.primitive == "mul" else inner.fill / factor
        return replace(inner, fill=scaled)

    def _select(self, equation: Equation, place: Indices) -> Span | None:
        condition, yes, no = equation.inputs
        fill, holds, kept = self.literal(no, place), True, yes
        if fill is None or fill > 0:
            fill, holds, kept = self.literal(yes, place), False, no
        if fill is None or not fill < 0:
            return None
        inner = self._inner(kept)
        low, high = self.condition(condition, place, holds)
        if inner is not None and inner.fill == fill:
            low, high = low + inner.low, high + inner.high
        return Span(low, high, fill)

    # --- conditions ---

    def condition(self, atom: Atom, index: Indices, holds: bool) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """Bounds of the keys for which a condition may hold (or may not hold)."""
        atom, index = self.through(atom, index)
        equation = self.maker(atom)
        name = "" if equation is None else equation.primitive
        if equation is None:
            return (), ()
        inputs = equation.inputs
        if name == "not":
            return self.condition(inputs[0], index, not holds)
        if name == ("and" if holds else "or"):
            ours, theirs = (self.condition(each, index, holds) for each in inputs)
            return ours[0] + theirs[0], ours[1] + theirs[1]
        if name == "cast" or (name == "select" and equation.outputs[0].dtype.name == "bool"):
            return self.truth(equation, index, holds)
        if name in ("eq", "ne", "lt", "le", "gt", "ge"):
            chosen = self.chosen(equation, index)
            if chosen is not None:
                return self.either(chosen, index, holds)
            return self.compared(name if holds else _NEGATED.get(name, ""), inputs, index)
        return (), ()

    def truth(self, equation: Equation, index: Indices, holds: bool) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """A bool made by a cast, or by a choice of two literals."""
        if equation.primitive == "cast":
            inner, at = self.through(equation.inputs[0], index)
            made = self.maker(inner)
            if made is None or made.primitive != "select":
                return self.condition(inner, at, holds) if inner.spec.dtype.name == "bool" else ((), ())
            equation, index = made, at
        yes, no = (self.literal(each, index) for each in equation.inputs[1:])
        if yes is None or no is None:
            return (), ()
        return self.either((equation.inputs[0], bool(yes), bool(no)), index, holds)

    def chosen(self, equation: Equation, index: Indices) -> tuple[Atom, bool, bool] | None:
        """Where one side of a comparison is a choice of two literals: its condition, and the result for either."""
        left, right = equation.inputs
        bound = self.literal(right, index)
        inner, at = self.through(left, index)
        made = self.maker(inner)
        if bound is None or made is None or made.primitive != "select":
            return None
        yes, no = (self.literal(each, at) for each in made.inputs[1:])
        if yes is None or no is None:
            return None
        results = [_compare(equation.primitive, each, bound) for each in (yes, no)]
        return made.inputs[0], results[0], results[1]

    def either(
        self, chosen: tuple[Atom, bool, bool], index: Indices, holds: bool
    ) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        condition, yes, no = chosen
        return self.condition(condition, index, holds == yes) if yes != no else ((), ())

    def compared(
        self, name: str, inputs: Sequence[Atom], index: Indices
    ) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """Bounds from a comparison of two affine forms."""
        left, right = (self.affine(atom, index) for atom in inputs)
        if left is None or right is None or name not in _NEGATED:
            return (), ()
        more, less = (left, right) if name in ("ge", "gt") else (right, left)
        form = expand(combine([(more, 1), (less, -1)], -1 if name in ("gt", "lt") else 0))  # holds where it is >= 0
        step = form.coefficient(self.keys[-1]) if self.keys else 0
        rest = expand(combine([(form, 1), (self.lengths, -step)]))
        if abs(step) != 1 or any(axis in self.keys for axis in rest.axes):
            return (), ()
        return ((combine([(rest, -1)]),), ()) if step == 1 else ((), (combine([(rest, 1)], 1),))

    def affine(self, atom: Atom, index: Indices) -> Affine | None:
        """An integer as an affine form of loop axes, if it is one and cannot have wrapped."""
        atom, index = self.through(atom, index)
        form = self._affine(atom, index)
        reach = None if form is None else bounds(form)
        wide = atom.spec.dtype.kind == "int" and atom.spec.dtype.bits >= 32
        return form if wide and reach is not None and reach[0] > -_REACH and reach[1] < _REACH else None

    def _affine(self, atom: Atom, index: Indices) -> Affine | None:
        if isinstance(atom, Literal):
            return Affine(int(atom.value)) if atom.dtype.is_integer else None
        equation = self.maker(atom)
        if equation is None:
            return None
        if equation.primitive == "iota":
            return expand(index[cast("int", equation.params["axis"])])
        forms = [self.affine(each, index) for each in equation.inputs]
        if any(form is None for form in forms):
            return None
        operands = [form for form in forms if form is not None]
        match equation.primitive:
            case "cast":
                return operands[0]
            case "neg":
                return combine([(operands[0], -1)])
            case "add" | "sub":
                return combine([(operands[0], 1), (operands[1], 1 if equation.primitive == "add" else -1)])
            case "mul" if not operands[0].terms or not operands[1].terms:
                a, b = operands if not operands[1].terms else reversed(operands)
                return combine([(a, b.const)])
            case _:
                return None


def _compare(name: str, a: float, b: float) -> bool:
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]
