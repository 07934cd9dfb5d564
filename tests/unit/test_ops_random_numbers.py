"""ops.random: keys, bits, and the distributions of what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import poot
from poot.dtypes import bf16, f16, f32, f64, i8, i32, i64, u8, u32, u64
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, OverflowArgumentError, ShapeError
from poot.trace import ops
from poot.trace.dispatch import tracing
from tests.unit.ops_support import run, tracer

random = ops.random
KEY = np.uint32([7, 42])


def draw(function: Any, key: Any = KEY) -> Any:
    return run(function, key)


def test_keys() -> None:
    def keys(x: Any) -> Any:
        with tracing(x.builder):
            return [random.key(5), random.key(2**32 + 3), random.key(-1), random.key(x), random.key(np.int64(5))]

    found = run(keys, np.array(-1, np.int32))
    assert [key.tolist() for key in found] == [[0, 5], [1, 3], [2**32 - 1] * 2, [2**32 - 1] * 2, [0, 5]]
    assert run(random.key, np.array(2**32 + 3, np.int64)).tolist() == [1, 3]
    assert run(random.key, np.array(200, np.uint8)).tolist() == [0, 200]


def test_bits_are_those_of_threefry() -> None:
    # The published test vector of Threefry-2x32 with 20 rounds for key 0 and counter 0.
    words = (0x6B200159, 0x99BA4EFE)
    assert draw(lambda k: random.bits(k), np.uint32([0, 0])) == words[0] ^ words[1]
    assert draw(lambda k: random.bits(k, dtype=u64), np.uint32([0, 0])) == words[0] << 32 | words[1]
    assert draw(lambda k: random.bits(k, (2, 3))).shape == (2, 3)


def test_split_and_fold_in_give_other_keys() -> None:
    def keys(key: Any) -> Any:
        first, second = random.split(key)
        return [first, second, *random.split(key, 5), *(random.fold_in(key, n) for n in range(5)), random.bits(key, 2)]

    found = {tuple(key.tolist()) for key in draw(keys)}
    assert len(found) == 11  # the first two of five are those of two
    data = np.array(3, np.int32)
    assert run(random.fold_in, KEY, data).tolist() == draw(lambda k: random.fold_in(k, 3)).tolist()
    assert draw(lambda k: random.fold_in(k, -1)).tolist() == run(random.fold_in, KEY, np.array(-1, np.int8)).tolist()
    one = draw(lambda k: random.fold_in(k, 1), np.uint32([0, 0]))
    other = draw(lambda k: random.fold_in(k, 0), np.uint32([0, 1]))
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
def test_uniform(dtype: Any) -> None:
    x = draw(lambda k: random.uniform(k, (4000,), dtype))
    assert x.dtype == dtype.dtype
    x = x.astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert stats.kstest(x, "uniform").pvalue > 1e-3 or dtype.bits == 16
    assert abs(x.mean() - 0.5) < 0.02


def test_uniform_between_bounds() -> None:
    x = draw(lambda k: random.uniform(k, (1000, 2), low=-2, high=np.float32(3)))
    assert -2 <= x.min() < -1.9
    assert 2.9 < x.max() < 3
    y = run(lambda k, low: random.uniform(k, (1000, 2), low=low, high=10), KEY, np.float32([0, 9]))
    assert y[:, 1].min() >= 9


@pytest.mark.parametrize("dtype", [f32, f64, bf16])
def test_normal(dtype: Any) -> None:
    x = draw(lambda k: random.normal(k, (4000,), dtype)).astype(np.float64)
    assert np.isfinite(x).all()
    assert stats.kstest(x, "norm").pvalue > 1e-3 or dtype is bf16
    assert abs(x.mean()) < 0.05
    assert abs(x.std() - 1) < 0.05


def test_other_distributions() -> None:
    assert stats.kstest(draw(lambda k: random.exponential(k, (4000,))), "expon").pvalue > 1e-3
    assert stats.kstest(draw(lambda k: random.gumbel(k, (4000,))), "gumbel_r").pvalue > 1e-3
    assert stats.kstest(draw(lambda k: random.gumbel(k, (4000,), f64)), "gumbel_r").pvalue > 1e-3
    hits = draw(lambda k: random.bernoulli(k, 0.3, (4000,)))
    assert hits.dtype == np.bool_
    assert abs(hits.mean() - 0.3) < 0.03
    both = run(lambda k, p: random.bernoulli(k, p), KEY, np.float32([0, 1]))
    assert both.tolist() == [False, True]


CASES = [
    (0, 6, i32), (-3, 4, i8), (0, 256, u8), (-128, 128, i8), (0, 2**31 - 1, i32), (-(2**31), 2**31, i32),
    (0, 3 * 2**30, u32), (0, 2**32, u32), (0, 10, i64), (-(2**63), 2**63, i64), (0, 3 * 2**62, u64),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high", "dtype"), CASES)
def test_randint(low: int, high: int, dtype: Any) -> None:
    x = draw(lambda k: random.randint(k, (3000,), low, high, dtype))
    assert x.dtype == dtype.dtype
    values = [int(item) for item in x]
    assert low <= min(values) <= max(values) < high
    bins = high - low if high - low < 20 else 6
    counts = np.histogram([(value - low + 0.5) / (high - low) for value in values], bins, (0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_randint_between_arrays() -> None:
    x = run(lambda k, low: random.randint(k, (500, 2), low, 10), KEY, np.int32([0, 9]))
    assert x[:, 0].min() == 0
    assert x[:, 1].tolist() == [9] * 500


def test_categorical() -> None:
    logits = np.log(np.float32([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]]))
    x = run(lambda k, p: random.categorical(k, ops.broadcast_to(p, (2000, 2, 3))), KEY, logits)
    assert x.shape == (2000, 2)
    assert np.abs(np.bincount(x[:, 0]) / 2000 - [0.1, 0.2, 0.7]).max() < 0.05
    assert x[:, 1].max() == 1


def test_permutation() -> None:
    order = draw(lambda k: random.permutation(k, 100))
    assert sorted(order.tolist()) == list(range(100))
    assert order.tolist() != list(range(100))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    mixed = run(lambda k, x: random.permutation(k, x, axis=1), KEY, x)
    assert sorted(map(tuple, mixed.T.tolist())) == sorted(map(tuple, x.T.tolist()))


def test_what_does_not_fit() -> None:
    key = tracer(u32[2])
    with pytest.raises(ShapeError, match=r"key: shape u32\[3\], expected u32\[2\]"):
        random.uniform(tracer(u32[3]), (2,))
    with pytest.raises(ArgumentTypeError, match="key: str given"):
        random.uniform("seed", (2,))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="randint: high: 3 is not valid, expected more than 3"):
        random.randint(key, (2,), 3, 3)
    with pytest.raises(DTypeError, match="uniform: dtype: dtype i32, expected a float dtype"):
        random.uniform(key, (2,), i32)
    with pytest.raises(OverflowError, match="256 does not fit u8"):
        random.randint(key, (2,), 0, 257, u8)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
@pytest.mark.parametrize(("low", "high"), [(100, 101), (1, 2), (-1, 0), (3, 3), (-60000, 60000), (2, -2)])
def test_uniform_stays_below_high(dtype: Any, low: float, high: float) -> None:
    x = draw(lambda k: random.uniform(k, (100_000,), dtype, low, high))
    assert x.dtype == dtype.dtype
    x = x.astype(np.float64)
    first, last = (float(np.array(end, dtype.dtype)) for end in (low, high))
    assert np.isfinite(x).all()
    assert ((x >= first) & (x < last)).all() if low < high else ((x <= first) & (x >= last)).all()


def test_uniform_over_the_whole_range() -> None:
    x = draw(lambda k: random.uniform(k, (1000,), low=-3e38, high=3e38))
    assert np.isfinite(x).all()
    assert x.min() < -2.8e38
    assert x.max() > 2.8e38


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
def test_other_distributions_are_finite(dtype: Any) -> None:
    for function in (random.normal, random.exponential, random.gumbel):
        x = draw(lambda k, function=function: function(k, (50_000,), dtype))
        assert np.isfinite(x.astype(np.float64)).all()


KEY_ARRAY = poot.asarray(KEY)


@pytest.mark.parametrize("bound", [np.int64, np.int32, np.uint64, np.uint8])
@pytest.mark.parametrize("dtype", [i8, u8, i32, u32, i64, u64])
def test_randint_of_arrays_is_that_of_numbers(bound: Any, dtype: Any) -> None:
    low, high = (bound(end) for end in (max(int(dtype.min), int(np.iinfo(bound).min)), 100))
    expected = random.randint(KEY_ARRAY, (50,), int(low), int(high), dtype)
    known = random.randint(KEY_ARRAY, (50,), np.array(low), np.array(high), dtype)
    traced = run(lambda k, a, b: random.randint(k, (50,), a, b, dtype), KEY, np.array(low), np.array(high))
    assert expected.tolist() == known.tolist() == traced.tolist()


@pytest.mark.parametrize("dtype", [i8, u8, i32, u32])
def test_randint_of_arrays_over_the_whole_dtype(dtype: Any) -> None:
    low, high = np.array(int(dtype.min)), np.array(int(dtype.max) + 1)
    expected = random.randint(KEY_ARRAY, (50,), int(low), int(high), dtype).tolist()
    assert random.randint(KEY_ARRAY, (50,), low, high, dtype).tolist() == expected
    traced = poot.trace(lambda k, a, b: random.randint(k, (50,), a, b, dtype))
    assert traced(KEY, low, high).tolist() == expected
    assert traced(KEY, np.array(low - 5), np.array(high + 5)).tolist() == expected  # moved into the range
    assert set(traced(KEY, np.array(5), np.array(3)).tolist()) == {5}
    assert set(traced(KEY, np.array(5), low).tolist()) == {5}


def test_randint_checks_arrays() -> None:
    with pytest.raises(ArgumentError, match="randint: high: 3 is not valid, expected more than 5"):
        random.randint(KEY_ARRAY, (4,), np.array(5), np.array(3))
    with pytest.raises(ArgumentError, match="expected more than 2"):
        random.randint(KEY_ARRAY, (2,), poot.asarray([0, 2]), 2)
    with pytest.raises(OverflowArgumentError, match="299 does not fit u8"):
        random.randint(KEY_ARRAY, (4,), 0, np.array(300), u8)
    with pytest.raises(DTypeError, match="randint: low: dtype f64, expected integers"):
        random.randint(KEY_ARRAY, (4,), np.array(1.5), 3)


def test_bernoulli_refuses_what_is_no_probability() -> None:
    for p in (1.5, -0.1, float("nan")):
        with pytest.raises(ArgumentError, match="bernoulli: p"):
            random.bernoulli(KEY_ARRAY, p)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 2**70])
def test_a_seed_of_more_than_64_bits_is_refused(seed: int) -> None:
    for draw in (lambda: random.key(seed), lambda: poot.trace(lambda x: x + random.uniform(random.key(seed)))(1.0)):
        with pytest.raises(ArgumentError, match=f"key: seed: {seed} is not valid, expected an integer of 64 bits"):
            draw()
