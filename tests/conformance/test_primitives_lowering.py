"""Every lowering rule, run by the interpreter one equation at a time, against the oracle.

A kernel is made around the rule with one thread an element: no planner takes part.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from poot.dtypes import DType
from poot.errors import KernelFault
from poot.kernel.build import KernelBuilder
from poot.kernel.interpret import bind, run
from poot.kernel.ir import Expr, Kernel
from poot.kernel.pipeline import prepare
from poot.trace.evaluate import evaluate
from poot.trace.graph import Equation, Graph, Params
from poot.trace.primitives import Elementwise, Pull, PullContext, Reader, Reduction, lookup
from tests.exact_floats import quantum, ulps
from tests.primitive_cases import Case, by_dtype, case_graph, sample

GROUPS = {name: group for name, group in by_dtype() if group}
LOWERED = {
    name: group
    for name, group in GROUPS.items()
    if isinstance(group[0].primitive.lower, (Elementwise, Pull, Reduction))
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


@pytest.mark.parametrize("name", LOWERED)
def test_lowering(name: str) -> None:
    rng = np.random.default_rng(list(name.encode()))
    for case in LOWERED[name]:
        graph = case_graph(case)
        arrays = sample(case, rng)
        expected = evaluate(graph, {f"a{n}": array for n, array in enumerate(arrays)}).output
        for actual, oracle in zip(run_kernel(graph, arrays), expected, strict=True):
            agree(case, arrays, actual, oracle)


def agree(case: Case, arrays: list[np.ndarray], actual: np.ndarray, expected: np.ndarray) -> None:
    entry, dtype = case.primitive, case_graph(case).outputs[0].dtype
    if not dtype.is_float:
        np.testing.assert_array_equal(actual, expected, err_msg=repr(case))
    elif entry.numerics.depth is not None:
        with np.errstate(all="ignore"):
            near = total_is_near(case, arrays[0], actual.astype(np.float64), expected.astype(np.float64), dtype)
        assert np.all(near), (case, arrays, actual, expected)
    else:
        distance = ulps(actual, expected, dtype)
        allowed = 0 if entry.numerics.exact else entry.numerics.ulps
        assert np.all(distance <= allowed), (case, arrays, actual, expected)


def total_is_near(case: Case, x: np.ndarray, actual: np.ndarray, expected: np.ndarray, dtype: DType) -> np.ndarray:
    """Within eps a term of the sum of magnitudes, or of the product; magnitudes past the range promise nothing."""
    params, depth = case.example.params, case.primitive.numerics.depth
    assert depth is not None
    magnitude = np.abs(expected)
    if case.primitive.name == "reduce_sum":
        magnitude = np.abs(x.astype(np.float64)).sum(axis=params["axes"])
    eps = 2.0 ** -{"bf16": 8, "f16": 11, "f32": 24, "f64": 53}[dtype.name]
    bound = (depth(case.specs, params) + 1) * eps * magnitude + float(quantum(Fraction(0), dtype))
    same = (np.isnan(actual) & np.isnan(expected)) | (actual == expected)
    return same | (np.abs(actual - expected) <= bound) | ~(magnitude < dtype.max)


def test_a_gather_out_of_range_faults() -> None:
    case = next(
        c for c in GROUPS["gather-f32"] if c.example.params["mode"] == "fault" and c.example.shapes[0] == (11, 4)
    )
    graph = case_graph(case)
    arrays = [np.ones((11, 4), np.float32), np.full((2, 3, 1), 11, case.dtypes[1].dtype)]
    with pytest.raises(KernelFault, match="11"):
        run_kernel(graph, arrays)
