"""What casts and the rows of the scalar table mean on NumPy values, for every dtype and bit for bit.

The table's own `evaluate` rules speak of f32, f64, integers and bools; here f16 and bf16 join by computing in f32 and
rounding once, and conversions follow docs/numerics.md.  Callers silence NumPy's warnings with `np.errstate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from poot.dtypes import DType, bf16, bool_, f16, f32
from poot.errors import ArgumentError
from poot.kernel import ops

Values: TypeAlias = np.ndarray[Any, Any]

HALVES = (f16, bf16)


def evaluator(name: str, operand: DType, result: DType) -> Callable[..., Values]:
    """The meaning of a native row on operands of one dtype; a `select`'s condition is not counted among them."""
    rule = ops.lookup(name).evaluate
    if rule is None:
        raise ArgumentError(what="scalar operation", actual=name, expected="a native one; expand the kernel first")
    if name == "bitcast":
        return _bitcast(result)
    if operand not in HALVES or name == "select":
        return rule
    if result is bool_:
        return lambda *args: rule(*(arg.astype(np.float32) for arg in args))
    narrow = result.dtype
    return lambda *args: rule(*(arg.astype(np.float32) for arg in args)).astype(narrow)


def _bitcast(result: DType) -> Callable[[Values], Values]:
    return lambda value: value.view(result.dtype)


def converter(source: DType, target: DType) -> Callable[[Values], Values]:
    """The conversion of values from one dtype to another."""
    dtype = target.dtype
    if source is target:
        return lambda value: value
    if target is bool_:
        return _nonzero
    if source.is_float and target.is_integer:
        return _saturating(source, target)
    if target is bf16 and source not in (bool_, f16, f32):
        return lambda value: _to_odd(value).astype(dtype)
    if target is f16 and source is bf16:
        return lambda value: value.astype(np.float32).astype(dtype)
    return lambda value: value.astype(dtype)


def _nonzero(value: Values) -> Values:
    return cast(Values, value != value.dtype.type(0))


def _saturating(source: DType, target: DType) -> Callable[[Values], Values]:
    """Floats to integers: truncated, clamped to the range, NaN to 0."""
    low, high = int(target.min), int(target.max)
    wide = np.dtype(np.float32 if source in HALVES else source.dtype)
    above, below = wide.type(high + 1), wide.type(low)
    dtype = target.dtype

    def convert(value: Values) -> Values:
        whole = np.trunc(value.astype(wide, copy=False))
        inside = (whole >= below) & (whole < above)
        exact = np.where(inside, whole, wide.type(0)).astype(dtype)
        if np.all(inside):
            return exact
        exact = _where(whole >= above, dtype.type(high), exact)
        return _where(whole < below, dtype.type(low), exact)

    return convert


def _to_odd(value: Values) -> Values:
    """An f64 or integer as the f32 that rounds on to bf16 as the value itself would: inexact results become odd."""
    if value.dtype.kind != "f":
        value = _wide_to_odd(value) if value.dtype.itemsize == 8 else value.astype(np.float64)
    near = np.asarray(value.astype(np.float32))
    inexact = near.astype(np.float64) != value
    if not np.any(inexact):
        return near
    bits = near.view(np.uint32)
    away = np.abs(near.astype(np.float64)) > np.abs(value)
    odd = (bits - away.astype(np.uint32)) | np.uint32(1)
    return np.where(inexact & ~np.isnan(value), odd, bits).view(np.float32)


def _wide_to_odd(value: Values) -> Values:
    """A 64-bit integer as an f64 that is odd below bit 16 where its lower bits were not zero."""
    kind = value.dtype.type
    low, top = kind(0xFFFF), value >> kind(48)
    large = (top != kind(0)) & (top != ~kind(0))
    sticky = _where((value & low) != 0, kind(0x8000), kind(0))
    return _where(large, (value & ~low) | sticky, value).astype(np.float64)


def _where(condition: Values, a: Any, b: Any) -> Values:
    return cast(Values, np.where(condition, a, b))
