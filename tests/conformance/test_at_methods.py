"""`x.at[key].divide` and `power`: several values for one element act together, and what is not named stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import DTypeError, FeatureError, IndexFault

X = np.array([[0.5, -2.0, 3.0, -0.0], [np.nan, np.inf, 1.5, 4.0], [2.0, 8.0, -1.0, 1e-40]], np.float32)
KEYS: dict[str, Any] = {
    "int": 1,
    "slice": (slice(None), slice(None, None, 2)),
    "mask": np.array([True, False, True]),
    "array": np.array([2, 0]),
    "twice": np.array([0, 2, 0]),
    "points": (np.array([0, 2, 0, -1]), np.array([1, 1, 1, -1])),
}


def reference(x: np.ndarray, key: Any, values: Any, kind: str) -> np.ndarray:
    """The product of all values of an element, and then one operation on those that are named."""
    factors, named = np.ones_like(x), np.zeros(x.shape, bool)
    np.multiply.at(factors, key, values)
    named[key] = True
    with np.errstate(all="ignore"):
        changed = x / factors if kind == "divide" else x**factors
    return np.where(named, changed, x)


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["divide", "power"])
def test_against_numpy(kind: str, key: str, device_name: str) -> None:
    x = poot.asarray(X, device=device_name)
    shape = X[KEYS[key]].shape
    for values in (2.0, np.linspace(1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)):
        expected = reference(X, KEYS[key], values, kind)
        for found in (
            getattr(x.at[KEYS[key]], kind)(values),
            poot.trace(lambda x, v: getattr(x.at[KEYS[key]], kind)(v), device=device_name)(x, values),
        ):
            # Devices may flush the subnormal, and their powers are within a few units of the last place.
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-39)


def test_what_is_not_named_keeps_its_bits(device_name: str) -> None:
    x = poot.asarray(X, device=device_name)
    for changed in (x.at[np.array([0])].divide(3.0), x.at[np.array([0])].power(3.0)):
        np.testing.assert_array_equal(np.asarray(changed)[1:].view(np.uint32), X[1:].view(np.uint32))


def test_integers_and_modes(device_name: str) -> None:
    x = ops.arange(6, device=device_name)
    assert np.asarray(x.at[np.array([2, 2, 3])].power(2)).tolist() == [0, 1, 16, 9, 4, 5]
    assert np.asarray(x.at[np.array([2, 77])].power(2, mode="drop")).tolist() == [0, 1, 4, 3, 4, 5]
    assert np.asarray(x.at[np.array([2, 77])].power(2, mode="clip")).tolist() == [0, 1, 4, 3, 4, 25]
    with pytest.raises(IndexFault):
        np.asarray(x.at[np.array([2, 77])].power(2))


def test_what_is_refused() -> None:
    x, flags = ops.arange(6), ops.ones(3, dtype=bool)
    with pytest.raises(DTypeError, match=r"x\.at\[…\]\.divide: dtype i32, expected floats(.|\n)*x\[i\] // v"):
        x.at[0].divide(2)
    for wrong in (lambda: flags.at[0].divide(2), lambda: flags.at[0].power(2)):
        with pytest.raises(DTypeError):
            wrong()


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("apply", r"write `x\.at\[i\]\.set\(f\(x\[i\]\)\)`"),
        ("mul", r"did you mean x\.at\[…\]\.multiply"),
        ("div", r"did you mean x\.at\[…\]\.divide"),
        ("pow", r"did you mean x\.at\[…\]\.power"),
        ("maximum", r"did you mean x\.at\[…\]\.max"),
        ("quux", r"x\.at\[…\] has set, add, subtract, multiply, divide, power, min, max, get"),
    ],
)
def test_other_methods_are_refused_by_name(name: str, remedy: str) -> None:
    at: Any = ops.arange(3).at[0]
    assert not hasattr(at, name)
    with pytest.raises(FeatureError, match=rf"no method x\.at\[…\]\.{name} yet(.|\n)*{remedy}"):
        getattr(at, name)
    with pytest.raises(FeatureError, match=remedy):
        poot.trace(lambda x: getattr(x.at[0], name)(2))(X)
