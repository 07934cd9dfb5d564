"""Captured arrays on several devices: only those that the trace reads say where a call runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot import f32
from poot.api import traced as module
from poot.api.cache import CallCache
from poot.api.devices import Device
from poot.api.recording import Recorder
from poot.errors import DeviceMismatchError

X = np.arange(6, dtype=np.float32)


def other_of(device: Device) -> str:
    return "interpret" if device.name == "cpu" else "cpu"


@pytest.fixture
def homes(device: Device) -> dict[str, Any]:
    """Arrays on this device and on another one."""
    return {"here": poot.asarray(X + 1, device=device), "far": poot.asarray(X + 2, device=other_of(device))}


def test_a_dict_of_arrays_on_several_devices(
    device: Device, homes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call traces once, the trace that finds the device included."""
    record, count = Recorder.record, 0

    def counted(self: Recorder) -> Any:
        nonlocal count
        count += 1
        return record(self)

    monkeypatch.setattr(Recorder, "record", counted)
    monkeypatch.setattr(module, "_CACHE", CallCache())
    monkeypatch.setattr(module, "_READS", CallCache())
    for name, array in homes.items():
        traced = poot.trace(lambda x, name=name: x * homes[name])
        count = 0
        for _ in range(3):
            result = traced(X)
            assert result.device == array.device and count == 1
            np.testing.assert_array_equal(np.asarray(result), X * np.asarray(array))
        assert traced.program(X).target == array.backend.target
        count = 0
        assert traced(poot.asarray(X, device=array.device)).device == array.device and count == 0
        with poot.eager():
            result = traced(poot.asarray(X, device=array.device))
        np.testing.assert_array_equal(np.asarray(result), X * np.asarray(array))


def test_lists_attributes_and_closures(device: Device, homes: dict[str, Any]) -> None:
    pair = [homes["far"], homes["here"]]
    nested = {"layers": [{"w": homes["far"]}, {"w": homes["here"]}]}

    class Model:
        def __init__(self) -> None:
            self.w, self.spare = homes["here"], homes["far"]

        @poot.trace
        def forward(self, x: Any) -> Any:
            return x + self.w

        @poot.trace
        def both(self, x: Any) -> Any:
            return x + self.w + self.spare

    model = Model()
    for traced in (
        poot.trace(lambda x: x + pair[1]),
        poot.trace(lambda x: x + nested["layers"][1]["w"]),
        model.forward,
    ):
        for _ in range(2):
            result = traced(X)
            assert result.device == device.name
            np.testing.assert_array_equal(np.asarray(result), X + X + 1)
    for wrong in (model.both, poot.trace(lambda x: x + pair[0] + pair[1])):
        with pytest.raises(DeviceMismatchError, match="arguments live on different devices"):
            wrong(X)
    with pytest.raises(DeviceMismatchError):
        model.forward(homes["far"])


def test_what_is_not_read_does_not_decide(device: Device, homes: dict[str, Any]) -> None:
    pick = [False]

    def function(x: Any) -> Any:
        return x + homes["here"] if pick[0] else x * 2.0

    traced = poot.trace(function)
    with poot.device(other_of(device)):
        for _ in range(2):
            assert traced(X).device == other_of(device)
    with device:
        for _ in range(2):
            assert traced(X).device == device.name
    pick[0] = True
    with poot.device(other_of(device)):
        assert traced(X).device == device.name
    assert traced(poot.asarray(X, device=device)).device == device.name


def test_which_is_read_may_hang_on_contents(device: Device, homes: dict[str, Any]) -> None:
    flag = np.array([True])

    @poot.trace
    def chosen(x: Any) -> Any:
        return x + homes["here" if np.asarray(flag)[0] else "far"]

    assert chosen(X).device == device.name
    flag[0] = False
    result = chosen(X)
    assert result.device == other_of(device)
    np.testing.assert_array_equal(np.asarray(result), X + X + 2)
    flag[0] = True
    assert chosen(X).device == device.name


def test_a_stated_device_takes_all(device: Device, homes: dict[str, Any]) -> None:
    traced = poot.trace(lambda x: x + homes["here"] + homes["far"], device=device)
    result = traced(X)
    assert result.device == device.name
    np.testing.assert_array_equal(np.asarray(result), 3 * X + 3)


def test_a_trace_that_fails_says_what_it_says(device: Device, homes: dict[str, Any]) -> None:
    @poot.trace
    def wrong(x: Any) -> Any:
        return homes["here"] + x.nothing

    for _ in range(2):
        with pytest.raises(AttributeError, match="nothing"):
            wrong(X)


def test_64_bit_arrays_follow_the_device_that_is_found(device: Device, homes: dict[str, Any]) -> None:
    """The trace that finds the device is made anew where the device converts what it reads."""
    wide = X.astype(np.float64)
    traced = poot.trace(lambda x: x + homes["here"])
    with poot.device(device, f64="f32"):
        result = traced(wide)
    assert result.device == device.name and result.dtype == f32
    np.testing.assert_array_equal(np.asarray(result), X + X + 1)
    with poot.device(other_of(device), f64="f32"):
        assert poot.trace(lambda x: x * homes["far"])(wide).dtype == f32
