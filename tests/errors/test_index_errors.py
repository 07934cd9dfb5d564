"""Messages about what stands between the brackets of `x[…]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import bool_, f32, i32
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConcretizationError,
    IndexFault,
    PootError,
    ShapeError,
)
from poot.trace import ops
from tests.errors.messages import message
from tests.unit.ops_support import tracer

KINDS = "expected ints, slices, None, `...`, or arrays of integers or bools"
KEYS: list[tuple[Any, type[PootError], str]] = [
    (2, IndexFault, "index: index 2 is out of range for axis 0 of extent 2"),
    (-3, IndexFault, "index: index -3 is out of range for axis 0 of extent 2"),
    ((0, 3), IndexFault, "index: index 3 is out of range for axis 1 of extent 3"),
    ([0, 5], IndexFault, "index: index 5 is out of range for axis 0 of extent 2"),
    ((0, 0, 0), ShapeError, "index: shape (2, 3), expected an array of 3 or more axes, one for each index"),
    ((..., ...), ArgumentError, "index: 'two `...`' is not valid, expected at most one"),
    (1.5, ArgumentTypeError, f"index: float given, {KINDS}"),
    ("a", ArgumentTypeError, f"index: str given, {KINDS}"),
    (True, ArgumentTypeError, f"index: a bool given, {KINDS}"),
    (np.ones(2), ArgumentTypeError, f"index: an array of f64 given, {KINDS}"),
    (["a"], ArgumentTypeError, f"index: a list of other things given, {KINDS}"),
    (slice(None, None, 0), ArgumentError, "step of a slice: 0 is not valid, expected another int"),
    (slice("a"), ArgumentTypeError, "slice: slice(None, 'a', None) given, expected ints or None as bounds"),
    ([True], ShapeError, "bool index: shape (1,), expected (2,), the axes that it covers"),
]


@pytest.mark.parametrize(("key", "error", "text"), KEYS)
def test_keys_that_do_not_fit(key: Any, error: type[PootError], text: str) -> None:
    x = tracer(f32[2, 3])
    assert message(lambda: x[key], error) == text
    assert message(lambda: x.at[key].set(0), error) == text


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x, n: x[:n], "`n`, a Python number,"),
        (lambda x, n: x[n : n + 2], "`n`, a Python number,"),
        (lambda x, n: x[2 : n + 2], "a result of Python numbers"),
        (lambda x, n: x[::n], "`n`, a Python number,"),
        (lambda x, n: x.at[:n].set(0.0), "`n`, a Python number,"),
    ],
)
def test_bounds_of_slices_that_are_passed_numbers(function: Callable[..., Any], what: str) -> None:
    assert message(lambda: poot.trace(function)(np.ones(4, np.float32), 3), ConcretizationError) == (
        f"{what} has no value while <lambda> is being traced, so it cannot be used as a bound of a slice\n"
        '  Remedy: make it static with static_argnames="n", or read a part of a fixed size with '
        "`ops.dynamic_slice(x, starts, sizes)`, or change one with `x.at[start + ops.arange(size)].set(v)`."
    )


def test_what_to_write_for_a_part_that_begins_anywhere() -> None:
    read = poot.trace(lambda x, n: ops.dynamic_slice(x, [n], [2]))
    write = poot.trace(lambda x, n: x.at[n + ops.arange(2)].set(0.0))
    static = poot.trace(static_argnames="n")(lambda x, n: x[n : n + 2])
    x = np.arange(4, dtype=np.float32)
    assert np.asarray(read(x, 1)).tolist() == np.asarray(static(x, 1)).tolist() == [1, 2]
    assert np.asarray(write(x, 1)).tolist() == [0, 0, 0, 3]
    with pytest.raises(ArgumentTypeError, match="expected ints or None as bounds"):
        poot.trace(lambda x, s: x[:s])(x, 1.5)


def test_traced_keys_that_make_shapes() -> None:
    x = tracer(f32[4])
    n, mask = x.builder.input("n", i32[()]), x.builder.input("mask", bool_[4])
    assert message(lambda: x[:n], ConcretizationError) == (
        "`n`, i32[], has no value while f is being traced, so it cannot be used as a bound of a slice\n"
        "  Remedy: read a part of a fixed size with `ops.dynamic_slice(x, starts, sizes)`, or change one with "
        "`x.at[start + ops.arange(size)].set(v)`."
    )
    assert message(lambda: x[mask], ConcretizationError) == (
        "`mask`, bool[4], has no value while f is being traced, so it cannot be used as a bool index, whose result has "
        "as many elements as the mask has true ones\n"
        "  Remedy: use `ops.where(mask, x, other)` or `x.at[mask].set(v)`, which keep the shape, or "
        "`x[ops.argsort(~mask)[:n]]` for n elements, those of the mask first; masks that are captured arrays or static "
        "arguments are known, and work."
    )
