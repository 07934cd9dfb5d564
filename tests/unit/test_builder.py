"""Builder: handles, equations, regions, states, limits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poot.dtypes import bf16, bool_, f16, f32, f64, i8, i32, i64
from poot.errors import LimitError, SourceLocation
from poot.trace.builder import Builder, graph_usage
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph, Literal, Params, Tree, Value
from poot.trace.limits import TraceLimits
from poot.trace.literals import literal
from poot.trace.tracer import Tracer


def builder(**limits: int) -> Builder:
    standard = {"max_values": 64, "max_eqns": 32, "max_literal_bytes": 64, "max_owned_bytes": 1 << 10, "max_tokens": 1}
    return Builder(TraceLimits(**(standard | limits)), name="test")


def test_handles_are_tracers_with_dense_ids() -> None:
    b = builder()
    x, w, s = b.input("x", f32[2, 3]), b.constant("w", f32[3]), b.state("s", f32[()])
    (y,) = b.emit("neg", (x,))
    late = b.input("late", f32[2])
    assert [h.id for h in (x, w, s, y, late)] == [0, 1, 2, 3, 4]
    assert all(isinstance(h, Tracer) and h.builder is b for h in (x, w, s, y, late))
    assert (y.shape, y.dtype, y.value) == ((2, 3), f32, Value(3, f32[2, 3]))
    graph = b.finish(y)
    assert [variable.name for variable in graph.variables] == ["w", "x", "late", "s"]
    assert graph.value_count == 5
    assert graph.name == "test"


def test_ids_are_kept_and_unused_values_too() -> None:
    b = builder()
    x = b.input("x", f32[2])
    b.emit("exp", (x,))
    (y,) = b.emit("neg", (x,))
    graph = b.finish(y)
    assert graph.outputs == (Value(2, f32[2]),)
    assert [equation.primitive for equation in graph.equations] == ["exp", "neg"]


def test_operands_are_handles_values_literals_and_numpy_scalars() -> None:
    b = builder()
    x = b.input("x", f32[2])
    (a,) = b.emit("add", (x.value, Literal(0.1, f32)))
    (c,) = b.emit("mul", (a, np.float32(0.5)))
    graph = b.finish(c)
    first, second = graph.equations
    assert first.inputs == (x.value, Literal(float(np.float32(0.1)), f32))
    assert second.inputs == (a.value, Literal(0.5, f32))
    half = builder()
    y = half.input("y", bf16[1])
    half.emit("add", (y, ml_dtypes.bfloat16(1.5)))


def test_equations_keep_the_users_line() -> None:
    b, where = builder(), SourceLocation("model.py", 3)
    (y,) = b.emit("neg", (b.input("x", f32[1]),), where=where)
    assert b.finish(y).equations[0].where is where


def test_parameters_become_plain_data() -> None:
    b = builder()
    x = b.input("x", f32[2, 3])
    b.emit("reduce_sum", (x,), {"axes": [np.int64(0), 1]})
    (y,) = b.emit("reshape", (x,), {"shape": [3, 2]})
    graph = b.finish(y)
    assert graph.equations[0].params == Params(axes=(0, 1))
    assert graph.equations[1].params == Params(shape=(3, 2))


def test_outputs_are_pytrees_and_python_numbers_have_default_dtypes() -> None:
    b = builder()
    x = b.input("x", f32[1])
    graph = b.finish({"z": x, "a": (None, 1, 2.5, True, np.float16(0.1), Literal(3, i8))})
    assert graph.outputs == (
        Literal(1, i32),
        Literal(2.5, f32),
        Literal(True, bool_),
        Literal(float(np.float16(0.1)), f16),
        Literal(3, i8),
        x.value,
    )
    assert graph.tree.keys == ("a", "z")
    assert graph.tree.children[1] == Tree()


def test_states_and_updates() -> None:
    b = builder()
    s, t = b.state("s", f32[2]), b.state("t", i32[()])
    (y,) = b.emit("neg", (s,))
    graph = b.finish(None, updates={"t": np.int32(4), "s": y})
    assert graph.updates == (("s", y.value), ("t", Literal(4, i32)))
    result = evaluate(graph, {"s": np.ones(2, np.float32), t.id: np.array(1, np.int32)})
    assert result.output is None
    np.testing.assert_array_equal(result.state["s"], [-1, -1])
    assert result.state["t"] == 4


# --- regions ----------------------------------------------------------------------------------------------------------


def test_a_region_captures_handles_around_it() -> None:
    b = builder()
    x, w = b.input("x", f32[2]), b.constant("w", f32[2])
    region = b.region("body")
    inside = region.input("in", f32[2])
    (first,) = region.emit("mul", (inside, w))
    (second,) = region.emit("add", (first, w))
    assert region.captures == (w,)
    body = region.finish((second,))
    assert [variable.name for variable in body.inputs] == ["in", "captured0"]
    (flag,) = b.emit("reduce_all", (Literal(True, bool_),), {"axes": ()})
    (y,) = b.emit("cond", (flag, x, *region.captures), regions=(body, body))
    graph = b.finish(y)
    arrays = {"x": np.array([1, 2], np.float32), "w": np.array([3, 5], np.float32)}
    np.testing.assert_array_equal(evaluate(graph, arrays).output, [6, 15])


def test_captures_may_be_ordered_and_completed() -> None:
    b = builder()
    x, w, v = (b.input(name, f32[()]) for name in "xwv")
    regions: list[Graph] = []
    for used in ((w, x), (v,)):
        region = b.region()
        total = literal(0.0, f32)
        for handle in used:
            (total,) = region.emit("add", (total, handle))
        regions.append(region.finish((total,), captures=(x, w, v)))
    assert all([variable.spec for variable in region.inputs] == [f32[()]] * 3 for region in regions)
    (flag,) = b.emit("lt", (x, w))
    (y,) = b.emit("cond", (flag, x, w, v), regions=regions)
    graph = b.finish(y)
    for values, expected in (((1, 2, 10), 10), ((3, 2, 10), 5)):
        arrays = dict(zip("xwv", map(np.float32, values), strict=True))
        assert evaluate(graph, arrays).output == expected


def test_regions_within_regions_capture_through_each_other() -> None:
    b = builder()
    x = b.input("x", f32[()])
    outer = b.region("outer")
    flag = outer.input("flag", bool_[()])
    inner = outer.region("inner")
    inner.input("in", bool_[()])
    (doubled,) = inner.emit("add", (x, x))
    body = inner.finish((doubled,))
    (found,) = outer.emit("cond", (flag, flag, *inner.captures), regions=(body, body))
    (again,) = outer.emit("mul", (found, x))
    assert outer.captures == (x,)
    whole = outer.finish((again,))
    (yes,) = b.emit("eq", (x, x))
    (y,) = b.emit("cond", (yes, yes, *outer.captures), regions=(whole, whole))
    assert evaluate(b.finish(y), {"x": np.float32(3)}).output == 18


def test_names_of_captures_avoid_those_of_inputs() -> None:
    b = builder()
    x = b.input("x", f32[()])
    region = b.region()
    region.input("captured0", f32[()])
    region.capture(x)
    assert [variable.name for variable in region.finish(()).inputs] == ["captured0", "captured1"]


# --- limits -----------------------------------------------------------------------------------------------------------


def fill(b: Builder) -> None:
    x = b.input("x", f32[1])
    while True:
        (x,) = b.emit("add", (x, Literal(1.0, f32)))


@pytest.mark.parametrize(
    ("resource", "limit", "attempted"),
    [("max_values", 5, 6), ("max_eqns", 5, 6), ("max_literal_bytes", 18, 20)],
)
def test_limits(resource: str, limit: int, attempted: int) -> None:
    b = builder(**{resource: limit})
    with pytest.raises(LimitError) as caught:
        fill(b)
    assert caught.value.fields == {"resource": resource, "limit": limit, "attempted": attempted}
    graph = b.finish(Literal(1.0, f64) if resource != "max_literal_bytes" else ())
    assert len(graph.equations) == (4 if resource != "max_eqns" else 5)


def test_a_refused_call_changes_nothing() -> None:
    b = builder(max_values=2)
    x = b.input("x", f32[1])
    b.emit("neg", (x,))
    for attempt in range(3):
        with pytest.raises(LimitError):
            b.emit("neg", (x,))
        with pytest.raises(LimitError):
            b.input(f"y{attempt}", f32[1])
    assert b.finish(x).value_count == 2


@pytest.mark.parametrize("call", ["name", "parameter", "own"])
def test_owned_bytes(call: str) -> None:
    b = builder(max_owned_bytes=100)
    calls = {
        "name": lambda: b.input("x" * 101, f32[1]),
        "parameter": lambda: b.emit("iota", (), {"dtype": f32, "shape": (1,) * 40, "axis": 0}),
        "own": lambda: b.own(101),
    }
    with pytest.raises(LimitError, match="max_owned_bytes"):
        calls[call]()
    b.own(100)


def test_literals_of_outputs_count() -> None:
    b = builder(max_literal_bytes=8)
    with pytest.raises(LimitError, match="max_literal_bytes: 12 is past the limit of 8"):
        b.finish((1, 2.0, np.int32(3)))
    assert len(b.finish((1, 2.0)).outputs) == 2


def test_regions_count_towards_the_limits_of_the_builder() -> None:
    b = builder(max_eqns=5)
    x = b.input("x", f32[()])
    (flag,) = b.emit("eq", (x, x))
    region = b.region()
    inside: Any = region.input("in", f32[()])
    for _ in range(4):
        (inside,) = region.emit("neg", (inside,))
    with pytest.raises(LimitError, match="max_eqns: 6 is past the limit of 5"):
        region.emit("neg", (inside,))
    body = region.finish((inside,))
    with pytest.raises(LimitError, match="max_eqns: 10 is past the limit of 5"):
        b.emit("cond", (flag, x), regions=(body, body))


def test_usage_of_a_graph() -> None:
    b = builder()
    x = b.input("x", f32[1])
    (y,) = b.emit("add", (x, Literal(1.0, f32)))
    (y,) = b.emit("cast", (y,), {"dtype": f64})
    usage = graph_usage(b.finish((y, Literal(1, i64))))
    assert (usage.values, usage.eqns, usage.literal_bytes, usage.owned_bytes) == (3, 2, 12, 1 + len("dtype") + 8)


def test_standard_limits() -> None:
    assert (
        TraceLimits(max_values=2**20, max_eqns=2**20, max_literal_bytes=2**26, max_owned_bytes=2**32, max_tokens=2**17)
        == TraceLimits.STANDARD
    )


# --- literals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.1, f32, float(np.float32(0.1))),
        (1, f32, 1.0),
        (True, f32, 1.0),
        (1 + 2**-8 + 2**-40, bf16, 1 + 2**-7),
        ((1 << 60) + (1 << 36) + 1, f32, float((1 << 60) + (1 << 37))),
        (-(1 << 60) - (1 << 36) - 1, f32, -float((1 << 60) + (1 << 37))),
        (1e30, f16, math.inf),
        (-1e39, f32, -math.inf),
        (True, i8, 1),
        (-128, i8, -128),
        (False, bool_, False),
    ],
)
def test_literals_round_once(value: Any, dtype: Any, expected: Any) -> None:
    found = literal(value, dtype)
    assert (found.value, type(found.value)) == (expected, type(expected))
