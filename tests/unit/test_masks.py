"""Boolean masks whose values are known while tracing: NumPy's meaning, and a changed mask is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.api import traced as traced_module
from poot.errors import ArgumentTypeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LINE = np.arange(4, dtype=np.float32)
ROWS = X[:, :, 0] > 5
KEYS: list[Any] = [
    ROWS,
    X > 4,
    X > 100,
    (ROWS, slice(1, 3)),
    (slice(None), X[0, :, 0] > 3),
    (0, X[0] > 3),
    (X[:, 0, 0] >= 0, slice(None), [0, 3]),
    (None, ROWS, None),
    (..., X[0, 0] > 1),
    (np.array([True, False]), 0, slice(None, None, -1)),
]


def same(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other))


def traces(call: Any) -> int:
    before = traced_module._CACHE.misses
    call()
    return traced_module._CACHE.misses - before


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("key", KEYS)
def test_known_masks_mean_what_numpy_means(key: Any) -> None:
    def changed(value: Any) -> Any:
        result = X.copy()
        result[key] = value
        return result

    values = np.arange(X[key].size, dtype=np.float32).reshape(X[key].shape)

    def all_three(x: Any) -> Any:
        return x[key], x.at[key].set(7), x.at[key].set(values)

    expected = X[key], changed(7), changed(values)
    for found in (poot.trace(all_three)(X), all_three(poot.asarray(X)), poot.trace(all_three).evaluate(X)):
        for one, other in zip(found, expected, strict=True):
            assert same(one, other)


def test_a_changed_mask_is_seen_also_where_the_graph_reads_it_too() -> None:
    mask = np.array([True, False, True, False])

    @poot.trace
    def f(x: Any) -> Any:
        return x[mask], ops.where(mask, x, 0.0), x.at[mask].set(9.0)

    for flips in ([], [0, 1], [3]):
        mask[flips] = ~mask[flips]
        for _ in range(3):
            found = f(LINE)
            assert same(found[0], LINE[mask])
            assert same(found[1], np.where(mask, LINE, 0))
            assert same(found[2], np.where(mask, 9, LINE))


def test_a_long_mask_costs_no_trace_and_freezes_nothing() -> None:
    x = np.arange(300, dtype=np.float32)
    mask = x % 7 < 3

    @poot.trace
    def f(x: Any) -> Any:
        return x[mask]

    assert same(f(x), x[mask])
    assert traces(lambda: f(x)) == 0
    assert f._latest is not None  # the short way
    assert f.explain(x).frozen == ()
    mask[:5] = ~mask[:5]
    assert same(f(x), x[mask])


def test_writing_one_number_at_a_captured_mask_does_not_trace_again() -> None:
    mask = np.array([True, False, True, False])

    @poot.trace
    def f(x: Any) -> Any:
        return x.at[mask].multiply(2.0)

    f(LINE)
    mask[:] = ~mask
    assert traces(lambda: f(LINE)) == 0
    assert same(f(LINE), np.where(mask, LINE * 2, LINE))


def test_masks_made_while_tracing_and_static_ones() -> None:
    even = poot.trace(lambda x: x[np.arange(x.shape[0]) % 2 == 0])
    assert same(even(LINE), [0, 2])
    assert even.explain(LINE).frozen == ("a mask bool[4] that no name in the code leads to",)
    mask = np.array([True, False, True, True])
    pick = poot.trace(static_argnames="idx")(lambda x, idx: x[idx])
    assert same(pick(LINE, mask), LINE[mask])
    mask[:] = ~mask
    assert same(pick(LINE, mask), LINE[mask])
    held = poot.asarray(mask)
    assert same(poot.trace(lambda x: x[held])(LINE), LINE[mask])


def test_a_mask_made_of_a_captured_array_follows_it() -> None:
    weight = np.array([1.0, -1.0, 1.0, -1.0], np.float32)
    f = poot.trace(lambda x: (x * weight)[weight > 0])
    assert same(f(LINE), [0, 2])
    weight[:] = -weight
    assert same(f(LINE), [1, 3])


def test_masks_inside_loops() -> None:
    mask = np.array([False, True, True, False])
    f = poot.trace(lambda x: ops.scan(lambda c, row: (c + row[mask].sum(), row[mask]), 0.0, x))
    total, rows = f(np.stack([LINE, LINE * 2]))
    assert float(total) == 9
    assert same(rows, [[1, 2], [2, 4]])


def test_the_first_elements_of_a_traced_mask() -> None:
    assert same(poot.trace(lambda x: x[ops.argsort(~(x > 1))[:2]])(LINE), [2, 3])


def test_a_mask_without_axes_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="a 0-d bool array given"):
        poot.asarray(LINE)[np.array(True)]
