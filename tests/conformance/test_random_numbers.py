"""Random numbers are the same on every device: what integers make always, what float functions make when strict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops

RANDOM = ops.random
TRACE: Any = poot.trace
KEYS = np.array([[0, 0], [3, 7], [2**32 - 1, 2**31]], np.uint32)

WHOLE: dict[str, Callable[[Any], Any]] = {
    "split": lambda key: RANDOM.split(key, 5),
    "fold_in": lambda key: RANDOM.fold_in(key, 9),
    "bits": lambda key: RANDOM.bits(key, (5, 101)),
    "uniform": lambda key: RANDOM.uniform(key, (5, 101)),
    "bernoulli": lambda key: RANDOM.bernoulli(key, 0.3, (500,)),
    "randint": lambda key: RANDOM.randint(key, (500,), -5, 1000),
    "permutation": lambda key: RANDOM.permutation(key, 100),
}
FLOATS: dict[str, Callable[[Any], Any]] = {
    "interval": lambda key: RANDOM.uniform(key, (5, 101), low=-3.0, high=5.5),
    "normal": lambda key: RANDOM.normal(key, (5, 101)),
    "exponential": lambda key: RANDOM.exponential(key, (501,)),
    "gumbel": lambda key: RANDOM.gumbel(key, (501,)),
}


@pytest.mark.parametrize("numerics", ["fused", "strict"])
@pytest.mark.parametrize("draw", WHOLE.values(), ids=WHOLE.keys())
def test_what_integers_make(draw: Callable[[Any], Any], numerics: str, device_name: str) -> None:
    drawn = TRACE(draw, device=device_name, numerics=numerics)
    for key in KEYS:
        np.testing.assert_array_equal(np.asarray(drawn(key)), TRACE(draw).evaluate(key))


@pytest.mark.parametrize("name", FLOATS)
def test_what_float_functions_make(name: str, device_name: str) -> None:
    draw = FLOATS[name]
    strict, fused = (TRACE(draw, device=device_name, numerics=numerics) for numerics in ("strict", "fused"))
    everywhere = TRACE(draw, device="interpret", numerics="strict")
    ulps = 2.5 if device_name == "wgpu" and name == "normal" else 0  # the square root, which WGSL lets be off
    for key in KEYS:
        np.testing.assert_allclose(np.asarray(strict(key)), np.asarray(everywhere(key)), rtol=ulps * 2.0**-23, atol=0)
        np.testing.assert_allclose(np.asarray(fused(key)), TRACE(draw).evaluate(key), rtol=1e-5, atol=1e-6)
