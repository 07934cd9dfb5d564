"""Tracers, weak scalars, dispatch and the user's location."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import DType, bf16, bool_, f16, f32, i8, i32, i64
from poot.errors import (
    BuilderError,
    ConcretizationError,
    EscapedTracerError,
    ForeignHandleError,
    SourceLocation,
)
from poot.trace import dispatch, ops
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.dispatch import active, bind, is_traced, register_eager, tracing
from poot.trace.evaluate import evaluate
from poot.trace.graph import Literal, Params
from poot.trace.source import user_location
from poot.trace.tracer import Tracer, WeakTracer
from tests.lines import lines_of
from tests.unit.ops_support import LIMITS, check, primitives, run, tracer

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_tracer_says_what_it_is() -> None:
    x = tracer(f32[3, 4])
    y = x + 1
    assert isinstance(y, Tracer)
    assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == ((3, 4), f32, 2, 12, 4, 48, 3)
    assert (repr(x), repr(y)) == ("Tracer(x: f32[3,4])", "Tracer(%1: f32[3,4])")
    assert (x.T.shape, ops.zeros_like(x)[None].mT.shape) == ((4, 3), (1, 4, 3))
    assert y.id == 1


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("given", [X, 2, 2.5])
def test_a_copy_of_a_tracer_is_the_tracer(twin: Any, given: Any) -> None:
    def double(x: Any) -> Any:
        state = {"x": [x]}
        return twin(state)["x"][0] + twin(x)

    assert np.array_equal(np.asarray(poot.trace(double)(given)), np.asarray(given) * 2)
    with poot.eager():
        assert np.array_equal(np.asarray(poot.trace(double)(given)), np.asarray(given) * 2)


@pytest.mark.parametrize("given", [X, 2, 2.5])
def test_a_tracer_is_not_pickled(given: Any) -> None:
    def through(x: Any) -> Any:
        return pickle.loads(pickle.dumps(x)) * 2

    with pytest.raises(ConcretizationError, match="cannot be used as bytes"):
        poot.trace(through)(given)
    with poot.eager():
        assert np.array_equal(np.asarray(poot.trace(through)(given)), np.asarray(given) * 2)


@pytest.mark.parametrize("other", [None, "a", {}, object(), slice(1)])
def test_arrays_are_unequal_to_what_is_no_array(other: Any) -> None:
    x = poot.asarray(X)
    assert (x == other) is False
    assert (x != other) is True


def test_a_tracer_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(tracer(f32[2]))


def test_a_tracer_iterates_over_its_first_axis() -> None:
    check(lambda x: [row + 1 for row in x], lambda x: [row + 1 for row in x], X)
    first, second = tracer(f32[2, 5])
    assert first.shape == second.shape == (5,)


OPERATORS: list[Any] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: a**b,
    lambda a, b: divmod(a, b)[1],
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_on_floats(operator: Any) -> None:
    a, b = np.float32([1.5, -2, 3, 0.25]), np.float32([2, 3, 1.5, 2])
    check(operator, operator, a, b)
    check(lambda x: operator(x, 2.0), lambda x: operator(x, np.float32(2)), a)
    check(lambda x: operator(2.0, x), lambda x: operator(np.float32(2), x), b)
    check(lambda x: operator(np.float64(2), x), lambda x: operator(np.float32(2), x), b)


@pytest.mark.parametrize("operator", [lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b])
def test_operators_on_bits(operator: Any) -> None:
    a, b = np.int32([1, 6, -1]), np.int32([3, 5, 9])
    check(operator, operator, a, b)
    check(lambda x: operator(x, 3), lambda x: operator(x, np.int32(3)), a)
    check(lambda x: operator(3, x), lambda x: operator(np.int32(3), x), a)
    check(operator, operator, a > 0, b > 4)


def test_unary_operators() -> None:
    check(lambda x: (-x, +x, abs(x)), lambda x: (-x, +x, abs(x)), np.float32([1, -2]))
    check(lambda x: ~x, lambda x: ~x, np.int32([1, -2]))


def test_an_operand_of_another_kind_is_left_to_it() -> None:
    class Other:
        def __radd__(self, other: object) -> str:
            return "other"

    assert tracer(f32[2]) + Other() == "other"  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"\+ on an array: str given"):
        tracer(f32[2]) + "text"  # type: ignore[operator]
    assert (tracer(f32[2]) == None) is False  # noqa: E711


def test_methods_are_the_functions_of_ops() -> None:
    def methods(x: Any) -> list[Any]:
        return [
            x.sum(), x.sum(axis=0), x.mean(1), x.max(), x.min(axis=-1), x.prod(axis=1), x.var(), x.std(axis=0),
            x.reshape(4, 3), x.reshape((2, -1)), x.ravel(), x.flatten(), x.transpose(), x.transpose(1, 0),
            x.swapaxes(0, 1), x.clip(2, 5), x.take(np.int32(1), axis=0) if isinstance(x, np.ndarray) else x.take(1, 0),
            x.repeat(2, axis=0), x[None].squeeze(), x.dot(x.T),
        ]  # fmt: skip

    check(methods, methods, X)
    check(lambda x: [x.any(), x.all(axis=0)], lambda x: [x.any(), x.all(axis=0)], X > 3)
    check(lambda x: x.astype(f16), lambda x: x.astype(np.float16), X)


def test_numpy_functions_and_scalars_come_to_ops() -> None:
    function: Any = lambda x: [  # noqa: E731
        np.sum(x, axis=0), np.exp(-x), np.where(x > 1, x, 0), np.concatenate([x, x]), np.stack([x, x], 1),
        np.transpose(x), np.reshape(x, (4, 3)), np.add.reduce(x), np.maximum.reduce(x, axis=1), np.einsum("ij->ji", x),
    ]  # fmt: skip

    def expected(x: Any) -> list[Any]:
        results = function(x)
        results[2] = np.where(x > 1, x, np.float32(0))
        return results

    check(function, expected, X)
    check(lambda x: np.float64(2) * x + np.int64(1) - np.bool_(True), lambda x: x * 2, X)
    assert tracer(f32[2]).__array_namespace__() is ops


def test_casting_with_a_dtype() -> None:
    check(lambda x: i32(x), lambda x: x.astype(np.int32), X)


# --- weak scalars -----------------------------------------------------------------------------------------------------


def weak(builder: Builder, kind: Any, name: str = "s") -> WeakTracer:
    slots: dict[DType, Array] = {}

    def slot(dtype: DType) -> Array:
        if dtype not in slots:
            slots[dtype] = builder.input(f"{name}.{dtype}", dtype[()])
        return slots[dtype]

    return WeakTracer(kind, slot, name=name, function="f")


def test_a_weak_scalar_takes_the_dtype_that_it_meets() -> None:
    builder = Builder(LIMITS)
    x, y = builder.input("x", bf16[2]), builder.input("y", i8[2])
    real, whole = weak(builder, "float*", "r"), weak(builder, "int*", "w")
    assert (real.dtype, whole.dtype, real.shape) == (f32, i32, ())
    assert [(a + b).dtype for a, b in ((x, real), (x, whole), (y, whole), (y, real))] == [bf16, bf16, i8, f32]
    assert [(a + b).dtype for a, b in ((real, x), (whole, x), (whole, y), (real, y))] == [bf16, bf16, i8, f32]
    names = {variable.name for variable in builder.finish(x + real).inputs}
    assert names == {"x", "y", "r.bf16", "w.bf16", "w.i8", "r.f32"}


def test_operators_on_weak_scalars_stay_weak_and_functions_do_not() -> None:
    builder = Builder(LIMITS)
    x = builder.input("x", bf16[2])
    scalar = weak(builder, "float*")
    for found in (scalar * 2, 1 - scalar, -scalar, scalar**2, scalar / weak(builder, "int*", "n")):
        assert isinstance(found, WeakTracer)
        assert (x * found).dtype is bf16
    assert isinstance(scalar < 1, Tracer)
    assert (x * ops.sqrt(scalar)).dtype is f32
    assert (x * ops.multiply(scalar, 2)).dtype is f32
    graph = builder.finish((1 - scalar) * x)
    bound = {"x": np.ones(2, bf16.dtype), "s.f32": np.float32(0.25), "n.f32": np.float32(2)}
    assert evaluate(graph, bound).output.tolist() == [0.75, 0.75]


# --- dispatch ---------------------------------------------------------------------------------------------------------


def test_arrays_met_in_a_trace_are_captured_once_each() -> None:
    builder = Builder(LIMITS, name="f")
    x = builder.input("x", f32[3, 4])
    captured: dict[int, Tracer] = {}

    def capture(array: Any) -> Tracer:
        if id(array) not in captured:
            captured[id(array)] = builder.input(f"captured{len(captured)}", f32[array.shape])
        return captured[id(array)]

    with tracing(builder, capture) as context:
        assert active() is context
        y = x + X
        z = np.multiply(X, y)
        total = ops.sum(ops.add(X, X))
    assert active() is None
    graph = builder.finish([z, total])
    assert [variable.name for variable in graph.inputs] == ["x", "captured0"]
    found = evaluate(graph, {"x": X, "captured0": X}).output
    np.testing.assert_array_equal(found[0], X * (X + X))
    assert found[1] == 2 * X.sum()


def test_a_trace_records_operations_without_tracers() -> None:
    builder = Builder(LIMITS)
    with tracing(builder):
        value = ops.arange(3) + 1
        assert is_traced()
    assert evaluate(builder.finish(value), {}).output.tolist() == [1, 2, 3]


def test_a_region_takes_values_of_the_trace_around_it() -> None:
    builder = Builder(LIMITS)
    x = builder.input("x", f32[2])
    with tracing(builder):
        inner = builder.region()
        with tracing(inner):
            y = inner.input("y", f32[2])
            z = x * y + 1
            assert isinstance(z, Tracer)
            assert z.builder is inner
    graph = inner.finish(z)
    assert [variable.name for variable in graph.inputs] == ["y", "captured0"]
    with pytest.raises(EscapedTracerError):
        _ = x + y


def test_values_of_two_builders_do_not_mix() -> None:
    x, y = tracer(f32[2], "x"), tracer(f32[2], "y")
    with pytest.raises(ForeignHandleError):
        x + y
    with tracing(x.builder), pytest.raises(ForeignHandleError):
        x + y
    with tracing(x.builder):
        z = y + 1
        assert isinstance(z, Tracer)
        assert z.builder is y.builder


def test_concrete_arrays_go_to_the_registered_evaluator() -> None:
    calls: list[Any] = []

    class Concrete(Array):
        spec = f32[2]

    def evaluator(primitive: str, inputs: Any, params: Params, regions: Any) -> tuple[Array, ...]:
        calls.append((primitive, [type(item) for item in inputs], dict(params)))
        return (Concrete(),)

    previous = dispatch._eager
    register_eager(evaluator)
    try:
        assert isinstance(ops.exp(Concrete()) * 2.0, Concrete)
        bind("reshape", (np.ones(2),), shape=(1, 2))
    finally:
        register_eager(previous)
    assert calls == [
        ("exp", [Concrete], {}),
        ("mul", [Concrete, Literal], {}),
        ("reshape", [np.ndarray], {"shape": (1, 2)}),
    ]


def test_without_an_evaluator_concrete_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_eager", None)
    with pytest.raises(BuilderError, match="nothing can compute exp on concrete arrays"):
        ops.exp(X)


def test_compositions_work_with_a_bare_builder() -> None:
    names = primitives(lambda x: ops.nn.attention(x, x, x, causal=True), X[None])
    assert "iota" in names
    assert run(lambda x: ops.tril(x) + ops.zeros_like(x), X).tolist() == np.tril(X).tolist()
    check(lambda x: x[:, [3, 0]], lambda x: x[:, [3, 0]], X)


# --- the user's location ----------------------------------------------------------------------------------------------


def test_equations_carry_the_users_line_and_columns() -> None:
    builder = Builder(LIMITS)
    x = builder.input("x", f32[2])
    y = x - 1; z = np.exp(ops.nn.softmax(y))  # noqa: E702  # fmt: skip
    graph = builder.finish(z)
    first, last = graph.equations[0].where, graph.equations[-1].where
    assert first is not None
    assert last is not None
    assert (first.file, first.function) == (__file__, "test_equations_carry_the_users_line_and_columns")
    assert first.text[first.column : first.end_column] == "x - 1"
    assert last.text[last.column : last.end_column] == "np.exp(ops.nn.softmax(y))"
    assert graph.equations[2].where is not None
    assert "softmax(y)" in graph.equations[2].where.text


def test_columns_count_characters() -> None:
    where = user_location(); text = "é" * 3; after = (text, user_location())  # noqa: E702  # fmt: skip
    assert isinstance(where, SourceLocation)
    assert isinstance(after[1], SourceLocation)
    assert after[1].text[after[1].column : after[1].end_column] == "user_location()"


def test_code_without_a_file_has_a_line() -> None:
    scope: dict[str, Any] = {"locate": user_location}
    exec("def f():\n    return locate()\nwhere = f()", scope)
    assert (scope["where"].file, scope["where"].line, scope["where"].function) == ("<string>", 2, "f")


def test_the_location_is_found_with_little_work_for_every_equation() -> None:
    def again() -> None:
        for _ in range(100):
            user_location()

    again()
    assert lines_of(again) < 100 * 25


def test_bools_promote_and_wrap_like_numpy() -> None:
    a, b = np.array([True, False]), np.array([True, True])
    check(lambda x, y: [x + y, x * y, ops.maximum(x, y)], lambda x, y: [x + y, x * y, x | y], a, b)
    check(lambda x: x + 1, lambda x: x + np.int32(1), a)
    assert tracer(bool_[2]).sum().dtype is i32
    assert tracer(i64[2]).sum().dtype is i64
