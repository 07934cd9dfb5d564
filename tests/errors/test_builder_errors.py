"""Every refusal of a Builder: its class, and its exact message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.dtypes import bool_, f16, f32, i8, i32
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    BuilderError,
    DTypeError,
    DuplicateNameError,
    FinishedBuilderError,
    ForeignHandleError,
    LimitError,
    OverflowArgumentError,
    ShapeError,
    SourceLocation,
    UnsupportedDTypeError,
)
from poot.trace.builder import Builder
from poot.trace.graph import Graph, Literal, Value
from poot.trace.limits import TraceLimits

LIMITS = TraceLimits(max_values=8, max_eqns=3, max_literal_bytes=16, max_owned_bytes=1 << 10, max_tokens=1)


class Scene:
    """A builder with x: f32[2,3], i: i32[2,3], c: bool[], a state s: f32[3], and a foreign handle."""

    def __init__(self) -> None:
        self.b = Builder(LIMITS)
        self.x = self.b.input("x", f32[2, 3])
        self.i = self.b.constant("i", i32[2, 3])
        self.c = self.b.input("c", bool_[()])
        self.s = self.b.state("s", f32[3])
        self.foreign = Builder(LIMITS).input("other", f32[2, 3])

    def finished(self) -> Builder:
        self.b.finish(self.x)
        return self.b


def body(*specs: Any) -> Graph:
    b = Builder(LIMITS, name="body")
    return b.finish(tuple(b.input(f"in{number}", spec) for number, spec in enumerate(specs)))


def _region_using(s: Scene) -> Builder:
    region = s.b.region()
    region.emit("neg", (s.x,))
    return region


def _while_of_a_vector(s: Scene) -> None:
    b = Builder(LIMITS)
    x = b.input("x", bool_[1])
    b.emit("while_loop", (x,), {"condition_consts": 0, "body_consts": 0}, (body(bool_[1]), body(bool_[1])))


FOREIGN = "\n  Remedy: make every operand with the builder that will finish the graph."
FINISHED = "this builder has already finished its graph\n  Remedy: make a new Builder for a new graph."
HANDLE = "expected a handle of this builder, a Literal, or a NumPy scalar"

CASES: list[tuple[type[Exception], str | None, Callable[[Scene], Any]]] = [
    (ArgumentTypeError, "Builder: NoneType given, expected TraceLimits", lambda s: Builder(None)),  # type: ignore[arg-type]
    # variables
    (
        DuplicateNameError,
        "the name 'x' is already used by an input of this graph\n  Remedy: choose another name.",
        lambda s: s.b.state("x", f32[1]),
    ),
    (
        DuplicateNameError,
        "the name 'i' is already used by a constant of this graph\n  Remedy: choose another name.",
        lambda s: s.b.input("i", f32[1]),
    ),
    (
        DuplicateNameError,
        "the name 's' is already used by a state of this graph\n  Remedy: choose another name.",
        lambda s: s.b.constant("s", f32[1]),
    ),
    (ArgumentTypeError, "name of an input: int given, expected str", lambda s: s.b.input(3, f32[1])),  # type: ignore[arg-type]
    (
        ArgumentTypeError,
        "constant 'w': ndarray given, expected a spec such as f32[8, 64]",
        lambda s: s.b.constant("w", np.ones(3)),  # type: ignore[arg-type]
    ),
    (ArgumentTypeError, "state 't': DType given, expected a spec such as f32[8, 64]", lambda s: s.b.state("t", f32)),  # type: ignore[arg-type]
    (ArgumentError, "own: nbytes: -1 is not valid, expected an int of at least 0", lambda s: s.b.own(-1)),
    (
        ArgumentError,
        "region: \"state 't'\" is not valid, expected inputs only",
        lambda s: s.b.region().state("t", f32[1]),
    ),
    # operands
    (
        ForeignHandleError,
        "operand 2, Tracer(other: f32[2,3]), belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.emit("add", (s.x, s.foreign)),
    ),
    (
        ForeignHandleError,
        "operand 1, %9: f32[2,3], belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.emit("neg", (Value(9, f32[2, 3]),)),
    ),
    (
        ForeignHandleError,
        "operand 1, %0: f32[3,2], belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.emit("neg", (Value(0, f32[3, 2]),)),
    ),
    (
        ForeignHandleError,
        "operand 1, %-1: f32[3], belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.emit("neg", (Value(-1, f32[3]),)),
    ),
    (
        ForeignHandleError,
        "operand 1, Tracer(in: f32[2]), belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.emit("neg", (s.b.region().input("in", f32[2]),)),
    ),
    (
        ArgumentTypeError,
        f"operand 2: float given, {HANDLE}\n  Remedy: give Python numbers a dtype: Literal(2.0, f32).",
        lambda s: s.b.emit("add", (s.x, 2.0)),  # type: ignore[list-item]
    ),
    (
        ArgumentTypeError,
        (
            f"operand 2: ndarray given, {HANDLE}\n"
            "  Remedy: make it a constant, w = builder.constant(name, spec), and bind it when the graph runs."
        ),
        lambda s: s.b.emit("add", (s.x, np.ones((2, 3), np.float32))),  # type: ignore[list-item]
    ),
    (ArgumentTypeError, f"operand 1: str given, {HANDLE}", lambda s: s.b.emit("neg", ("x",))),  # type: ignore[list-item]
    (
        UnsupportedDTypeError,
        (
            "operand 2: dtype complex64 is not supported\n"
            "  Remedy: convert it first; poot takes bool, i8 to u64, f16, bf16, f32 and f64."
        ),
        lambda s: s.b.emit("add", (s.x, np.complex64(1))),
    ),
    (
        OverflowArgumentError,
        "200 does not fit i8\n  Remedy: cast the array first, or use a value between -128 and 127.",
        lambda s: s.b.emit("neg", (Literal(200, i8),)),
    ),
    (ArgumentTypeError, "i8 literal: 1.5 given, expected an int", lambda s: s.b.emit("neg", (Literal(1.5, i8),))),
    (
        ArgumentTypeError,
        "bool literal: 1 given, expected True or False",
        lambda s: s.b.emit("not", (Literal(1, bool_),)),
    ),
    (
        OverflowArgumentError,
        (
            "an int of 1329 bits does not fit f16\n"
            "  Remedy: cast the array first, or use a value between -65504.0 and 65504.0."
        ),
        lambda s: s.b.emit("neg", (Literal(10**400, f16),)),
    ),
    # equations
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
    # limits
    (
        LimitError,
        "max_values: 9 is past the limit of 8\n  Remedy: raise max_values in the limits, or make the program smaller.",
        lambda s: [s.b.input(f"v{number}", f32[1]) for number in range(9)],
    ),
    (
        LimitError,
        "max_eqns: 4 is past the limit of 3\n  Remedy: raise max_eqns in the limits, or make the program smaller.",
        lambda s: [s.b.emit("neg", (s.x,)) for _ in range(9)],
    ),
    # finishing
    (FinishedBuilderError, FINISHED, lambda s: s.finished().input("y", f32[1])),
    (FinishedBuilderError, FINISHED, lambda s: s.finished().emit("neg", (s.x,))),
    (FinishedBuilderError, FINISHED, lambda s: s.finished().finish(s.x)),
    (FinishedBuilderError, FINISHED, lambda s: s.finished().region()),
    (FinishedBuilderError, FINISHED, lambda s: s.finished().own(1)),
    (
        ForeignHandleError,
        "output y.0, Tracer(other: f32[2,3]), belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.finish({"x": s.x, "y": [s.foreign]}),
    ),
    (ArgumentTypeError, f"output 1: object given, {HANDLE}", lambda s: s.b.finish((s.x, object()))),
    (ArgumentTypeError, "outputs: dict key (1,): tuple given, expected str or int", lambda s: s.b.finish({(1,): s.x})),
    (OverflowArgumentError, None, lambda s: s.b.finish(1 << 40)),
    (
        ArgumentTypeError,
        "updates: list given, expected a mapping from names of states",
        lambda s: s.b.finish(s.x, [s.s]),
    ),  # type: ignore[arg-type]
    (
        ArgumentError,
        "update: 'x' is not valid, expected the name of a state ('s')",
        lambda s: s.b.finish(s.x, updates={"x": s.x}),
    ),
    (
        DTypeError,
        "update of state 's': dtype i32, expected f32",
        lambda s: s.b.finish(s.x, updates={"s": Literal(1, i32)}),
    ),
    (
        ShapeError,
        "update of state 's': shape (2, 3), expected (3,)",
        lambda s: s.b.finish(s.x, updates={"s": s.x}),
    ),
    (
        ForeignHandleError,
        "update of state 's', Tracer(other: f32[2,3]), belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.finish(s.x, updates={"s": s.foreign}),
    ),
    (
        ArgumentError,
        "captures: () is not valid, expected also Tracer(x: f32[2,3])",
        lambda s: _region_using(s).finish((), captures=()),
    ),
    (
        ForeignHandleError,
        "Tracer(other: f32[2,3]) belongs to another builder or trace" + FOREIGN,
        lambda s: s.b.region().capture(s.foreign),
    ),
]


@pytest.mark.parametrize(("error", "message", "call"), CASES, ids=range(len(CASES)))
def test_message(error: type[Exception], message: str | None, call: Callable[[Scene], Any]) -> None:
    with pytest.raises(BuilderError) as caught:
        call(Scene())
    assert isinstance(caught.value, error)
    if message is not None:
        assert str(caught.value) == message


def test_errors_name_the_users_line() -> None:
    s = Scene()
    with pytest.raises(BuilderError) as caught:
        s.b.emit("add", (s.x, s.i), where=SourceLocation("model.py", 3))
    assert str(caught.value) == (
        "add: operand 2: dtype i32, expected f32, as operand 1\n"
        "  at model.py:3\n"
        "  Remedy: cast one of them; primitives take equal dtypes."
    )


def test_a_builder_is_usable_after_a_refusal() -> None:
    for error, _, call in CASES:
        s = Scene()
        with pytest.raises(BuilderError):
            call(s)
        if error not in (FinishedBuilderError, LimitError):
            before = s.b.emit("neg", (s.x,))
            assert s.b.finish(before).value_count == 5


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"max_values": 0}, ArgumentError, "max_values: 0 is not valid, expected a positive int"),
        ({"max_eqns": -1}, ArgumentError, "max_eqns: -1 is not valid, expected a positive int"),
        ({"max_tokens": True}, ArgumentTypeError, "max_tokens: bool given, expected a positive int"),
        ({"max_owned_bytes": float("inf")}, ArgumentTypeError, "max_owned_bytes: float given, expected a positive int"),
        ({"max_literal_bytes": None}, ArgumentTypeError, "max_literal_bytes: NoneType given, expected a positive int"),
    ],
)
def test_limits_are_positive_ints(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    names = ("max_values", "max_eqns", "max_literal_bytes", "max_owned_bytes", "max_tokens")
    with pytest.raises(error) as caught:
        TraceLimits(**(dict.fromkeys(names, 1) | changes))
    assert str(caught.value) == message


def test_limits_have_no_defaults() -> None:
    with pytest.raises(TypeError):
        TraceLimits(max_values=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Builder()  # type: ignore[call-arg]
