"""Code of the user's in the middle of a call on an exe: its hook, an input's own, finalizers, signal handlers.

What it asks of the same exe is refused before anything is written, and the call in the middle of which it ran goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import StepInputs
from poot.api.devices import Device
from poot.errors import EngineError
from tests.lives import Life, full


@pytest.fixture
def life(device: Device) -> Life:
    return Life(device)


class Running:
    """An array that runs code as it is converted."""

    def __init__(self, code: Callable[[], object], value: float) -> None:
        self.code, self.value = code, value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        self.code()
        return full(self.value)


@pytest.mark.parametrize("replayed", [False, True])
def test_a_hook_cannot_change_the_exe_of_its_step(life: Life, replayed: bool) -> None:
    life.engine.add_entry(life.exe, life.program)
    if replayed:
        life.step(full(0))
    arrays: list[Any] = []
    before = life.engine.stats.allocated_bytes
    refused: list[str] = []

    def hook() -> None:
        for name, change in life.changes().items():
            with pytest.raises(EngineError, match="in the middle of a step of the same exe") as caught:
                change()
            assert "Remedy: " in str(caught.value)
            refused.append(name)
        arrays.extend(poot.asarray(full(k), device=life.device) for k in range(4))

    result = life.step(full(1), hook)
    assert len(refused) == 7
    assert (result.read() == 9).all() and (life.exe.state["total"] == 1).all()
    assert [float(np.asarray(each)[0]) for each in arrays] == [0, 1, 2, 3]
    assert life.engine.stats.allocated_bytes == before and life.engine.stats.entries == 2
    life.engine.unload(life.exe)


def test_an_error_of_a_hook_leaves_the_exe_in_use(life: Life) -> None:
    for change in life.changes().values():
        if life.exe.entries.keys() == {life.entry.number}:
            life.engine.add_entry(life.exe, life.program)
        with pytest.raises(EngineError, match="in the middle of"):
            life.step(full(1), change)  # pyright: ignore[reportArgumentType]
    assert (life.exe.state["total"] == 0).all()
    assert (life.step(full(1)).read() == 9).all()


def test_a_hook_reads_the_exe_and_uses_another(life: Life) -> None:
    exe, entry = life.load()
    second = life.engine.add_entry(life.exe, life.program)
    kept = life.engine.step(life.exe, second, StepInputs().push("x", full(2)))
    seen: list[Any] = []

    def hook() -> None:
        seen.append(life.exe.state["total"])
        seen.append(kept.read())
        seen.append(life.engine.step(exe, entry, StepInputs().push("x", full(3))).read())
        with pytest.raises(EngineError, match="in the middle of a step of the same exe"):
            life.step(full(5))

    assert (life.step(full(1), hook).read() == 9).all()
    assert [float(each[0]) for each in seen] == [2, 11, 13]
    assert (life.exe.state["total"] == 3).all() and (exe.state["total"] == 3).all()


def test_an_input_that_steps_runs_before_the_step(life: Life) -> None:
    inner: list[Any] = []
    result = life.step(Running(lambda: inner.append(life.step(full(100)).read()), 1))
    assert (result.read() == 9).all() and (inner[0] == 207).all()
    assert (life.exe.state["total"] == 101).all()
    life.exe.state["total"] = Running(lambda: life.step(full(100)), 5)
    assert (life.exe.state["total"] == 5).all()


@pytest.mark.parametrize("change", ["remove_entry", "unload"])
def test_an_input_that_takes_its_entry_away_fails_the_step_alone(life: Life, change: str) -> None:
    arrays: list[Any] = []

    def code() -> None:
        life.changes()[change]()
        arrays.extend(poot.asarray(full(k), device=life.device) for k in range(4))

    with pytest.raises(EngineError, match=r"was removed|was unloaded"):
        life.step(Running(code, 1))
    assert [float(np.asarray(each)[0]) for each in arrays] == [0, 1, 2, 3]


def test_an_input_may_push_another(life: Life) -> None:
    inputs = StepInputs()
    inputs.push("x", Running(lambda: inputs.push("y", full(2)), 1))
    assert (life.engine.step(life.exe, life.entry, inputs).read() == 9).all()


def test_other_threads_wait_for_a_step(life: Life) -> None:
    begun = threading.Event()
    results: list[Any] = []

    def other() -> None:
        begun.set()
        results.append(life.step(full(100)).read())

    thread = threading.Thread(target=other)

    def hook() -> None:
        thread.start()
        begun.wait()

    life.step(full(1), hook)
    thread.join()
    assert (results[0] == 207).all() and (life.exe.state["total"] == 101).all()


def test_an_argument_may_call_the_function_that_it_is_for(device: Device) -> None:
    @poot.trace
    def twice(x: Any) -> Any:
        return x * 2.0 + 1.0

    inner: list[Any] = []
    on = poot.asarray(full(0), device=device)

    @poot.trace
    def both(x: Any, y: Any) -> Any:
        return twice(x) + y

    for _ in range(3):
        argument = Running(lambda: inner.append(np.asarray(both(full(5), on))), 1)
        assert (np.asarray(both(argument, on)) == 3).all()
    assert len(inner) >= 3 and all((each == 11).all() for each in inner)
