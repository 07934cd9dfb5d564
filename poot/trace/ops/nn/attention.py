"""Scaled dot-product attention."""

from __future__ import annotations

import math

from poot.dtypes import DType, bool_, f32
from poot.errors import DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, logic, reductions
from poot.trace.ops.creation import iota
from poot.trace.ops.linalg import products
from poot.trace.ops.promotion import broadcast_shapes, cast, common_float, dtype_of, shape_of
from poot.trace.source import user_location


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    causal: bool = False,
) -> Array:
    """Scaled dot-product attention (Vaswani et al., arXiv:1706.03762): softmax(q kᵀ * scale + mask) v.

    Scores and weights are computed in f32 for f16 and bf16 operands, and the weights rounded to the operands' dtype.

    Args:
        q: Queries, [..., queries, head_dim]; usually the first axes are batch and heads.
        k: Keys, [..., keys, head_dim], with the same first axes.
        v: Values, [..., keys, value_dim], with the same first axes.
        mask: Broadcasts to [..., queries, keys].  Bools: True where a query attends to a key.  Floats: added to the
            scores.
        scale: 1 / sqrt(head_dim) by default.
        causal: Let a query attend to no key after its own place; the last query stands at the last key.

    Returns:
        [..., queries, value_dim].  A query that may attend to no key gives zeros.
    """
    dtype = common_float(q, k, v, what="attention")
    wide = f32 if dtype.bits == 16 else dtype
    with joined(q, k, v, mask):
        queries, keys, values = (lift(cast(x, dtype)) for x in (q, k, v))
        _check(queries.shape, keys.shape, values.shape)
        lead = tuple(range(queries.ndim - 2))
        scores = products(queries, keys, ((-1,), (-1,)), (lead, lead), "attention", wide)
        scores = scores * (1 / math.sqrt(queries.shape[-1]) if scale is None else lift(cast(scale, wide)))
        weights = _softmax(_masked(scores, mask, causal))
        return products(lift(cast(weights, dtype)), values, ((-1,), (-2,)), (lead, lead), "attention")


def _check(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    if len(q) < 2:
        raise ShapeError(what="attention: q", actual=q, expected="[..., queries, head_dim]", where=user_location())
    if k[:-2] != q[:-2] or len(k) != len(q) or k[-1] != q[-1]:
        expected = f"{(*q[:-2], 'keys', q[-1])}, as q has it".replace("'", "")
        raise ShapeError(what="attention: k", actual=k, expected=expected, where=user_location())
    if v[:-1] != k[:-1]:
        expected = f"{(*k[:-1], 'value_dim')}, as k has it".replace("'", "")
        raise ShapeError(what="attention: v", actual=v, expected=expected, where=user_location())


def _masked(scores: Array, mask: ArrayLike | None, causal: bool) -> Array:
    if mask is not None:
        if broadcast_shapes([shape_of(mask), scores.shape], "attention: mask") != scores.shape:
            raise ShapeError(
                what="attention: mask",
                actual=shape_of(mask),
                expected=f"a shape that broadcasts to {scores.shape}",
                where=user_location(),
            )
        scores = _apply(scores, mask, dtype_of(mask, "attention: mask"))
    if causal:
        queries, keys = scores.shape[-2:]
        allowed = iota((queries, keys), 1) <= iota((queries, keys), 0) + (keys - queries)
        scores = logic.where(allowed, scores, -math.inf)
    return scores


def _apply(scores: Array, mask: ArrayLike, dtype: DType) -> Array:
    if dtype is bool_:
        return logic.where(mask, scores, -math.inf)
    if not dtype.is_float:
        raise DTypeError(
            what="attention: mask", actual=dtype, expected="bools, or floats to be added", where=user_location()
        )
    return scores + lift(cast(mask, scores.dtype))


def _softmax(scores: Array) -> Array:
    """Softmax over the last axis, in which a row of -inf alone gives zeros."""
    if scores.shape[-1] == 0:
        return scores
    top = reductions.max(scores, -1, keepdims=True)
    powers = elementwise.exp(scores - logic.where(top == -math.inf, 0, top))
    total = reductions.sum(powers, -1, keepdims=True)
    return powers / logic.where(total == 0, 1, total)
