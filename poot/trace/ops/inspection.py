"""Questions about dtypes, as the array API asks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from poot.dtypes import DType, DTypeLike, WeakKind, concrete, promote
from poot.errors import ArgumentError, DTypeError
from poot.trace.array import ArrayLike, is_array
from poot.trace.ops.promotion import dtype_argument, dtype_of, kind_of
from poot.trace.source import user_location


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a float dtype: `eps` is the step above 1, `smallest_normal` the least positive normal number."""

    dtype: DType
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    dtype: DType
    bits: int
    max: int
    min: int


def _dtype(x: Any, what: str) -> DType:
    return dtype_of(x) if is_array(x) else dtype_argument(x, what)


def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> DType:
    """The dtype that arrays, dtypes and numbers promote to together."""
    if not arrays_and_dtypes:
        raise ArgumentError(what="result_type", actual=(), expected="at least one operand", where=user_location())
    kinds: list[DType | WeakKind] = [
        kind_of(item) if _is_operand(item) else dtype_argument(item) for item in arrays_and_dtypes
    ]
    return concrete(promote(kinds))


def _is_operand(item: Any) -> bool:
    return is_array(item) or isinstance(item, (bool, int, float, np.generic))


def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, /) -> bool:
    """Whether promotion takes the first dtype to the second."""
    target = dtype_argument(to)
    return promote([_dtype(from_, "can_cast"), target]) is target


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Whether a dtype is another, of a kind, or one of several.

    Kinds are "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric".
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, item) for item in kind)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    found = dtype_argument(dtype)
    if not isinstance(kind, str):
        return found is dtype_argument(kind)
    if kind not in _KINDS:
        raise ArgumentError(
            what="isdtype: kind", actual=kind, expected="one of " + ", ".join(_KINDS), where=user_location()
        )
    return found.kind in _KINDS[kind]


_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": (),
    "numeric": ("int", "uint", "float"),
}


def finfo(dtype: ArrayLike | DTypeLike, /) -> FloatInfo:
    """The limits of a float dtype, or of an array's."""
    found = _dtype(dtype, "finfo")
    if not found.is_float:
        raise DTypeError(what="finfo", actual=found, expected="a float dtype", where=user_location())
    info = cast("Any", ml_dtypes.finfo(found.dtype))
    return FloatInfo(
        found, found.bits, float(info.eps), float(found.max), float(found.min), float(info.smallest_normal)
    )


def iinfo(dtype: ArrayLike | DTypeLike, /) -> IntegerInfo:
    """The limits of an integer dtype, or of an array's."""
    found = _dtype(dtype, "iinfo")
    if not found.is_integer:
        raise DTypeError(what="iinfo", actual=found, expected="an integer dtype", where=user_location())
    return IntegerInfo(found, found.bits, int(found.max), int(found.min))
