"""What Inline rules share: emitting one result, regions, and arrays as rows with the axis of interest last."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from poot.dtypes import ArraySpec
from poot.trace.graph import Atom, Equation, Graph, Params, ParamValue, Tree, Value, Variable
from poot.trace.primitives.base import lookup


class Step(Protocol):
    """Emits one primitive of one result: `step("add", x, y)`."""

    def __call__(self, primitive: str, *inputs: Atom, **params: ParamValue) -> Atom: ...


def stepper(emit: Callable[..., Any]) -> Step:
    """The emitter of an Inline rule as a Step."""

    def step(primitive: str, *inputs: Atom, **params: ParamValue) -> Atom:
        return emit(primitive, inputs, **params)[0]

    return step


class Region:
    """A region in the making, of primitives without Inline rules, effects and regions of their own."""

    def __init__(self, specs: Sequence[ArraySpec]) -> None:
        self.inputs = tuple(Value(number, spec) for number, spec in enumerate(specs))
        self._equations: list[Equation] = []

    def step(self, primitive: str, *inputs: Atom, **params: ParamValue) -> Atom:
        """Emit one primitive of one result."""
        plain = Params(params)
        (spec,) = lookup(primitive).type_rule(tuple(atom.spec for atom in inputs), plain, ())
        output = Value(len(self.inputs) + len(self._equations), spec)
        self._equations.append(Equation(primitive, inputs, plain, (output,)))
        return output

    def finish(self, outputs: Sequence[Atom], name: str) -> Graph:
        """The region as a graph with a tuple of outputs."""
        inputs = tuple(Variable(f"x{value.id}", value) for value in self.inputs)
        tree = Tree("tuple", (Tree(),) * len(outputs))
        return Graph((), inputs, (), tuple(self._equations), tuple(outputs), tree, name=name)


def along(step: Step, x: Atom, shape: tuple[int, ...], axis: int) -> Atom:
    """An array without `axis` repeated along it."""
    return step("broadcast", x, shape=shape, dims=tuple(place for place in range(len(shape)) if place != axis))


def as_rows(step: Step, x: Atom, axis: int) -> Atom:
    """An array of any rank as (rows, extent of the axis)."""
    shape = x.shape
    perm = (*(place for place in range(len(shape)) if place != axis), axis)
    if perm != tuple(range(len(shape))):
        x = step("transpose", x, perm=perm)
    rows = math.prod(shape[place] for place in perm[:-1])
    return x if x.shape == (rows, shape[axis]) else step("reshape", x, shape=(rows, shape[axis]))


def from_rows(step: Step, x: Atom, shape: tuple[int, ...], axis: int) -> Atom:
    """The inverse of `as_rows`, for a result of `shape`."""
    others = tuple(place for place in range(len(shape)) if place != axis)
    moved = tuple(shape[place] for place in (*others, axis))
    if x.shape != moved:
        x = step("reshape", x, shape=moved)
    perm = tuple((*others, axis).index(place) for place in range(len(shape)))
    return x if perm == tuple(range(len(shape))) else step("transpose", x, perm=perm)
