"""Repeated calls on their short way: what they take and leave to the long way, threads, faults, fresh results."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.api.fast import MISS, call_key
from poot.api.traced import Traced
from poot.errors import EngineError

X = np.arange(6, dtype=np.float32)


def short(function: Traced[Any], *args: Any) -> Any:
    """What the short way gives for these arguments; MISS where it is not taken."""
    assert function._latest is not None  # pyright: ignore[reportPrivateUsage]
    return function._latest(args)  # pyright: ignore[reportPrivateUsage]


def warm(function: Callable[..., Any], *args: Any) -> Traced[Any]:
    traced = poot.trace(device="cpu")(function)
    traced(*args)
    return traced


def test_what_is_no_plain_array_of_the_same_kind_goes_the_long_way() -> None:
    f = warm(lambda x, y: x - y, X, X)
    assert short(f, X, X) is not MISS
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32)
    others = (
        X[:5],
        X.reshape(1, 6),
        X.astype(np.float64),
        X.astype(">f4"),
        np.repeat(X, 2)[::2],
        X[::-1],
        unaligned,
        X.tolist(),
        np.ma.array(X),
        X.view(type("Sub", (np.ndarray,), {})),
        2.0,
    )
    for other in others:
        assert short(f, X, other) is MISS
    assert short(f, X) is MISS and short(f, X, X, X) is MISS
    for other in (X[::-1], unaligned, np.repeat(X, 2)[::2], X.astype(">f4")):
        np.testing.assert_array_equal(f(X, other), X - other)
    with pytest.raises(TypeError):
        f(X)
    with pytest.raises(TypeError):
        f(X, X, X)


def test_equal_dtypes_that_are_other_objects_are_taken() -> None:
    f = warm(lambda x: x + 1.0, X)
    other = X.astype(np.dtype("f4", metadata={"unit": "m"}))
    assert other.dtype is not X.dtype
    np.testing.assert_array_equal(short(f, other), X + 1)


def test_the_keys_of_calls() -> None:
    """Arrays of one spec have one key, those of poot another than NumPy's."""
    arrays = [X, X[:1], X.reshape(2, 3), X[0].reshape(()), X.astype(np.int32)]
    ours = [poot.asarray(array, device="cpu") for array in arrays]
    keys = [call_key((array,)) for array in (*arrays, *ours)]
    assert len(set(keys)) == 2 * len(arrays)
    assert [call_key((poot.asarray(array + 1, device="cpu"),)) for array in arrays] == keys[len(arrays) :]
    assert call_key((X, ours[0])) != call_key((ours[0], X))
    assert call_key((X, 1, 2.0)) == call_key((X + 1, 2, 3.0)) != call_key((X, 1.0, 2.0))
    assert call_key((X, [1])) is None and call_key((X, np.float32(1))) is None


def test_arrays_of_poot() -> None:
    x = poot.asarray(X, device="cpu")
    f = warm(lambda x, y: x + y, x, X)
    np.testing.assert_array_equal(short(f, x, X), X + X)
    np.testing.assert_array_equal(short(f, X, poot.asarray(X, device="cpu")), X + X)
    assert short(f, poot.asarray(X[:5], device="cpu"), X) is MISS
    assert short(f, poot.asarray(X, device="interpret"), X) is MISS
    given = poot.asarray(X, device="cpu")
    poot.trace(donate="x", device="cpu")(lambda x: x * 2.0)(given)
    assert short(f, given, X) is MISS
    with pytest.raises(poot.errors.EngineError, match="donated"):
        f(given, X)


def test_arrays_of_one_spec_share_it_once_calls_have_met_them() -> None:
    """Each is told at once then, by every function; arrays of other specs are not taken."""
    first, second = poot.asarray(X, device="cpu"), poot.asarray(X + 1, device="cpu")
    f, g = warm(lambda x: x + 1.0, first), warm(lambda x, y: x * y, second, first)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(short(f, second)), X + 2)
        np.testing.assert_array_equal(np.asarray(short(g, first, second)), X * (X + 1))
        made = short(f, first)
        assert first.spec is second.spec is made.spec
    for other in (X[:5], X.astype(np.int32), X.reshape(2, 3)):
        array = poot.asarray(other, device="cpu")
        spec = array.spec
        assert short(f, array) is MISS and array.spec is spec
        np.testing.assert_array_equal(np.asarray(f(array)), other + 1.0)


def test_outputs_of_every_shape_of_tree() -> None:
    for function in (lambda x: (x + 1.0, {"a": x * 2.0}), lambda x: [x + 1.0], lambda x: ((), x + 1.0, x + 1.0)):
        f = warm(function, X)
        first, again = f(X), f(X * 3)
        expected = function(X * 3)
        assert type(again) is type(expected)
        flat, wanted = _leaves(again), _leaves(expected)
        for found, value in zip(flat, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), value)
        del first
    empty = warm(lambda x: None, X)
    assert empty(X) is None and empty(X) is None


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in _leaves(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _leaves(item)]
    return [tree]


def test_results_are_fresh_while_anything_holds_them() -> None:
    f = warm(lambda x: x + 1.0, X)
    held = [f(X * n) for n in range(20)]
    views = [np.asarray(f(X * n)) for n in range(20)]
    for _ in range(50):
        f(X * -5)
    gc.collect()
    for n in range(20):
        np.testing.assert_array_equal(held[n], X * n + 1)
        np.testing.assert_array_equal(views[n], X * n + 1)


def test_faults_stay_with_the_result_that_has_them() -> None:
    f = warm(lambda x, i: x[i], X, np.array([0, 1], np.int32))
    good, bad = np.array([5, 0], np.int32), np.array([2, 6], np.int32)
    results = [short(f, X, index) for index in (good, bad, good, bad)]
    assert all(result is not MISS for result in results)
    for result in (results[0], results[2], f(X, good)):
        np.testing.assert_array_equal(result, [5, 0])
    for result in (results[1], results[3], f(X, bad)):
        for _ in range(2):
            with pytest.raises(IndexError, match="6"):
                np.asarray(result)
    g = warm(lambda x: x * 2.0, results[0])
    with pytest.raises(IndexError, match="6"):
        short(g, results[1])
    np.testing.assert_array_equal(short(g, results[2]), [10, 0])
    with pytest.raises(IndexError, match="6"):
        g(results[1])


def test_threads_run_one_function_at_once() -> None:
    def work(x: Any, i: Any) -> Any:
        return ops.sort(x * 2.0)[i]

    n = 3000
    f = warm(work, np.zeros(n, np.float32), np.arange(n, dtype=np.int32))
    wrong: list[object] = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        index = rng.permutation(n).astype(np.int32)
        for _ in range(20):
            x = rng.standard_normal(n).astype(np.float32)
            if not np.array_equal(np.asarray(f(x, index)), np.sort(x * 2)[index]):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_of_changing_kinds_find_their_own_short_way() -> None:
    f = warm(lambda x: x + 1.0, X)
    kinds = [X, X[:3].copy(), X.reshape(2, 3), X.astype(np.float16)]
    for x in kinds:
        f(x)
    made = dict(f._fast)  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        for x in kinds:
            result = f(x)
            assert result.shape == x.shape and result.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(result), x + 1)
    assert dict(f._fast) == made  # pyright: ignore[reportPrivateUsage]


def test_numbers_come_along() -> None:
    f = warm(lambda x, s, n: (x * s + n, x.astype("f16") * s), X, 2.0, 3)
    first, second = short(f, X, -0.5, 7)
    np.testing.assert_array_equal(first, X * np.float32(-0.5) + 7)
    np.testing.assert_array_equal(second, X.astype(np.float16) * np.float16(-0.5))
    zero = poot.asarray(np.float32(2.0), device="cpu")
    for other in (2, True, np.float32(2.0), np.float64(2.0), zero, np.array(2.0), "2", None):
        assert short(f, X, other, 3) is MISS
    assert short(f, X, 2.0, 3.0) is MISS and short(f, X, 2.0, True) is MISS
    np.testing.assert_array_equal(f(X, 2, 3)[0], X * 2 + 3)
    np.testing.assert_array_equal(f(X, zero, 3)[0], X * 2 + 3)
    g = warm(lambda x, n: x + n, np.ones(3, np.int8), 1)
    for _ in range(2):
        with pytest.raises(OverflowError, match="300"):
            g(np.ones(3, np.int8), 300)
    np.testing.assert_array_equal(short(g, np.ones(3, np.int8), 2), [3, 3, 3])


def test_a_number_that_is_not_read_still_counts() -> None:
    def function(x: Any, unused: Any) -> Any:
        return x + 1.0 if isinstance(unused, str) else x + 2.0

    f = warm(function, X, 1.0)
    np.testing.assert_array_equal(short(f, X, 5.0), X + 2)
    for other in ("text", 1, None, X):
        assert short(f, X, other) is MISS
    np.testing.assert_array_equal(f(X, "text"), X + 1)
    np.testing.assert_array_equal(f(X, 1.0), X + 2)


def test_arguments_by_name_take_the_way_of_those_by_position() -> None:
    f = warm(lambda x, y, s=1.0: x * 2.0 - y * s, X, X)
    kinds = len(f._fast)  # pyright: ignore[reportPrivateUsage]
    for _ in range(2):
        np.testing.assert_array_equal(f(x=X, y=X * 3), X * 2 - X * 3)
        np.testing.assert_array_equal(f(X, y=X * 3), X * 2 - X * 3)
        np.testing.assert_array_equal(f(y=X * 3, x=X), X * 2 - X * 3)
    assert len(f._fast) == kinds  # pyright: ignore[reportPrivateUsage]
    np.testing.assert_array_equal(f(X, s=3.0, y=X), X * 2 - X * 3)
    for args, named in (((X,), {"x": X}), ((X, X), {"z": 1.0}), ((), {"y": X}), ((X, X, 1.0), {"s": 2.0})):
        with pytest.raises(TypeError):
            f(*args, **named)

    def strict(x: Any, /, y: Any, *, z: Any) -> Any:
        return x + y * z

    g = poot.trace(device="cpu")(strict)
    for _ in range(3):
        np.testing.assert_array_equal(g(X, y=X, z=X), X + X * X)
    with pytest.raises(TypeError):
        g(x=X, y=X, z=X)
    with pytest.raises(TypeError):
        g(X, X, X)


def test_variadic_arguments_take_the_short_way() -> None:
    alone = warm(lambda *xs: xs[0] * 2.0, X)
    np.testing.assert_array_equal(short(alone, X * 3), X * 6)
    f = poot.trace(lambda y, *xs: sum(((n + 2) * x for n, x in enumerate(xs)), y), device="cpu")
    many = [X * n for n in range(1, 13)]
    for _ in range(2):
        for count in (1, 2, 3, 12, 1):
            wanted = many[0] + sum(((n + 2) * x for n, x in enumerate(many[1:count])), 0 * X)
            np.testing.assert_allclose(f(*many[:count]), wanted, rtol=1e-6)
    np.testing.assert_array_equal(short(f, *many[:1]), X)
    np.testing.assert_array_equal(f(X, 3.0), X + 6)
    np.testing.assert_array_equal(f(X, (X, X)[0], np.float32(2)), X + 2 * X + 6)


def test_static_numbers_never_share_a_way() -> None:
    f = poot.trace(static_argnames="n", device="cpu")(lambda x, n: x * float(n))
    for n in (2, 3, 2, 5):
        np.testing.assert_array_equal(f(X, n), X * n)
        np.testing.assert_array_equal(f(X, n=n), X * n)


def test_pytrees_take_a_short_way_too() -> None:
    def function(tree: Any, y: Any, s: Any = 1.0) -> Any:
        return {"sum": tree["b"] + tree["a"][0] * s + y, "rest": tree["a"][1:]}

    f = poot.trace(device="cpu")(function)
    trees = [{"b": X * n, "a": (X, X * 2, 3.0)} for n in range(4)]
    for _ in range(2):
        for tree in trees:
            found, wanted = f(tree, X), function(tree, X)
            np.testing.assert_array_equal(found["sum"], wanted["sum"])
            np.testing.assert_array_equal(found["rest"][0], X * 2)
            np.testing.assert_array_equal(f(tree, y=X, s=2.0)["sum"], function(tree, X, 2.0)["sum"])
    assert len(f._fast) == 2 and f._latest is None  # pyright: ignore[reportPrivateUsage]
    calls = _counted(f)
    f({"b": X, "a": (X, X, 5.0)}, X)
    assert calls == []
    for other in (
        {"b": X, "a": [X, X, 3.0]},
        {"b": X, "a": (X, X)},
        {"b": X, "a": (X, X, 3)},
        {"b": X[:1], "a": (X, X)},
    ):
        np.testing.assert_array_equal(f(other, X)["sum"], function(other, X)["sum"])
    assert len(calls) == 4
    np.testing.assert_array_equal(f({"b": X, "a": (X, None)}, X)["sum"], X + X + X)
    with pytest.raises(KeyError):
        f({"c": X}, X)
    with pytest.raises(TypeError):
        f(trees[0])


def _counted(function: Traced[Any]) -> list[object]:
    """Every later call of a traced function that goes the long way."""
    calls: list[object] = []
    long = function._call  # pyright: ignore[reportPrivateUsage]

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return long(*args, **options)

    function._call = counting  # type: ignore[method-assign]
    return calls


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @poot.trace(device="cpu")
    def __call__(self, x: Any) -> Any:
        return x * self.scale


def test_methods_never_take_the_short_way_of_another_instance() -> None:
    one, two = Model(2.0), Model(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(one(X), X * 2)
        np.testing.assert_array_equal(two(X), X * 3)
    one.scale = 5.0
    np.testing.assert_array_equal(one(X), X * 5)


def test_a_call_with_arrays_of_a_device_leaves_calls_with_others_where_they_belong() -> None:
    here, there = poot.asarray(X, device="cpu"), poot.asarray(X, device="interpret")
    for function in (lambda x, y: x + y, lambda x, y: x + 1):  # the second does not read what decides the device
        f = poot.trace(function)
        for x, y, home in [
            *((here, here, "cpu"), (X, X, "interpret"), (X, here, "cpu"), (X, there, "interpret"), (X, X, "interpret")),
            *((there, X, "interpret"), (X, here, "cpu"), (X, here, "cpu"), (here, X, "cpu"), (X, X, "interpret")),
        ]:
            for _ in range(2):
                with poot.device("interpret"):
                    assert f(x, y).device == home
    given = poot.trace(lambda x, y: x + 1)
    given(X, here)
    poot.trace(lambda y: y, donate="y")(here)
    with pytest.raises(EngineError, match="donated"):
        given(X, here)
