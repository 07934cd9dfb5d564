"""fori_loop and switch, and choices at random."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, ArgumentTypeError, ShapeError

X = np.float32([1, 2, 3])


def doubled(i: Any, value: Any) -> Any:
    return value * 2 + i


@pytest.mark.parametrize(("lower", "upper"), [(0, 4), (2, 5), (3, 3), (3, 1), (-2, 2)])
def test_a_loop_over_numbers(lower: int, upper: int) -> None:
    expected = X
    for i in range(lower, upper):
        expected = expected * 2 + i
    static = poot.trace(lambda x: ops.fori_loop(lower, upper, doubled, x))
    traced = poot.trace(lambda x, low, high: ops.fori_loop(low, high, doubled, x))
    assert np.array_equal(np.asarray(static(X)), expected)
    assert np.array_equal(np.asarray(traced(X, lower, upper)), expected)
    assert np.array_equal(np.asarray(ops.fori_loop(lower, upper, doubled, poot.asarray(X))), expected)


def test_a_loop_over_a_pytree_that_indexes() -> None:
    def body(i: Any, carry: Any) -> Any:
        return {"x": carry["x"].at[i].set(9.0), "n": carry["n"] + 1}

    found = poot.trace(lambda x: ops.fori_loop(0, 2, body, {"x": x, "n": 0}))(X)
    assert np.array_equal(np.asarray(found["x"]), [9, 9, 3])
    assert int(found["n"]) == 2


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_switch_takes_the_nearest_branch(index: int) -> None:
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    expected = X * (min(max(index, 0), 2) + 1)
    traced = poot.trace(lambda i, x: ops.switch(i, branches, x))
    assert np.array_equal(np.asarray(traced(np.int32(index), X)), expected)
    assert np.array_equal(np.asarray(ops.switch(index, branches, X)), expected)
    assert np.array_equal(np.asarray(ops.switch(poot.asarray(index), branches, poot.asarray(X))), expected)


def test_what_loops_and_switches_refuse() -> None:
    with pytest.raises(ArgumentError, match="switch: branches"):
        ops.switch(0, [])
    with pytest.raises(ArgumentTypeError, match="switch: index"):
        ops.switch(poot.asarray(1.0), [lambda: 1])
    with pytest.raises(ArgumentTypeError, match="fori_loop: upper"):
        ops.fori_loop(0, poot.asarray(1.5), doubled, 0)


def test_choices_follow_their_probabilities() -> None:
    key = ops.random.key(3)
    even = np.bincount(np.asarray(ops.random.choice(key, 5, (5000,))), minlength=5)
    assert np.all(np.abs(even - 1000) < 150)
    chances = np.float32([0.1, 0, 0.6, 0.3])
    drawn = np.bincount(np.asarray(ops.random.choice(key, 4, (5000,), p=chances)), minlength=4)
    assert drawn[1] == 0
    assert np.all(np.abs(drawn - 5000 * chances) < 150)


def test_choices_without_replacement_are_distinct() -> None:
    key = ops.random.key(4)
    assert sorted(np.asarray(ops.random.choice(key, 10, (2, 5), replace=False)).ravel().tolist()) == list(range(10))
    chances = np.float32([0.1, 0, 0.6, 0.3])
    drawn = np.asarray(ops.random.choice(key, np.arange(4) * 10, (3,), replace=False, p=chances))
    assert sorted(drawn.tolist()) == [0, 20, 30]


def test_choices_of_an_array_take_its_axis() -> None:
    key, x = ops.random.key(5), np.arange(12, dtype=np.float32).reshape(3, 4)
    assert ops.random.choice(key, x).shape == (4,)
    columns = np.asarray(ops.random.choice(key, x, (2, 2), axis=1))
    assert columns.shape == (3, 2, 2)
    assert np.array_equal(columns[1] - columns[0], np.full((2, 2), 4))
    traced = poot.trace(lambda key, x: ops.random.choice(key, x, (2, 2), axis=1))
    assert np.array_equal(np.asarray(traced(key, x)), columns)


def test_what_choice_refuses() -> None:
    key = ops.random.key(6)
    with pytest.raises(ArgumentError, match="at most 3 without replacement"):
        ops.random.choice(key, 3, (4,), replace=False)
    with pytest.raises(ArgumentError, match="at least one element"):
        ops.random.choice(key, 0, (1,))
    with pytest.raises(ShapeError, match="choice: p"):
        ops.random.choice(key, 3, (), p=np.float32([0.5, 0.5]))


# --- what poot.trace is given -----------------------------------------------------------------------------------------


def scaled(weight: Any, x: Any, *, n: int = 1) -> Any:
    return weight * x * n


class Model:
    gain = 3.0

    def plain(self, x: Any) -> Any:
        return x * self.gain

    @poot.trace
    def traced(self, x: Any) -> Any:
        return x + self.gain


def test_a_partial_captures_its_arguments() -> None:
    weight = np.full(3, 2, np.float32)
    f = poot.trace(functools.partial(scaled, weight, n=5))
    assert np.array_equal(np.asarray(f(X)), X * 10)
    weight[:] = 3
    assert np.array_equal(np.asarray(f(X)), X * 15)
    assert f._latest is not None  # the short way
    for number in (2.0, 4.0):
        g = poot.trace(functools.partial(scaled, number))
        assert np.array_equal(np.asarray(g(X)), X * number)
        assert np.array_equal(np.asarray(g(X, n=2)), X * number * 2)
    inner = poot.trace(functools.partial(poot.trace(scaled), 2.0))
    assert np.array_equal(np.asarray(inner(X)), X * 2)


def test_methods_and_traced_functions_are_traced() -> None:
    model = Model()
    f = poot.trace(model.plain)
    assert np.array_equal(np.asarray(f(X)), X * 3)
    model.gain = 5.0
    assert np.array_equal(np.asarray(f(X)), X * 5)
    strict = poot.trace(numerics="strict")
    assert np.array_equal(np.asarray(strict(model.traced)(X)), X + 5)
    again = strict(poot.trace(lambda x: x + 1))
    assert again.options.numerics == "strict"
    assert np.array_equal(np.asarray(again(X)), X + 1)


@pytest.mark.parametrize("thing", [print, Model, 3, functools.partial(print, 1)])
def test_other_callables_are_refused(thing: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="or a partial of one"):
        poot.trace(thing)


def test_numpys_classes_are_dtypes() -> None:
    f = poot.trace(lambda x, dtype: x.astype(dtype))
    assert f(X, np.float16).dtype is poot.f16
    assert f(X, np.int32).dtype is poot.i32
