"""Losses, one-hot vectors and norms over images, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from poot.dtypes import i8
from poot.errors import ArgumentError, DTypeError, IndexFault, ShapeError
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(6)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# --- cross-entropy ----------------------------------------------------------------------------------------------------


def hard(logits: Any, targets: Any, weights: Any, ignore: Any, smoothing: float, reduction: str) -> Any:
    """Rows [n, classes] one by one."""
    logs = special.log_softmax(logits.astype(np.float64), -1)
    classes = logs.shape[-1]
    weights = np.ones(classes) if weights is None else weights.astype(np.float64)
    losses, counts = [], []
    for row, target in zip(logs, targets, strict=True):
        if target == ignore:
            losses.append(0.0)
            counts.append(0.0)
            continue
        right = -row[target] * weights[target]
        even = -(row * weights).sum() / classes
        losses.append((1 - smoothing) * right + smoothing * even)
        counts.append(weights[target])
    return {"none": np.array(losses), "sum": sum(losses), "mean": sum(losses) / sum(counts)}[reduction]


LOGITS, WEIGHTS = normal(6, 5) * 3, np.abs(normal(5)) + 0.1
TARGETS = np.int32([0, 4, 2, 2, 1, 3])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("ignore", [None, 2, -100])
@pytest.mark.parametrize("weighted", [False, True])
def test_integer_targets(reduction: Any, smoothing: float, ignore: int | None, weighted: bool) -> None:
    targets = TARGETS.astype(np.int64)
    if ignore == -100:
        targets[1] = targets[5] = -100
    weights = [WEIGHTS] if weighted else []
    expected = hard(LOGITS, targets, WEIGHTS if weighted else None, ignore, smoothing, reduction)
    check(
        lambda x, t, *w: nn.cross_entropy(
            x,
            t,
            weights=w[0] if w else None,
            ignore_index=ignore,
            label_smoothing=smoothing,
            reduction=reduction,
        ),
        np.asarray(expected, np.float32),
        LOGITS,
        targets,
        *weights,
        rtol=1e-5,
    )


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_soft_targets(reduction: Any, smoothing: float) -> None:
    targets = special.softmax(normal(6, 5), -1)
    logs = special.log_softmax(LOGITS.astype(np.float64), -1)
    losses = -((targets * (1 - smoothing) + smoothing / 5) * logs * WEIGHTS).sum(-1)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    check(
        lambda x, t, w: nn.cross_entropy(x, t, weights=w, label_smoothing=smoothing, reduction=reduction),
        np.asarray(expected, np.float32),
        LOGITS,
        targets,
        WEIGHTS,
        rtol=1e-5,
    )


def test_classes_along_another_axis() -> None:
    x, targets = normal(2, 5, 3, 4), RNG.integers(0, 5, (2, 3, 4)).astype(np.int32)
    rows = np.moveaxis(x, 1, -1).reshape(-1, 5)
    expected = hard(rows, targets.reshape(-1), None, None, 0.0, "none").reshape(2, 3, 4).astype(np.float32)
    check(lambda x, t: nn.cross_entropy(x, t, axis=1, reduction="none"), expected, x, targets, rtol=1e-5)
    logs = special.log_softmax(x.astype(np.float64), 1).astype(np.float32)
    check(lambda x, t: nn.nll_loss(x, t, axis=1, reduction="none"), expected, logs, targets, rtol=1e-5)


def test_halves_large_logits_and_nothing() -> None:
    x = np.float16([[1000, -1000], [0, 0]])
    check(
        lambda x, t: nn.cross_entropy(x, t, reduction="none"),
        np.float16([2000, np.log(2)]),
        x,
        np.int32([1, 0]),
        rtol=1e-3,
    )
    assert np.isnan(run(lambda x, t: nn.cross_entropy(x, t, ignore_index=1), x, np.int32([1, 1])))
    assert (
        run(lambda x, t: nn.cross_entropy(x, t, reduction="sum"), np.zeros((0, 3), np.float32), np.zeros(0, np.int32))
        == 0
    )


def test_a_class_out_of_range_faults() -> None:
    with pytest.raises(IndexFault):
        run(nn.cross_entropy, LOGITS, np.int32([0, 1, 2, 3, 4, 5]))


# --- one-hot ----------------------------------------------------------------------------------------------------------


def test_one_hot() -> None:
    indices = np.int64([[0, 2], [3, -1]])
    expected = (indices[..., None] == np.arange(3)).astype(np.float32)
    check(lambda x: nn.one_hot(x, 3), expected, indices)
    check(lambda x: nn.one_hot(x, 3, axis=0), np.moveaxis(expected, -1, 0), indices)
    check(lambda x: nn.one_hot(x, 3, axis=-2, dtype="bool"), np.moveaxis(expected, -1, -2).astype(bool), indices)
    check(lambda x: nn.one_hot(x, 3, dtype=i8, on=5, off=-2), np.where(expected, 5, -2).astype(np.int8), indices)
    check(lambda x: nn.one_hot(x, 300)[:, 250:], np.eye(300, dtype=np.float32)[[255, 7]][:, 250:], np.uint8([255, 7]))
    assert run(lambda x: nn.one_hot(x, 0), indices).shape == (2, 2, 0)


# --- norms ------------------------------------------------------------------------------------------------------------


def standardised(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4)])
def test_norms_over_images(shape: tuple[int, ...]) -> None:
    x, w, b = normal(*shape) * 3 + 10, normal(6), normal(6)
    along = (6, *(1,) * (len(shape) - 2))
    scale, offset = w.reshape(along), b.reshape(along)
    if len(shape) > 2:
        expected = standardised(x, tuple(range(2, len(shape)))) * scale + offset
        check(nn.instancenorm, expected.astype(np.float32), x, w, b, rtol=1e-4, atol=1e-4)
    groups = standardised(x.reshape(2, 3, -1), -1).reshape(shape) * scale + offset
    check(lambda x, w, b: nn.groupnorm(x, 3, w, b), groups.astype(np.float32), x, w, b, rtol=1e-4, atol=1e-4)
    mean, variance = normal(6), np.abs(normal(6))
    batch = (x - mean.reshape(along)) / np.sqrt(variance.reshape(along).astype(np.float64) + 1e-5) * scale + offset
    check(nn.batchnorm, batch.astype(np.float32), x, mean, variance, w, b, rtol=1e-4, atol=1e-4)
    last = np.moveaxis(batch, 1, -1)
    check(
        lambda x, m, v, w, b: nn.batchnorm(x, m, v, w, b, axis=-1),
        last.astype(np.float32),
        np.moveaxis(x, 1, -1).copy(),
        mean,
        variance,
        w,
        b,
        rtol=1e-4,
        atol=1e-4,
    )


REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (ArgumentError, "cross_entropy: reduction: 'max'", lambda x: nn.cross_entropy(x, x, reduction="max")),  # type: ignore[arg-type]
    (ArgumentError, "cross_entropy: label_smoothing: 2", lambda x: nn.cross_entropy(x, x, label_smoothing=2)),
    (ArgumentError, "cross_entropy: ignore_index: 1", lambda x: nn.cross_entropy(x, x, ignore_index=1)),
    (ShapeError, r"cross_entropy: targets: shape \(6, 4\)", lambda x: nn.cross_entropy(x, x[:, :4])),
    (
        ShapeError,
        r"cross_entropy: targets: shape \(6, 5\), expected \(6,\)",
        lambda x: nn.cross_entropy(x, x.astype("i32")),
    ),
    (DTypeError, "nll_loss: targets: dtype f32", lambda x: nn.nll_loss(x, x)),
    (ShapeError, r"weights: shape \(6,\), expected \(5,\)", lambda x: nn.cross_entropy(x, x, weights=x[:, 0])),
    (DTypeError, "one_hot: indices: dtype f32", lambda x: nn.one_hot(x, 3)),
    (ArgumentError, "groupnorm: groups: 2 is not valid, expected a divisor of 5", lambda x: nn.groupnorm(x, 2)),
    (
        ShapeError,
        r"batchnorm: mean: shape \(6,\), expected \(5,\), axis 1 of x",
        lambda x: nn.batchnorm(x, x[:, 0], x[0]),
    ),
    (ShapeError, r"instancenorm: x: shape \(5,\)", lambda x: nn.instancenorm(x[0])),
    (
        ShapeError,
        r"layernorm: w: shape \(6,\), expected \(5,\), the last axis of x",
        lambda x: nn.layernorm(x, x[:, 0]),
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, function = REFUSALS[number]
    with pytest.raises(error, match=message) as caught:
        build(function, LOGITS)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("label", [-1, -3, -100])
def test_negative_labels_fault(dtype: Any, label: int) -> None:
    logits, labels = np.ones((2, 3), np.float32), np.array([0, label], dtype)
    for function in (nn.cross_entropy, nn.nll_loss):
        for weights in (None, np.ones(3, np.float32)):
            with pytest.raises(IndexFault, match=rf"index {label}\b"):
                run(lambda x, t, w, f=function: f(x, t, weights=w), logits, labels, weights)
            assert run(lambda x, t, f=function: f(x, t, ignore_index=label), logits, labels).shape == ()
