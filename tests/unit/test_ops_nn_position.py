"""Rotary embeddings and ALiBi against references in float64, written from the papers' formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace import ops
from poot.trace.dispatch import joined
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run, spec_of

RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# --- references -------------------------------------------------------------------------------------------------------


def plain(dims: int, theta: float) -> Any:
    return np.array([theta ** (-2 * i / dims) for i in range(dims // 2)])


def linear(dims: int, theta: float, factor: float) -> Any:
    return plain(dims, theta) / factor


def dynamic(dims: int, theta: float, factor: float, original: int, length: int) -> Any:
    if length > original:
        theta = theta * (factor * length / original - (factor - 1)) ** (dims / (dims - 2))
    return plain(dims, theta)


def yarn(dims: int, theta: float, factor: float, original: int, fast: float = 32, slow: float = 1) -> Any:
    frequencies = plain(dims, theta)

    def dimension(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(dimension(fast)), 0), min(math.ceil(dimension(slow)), dims - 1)
    result = []
    for i, frequency in enumerate(frequencies):
        ramp = min(max((i - low) / (high - low), 0), 1)
        result.append(frequency / factor * ramp + frequency * (1 - ramp))
    return np.array(result)


def llama3(dims: int, theta: float, factor: float, original: int, low: float = 1, high: float = 4) -> Any:
    result = []
    for frequency in plain(dims, theta):
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            result.append(frequency)
        elif wavelength > original / low:
            result.append(frequency / factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            result.append((1 - smooth) * frequency / factor + smooth * frequency)
    return np.array(result)


SCALINGS: dict[str, tuple[Any, Any]] = {
    "plain": (None, plain),
    "linear": (nn.RopeLinear(4.0), lambda d, t: linear(d, t, 4)),
    "yarn": (nn.RopeYaRN(16.0, 4096), lambda d, t: yarn(d, t, 16, 4096)),
    "yarn, slower": (nn.RopeYaRN(4.0, 2048, 16.0, 2.0), lambda d, t: yarn(d, t, 4, 2048, 16, 2)),
    "llama3": (nn.RopeLlama3(8.0, 8192), lambda d, t: llama3(d, t, 8, 8192)),
    "dynamic": (nn.RopeDynamicNTK(2.0, 16), lambda d, t: dynamic(d, t, 2, 16, 61)),
    "dynamic, short": (nn.RopeDynamicNTK(2.0, 4096), lambda d, t: dynamic(d, t, 2, 4096, 61)),
}


def rotated(x: Any, angles: Any, *, interleaved: bool = False, scale: float = 1.0) -> Any:
    """Pairs as complex numbers; angles broadcast to [..., dims / 2]."""
    x = x.astype(np.float64)
    pairs = angles.shape[-1]
    turning, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if interleaved:
        numbers = turning[..., ::2] + 1j * turning[..., 1::2]
    else:
        numbers = turning[..., :pairs] + 1j * turning[..., pairs:]
    numbers = numbers * np.exp(1j * angles) * scale
    out = np.empty_like(turning)
    if interleaved:
        out[..., ::2], out[..., 1::2] = numbers.real, numbers.imag
    else:
        out[..., :pairs], out[..., pairs:] = numbers.real, numbers.imag
    return np.concatenate([out, rest], -1)


# --- frequencies ------------------------------------------------------------------------------------------------------


BASES = [(64, 10000.0), (128, 500000.0), (96, 10000.0), (2, 10000.0)]


@pytest.mark.parametrize(
    ("name", "dims", "theta"),
    # Dynamic NTK's exponent dims / (dims - 2) has no value for one pair.
    [(name, *base) for name in SCALINGS for base in BASES if base[0] > 2 or not name.startswith("dynamic")],
)
def test_frequencies(name: str, dims: int, theta: float) -> None:
    scaling, reference = SCALINGS[name]
    found = run(lambda n: nn.rope_frequencies(dims, theta, scaling, length=n), np.array(61, np.int32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference(dims, theta), rtol=5e-7)


def test_yarn_scales_attention() -> None:
    assert nn.rope_scale(None) == nn.rope_scale(nn.RopeLinear(8.0)) == 1
    assert nn.rope_scale(nn.RopeYaRN(16.0, 4096)) == pytest.approx(0.1 * math.log(16) + 1)
    assert nn.rope_scale(nn.RopeYaRN(16.0, 4096, attention_factor=0.9)) == 0.9
    assert nn.rope_scale(nn.RopeYaRN(1.0, 4096)) == 1


# --- rotation ---------------------------------------------------------------------------------------------------------

X = normal(2, 3, 5, 16)
POSITIONS = np.int32([0, 1, 7, 30, 60])


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dims", [None, 8])
def test_rope(name: str, interleaved: bool, dims: int | None) -> None:
    scaling, reference = SCALINGS[name]
    angles = POSITIONS[:, None] * reference(dims or 16, 10000.0)
    expected = rotated(X, angles, interleaved=interleaved, scale=nn.rope_scale(scaling)).astype(np.float32)
    check(
        lambda x, p: nn.rope(x, p, dims=dims, scaling=scaling, interleaved=interleaved),
        expected,
        X,
        POSITIONS,
        rtol=2e-5,
        atol=2e-5,
    )


def test_positions_of_their_own_for_each_sequence() -> None:
    positions = np.int64([[0, 1, 2, 3, 4], [9, 10, 11, 12, 13]])[:, None]
    angles = positions[..., None] * plain(16, 10000.0)
    check(nn.rope, rotated(X, angles).astype(np.float32), X, positions, rtol=1e-5, atol=1e-5)
    check(lambda x: nn.rope(x, 3), rotated(X, 3 * plain(16, 10000.0)).astype(np.float32), X, rtol=1e-5, atol=1e-5)


def test_scores_depend_on_distance_alone() -> None:
    q, k = normal(16), normal(16)

    def score(q: Any, k: Any, first: int, second: int) -> Any:
        return ops.sum(nn.rope(q, first) * nn.rope(k, second))

    near = run(lambda q, k: score(q, k, 5, 2), q, k)
    np.testing.assert_allclose(run(lambda q, k: score(q, k, 105, 102), q, k), near, rtol=1e-3, atol=1e-4)


def test_halves_are_turned_in_f32() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    expected = rotated(x, POSITIONS[:, None] * plain(8, 10000.0)).astype(ml_dtypes.bfloat16)
    actual = run(lambda x, p: nn.rope(x, p, dims=8), x, POSITIONS)
    assert actual.dtype == x.dtype
    assert (actual != expected).mean() < 2e-2  # angles are f32, so that a few fall on the other side of a tie
    np.testing.assert_allclose(actual.astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=1e-2)


def test_one_table_serves_all_layers() -> None:
    def function(x: Any, p: Any) -> Any:
        with joined(x):
            cos, sin = nn.rope_table(p, nn.rope_frequencies(16))
            return nn.rotate(x, cos, sin), nn.rotate(x * 2, cos, sin)

    graph = build(function, X, POSITIONS)
    assert [equation.primitive for equation in graph.equations].count("cos") == 1
    expected = rotated(X, POSITIONS[:, None] * plain(16, 10000.0)).astype(np.float32)
    check(function, [expected, 2 * expected], X, POSITIONS, rtol=1e-5, atol=2e-5)


def test_nothing_needs_host_arrays() -> None:
    """A bare builder holds no arrays: frequencies and slopes are computed in the graph."""
    assert spec_of(X).shape == build(nn.rope, X, POSITIONS).outputs[0].spec.shape


# --- ALiBi ------------------------------------------------------------------------------------------------------------


def slopes(heads: int) -> list[float]:
    if heads & (heads - 1) == 0:
        return [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
    power = 2 ** math.floor(math.log2(heads))
    return slopes(power) + slopes(2 * power)[0::2][: heads - power]


def within(function: Callable[[], Any]) -> Any:
    """What a function of no operands gives in a graph."""

    def recorded(x: Any) -> Any:
        with joined(x):
            return function()

    return run(recorded, np.zeros(1, np.float32))


@pytest.mark.parametrize("heads", [1, 2, 8, 12, 16, 20])
def test_slopes(heads: int) -> None:
    found = within(lambda: nn.alibi_slopes(heads))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, slopes(heads), rtol=3e-7)


@pytest.mark.parametrize("offset", [None, 0, 2])
def test_alibi(offset: int | None) -> None:
    distance = np.arange(6)[None, :] - (np.arange(4)[:, None] + (2 if offset is None else offset))
    expected = -np.array(slopes(3))[:, None, None] * np.abs(distance)
    found = within(lambda: nn.alibi(3, 4, 6, offset=offset))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (ArgumentError, "rope: dims: 5 is not valid", lambda x, p: nn.rope(x, p, dims=5)),
    (ArgumentError, "rope: theta", lambda x, p: nn.rope(x, p, 0.0)),
    (ShapeError, r"rotate: cos: shape \(5, 9\), expected at most 8 pairs", lambda x, p: nn.rope(x, p, dims=18)),
    (ShapeError, r"rope: positions: shape \(2, 3, 5\) and \(4,\)", lambda x, p: nn.rope(x, p[:4])),
    (ShapeError, "rotate: sin", lambda x, p: nn.rotate(x, p, p[:1])),
    (ShapeError, "rope_table: frequencies", lambda x, p: nn.rope_table(p, x)),
    (
        ArgumentError,
        "rope_frequencies: length",
        lambda x, p: nn.rope_frequencies(8, scaling=nn.RopeDynamicNTK(2.0, 8)) * x,
    ),
    (DTypeError, "alibi: offset: dtype f32", lambda x, p: nn.alibi(2, 3, 4, offset=x)),
    (ArgumentError, "alibi: heads", lambda x, p: nn.alibi(0, 3, 4) * x),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, function = REFUSALS[number]
    with pytest.raises(error, match=message) as caught:
        run(function, X, POSITIONS)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]
