"""Positions: rotary embeddings with their extensions to longer contexts, and ALiBi."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poot.dtypes import f32, i32
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, is_array
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, logic, manipulation, reductions
from poot.trace.ops.axes import flag, number, scalar, static_int
from poot.trace.ops.creation import iota
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.promotion import broadcast_shapes, cast, dtype_of, shape_of
from poot.trace.source import user_location

# --- frequencies ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RopeLinear:
    """Positions divided by `factor` (Chen et al., "Position Interpolation", arXiv:2306.15595)."""

    factor: float


@dataclass(frozen=True, slots=True)
class RopeDynamicNTK:
    """The base raised as far as the sequence is longer than `original_context` (bloc97 and emozilla, 2023).

    Section 3.3 of arXiv:2309.00071 describes it.  The base is theta * (factor * length / original_context - factor +
    1)^(dims / (dims - 2)), and theta itself up to the original context.
    """

    factor: float
    original_context: int


@dataclass(frozen=True, slots=True)
class RopeYaRN:
    """Low frequencies interpolated, high ones kept, a ramp between them (Peng et al., YaRN, arXiv:2309.00071).

    `beta_fast` and `beta_slow` are the turns within the original context at which the ramp begins and ends; `truncate`
    widens it to whole pairs of dimensions.  Sines and cosines are multiplied by `attention_factor`, by default
    0.1 * ln(factor) + 1.
    """

    factor: float
    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True


@dataclass(frozen=True, slots=True)
class RopeLlama3:
    """Wavelengths beyond original_context / low_frequency stretched by `factor`, a smooth passage (Llama 3.1).

    Wavelengths below original_context / high_frequency are kept (Grattafiori et al., arXiv:2407.21783, and the model's
    published code).
    """

    factor: float
    original_context: int
    low_frequency: float = 1.0
    high_frequency: float = 4.0


RopeScaling = RopeLinear | RopeDynamicNTK | RopeYaRN | RopeLlama3


def rope_frequencies(
    dims: int, theta: float = 10000.0, scaling: RopeScaling | None = None, *, length: ArrayLike | None = None
) -> Array:
    """The angle by which each pair of dimensions turns from one position to the next: f32 [dims / 2].

    Args:
        dims: How many dimensions of a head turn; even.
        theta: The base: pair i turns by theta^(-2 i / dims).
        scaling: How frequencies are changed for longer contexts, or None.
        length: The length of the sequence, a number or 0-d array; `RopeDynamicNTK` needs it.
    """
    count = static_int(dims, "rope: dims")
    if count < 2 or count % 2:
        raise ArgumentError(what="rope: dims", actual=count, expected="a positive even number", where=user_location())
    theta = number(theta, "rope: theta")
    if not theta > 0:
        raise ArgumentError(what="rope: theta", actual=theta, expected="a positive number", where=user_location())
    with joined(length):
        plain = _plain(count, float(theta))
        match scaling:
            case None:
                return plain
            case RopeLinear(factor):
                return plain / factor
            case RopeDynamicNTK():
                return _dynamic(plain, count, scaling, length)
            case RopeYaRN():
                return _yarn(plain, count, theta, scaling)
            case RopeLlama3():
                return _llama3(plain, scaling)


def _plain(dims: int, theta: float) -> Array:
    """theta^(-2 i / dims), the exponent as a multiple of 2^-12 and a rest, so that its rounding costs no accuracy."""
    twice = iota((dims // 2,), 0, f32) * (-2.0)
    coarse = elementwise.round(twice * (4096.0 / dims)) * (1 / 4096)
    rest = (twice - coarse * float(dims)) * (math.log(theta) / dims)
    return elementwise.pow(theta, coarse) * elementwise.exp(rest)


def _dynamic(plain: Array, dims: int, scaling: RopeDynamicNTK, length: ArrayLike | None) -> Array:
    if length is None:
        raise ArgumentError(
            what="rope_frequencies: length", actual=None, expected="the sequence's length", where=user_location()
        )
    reached = elementwise.maximum(lift(cast(length, f32)), float(scaling.original_context))
    stretch = reached * (scaling.factor / scaling.original_context) - (scaling.factor - 1)
    exponent = iota(plain.shape, 0, f32) * (-2.0 / max(dims - 2, 1))
    return plain * elementwise.pow(stretch, exponent)


def _yarn(plain: Array, dims: int, theta: float, scaling: RopeYaRN) -> Array:
    def pair_of(turns: float) -> float:
        """The pair that makes so many turns within the original context."""
        return dims * math.log(scaling.original_context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_of(scaling.beta_fast), pair_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    ramp = (iota(plain.shape, 0, f32) - float(low)) / max(float(high - low), 1e-3)
    interpolated = elementwise.clip(ramp, 0, 1)
    return plain / scaling.factor * interpolated + plain * (1 - interpolated)


def _llama3(plain: Array, scaling: RopeLlama3) -> Array:
    turns = plain * (scaling.original_context / (2 * math.pi))  # within the original context
    low, high = scaling.low_frequency, scaling.high_frequency
    kept = elementwise.clip((turns - low) / (high - low), 0, 1)
    return plain / scaling.factor * (1 - kept) + plain * kept


def rope_scale(scaling: RopeScaling | None) -> float:
    """What sines and cosines are multiplied by: YaRN's attention factor, else 1."""
    if not isinstance(scaling, RopeYaRN):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1 if scaling.factor > 1 else 1.0


# --- rotation ---------------------------------------------------------------------------------------------------------


def rope(
    x: ArrayLike,
    positions: ArrayLike,
    theta: float = 10000.0,
    *,
    dims: int | None = None,
    scaling: RopeScaling | None = None,
    interleaved: bool = False,
) -> Array:
    """Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864): pairs of dimensions turned by position.

    Args:
        x: [..., positions, head_dim]: queries or keys.
        positions: Integers or floats that broadcast to x's axes but the last: [positions], or [batch, 1, positions].
        theta: The base of the frequencies; see `rope_frequencies`.
        dims: How many dimensions turn, the first ones; by default all (a partial rotation leaves the others).
        scaling: `RopeLinear`, `RopeDynamicNTK`, `RopeYaRN`, `RopeLlama3` or None.  Dynamic NTK takes the greatest
            position that is passed, plus 1, for the length.
        interleaved: Pairs are dimensions 2i and 2i + 1; by default i and i + dims / 2.

    Returns:
        The shape and dtype of x (f32 for integers).  Angles are f32, products f32, or f64 where x is.
    """
    shape = shape_of(x)
    if not shape:
        raise ShapeError(what="rope: x", actual=shape, expected="[..., positions, head_dim]", where=user_location())
    turning = shape[-1] if dims is None else static_int(dims, "rope: dims")
    with joined(x, positions):
        length = None
        if isinstance(scaling, RopeDynamicNTK):
            length = reductions.max(lift(cast(positions, f32))) + 1
        frequencies = rope_frequencies(turning, theta, scaling, length=length)
        cos, sin = rope_table(positions, frequencies, scale=rope_scale(scaling))
        return rotate(x, cos, sin, interleaved=interleaved)


def rope_table(positions: ArrayLike, frequencies: ArrayLike, *, scale: float = 1.0) -> tuple[Array, Array]:
    """The cosines and sines of positions * frequencies, times `scale`: both f32 [..., dims / 2].

    Make them once for all layers, and turn with `rotate`.

    Args:
        positions: Integers or floats, [...].
        frequencies: [dims / 2], from `rope_frequencies` or another rule.
        scale: `rope_scale(scaling)` for YaRN.
    """
    if len(shape_of(frequencies)) != 1:
        raise ShapeError(
            what="rope_table: frequencies", actual=shape_of(frequencies), expected="[dims / 2]", where=user_location()
        )
    with joined(positions, frequencies):
        places = lift(cast(cast(positions, dtype_of(positions, "rope: positions")), f32))
        angles = manipulation.expand_dims(places, -1) * lift(cast(frequencies, f32))
        cos, sin = elementwise.cos(angles), elementwise.sin(angles)
        factor = scalar(scale, "rope_table: scale")
        plain = not is_array(factor) and factor == 1
        return (cos, sin) if plain else (cos * factor, sin * factor)


def rotate(x: ArrayLike, cos: ArrayLike, sin: ArrayLike, *, interleaved: bool = False) -> Array:
    """Pairs of dimensions (a, b) become (a cos - b sin, b cos + a sin); those past the last pair stay.

    Args:
        x: [..., head_dim].
        cos, sin: [..., dims / 2], which broadcast to x but for the last axis; dims is at most head_dim.
        interleaved: As in `rope`.
    """
    wide, dtype = widened(x, "rope")
    if shape_of(cos) != shape_of(sin) or not shape_of(cos):
        raise ShapeError(
            what="rotate: sin", actual=shape_of(sin), expected=f"{shape_of(cos)}, as cos", where=user_location()
        )
    pairs, interleaved = shape_of(cos)[-1], flag(interleaved, "rotate: interleaved")
    if wide.ndim == 0 or 2 * pairs > wide.shape[-1]:
        expected = f"at most {wide.shape[-1] // 2 if wide.ndim else 0} pairs, for x {wide.shape}"
        raise ShapeError(what="rotate: cos", actual=shape_of(cos), expected=expected, where=user_location())
    lead = wide.shape[:-1]
    if broadcast_shapes([lead, shape_of(cos)[:-1]], "rope: positions") != lead:
        expected = f"a shape that broadcasts to {lead}"
        raise ShapeError(what="rope: positions", actual=shape_of(cos)[:-1], expected=expected, where=user_location())
    with joined(wide, cos, sin):
        c, s = (lift(cast(table, wide.dtype)) for table in (cos, sin))
        turning = wide[..., : 2 * pairs]
        parts = manipulation.reshape(turning, (*lead, pairs, 2) if interleaved else (*lead, 2, pairs))
        a, b = (parts[..., 0], parts[..., 1]) if interleaved else (parts[..., 0, :], parts[..., 1, :])
        turned = manipulation.stack([a * c - b * s, b * c + a * s], axis=-1 if interleaved else -2)
        turned = narrowed(manipulation.reshape(turned, turning.shape), dtype)
        if 2 * pairs == wide.shape[-1]:
            return turned
        rest = lift(cast(x, dtype))[..., 2 * pairs :]
        return manipulation.concat([turned, rest], axis=-1)


# --- ALiBi ------------------------------------------------------------------------------------------------------------


def alibi_slopes(heads: int) -> Array:
    """The slope of each head (Press et al., ALiBi, arXiv:2108.12409): f32 [heads].

    Of n = 2^k heads head i has 2^(-8 (i + 1) / n); other numbers take those of the power of two below, then every
    second one of twice as many, as the paper's code does.
    """
    count = static_int(heads, "alibi: heads")
    if count < 1:
        raise ArgumentError(what="alibi: heads", actual=count, expected="at least 1", where=user_location())
    power = 1 << (count.bit_length() - 1)
    number = iota((count,), 0, i32)
    first = lift(cast(number + 1, f32)) * (-8.0 / power)
    later = lift(cast(2 * (number - power) + 1, f32)) * (-4.0 / power)
    return elementwise.pow(2.0, logic.where(number < power, first, later))


def alibi(heads: int, queries: int, keys: int, *, offset: ArrayLike | None = None) -> Array:
    """ALiBi's scores, -slope * |distance|, to be added as the mask of `attention`: f32 [heads, queries, keys].

    `offset` is the place of the first query among the keys, a number or 0-d integer; by default the last query stands
    at the last key.
    """
    rows, columns = static_int(queries, "alibi: queries"), static_int(keys, "alibi: keys")
    if offset is not None and (shape_of(offset) != () or not dtype_of(offset, "alibi: offset").is_integer):
        raise DTypeError(what="alibi: offset", actual=dtype_of(offset), expected="a 0-d integer", where=user_location())
    with joined(offset):
        start = columns - rows if offset is None else lift(cast(cast(offset, dtype_of(offset)), i32))
        place = iota((rows, columns), 0) + start
        distance = lift(cast(elementwise.abs(iota((rows, columns), 1) - place), f32))
        return -manipulation.reshape(alibi_slopes(heads), (-1, 1, 1)) * distance
