"""Every lowering rule, one equation at a time, against the oracle.

The interpreter runs a kernel made around the rule, with one thread an element: no planner takes part.  What Inline
rules emit is evaluated by the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from poot.dtypes import DType
from poot.errors import KernelFault
from poot.kernel.build import KernelBuilder
from poot.kernel.interpret import bind, run
from poot.kernel.ir import Expr, Kernel
from poot.kernel.pipeline import prepare
from poot.target import Target
from poot.trace.builder import Builder
from poot.trace.evaluate import evaluate
from poot.trace.graph import Atom, Equation, Graph, Literal, Params, ParamValue
from poot.trace.limits import TraceLimits
from poot.trace.primitives import Elementwise, Inline, Pull, PullContext, Reader, Reduction, lookup
from tests.closeness import PRODUCTS, modest, near
from tests.primitive_cases import by_dtype, case_graph, sample

INTERPRETER = Target.parse("interpret")
GROUPS = {name: group for name, group in by_dtype() if group}
LOWERED = {
    name: group
    for name, group in GROUPS.items()
    if isinstance(group[0].primitive.lower, (Elementwise, Inline, Pull, Reduction))
}


def kernel_of(graph: Graph) -> Kernel:
    """One thread an element of the (equally shaped) results of a graph of one equation."""
    (equation,) = graph.equations
    shape = equation.outputs[0].shape
    count = math.prod(shape)
    k = KernelBuilder("one", workgroup=(64, 1, 1), threads=(count, 1, 1))
    buffers = [k.buffer(f"a{n}", atom.dtype, "read", atom.shape or (1,)) for n, atom in enumerate(equation.inputs)]
    targets = [k.buffer(f"y{n}", value.dtype, "write", (count,)) for n, value in enumerate(equation.outputs)]
    thread = k.index("thread", 0)
    rest: Expr = thread
    index: list[Expr] = []
    for extent in reversed(shape):
        index.insert(0, k.let(k.op("rem", rest, k.i(extent)), "i"))
        rest = k.let(k.op("floor_div", rest, k.i(extent)), "rest")
    readers = [
        reader(k, buffer, atom.shape, checked=False) for buffer, atom in zip(buffers, equation.inputs, strict=True)
    ]
    checked = [
        reader(k, buffer, atom.shape, checked=True) for buffer, atom in zip(buffers, equation.inputs, strict=True)
    ]
    for target, result in zip(targets, lower(k, equation, readers, checked, index), strict=True):
        k.store(target, (thread,), result)
    return prepare(k.finish())


def reader(k: KernelBuilder, buffer: str, shape: tuple[int, ...], *, checked: bool) -> Reader:
    return lambda index: k.load(buffer, index if shape else (k.i(0),), checked=checked)


def lower(
    k: KernelBuilder, equation: Equation, readers: list[Reader], checked: list[Reader], index: list[Expr]
) -> tuple[Expr, ...]:
    rule, params, result = lookup(equation.primitive).lower, equation.params, equation.outputs[0].dtype
    if isinstance(rule, Elementwise):
        operands = tuple(read(index if atom.shape else ()) for read, atom in zip(readers, equation.inputs, strict=True))
        return (rule.body(k, operands, params, result),)
    if isinstance(rule, Reduction):
        return (reduce(k, rule, readers[0], params, equation.inputs[0].shape, index, result),)
    assert isinstance(rule, Pull)
    context = PullContext(
        k,
        tuple(readers),
        tuple(checked),
        tuple(atom.spec for atom in equation.inputs),
        tuple(value.spec for value in equation.outputs),
        params,
    )
    return rule.body(context, tuple(index))


def reduce(
    k: KernelBuilder,
    rule: Reduction,
    read: Reader,
    params: Params,
    shape: tuple[int, ...],
    index: list[Expr],
    dtype: DType,
) -> Expr:
    wide, axes = rule.accumulator(dtype), params["axes"]
    total = k.let(k.const(rule.identity(wide), wide), "total")
    count = math.prod(shape[axis] for axis in axes)
    with k.for_(k.i(0), k.i(count)) as step:
        place: dict[int, Expr] = {}
        rest: Expr = step
        for axis in reversed(axes):
            place[axis] = k.op("rem", rest, k.i(shape[axis]))
            rest = k.op("floor_div", rest, k.i(shape[axis]))
        outer = iter(index)
        element = read([place[axis] if axis in place else next(outer) for axis in range(len(shape))])
        k.assign(total, rule.combine(k, total, k.cast(element, wide)))
    return k.cast(total, dtype)


def run_kernel(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    results = [np.zeros(value.spec.size, value.dtype.dtype) for value in graph.outputs]
    if results[0].size:
        kernel = kernel_of(graph)
        named = {f"a{n}": array.reshape(array.shape or (1,)) for n, array in enumerate(arrays)}
        named |= {f"y{n}": array for n, array in enumerate(results)}
        run(kernel, bind(kernel, named), groups=(-(-results[0].size // 64), 1, 1))
    return [result.reshape(value.shape) for result, value in zip(results, graph.outputs, strict=True)]


def inlined(graph: Graph) -> Graph:
    """The graph with its equation rewritten by its Inline rule."""
    (equation,) = graph.equations
    rule = lookup(equation.primitive).lower
    assert isinstance(rule, Inline)
    b = Builder(TraceLimits.STANDARD)
    handles = {variable.value.id: b.input(variable.name, variable.spec).value for variable in graph.inputs}

    def emit(
        primitive: str, inputs: Sequence[Atom], *, regions: Sequence[Graph] = (), **params: ParamValue
    ) -> tuple[Atom, ...]:
        return tuple(handle.value for handle in b.emit(primitive, list(inputs), params, regions=regions))

    inputs = tuple(atom if isinstance(atom, Literal) else handles[atom.id] for atom in equation.inputs)
    return b.finish(tuple(rule.body(emit, replace(equation, inputs=inputs))))


@pytest.mark.parametrize("name", LOWERED)
def test_lowering(name: str) -> None:
    rng = np.random.default_rng(list(name.encode()))
    for case in LOWERED[name]:
        graph = case_graph(case)
        arrays = sample(case, rng)
        if case.primitive.name in PRODUCTS:
            arrays = [modest(array) for array in arrays]
        named = {f"a{n}": array for n, array in enumerate(arrays)}
        expected = evaluate(graph, named).output
        if isinstance(case.primitive.lower, Inline):
            found = evaluate(inlined(graph), named).output
        else:
            found = run_kernel(graph, arrays)
        for number, (actual, oracle) in enumerate(zip(found, expected, strict=True)):
            assert (actual.dtype, actual.shape) == (oracle.dtype, oracle.shape)
            assert np.all(near(graph, arrays, actual, oracle, number, INTERPRETER)), (case, arrays, actual, oracle)


def test_a_gather_out_of_range_faults() -> None:
    case = next(
        c for c in GROUPS["gather-f32"] if c.example.params["mode"] == "fault" and c.example.shapes[0] == (11, 4)
    )
    graph = case_graph(case)
    arrays = [np.ones((11, 4), np.float32), np.full((2, 3, 1), 11, case.dtypes[1].dtype)]
    with pytest.raises(KernelFault, match="11"):
        run_kernel(graph, arrays)
