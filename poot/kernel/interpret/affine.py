"""Integers that step evenly along the axes of a space: kept as their steps for as long as the arithmetic allows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from poot.dtypes import INTEGERS
from poot.kernel.interpret.space import Array, Space

_RANGES = {dtype.dtype: (int(dtype.min), int(dtype.max)) for dtype in INTEGERS}


class Affine:
    """An integer that steps evenly along the axes of a space: within its dtype, and not the same on all lanes."""

    __slots__ = ("_array", "dtype", "high", "low", "offset", "space", "steps")

    def __init__(
        self, space: Space, offset: int, steps: tuple[int, ...], low: int, high: int, dtype: np.dtype[Any]
    ) -> None:
        self.space = space
        self.offset = offset
        self.steps = steps
        self.low = low
        self.high = high
        self.dtype = dtype
        self._array: Array | None = None

    def array(self) -> Array:
        """The value of every lane."""
        if self._array is None:
            self._array = self.space.ramp(self.offset, self.steps, self.dtype)
        return self._array


#: What an expression evaluates to: a NumPy scalar or array, or an affine number.
Value: TypeAlias = "Affine | Array"


def as_array(value: Value) -> Array:
    """The value as NumPy has it."""
    return value.array() if isinstance(value, Affine) else value


def affine(space: Space, offset: int, steps: tuple[int, ...], dtype: np.dtype[Any]) -> Value | None:
    """An affine number, a NumPy scalar where no axis has a step, or None where it leaves the range of its dtype."""
    low, high = span(space, offset, steps)
    least, greatest = _RANGES[dtype]
    if low < least or high > greatest:
        return None
    if low == high:
        return dtype.type(offset)
    return Affine(space, offset, steps, low, high, dtype)


def span(space: Space, offset: int, steps: tuple[int, ...]) -> tuple[int, int]:
    """The least and greatest number that the steps reach."""
    low = high = offset
    for step, count in zip(steps, space.shape, strict=True):
        if step > 0:
            high += step * (count - 1)
        else:
            low += step * (count - 1)
    return low, high


def _within(value: Affine, offset: int, steps: tuple[int, ...], low: int, high: int) -> Value | None:
    """A number of known range with the dtype of another, or None where it leaves that."""
    least, greatest = _RANGES[value.dtype]
    return None if low < least or high > greatest else Affine(value.space, offset, steps, low, high, value.dtype)


def shifted(value: Affine, by: int) -> Value | None:
    """The number plus a constant."""
    return _within(value, value.offset + by, value.steps, value.low + by, value.high + by)


def scaled(value: Affine, by: int) -> Value | None:
    """The number times a constant."""
    if not by:
        return value.dtype.type(0)
    low, high = (value.low * by, value.high * by) if by > 0 else (value.high * by, value.low * by)
    return _within(value, value.offset * by, tuple([step * by for step in value.steps]), low, high)


def added(a: Affine, b: Affine, sign: int) -> Value | None:
    """The sum of two, or their difference."""
    steps = tuple(x + sign * y for x, y in zip(a.steps, b.steps, strict=True))
    return affine(a.space, a.offset + sign * b.offset, steps, a.dtype)


def divided(value: Affine, divisor: int) -> tuple[Value, Value] | None:
    """Floor quotient and remainder, where the steps split into multiples of the divisor and a part that stays below."""
    if divisor <= 0:
        return None
    outer = tuple(step // divisor if step % divisor == 0 else 0 for step in value.steps)
    inner = tuple(0 if step % divisor == 0 else step for step in value.steps)
    first = value.offset % divisor
    low, high = span(value.space, first, inner)
    if low < 0 or high >= divisor:
        return None
    quotient = affine(value.space, value.offset // divisor, outer, value.dtype)
    remainder = affine(value.space, first, inner, value.dtype)
    return None if quotient is None or remainder is None else (quotient, remainder)


# --- operations -----------------------------------------------------------------------------------------------------


def convert(value: Affine, dtype: np.dtype[Any]) -> Value | None:
    """The number in another integer dtype, or None where it wraps."""
    return affine(value.space, value.offset, value.steps, dtype)


def binary(name: str, a: Value, b: Value) -> Value | None:
    """The operation where one operand at least is affine, or None where the result is neither affine nor uniform."""
    if isinstance(a, Affine):
        if isinstance(b, Affine):
            return added(a, b, 1 if name == "add" else -1) if name in ("add", "sub") else _compared(name, a, b)
        return None if b.ndim else with_number(name, a, int(b))
    assert isinstance(b, Affine)
    if a.ndim:
        return None
    number = int(a)
    if name == "sub":
        steps = tuple(-step for step in b.steps)
        return affine(b.space, number - b.offset, steps, b.dtype)
    return with_number(_FLIPPED[name], b, number) if name in _FLIPPED else None


_BOOLS: tuple[Any, Any] = (np.bool_(False), np.bool_(True))
_FLIPPED = {"add": "add", "mul": "mul", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def with_number(name: str, value: Affine, number: int) -> Value | None:
    """The operation on an affine number and a constant, as `binary` gives it."""
    match name:
        case "add":
            return shifted(value, number)
        case "sub":
            return shifted(value, -number)
        case "mul":
            return scaled(value, number)
        case "floor_div" | "rem":
            parts = divided(value, number)
            return None if parts is None else parts[name == "rem"]
        case _:
            return _ordered(name, value.low, value.high, number, number)


def _compared(name: str, a: Affine, b: Affine) -> Value | None:
    return _ordered(name, a.low, a.high, b.low, b.high)


def _ordered(name: str, low: int, high: int, other_low: int, other_high: int) -> Value | None:
    """A comparison that the ranges of its operands decide."""
    match name:
        case "lt" | "ge":
            if high < other_low or low >= other_high:
                return _BOOLS[(high < other_low) == (name == "lt")]
        case "gt" | "le":
            if low > other_high or high <= other_low:
                return _BOOLS[(low > other_high) == (name == "gt")]
        case "eq" | "ne":
            if high < other_low or low > other_high:
                return _BOOLS[name == "ne"]
        case _:
            pass
    return None
