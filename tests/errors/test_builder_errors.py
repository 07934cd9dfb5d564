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
from poot.trace.graph import Literal, Value
from poot.trace.limits import TraceLimits
from tests.errors.builder_scene import Scene
from tests.messages import without_line


def _region_using(s: Scene) -> Builder:
    region = s.b.region()
    region.emit("neg", (s.x,))
    return region


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
        "200 does not fit i8\n  Remedy: use a value between -128 and 127, or cast the array to a wider dtype.",
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
            "  Remedy: use a value between -65504.0 and 65504.0, or cast the array to a wider dtype."
        ),
        lambda s: s.b.emit("neg", (Literal(10**400, f16),)),
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
        assert without_line(caught.value) == message


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
    (name,) = changes
    remedy = f"nothing is unlimited; dataclasses.replace(TraceLimits.STANDARD, {name}=…) changes one limit."
    assert without_line(caught.value) == f"{message}\n  Remedy: {remedy}"


def test_limits_have_no_defaults() -> None:
    with pytest.raises(TypeError):
        TraceLimits(max_values=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Builder()  # type: ignore[call-arg]
