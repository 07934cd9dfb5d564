"""Exact arithmetic on floats for references: fractions, rounded once by integer arithmetic alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from poot.dtypes import DType, bf16, f16, f32, f64

#: Bits of precision and the exponent of the least normal number.
FORMATS: dict[DType, tuple[int, int]] = {bf16: (8, -126), f16: (11, -14), f32: (24, -126), f64: (53, -1022)}


def quantum(q: Fraction, dtype: DType) -> Fraction:
    """The distance between the numbers of `dtype` around q."""
    precision, least = FORMATS[dtype]
    if q == 0:
        exponent = least
    else:
        top, bottom = abs(q.numerator), q.denominator
        exponent = top.bit_length() - bottom.bit_length()
        if Fraction(2) ** exponent > abs(q):
            exponent -= 1
    return Fraction(2) ** (max(exponent, least) - precision + 1)


def round_fraction(q: Fraction, dtype: DType, negative_zero: bool = False) -> float:
    """q rounded to nearest even in `dtype`; infinite past its range; the sign of q, or the one asked for, on 0."""
    _, least = FORMATS[dtype]
    step = quantum(q, dtype)
    steps = round(q / step)  # Fraction rounds halves to even
    result = steps * step
    if abs(result) >= Fraction(2) ** (2 - least):
        return math.inf if q > 0 else -math.inf
    if result == 0:
        return -0.0 if q < 0 or negative_zero else 0.0
    return float(result)


def mp_fraction(x: Any) -> Fraction:
    """An mpmath number as an exact fraction."""
    sign, mantissa, exponent, _ = x._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def ulps(actual: np.ndarray, expected: np.ndarray, dtype: DType) -> np.ndarray:
    """How many numbers of `dtype` lie between two arrays of it; 0 for two NaNs, infinite for one."""
    with np.errstate(all="ignore"):
        wide = actual.astype(np.float64), expected.astype(np.float64)
    distance = [
        math.inf
        if math.isnan(a) != math.isnan(b)
        else 0.0
        if math.isnan(a)
        else abs(_order(a, dtype) - _order(b, dtype))
        for a, b in zip(wide[0].flat, wide[1].flat, strict=True)
    ]
    return np.array(distance, np.float64).reshape(actual.shape)


def _order(x: float, dtype: DType) -> int:
    """The number of x among all numbers of `dtype`, counted from zero; -0.0 comes before 0.0."""
    bits = int(np.array(x).astype(dtype.dtype).view(f"u{dtype.itemsize}"))
    magnitude = bits & ((1 << (dtype.bits - 1)) - 1)
    return -1 - magnitude if bits >> (dtype.bits - 1) else magnitude


mpmath.mp.prec = 140
