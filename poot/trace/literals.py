"""Literals: Python numbers put into a graph, converted once to exactly what their dtype holds."""

from __future__ import annotations

import numpy as np

from poot.dtypes import DType, f64
from poot.errors import ArgumentTypeError, OverflowArgumentError
from poot.trace.graph import Literal
from poot.trace.rounding import round_once


def literal(value: bool | int | float, dtype: DType) -> Literal:
    """The Literal that a Python number becomes where it meets `dtype`.

    Floats round once to nearest even and become infinite past the range.  ArgumentTypeError for a float that meets
    integers or bools, or an int that meets bools; OverflowArgumentError for an int past the range of an integer dtype
    or of f64.
    """
    kind = type(value)
    if kind not in (bool, int, float):
        raise ArgumentTypeError(what=f"{dtype} literal", actual=kind.__name__, expected="a bool, int or float")
    if dtype.kind == "bool":
        if kind is not bool:
            raise ArgumentTypeError(what="bool literal", actual=repr(value), expected="True or False")
        return Literal(value, dtype)
    if dtype.is_integer:
        if kind is float:
            raise ArgumentTypeError(what=f"{dtype} literal", actual=repr(value), expected="an int")
        if not dtype.min <= value <= dtype.max:
            raise _overflow(value, dtype)
        return Literal(int(value), dtype)
    return Literal(rounded(value, dtype), dtype)


def rounded(value: bool | int | float, dtype: DType) -> float:
    """A number rounded once to a float dtype, as a Python float; what a NaN's payload has no room for is cut off."""
    try:
        wide = np.array(float(_to_odd(value) if isinstance(value, int) and dtype is not f64 else value))
    except OverflowError:
        raise _overflow(value, dtype) from None
    with np.errstate(all="ignore"):
        return float(round_once(wide, dtype)[()])


def _overflow(value: int | float, dtype: DType) -> OverflowArgumentError:
    # Python refuses to write out very long ints.
    bits = value.bit_length() if isinstance(value, int) else 0
    shown = f"an int of {bits} bits" if bits > 256 else value
    return OverflowArgumentError(value=shown, dtype=dtype, low=dtype.min, high=dtype.max)


def _to_odd(value: int) -> int:
    """An int of at most 53 bits, the last of which is set if any bit was lost: rounding it again is rounding once."""
    surplus = max(abs(value).bit_length() - 53, 0)
    kept = abs(value) >> surplus
    kept |= int(kept << surplus != abs(value))
    return (kept << surplus) * (-1 if value < 0 else 1)
