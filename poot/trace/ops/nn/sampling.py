"""Sampling heads: from a model's logits to tokens, with explicit keys.

Filters work on logits, so that they can be combined: what they take out becomes -inf.
"""

from __future__ import annotations

import math

from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike, is_array, python_number
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, indexing, logic, manipulation, ordering, reductions
from poot.trace.ops import random as _random
from poot.trace.ops.axes import static_int
from poot.trace.ops.creation import iota
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.nn.softmax import softmax
from poot.trace.ops.promotion import broadcast_shapes, cast, shape_of
from poot.trace.source import user_location


def greedy(logits: ArrayLike, /) -> Array:
    """The position (i32) of the greatest logit along the last axis, the first of several: [..., tokens] to [...]."""
    _rows(logits, "greedy")
    return ordering.argmax(logits, -1)


def sample(
    key: ArrayLike,
    logits: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    top_k: int | None = None,
    top_p: ArrayLike | None = None,
    min_p: ArrayLike | None = None,
) -> Array:
    """A token (i32) for each row of logits, drawn from softmax(logits / temperature) after the filters.

    Drawn by the Gumbel-max trick (`ops.random.categorical`): the same key gives the same tokens on every device, as far
    as the devices' logarithms agree.

    Args:
        key: A key of `ops.random`; use it once.
        logits: [..., tokens].
        temperature: Above 1 for more variety, below for less; 0 takes the greatest logit.
        top_k: Draw from the k greatest logits alone: exactly k, the first of equal ones (Fan et al., arXiv:1805.04833).
        top_p: Draw from the fewest tokens whose probabilities, the greatest first, reach top_p (Holtzman et al.,
            arXiv:1904.09751).
        min_p: Draw from the tokens at least min_p times as probable as the most probable (Nguyen et al.,
            arXiv:2407.01082).

    temperature, top_p and min_p are numbers or arrays that broadcast to [...].  Filters apply in the order of the
    arguments.
    """
    shape = _rows(logits, "sample")
    _in_range(temperature, math.inf, "sample: temperature")
    _in_range(top_p, 1.0, "sample: top_p")
    _in_range(min_p, 1.0, "sample: min_p")
    still = python_number(temperature) if not is_array(temperature) else None
    if isinstance(still, (int, float)) and still == 0:
        return greedy(logits)
    with joined(key, logits, temperature, top_p, min_p):
        wide, _ = widened(logits, "sample")
        heat = _by_row(temperature, wide, "sample: temperature")
        warm = None if isinstance(still, (int, float)) else heat > 0
        scores = wide / (heat if warm is None else logic.where(warm, heat, 1))
        tokens: Array | None = None
        if top_k is not None or top_p is not None:
            count = shape[-1] if top_k is None else _count(top_k, shape[-1], "sample: top_k")
            scores, tokens = ordering.top_k(scores, count)
            if top_p is not None:
                scores = logic.where(_nucleus(scores, top_p, "sample: top_p"), scores, -math.inf)
        if min_p is not None:
            scores = keep_min_p(scores, min_p)
        drawn = _random.categorical(key, scores)
        if tokens is not None:
            place = manipulation.expand_dims(drawn, -1)
            drawn = manipulation.squeeze(indexing.take_along_axis(tokens, place, mode="clip"), -1)
        if warm is None:
            return drawn
        return logic.where(manipulation.squeeze(warm, -1) if warm.ndim else warm, drawn, greedy(logits))


# --- filters ----------------------------------------------------------------------------------------------------------


def keep_top_k(logits: ArrayLike, k: int, /) -> Array:
    """The k greatest logits of each row, the others -inf; of equal ones at the edge all stay."""
    shape = _rows(logits, "keep_top_k")
    count = _count(k, shape[-1], "keep_top_k: k")
    wide, dtype = widened(logits, "keep_top_k")
    least = ordering.top_k(wide, count)[0][..., count - 1 :]
    return narrowed(logic.where(wide >= least, wide, -math.inf), dtype)


def keep_top_p(logits: ArrayLike, p: ArrayLike, /) -> Array:
    """The fewest tokens of each row whose probabilities, the greatest first, reach p; the others -inf.

    p is a number or broadcasts to [...]; the most probable token always stays, and at the edge all equal ones do.
    """
    _rows(logits, "keep_top_p")
    _in_range(p, 1.0, "keep_top_p: p")
    with joined(logits, p):
        wide, dtype = widened(logits, "keep_top_p")
        ordered = ordering.sort(wide, descending=True)
        kept = logic.where(_nucleus(ordered, p, "keep_top_p: p"), ordered, math.inf)
        least = reductions.min(kept, -1, keepdims=True)
        return narrowed(logic.where(wide >= least, wide, -math.inf), dtype)


def keep_min_p(logits: ArrayLike, p: ArrayLike, /) -> Array:
    """The tokens of each row at least p times as probable as the most probable one; the others -inf.

    p is a number from 0 to 1, or broadcasts to [...].
    """
    _rows(logits, "keep_min_p")
    _in_range(p, 1.0, "keep_min_p: p")
    with joined(logits, p):
        wide, dtype = widened(logits, "keep_min_p")
        least = reductions.max(wide, -1, keepdims=True) + elementwise.log(_by_row(p, wide, "keep_min_p: p"))
        return narrowed(logic.where(wide >= least, wide, -math.inf), dtype)


def _nucleus(ordered: Array, p: ArrayLike, what: str) -> Array:
    """Which of the logits in descending order belong to the nucleus: those before which less than p has been."""
    chances = softmax(ordered)
    before = ordering.cumsum(chances, -1) - chances
    limit = _by_row(p, ordered, what)
    first = iota(ordered.shape, ordered.ndim - 1) == 0
    return logic.logical_or(logic.logical_or(before < limit, limit >= 1), first)


def _in_range(value: object, most: float, what: str) -> None:
    """ArgumentError for a number below 0 or above `most`; of arrays the values are not looked at."""
    number = python_number(value)
    if isinstance(number, (int, float)) and not 0 <= number <= most:
        expected = "a number from 0 on" if most == math.inf else f"a number from 0 to {most:g}"
        raise ArgumentError(what=what, actual=number, expected=expected, where=user_location())


def _rows(logits: ArrayLike, what: str) -> tuple[int, ...]:
    shape = shape_of(logits)
    if not shape or shape[-1] == 0:
        raise ShapeError(
            what=f"{what}: logits", actual=shape, expected="[..., tokens], at least one token", where=user_location()
        )
    return shape


def _count(k: int, extent: int, what: str) -> int:
    """A static k, at most the extent."""
    count = static_int(k, what)
    if count < 1:
        raise ArgumentError(what=what, actual=count, expected="at least 1", where=user_location())
    return min(count, extent)


def _by_row(value: ArrayLike, rows: Array, what: str) -> Array:
    """A number, or one number a row, [..., 1]."""
    lead = rows.shape[:-1]
    if broadcast_shapes([shape_of(value), lead], what) != lead:
        raise ShapeError(
            what=what, actual=shape_of(value), expected=f"a shape that broadcasts to {lead}", where=user_location()
        )
    found = lift(cast(value, rows.dtype))
    return manipulation.expand_dims(found, -1) if found.ndim else found
