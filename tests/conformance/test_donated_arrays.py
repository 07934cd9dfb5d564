"""Donation when something goes wrong: a call that raises has taken nothing, whatever it was that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.api.array import DeviceArray
from poot.api.devices import Device
from poot.backends import toolchain
from poot.errors import AllocationError, CompileError, DeviceError, EngineError
from tests.faulty_device import Failure, FaultyDevice

X = np.arange(5, dtype=np.float32)


def donating(device: Device, scale: float = 2.0) -> Any:
    return poot.trace(lambda x, pair, i: (x[i] * scale, pair[0] + pair[1]), device=device, donate=("x", "pair"))


def arguments(device: Device) -> tuple[Any, Any, Any]:
    x, a, b = (poot.asarray(X + n, device=device) for n in range(3))
    return x, (a, b), np.array([1], np.int32)


def arrays(given: tuple[Any, Any, Any]) -> list[DeviceArray]:
    return [given[0], *given[1]]


def intact(given: tuple[Any, Any, Any]) -> None:
    for number, array in enumerate(arrays(given)):
        np.testing.assert_array_equal(np.asarray(array), X + number)


def gone(given: tuple[Any, Any, Any]) -> None:
    for array in arrays(given):
        with pytest.raises(EngineError, match="this array was donated to"):
            np.asarray(array)


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("eager", [False, True])
def test_a_call_that_fails_anywhere(device: Device, eager: bool) -> None:
    """Every call of the device in turn: the first call, which loads and records, and one that replays."""
    faulty = FaultyDevice(device)
    wrapped = Device(faulty)
    for first in (True, False):
        function = donating(wrapped)
        if not first:
            function(*arguments(wrapped))
        given = arguments(wrapped)
        number = dict[str, int]()
        for name in ("load", "allocate", "write", "import_host", "copy", "record", "replay", "host_view", "read"):
            while True:
                faulty.arm(Failure(name, number.get(name, 0)))
                number[name] = number.get(name, 0) + 1
                if first:
                    function = donating(wrapped)
                    poot.api.traced._CACHE.clear()
                try:
                    with poot.eager() if eager else poot.device("cpu"):
                        result = function(*given)
                except DeviceError as error:
                    assert "injected" in str(error) and faulty.take_fired()
                    faulty.arm(None)
                    intact(given)
                    continue
                faulty.arm(None)
                gone(given)
                assert np.asarray(result[0]).tolist() == [2.0]
                np.testing.assert_array_equal(np.asarray(result[1]), X * 2 + 3)
                given = arguments(wrapped)
                break


def test_a_compiler_that_fails(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments(device)
    function = donating(device, 2.5)
    original = toolchain._compile

    def fail(*details: Any, **options: Any) -> Any:
        raise CompileError(what="kernel", target=device.target, message="injected")

    monkeypatch.setenv("POOT_CACHE_DIR", "")
    monkeypatch.setattr(toolchain, "_compile", fail)
    toolchain.clear_memory()
    with pytest.raises(CompileError, match="injected"):
        function(*given)
    intact(given)
    monkeypatch.setattr(toolchain, "_compile", original)
    function(*given)
    gone(given)


def test_one_of_several_is_gone_already(device: Device) -> None:
    given = arguments(device)
    function = donating(device)
    spent = arguments(device)
    function(*spent)
    for wrong in (
        (given[0], (given[1][0], spent[0]), given[2]),
        (spent[0], given[1], given[2]),
        (given[0], (spent[1][1], given[1][1]), given[2]),
    ):
        with pytest.raises(EngineError, match="this array was donated to"):
            function(*wrong)
        intact(given)
    unread = poot.trace(lambda x, y: y * 2.0, device=device, donate=("x", "y"))
    with pytest.raises(EngineError, match="this array was donated to"):
        unread(spent[0], given[0])
    intact(given)


def test_one_array_in_several_places(device: Device) -> None:
    function = donating(device)
    x = poot.asarray(X, device=device)
    first, second = function(x, (x, x), np.array([1], np.int32))
    assert np.asarray(first).tolist() == [2.0]
    np.testing.assert_array_equal(np.asarray(second), X * 2)
    with pytest.raises(EngineError, match="this array was donated to"):
        function(x, (x, x), np.array([1], np.int32))


def test_marking_needs_no_memory(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is allocated once the results are there, and a Ctrl-C among the marks takes them back."""
    given = arguments(device)
    function = donating(device)
    function(*arguments(device))

    def full(nbytes: int) -> Any:
        raise AllocationError(nbytes=nbytes, device=device.name, message="full")

    run = poot.api.invoke.Compiled.run

    def run_and_fill(*details: Any) -> Any:
        result = run(*details)
        monkeypatch.setattr(device.backend, "allocate", full, raising=False)
        return result

    interrupted = 0
    replace = DeviceArray.replace_memory

    def interrupt(self: DeviceArray, memory: Any, call: str) -> None:
        nonlocal interrupted
        replace(self, memory, call)
        interrupted += 1
        if interrupted == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeviceArray, "replace_memory", interrupt)
        with pytest.raises(KeyboardInterrupt):
            function(*given)
    intact(given)
    patched: Callable[..., Any] = run_and_fill
    with monkeypatch.context() as patch:
        patch.setattr(poot.api.invoke.Compiled, "run", patched)
        function(*given)
    gone(given)
