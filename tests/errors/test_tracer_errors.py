"""Exact messages of what a traced function cannot do, and of operands that do not fit."""
# size: one table of messages

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import DType, f16, f32, i8, i32, u8
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    BuilderError,
    ConcretizationError,
    DTypeError,
    EngineError,
    EscapedTracerError,
    FeatureError,
    ForeignHandleError,
    OverflowArgumentError,
    PootError,
    ShapeError,
    TracerMutationError,
    UnsupportedDTypeError,
)
from poot.trace import ops
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.dispatch import tracing
from poot.trace.tracer import WeakTracer
from tests.errors.messages import message
from tests.unit.ops_support import LIMITS, tracer

INT = (
    "\n  Remedy: a size, axis or position in Python must be a static int; to read an element at a traced index write "
    "`x[i]`."
)
NUMBER = "\n  Remedy: use the functions of `ops` instead, or return it and convert the result of the call."
BOOL = "\n  Remedy: use `ops.where(condition, a, b)` to choose by element, or `ops.cond` to run one of two branches."


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x: 1 if x else 2, "a bool" + BOOL),
        (lambda x: x and x, "a bool" + BOOL),
        (int, "an int" + INT),
        (range, "an index" + INT),
        (lambda x: [1, 2][x], "an index" + INT),
        (float, "a float" + NUMBER),
        (complex, "a complex number" + NUMBER),
        (np.asarray, "a NumPy array" + NUMBER),
        (lambda x: x.item(), "a Python number" + NUMBER),
        (lambda x: x.tolist(), "a list" + NUMBER),
        (lambda x: ops.zeros((x, 2)), "an index" + INT),
        (lambda x: ops.sum(tracer(f32[2, 2]), axis=x), "an index" + INT),
        (lambda x: ops.arange(x), "an int" + INT),
    ],
)
def test_a_tracer_has_no_value(use: Callable[[Any], Any], text: str) -> None:
    x = tracer(i32[()], "n")
    start = "`n`, i32[], has no value while f is being traced, so it cannot be used as "
    assert message(lambda: use(x), ConcretizationError) == start + text
    start = "%1, i32[], has no value while f is being traced, so it cannot be used as "
    y = x + 1
    assert message(lambda: use(y), ConcretizationError) == start + text


def test_the_line_and_a_caret_are_shown() -> None:
    x = tracer(f32[()])
    with pytest.raises(ConcretizationError) as caught:
        total = 1 + float(x)
        del total
    lines = str(caught.value).split("\n")
    assert lines[1].startswith(f"  at {__file__}:")
    assert lines[2:4] == ["    total = 1 + float(x)", "                ^^^^^^^^"]


def test_a_weak_scalar_names_the_static_argument() -> None:
    def slot(dtype: DType) -> Array:
        return tracer(dtype[()], "rate")

    rate = WeakTracer("float*", slot, name="rate", function="step")
    text = message(lambda: bool(rate), ConcretizationError)
    assert text == (
        "`rate`, a Python number, has no value while step is being traced, so it cannot be used as a bool\n"
        '  Remedy: make it static with static_argnames="rate", or use `ops.where(condition, a, b)` to choose by '
        "element, or `ops.cond` to run one of two branches."
    )
    text = message(lambda: int(rate), ConcretizationError)
    assert text.endswith('make it static with static_argnames="rate": ' + INT.removeprefix("\n  Remedy: "))
    text = message(lambda: int(rate * 2), ConcretizationError)
    assert text.startswith("a result of Python numbers has no value while step is being traced, so it cannot")


def test_nothing_is_changed_in_place() -> None:
    x = tracer(f32[3])

    def assign() -> None:
        x[0] = 1

    assert message(assign, TracerMutationError) == (
        "`x`, f32[3], cannot be changed in place while f is being traced\n  Remedy: write `x = x.at[i].set(v)`."
    )


def test_a_copy_of_a_tracer_is_the_tracer_and_no_bytes_hold_one() -> None:
    x = tracer(f32[3])

    def twice(x: Any, n: Any) -> Any:
        copied = copy.deepcopy({"x": x, "n": n})
        return copied["x"] * copied["n"] + copy.copy(x) * copy.copy(n)

    assert np.asarray(poot.trace(twice)(np.ones(2, np.float32), 3.0)).tolist() == [6.0, 6.0]
    assert copy.copy(x) is x and copy.deepcopy([x])[0] is x
    assert message(lambda: pickle.dumps(x), ConcretizationError).startswith(
        "`x`, f32[3], has no value while f is being traced, so it cannot be used as bytes"
    )
    with pytest.raises(ConcretizationError, match="so it cannot be used as bytes"):
        poot.trace(lambda n: pickle.dumps(n))(3.0)
    x.builder.finish(x + 1)
    assert "used after that trace ended" in message(lambda: pickle.dumps(x), EscapedTracerError)


def test_a_tracer_does_not_outlive_its_trace() -> None:
    x = tracer(f32[3])
    y = x + 1
    x.builder.finish(y)
    text = (
        "%1, f32[3], was made while f was traced and is used after that trace ended\n"
        "  Remedy: return it from the traced function instead of keeping it in a global, attribute or closure."
    )
    assert message(lambda: y * 2, EscapedTracerError) == text
    assert message(lambda: float(y), EscapedTracerError) == text
    assert message(lambda: ops.zeros_like(y), EscapedTracerError) == text


def test_values_of_two_builders() -> None:
    x, y = tracer(f32[3], "x"), tracer(f32[3], "y")
    assert message(lambda: x + y, ForeignHandleError) == (
        "`y`, f32[3], belongs to another builder or trace\n"
        "  Remedy: make every operand with the builder that will finish the graph."
    )


def test_arrays_beside_a_builder() -> None:
    x = tracer(f32[3])
    assert message(lambda: x + np.ones(3, np.float32), BuilderError) == (
        "a concrete array, float32[3], meets a value of a Builder's graph\n"
        "  Remedy: make it a constant: `w = builder.constant(name, spec)`, and bind its value when the graph runs."
    )
    assert message(lambda: ops.arange(3) <= x, BuilderError) == (
        "a concrete array, f32[3], meets a value of a Builder's graph\n"
        "  Remedy: write a function f of the inputs, and take `poot.trace(f).graph(*specs, states=...)`, which records"
        " what makes the array as well. Or make it a constant: `w = builder.constant(name, spec)`, and bind its value"
        " when the graph runs."
    )


CAST = "\n  Remedy: cast the bools with i32(x) first."
MATCHED = "\n  Remedy: axes are matched from the last one; add one of length 1 where it is missing: `x[:, None]`."
ASARRAY = "\n  Remedy: convert it with ops.asarray first."
MISMATCHES: list[tuple[Callable[[Any], Any], type[PootError], str]] = [
    (lambda x: ops.add(x, [1.0]), ArgumentTypeError, "add: list given, expected an array or a number" + ASARRAY),
    (lambda x: ops.add(x, 1j), ArgumentTypeError, "add: complex given, expected an array or a number" + ASARRAY),
    (
        lambda x: ops.add(x, np.array(["a"])),
        UnsupportedDTypeError,
        (
            "add: dtype str32 is not supported\n"
            "  Remedy: convert it first; poot takes bool, i8 to u64, f16, bf16, f32 and f64."
        ),
    ),
    (
        lambda x: ops.add(np.zeros(4, np.float32), x),
        ShapeError,
        "add: shape (4,) and (2, 3), expected shapes that broadcast together" + MATCHED,
    ),
    (lambda x: x.reshape(4, -1), ShapeError, "reshape of (2, 3): shape (4, -1), expected a shape of 6 elements"),
    (lambda x: x.transpose(0, 0), ArgumentError, "permute_dims: axis: (0, 0) is not valid, expected distinct axes"),
    (lambda x: x.transpose(0), ArgumentError, "permute_dims: axes: (0,) is not valid, expected each of 2 axes once"),
    (lambda x: x.sum(axis=2), ArgumentError, "sum: axis: 2 is not valid, expected an axis from -2 to 1"),
    (lambda x: x.sum(axis=1.0), ArgumentTypeError, "sum: axis: float given, expected an int"),
    (lambda x: x.sum(axis=True), ArgumentTypeError, "sum: axis: bool given, expected an int"),
    (lambda x: x[0, 0].sum(0), ArgumentError, "sum: axis: 0 is not valid, expected no axis, since the array is 0-d"),
    (lambda x: x[:, :0].max(axis=1), ShapeError, "max: shape (2, 0), expected at least one element to reduce"),
    (lambda x: ops.concat([]), ArgumentError, "concat: () is not valid, expected at least one array"),
    (lambda x: ops.concat([x, x[0]]), ShapeError, "concat: shape (3,), expected (2, 3) but for axis 0"),
    (lambda x: ops.stack([x, x[0]]), ShapeError, "stack: shape (3,), expected (2, 3)"),
    (
        lambda x: ops.broadcast_to(x, (2, 2)),
        ShapeError,
        "broadcast_to: shape (2, 3) and (2, 2), expected shapes that broadcast together" + MATCHED,
    ),
    (lambda x: ops.broadcast_to(x, 3), ShapeError, "broadcast_to: shape (2, 3), expected a shape that fits (3,)"),
    (lambda x: ops.squeeze(x, 0), ShapeError, "squeeze: shape (2, 3), expected extent 1 at 0"),
    (
        lambda x: x @ x,
        ShapeError,
        (
            "matmul: shape (2, 3) and (2, 3), expected axis -2 of the second to be 3, the last axis of the first\n"
            "  Remedy: transpose one of them (`x.mT`), or change the order."
        ),
    ),
    (lambda x: x & x, DTypeError, "bitwise_and: dtype f32, expected integers or bools"),
    (lambda x: ~x, DTypeError, "bitwise_invert: dtype f32, expected integers or bools"),
    (lambda x: -(x > 0), DTypeError, "negative: dtype bool, expected numbers" + CAST),
    (lambda x: (x > 0) - (x > 1), DTypeError, "subtract: dtype bool, expected numbers" + CAST),
    (
        lambda x: i32(x) ** -1,
        ArgumentError,
        "exponent of integers: -1 is not valid, expected a non-negative int",
    ),
    (
        lambda x: ops.pad(x, ((1, 1), (1, 1), (1, 1))),
        ArgumentError,
        "pad_width: ((1, 1), (1, 1), (1, 1)) is not valid, expected an int, a pair, or 2 pairs",
    ),
    (lambda x: ops.split(x, 3), ArgumentError, "split: sections: 3 is not valid, expected a divisor of 2"),
    (lambda x: ops.full((-1,), 0), ArgumentError, "shape: (-1,) is not valid, expected non-negative extents"),
    (
        lambda x: ops.asarray([[1, 2], [3]]),
        ShapeError,
        "asarray: shape a ragged sequence, expected rows of equal shape",
    ),
    (
        lambda x: ops.asarray([2**31]),
        OverflowArgumentError,
        (
            "2147483648 does not fit i32\n"
            "  Remedy: use a value between -2147483648 and 2147483647, or cast the array to a wider dtype."
        ),
    ),
    (
        lambda x: ops.einsum("ij,jk", x),
        ArgumentError,
        "einsum: 'ij,jk' is not valid, expected subscripts of each operand, of which there is 1",
    ),
    (lambda x: list(x[0, 0]), ShapeError, "iterating over an array: shape (), expected at least one axis"),
    (
        lambda x: ops.nn.sample(ops.random.key(0), x, temperature=-1),
        ArgumentError,
        "sample: temperature: -1 is not valid, expected a number from 0 on",
    ),
    (
        lambda x: ops.nn.sample(ops.random.key(0), x, top_p=1.5),
        ArgumentError,
        "sample: top_p: 1.5 is not valid, expected a number from 0 to 1",
    ),
    (
        lambda x: ops.nn.keep_min_p(x, -0.5),
        ArgumentError,
        "keep_min_p: p: -0.5 is not valid, expected a number from 0 to 1",
    ),
    (lambda x: ops.einsum("ii", x), ShapeError, "einsum 'ii': shape (2, 3), expected extent 2 for 'i'"),
    (
        lambda x: ops.nn.linear(x, x[:, :2]),
        ShapeError,
        "linear: x: shape (2, 3), expected [..., 2], for w (2, 2)",
    ),
    (
        lambda x: ops.nn.gelu(x, "erf"),
        ArgumentError,
        "gelu: approximate: 'erf' is not valid, expected False or \"tanh\"",
    ),
    (lambda x: ops.nn.rmsnorm(x, x), ShapeError, "rmsnorm: w: shape (2, 3), expected (3,), the last axis of x"),
    (
        lambda x: ops.nn.attention(x, x[:, :2], x),
        ShapeError,
        "attention: k: shape (2, 2), expected (keys, 3), as q has it",
    ),
    (
        lambda x: ops.nn.attention(x, x, x, mask=i32(x[:, :2])),
        DTypeError,
        "attention: mask: dtype i32, expected bools, or floats to be added",
    ),
    (
        lambda x: np.linalg.svd(x),
        ArgumentTypeError,
        (
            "np.linalg.svd: a poot array given, expected NumPy arrays\n"
            "  Remedy: use a function of `poot.ops`, or, outside traced functions, convert the array with "
            "np.asarray(x), which reads it back."
        ),
    ),
    (
        lambda x: np.add(x, x, out=np.ones((2, 3))),
        ArgumentTypeError,
        (
            "np.add: out=, or an in-place operator on a NumPy array, given, expected no out=\n"
            "  Remedy: poot arrays are not written into NumPy arrays; write `a = a + x` instead of `a += x`."
        ),
    ),
    (
        lambda x: np.add(x, x, where=True),
        ArgumentTypeError,
        (
            "np.add: where=True given, expected array operands alone\n"
            "  Remedy: choose by element with ops.where(condition, a, b)."
        ),
    ),
    (
        lambda x: x.__array_namespace__(api_version="2019"),
        ArgumentError,
        "api_version: '2019' is not valid, expected one of 2022.12, 2023.12, 2024.12",
    ),
    (
        lambda x: ops.take(x, x),
        DTypeError,
        "take: indices: dtype f32, expected integers",
    ),
    (
        lambda x: ops.take(x, 0, mode="drop"),
        ArgumentError,
        'mode: \'drop\' is not valid, expected "fault", "clip", "wrap" or "fill"',
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), MISMATCHES)
def test_operands_that_do_not_fit(call: Callable[[Any], Any], error: type[PootError], text: str) -> None:
    x = tracer(f32[2, 3])
    with tracing(x.builder):
        assert message(lambda: call(x), error) == text


@pytest.mark.parametrize(
    ("dtype", "number", "low", "high"),
    [
        (u8, -1, 0, 255),
        (u8, 256, 0, 255),
        (i8, 128, -128, 127),
        (i32, 2**31, -(2**31), 2**31 - 1),
        (f16, 1e5, -65504.0, 65504.0),
        (f32, 1e39, f32.min, f32.max),
        (f32, 10**40, f32.min, f32.max),
    ],
)
def test_numbers_that_do_not_fit(dtype: DType, number: float, low: float, high: float) -> None:
    x = tracer(dtype[2])
    assert message(lambda: x + number, OverflowArgumentError) == (
        f"{number} does not fit {dtype}\n"
        f"  Remedy: use a value between {low} and {high}, or cast the array to a wider dtype."
    )


def test_unknown_operations_suggest_a_name() -> None:
    with pytest.raises(FeatureError, match=re.escape("poot has no operation ops.concatenat yet")) as caught:
        ops.concatenat  # type: ignore[attr-defined]
    assert caught.value.remedy == "did you mean `ops.concatenate`?"
    with pytest.raises(AttributeError, match=re.escape("did you mean `ops.nn.softmax`?")):
        ops.softmax  # type: ignore[attr-defined]
    assert not hasattr(ops, "__wrapped__")
    for module, name, near in ((ops.nn, "sofmax", "nn.softmax"), (ops.linalg, "nrm", "linalg.norm")):
        with pytest.raises(FeatureError) as caught:
            getattr(module, name)
        assert caught.value.remedy == f"did you mean `ops.{near}`?"
    with pytest.raises(FeatureError, match=re.escape("Remedy: `dir(ops.random)` lists")):
        ops.random.qqq  # type: ignore[attr-defined]


def test_a_truth_value_of_many_elements_names_any_and_all() -> None:
    with pytest.raises(ShapeError, match=re.escape("exactly one element")) as caught:
        bool(poot.asarray([1, 2]))
    assert caught.value.remedy == "use x.any() or x.all()."
    with pytest.raises(ShapeError) as caught:
        float(poot.asarray([1, 2]))
    assert caught.value.remedy == ""


def test_the_use_of_a_donated_array_is_shown() -> None:
    step = poot.trace(donate="s")(lambda s: s + 1)
    state = poot.asarray([1.0])
    step(state)
    assert message(lambda: state * 2, EngineError).startswith("this array was donated to ")


def test_finished_builders_take_no_more() -> None:
    builder = Builder(LIMITS)
    x = builder.input("x", f32[2])
    builder.finish(x)
    with tracing(builder), pytest.raises(BuilderError, match="this builder has already finished its graph"):
        ops.zeros((2,))
