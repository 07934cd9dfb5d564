"""cond, while_loop and scan: while tracing, and on concrete arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot.dtypes import f32, i32
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, PootError, ShapeError
from poot.trace import ops
from poot.trace.dispatch import tracing
from poot.trace.evaluate import evaluate
from tests.unit.ops_support import HostArray, build, check, eager, primitives, run, tracer

X = np.float32([1, 2, 3])


def both(function: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    """The function traced, and run on concrete arrays, gives what is expected."""

    def traced(*tracers: Any) -> Any:
        with tracing(tracers[0].builder):
            return function(*tracers)

    check(traced, expected, *arrays)
    with eager():
        found = function(*(HostArray(x) if isinstance(x, np.ndarray) else x for x in arrays))
    for one, other in zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)
        assert isinstance(one, int) or np.asarray(one).dtype == np.asarray(other).dtype


# --- cond -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False])
def test_cond(flag: bool) -> None:
    def function(c: Any, x: Any) -> Any:
        return ops.cond(c, lambda x: {"y": x * 2, "n": x.sum()}, lambda x: {"y": -x, "n": 0}, x)

    expected = {"y": X * 2, "n": X.sum()} if flag else {"y": -X, "n": np.float32(0)}
    both(function, expected, np.array(flag), X)
    assert primitives(function, np.array(flag), X) == ["cond"]


def test_cond_takes_what_its_branches_read() -> None:
    def function(c: Any, x: Any, y: Any) -> Any:
        z = x + y
        return ops.cond(c > 0, lambda: z, lambda: (y * 2) @ ops.eye(3) + z[0])

    both(function, X * 2, np.array(1), X, X)
    both(function, X * 2 + 2, np.array(0), X, X)
    graph = build(lambda c, x, y: ops.cond(c, lambda: x, lambda: y + x), np.array(True), X, X)
    assert [len(equation.inputs) for equation in graph.equations if equation.primitive == "cond"] == [3]


def test_a_branch_of_another_runs_inside_it() -> None:
    def function(x: Any) -> Any:
        def above() -> Any:
            return ops.cond(x[1] > 2, lambda: x + 1, lambda: x + 2)

        return ops.cond(x[0] > 0, above, lambda: ops.cond(x[2], lambda: x, lambda: -x))

    for sign in (1, -1, 2):
        x = X * np.float32(sign)
        both(function, x + (2 if sign == 1 else 1) if sign > 0 else x, x)


def test_a_static_predicate_chooses_at_once() -> None:
    assert primitives(lambda x: ops.cond(True, lambda: x, lambda: x.nothing), X) == []


def test_numbers_take_the_other_branchs_dtype() -> None:
    x = np.float16([1])
    assert run(lambda c, x: ops.cond(c, lambda: x[0], lambda: 2), np.array(False), x).dtype == np.float16
    assert run(lambda c: ops.cond(c, lambda: 1, lambda: 2.5), np.array(False)).dtype == np.float32
    assert run(lambda c: ops.cond(c, lambda: True, lambda: 2), np.array(False)) == 2


# --- while_loop -------------------------------------------------------------------------------------------------------


def test_while_loop() -> None:
    def collatz(n: Any) -> Any:
        return ops.while_loop(
            lambda c: c[0] != 1,
            lambda c: (ops.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
            (n, 0),
        )

    both(collatz, (np.int32(1), np.int32(111)), np.array(27, np.int32))
    both(collatz, (np.int32(1), np.int32(0)), np.array(1, np.int32))
    assert primitives(collatz, np.array(27, np.int32)) == ["while_loop"]


def test_while_loop_takes_what_its_functions_read() -> None:
    def function(x: Any, limit: Any) -> Any:
        step = x * 2
        return ops.while_loop(lambda y: ops.sum(y) < limit, lambda y: y + step, x)

    both(function, X * 9, X, np.array(50, np.float32))


# --- scan -------------------------------------------------------------------------------------------------------------


def test_scan() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)

    def running(x: Any) -> Any:
        return ops.scan(
            lambda total, row: (total + row, {"sum": total + row, "first": row[0]}), ops.zeros_like(x[0]), x
        )

    expected = rows.sum(0), {"sum": rows.cumsum(0), "first": rows[:, 0]}
    both(running, expected, rows)
    assert [name for name in primitives(running, rows) if name != "broadcast"][-1] == "scan"


def test_scan_in_reverse() -> None:
    both(
        lambda x: ops.scan(lambda c, x: (c + x, c + x), 0.0, x, reverse=True), (np.float32(6), np.float32([6, 5, 3])), X
    )


def test_scan_without_xs() -> None:
    def powers(x: Any) -> Any:
        return ops.scan(lambda c, _: (c * x[1], c), 1.0, length=4)

    both(powers, (np.float32(16), np.float32([1, 2, 4, 8])), X)
    both(lambda x: ops.scan(lambda c, y: (c, None), x, x), (X, None), X)


def test_scan_over_several_arrays_and_captures() -> None:
    def function(x: Any, w: Any) -> Any:
        return ops.scan(lambda c, xs: (c + xs["a"] * w * xs["b"], (c, 1)), x[0] * 0, {"a": x, "b": i32(x)})

    steps = 2 * np.cumsum(X**2)
    both(function, (steps[-1], (np.float32([0, *steps[:-1]]), np.int32([1, 1, 1]))), X, np.array(2, np.float32))


def test_scan_of_no_steps() -> None:
    both(
        lambda x: ops.scan(lambda c, row: (c + 1, (row, c > 0)), x[0, 0], x[:, :0].T),
        (np.float32(1), (np.zeros((0, 1), np.float32), np.zeros(0, np.bool_))),
        np.ones((1, 2), np.float32),
    )


def test_a_long_scan_traces_its_body_once() -> None:
    calls: list[int] = []

    def body(carry: Any, _: Any) -> Any:
        calls.append(1)
        return carry * 2654435761 + 1, None

    def function(x: Any) -> Any:
        return ops.scan(body, x, length=10_000)[0]

    found = run(function, np.array(1, np.uint32))
    expected = 1
    for _ in range(10_000):
        expected = (expected * 2654435761 + 1) % 2**32
    assert found == expected
    assert len(calls) == 1


def test_captured_arrays_belong_to_the_trace_around_a_region() -> None:
    x = tracer(f32[3])
    builder = x.builder
    made: list[Any] = []

    def capture(array: Any) -> Any:
        made.append(array)
        return builder.input("w", f32[3])

    with tracing(builder, capture):
        result = ops.scan(lambda c, _: (c + X, None), x, length=2)[0]
    assert made == [X] or made[0] is X
    graph = builder.finish(result)
    assert evaluate(graph, {"x": X, "w": X}).output.tolist() == (X * 3).tolist()


# --- what does not fit ------------------------------------------------------------------------------------------------

BAD: list[tuple[Callable[[Any], Any], type[PootError], str]] = [
    (
        lambda x: ops.cond(x > 0, lambda: x, lambda: x),
        ShapeError,
        (
            "cond: predicate: shape (3,), expected ()\n"
            "  Remedy: reduce it with ops.any or ops.all, or choose by element with ops.where."
        ),
    ),
    (
        lambda x: ops.cond(x[0] > 0, lambda: (x, x), lambda: x),
        ArgumentError,
        "cond: results of when_true: '(*, *)' is not valid, expected *, as when_false gives, where each * is an array",
    ),
    (
        lambda x: ops.cond(x[0] > 0, lambda: x, lambda: i32(x)),
        DTypeError,
        (
            "cond: results of when_false: dtype i32, expected f32, as the other branch gives\n"
            "  Remedy: cast it with astype, so that both have one dtype."
        ),
    ),
    (
        lambda x: ops.cond(x[0] > 0, lambda: {"a": x}, lambda: {"a": x[:2]}),
        ShapeError,
        "cond: results of when_false a: shape (2,), expected (3,), as the other branch gives",
    ),
    (
        lambda x: ops.while_loop(lambda c: c > 0, lambda c: c, x),
        ShapeError,
        (
            "while_loop: condition: shape (3,), expected ()\n"
            "  Remedy: reduce it with ops.any or ops.all, or choose by element with ops.where."
        ),
    ),
    (
        lambda x: ops.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + x[0], c[1]), (0, x)),
        DTypeError,
        (
            "while_loop: body 0: dtype f32, expected i32, as before the step\n"
            "  Remedy: cast it with astype, so that both have one dtype."
        ),
    ),
    (
        lambda x: ops.scan(lambda c, x: c, x[0], x),
        ArgumentTypeError,
        "scan: result of the body: Tracer given, expected a tuple (carry, y)",
    ),
    (
        lambda x: ops.scan(lambda c, x: (c[None], x), x[0], x),
        ShapeError,
        "scan: carry: shape (1,), expected (), as before the step",
    ),
    (
        lambda x: ops.scan(lambda c, x: (c, x), x[0], {"a": x, "b": x[:2]}),
        ArgumentError,
        "scan: length: (3, 2) is not valid, expected one first extent of all xs, or length= without xs",
    ),
    (
        lambda x: ops.scan(lambda c, x: (c, x), x[0], x[0]),
        ShapeError,
        "scan: xs: shape (), expected at least one axis",
    ),
    (
        lambda x: ops.scan(lambda c, x: (c, x), x[0]),
        ArgumentError,
        "scan: 'no xs and no length' is not valid, expected arrays as xs, or length=",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_what_does_not_fit(call: Callable[[Any], Any], error: type[PootError], text: str) -> None:
    with pytest.raises(error) as caught:
        call(tracer(f32[3]))
    lines = str(caught.value).split("\n")
    assert f"  at {__file__}:" in lines[1]
    assert "\n".join(line for line in lines if not line.startswith(("  at ", "    "))) == text


def test_concrete_loops_keep_their_specs_too() -> None:
    with eager(), pytest.raises(DTypeError, match="scan: carry: dtype f32, expected f16, as before the step"):
        ops.scan(lambda c, x: (c + x, x), HostArray(np.float16(0)), HostArray(X))


@pytest.mark.parametrize("length", [-3, -1, 2**31, 2**70])
def test_lengths_out_of_range(length: int) -> None:
    def steps(x: Any) -> Any:
        return ops.scan(lambda c, _: (c + 1, c), x, length=length)

    for function in (steps, poot.trace(steps)):
        with pytest.raises(ArgumentError, match=f"scan: length: {length} is not valid, expected 0 to 2147483647"):
            function(poot.asarray(1.0))


def test_captured_arrays_may_be_what_a_loop_begins_with() -> None:
    half, rows = poot.asarray(np.float32(0.5)), poot.asarray(np.ones((3, 2), np.float32))
    x = np.ones((3, 2), np.float32)
    carry, ys = poot.trace(lambda x: ops.scan(lambda c, row: (c + row.sum(), c), half, x))(x)
    assert float(carry) == 6.5 and np.asarray(ys).tolist() == [0.5, 2.5, 4.5]
    carry, _ = poot.trace(lambda s: ops.scan(lambda c, row: (c + row.sum(), c), s + half, rows))(1.0)
    assert float(carry) == 7.5
    assert float(poot.trace(lambda x: ops.while_loop(lambda c: c < 3, lambda c: c + x[0, 0], half))(x)) == 3.5


def test_captured_arrays_may_be_what_a_region_gives() -> None:
    held, x = poot.asarray(np.full(3, 2.0, np.float32)), np.ones(3, np.float32)
    functions: tuple[tuple[Any, float], ...] = (
        (lambda x: ops.cond(x[0] > 0, lambda: held, lambda: held + 1), 2.0),
        (lambda x: ops.cond(x[0] < 0, lambda a: a + 1, lambda a: a, held), 2.0),
        (lambda x: ops.fori_loop(0, 2, lambda i, a: held, x), 2.0),
        (lambda x: ops.scan(lambda c, _: (c + 1, held), x, length=2)[1][1], 2.0),
        (lambda x: ops.while_loop(lambda a: a[0] < 2, lambda a: held, x), 2.0),
        (lambda x: ops.scan(lambda c, _: (ops.cond(c[0] > 9, lambda: x, lambda: held), None), x, length=2)[0], 2.0),
    )
    for function, expected in functions:
        assert np.asarray(poot.trace(function)(x)).tolist() == [expected] * 3
        assert np.asarray(poot.trace(function).evaluate(x)).tolist() == [expected] * 3
