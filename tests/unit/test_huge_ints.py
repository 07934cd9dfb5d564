"""Python ints that no dtype of indices holds, where positions are given: they mean what any other int means there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import IndexFault, OverflowArgumentError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
HUGE = (2**31, 2**63, 2**100, -(2**31) - 1, -(2**63) - 1, -(2**100))


def both(f: Callable[[Any], Any]) -> list[Callable[[], Any]]:
    """Eagerly, and in a trace."""
    return [lambda: f(poot.asarray(X)), lambda: poot.trace(f)(X)]


@pytest.mark.parametrize("n", HUGE)
@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
def test_starts_are_moved_inside(n: int) -> None:
    first = 2 if n > 0 else 0
    for run in both(lambda x: ops.dynamic_slice(x, (1, n), (2, 2))):
        np.testing.assert_array_equal(np.asarray(run()), X[1:3, first : first + 2])
    expected = X.copy()
    expected[:2, first : first + 2] = 0
    for run in both(lambda x: ops.dynamic_update_slice(x, np.zeros((2, 2), np.float32), [np.int64(0), n])):
        np.testing.assert_array_equal(np.asarray(run()), expected)
    for run in both(lambda x: ops.dynamic_slice(x, (ops.astype(x[0, 1], poot.i8), n), (2, 2))):
        np.testing.assert_array_equal(np.asarray(run()), X[1:3, first : first + 2])


def test_starts_of_long_axes_are_their_own() -> None:
    builder = poot.Builder(poot.TraceLimits.STANDARD)
    long = builder.input("x", poot.u8[2**33])
    graph = builder.finish(ops.dynamic_slice(long, (2**32 + 7,), (2,)))
    assert f"{2**32 + 7}:i64" in str(graph)


@pytest.mark.parametrize("n", HUGE)
@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
def test_indices_out_of_range_are_what_the_mode_says(n: int) -> None:
    near = 3 if n > 0 else 0
    for run in both(lambda x: ops.take(x, n, axis=1, mode="clip")):
        np.testing.assert_array_equal(np.asarray(run()), X[:, near])
    for run in both(lambda x: ops.take(x, [n, -1], axis=1, mode="wrap")):
        np.testing.assert_array_equal(np.asarray(run()), X[:, [n % 4, 3]])
    for run in both(lambda x: ops.take(x, [[n], [-1]], axis=1, mode="fill", fill_value=-5)):
        np.testing.assert_array_equal(np.asarray(run()), np.stack([np.full(3, -5), X[:, 3]], -1)[..., None])
    uses: list[Callable[[Any], Any]] = [
        lambda x: ops.take(x, n, axis=1),
        lambda x: ops.take(x, [0, n], axis=1),
        lambda x: ops.nn.embedding(n, x),
        lambda x: x[n],
        lambda x: x[[n]],
        lambda x: x[0, [0, n]],
        lambda x: x.at[[n]].set(1.0),
    ]
    for use in uses:
        for run in both(use):
            with pytest.raises(IndexFault, match=f"index {n} is out of range") as caught:
                np.asarray(run())
            assert caught.value.where is not None and caught.value.where.file == __file__
    with pytest.raises(IndexFault, match=f"index {n} is out of range for axis 1 of extent 4"):
        poot.asarray(X).item(0, n)


@pytest.mark.parametrize("n", HUGE)
def test_lists_that_no_dtype_holds_name_the_number(n: int) -> None:
    for asarray in (poot.asarray, ops.asarray, poot.trace(lambda: ops.asarray([1, n]))):
        with pytest.raises(OverflowArgumentError, match=f"{n} does not fit i32"):
            asarray() if isinstance(asarray, poot.api.traced.Traced) else asarray([1, n])
    assert ops.asarray([1, n], dtype=poot.f32).tolist() == [1.0, float(np.float32(n))]
