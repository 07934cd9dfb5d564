"""Random graphs on devices: made from a seed, run, compared with the oracle, and reduced where they differ.

    case = Case.of("exact", seed)
    failure = check(case, poot.device("cpu"), "fused")

Every graph is `whole`: none of its equations is dead.  A device's arrays must be those of the oracle bit for bit in the
exact family (but for the bits of NaN), and within the graph's `bounds` in the float family.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import poot
from poot.backends.executor import Engine, StepInputs
from poot.backends.weights import WeightStore
from poot.dtypes import ALL, DType
from poot.trace.check import check_graph
from poot.trace.evaluate import EvalOptions, evaluate
from poot.trace.graph import Atom, Graph, Tree, Value, Variable
from tests.apart import apart
from tests.plan_support import bits
from tests.random_bounds import bounds
from tests.random_graphs import Family, random_bindings, random_graph, whole
from tests.random_intervals import Bound, is_float

Array = np.ndarray[Any, Any]
#: How to plan: fused, fused with every equation rounded, or every equation in kernels of its own.
Mode = Literal["fused", "strict", "apart"]
EQUATIONS = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A graph with arrays for its variables."""

    family: Family
    graph: Graph
    arrays: Mapping[Any, Array]

    @staticmethod
    def of(family: Family, seed: int, dtypes: Sequence[DType] = ALL, equations: int = EQUATIONS) -> Case:
        rng = np.random.default_rng([seed, ("exact", "float", "any").index(family), 2025])
        graph = whole(random_graph(rng, family, equations, dtypes))
        return Case(family, graph, random_bindings(graph, rng, family))

    def wanted(self, mode: Mode) -> list[Bound]:
        """What the outputs, and then the states after the step, may be."""
        if self.family == "float":
            outputs, states = bounds(self.graph, self.arrays, fused=mode != "strict")
            return [*outputs, *states.values()]
        found = evaluate(self.graph, self.arrays)
        return [Bound.of(np.asarray(array)) for array in (*found.output, *found.state.values())]


def shared_dtypes(*devices: Any) -> tuple[DType, ...]:
    """The dtypes that all of these devices have."""
    return tuple(dtype for dtype in ALL if all(dtype in device.target.dtypes for device in devices))


def on_device(case: Case, device: Any, mode: Mode) -> list[Array]:
    """The outputs, and then the states after the step, as a device computes them."""
    graph, arrays = case.graph, case.arrays
    options = poot.CompileOptions(poot.CompileLimits.STANDARD, numerics="strict" if mode == "strict" else "fused")
    with apart() if mode == "apart" else contextlib.nullcontext():
        program = poot.compile(graph, device.target, options)
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({v.name: arrays[v.name] for v in graph.constants}))
    entry = engine.add_entry(exe, program)
    inputs = StepInputs()
    for variable in graph.states:
        exe.state[variable.name] = arrays[variable.name]
    for variable in graph.inputs:
        inputs.push(variable.name, arrays[variable.name])
    outputs = engine.step(exe, entry, inputs).read()
    states = [exe.state[variable.name] for variable in graph.states]
    engine.unload(exe)
    return [*map(np.asarray, outputs), *states]


@dataclass(frozen=True, slots=True)
class Failure:
    """What differs: the first wrong result by its number, or what was raised."""

    result: int
    message: str


def check(case: Case, device: Any, mode: Mode, wanted: Sequence[Bound] | None = None) -> Failure | None:
    """Run a case on a device and compare; None where all is as it must be."""
    wanted = case.wanted(mode) if wanted is None else wanted
    try:
        actual = on_device(case, device, mode)
    except Exception as error:  # whatever is raised is a failure of this case, and the run goes on
        return Failure(-1, f"{type(error).__name__}: {error}")
    for number, (array, bound) in enumerate(zip(actual, wanted, strict=True)):
        message = _difference(case.family, array, bound)
        if message:
            return Failure(number, message)
    return None


def _difference(family: Family, actual: Array, bound: Bound) -> str:
    expected = bound.value
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)} in place of {expected.dtype}{list(expected.shape)}"
    right = bound.allows(actual) if family == "float" else bits(actual) == bits(expected)
    if np.all(right):
        return ""
    places = np.flatnonzero(~np.asarray(right))
    lines = [
        f"{place}: {actual.flat[place]!r} in place of {expected.flat[place]!r}"
        f" ({bound.low.flat[place]!r} … {bound.high.flat[place]!r})"
        for place in map(int, places[:3])
    ]
    return f"{len(places)} of {actual.size} elements differ, at " + "; ".join(lines)


def tightness(found: Sequence[Bound]) -> tuple[int, int, int]:
    """Of all floats: how many may be anything, how many are known to a tenth, and how many there are."""
    wild = tight = count = 0
    for bound in found:
        if is_float(bound.value):
            width, size = bound.high - bound.low, np.abs(bound.value.astype(np.float64))
            wild += int(bound.wild.sum())
            tight += int(np.sum(~bound.wild & ((width <= 0.1 * size) | bound.point)))
            count += bound.value.size
    return wild, tight, count


# --- reduction --------------------------------------------------------------------------------------------------------


def reduced(case: Case, device: Any, mode: Mode, failure: Failure, seconds: float = 30.0) -> tuple[Case, Failure]:
    """A smaller case that fails too: fewer outputs, and inputs in place of equations, while time lasts."""
    end = time.monotonic() + seconds
    best = (case, failure)
    if 0 <= failure.result < len(case.graph.outputs):
        best = _if_fails(_only(case, [failure.result]), device, mode) or best
    else:
        best = _fewer_outputs(best, device, mode, end)
    step = max(len(best[0].graph.equations) // 2, 1)
    while time.monotonic() < end:
        number, smaller = 0, False
        while number < len(best[0].graph.equations) and time.monotonic() < end:
            found = _if_fails(_without(best[0], number, step), device, mode)
            if found is None:
                number += step
            else:
                best, smaller = found, True
        if step == 1 and not smaller:
            break
        step = max(step // 2, 1)
    return _fewer_outputs(best, device, mode, end)


def _fewer_outputs(best: tuple[Case, Failure], device: Any, mode: Mode, end: float) -> tuple[Case, Failure]:
    """Halves, quarters and so on of the outputs left out, while the case fails."""
    step = len(best[0].graph.outputs)
    while step and time.monotonic() < end:
        first = 0
        while first < (count := len(best[0].graph.outputs)) and count > 1 and time.monotonic() < end:
            kept = [*range(first), *range(first + step, count)]
            found = _if_fails(_only(best[0], kept), device, mode) if kept else None
            best, first = (best, first + step) if found is None else (found, first)
        step //= 2
    return best


def _if_fails(case: Case, device: Any, mode: Mode) -> tuple[Case, Failure] | None:
    try:
        failure = check(case, device, mode)
    except (AssertionError, poot.errors.PootError):  # it is no case of its family any more
        return None
    return None if failure is None else (case, failure)


def _only(case: Case, outputs: Sequence[int]) -> Case:
    kept = tuple(case.graph.outputs[number] for number in outputs)
    return _pruned(case, replace(case.graph, outputs=kept, updates=(), tree=Tree("tuple", (Tree(),) * len(kept))))


def _without(case: Case, first: int, count: int) -> Case:
    """The case with some equations gone and inputs, of the oracle's values, in their place."""
    graph = case.graph
    values = evaluate(graph, case.arrays, EvalOptions(keep_environment=True)).environment
    gone = graph.equations[first : first + count]
    made = [value for equation in gone for value in equation.outputs]
    taken = {variable.name for variable in graph.variables}
    names = [name for name in (f"v{n}" for n in range(len(taken) + len(made))) if name not in taken]
    inputs = tuple(Variable(name, value) for name, value in zip(names, made, strict=False))
    arrays = {**case.arrays, **{v.name: np.array(values[v.value.id]) for v in inputs}}
    smaller = replace(
        graph,
        inputs=graph.inputs + inputs,
        equations=graph.equations[:first] + graph.equations[first + count :],
    )
    return _pruned(replace(case, arrays=arrays), smaller)


def _pruned(case: Case, graph: Graph) -> Case:
    """Without the equations and variables that nothing needs."""
    atoms = (*graph.outputs, *(atom for _, atom in graph.updates))
    live = {atom.id for atom in atoms if isinstance(atom, Value)}
    kept = []
    for equation in reversed(graph.equations):
        if any(value.id in live for value in equation.outputs):
            kept.append(equation)
            live |= {atom.id for atom in equation.inputs if isinstance(atom, Value)}
    updated = {name for name, _ in graph.updates}
    constants, inputs, states = (
        tuple(v for v in kind if v.value.id in live or v.name in updated)
        for kind in (graph.constants, graph.inputs, graph.states)
    )
    smaller = _numbered(replace(graph, constants=constants, inputs=inputs, states=states, equations=(*reversed(kept),)))
    check_graph(smaller)
    return Case(case.family, smaller, {variable.name: case.arrays[variable.name] for variable in smaller.variables})


def _numbered(graph: Graph) -> Graph:
    """The graph with value ids from 0 on."""
    values = [variable.value for variable in graph.variables]
    values += [value for equation in graph.equations for value in equation.outputs]
    new = {value.id: Value(number, value.spec) for number, value in enumerate(values)}

    def atoms(old: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(new[atom.id] if isinstance(atom, Value) else atom for atom in old)

    def variables(old: Sequence[Variable]) -> tuple[Variable, ...]:
        return tuple(Variable(variable.name, new[variable.value.id]) for variable in old)

    equations = tuple(
        replace(e, inputs=atoms(e.inputs), outputs=tuple(new[value.id] for value in e.outputs)) for e in graph.equations
    )
    updates = tuple(zip((name for name, _ in graph.updates), atoms([a for _, a in graph.updates]), strict=True))
    kinds = (variables(graph.constants), variables(graph.inputs), variables(graph.states))
    return Graph(*kinds, equations, atoms(graph.outputs), graph.tree, updates, graph.name)
