"""Algorithms written for any array API namespace run unchanged on NumPy, array-api-strict and poot, eager and traced.

Sources: Lloyd, "Least squares quantization in PCM" (1982); Mises and Pollaczek-Geiringer, "Praktische Verfahren der
Gleichungsauflösung" (1929); Kalman, "A new approach to linear filtering and prediction problems" (1960).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest

import poot


def kmeans(points: Any, centres: Any, rounds: int = 8) -> Any:
    """Lloyd's algorithm: centres [k, d] and each point's nearest one, for points [n, d]."""
    xp = points.__array_namespace__()
    k = centres.shape[0]
    nearest = None
    for _ in range(rounds):
        offsets = points[:, None, :] - centres[None, :, :]
        distances = xp.sum(offsets * offsets, axis=-1)
        nearest = xp.argmin(distances, axis=1)
        labels = xp.arange(k, dtype=nearest.dtype, device=points.device)
        chosen = xp.astype(nearest[:, None] == labels[None, :], points.dtype)
        counts = xp.sum(chosen, axis=0)[:, None]
        means = xp.matmul(xp.matrix_transpose(chosen), points) / xp.where(counts > 0, counts, xp.ones_like(counts))
        centres = xp.where(counts > 0, means, centres)
    return centres, nearest


def principal_components(data: Any, count: int = 2, rounds: int = 200) -> Any:
    """Power iteration with deflation: the leading eigenvalues [count] and axes [count, d] of data's covariance."""
    xp = data.__array_namespace__()
    centred = data - xp.mean(data, axis=0, keepdims=True)
    covariance = xp.matmul(centred.T, centred) / (data.shape[0] - 1)
    values, axes = [], []
    for _ in range(count):
        v = xp.ones((data.shape[1],), dtype=data.dtype, device=data.device)
        for _ in range(rounds):
            v = xp.matmul(covariance, v)
            v = v / xp.linalg.vector_norm(v)
        value = xp.vecdot(v, xp.matmul(covariance, v))
        covariance = covariance - value * xp.linalg.outer(v, v)
        largest = xp.take(v, xp.reshape(xp.argmax(xp.abs(v)), (1,)))
        values.append(value)
        axes.append(v * xp.sign(largest))
    return xp.stack(values), xp.stack(axes)


def kalman(observed: Any, step: Any, noise: Any, rate: float = 0.25) -> Any:
    """A filter for a position observed with noise, whose state is position and speed: states [n, 2], covariance [2, 2].

    Args:
        observed: Positions [n].
        step: The state's transition [2, 2].
        noise: The covariance [2, 2] that every step adds.
        rate: The variance of an observation.
    """
    xp = observed.__array_namespace__()
    state = xp.zeros(2, dtype=observed.dtype, device=observed.device)
    spread = xp.eye(2, dtype=observed.dtype, device=observed.device) * 10.0
    look = xp.asarray([1.0, 0.0], dtype=observed.dtype, device=observed.device)
    states = []
    for place in range(observed.shape[0]):
        state = step @ state
        spread = step @ spread @ xp.matrix_transpose(step) + noise
        gain = spread @ look / (xp.vecdot(look, spread @ look) + rate)
        state = state + gain * (observed[place] - xp.vecdot(look, state))
        spread = spread - gain[:, None] * (look @ spread)[None, :]
        states.append(state)
    return xp.stack(states), spread


def kmeans_data(rng: np.random.Generator) -> list[np.ndarray]:
    means = np.array([[0, 0], [4, 4], [-4, 5]])
    points = means[rng.integers(0, 3, 60)] + rng.normal(size=(60, 2))
    return [points.astype(np.float32), (means + 1).astype(np.float32)]


def component_data(rng: np.random.Generator) -> list[np.ndarray]:
    return [(rng.normal(size=(50, 5)) * [5, 3, 1, 0.5, 0.2] @ rng.normal(size=(5, 5))).astype(np.float32)]


def kalman_data(rng: np.random.Generator) -> list[np.ndarray]:
    observed = np.arange(12) * 0.7 + rng.normal(size=12) * 0.5
    return [np.asarray(x, np.float32) for x in (observed, [[1, 1], [0, 1]], np.eye(2) * 0.01)]


ALGORITHMS: list[tuple[Callable[..., Any], Callable[[np.random.Generator], list[np.ndarray]]]] = [
    (kmeans, kmeans_data),
    (principal_components, component_data),
    (kalman, kalman_data),
]


@pytest.mark.slow_on("opencl", "wgpu")
@pytest.mark.parametrize(("algorithm", "data"), ALGORITHMS, ids=lambda item: getattr(item, "__name__", None))
def test_it_gives_the_same_everywhere(algorithm: Callable[..., Any], data: Any, device_name: str) -> None:
    arrays = data(np.random.default_rng(3))
    expected = algorithm(*(x.astype(np.float64) for x in arrays))
    strict = algorithm(*map(array_api_strict.asarray, arrays))
    eager = algorithm(*(poot.asarray(x, device=device_name) for x in arrays))
    traced = poot.trace(algorithm, device=device_name)(*arrays)
    for kind, results in (("NumPy", algorithm(*arrays)), ("strict", strict), ("eager", eager), ("traced", traced)):
        for found, right in zip(results, expected, strict=True):
            found = np.asarray(found)
            assert found.shape == right.shape, kind
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3, err_msg=kind)


def test_they_find_what_they_are_for() -> None:
    rng = np.random.default_rng(3)
    points, start = kmeans_data(rng)
    centres, nearest = poot.trace(kmeans, device="cpu")(points, start)
    np.testing.assert_allclose(np.asarray(centres), [[0, 0], [4, 4], [-4, 5]], atol=0.7)
    assert set(np.asarray(nearest).tolist()) == {0, 1, 2}

    [data] = component_data(rng)
    values, axes = poot.trace(principal_components, device="cpu")(data)
    squared = np.linalg.svd(data - data.mean(0), compute_uv=True)
    np.testing.assert_allclose(np.asarray(values), squared.S[:2] ** 2 / 49, rtol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(np.asarray(axes) * squared.Vh[:2], axis=1)), 1, rtol=1e-3)

    states, _ = poot.trace(kalman, device="cpu")(*kalman_data(rng))
    assert abs(float(states[-1, 1]) - 0.7) < 0.3
