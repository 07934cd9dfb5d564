"""Random keys and einsums agree with NumPy's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from poot.trace import ops
from tests.unit.ops_support import run

LETTERS = "abcd"


def random_slice(rng: random.Random, extent: int) -> slice:
    def bound() -> int | None:
        return rng.choice([None, None, *range(-extent - 2, extent + 3)])

    return slice(bound(), bound(), rng.choice([None, 1, 2, 3, -1, -2, -3]))


def random_array(rng: random.Random, extent: int, shape: tuple[int, ...]) -> Any:
    own = tuple(size if rng.random() < 0.7 else 1 for size in shape)
    count = int(np.prod(own))
    return np.array([rng.randrange(-extent, extent) for _ in range(count)], np.int32).reshape(own)


def random_key(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    axis, arrays = 0, rng.random() < 0.5
    positions = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2)))
    while axis < len(shape) and rng.random() < 0.85:
        extent, choice = shape[axis], rng.random()
        axis += 1
        if choice < 0.25 and extent:
            key.append(rng.randrange(-extent, extent))
        elif choice < 0.55:
            key.append(random_slice(rng, extent))
        elif choice < 0.65:
            key.append(None)
            axis -= 1
        elif choice < 0.72 and Ellipsis not in [item for item in key if not isinstance(item, np.ndarray)]:
            key.append(...)
            axis += rng.randint(0, len(shape) - axis + 1) - 1
        elif arrays and extent and choice < 0.78:
            key.append([rng.random() < 0.5 for _ in range(extent)])
        elif arrays and extent:
            key.append(random_array(rng, extent, positions))
        else:
            axis -= 1
    return tuple(key)


@pytest.mark.parametrize("seed", range(4))
def test_random_keys(seed: int) -> None:
    rng = random.Random(seed)
    tried = 0
    for _ in range(150):
        shape = tuple(rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randint(0, 4)))
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        key = random_key(rng, shape)
        plain = tuple(np.array(item) if isinstance(item, list) else item for item in key)
        try:
            expected = x[plain]
        except IndexError:  # masks of unequal counts, which do not broadcast
            continue
        tried += 1
        _reads(x, key, expected)
        if not any(isinstance(item, (np.ndarray, list)) for item in key):
            _writes(x, key, expected)
    assert tried > 120


def _reads(x: Any, key: tuple[Any, ...], expected: Any) -> None:
    places = [place for place, item in enumerate(key) if isinstance(item, np.ndarray)]

    def read(x: Any, *arrays: Any) -> Any:
        items = list(key)
        for place, array in zip(places, arrays, strict=True):
            items[place] = array
        return x[tuple(items)]

    found = run(read, x, *(key[place] for place in places))
    assert found.shape == expected.shape, (x.shape, key)
    np.testing.assert_array_equal(found, expected, err_msg=f"{x.shape} {key}")


def _writes(x: Any, key: tuple[Any, ...], part: Any) -> None:
    values = np.arange(part.size, dtype=np.float32).reshape(part.shape) + 100
    changed = x.copy()
    changed[key] = values
    np.testing.assert_array_equal(run(lambda x, v: x.at[key].set(v), x, values), changed, err_msg=f"{x.shape} {key}")
    changed = x.copy()
    changed[key] += 3
    np.testing.assert_array_equal(run(lambda x: x.at[key].add(3), x), changed, err_msg=f"{x.shape} {key}")


def test_random_einsums() -> None:
    rng, values = random.Random(0), np.random.default_rng(0)
    for _ in range(200):
        extents = {letter: rng.choice([1, 2, 3]) for letter in LETTERS}
        terms = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 3))) for _ in range(rng.randint(1, 3))]
        used = sorted(set("".join(terms)))
        result = "".join(rng.sample(used, rng.randint(0, len(used))))
        subscripts = ",".join(terms) + ("->" + result if rng.random() < 0.8 else "")
        arrays = [np.array(values.standard_normal([extents[letter] for letter in term]), np.float32) for term in terms]
        expected = np.einsum(subscripts, *arrays)
        found = run(lambda *xs, s=subscripts: ops.einsum(s, *xs), *arrays)
        assert found.shape == expected.shape, subscripts
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=subscripts)
