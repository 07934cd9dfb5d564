"""Intervals of floats: what a device may have for a value of the oracle, and what maps make of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poot.dtypes import DType, bf16, f16, f32, f64
from poot.trace.graph import Equation
from poot.trace.primitives import lookup
from poot.trace.rounding import round_once

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]

#: Bits of precision and the exponent of the least normal number.
FORMATS: dict[DType, tuple[int, int]] = {bf16: (8, -126), f16: (11, -14), f32: (24, -126), f64: (53, -1022)}


@dataclass(frozen=True, slots=True)
class Bound:
    """A value of the oracle and, for floats, what a device may have instead: low … high, or with `wild` anything.

    Where the oracle has NaN and `wild` does not hold, a device has NaN too.  `product` says that the value may not have
    been rounded yet where it is used.
    """

    value: Array
    low: Array
    high: Array
    wild: Array
    product: bool = False

    @staticmethod
    def of(value: Array) -> Bound:
        """Exactly a value."""
        wide = value.astype(np.float64) if is_float(value) else value
        return Bound(value, wide, wide, np.zeros(value.shape, np.bool_))

    @property
    def point(self) -> Array:
        """Where nothing but the oracle's value is allowed."""
        return ~self.wild & ((self.low == self.high) | np.isnan(self.low))

    def allows(self, actual: Array) -> Array:
        """Which elements of a device's array are allowed."""
        if not is_float(self.value):
            return actual == self.value
        wide = actual.astype(np.float64)
        inside = (self.low <= wide) & (wide <= self.high)
        return self.wild | inside | (np.isnan(wide) & np.isnan(self.value.astype(np.float64)))


def is_float(array: Array) -> bool:
    return array.dtype.kind not in "biu"


# --- formats ----------------------------------------------------------------------------------------------------------


def dtype_of(array: Array) -> DType:
    """The float dtype of an array."""
    return next(dtype for dtype in FORMATS if dtype.dtype == array.dtype)


def quantum(x: Array, dtype: DType) -> Array:
    """The distance between the numbers of a dtype around each x."""
    precision, least = FORMATS[dtype]
    exponent = np.maximum(np.frexp(np.where(np.isfinite(x), x, 0.0))[1] - 1, least)
    return np.ldexp(1.0, exponent - precision + 1)


def settled(value: Array, low: Array, high: Array, wild: Array, certain: Array, dtype: DType) -> Bound:
    """Bounds in order: endpoints that are no numbers, or both infinite, allow anything, unless NaN is `certain`."""
    value64 = value.astype(np.float64)
    nan = np.isnan(value64) & certain & ~wild
    # Past the range a device may have either the last number or infinity.
    greatest, least = float(dtype.max), float(dtype.min)
    low = np.where(low < least, -np.inf, np.where((low > greatest) & (low < np.inf), greatest, low))
    high = np.where(high > greatest, np.inf, np.where((high < least) & (high > -np.inf), least, high))
    lost = np.isnan(low) | np.isnan(high) | (np.isneginf(low) & np.isposinf(high)) | np.isnan(value64)
    # A device may have what the oracle has.
    low, high = np.fmin(low, value64), np.fmax(high, value64)
    wild = np.asarray(wild | (lost & ~nan))
    low, high = (np.where(nan, np.nan, np.where(wild, end, x)) for end, x in ((-np.inf, low), (np.inf, high)))
    return Bound(value, low, high, wild)


# --- maps -------------------------------------------------------------------------------------------------------------


def mapped(equation: Equation, operands: list[Bound], value: Array) -> Bound:
    """What a map gives for operands in their intervals, off by as many numbers of its dtype as its entry allows."""
    name, dtype = equation.primitive, equation.outputs[0].dtype
    wild = np.zeros(value.shape, np.bool_)
    points = np.ones(value.shape, np.bool_)
    nans = np.zeros(value.shape, np.bool_)
    for operand in operands:
        if is_float(operand.value):
            wild, points = wild | operand.wild, points & operand.point
            nans = nans | (np.isnan(operand.low) & ~operand.wild)
    # A power of 1, and to 0, is 1 even for NaN: only points say what it is.
    certain = points if name == "pow" else points | nans
    low, high = _ends(name, operands)
    low, high = (round_once(np.asarray(x, np.float64), dtype).astype(np.float64) for x in (low, high))
    ulps = 0.0 if lookup(name).numerics.exact else lookup(name).numerics.ulps
    if ulps:
        # float64 rounds the endpoints itself.
        ulps += dtype is f64
        greatest = float(dtype.max)
        low = np.where(points & (low == -np.inf), low, np.clip(low, None, greatest) - ulps * quantum(low, dtype))
        high = np.where(points & (high == np.inf), high, np.clip(high, -greatest, None) + ulps * quantum(high, dtype))
    product = name == "mul" or (name == "neg" and operands[0].product)
    return replace(settled(value, low, high, wild, certain, dtype), product=product)


_erf = np.frompyfunc(math.erf, 1, 1)
_INCREASING: dict[str, Callable[..., Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "cast": lambda x: x,
    "max": np.maximum,
    "min": np.minimum,
    "add": np.add,
}
_CORNERS: dict[str, Callable[..., Any]] = {
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "floor_div": np.floor_divide,
    "rem": np.remainder,
}


def _ends(name: str, operands: list[Bound]) -> Pair:
    """The least and greatest values of a real function on intervals; NaN where it is not known to have any."""
    lows, highs = [operand.low for operand in operands], [operand.high for operand in operands]
    if name in _INCREASING:
        function = _INCREASING[name]
        return function(*lows), function(*highs)
    if name in _CORNERS:
        function = _CORNERS[name]
        corners = [np.asarray(function(*place)) for place in itertools.product(*zip(lows, highs, strict=True))]
        found = np.minimum.reduce(corners), np.maximum.reduce(corners)
        whole = _whole(name, operands)
        return np.where(whole, found[0], np.nan), np.where(whole, found[1], np.nan)
    return _UNARY[name](lows[0], highs[0])


def _whole(name: str, operands: list[Bound]) -> Array:
    """Where the corners of a box hold the extremes of a function: it is monotone in each operand there."""
    points = np.logical_and(*(operand.point for operand in operands))
    first, second = operands
    if name in ("sub", "mul"):
        return np.ones(points.shape, np.bool_)
    if name == "div":
        return points | (second.low > 0) | (second.high < 0)
    if name == "pow":
        return points | (first.low > 0)
    if name == "atan2":
        return points | (second.low > 0) | (first.low > 0) | (first.high < 0)
    return points


def _absolute(low: Array, high: Array) -> Pair:
    ends = np.abs(low), np.abs(high)
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def _wave(function: Callable[[Array], Array]) -> Callable[[Array, Array], Pair]:
    def ends(low: Array, high: Array) -> Pair:
        centre = np.where(low == high, low, (low + high) / 2)
        # The centre is rounded: of neighbouring numbers it is one.
        radius = np.where(low == high, 0.0, np.maximum(centre - low, high - centre))
        middle = function(centre)
        return np.maximum(middle - radius, -1.0), np.minimum(middle + radius, 1.0)

    return ends


def _falling(function: Callable[[Array], Array]) -> Callable[[Array, Array], Pair]:
    """Decreasing above 0, and below it where it is defined; around 0 nothing is known."""

    def ends(low: Array, high: Array) -> Pair:
        known = (low == high) | (low > 0) | (high < 0)
        return np.where(known, function(high), np.nan), np.where(known, function(low), np.nan)

    return ends


_UNARY: dict[str, Callable[[Array, Array], Pair]] = {
    "neg": lambda low, high: (-high, -low),
    "abs": _absolute,
    "sin": _wave(np.sin),
    "cos": _wave(np.cos),
    "recip": _falling(lambda x: 1.0 / x),
    "rsqrt": _falling(lambda x: 1.0 / np.sqrt(x)),
}
