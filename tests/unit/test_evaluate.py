"""The oracle: bindings, states, regions, rounding, observers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poot.dtypes import bf16, bool_, f16, f32, f64, i32
from poot.errors import (
    ArgumentError,
    DTypeError,
    EvaluateError,
    IndexFault,
    ShapeError,
    SourceLocation,
    UnsupportedDTypeError,
)
from poot.trace.builder import Builder
from poot.trace.evaluate import EvalOptions, evaluate
from poot.trace.graph import Equation, Graph, Literal
from poot.trace.limits import TraceLimits
from poot.trace.primitives import Primitive, lookup, register, unregister
from poot.trace.rounding import round_once
from tests.exact_floats import round_fraction
from tests.messages import without_line


def graph() -> Graph:
    b = Builder(TraceLimits.STANDARD)
    x, w, s = b.input("x", f32[2]), b.constant("w", f32[2]), b.state("s", f32[2])
    (y,) = b.emit("add", (x, w))
    (z,) = b.emit("mul", (y, s))
    return b.finish({"y": y, "z": z}, updates={"s": y})


def arrays() -> dict[Any, np.ndarray]:
    return {name: np.array(values, np.float32) for name, values in {"x": (1, 2), "w": (3, 4), "s": (5, 6)}.items()}


def test_output_and_state() -> None:
    result = evaluate(graph(), arrays())
    np.testing.assert_array_equal(result.output["y"], [4, 6])
    np.testing.assert_array_equal(result.output["z"], [20, 36])
    np.testing.assert_array_equal(result.state["s"], [4, 6])
    assert result.environment == {}


def test_a_state_without_update_stays() -> None:
    b = Builder(TraceLimits.STANDARD)
    s = b.state("s", f32[1])
    given = np.ones(1, np.float32)
    result = evaluate(b.finish(s), {s.id: given})
    assert result.state["s"] == 1
    assert not np.shares_memory(result.state["s"], given)
    assert not np.shares_memory(result.output, given)


def test_environment_and_observer() -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []

    def observer(equation: Equation, inputs: tuple[np.ndarray, ...], outputs: tuple[np.ndarray, ...]) -> None:
        seen.append((equation.primitive, tuple(map(len, (inputs, outputs)))))
        assert not any(array.flags.writeable for array in (*inputs, *outputs))

    result = evaluate(graph(), arrays(), EvalOptions(observer=observer, keep_environment=True))
    assert seen == [("add", (2, 1)), ("mul", (2, 1))]
    assert sorted(result.environment) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(result.environment[3], [4, 6])


def test_observers_see_the_equations_of_regions() -> None:
    b = Builder(TraceLimits.STANDARD)
    x = b.input("x", i32[()])
    condition, body = b.region("condition"), b.region("body")
    (go,) = condition.emit("lt", (condition.input("i", i32[()]), Literal(3, i32)))
    (step,) = body.emit("add", (body.input("i", i32[()]), Literal(1, i32)))
    regions = (condition.finish((go,)), body.finish((step,)))
    (y,) = b.emit("while_loop", (x,), {"condition_consts": 0, "body_consts": 0}, regions)
    seen: list[str] = []
    result = evaluate(
        b.finish(y), {"x": np.int32(1)}, EvalOptions(lambda equation, i, o: seen.append(equation.primitive))
    )
    assert result.output == 3
    assert seen == ["lt", "add", "lt", "add", "lt", "while_loop"]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    b = Builder(TraceLimits.STANDARD)
    init, xs = b.input("init", f32[()]), b.input("xs", f32[5])
    body = b.region("body")
    carry, x = body.input("carry", f32[()]), body.input("x", f32[()])
    (total,) = body.emit("add", (carry, x))
    params = {"consts": 0, "carry": 1, "length": 5, "reverse": reverse}
    last, sums = b.emit("scan", (init, xs), params, (body.finish((total, carry)),))
    values = np.array([1, 2, 4, 8, 16], np.float32)
    output = evaluate(b.finish((last, sums)), {"init": np.float32(0), "xs": values}).output
    assert output[0] == 31
    expected = [30, 28, 24, 16, 0] if reverse else [0, 1, 3, 7, 15]
    np.testing.assert_array_equal(output[1], expected)


# --- bindings ---------------------------------------------------------------------------------------------------------


def binding_error(error: type[Exception], **changes: Any) -> str:
    bindings = {name: value for name, value in (arrays() | changes).items() if value is not None}
    with pytest.raises(error) as caught:
        evaluate(graph(), bindings)
    return without_line(caught.value)


def test_missing_and_unknown_bindings() -> None:
    assert binding_error(EvaluateError, w=None, s=None) == (
        "graph: nothing is bound to 'w', 's'\n  Remedy: give an array for every constant, input and state of the graph."
    )
    assert binding_error(EvaluateError, q=np.ones(2, np.float32)) == (
        "binding 'q': graph has no such constant, input or state (it has: 'w', 'x', 's')\n"
        "  Remedy: bind these alone, by name or id."
    )
    with pytest.raises(EvaluateError, match="binding 3: graph has no such constant"):
        evaluate(graph(), arrays() | {3: np.ones(2, np.float32)})
    with pytest.raises(EvaluateError, match="binding 0: 'x' is bound twice, by name and by id"):
        evaluate(graph(), arrays() | {0: np.ones(2, np.float32)})


def test_wrong_dtypes_and_shapes() -> None:
    assert binding_error(DTypeError, x=np.ones(2)) == (
        "binding 'x': dtype f64, expected f32\n  Remedy: convert the array; nothing is cast silently."
    )
    assert binding_error(DTypeError, x=[1, 2]).startswith("binding 'x': dtype i64, expected f32")
    assert binding_error(ShapeError, x=np.ones((2, 1), np.float32)) == "binding 'x': shape (2, 1), expected (2,)"
    assert binding_error(ShapeError, x=np.float32(1)) == "binding 'x': shape (), expected (2,)"


@pytest.mark.parametrize("dtype", ["object", "U3", "datetime64[s]", "complex64", "S2", "V4"])
def test_unsupported_dtypes(dtype: str) -> None:
    message = binding_error(UnsupportedDTypeError, x=np.zeros(2, dtype))
    assert message.startswith("binding 'x': dtype ")
    assert message.endswith(
        " is not supported\n  Remedy: convert it first; poot takes bool, i8 to u64, f16, bf16, f32 and f64."
    )


def test_any_layout_is_taken() -> None:
    base = np.arange(12, dtype=np.float32)
    frozen = base[:2].copy()
    frozen.flags.writeable = False
    for x in (base[::-5][:2], frozen, base[3:5].astype(">f4"), base.reshape(6, 2)[2]):
        result = evaluate(graph(), arrays() | {"x": x})
        np.testing.assert_array_equal(result.output["y"], x.astype(np.float32) + np.float32([3, 4]))


# --- faults -----------------------------------------------------------------------------------------------------------


def test_an_index_fault_names_the_users_line() -> None:
    b = Builder(TraceLimits.STANDARD)
    x, i = b.input("x", f32[3, 4]), b.input("i", i32[2, 1])
    (y,) = b.emit("gather", (x, i), {"axes": (1,), "mode": "fault"}, where=SourceLocation("model.py", 7))
    with pytest.raises(IndexFault) as caught:
        evaluate(b.finish(y), {"x": np.zeros((3, 4), np.float32), "i": np.array([[3], [-1]], np.int32)})
    assert str(caught.value) == (
        "gather: index -1 is out of range for axis 1 of extent 4\n  at model.py:7\n"
        '  Remedy: if out-of-range indices are meant, pass mode="clip", "wrap" or "fill" to ops.take, '
        "ops.take_along_axis or x.at[index].get()."
    )


def test_a_fault_in_a_region_is_an_effect_of_its_equation() -> None:
    b = Builder(TraceLimits.STANDARD)
    x, i, flag = b.input("x", f32[3]), b.input("i", i32[1]), b.input("flag", bool_[()])
    region = b.region()
    a, c = region.input("a", f32[3]), region.input("c", i32[1])
    body = region.finish(region.emit("gather", (a, c), {"axes": (0,), "mode": "fault"}))
    (y,) = b.emit("cond", (flag, x, i), regions=(body, body))
    assert b.finish(y).equations[0].effects == {"fault"}


# --- rounding ---------------------------------------------------------------------------------------------------------

_BITS = st.integers(0, (1 << 64) - 1).map(lambda bits: np.array(bits, np.uint64).view(np.float64))
_NEAR_TIES = st.builds(
    lambda bits, tail, sign: np.array(sign * (1 + bits * 2.0**-9 + tail * 2.0**-45)),
    st.integers(0, 511),
    st.integers(-3, 3),
    st.sampled_from([1, -1, 2.0**-130, -(2.0**-140), 2.0**-15, 2.0**127]),
)


@pytest.mark.parametrize("dtype", [bf16, f16, f32, f64])
@given(x=st.one_of(_BITS, _NEAR_TIES))
def test_rounding_happens_once(dtype: Any, x: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        found = float(round_once(x, dtype)[()])
    value = float(x)
    if not np.isfinite(value) or value == 0:
        np.testing.assert_equal(found, value)
    else:
        np.testing.assert_equal(found, round_fraction(Fraction(value), dtype))


def test_ml_dtypes_alone_would_round_twice() -> None:
    value = np.array(1 + 2.0**-8 + 2.0**-40)
    assert value.astype(ml_dtypes.bfloat16) == 1
    assert round_once(value, bf16) == 1 + 2.0**-7


def test_each_equation_is_rounded() -> None:
    b = Builder(TraceLimits.STANDARD)
    x = b.input("x", f16[1])
    (y,) = b.emit("add", (x, Literal(2048.0, f16)))
    (z,) = b.emit("sub", (y, Literal(2048.0, f16)))
    assert evaluate(b.finish(z), {"x": np.array([1], np.float16)}).output == 0


# --- rules that break their promise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (lambda call, x: x[:1], "oracle rule of broken: 'float32[1]' is not valid, expected f32[2]"),
        (lambda call, x: x.astype(np.int32), "oracle rule of broken: 'int32[2]' is not valid, expected f32[2]"),
        (lambda call, x: (x, x), "oracle rule of broken: 2 is not valid, expected 1 arrays"),
    ],
)
def test_broken_oracle_rules(oracle: Any, message: str) -> None:
    entry = lookup("neg")
    register(Primitive("broken", "map", "for this test", entry.type_rule, oracle, entry.lower))
    try:
        b = Builder(TraceLimits.STANDARD)
        (y,) = b.emit("broken", (b.input("x", f32[2]),))
        with pytest.raises(ArgumentError) as caught:
            evaluate(b.finish(y), {"x": np.ones(2, np.float32)})
    finally:
        unregister("broken")
    assert without_line(caught.value) == message
