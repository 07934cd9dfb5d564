"""Every cast and conversion, bit for bit, against ml_dtypes and NumPy: all pairs of dtypes, on the oracle and devices.

What a cast means is docs/numerics.md.  The expected values are those of ml_dtypes and NumPy, but where they leave a
cast to the processor (floats outside the range of an integer, NaN) or round twice (f64 and wide integers to bf16,
through f32): there floats saturate, NaN is 0, and the one rounding is worked out with fractions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import ALL, NUMBERS, DType, bf16, bool_, f16, f32, f64, i64
from tests.closeness import outcomes
from tests.exact_floats import FORMATS, round_fraction

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

RANDOM = 1000


# --- values -----------------------------------------------------------------------------------------------------------


def values(source: DType) -> Any:
    """All values of up to 16 bits; of wider dtypes random bits, specials, and the neighbourhood of every boundary."""
    if source is bool_:
        return np.array([False, True])
    if source.bits <= 16:
        return np.arange(1 << source.bits, dtype=f"u{source.itemsize}").view(source.dtype)
    rng = np.random.default_rng(list(source.name.encode()))
    bits = rng.integers(0, 1 << source.bits, RANDOM, dtype=f"u{source.itemsize}", endpoint=False)
    near = [bits.view(source.dtype), boundaries(source)]
    with np.errstate(all="ignore"):
        if source.is_float:
            near += [ties(source, rng), specials(source)]
            # Magnitudes at which casts to integers and to halves do something.
            near.append((rng.standard_normal(RANDOM) * 2.0 ** rng.integers(-30, 66, RANDOM)).astype(source.dtype))
        else:
            near.append((bits >> rng.integers(0, source.bits, RANDOM).astype(bits.dtype)).view(source.dtype))
    return np.concatenate(near)


def boundaries(source: DType) -> Any:
    """The numbers around powers of two and between them, and around the ends of every integer dtype."""
    whole = {sign * ((1 << power) + step) for power in range(66) for step in (-1, 0, 1) for sign in (1, -1)}
    for precision, _ in FORMATS.values():
        for power in range(precision, 65):
            # One unit of the format above a power of two, half of one, and what lies beside the half.
            unit = 1 << (power - precision + 1)
            for halves in (1, 2, 3):
                middle = (1 << power) + halves * unit // 2
                whole |= {sign * (middle + step) for step in (-1, 0, 1) for sign in (1, -1)}
    if source.is_float:
        exact = np.array([float(number) for number in sorted(whole)]).astype(source.dtype)
        beside = [np.nextafter(exact, source.dtype.type(end)) for end in (-np.inf, np.inf)]
        return np.concatenate([exact, *beside, exact / 2, exact + source.dtype.type(0.5)])
    return np.array([number for number in sorted(whole) if source.min <= number <= source.max], source.dtype)


def ties(source: DType, rng: np.random.Generator) -> Any:
    """Halfway between numbers of the narrower floats, subnormal ones included, and one step to either side."""
    found: list[Any] = []
    for target in (f16, bf16, f32):
        if target.bits >= source.bits:
            continue
        bits = rng.integers(0, 1 << target.bits, 500).astype(f"u{target.itemsize}")
        edge = np.array([0, 1, 2, (1 << (target.bits - 1)) - 1], bits.dtype)  # around zero, and NaN
        low = np.concatenate([bits, edge]).view(target.dtype).astype(np.float64)
        high = (np.concatenate([bits, edge]) + np.array(1, bits.dtype)).view(target.dtype).astype(np.float64)
        middle = (low + (high - low) / 2).astype(source.dtype)
        found += [middle, *(np.nextafter(middle, source.dtype.type(end)) for end in (-np.inf, np.inf))]
    # Between the greatest number of a format and infinity: the half itself rounds to infinity.
    for target in (f16, bf16, f32):
        precision, least = FORMATS[target]
        edge = 2.0 ** (2 - least) - 2.0 ** (1 - least - precision)
        middle = np.array([edge, -edge]).astype(source.dtype)
        found += [middle, *(np.nextafter(middle, source.dtype.type(end)) for end in (0, np.inf, -np.inf))]
    return np.concatenate(found)


def specials(source: DType) -> Any:
    info = np.finfo(source.dtype)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal]
    quiet, exponent = 1 << FORMATS[source][0] - 2, np.array(np.inf).astype(source.dtype).view(f"u{source.itemsize}")
    # NaNs whose payload lies in the lowest bits alone, which a narrower format does not have.
    payloads = [int(exponent) | low for low in (1, 3, quiet - 1, quiet, quiet | 1)]
    nans = np.array([p | sign for p in payloads for sign in (0, 1 << source.bits - 1)], f"u{source.itemsize}")
    return np.concatenate([np.array(numbers).astype(source.dtype), nans.view(source.dtype)])


# --- meanings ---------------------------------------------------------------------------------------------------------


def expected(x: Any, source: DType, target: DType) -> Any:
    with np.errstate(all="ignore"):
        if target is bool_:
            return x != 0
        if source.is_float and target.is_integer:
            return saturated(x.astype(np.float64), target)
        if twice(source, target):
            return np.array([once(value, target) for value in x.tolist()]).astype(target.dtype)
        return x.astype(target.dtype)


def saturated(x: Any, target: DType) -> Any:
    """Towards zero, as NumPy has it within the range; the ends of the range beyond it."""
    low, high = int(target.min), int(target.max)
    inside = (x > low - 1) & (x < 2.0 ** (target.bits - (target.kind == "int")))
    found = np.where(inside, x, 0).astype(i64.dtype if target.kind == "int" else np.uint64).astype(target.dtype)
    found = np.where(x >= 2.0 ** (target.bits - (target.kind == "int")), target.dtype.type(high), found)
    return np.where(x <= low - 1, target.dtype.type(low), found)


def twice(source: DType, target: DType) -> bool:
    """Whether a library rounds to f32, or f64, on the way."""
    if source is f64:
        return target is bf16
    return source.is_integer and source.bits >= 32 and target.is_float and FORMATS[target][0] < source.bits


def once(value: float | int, target: DType) -> float:
    if value != value or value in (np.inf, -np.inf):
        return float(value)
    return round_fraction(Fraction(value), target, negative_zero=str(value).startswith("-"))


def patterns(x: Any, dtype: DType) -> Any:
    """Bit patterns, every NaN being one."""
    if not dtype.is_float:
        return x
    with np.errstate(invalid="ignore"):  # ml_dtypes raises the flag for signalling NaNs
        nan = np.isnan(x)
    return np.where(nan, 0, np.ascontiguousarray(x).view(f"u{dtype.itemsize}")), nan


def check(actual: Any, wanted: Any, x: Any, target: DType, *others: Any) -> None:
    """Whether each value is the one wanted; `others` are what it may be instead."""
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    mine = np.asarray(patterns(actual, target))
    differs = [np.atleast_2d(mine != np.asarray(patterns(each, target))).any(axis=0) for each in (wanted, *others)]
    wrong = np.all(differs, axis=0)
    first = int(np.argmax(wrong))
    assert not wrong.any(), f"{wrong.sum()} of {x.size}: {x[first]!r} gives {actual[first]!r}, not {wanted[first]!r}"


# --- casts ------------------------------------------------------------------------------------------------------------


def everything(x: Any) -> Any:
    return tuple(ops.astype(x, target) for target in ALL)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_the_oracle(source: DType) -> None:
    x = values(source)
    for target, actual in zip(ALL, poot.trace(everything).evaluate(x), strict=True):
        check(actual, expected(x, source, target), x, target)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_devices(source: DType, device_name: str) -> None:
    x, device = values(source), poot.device(device_name)
    for target, actual in zip(ALL, poot.trace(everything, device=device)(x), strict=True):
        wanted, *others = outcomes(device.target, partial(expected, source=source, target=target), x)
        check(np.asarray(actual), wanted, x, target, *others)


def test_the_expected_values_are_the_libraries_where_those_round_once() -> None:
    x = values(f32)
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64)
    for target in (f16, bf16):
        check(expected(exact, f64, target), expected(x, f32, target), x, target)


# --- bitcasts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_bitcasts(source: DType, device_name: str) -> None:
    x = values(source)
    targets = [target for target in NUMBERS if target.bits == source.bits]

    def function(x: Any) -> Any:
        return tuple(ops.bitcast(x, target) for target in targets)

    traced = poot.trace(function, device=device_name)
    for target, actual, oracle in zip(targets, traced(x), traced.evaluate(x), strict=True):
        for found in (np.asarray(actual), oracle):
            assert found.dtype == target.dtype
            assert found.tobytes() == x.tobytes()
