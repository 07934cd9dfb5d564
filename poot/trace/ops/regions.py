"""Regions while they are recorded: the closed graphs inside cond, while_loop and scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from poot.dtypes import ArraySpec, concrete, promote
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, is_array
from poot.trace.builder import Operand
from poot.trace.dispatch import TraceContext, active, lift, tracing
from poot.trace.graph import Graph, Literal
from poot.trace.ops.promotion import cast, kind_of, literal, shape_of, spec_of
from poot.trace.source import user_location
from poot.trace.tracer import Tracer, WeakTracer
from poot.trace.tree import Flat, flatten, structure

CAST = "cast it with astype, so that both have one dtype."


class Region:
    """A region inside the trace of `context`; what it reads of the trace around it becomes an input when it is read."""

    def __init__(self, context: TraceContext, name: str) -> None:
        self.builder = context.builder.region(name)
        self._outside = context.capture, context.read, context.constant

    def inputs(self, specs: Sequence[ArraySpec], name: str) -> list[Tracer]:
        """One input a spec."""
        return [self.builder.input(f"{name}{number}", spec) for number, spec in enumerate(specs)]

    def record(self, function: Callable[..., Any], *arguments: Any) -> Flat:
        """Run a function and record its operations."""
        with tracing(self.builder, *self._outside):
            return flatten(function(*arguments), f"results of {self.builder.name}")

    def finish(self, results: Sequence[Operand], captures: Sequence[Tracer] | None = None) -> Graph:
        """The graph; its inputs are the captures, then those that `inputs` made."""
        captures = self.builder.captures if captures is None else captures
        graph = self.builder.finish(tuple(results), captures=captures)
        own = len(graph.inputs) - len(captures)
        return replace(graph, inputs=graph.inputs[own:] + graph.inputs[:own])

    def conform(self, flat: Flat, specs: Sequence[ArraySpec], what: str, other: str) -> list[Operand]:
        """Results of exactly these specs: numbers take their dtype; ShapeError or DTypeError for arrays that differ."""
        with tracing(self.builder, *self._outside):
            found = [
                conformed(leaf, spec, f"{what}{f' {path}' if path else ''}", other)
                for leaf, path, spec in zip(flat.leaves, flat.paths, specs, strict=True)
            ]
            return [item if isinstance(item, Literal) else self._own(lift(item)) for item in found]

    def _own(self, result: Array) -> Tracer:
        """A result as a value of the region, even if it comes from around it."""
        tracer = of_trace(result)
        return tracer if tracer.builder is self.builder else self.builder.capture(tracer)


def of_trace(array: Array) -> Tracer:
    """An array as a value of the trace; one from outside is captured."""
    context = active()
    if not isinstance(array, Tracer) and context is not None:
        array = context.capture(array)
    assert isinstance(array, Tracer), array
    return array


def conformed(leaf: Any, spec: ArraySpec, what: str, other: str) -> Any:
    """A result of exactly this spec, as an operand."""
    if shape_of(leaf) != spec.shape:
        raise ShapeError(what=what, actual=shape_of(leaf), expected=f"{spec.shape}, {other}", where=user_location())
    if isinstance(leaf, WeakTracer):
        return cast(leaf, spec.dtype)
    if not is_array(leaf):
        return literal(leaf, spec.dtype)
    found = spec_of(leaf)
    if found.dtype is not spec.dtype:
        raise DTypeError(
            what=what, actual=found.dtype, expected=f"{spec.dtype}, {other}", where=user_location(), remedy=CAST
        )
    return leaf


def common_specs(first: Flat, second: Flat, what: str) -> list[ArraySpec]:
    """The specs of two branches' results: those of the arrays among them, a number taking the other's dtype."""
    specs: list[ArraySpec] = []
    for one, two in zip(first.leaves, second.leaves, strict=True):
        kinds = (kind_of(one, what), kind_of(two, what))
        strong = next((leaf for leaf in (two, one) if is_array(leaf) and not isinstance(leaf, WeakTracer)), None)
        specs.append(ArraySpec(concrete(promote(kinds)), ()) if strong is None else spec_of(strong))
    return specs


def same_structure(flat: Flat, expected: Flat, what: str, other: str) -> None:
    """ArgumentError unless two pytrees have one structure."""
    if flat.spec != expected.spec:
        raise ArgumentError(
            what=what,
            actual=structure(flat),
            expected=f"{structure(expected)}, {other}, where each * is an array",
            where=user_location(),
        )
