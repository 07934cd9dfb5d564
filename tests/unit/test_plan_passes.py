"""Passes: each changes nothing that the oracle sees, and records what it did."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import ArraySpec, DType, f16, f32, i8, i32
from poot.errors import CompileError, LimitError
from poot.plan.limits import CompileOptions
from poot.plan.passes import CANONICALISE, CSE, DCE, FOLD, INLINE, PASSES, Pass, Rewriter
from poot.plan.program import PassRecord
from poot.target import Target
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.check import check_graph
from poot.trace.evaluate import evaluate
from poot.trace.graph import Equation, Graph, Literal, Params
from poot.trace.primitives import Inline, Primitive, register, unregister
from tests.plan_support import LIMITS, assert_same, compare
from tests.random_graphs import random_bindings, random_graph

CPU = Target.parse("cpu")


def graph_of(function: Callable[..., Any], *specs: ArraySpec) -> Graph:
    b = Builder(LIMITS)
    return b.finish(function(*(b.input(f"a{n}", spec) for n, spec in enumerate(specs))))


def apply(each: Pass, graph: Graph) -> tuple[Graph, PassRecord]:
    result, record = each.run(graph, CPU, CompileOptions())
    check_graph(result)
    assert record.equations_before == len(graph.equations) and record.equations_after == len(result.equations)
    assert len(record.origins) == len(result.equations)
    left = {*record.origins, *(removed.equation for removed in record.removed)}
    assert left <= set(range(len(graph.equations)))
    return result, record


def names(graph: Graph) -> list[str]:
    return [equation.primitive for equation in graph.equations]


@pytest.mark.parametrize("family", ["exact", "float"])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs_mean_the_same_after_every_pass(family: Any, seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    graph = random_graph(rng, family, equations=25)
    bindings = random_bindings(graph, rng, family)
    expected = evaluate(graph, bindings)
    for each in PASSES:
        graph, _ = apply(each, graph)
        found = evaluate(graph, bindings)
        compare(found.output, expected.output, exact=True)
        compare(found.state, expected.state, exact=True)


# --- canonicalise -----------------------------------------------------------------------------------------------------


def reshape(x: Any, *shape: int) -> Any:
    return ops.reshape(x, shape)


CANONICAL: list[tuple[str, Callable[..., Any], tuple[ArraySpec, ...], list[str]]] = [
    ("reshapes", lambda x: reshape(reshape(reshape(x, 4, 6), 24), 3, 8), (f32[2, 12],), ["reshape"]),
    ("reshapes back", lambda x: ops.exp(reshape(reshape(x, 24), 2, 12)), (f32[2, 12],), ["exp"]),
    ("transposes", lambda x: ops.transpose(ops.transpose(x, (1, 0)), (1, 0)), (f32[2, 3],), []),
    ("three transposes", lambda x: x.T.T.T, (f32[2, 3],), ["transpose"]),
    ("unit axes moved", lambda x: ops.transpose(x, (1, 0, 2)), (f32[1, 3, 2],), ["reshape"]),
    ("casts there and back", lambda x: ops.astype(ops.astype(x, f32), f16), (f16[3],), []),
    ("casts that lose", lambda x: ops.astype(ops.astype(x, f16), f32), (f32[3],), ["cast", "cast"]),
    ("casts through a narrower integer", lambda x: ops.astype(ops.astype(x, i8), i32), (i32[3],), ["cast", "cast"]),
    ("one operand left", lambda x, y: ops.concat([x, y]), (f32[3], f32[0]), []),
    ("empty operands", lambda x, y: ops.concat([x, y, x]), (f32[3], f32[0]), ["concat"]),
    ("the whole slice", lambda x: x[:, 0:3], (f32[2, 3],), []),
    ("a slice", lambda x: x[:, 0:2], (f32[2, 3],), ["slice"]),
    ("times one", lambda x: x * 1.0, (f32[3],), []),
    ("plus zero", lambda x: x + 0.0, (f32[3],), ["add"]),
    ("plus minus zero", lambda x: x + -0.0, (f32[3],), []),
    ("minus zero", lambda x: x - 0.0, (f32[3],), []),
    ("minus minus zero", lambda x: x - -0.0, (f32[3],), ["sub"]),
    ("integers plus zero", lambda x: 0 + x, (i32[3],), []),
    ("a sum of single elements", lambda x: ops.sum(x, axis=1), (f32[3, 1],), ["reshape", "add"]),
    ("a maximum of single elements", lambda x: ops.max(x, axis=1), (f32[3, 1],), ["reshape"]),
    ("a sum of nothing", lambda x: ops.sum(x, axis=1), (f32[3, 0],), ["broadcast"]),
    ("products of nothing", lambda x, y: x @ y, (f32[3, 0], f32[0, 2]), ["broadcast"]),
]


@pytest.mark.parametrize(
    ("function", "specs", "expected"), [case[1:] for case in CANONICAL], ids=[c[0] for c in CANONICAL]
)
def test_canonical_forms(function: Callable[..., Any], specs: tuple[ArraySpec, ...], expected: list[str]) -> None:
    graph = graph_of(function, *specs)
    result, _ = apply(CANONICALISE, graph)
    result, _ = apply(DCE, result)
    assert names(result) == expected
    values = {f"a{n}": special(spec) for n, spec in enumerate(specs)}
    compare(evaluate(result, values).output, evaluate(graph, values).output, exact=True)
    assert_same(graph, values)


def special(spec: ArraySpec) -> np.ndarray:
    """Values with NaN, infinities and both zeros."""
    pool = [0.0, -0.0, 1.5, math.nan, -2.0, math.inf] if spec.dtype.is_float else [0, 300, -5]
    return np.resize(np.array(pool), spec.shape).astype(spec.dtype.dtype)


# --- common subexpressions, dead code ---------------------------------------------------------------------------------


def test_equal_equations_are_computed_once() -> None:
    graph = graph_of(lambda x: (ops.exp(x) + ops.exp(x)) * (ops.exp(x) + 1.0), f32[3])
    result, record = apply(CSE, graph)
    assert names(result) == ["exp", "add", "add", "mul"]
    assert [removed.fate for removed in record.removed] == ["fold", "fold"]
    assert "the same as equation 0" in record.removed[0].note


def literals(*values: float) -> Graph:
    b = Builder(LIMITS)
    x = b.input("a0", f32[3])
    return b.finish(tuple(b.emit("add", (x, Literal(value, f32)))[0] for value in values))


def test_literals_are_equal_by_their_bits() -> None:
    assert len(apply(CSE, literals(0.0, -0.0, 0.0))[0].equations) == 2
    assert len(apply(CSE, literals(math.nan, math.nan))[0].equations) == 1


def test_dead_code_goes_and_effects_stay() -> None:
    def function(table: Any, ids: Any) -> Any:
        ops.exp(table)
        ops.take(table, ids, axis=0)
        return table * 2.0

    graph = graph_of(function, f32[4], i32[2])
    result, record = apply(DCE, graph)
    kept = [equation for equation in graph.equations if equation.effects]
    assert len(kept) == 1 and "gather" in names(result) and "exp" not in names(result)
    assert {removed.fate for removed in record.removed} == {"dead"}


# --- inline -----------------------------------------------------------------------------------------------------------


def _same(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    return (specs[0],)


def define(name: str, body: Callable[..., Any], oracle: Callable[..., Any], dtypes: tuple[DType, ...] = (f32,)) -> None:
    register(Primitive(name, "map", "made for a test", _same, oracle, Inline(body), dtypes))


@pytest.fixture
def primitives() -> Any:
    """Primitives for one test; `each(primitive, *operands)` is a sum of what a region makes of each operand."""
    made: list[str] = []

    def make(name: str, *rest: Any) -> None:
        define(name, *rest)
        made.append(name)

    yield make
    for name in made:
        unregister(name)


def test_inlined_primitives_nest(primitives: Any) -> None:
    def square(emit: Callable[..., Any], equation: Equation) -> Any:
        return emit("mul", (equation.inputs[0], equation.inputs[0]))

    def fourth(emit: Callable[..., Any], equation: Equation) -> Any:
        (once,) = emit("test_square", equation.inputs)
        return emit("test_square", (once,))

    primitives("test_square", square, lambda call, x: x * x)
    primitives("test_fourth", fourth, lambda call, x: (x * x) * (x * x))
    b = Builder(LIMITS)
    graph = b.finish(b.emit("test_fourth", (b.input("a0", f32[3]),)))
    result, record = apply(INLINE, graph)
    assert names(result) == ["mul", "mul"] and record.origins == (0, 0)
    assert record.notes == ("1 equations inlined",)
    program = assert_same(graph, {"a0": np.array([1.0, 2.0, -3.0], np.float32)})
    assert [plan.fate for plan in program.equation_plans] == ["kernel"]


def test_a_primitive_with_a_region(primitives: Any) -> None:
    def each(emit: Callable[..., Any], equation: Equation) -> Any:
        (region,) = equation.regions
        values: dict[int, Any] = {}
        for variable, atom in zip(region.inputs, equation.inputs, strict=True):
            values[variable.value.id] = atom
        for inner in region.equations:
            inputs = [atom if isinstance(atom, Literal) else values[atom.id] for atom in inner.inputs]
            results = emit(inner.primitive, inputs, regions=inner.regions, **inner.params)
            values.update((value.id, result) for value, result in zip(inner.outputs, results, strict=True))
        return [atom if isinstance(atom, Literal) else values[atom.id] for atom in region.outputs]

    primitives("test_each", each, lambda call, *operands: call.run(call.regions[0], operands))
    b = Builder(LIMITS)
    x = b.input("a0", f32[3])
    region = b.region()
    inside = region.input("y", f32[3])
    body = region.finish((ops.exp(inside) * inside,))
    graph = b.finish(b.emit("test_each", (x,), regions=(body,)))
    result, _ = apply(INLINE, graph)
    assert names(result) == ["exp", "mul"]
    assert_same(graph, {"a0": np.array([0.5, 0.0, -1.0], np.float32)}, exact=False)


def test_a_rule_that_never_ends_is_refused(primitives: Any) -> None:
    primitives("test_endless", lambda emit, equation: emit("test_endless", equation.inputs), lambda call, x: x)
    b = Builder(LIMITS)
    graph = b.finish(b.emit("test_endless", (b.input("a0", f32[3]),)))
    with pytest.raises(LimitError, match="nesting of test_endless: 101 is past the limit of 100"):
        apply(INLINE, graph)


def test_a_rule_of_the_wrong_type_is_refused(primitives: Any) -> None:
    primitives("test_wrong", lambda emit, equation: emit("cast", equation.inputs, dtype=i32), lambda call, x: x)
    b = Builder(LIMITS)
    graph = b.finish(b.emit("test_wrong", (b.input("a0", f32[3]),)))
    with pytest.raises(CompileError, match=r"test_wrong did not compile for cpu:.*: its Inline rule gives i32\[3\]"):
        apply(INLINE, graph)


# --- fold -------------------------------------------------------------------------------------------------------------


def traced(function: Callable[..., Any], *specs: ArraySpec) -> Graph:
    """The graph of a function that makes arrays of its own."""
    return poot.trace(function).graph(*specs)


def causal(queries: int, keys: int, window: int) -> Callable[..., Any]:
    """x where a query may see a key, else minus infinity."""

    def function(x: Any) -> Any:
        row = ops.arange(queries, dtype=i32)[:, None] + (keys - queries)
        column = ops.arange(keys, dtype=i32)[None, :]
        return ops.where((column <= row) & (row - column < window), x, -math.inf)

    return function


FOLDED: list[tuple[str, Callable[..., Any], tuple[ArraySpec, ...], list[str]]] = [
    ("numbers", lambda x: x * (ops.exp(ops.full((), 1.0, f32)) + 2.0), (f32[3],), ["mul"]),
    ("uniform arrays of any size", lambda x: x + ops.sqrt(ops.full((1 << 20,), 4.0, f32)), (f32[1 << 20],), ["add"]),
    ("a mask that hides nothing", causal(1, 64, 1000), (f32[1, 64],), []),
    ("a mask that hides all", lambda x: ops.where(ops.arange(9, dtype=i32) < 0, x, 0.5), (f32[9],), []),
    ("a cast of an iota", lambda x: x * ops.astype(ops.arange(1, dtype=i32), f32), (f32[1],), ["mul"]),
]


@pytest.mark.parametrize(("function", "specs", "left"), [case[1:] for case in FOLDED], ids=[case[0] for case in FOLDED])
def test_what_the_graph_determines_is_folded(
    function: Callable[..., Any], specs: tuple[ArraySpec, ...], left: list[str]
) -> None:
    graph = traced(function, *specs)
    folded = graph
    for each in PASSES:
        folded, _ = apply(each, folded)
    assert [name for name in names(folded) if name not in ("broadcast", "reshape")] == left
    bindings = {"x": np.random.default_rng(0).standard_normal(specs[0].shape).astype(np.float32)}
    compare(evaluate(folded, bindings).output, evaluate(graph, bindings).output, exact=True)


def test_masks_that_hide_something_are_computed_where_they_are_used() -> None:
    graph = traced(causal(64, 64, 1000), f32[64, 64])
    folded, record = apply(FOLD, graph)
    assert "select" in names(folded) and "iota" in names(folded)
    assert not [removed for removed in record.removed if "condition" in removed.note]
    (launch,) = assert_same(graph, {"x": np.ones((64, 64), np.float32)}).launches
    assert len(launch.bindings) == 2


def test_folding_keeps_to_its_budget() -> None:
    """Arrays past the budget are not looked at, whatever they hold."""
    size = 1 << 15
    graph = traced(lambda x: ops.where(ops.arange(size, dtype=i32) >= 0, x, 0.0), f32[size])
    assert "select" in names(apply(FOLD, graph)[0])
    many = traced(
        lambda x: [x + ops.astype(ops.arange(1 << 14, dtype=i32) % n, f32) for n in range(2, 60)], f32[1 << 14]
    )
    apply(FOLD, many)


def test_nan_and_signed_zero_survive_folding() -> None:
    zero = traced(lambda x: x + ops.full((3,), -0.0, f32) * 1.0, f32[3])
    nan = traced(lambda x: ops.where(x > 0, ops.full((3,), math.inf, f32) - math.inf, x), f32[3])
    for graph in (zero, nan):
        folded, _ = apply(FOLD, graph)
        bindings = {"x": np.array([-0.0, 0.0, 1.0], np.float32)}
        compare(evaluate(folded, bindings).output, evaluate(graph, bindings).output, exact=True)


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_pass_that_lets_a_graph_grow_is_stopped() -> None:
    def explode(rewriter: Rewriter) -> None:
        for number, equation in enumerate(rewriter.graph.equations):
            for _ in range(1000):
                rewriter.emit(number, equation.primitive, rewriter.atoms(equation.inputs), dict(equation.params))
            rewriter.keep(number)

    graph = graph_of(lambda x: ops.exp(ops.exp(x)), f32[3])
    for growth, limit in ((1, 258), (100, 456)):
        with pytest.raises(CompileError.Expansion) as caught:
            Pass("explode", explode, growth).run(graph, CPU, CompileOptions())
        message = str(caught.value)
        assert message.startswith(
            f"equation 0 (exp) did not compile for cpu:x86_64: pass explode makes {limit + 1} equations of 2, "
            f"its budget is {limit}"
        )
        assert "test_plan_passes.py" in message and "Remedy: make the primitive that expands so far smaller" in message
    Pass("explode", explode, 1000).run(graph, CPU, CompileOptions())


@pytest.mark.parametrize(
    "operation", [ops.sort, ops.argsort, lambda x: ops.top_k(x, 3)], ids=("sort", "argsort", "top_k")
)
def test_the_longest_sort_is_within_the_budget(operation: Any) -> None:
    """However long the axis is, the stages of the network are turns of one loop."""
    graph = graph_of(operation, f32[1 << 30])
    inlined, _ = INLINE.run(graph, CPU, CompileOptions())
    assert len(inlined.equations) < 40
