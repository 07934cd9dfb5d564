"""Random numbers from explicit keys: the same key gives the same bits on every device, and nothing is remembered.

A key is a u32 array of shape (2,).  Use each key once: `split` it, or `fold_in` a number, to get others.

    key = ops.random.key(0)
    first, second = ops.random.split(key)
    x = ops.random.normal(first, (3, 4))

Bits come from Threefry-2x32 (see the primitive `random_bits`).  Integers, bools, and floats in [0, 1) are the same on
every device; what float functions make of bits (`normal`, `exponential`, `gumbel`, other intervals) is so in a trace
with `numerics="strict"`, and otherwise to within the error of those functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poot.dtypes import DType, DTypeLike, f32, f64, i32, u32, u64
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, is_array, python_number
from poot.trace.dispatch import bind1, is_traced, joined, lift
from poot.trace.ops import elementwise, functions, indexing, logic, manipulation, ordering
from poot.trace.ops.axes import flag, one_axis, shape_argument, static_int
from poot.trace.ops.creation import between, constant, iota
from poot.trace.ops.namespace import missing
from poot.trace.ops.promotion import cast, common_float, dtype_argument, dtype_of, literal, position_dtype, shape_of
from poot.trace.source import user_location
from poot.trace.tracer import WeakTracer

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "uniform",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Shape = int | Sequence[int]

# Keys that are made from a key, rather than numbers, come from another stream than its numbers: these bits are flipped.
_SPLIT = (0x5BF03635, 0x1B873593)
_FOLD = (0x85EBCA6B, 0xC2B2AE35)


# --- keys -------------------------------------------------------------------------------------------------------------


def key(seed: ArrayLike, /) -> Array:
    """A key for an integer seed: a Python int of 64 bits, signed or not (ArgumentError), or a 0-d integer array."""
    number = python_number(seed)
    if isinstance(number, int) and not isinstance(number, bool):
        if not -(2**63) <= number < 2**64:
            raise ArgumentError(
                what="key: seed", actual=number, expected="an integer of 64 bits", where=user_location(),
                remedy="take its last bits, with % 2**64, or fold_in the others.",
            )  # fmt: skip
        words = [(number >> 32) & 0xFFFFFFFF, number & 0xFFFFFFFF]
        return constant(np.array(words, np.uint32))
    if shape_of(seed) != () or not dtype_of(seed, "key: seed").is_integer:
        raise DTypeError(
            what="key: seed", actual=f"{dtype_of(seed)}{list(shape_of(seed))}", expected="a 0-d integer",
            where=user_location(),
        )  # fmt: skip
    with joined(seed):
        return manipulation.stack(list(_words(seed)))


def split(key: ArrayLike, num: int = 2, /) -> Array:
    """Independent keys made from one: u32 [num, 2]; `first, second = split(key)` takes them apart."""
    count = shape_argument(num, "split: num")
    return bits(_other_stream(_checked(key), _SPLIT), (*count, 2))


def fold_in(key: ArrayLike, data: ArrayLike, /) -> Array:
    """The key made from a key and an integer: a step's number, say; different integers give independent keys."""
    mixed = bits(_other_stream(_checked(key), _FOLD), 2)
    if shape_of(data) != () or not dtype_of(data, "fold_in: data").is_integer:
        raise DTypeError(
            what="fold_in: data", actual=f"{dtype_of(data)}{list(shape_of(data))}", expected="a 0-d integer",
            where=user_location(),
        )  # fmt: skip
    with joined(mixed, data):
        return bits(logic.bitwise_xor(mixed, manipulation.stack(list(_words(data)))), 2)


def _words(data: ArrayLike) -> tuple[Array, Array]:
    """The two words of an integer, high first."""
    number = python_number(data)
    if isinstance(number, int):
        return lift(literal((number >> 32) & 0xFFFFFFFF, u32)), lift(literal(number & 0xFFFFFFFF, u32))
    dtype = dtype_of(data)
    value = lift(cast(data, dtype))
    low = lift(cast(value, u32))
    if dtype.bits == 64:
        return lift(cast(value >> 32, u32)), low
    sign = low >> 31 if dtype.kind == "int" else low * 0
    return lift(literal(0, u32)) - sign, low  # as the high word of the number in 64 bits


def _checked(key: ArrayLike) -> Array:
    if not is_array(key) or dtype_of(key) is not u32 or shape_of(key) != (2,):
        shown = f"{dtype_of(key, 'key')}{list(shape_of(key))}"
        raise ShapeError(
            what="key", actual=shown, expected="u32[2]", where=user_location(),
            remedy="make one with ops.random.key(seed).",
        )  # fmt: skip
    return lift(key)


def _other_stream(key: Array, flipped: tuple[int, int]) -> Array:
    with joined(key):
        return logic.bitwise_xor(key, constant(np.array(flipped, np.uint32)))


# --- bits and uniform numbers -----------------------------------------------------------------------------------------


def bits(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = u32) -> Array:
    """Uniform random bits: u32 or u64."""
    found = dtype_argument(dtype)
    if found not in (u32, u64):
        raise DTypeError(what="bits: dtype", actual=found, expected="u32 or u64", where=user_location())
    return bind1("random_bits", (_checked(key),), shape=shape_argument(shape), dtype=found)


def uniform(
    key: ArrayLike, shape: Shape = (), dtype: DTypeLike = f32, low: ArrayLike = 0.0, high: ArrayLike = 1.0
) -> Array:
    """Uniform floats in [low, high): multiples of 2^-24 of the interval for f32, and as fine as they can be for others.

    low and high are numbers or arrays that broadcast to `shape`.
    """
    found = _float_dtype(dtype, "uniform")
    unit = _unit(key, shape_argument(shape), found)
    if not is_array(low) and not is_array(high) and (low, high) == (0, 1):
        return unit
    with joined(unit, low, high):
        first, last = (lift(cast(x, found)) for x in (low, high))
        drawn = between(first, last, unit)
        # The greatest parts may round up to high.
        within = logic.where(logic.logical_and(drawn >= last, first < last), functions.nextafter(last, first), drawn)
        return manipulation.broadcast_to(within, unit.shape)


def _unit(key: ArrayLike, shape: tuple[int, ...], dtype: DType) -> Array:
    """Multiples of 2^-p below 1, where p is the precision of the dtype."""
    if dtype is f64:
        return lift(cast(bits(key, shape, u64) >> 11, f64)) * 2.0**-53
    precision = {16: 11, 32: 24}[dtype.bits] if dtype.name != "bf16" else 8
    return lift(cast(bits(key, shape) >> (32 - precision), dtype)) * 2.0**-precision


def _float_dtype(dtype: DTypeLike, what: str) -> DType:
    found = dtype_argument(dtype)
    if not found.is_float:
        raise DTypeError(what=f"{what}: dtype", actual=found, expected="a float dtype", where=user_location())
    return found


def randint(key: ArrayLike, shape: Shape, low: ArrayLike, high: ArrayLike, dtype: DTypeLike = i32) -> Array:
    """Integers from low up to, not including, high, as likely as each other to within a part (high - low) / 2^64.

    For i64 and u64 that is a part of 2^128.

    low and high are integers, high up to one past the dtype's largest, or integer arrays that broadcast to `shape`.
    ArgumentError where nothing lies between them.  While tracing, the values of arrays are not known: they are moved to
    the nearest that the dtype allows, and where nothing lies between them the result is low.
    """
    found, extents = dtype_argument(dtype), shape_argument(shape)
    if not found.is_integer:
        raise DTypeError(what="randint: dtype", actual=found, expected="an integer dtype", where=user_location())
    wide = u64 if found.bits == 64 else u32
    _check_interval(low, high, found)
    with joined(key, low, high):
        start, span = _interval(low, high, found, wide)
        drawn = bits(key, (2, *extents), wide)
        offset = drawn[0] if span is None else _scaled(drawn, span)
        if span is not None and (is_array(low) or is_array(high)):
            offset = logic.where(span == 0, drawn[0], offset)
        return manipulation.broadcast_to(lift(cast(start + offset, found)), extents)


def _check_interval(low: ArrayLike, high: ArrayLike, dtype: DType) -> None:
    """Errors for bounds that are no integers, or whose values are known and do not fit or enclose nothing."""
    for bound, name in ((low, "low"), (high, "high")):
        if not dtype_of(bound, f"randint: {name}").is_integer:
            raise DTypeError(
                what=f"randint: {name}", actual=dtype_of(bound), expected="integers", where=user_location()
            )
    if is_traced(low, high) and (is_array(low) or is_array(high)):
        return
    first, last = (np.asarray(python_number(bound), None if is_array(bound) else object) for bound in (low, high))
    if first.dtype != last.dtype:  # which NumPy might compare as floats
        first, last = first.astype(object), last.astype(object)
    pairs = np.broadcast(first, last) if first.size and last.size else ()
    for least, greatest in pairs:
        if least >= greatest:
            raise ArgumentError(
                what="randint: high", actual=int(greatest), expected=f"more than {least}", where=user_location()
            )
    for ends, past in ((first, 0), (last, 1)):
        for end in (ends.min(), ends.max()) if ends.size else ():
            literal(int(end) - past, dtype)


def _interval(low: ArrayLike, high: ArrayLike, dtype: DType, wide: DType) -> tuple[Array, Array | None]:
    """The first integer and the number of integers modulo 2^w; None for the number 2^w itself, of known bounds."""
    least, greatest = python_number(low), python_number(high)
    if isinstance(least, int) and isinstance(greatest, int):
        start, count = least % (1 << wide.bits), greatest - least
        return lift(literal(start, wide)), None if count == 1 << wide.bits else lift(literal(count, wide))
    first, last = _end(low, dtype, wide, 0), _end(high, dtype, wide, 1)
    start = lift(cast(first, wide))
    return start, logic.where(first <= last, lift(cast(last, wide)) - start, 0) + 1


def _end(bound: ArrayLike, dtype: DType, wide: DType, past: int) -> Array:
    """The first or, with `past` 1, the last integer of an interval, moved into the range of its dtype."""
    if not is_array(bound):
        return lift(literal(int(bound) - past, dtype))
    own = dtype_of(bound)
    if isinstance(bound, WeakTracer) and dtype.bits >= 32:
        own = dtype  # a number takes the dtype it meets
    low, high = max(int(dtype.min) + past, int(own.min)), min(int(dtype.max) + past, int(own.max))
    inside = lift(cast(elementwise.clip(lift(cast(bound, own)), low, high), wide))
    return lift(cast(inside - past, dtype))


def _scaled(words: Array, span: Array) -> Array:
    """Two words as a fraction below 1, times a span of one word, rounded down."""
    high, low = words[0], words[1]
    middle = high * span
    carry = middle + _high_word(low, span) < middle
    return _high_word(high, span) + lift(cast(carry, span.dtype))


def _high_word(a: Array, b: Array) -> Array:
    """The high word of the product of two words, from products of half words."""
    half = a.dtype.bits // 2
    mask = (1 << half) - 1
    a_high, a_low, b_high, b_low = a >> half, a & mask, b >> half, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)


# --- other distributions ----------------------------------------------------------------------------------------------


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> Array:
    """Bools, true with probability p; of p's shape unless told."""
    extents = shape_of(p) if shape is None else shape_argument(shape)
    chance = python_number(p)
    if isinstance(chance, (int, float)) and not 0 <= chance <= 1:
        raise ArgumentError(what="bernoulli: p", actual=chance, expected="0 to 1", where=user_location())
    drawn = _unit(key, extents, f32)
    return manipulation.broadcast_to(logic.less(drawn, p), extents)


def normal(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = f32) -> Array:
    """Normal floats of mean 0 and variance 1, by the transform of G. E. P. Box and M. E. Muller (1958)."""
    found, extents = _float_dtype(dtype, "normal"), shape_argument(shape)
    wide = f64 if found is f64 else f32
    words = bits(key, (2, *extents), u64 if wide is f64 else u32)
    width = words.dtype.bits
    # From 2^-width to 1, so that the logarithm is finite.
    radius = elementwise.sqrt(-2 * elementwise.log((lift(cast(words[0], wide)) + 1) * 2.0**-width))
    precision = 53 if wide is f64 else 24
    turn = lift(cast(words[1] >> (width - precision), wide)) * (2 * math.pi * 2.0**-precision)
    return lift(cast(radius * elementwise.cos(turn), found))


def exponential(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = f32) -> Array:
    """Exponential floats of mean 1, of a float dtype; DTypeError for another."""
    found = _float_dtype(dtype, "exponential")
    unit = _unit(key, shape_argument(shape), f64 if found is f64 else f32)
    return lift(cast(-elementwise.log1p(-unit), found))


def gumbel(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = f32) -> Array:
    """Floats of the standard Gumbel distribution, of a float dtype; DTypeError for another."""
    found = _float_dtype(dtype, "gumbel")
    extents = shape_argument(shape)
    if found is f64:
        inside = (lift(cast(bits(key, extents, u64) >> 12, f64)) + 0.5) * 2.0**-52
    else:
        inside = (lift(cast(bits(key, extents) >> 9, f32)) + 0.5) * 2.0**-23
    return lift(cast(-elementwise.log(-elementwise.log(inside)), found))


def categorical(key: ArrayLike, logits: ArrayLike, axis: int = -1) -> Array:
    """Positions (i32) along an axis, each drawn with probability softmax(logits); the axis goes."""
    dtype = common_float(logits, what="categorical")
    with joined(key, logits):
        scores = lift(cast(logits, f32 if dtype.bits == 16 else dtype))
        one_axis(axis, scores.ndim, "categorical")
        return ordering.argmax(scores + gumbel(key, scores.shape, scores.dtype), axis)


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    """Elements of `a` along an axis, or integers below an int `a`, drawn at random: `shape` takes the axis's place.

    Args:
        key: A key of `ops.random`; use it once.
        a: An array, or the number of integers from 0.
        shape: How many to draw.
        replace: Whether an element may be drawn again; without, at most as many as there are, in random order.
        p: The probability of each element, [n]; equal ones by default.  They are not looked at: they should be at
            least 0 and sum to 1.
        axis: The axis of `a` to draw along.
    """
    extents = shape_argument(shape)
    with joined(key, a, p):
        array = lift(a) if is_array(a) and shape_of(a) else None
        place = 0 if array is None else one_axis(axis, array.ndim, "choice")
        count = static_int(a, "choice") if array is None else array.shape[place]
        drawn = _positions(key, count, extents, replace, p)
        if array is None:
            return drawn
        return indexing.take(array, drawn, axis=place, mode="clip")


def _positions(key: ArrayLike, count: int, extents: tuple[int, ...], replace: bool, p: ArrayLike | None) -> Array:
    """The positions (i32, or i64 where `count` is past it) that `choice` draws of `count`."""
    wanted, replace = math.prod(extents), flag(replace, "choice: replace")
    if wanted and (count < 1 or (not replace and wanted > count)):
        expected = "at least one element" if replace else f"at most {count} without replacement"
        raise ArgumentError(what="choice", actual=f"{wanted} of {count}", expected=expected, where=user_location())
    if p is not None and shape_of(p) != (count,):
        raise ShapeError(what="choice: p", actual=shape_of(p), expected=f"({count},)", where=user_location())
    if p is None:
        if replace or not wanted:
            return randint(key, extents, 0, max(count, 1), position_dtype((count,)))
        return manipulation.reshape(permutation(key, count)[:wanted], extents)
    chances = lift(cast(p, common_float(p, what="choice: p")))
    if not replace:
        # The greatest of log(p) + Gumbel noise are a sample without replacement (Kool et al., arXiv:1903.06059).
        scores = elementwise.log(chances) + gumbel(key, (count,), chances.dtype)
        return manipulation.reshape(ordering.top_k(scores, wanted)[1], extents)
    running = ordering.cumsum(chances)
    height = running[-1] * (1 - uniform(key, extents, chances.dtype))  # above 0, so that no p of 0 is drawn
    return elementwise.minimum(ordering.searchsorted(running, height), max(count - 1, 0))


def permutation(key: ArrayLike, x: ArrayLike, /, axis: int = 0) -> Array:
    """The elements of x along an axis in random order; of an int n, those of arange(n)."""
    with joined(key, x):
        if not is_array(x):
            return _shuffled(_checked(key), iota((static_int(x, "permutation"),), 0))
        array = lift(x)
        place = one_axis(axis, array.ndim, "permutation")
        order = _shuffled(_checked(key), iota((array.shape[place],), 0))
        return indexing.take(array, order, axis=place, mode="clip")


def _shuffled(key: Array, order: Array) -> Array:
    """Sorted by random keys, so often that keys which happen to be equal leave no trace."""
    rounds = max(1, math.ceil(3 * math.log(max(order.size, 2)) / math.log(2**32)))
    for number in range(rounds):
        drawn = bits(fold_in(key, number), order.shape)
        order = indexing.take(order, ordering.argsort(drawn), mode="clip")
    return order


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing(__name__, name, __all__)
