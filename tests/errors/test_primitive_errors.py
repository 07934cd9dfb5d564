"""Every refusal of a type rule, as a Builder raises it: its class, and its exact message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poot.dtypes import bool_, f16, f32, i8, i32, u32
from poot.errors import ArgumentError, ArgumentTypeError, BuilderError, DTypeError, ShapeError
from poot.trace.builder import Builder
from poot.trace.graph import Literal
from tests.errors.builder_scene import LIMITS, Scene, body
from tests.messages import without_line


def _while_of_a_vector(s: Scene) -> None:
    b = Builder(LIMITS)
    x = b.input("x", bool_[1])
    b.emit("while_loop", (x,), {"condition_consts": 0, "body_consts": 0}, (body(bool_[1]), body(bool_[1])))


CASES: list[tuple[type[Exception], str, Callable[[Scene], Any]]] = [
    (ArgumentTypeError, "primitive: int given, expected a name", lambda s: s.b.emit(3, ())),  # type: ignore[arg-type]
    (ArgumentTypeError, "neg: inputs: Tracer given, expected a tuple or list", lambda s: s.b.emit("neg", s.x)),  # type: ignore[arg-type]
    (ArgumentTypeError, "neg: params: int given, expected a mapping", lambda s: s.b.emit("neg", (s.x,), 3)),  # type: ignore[arg-type]
    (
        ArgumentTypeError,
        "cond: regions: Builder given, expected finished graphs",
        lambda s: s.b.emit("cond", (s.c,), {}, (s.b.region(), s.b.region())),  # type: ignore[arg-type]
    ),
    (
        ArgumentTypeError,
        "reshape: shape: set given, expected plain data: numbers, str, dtypes, tuples",
        lambda s: s.b.emit("reshape", (s.x,), {"shape": {6}}),
    ),
    (ArgumentError, "add: number of operands: 1 is not valid, expected 2", lambda s: s.b.emit("add", (s.x,))),
    (
        DTypeError,
        (
            "add: operand 2: dtype i32, expected f32, as operand 1\n"
            "  Remedy: cast one of them; primitives take equal dtypes."
        ),
        lambda s: s.b.emit("add", (s.x, s.i)),
    ),
    (DTypeError, "sqrt: operand 1: dtype i32, expected one of bf16, f16, f32, f64", lambda s: s.b.emit("sqrt", (s.i,))),
    (
        ShapeError,
        "add: operand 2: shape (3,), expected (2, 3), as operand 1, or ()",
        lambda s: s.b.emit("add", (s.x, s.s)),
    ),
    (
        ArgumentError,
        "neg: parameter: 'axis' is not valid, expected one of its parameters (none)",
        lambda s: s.b.emit("neg", (s.x,), {"axis": 0}),
    ),
    (
        ArgumentError,
        "reshape: parameters: () is not valid, expected also 'shape'",
        lambda s: s.b.emit("reshape", (s.x,)),
    ),
    (
        ArgumentError,
        "neg: number of regions: 1 is not valid, expected 0",
        lambda s: s.b.emit("neg", (s.x,), {}, (body(),)),
    ),
    (DTypeError, "select: operand 1: dtype i32, expected bool", lambda s: s.b.emit("select", (s.i, s.x, s.x))),
    (
        ArgumentTypeError,
        "cast: dtype: 'f32' given, expected a dtype",
        lambda s: s.b.emit("cast", (s.x,), {"dtype": "f32"}),
    ),
    (
        ArgumentError,
        "reduce_sum: axes: (1, 0) is not valid, expected distinct ascending axes below 2",
        lambda s: s.b.emit("reduce_sum", (s.x,), {"axes": (1, 0)}),
    ),
    (
        ArgumentError,
        "reduce_max: axes: (-1,) is not valid, expected ints of at least 0",
        lambda s: s.b.emit("reduce_max", (s.x,), {"axes": (-1,)}),
    ),
    (
        ShapeError,
        "broadcast: shape (2, 3), expected extent 1 or 4 on axis 1",
        lambda s: s.b.emit("broadcast", (s.x,), {"shape": (2, 4), "dims": (0, 1)}),
    ),
    (
        ShapeError,
        "reshape: shape (4, 2), expected 6 elements, as (2, 3) has",
        lambda s: s.b.emit("reshape", (s.x,), {"shape": (4, 2)}),
    ),
    (
        ArgumentError,
        "transpose: perm: (0, 0) is not valid, expected every axis below 2 once",
        lambda s: s.b.emit("transpose", (s.x,), {"perm": (0, 0)}),
    ),
    (
        ArgumentError,
        "slice: start and limit: ((0, 2), (2, 4)) is not valid, expected start <= limit <= (2, 3)",
        lambda s: s.b.emit("slice", (s.x,), {"start": (0, 2), "limit": (2, 4), "step": (1, 1)}),
    ),
    (
        ArgumentError,
        "slice: step: (1, 0) is not valid, expected ints of at least 1",
        lambda s: s.b.emit("slice", (s.x,), {"start": (0, 0), "limit": (2, 3), "step": (1, 0)}),
    ),
    (
        ShapeError,
        "concat: operand 2: shape (3,), expected (2, 3) but for axis 0",
        lambda s: s.b.emit("concat", (s.x, s.s), {"axis": 0}),
    ),
    (
        ArgumentError,
        "concat: axis: 2 is not valid, expected an axis of a rank-2 operand, from 0",
        lambda s: s.b.emit("concat", (s.x, s.x), {"axis": 2}),
    ),
    (
        ArgumentError,
        "pad: low and high: ((-3, 0), (0, 0)) is not valid, expected no more cut than (2, 3)",
        lambda s: s.b.emit("pad", (s.x, Literal(0.0, f32)), {"low": (-3, 0), "high": (0, 0), "interior": (0, 0)}),
    ),
    (
        DTypeError,
        "gather: operand 2: dtype f32, expected one of u8, u16, u32, u64, i8, i16, i32, i64",
        lambda s: s.b.emit("gather", (s.x, s.x), {"axes": (0,), "mode": "fault"}),
    ),
    (
        ShapeError,
        "gather: indices: shape (2, 3), expected () first and 1 last, for axes=(0,) and batch=0",
        lambda s: s.b.emit("gather", (s.x, s.i), {"axes": (0,), "mode": "fault"}),
    ),
    (
        ArgumentError,
        "gather: mode: 'drop' is not valid, expected one of 'fault', 'clip', 'wrap', 'fill'",
        lambda s: s.b.emit("gather", (s.x, s.i), {"axes": (0,), "mode": "drop"}),
    ),
    (
        ShapeError,
        "dot_general: operand 2: shape (3,), expected extent 2 on axis 0, as axis 0 of operand 1 ((2, 3))",
        lambda s: s.b.emit(
            "dot_general",
            (s.x, s.s),
            {"contract": ((0,), (0,)), "batch": ((), ()), "accumulate": f32, "dtype": f32},
        ),
    ),
    (
        DTypeError,
        "dot_general: accumulate: dtype f16, expected one of f32, f64",
        lambda s: s.b.emit(
            "dot_general",
            (s.x, s.s),
            {"contract": ((1,), (0,)), "batch": ((), ()), "accumulate": f16, "dtype": f32},
        ),
    ),
    # regions
    (
        ArgumentError,
        "cond: inputs of body: number of values: 1 is not valid, expected 0",
        lambda s: s.b.emit("cond", (s.c,), {}, (body(f32[1]), body(f32[1]))),
    ),
    (
        DTypeError,
        "cond: operand 1: value 0: dtype f32, expected bool",
        lambda s: s.b.emit("cond", (s.x,), {}, (body(), body())),
    ),
    (
        ShapeError,
        "while_loop: result of body: value 0: shape (1,), expected ()",
        _while_of_a_vector,
    ),
    # bits, windows, orders
    (
        DTypeError,
        "bitcast: dtype: dtype f16, expected one of u32, i32, f32",
        lambda s: s.b.emit("bitcast", (s.x,), {"dtype": f16}),
    ),
    (
        DTypeError,
        "iota: dtype: dtype bool, expected one of u8, u16, u32, u64, i8, i16, i32, i64, bf16, f16, f32, f64",
        lambda s: s.b.emit("iota", (), {"dtype": bool_, "shape": (2,), "axis": 0}),
    ),
    (
        ArgumentError,
        "iota: axis: 0 is not valid, expected an axis of a rank-0 operand, from 0",
        lambda s: s.b.emit("iota", (), {"dtype": f32, "shape": (), "axis": 0}),
    ),
    (
        ArgumentError,
        "dynamic_slice: number of operands: 2 is not valid, expected 3",
        lambda s: s.b.emit("dynamic_slice", (s.x, Literal(0, i32)), {"sizes": (1, 1)}),
    ),
    (
        ArgumentError,
        "dynamic_slice: sizes: (3, 1) is not valid, expected at most (2, 3)",
        lambda s: s.b.emit("dynamic_slice", (s.x, Literal(0, i32), Literal(0, i32)), {"sizes": (3, 1)}),
    ),
    (
        DTypeError,
        (
            "dynamic_slice: operand 3: dtype i8, expected i32, as operand 2\n"
            "  Remedy: cast one of them; primitives take equal dtypes."
        ),
        lambda s: s.b.emit("dynamic_slice", (s.x, Literal(0, i32), Literal(0, i8)), {"sizes": (1, 1)}),
    ),
    (
        ShapeError,
        "dynamic_update_slice: operand 2: shape (3,), expected a shape within (2, 3)",
        lambda s: s.b.emit("dynamic_update_slice", (s.x, s.s, Literal(0, i32), Literal(0, i32))),
    ),
    (
        ArgumentTypeError,
        "cumsum: reverse: 0 given, expected a bool",
        lambda s: s.b.emit("cumsum", (s.x,), {"axis": 0, "reverse": 0}),
    ),
    (
        ShapeError,
        "argmax: shape (0, 2), expected at least one element along axis 0",
        lambda s: s.b.emit(
            "argmax", s.b.emit("iota", (), {"dtype": f32, "shape": (0, 2), "axis": 0}), {"axis": 0, "dtype": i32}
        ),
    ),
    (
        DTypeError,
        "argmin: dtype: dtype f32, expected one of i32, i64",
        lambda s: s.b.emit("argmin", (s.x,), {"axis": 0, "dtype": f32}),
    ),
    (
        ShapeError,
        "sort: operand 2: shape (3,), expected (2, 3), as operand 1",
        lambda s: s.b.emit("sort", (s.x, s.s), {"axis": 0, "descending": False}),
    ),
    (
        ArgumentError,
        "top_k: k: 4 is not valid, expected an int between 0 and the last extent of (2, 3)",
        lambda s: s.b.emit("top_k", (s.x,), {"k": 4}),
    ),
    (
        ShapeError,
        "scatter_add: operand 3: shape (3,), expected (1, 3)",
        lambda s: s.b.emit("scatter_add", (s.x, *s.column(), s.s), {"axes": (0,), "mode": "drop"}),
    ),
    (
        ArgumentError,
        "scatter: mode: 'fill' is not valid, expected one of 'fault', 'clip', 'wrap', 'drop'",
        lambda s: s.b.emit("scatter", (s.x, *s.column(), s.x), {"axes": (0,), "mode": "fill"}),
    ),
    (
        ArgumentError,
        "gather: fill: None is not valid, expected a number, with mode='fill'",
        lambda s: s.b.emit("gather", (s.x, *s.column()), {"axes": (0,), "mode": "fill"}),
    ),
    (
        ArgumentError,
        "gather: axes and batch: ((0,), 1) is not valid, expected axes after the batch axes",
        lambda s: s.b.emit("gather", (s.x, *s.column()), {"axes": (0,), "mode": "clip", "batch": 1}),
    ),
    (
        DTypeError,
        "random_bits: operand 1: dtype f32, expected u32",
        lambda s: s.b.emit("random_bits", (s.s,), {"shape": (), "dtype": u32}),
    ),
    (
        ShapeError,
        "random_bits: operand 1: shape (3,), expected (2,), a key",
        lambda s: s.b.emit("random_bits", s.b.emit("cast", (s.s,), {"dtype": u32}), {"shape": (), "dtype": u32}),
    ),
]


@pytest.mark.parametrize(("error", "message", "call"), CASES, ids=range(len(CASES)))
def test_message(error: type[Exception], message: str, call: Callable[[Scene], Any]) -> None:
    scene = Scene()
    with pytest.raises(BuilderError) as caught:
        call(scene)
    assert isinstance(caught.value, error)
    assert without_line(caught.value) == message
    scene.b.finish(scene.x)
