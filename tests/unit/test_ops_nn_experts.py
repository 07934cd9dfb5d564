"""Gating and mixtures of experts against a reference that goes token by token in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# --- gating -----------------------------------------------------------------------------------------------------------


def gating(
    logits: Any, k: int, scoring: str, normalize: bool, bias: Any = None, groups: Any = None, scale: float = 1.0
) -> tuple[Any, Any]:
    weights, experts = [], []
    for row in logits.astype(np.float64):
        scores = special.softmax(row) if scoring == "softmax" else special.expit(row)
        choice = scores if bias is None else scores + bias
        if groups is not None:
            number, kept = groups
            parts = choice.reshape(number, -1)
            best = np.argsort([-sum(sorted(part)[-2:]) for part in parts], kind="stable")[:kept]
            choice = np.where(np.isin(np.arange(number), best)[:, None], parts, -np.inf).reshape(-1)
        chosen = np.argsort(-choice, kind="stable")[:k]
        found = scores[chosen]
        weights.append(scale * (found / found.sum() if normalize else found))
        experts.append(chosen)
    return np.array(weights, np.float32), np.array(experts, np.int32)


LOGITS, BIAS = normal(9, 8) * 2, normal(8) * 0.3


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("groups", [None, (4, 2), (8, 4), (2, 1)])
def test_gating(scoring: Any, normalize: bool, biased: bool, groups: Any) -> None:
    expected = gating(LOGITS, 3, scoring, normalize, BIAS if biased else None, groups, 2.5)
    check(
        lambda x, *b: nn.top_k_gating(
            x, 3, scoring=scoring, normalize=normalize, bias=b[0] if b else None, groups=groups, scale=2.5
        ),
        expected,
        LOGITS,
        *([BIAS] if biased else []),
        rtol=1e-5,
    )


def test_normalised_softmax_is_the_softmax_of_the_chosen() -> None:
    weights, experts = run(lambda x: nn.top_k_gating(x, 2), LOGITS)
    chosen = np.take_along_axis(LOGITS.astype(np.float64), experts, -1)
    np.testing.assert_allclose(weights, special.softmax(chosen, -1), rtol=1e-5)
    halves = run(lambda x: nn.top_k_gating(x, 2), LOGITS.astype(ml_dtypes.bfloat16))
    assert halves[0].dtype == ml_dtypes.bfloat16 and halves[1].dtype == np.int32


# --- experts ----------------------------------------------------------------------------------------------------------

TOKENS, K, EXPERTS, IN, HIDDEN, OUT = 5, 2, 6, 4, 7, 3
X = normal(TOKENS, IN)
SHARES = np.abs(normal(TOKENS, K))
PICKS = RNG.integers(0, EXPERTS, (TOKENS, K)).astype(np.int32)
UP, GATE, DOWN = normal(EXPERTS, HIDDEN, IN), normal(EXPERTS, HIDDEN, IN), normal(EXPERTS, OUT, HIDDEN)
UP_BIAS, GATE_BIAS, DOWN_BIAS = normal(EXPERTS, HIDDEN), normal(EXPERTS, HIDDEN), normal(EXPERTS, OUT)


def mixture(x: Any, shares: Any, picks: Any, gated: bool, biased: bool) -> Any:
    result = np.zeros((len(x), OUT))
    wide = x.astype(np.float64)
    for token, (row, chosen) in enumerate(zip(shares, picks, strict=True)):
        for share, expert in zip(row, chosen, strict=True):
            if not 0 <= expert < EXPERTS:
                continue
            up = UP[expert] @ wide[token] + (UP_BIAS[expert] if biased else 0)
            gate = GATE[expert] @ wide[token] + (GATE_BIAS[expert] if biased else 0)
            inner = gate * special.expit(gate) * up if gated else up * special.expit(up)
            result[token] += share * (DOWN[expert] @ inner + (DOWN_BIAS[expert] if biased else 0))
    return result


@pytest.mark.parametrize("method", ["dense", "gather"])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_moe(method: Any, gated: bool, biased: bool) -> None:
    picks = PICKS.copy()
    picks[1, 0], picks[2, 1] = -1, EXPERTS  # take part with nothing
    picks[3] = 4  # both the same
    expected = mixture(X, SHARES, picks, gated, biased).astype(np.float32)
    names = (["gate"] if gated else []) + (["up_bias", "down_bias"] if biased else [])
    names += ["gate_bias"] if gated and biased else []
    values = {"gate": GATE, "up_bias": UP_BIAS, "down_bias": DOWN_BIAS, "gate_bias": GATE_BIAS}

    def function(x: Any, shares: Any, picks: Any, up: Any, down: Any, *rest: Any) -> Any:
        return nn.moe(x, shares, picks, up, down, method=method, **dict(zip(names, rest, strict=True)))

    arrays = (X, SHARES, picks, UP, DOWN, *(values[name] for name in names))
    check(function, expected, *arrays, rtol=1e-5, atol=1e-5)


def test_moe_of_a_batch_and_another_activation() -> None:
    x, shares, picks = X.reshape(1, TOKENS, IN), SHARES[None], PICKS[None]
    expected = np.zeros((1, TOKENS, OUT))
    for token, chosen in enumerate(PICKS):
        for share, expert in zip(SHARES[token], chosen, strict=True):
            expected[0, token] += share * (DOWN[expert] @ np.maximum(UP[expert].astype(np.float64) @ X[token], 0))
    check(
        lambda *xs: nn.moe(*xs, activation=nn.relu),
        expected.astype(np.float32),
        x,
        shares,
        picks,
        UP,
        DOWN,
        rtol=1e-5,
        atol=1e-5,
    )


def test_few_tokens_gather_their_experts() -> None:
    def kinds(tokens: int) -> set[str]:
        graph = build(nn.moe, X[:tokens], SHARES[:tokens], PICKS[:tokens], UP, DOWN)
        return {equation.primitive for equation in graph.equations}

    assert "gather" in kinds(3)
    assert "gather" not in kinds(4)


def test_moe_of_halves_sums_in_f32() -> None:
    x, up, down, gate = (v.astype(ml_dtypes.bfloat16) for v in (X, UP, DOWN, GATE))
    actual = run(lambda x, s, p, u, d, g: nn.moe(x, s, p, u, d, g), x, SHARES, PICKS, up, down, gate)
    assert actual.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(actual.astype(np.float64), mixture(X, SHARES, PICKS, True, False), rtol=0.06, atol=0.15)


REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (ArgumentError, "top_k_gating: k: 9 is not valid, expected 1 to 8", lambda x: nn.top_k_gating(x, 9)),
    (ArgumentError, "top_k_gating: scoring", lambda x: nn.top_k_gating(x, 2, scoring="max")),  # type: ignore[arg-type]
    (ArgumentError, r"top_k_gating: groups: \(3, 1\)", lambda x: nn.top_k_gating(x, 2, groups=(3, 1))),
    (ArgumentError, r"top_k_gating: groups: \(4, 1\)", lambda x: nn.top_k_gating(x, 3, groups=(4, 1))),
    (ShapeError, r"top_k_gating: bias: shape \(9,\)", lambda x: nn.top_k_gating(x, 2, bias=x[:, 0])),
    (DTypeError, "moe: experts: dtype f32", lambda x: nn.moe(x, x, x, UP, DOWN)),
    (ShapeError, r"moe: experts: shape \(5, 2\), expected \(9, k\)", lambda x: nn.moe(x, SHARES, PICKS, UP, DOWN)),
    (ShapeError, r"moe: weights: shape \(5, 1\)", lambda x: nn.moe(x[:5, :4], SHARES[:, :1], PICKS, UP, DOWN)),
    (ShapeError, r"moe: up: shape \(6, 7, 4\)", lambda x: nn.moe(x[:5], SHARES, PICKS, UP, DOWN)),
    (ShapeError, r"moe: down: shape \(6, 7, 4\)", lambda x: nn.moe(x[:5, :4], SHARES, PICKS, UP, UP)),
    (ShapeError, "moe: gate", lambda x: nn.moe(x[:5, :4], SHARES, PICKS, UP, DOWN, DOWN)),
    (ArgumentError, "moe: method", lambda x: nn.moe(x[:5, :4], SHARES, PICKS, UP, DOWN, method="all")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, function = REFUSALS[number]
    with pytest.raises(error, match=message) as caught:
        build(function, LOGITS)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]
