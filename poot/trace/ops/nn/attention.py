"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poot.dtypes import DType, bool_, f32, i32
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, logic, manipulation, reductions
from poot.trace.ops.axes import flag, static_int
from poot.trace.ops.creation import iota
from poot.trace.ops.linalg import products
from poot.trace.ops.nn.activation import softcap as soft_cap
from poot.trace.ops.promotion import broadcast_shapes, cast, common_float, dtype_of, shape_of
from poot.trace.source import user_location

#: How far before and after its own place a query attends; None is without end.
Reach = tuple[int | None, int | None]


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    causal: bool = False,
    *,
    window: int | Reach | None = None,
    softcap: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    offset: ArrayLike | None = None,
) -> Array:
    """Scaled dot-product attention (Vaswani et al., arXiv:1706.03762): softmax(q kᵀ * scale + mask) v.

    Scores and weights are computed in f32 for f16 and bf16 operands, and the weights rounded to the operands' dtype.

    Args:
        q: Queries, [..., queries, head_dim]; usually the first axes are batch and heads.
        k: Keys, [..., keys, head_dim], with the same first axes; but the last of them, the heads, may be fewer, each
            then being shared by a group of neighbouring heads of q (grouped queries, Ainslie et al., arXiv:2305.13245).
        v: Values, [..., keys, value_dim], with k's first axes.
        mask: Broadcasts to [..., queries, keys].  Bools: True where a query attends to a key.  Floats: added to the
            scores.
        scale: 1 / sqrt(head_dim) by default.
        causal: Let a query attend to no key after its own place.
        window: Let a query attend to near keys only: an int lets it see those less than so many places away (with
            `causal` the last so many, its own included); a pair those up to so many places before and after, None being
            without end (Beltagy et al., arXiv:2004.05150).
        softcap: Limits scores to ±softcap by `softcap`, before masks.
        sinks: [heads]: a score for each head that takes part in the softmax and has no value (Xiao et al.,
            arXiv:2309.17453).
        offset: The place of the first query among the keys, for `causal` and `window`: an integer, or integers that
            broadcast to q's first axes.  By default the last query stands at the last key.

    Returns:
        [..., queries, value_dim].  A query that may attend to no key gives zeros.

    Raises:
        ShapeError, DTypeError, ArgumentError: for operands or options that do not fit, naming the caller's line.
    """
    dtype = common_float(q, k, v, what="attention")
    wide = f32 if dtype.bits == 16 else dtype
    reach = _reach(window, causal)
    with joined(q, k, v, mask, scale, softcap, sinks, offset):
        queries, keys, values = (lift(cast(x, dtype)) for x in (q, k, v))
        shape = (*queries.shape[:-1], keys.shape[-2] if keys.ndim > 1 else 0)
        group = _check(queries.shape, keys.shape, values.shape)
        queries = _grouped(queries, group)
        lead = tuple(range(queries.ndim - 2))
        scores = products(queries, keys, ((-1,), (-1,)), (lead, lead), "attention", wide)
        scores = manipulation.reshape(scores, shape)
        scores = scores * (1 / math.sqrt(queries.shape[-1] or 1) if scale is None else lift(cast(scale, wide)))
        if softcap is not None:
            scores = soft_cap(scores, softcap)
        scores = _masked(scores, mask, reach, offset)
        weights = lift(cast(_softmax(scores, None if sinks is None else _sinks(sinks, shape, wide)), dtype))
        result = products(_grouped(weights, group), values, ((-1,), (-2,)), (lead, lead), "attention")
        return manipulation.reshape(result, (*shape[:-1], values.shape[-1]))


def _check(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> int:
    """How many heads of q share one of k."""
    if len(q) < 2:
        raise _misshapen("q", q, "[..., queries, head_dim]")
    group = 1
    if len(q) > 2 and len(k) == len(q) and 0 < k[-3] < q[-3] and q[-3] % k[-3] == 0:
        group = q[-3] // k[-3]
    lead = q[:-2] if group == 1 else (*q[:-3], k[-3])
    if k[:-2] != lead or len(k) != len(q) or k[-1] != q[-1]:
        heads = f", or a divisor of its {q[-3]} heads" if len(q) > 2 else ""
        raise _misshapen("k", k, f"{(*q[:-2], 'keys', q[-1])}, as q has it{heads}".replace("'", ""))
    if v[:-1] != k[:-1]:
        raise _misshapen("v", v, f"{(*k[:-1], 'value_dim')}, as k has it".replace("'", ""))
    return group


def _misshapen(what: str, actual: tuple[int, ...], expected: str) -> ShapeError:
    return ShapeError(what=f"attention: {what}", actual=actual, expected=expected, where=user_location())


def _grouped(x: Array, group: int) -> Array:
    """Rows of heads that share keys laid one after another, so that one product serves them."""
    if group == 1:
        return x
    *lead, heads, rows, last = x.shape
    return manipulation.reshape(x, (*lead, heads // group, group * rows, last))


# --- masks ------------------------------------------------------------------------------------------------------------


def _reach(window: int | Reach | None, causal: bool) -> Reach:
    if window is None:
        before, after = None, None
    elif isinstance(window, Sequence):
        if len(window) != 2:
            raise _no_window(window)
        before, after = (None if end is None else static_int(end, "attention: window") for end in window)
    else:
        before = after = static_int(window, "attention: window") - 1
    if (before is not None and before < 0) or (after is not None and after < 0):
        raise _no_window(window)
    return before, 0 if flag(causal, "attention: causal") else after


def _no_window(window: object) -> ArgumentError:
    return ArgumentError(
        what="attention: window",
        actual=window,
        expected="a positive int, or a pair (before, after) of ints of at least 0 or None",
        where=user_location(),
    )


def _masked(scores: Array, mask: ArrayLike | None, reach: Reach, offset: ArrayLike | None) -> Array:
    if mask is not None:
        if broadcast_shapes([shape_of(mask), scores.shape], "attention: mask") != scores.shape:
            raise _misshapen("mask", shape_of(mask), f"a shape that broadcasts to {scores.shape}")
        scores = _apply(scores, mask, dtype_of(mask, "attention: mask"))
    before, after = reach
    if before is None and after is None:
        return scores
    rows, columns = scores.shape[-2:]
    key = iota((rows, columns), 1)
    place = iota((rows, columns), 0) + _offset(offset, scores.shape)
    allowed: Array | None = None
    if after is not None:
        allowed = key <= (place + after if after else place)
    if before is not None:
        near = key >= place - before
        allowed = near if allowed is None else logic.logical_and(allowed, near)
    assert allowed is not None
    return logic.where(allowed, scores, -math.inf)


def _offset(offset: ArrayLike | None, shape: tuple[int, ...]) -> Array | int:
    """The place of the first query: a number, or [..., 1, 1]."""
    if offset is None:
        return shape[-1] - shape[-2]
    dtype = dtype_of(offset, "attention: offset")
    if not dtype.is_integer:
        raise DTypeError(what="attention: offset", actual=dtype, expected="integers", where=user_location())
    places = lift(cast(cast(offset, dtype), i32))
    if broadcast_shapes([places.shape, shape[:-2]], "attention: offset") != shape[:-2]:
        raise _misshapen("offset", places.shape, f"a shape that broadcasts to {shape[:-2]}")
    return manipulation.reshape(places, (*places.shape, 1, 1)) if places.ndim else places


def _apply(scores: Array, mask: ArrayLike, dtype: DType) -> Array:
    if dtype is bool_:
        return logic.where(mask, scores, -math.inf)
    if not dtype.is_float:
        raise DTypeError(
            what="attention: mask", actual=dtype, expected="bools, or floats to be added", where=user_location()
        )
    return scores + lift(cast(mask, scores.dtype))


# --- softmax ----------------------------------------------------------------------------------------------------------


def _sinks(sinks: ArrayLike, shape: tuple[int, ...], dtype: DType) -> Array:
    """One score a head: [heads, 1, 1]."""
    if len(shape) < 3 or shape_of(sinks) != shape[-3:-2]:
        expected = f"{shape[-3:-2]}, one a head" if len(shape) > 2 else "none, without heads"
        raise _misshapen("sinks", shape_of(sinks), expected)
    return manipulation.reshape(lift(cast(sinks, dtype)), (*shape[-3:-2], 1, 1))


def _softmax(scores: Array, sinks: Array | None) -> Array:
    """Softmax over the last axis and a sink, in which a row of -inf alone gives zeros."""
    if scores.shape[-1] == 0:
        return scores
    top = reductions.max(scores, -1, keepdims=True)
    if sinks is not None:
        top = elementwise.maximum(top, sinks)
    top = logic.where(top == -math.inf, 0, top)
    powers = elementwise.exp(scores - top)
    total = reductions.sum(powers, -1, keepdims=True)
    if sinks is not None:
        total = total + elementwise.exp(sinks - top)
    return powers / logic.where(total == 0, 1, total)
