"""The oracle: evaluates a graph on the CPU with NumPy, one equation at a time.  It defines what a program means.

Integers and bools are computed in their own dtype; a float equation is computed in float64 and rounded once to its
output dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from poot.dtypes import as_dtype, check_plain
from poot.errors import ArgumentTypeError, DTypeError, EvaluateError, ShapeError
from poot.foreign import as_numpy
from poot.trace.graph import Atom, Equation, Graph, Literal, Variable
from poot.trace.primitives.oracle import apply_rule, literal_array, narrow, read_only
from poot.trace.tree import unflatten

Array: TypeAlias = "np.ndarray[Any, Any]"

#: Called after each equation, those of regions included, with the arrays of its inputs and outputs (read-only).
Observer: TypeAlias = Callable[[Equation, tuple[Array, ...], tuple[Array, ...]], None]


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """`observer` is called for every equation; `keep_environment` keeps the array of every value of the graph."""

    observer: Observer | None = None
    keep_environment: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`output` is the output pytree of NumPy arrays, `state` every state after the step, by name.

    `environment` has the array of each value by id if it was kept, else nothing.
    """

    output: Any
    state: dict[str, Array]
    environment: dict[int, Array]


def evaluate(graph: Graph, bindings: Mapping[int | str, Any], options: EvalOptions | None = None) -> Evaluation:
    """Evaluate with every constant, input and state bound, by id or by name.

    Raises EvaluateError for missing, unknown or doubly bound variables, DTypeError and ShapeError for an array that
    does not have exactly the declared dtype and shape, and IndexFault where an equation indexes out of range.
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(what="evaluate: graph", actual=type(graph).__name__, expected="a Graph")
    options = options or EvalOptions()
    bound = bind(graph, bindings)
    environment = _run(graph, bound, options.observer, keep=options.keep_environment)
    output = unflatten(graph.tree, [_fresh(_read(atom, environment)) for atom in graph.outputs])
    state = {variable.name: variable.value for variable in graph.states} | dict(graph.updates)
    return Evaluation(
        output,
        {name: _fresh(_read(atom, environment)) for name, atom in state.items()},
        environment if options.keep_environment else {},
    )


# --- bindings -------------------------------------------------------------------------------------------------------


def bind(graph: Graph, bindings: Mapping[int | str, Any]) -> dict[int, Array]:
    """The array of every variable by id, each of exactly the declared dtype and shape."""
    names = {variable.name: variable for variable in graph.variables}
    ids = {variable.value.id: variable for variable in graph.variables}
    bound: dict[int, Array] = {}
    for key, value in bindings.items():
        variable = names.get(key) if isinstance(key, str) else ids.get(key)
        if variable is None:
            known = ", ".join(repr(variable.name) for variable in graph.variables) or "none"
            message = f"{graph.name} has no such constant, input or state (it has: {known})"
            raise EvaluateError(what=f"binding {key!r}", message=message, remedy="bind these alone, by name or id.")
        if variable.value.id in bound:
            message = f"{variable.name!r} is bound twice, by name and by id"
            raise EvaluateError(what=f"binding {key!r}", message=message, remedy="bind it once.")
        bound[variable.value.id] = _bound(variable, value)
    missing = [repr(variable.name) for variable in graph.variables if variable.value.id not in bound]
    if missing:
        remedy = "give an array for every constant, input and state of the graph."
        raise EvaluateError(what=graph.name, message="nothing is bound to " + ", ".join(missing), remedy=remedy)
    return bound


def _bound(variable: Variable, value: Any) -> Array:
    what = f"binding {variable.name!r}"
    check_plain(value, what)
    array = as_numpy(value, what)
    dtype = as_dtype(array.dtype, what)
    if dtype is not variable.spec.dtype:
        raise DTypeError(
            what=what, actual=dtype, expected=variable.spec.dtype, remedy="convert the array; nothing is cast silently."
        )
    if array.shape != variable.spec.shape:
        raise ShapeError(what=what, actual=array.shape, expected=variable.spec.shape)
    return read_only(array.astype(dtype.dtype, copy=False))


# --- equations ------------------------------------------------------------------------------------------------------


def _run(graph: Graph, bound: dict[int, Array], observer: Observer | None, *, keep: bool) -> dict[int, Array]:
    environment = dict(bound)
    last = {} if keep else _last_uses(graph)
    with np.errstate(all="ignore"):
        for index, equation in enumerate(graph.equations):
            operands = tuple(_read(atom, environment) for atom in equation.inputs)
            results = apply(equation, operands, observer)
            environment.update(zip((value.id for value in equation.outputs), results, strict=True))
            if observer is not None:
                observer(equation, operands, results)
            for dead in last.get(index, ()):
                environment.pop(dead, None)
    return environment


def apply(equation: Equation, operands: Sequence[Array], observer: Observer | None = None) -> tuple[Array, ...]:
    """The results of one equation on operands in their own dtypes; read-only."""

    def run(region: Graph, arrays: Sequence[Array]) -> tuple[Array, ...]:
        bound = {
            variable.value.id: read_only(narrow(np.asarray(array), variable.spec.dtype))
            for variable, array in zip(region.inputs, arrays, strict=True)
        }
        environment = _run(region, bound, observer, keep=False)
        return tuple(_read(atom, environment) for atom in region.outputs)

    return apply_rule(equation, operands, run)


def _read(atom: Atom, environment: Mapping[int, Array]) -> Array:
    return literal_array(atom) if isinstance(atom, Literal) else environment[atom.id]


def _fresh(array: Array) -> Array:
    """A copy of its own for the caller, so that no result shares memory with a bound array."""
    return np.array(array, order="C", copy=True)


def _last_uses(graph: Graph) -> dict[int, list[int]]:
    """By equation, the values that no later equation, output or state needs."""
    kept = {atom.id for atom in graph.outputs if not isinstance(atom, Literal)}
    kept |= {atom.id for _, atom in graph.updates if not isinstance(atom, Literal)}
    kept |= {variable.value.id for variable in graph.states}
    last: dict[int, int] = {}
    for index, equation in enumerate(graph.equations):
        last |= {value.id: index for value in equation.outputs}
        last |= {atom.id: index for atom in equation.inputs if not isinstance(atom, Literal)}
    uses: dict[int, list[int]] = {}
    for value, index in last.items():
        if value not in kept:
            uses.setdefault(index, []).append(value)
    return uses
