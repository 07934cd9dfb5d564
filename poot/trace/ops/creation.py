"""Making arrays: from values, of one value, of ranges.

Python numbers and default dtypes are f32, i32 and bool on every device; NumPy arrays keep their dtype.
"""

from __future__ import annotations

import builtins
import math
import typing
from collections.abc import Iterator, Sequence
from typing import Any
from typing import cast as _cast_type

import numpy as np

from poot.dtypes import DType, DTypeLike, bool_, check_plain, f32, f64, i32
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from poot.foreign import host_array, number_kind, numbers
from poot.probe import has
from poot.trace.array import Array, ArrayLike, NumpyArray, python_number
from poot.trace.dispatch import Operand, active, bind1, is_traced, joined, lift
from poot.trace.foreign import is_foreign
from poot.trace.graph import Literal
from poot.trace.ops import logic, manipulation
from poot.trace.ops.axes import choice, flag, one_axis, shape_argument, size_argument, static_int
from poot.trace.ops.namespace import moved, placed
from poot.trace.ops.promotion import (
    broadcast,
    broadcast_shapes,
    cast,
    common_float,
    dtype_argument,
    dtype_of,
    literal,
    overflow,
    position_dtype,
    shape_of,
)
from poot.trace.places import places
from poot.trace.source import user_location

#: Arrays of static values up to this size are written into a graph as literals.
_FEW = 16


def asarray(obj: Any, /, dtype: DTypeLike = None, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what `obj` holds: an array, a number, or nested sequences of numbers and arrays.

    NumPy arrays and their scalars keep their dtype; Python numbers give bool, i32 or f32 (OverflowArgumentError where
    they do not fit).  ShapeError for ragged sequences.  Arrays of other libraries come through DLPack or `__array__`
    (ExchangeError where their library does not give the elements).  Outside traces copy=False shares the memory of any
    array, and ArgumentError says where a copy would be needed: numbers, another dtype, another device; copy=True copies
    arrays of poot too, which change where a kernel writes into them.
    """
    wanted = None if dtype is None else dtype_argument(dtype)
    check_plain(obj, "asarray")
    if copy is not None and not flag(copy, "asarray: copy"):
        return _shared(obj, wanted, device)
    if copy and isinstance(obj, Array) and not is_traced(obj):
        return astype(places().share(obj, device, True), obj.dtype if wanted is None else wanted)
    with placed(device):
        if isinstance(obj, (list, tuple)):
            return _from_sequence(_cast_type("Sequence[Any]", obj), wanted)
        held = _held(obj)
        found = dtype_of(held, "asarray") if wanted is None else wanted
        return moved(lift(_convert(held, found)), device)


def _shared(obj: Any, dtype: DType | None, device: Any) -> Array:
    """An array of the elements of `obj` themselves; ArgumentError where they would have to be copied."""
    found: Array | None = None
    if is_traced(obj):
        with placed(device):
            found = lift(cast(obj, obj.dtype)) if isinstance(obj, Array) else None
    elif isinstance(obj, Array) or is_foreign(obj):
        found = places().share(obj, device, False)
    if found is None or dtype not in (None, found.dtype):
        raise ArgumentError(
            what="asarray: copy", actual=False, expected="True or None: a copy is needed", where=user_location()
        )
    return found


def _held(x: Any) -> Any:
    """Another library's array as NumPy's, or where its library has it; anything else as it is."""
    if isinstance(x, np.ndarray) or not is_foreign(x):
        return _cast_type("Any", x)
    if not is_traced():
        return places().share(x, None, None)
    found = host_array(x, "asarray")
    return x if found is None else found


def _convert(x: ArrayLike, dtype: DType) -> Operand:
    """An operand of `dtype`; unlike a weak scalar in an operation, a float may become an integer."""
    if isinstance(x, (Array, np.ndarray)):
        return cast(x, dtype)
    value = python_number(x)
    if dtype is bool_:
        return Literal(bool(value), dtype)
    if dtype.is_integer and isinstance(value, float):
        if not math.isfinite(value):
            raise DTypeError(what=repr(value), actual="float", expected=dtype, where=user_location())
        return literal(int(value), dtype)
    return cast(x, dtype)


def _from_sequence(items: Sequence[Any], dtype: DType | None) -> Array:
    if _is_static(items):
        return constant(_static_values(items, dtype))
    with joined(*_leaves(items)):
        return manipulation.stack([asarray(item, dtype=dtype) for item in items])


def _leaves(items: Any) -> Iterator[object]:
    if isinstance(items, (list, tuple)):
        for item in _cast_type("Sequence[Any]", items):
            yield from _leaves(item)
    else:
        yield items


def _is_static(items: Any) -> bool:
    if isinstance(items, (list, tuple)):
        return all(_is_static(item) for item in _cast_type("Sequence[Any]", items))
    return not isinstance(items, (Array, np.ndarray)) and not has(items, "__dlpack__")


def _static_values(items: Sequence[Any], dtype: DType | None) -> NumpyArray:
    try:
        values = numbers(items)
    except ValueError:
        raise ShapeError(
            what="asarray", actual="a ragged sequence", expected="rows of equal shape", where=user_location()
        ) from None
    except OverflowError:
        values = np.array(items, object)
    kind = number_kind(values)
    if dtype is None:
        dtype = {"b": bool_, "i": i32, "u": i32, "f": f32}.get(kind) if values.size else f32
        if kind == "f" and values.dtype != np.float64:
            dtype = dtype_argument(values.dtype)
    if dtype is None or kind not in "biuf":
        raise ArgumentTypeError(
            what="asarray", actual=f"a sequence of {values.dtype}", expected="numbers", where=user_location()
        )
    if dtype.is_integer and kind in "iu":
        for extreme in (values.min(initial=0), values.max(initial=0)):
            if not dtype.min <= extreme <= dtype.max:
                raise overflow(int(extreme), dtype)
    return values.astype(dtype.dtype)


def constant(values: NumpyArray, *, read: bool = False) -> Array:
    """An array of values that never change: written into the graph where they are few or regular.

    `read` says that they were made of what the trace has read of an array from outside.
    """
    dtype = dtype_argument(values.dtype)
    context = active()
    if context is None or values.size > _FEW:
        return context.constant(values) if context is not None and read else lift(values)
    if values.ndim != 1:
        return manipulation.reshape(constant(values.reshape(-1)), values.shape)
    items = values.tolist()
    if len(set(map(repr, items))) <= 1:
        return full(values.shape, items[0] if items else 0, dtype=dtype)
    step = items[1] - items[0] if dtype.is_integer else 0
    if step > 0 and items == list(range(items[0], items[-1] + 1, step)):
        return arange(items[0], items[-1] + 1, step, dtype=dtype)
    ones = [bind1("reshape", (Literal(item, dtype),), shape=(1,)) for item in items]
    return bind1("concat", ones, axis=0)


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> Array:
    """The array in another dtype.

    Floats become integers by truncation, saturating, with NaN as 0; integers wrap; bool is whether the value is not 0;
    floats round to nearest even.
    """
    result = lift(_convert(x, dtype_argument(dtype)))
    if device is None:
        return result
    with placed(device, result):
        return moved(result, device)


# --- one value --------------------------------------------------------------------------------------------------------


def full(shape: int | Sequence[int], fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of `fill_value` everywhere; a number or an array that broadcasts to `shape`."""
    found = dtype_of(fill_value, "fill_value") if dtype is None else dtype_argument(dtype)
    wanted = shape_argument(shape)
    with placed(device):
        if shape_of(fill_value):
            return moved(manipulation.broadcast_to(astype(fill_value, found), wanted), device)
        return moved(lift(broadcast(_convert(fill_value, found), wanted)), device)


def zeros(shape: int | Sequence[int], dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of zeros.  f32 unless `dtype` says otherwise; ArgumentError for a negative extent."""
    return full(shape, 0, dtype=f32 if dtype is None else dtype, device=device)


def ones(shape: int | Sequence[int], dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of ones.  f32 unless `dtype` says otherwise; ArgumentError for a negative extent."""
    return full(shape, 1, dtype=f32 if dtype is None else dtype, device=device)


def empty(shape: int | Sequence[int], dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array to be filled later; arrays do not change, so it is one of zeros.

    f32 unless `dtype` says otherwise.
    """
    return full(shape, 0, dtype=f32 if dtype is None else dtype, device=device)


def full_like(x: ArrayLike, /, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of `fill_value` with the shape and, by default, dtype of x."""
    with joined(x, fill_value), placed(device, x):
        return full(shape_of(x), fill_value, dtype=dtype_of(x) if dtype is None else dtype)


def zeros_like(x: ArrayLike, /, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of zeros with the shape and, by default, dtype of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: ArrayLike, /, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of ones with the shape and, by default, dtype of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: ArrayLike, /, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of zeros with the shape and, by default, dtype of x."""
    return full_like(x, 0, dtype=dtype, device=device)


# --- ranges -----------------------------------------------------------------------------------------------------------


def iota(shape: int | Sequence[int], axis: int, dtype: DType = i32) -> Array:
    """Every element's position along an axis."""
    wanted = shape_argument(shape)
    return bind1("iota", (), dtype=dtype, shape=wanted, axis=one_axis(axis, len(wanted), "iota"))


def arange(
    start: float, /, stop: float | None = None, step: float = 1, dtype: DTypeLike = None, *, device: Any = None
) -> Array:
    """start, start + step … below `stop` (above it for a negative step); one argument is `stop`, from 0.

    i32 for integers and f32 for floats, unless `dtype` says otherwise.  The arguments are static.
    """
    if stop is None:
        start, stop = 0, start
    numbers = [_static_number(value, "arange") for value in (start, stop, step)]
    first, end, stride = numbers
    if stride == 0:
        raise ArgumentError(what="arange: step", actual=step, expected="a number other than 0", where=user_location())
    integers = all(isinstance(value, int) for value in numbers)
    found = (i32 if integers else f32) if dtype is None else dtype_argument(dtype)
    try:
        count = builtins.max(0, -((first - end) // stride) if integers else math.ceil((end - first) / stride))
    except (OverflowError, ValueError):  # infinities and NaN
        shown = (start, stop, step)
        raise ArgumentError(what="arange", actual=shown, expected="finite numbers", where=user_location()) from None
    if found.is_integer and integers:
        for extreme in (first, first + (count - 1) * stride) if count else ():
            literal(extreme, found)
    with placed(device):
        return _progression(int(count), first, stride, found)


def _static_number(value: object, what: str) -> int | float:
    if isinstance(value, Array):
        return float(value) if value.dtype.is_float else int(value)
    found = python_number(value)
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return found
    raise ArgumentTypeError(what=what, actual=type(value).__name__, expected="a number", where=user_location())


def _progression(count: int, first: float, step: float, dtype: DType) -> Array:
    """First + step * i for i below count; integers wrap, and halves are computed in f32."""
    if dtype is bool_:
        raise DTypeError(what="a range", actual=dtype, expected="a number dtype", where=user_location())
    wide = f32 if dtype.bits == 16 and dtype.is_float else dtype
    if dtype.is_integer and isinstance(first, int) and isinstance(step, int):
        # Modulo 2^bits, so that a descending range of unsigned integers needs no signed detour.
        first, step = _wrapped(first, dtype), _wrapped(step, dtype)
    elif dtype.is_integer:
        wide = f32
    result = iota((count,), 0, wide)
    if wide.is_float and math.isfinite(step) and abs(step) * count > wide.max:  # a product past the range
        return astype((result * (step / 2) + first / 2) * 2, dtype)
    if step != 1:
        result = result * step
    if first != 0:
        result = result + first
    return astype(result, dtype)


def _wrapped(value: int, dtype: DType) -> int:
    low = int(dtype.min)
    return (value - low) % (1 << dtype.bits) + low


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    /,
    num: int,
    dtype: DTypeLike = None,
    endpoint: bool = True,
    *,
    device: Any = None,
) -> Array:
    """`num` evenly spaced numbers from start to stop along a new first axis; the last is stop itself, or one step less.

    start and stop may be arrays.
    """
    count, endpoint = size_argument(num, "linspace: num"), flag(endpoint, "linspace: endpoint")
    found = common_float(start, stop, what="linspace") if dtype is None else dtype_argument(dtype)
    wide = found if found in (f32, f64) else f32
    with joined(start, stop), placed(device, start, stop):
        low, high = lift(cast(start, wide)), lift(cast(stop, wide))
        shape = broadcast_shapes([low.shape, high.shape], "linspace")
        place = iota((count, *shape), 0, position_dtype((count,)))
        parts = count - 1 if endpoint else count
        along = between(low, high, astype(place, wide) / float(builtins.max(parts, 1)))
        if endpoint and count > 1:
            along = logic.where(place == count - 1, high, along)
        return astype(along, found)


def between(low: Array, high: Array, part: Array) -> Array:
    """The numbers low + (high - low) * part, for parts from 0 to 1, even where high - low is past the dtype's range."""
    near = logic.isfinite(high - low)
    whole, half, double = (lift(literal(scale, low.dtype)) for scale in (1.0, 0.5, 2.0))  # which multiply exactly
    first = low * logic.where(near, whole, half)
    return (first + (high * logic.where(near, whole, half) - first) * part) * logic.where(near, whole, double)


def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """A matrix of ones on the k-th diagonal and zeros elsewhere.

    Of shape (n_rows, n_cols), f32 unless `dtype` says otherwise.
    """
    shape = shape_argument((n_rows, n_rows if n_cols is None else n_cols), "eye")
    with placed(device):
        edge, column = _edge(k, shape)
        return astype(edge == column, f32 if dtype is None else dtype)


def tril(x: ArrayLike, /, k: int = 0) -> Array:
    """The last two axes with zeros above the k-th diagonal."""
    return _triangle(x, k, lower=True)


def triu(x: ArrayLike, /, k: int = 0) -> Array:
    """The last two axes with zeros below the k-th diagonal."""
    return _triangle(x, k, lower=False)


def _triangle(x: ArrayLike, k: int, lower: bool) -> Array:
    shape = shape_of(x)[-2:]
    if len(shape) < 2:
        raise ShapeError(what="tril and triu", actual=shape, expected="at least two axes", where=user_location())
    with joined(x):
        edge, column = _edge(k, shape)
        return logic.where(column <= edge if lower else column >= edge, x, _zero(dtype_of(x)))


def _edge(k: int, shape: Sequence[int]) -> tuple[Array, Array]:
    """For each element of a matrix the column of the k-th diagonal in its row, and its own."""
    k = builtins.min(builtins.max(static_int(k, "k"), -shape[0]), shape[1])  # past the corners they are all alike
    dtype = position_dtype((sum(shape),))
    return iota(shape, 0, dtype) + k, iota(shape, 1, dtype)


def _zero(dtype: DType) -> bool | int | float:
    return False if dtype is bool_ else 0


def meshgrid(*arrays: ArrayLike, indexing: typing.Literal["xy", "ij"] = "xy") -> list[Array]:
    """Coordinate arrays of a grid from one 1-d array an axis; "xy" swaps the first two axes of the grid."""
    choice(indexing, "meshgrid: indexing", "xy", "ij")
    vectors = [manipulation.reshape(x, (-1,)) for x in arrays]
    rank = len(vectors)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    shape = tuple(vectors[axis].shape[0] for axis in order)
    apart = [
        manipulation.reshape(vector, [-1 if order[place] == axis else 1 for place in range(rank)])
        for axis, vector in enumerate(vectors)
    ]
    return [manipulation.broadcast_to(vector, shape) for vector in apart]
