"""Linear maps, embeddings and one-hot vectors."""

from __future__ import annotations

from poot.dtypes import DTypeLike, f32, i32, i64, u32, u64
from poot.errors import DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, IndexMode, is_array
from poot.trace.dispatch import joined, lift
from poot.trace.ops import indexing, logic, manipulation
from poot.trace.ops.axes import one_axis, scalar, shape_argument
from poot.trace.ops.creation import astype, iota
from poot.trace.ops.linalg import products
from poot.trace.ops.promotion import cast, common_dtype, dtype_argument, dtype_of, shape_of
from poot.trace.source import user_location


def linear(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Array:
    """The map x wᵀ + b of the last axis.

    Args:
        x: [..., in].
        w: Weights, [out, in].
        b: Offset, [out], or None.

    Returns:
        [..., out], in the promoted dtype of all operands.
    """
    shape, weights = shape_of(x), shape_of(w)
    if len(weights) != 2 or not shape:
        raise ShapeError(what="linear: w", actual=weights, expected="[out, in], for x [..., in]", where=user_location())
    if shape[-1] != weights[1]:
        raise ShapeError(
            what="linear: x", actual=shape, expected=f"[..., {weights[1]}], for w {weights}", where=user_location()
        )
    if b is not None and shape_of(b) != weights[:1]:
        raise ShapeError(what="linear: b", actual=shape_of(b), expected=weights[:1], where=user_location())
    dtype = common_dtype(*(item for item in (x, w, b) if item is not None), what="linear")
    result = products(cast(x, dtype), cast(w, dtype), ((-1,), (1,)), ((), ()), "linear")
    return result if b is None else result + b


def embedding(ids: ArrayLike, table: ArrayLike, *, mode: IndexMode = "fault") -> Array:
    """The rows of a table.

    An id names a row and does not count from the end: negative ones, such as a padding of -1, are out of range.

    Args:
        ids: Integers of any shape.
        table: [rows, ...].
        mode: What an id out of range does: "fault" raises IndexFault when the result is read, "clip" takes the nearest
            row, "wrap" the id modulo the number of rows, and "fill" gives NaN, or what `ops.take` fills with.

    Returns:
        The shape of ids, then that of a row.
    """
    return indexing.rows(table, ids, mode)


def one_hot(
    indices: ArrayLike, classes: int, /, *, axis: int = -1, dtype: DTypeLike = f32, on: float = 1, off: float = 0
) -> Array:
    """`on` at each index along a new axis and `off` elsewhere; an index out of range gives `off` alone.

    Args:
        indices: Integers of any shape.
        classes: The extent of the new axis.
        axis: Its place in the result.
        dtype: That of the result.
        on, off: The two values, numbers.
    """
    dtype_in = dtype_of(indices, "one_hot: indices")
    if not dtype_in.is_integer:
        raise DTypeError(what="one_hot: indices", actual=dtype_in, expected="integers", where=user_location())
    (count,) = shape_argument((classes,), "one_hot: classes")
    shape = shape_of(indices)
    place = one_axis(axis, len(shape) + 1, "one_hot")
    found = dtype_argument(dtype)
    with joined(indices):
        column = manipulation.expand_dims(lift(cast(indices, dtype_in)), place)
        whole = (*shape[:place], count, *shape[place:])
        if count and count - 1 > dtype_in.max:  # the indices' dtype cannot count so far
            narrow, wide = (i32, i64) if dtype_in.kind == "int" else (u32, u64)
            column = astype(column, narrow if count - 1 <= narrow.max else wide)
        hit = column == iota(whole, place, column.dtype)
        on, off = scalar(on, "one_hot: on"), scalar(off, "one_hot: off")
        if not is_array(on) and not is_array(off) and (on, off) == (1, 0):
            return astype(hit, found)
        return logic.where(hit, lift(cast(on, found)), lift(cast(off, found)))
