"""Linear maps and embeddings."""

from __future__ import annotations

from poot.errors import ShapeError
from poot.trace.array import Array, ArrayLike, IndexMode
from poot.trace.ops import indexing
from poot.trace.ops.linalg import products
from poot.trace.ops.promotion import cast, common_dtype, shape_of
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

    Args:
        ids: Integers of any shape.
        table: [rows, ...].
        mode: What an id out of range does: see `ops.take`.

    Returns:
        The shape of ids, then that of a row.
    """
    return indexing.take(table, ids, axis=0, mode=mode)
