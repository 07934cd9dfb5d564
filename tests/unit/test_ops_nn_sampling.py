"""Sampling heads: filters against NumPy, and frequencies of draws against probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from poot.errors import ArgumentError, ShapeError
from poot.trace import ops
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(8)
LOGITS = (RNG.standard_normal((4, 11)) * 2).astype(np.float32)
DRAWS = 4000


def kept_top_p(row: Any, p: float) -> Any:
    """Whether each token belongs to the fewest that reach p."""
    chances = special.softmax(row.astype(np.float64))
    kept, total = np.zeros(row.shape, bool), 0.0
    for token in np.argsort(-row, kind="stable"):
        kept[token] = True
        total += chances[token]
        if total >= p:
            break
    return kept


def kept_min_p(row: Any, p: float) -> Any:
    chances = special.softmax(row.astype(np.float64))
    return chances >= p * chances.max()


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 11, 50])
def test_keep_top_k(k: int) -> None:
    least = np.sort(LOGITS, -1)[:, max(11 - k, 0)][:, None]
    check(lambda x: nn.keep_top_k(x, k), np.where(least <= LOGITS, LOGITS, -np.inf), LOGITS)
    check(lambda x: nn.keep_top_k(x, 1), np.float32([1, -np.inf, 1]), np.float32([1, 0, 1]))


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.999, 1.0])
def test_keep_top_p(p: float) -> None:
    kept = np.stack([kept_top_p(row, p) for row in LOGITS])
    check(lambda x: nn.keep_top_p(x, p), np.where(kept, LOGITS, -np.inf), LOGITS)
    assert np.isfinite(run(lambda x: nn.keep_top_p(x, 0.0), LOGITS)).sum() == len(LOGITS)


@pytest.mark.parametrize("p", [0.0, 0.02, 0.3, 1.0])
def test_keep_min_p(p: float) -> None:
    kept = np.stack([kept_min_p(row, p) for row in LOGITS])
    check(lambda x: nn.keep_min_p(x, p), np.where(kept, LOGITS, -np.inf), LOGITS)


def test_filters_by_row() -> None:
    p = np.float32([0.1, 0.5, 0.9, 1])
    kept = np.stack([kept_top_p(row, float(value)) for row, value in zip(LOGITS, p, strict=True)])
    check(nn.keep_top_p, np.where(kept, LOGITS, -np.inf), LOGITS, p)
    kept = np.stack([kept_min_p(row, float(value)) for row, value in zip(LOGITS, p, strict=True)])
    check(nn.keep_min_p, np.where(kept, LOGITS, -np.inf), LOGITS, p)
    half = run(lambda x: nn.keep_top_k(x, 2), LOGITS.astype(np.float16))
    assert half.dtype == np.float16


# --- draws ------------------------------------------------------------------------------------------------------------


def test_greedy() -> None:
    check(nn.greedy, lambda x: x.argmax(-1).astype(np.int32), LOGITS)
    check(nn.greedy, np.int32(1), np.float32([0, 5, 5]))


def draw(row: Any, **options: Any) -> Any:
    """Many draws from one row of logits."""
    rows = np.broadcast_to(row, (DRAWS, len(row))).copy()
    key = np.asarray([0, int(RNG.integers(1 << 31))], np.uint32)
    tokens = run(lambda x, k: nn.sample(k, x, **options), rows, key)
    assert tokens.dtype == np.int32
    assert tokens.shape == (DRAWS,)
    return np.bincount(tokens, minlength=len(row))


def fits(counts: Any, chances: Any) -> None:
    """Draws have the probabilities expected, and none of those that have none."""
    assert counts[chances == 0].sum() == 0
    if (chances > 0).sum() == 1:
        return
    expected = chances[chances > 0] / chances.sum() * DRAWS
    assert stats.chisquare(counts[chances > 0], expected).pvalue > 1e-4


@pytest.mark.parametrize(
    ("options", "meaning"),
    [
        ({}, lambda row: special.softmax(row)),
        ({"temperature": 2.0}, lambda row: special.softmax(row / 2)),
        ({"top_k": 3}, lambda row: special.softmax(row) * (row >= np.sort(row)[-3])),
        ({"top_p": 0.8}, lambda row: special.softmax(row) * kept_top_p(row, 0.8)),
        ({"min_p": 0.2}, lambda row: special.softmax(row) * kept_min_p(row, 0.2)),
        ({"temperature": 0.5, "min_p": 0.2}, lambda row: special.softmax(row * 2) * kept_min_p(row * 2, 0.2)),
        ({"top_k": 5, "top_p": 0.0}, lambda row: (row == row.max()) * 1.0),
        ({"top_k": 99, "top_p": 1.0}, lambda row: special.softmax(row)),
    ],
)
def test_draws_have_their_probabilities(options: Any, meaning: Any) -> None:
    row = LOGITS[0]
    fits(draw(row, **options), meaning(row.astype(np.float64)))


def test_top_k_before_top_p() -> None:
    row = np.log(np.float32([0.4, 0.3, 0.2, 0.1]))
    # Of the two that top_k keeps, 4/7 reaches 0.55, while over all four 0.4 does not.
    fits(draw(row, top_k=2, top_p=0.55), np.array([1.0, 0, 0, 0]))
    fits(draw(row, top_p=0.55), np.array([0.4, 0.3, 0, 0]))


def test_exactly_k_of_equal_logits() -> None:
    counts = draw(np.zeros(6, np.float32), top_k=2)
    assert (counts > 0).tolist() == [True, True, False, False, False, False]


def test_temperatures_of_their_own() -> None:
    key = np.uint32([1, 2])
    heat = np.float32([0, 1, 0, 1])
    found = run(lambda k, x, t: nn.sample(k, x, temperature=t), key, LOGITS, heat)
    assert (found[::2] == LOGITS.argmax(-1)[::2]).all()
    plain = run(lambda k, x: nn.sample(k, x), key, LOGITS)
    assert (found[1::2] == plain[1::2]).all()
    assert (run(lambda k, x: nn.sample(k, x, temperature=0), key, LOGITS) == LOGITS.argmax(-1)).all()
    zero = np.array(0, np.float32)
    assert (run(lambda k, x, t: nn.sample(k, x, temperature=t, top_k=4), key, LOGITS, zero) == LOGITS.argmax(-1)).all()


def test_keys_decide() -> None:
    rows = np.zeros((200, 50), np.float32)

    def tokens(seed: int) -> Any:
        return run(lambda x, k: nn.sample(k, x), rows, np.uint32([0, seed]))

    assert (tokens(1) == tokens(1)).all()
    assert (tokens(1) == tokens(2)).mean() < 0.1


def test_one_row_and_extra_axes() -> None:
    key = np.uint32([3, 4])
    assert run(lambda k, x: nn.sample(k, x, top_k=2), key, LOGITS[0]).shape == ()
    assert run(lambda k, x: nn.sample(k, x, top_p=0.5), key, LOGITS.reshape(2, 2, 11)).shape == (2, 2)


REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (ShapeError, "greedy: logits", lambda k, x: nn.greedy(x[0, 0])),
    (ShapeError, "sample: logits", lambda k, x: nn.sample(k, x[:, :0])),
    (ArgumentError, "sample: top_k: 0", lambda k, x: nn.sample(k, x, top_k=0)),
    (ShapeError, r"sample: temperature: shape \(3,\) and \(4,\)", lambda k, x: nn.sample(k, x, temperature=x[0, :3])),
    (ShapeError, r"sample: top_p: shape", lambda k, x: nn.sample(k, x, top_p=x)),
    (ShapeError, r"key: shape f32\[4,11\]|key", lambda k, x: nn.sample(x, x)),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, function = REFUSALS[number]
    with pytest.raises(error, match=message) as caught:
        build(function, np.uint32([0, 0]), LOGITS)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]


def test_random_categorical_is_the_head_without_options() -> None:
    key = np.uint32([5, 6])
    plain = run(lambda k, x: ops.random.categorical(k, x), key, LOGITS)
    assert (run(lambda k, x: nn.sample(k, x), key, LOGITS) == plain).all()
