"""What traced functions capture: closures, globals, attributes, helpers, and when a change of them is seen."""

from __future__ import annotations

import functools
import threading
import types
from typing import Any

import numpy as np
import pytest

import poot
from poot.api import traced as traced_module

SCALE = 2.0
TABLE = {"w": np.full(3, 10.0, np.float32), "names": ["a"]}
MODULE_WEIGHT = np.arange(3, dtype=np.float32)


class Weights:
    def __init__(self, scale: Any) -> None:
        self.scale = scale


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


def close(a: Any, b: Any) -> bool:
    return np.allclose(np.asarray(a), np.asarray(b))


def helper(x: Any) -> Any:
    return x * SCALE


def traces_of(function: Any, call: Any) -> int:
    """How many times a call traces `function`."""
    before = traced_module._CACHE.misses  # pyright: ignore[reportPrivateUsage]
    call()
    return traced_module._CACHE.misses - before  # pyright: ignore[reportPrivateUsage]


def ones(n: int = 3) -> np.ndarray:
    return np.ones(n, np.float32)


def test_contents_of_a_closure_array_are_seen_and_do_not_retrace() -> None:
    weight = ones()

    @poot.trace
    def f(x: Any) -> Any:
        return x + weight

    assert same(f(ones()), ones() * 2)
    weight[:] = 4.0
    assert traces_of(f, lambda: f(ones())) == 0
    assert same(f(ones()), ones() * 5)


def test_two_threads_that_call_a_function_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes later learns nothing new of the function's names, and follows them all the same."""
    weights = types.SimpleNamespace(layer=Weights(ones()))

    def f(x: Any) -> Any:
        return x * weights.layer.scale

    first = poot.trace(f)
    search = traced_module.reachable_names

    def late(roots: Any) -> frozenset[str]:
        monkeypatch.setattr(traced_module, "reachable_names", search)
        thread = threading.Thread(target=lambda: first(ones()))
        thread.start()
        thread.join()
        return search(roots)

    monkeypatch.setattr(traced_module, "reachable_names", late)
    assert same(first(ones()), ones())
    weights.layer.scale = ones() * 5
    assert same(first(ones()), ones() * 5)
    assert same(poot.trace(f)(ones()), ones() * 5)


def test_a_replaced_closure_array_is_seen() -> None:
    weight = ones()

    def set_weight(value: Any) -> None:
        nonlocal weight
        weight = value

    @poot.trace
    def f(x: Any) -> Any:
        return (x + weight).sum()

    assert float(f(ones())) == 6.0
    set_weight(ones() * 3)
    assert float(f(ones())) == 12.0
    set_weight(np.ones((2, 3), np.float32))
    assert float(f(ones())) == 12.0


def test_captured_constants_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    @poot.trace
    def f(x: Any) -> Any:
        return helper(x)

    assert same(f(ones()), ones() * 2)
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    assert same(f(ones()), ones() * 7)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert traces_of(f, lambda: f(ones())) == 0


def test_containers_and_attributes_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        def __init__(self) -> None:
            self.gain = 3.0
            self.w = ones()

        def apply(self, x: Any) -> Any:
            return x * self.gain + self.w

    config = Config()

    @poot.trace
    def f(x: Any) -> Any:
        return config.apply(x) + TABLE["w"]

    assert same(f(ones()), ones() * 14)
    config.gain = 4.0
    assert same(f(ones()), ones() * 15)
    config.w = ones() * 2
    assert same(f(ones()), ones() * 16)
    monkeypatch.setitem(TABLE, "w", ones() * 20)
    assert same(f(ones()), ones() * 26)


def test_methods_see_their_instance() -> None:
    class Model:
        def __init__(self, w: np.ndarray) -> None:
            self.w = w

        @poot.trace
        def __call__(self, x: Any) -> Any:
            return x @ self.w

        @poot.trace(static_argnames="power")
        def raised(self, x: Any, power: int) -> Any:
            return (x * self.w.sum()) ** power

    one, two = Model(np.eye(3, dtype=np.float32)), Model(2 * np.eye(3, dtype=np.float32))
    assert same(one(ones()), ones())
    assert same(two(ones()), ones() * 2)
    one.w = 5 * np.eye(3, dtype=np.float32)
    assert same(one(ones()), ones() * 5)
    assert same(two.raised(ones(), 2), ones() * 36)
    assert same(two.raised(ones(), power=1), ones() * 6)


def test_two_names_for_one_array_are_told_apart_later() -> None:
    a = b = ones()

    def rebind(value: Any) -> None:
        nonlocal b
        b = value

    f = poot.trace(lambda x: x + a * 10.0 + b)
    assert same(f(ones()), ones() * 12)
    rebind(ones() * 3)
    assert same(f(ones()), ones() * 14)


def test_an_identical_lambda_made_anew_hits_the_cache() -> None:
    def make() -> Any:
        return poot.trace(lambda x: x * 3.0 + 0.25)

    make()(ones())
    assert traces_of(None, lambda: make()(ones())) == 0


def test_redefinition_through_exec_uses_the_newest_body() -> None:
    space: dict[str, Any] = {"poot": poot}
    exec("@poot.trace\ndef f(x):\n    return x + 1.0\n", space)
    assert same(space["f"](ones()), ones() + 1)
    exec("@poot.trace\ndef f(x):\n    return x + 2.0\n", space)
    assert same(space["f"](ones()), ones() + 2)


def test_partials_bound_methods_and_module_attributes() -> None:
    module = types.ModuleType("user_module")
    module.__dict__["gain"] = 3.0
    part = functools.partial(lambda a, b: a * b, b=2.0)
    f = poot.trace(lambda x: part(x) * module.gain)
    assert same(f(ones()), ones() * 6)
    module.__dict__["gain"] = 5.0
    assert same(f(ones()), ones() * 10)


def test_explain_names_captures_and_retraces() -> None:
    @poot.trace
    def f(x: Any) -> Any:
        return x + MODULE_WEIGHT

    f(ones())
    f(np.ones((2, 3), np.float32))
    text = str(f.explain(ones()))
    assert "capture MODULE_WEIGHT" in text
    assert "'x': f32[3] became f32[2,3]" in text


def test_the_short_way_of_a_call_sees_every_change(device: poot.Device) -> None:
    """A second identical call goes straight to the recorded launches; nothing may be missed by that."""
    gain, bias = 2.0, ones()

    def scale(x: Any, factor: float = 1.0) -> Any:
        return x * gain * factor

    f = poot.trace(lambda x: scale(x) + bias)

    def check(x: Any, expected: float) -> None:
        with device:
            for _ in range(3):
                result = f(x)
                assert result.device == device.name
                assert same(result, np.full(3, expected, np.float32))

    check(ones(), 3.0)
    gain = 3.0
    check(ones(), 4.0)
    bias[:] = 2.0
    check(ones(), 5.0)
    bias = ones() * 3
    check(ones(), 6.0)
    check(np.ones(6, np.float32)[::2], 6.0)
    check(np.ones(13, np.uint8)[1:].view(np.float32) * 0 + 1, 6.0)
    unaligned = np.zeros(13, np.uint8)[1:].view(np.float32)
    check(unaligned, 3.0)
    check(ones().astype(">f4"), 6.0)
    check(poot.asarray(ones(), device=device), 6.0)
    scale.__defaults__ = (10.0,)
    check(ones(), 33.0)
    scale.__code__ = (lambda x, factor=1.0: x - gain).__code__
    check(ones(), 1.0)
    assert f(np.ones(3, np.float64)).dtype == np.float64
    assert f(np.ones((2, 3), np.float32)).shape == (2, 3)


def test_arrays_that_numpy_reads_during_the_trace_are_seen_to_change() -> None:
    """`weight * 2` is NumPy's before poot sees it: the trace is good for these contents alone."""
    weight = np.ones(3, np.float32)
    functions = {
        "operator": lambda x: x + weight * 2,
        "ufunc": lambda x: x + np.sqrt(weight),
        "element": lambda x: x * weight[1],
        "number": lambda x: x * float(weight[1]),
        "method": lambda x: x * weight.sum(),
        "branch": lambda x: x if weight.sum() > 5 else -x,
        "beside": lambda x: x * weight + np.where(weight > 2, weight, 0),
    }
    for name, function in functions.items():
        traced = poot.trace(function)
        for contents in (1.0, 9.0, 4.0):
            weight[:] = contents
            for _ in range(3):
                assert close(traced(ones() * 10), function(ones() * 10)), name
        weight = np.full(3, 16.0, np.float32)
        assert close(traced(ones() * 10), function(ones() * 10)), name
        weight = np.ones(3, np.float32)


def test_properties_and_computed_names_are_followed() -> None:
    class Config:
        _gain = 2.0

        @property
        def gain(self) -> float:
            return self._gain

    config = Config()
    by_property = poot.trace(lambda x: x * config.gain)
    by_name = poot.trace(lambda x: x * getattr(config, "gain"))  # noqa: B009
    assert same(by_property(ones()), ones() * 2)
    assert same(by_name(ones()), ones() * 2)
    config._gain = 5.0
    assert same(by_property(ones()), ones() * 5)
    assert same(by_name(ones()), ones() * 5)
