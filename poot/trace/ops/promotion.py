"""How operands of different dtypes and shapes become operands of one primitive.

Python numbers are weak: they take the dtype they meet, range-checked.  So are NumPy's `float64`, `int64` and `bool_`
scalars, which NumPy hands out on its own, and the numbers passed to a traced function (`WeakTracer`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from poot.dtypes import (
    ArraySpec,
    DType,
    DTypeLike,
    WeakKind,
    as_dtype,
    bool_,
    check_plain,
    concrete,
    f32,
    i32,
    i64,
    promote,
)
from poot.errors import ArgumentTypeError, DTypeError, OverflowArgumentError, ShapeError, UnsupportedDTypeError
from poot.trace.array import Array, ArrayLike, NumpyArray, python_number
from poot.trace.dispatch import Operand, bind1, taken_dtype
from poot.trace.graph import Literal
from poot.trace.literals import rounded
from poot.trace.source import user_location
from poot.trace.tracer import Tracer, WeakTracer

_WEAK_SCALARS: dict[type[Any], DType | WeakKind] = {np.bool_: bool_, np.int64: "int*", np.float64: "float*"}


def position_dtype(shape: Sequence[int]) -> DType:
    """The dtype of positions that poot itself makes: i32 unless an axis is longer than what that counts."""
    return i32 if max(shape, default=0) <= i32.max else i64


def dtype_argument(value: DTypeLike, what: str = "dtype") -> DType:
    """The dtype that `as_dtype` finds; its error names the user's line."""
    try:
        return as_dtype(value, what)
    except UnsupportedDTypeError as error:
        raise error.at(user_location()) from None


def kind_of(x: ArrayLike, what: str = "operand") -> DType | WeakKind:
    """An operand's dtype, or its weak kind; ArgumentTypeError for what is no array or number."""
    if isinstance(x, WeakTracer):
        return x.kind
    if isinstance(x, Tracer):
        return x.dtype
    if isinstance(x, Array):
        return taken_dtype(x, x.dtype)
    if isinstance(x, np.ndarray):
        check_plain(x, what)
        return taken_dtype(x, dtype_argument(x.dtype, what))
    if isinstance(x, np.generic):
        return _WEAK_SCALARS.get(type(x)) or dtype_argument(x.dtype, what)
    if isinstance(x, bool):
        return bool_
    if isinstance(x, int):
        return "int*"
    if isinstance(x, float):  # pyright: ignore[reportUnnecessaryIsInstance]
        return "float*"
    raise ArgumentTypeError(
        what=what,
        actual=type(x).__name__,
        expected="an array or a number",
        where=user_location(),
        remedy="convert it with ops.asarray first.",
    )


def shape_of(x: ArrayLike | Literal) -> tuple[int, ...]:
    """An operand's shape; () for numbers."""
    return x.shape if isinstance(x, (Array, np.ndarray, Literal)) else ()


def dtype_of(x: ArrayLike | Literal, what: str = "operand") -> DType:
    """An operand's dtype; i32 or f32 for weak scalars."""
    if isinstance(x, Literal):
        return x.dtype
    return concrete(kind_of(x, what))


def common_dtype(*xs: ArrayLike, what: str = "operand") -> DType:
    """The dtype that operands promote to together."""
    return concrete(promote([kind_of(x, what) for x in xs]))


def common_float(*xs: ArrayLike, what: str = "operand") -> DType:
    """The same, and f32 where that is an integer or bool."""
    found = concrete(promote([kind_of(x, what) for x in xs]))
    return found if found.is_float else f32


def cast(x: ArrayLike | Literal, dtype: DType) -> Operand:
    """An operand of exactly `dtype`: numbers become range-checked literals, other arrays get a cast."""
    if isinstance(x, WeakTracer):
        return _materialise(x, dtype)
    if isinstance(x, (Array, np.ndarray)):
        if dtype_of(x) is dtype:
            return x if isinstance(x, Array) or x.dtype.isnative else x.astype(dtype.dtype)
        return bind1("cast", (x,), dtype=dtype)
    if isinstance(x, Literal):
        return Literal(x.value, dtype) if x.dtype is dtype else literal(x.value, dtype)
    if isinstance(x, np.generic) and type(x) not in _WEAK_SCALARS:
        return literal(x.astype(dtype.dtype).item(), dtype)  # a strong scalar, which casts as its array would
    return literal(x, dtype)


def literal(x: object, dtype: DType) -> Literal:
    """A Python number at `dtype`; OverflowArgumentError where it does not fit, DTypeError for a float at an integer."""
    value = python_number(x)
    if not isinstance(value, (int, float)):
        raise ArgumentTypeError(
            what="operand", actual=type(x).__name__, expected="an array or a number", where=user_location()
        )
    if dtype is bool_ and isinstance(value, (bool, int)):
        return Literal(bool(value), dtype)
    if isinstance(value, float) and not dtype.is_float:
        raise DTypeError(what=repr(value), actual="float", expected=dtype, where=user_location())
    if dtype.is_integer and not dtype.min <= value <= dtype.max:
        raise overflow(value, dtype)
    if dtype.is_integer:
        return Literal(int(value), dtype)
    try:
        held = rounded(value, dtype)
    except OverflowArgumentError:
        held = math.inf
    if math.isinf(held) and (isinstance(value, int) or not math.isinf(value)):
        raise overflow(value, dtype)
    return Literal(held, dtype)


def overflow(value: int | float, dtype: DType) -> OverflowArgumentError:
    """The error of a number that a dtype does not hold."""
    return OverflowArgumentError(value=value, dtype=dtype, low=dtype.min, high=dtype.max, where=user_location())


def _materialise(x: WeakTracer, dtype: DType) -> Array:
    if dtype.is_float or (x.kind == "int*" and dtype.is_integer):
        return x.materialise(dtype)
    return bind1("cast", (x.materialise(concrete(x.kind)),), dtype=dtype)


def strong(x: ArrayLike) -> Operand:
    """An operand of its own dtype: numbers as literals of i32, f32 or bool."""
    return cast(x, dtype_of(x))


# --- shapes -----------------------------------------------------------------------------------------------------------


def broadcast_shapes(shapes: Sequence[tuple[int, ...]], what: str) -> tuple[int, ...]:
    """The shape to which NumPy's rule broadcasts `shapes`; ShapeError naming `what` if there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis}
        several = extents - {1}
        if len(several) > 1:
            raise ShapeError(
                what=what,
                actual=" and ".join(str(shape) for shape in shapes),
                expected="shapes that broadcast together",
                where=user_location(),
                remedy="axes are matched from the last one; add one of length 1 where it is missing: `x[:, None]`.",
            )
        result.append(several.pop() if several else 1)
    return tuple(result)


def broadcast(x: Operand, shape: tuple[int, ...]) -> Operand:
    """An operand broadcast to `shape`, which it is known to fit; a literal stays one only where the shape is ()."""
    offset = len(shape) - len(x.shape)
    return x if x.shape == shape else bind1("broadcast", (x,), shape=shape, dims=tuple(range(offset, len(shape))))


def harmonise(xs: Sequence[ArrayLike], dtype: DType, what: str) -> tuple[Operand, ...]:
    """The operands of an elementwise primitive: cast to `dtype` and broadcast together."""
    return spread([cast(x, dtype) for x in xs], what)


def spread(xs: Sequence[Operand], what: str) -> tuple[Operand, ...]:
    """Operands broadcast to their common shape; those of shape () stay, since elementwise primitives spread them."""
    shapes = {x.shape for x in xs} - {()}
    if len(shapes) < 2:
        return tuple(xs)
    shape = broadcast_shapes([x.shape for x in xs], what)
    return tuple(broadcast(x, shape) if x.shape else x for x in xs)


def spec_of(x: ArrayLike | NumpyArray) -> ArraySpec:
    """An operand's spec."""
    return ArraySpec(dtype_of(x), shape_of(x))
