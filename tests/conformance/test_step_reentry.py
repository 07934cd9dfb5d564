"""Code of the user's in the middle of a call on an exe: its hook, an input's own, finalizers, signal handlers.

What it asks of the same exe is refused before anything is written, and the call in the middle of which it ran goes on.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore, f32
from poot.api.devices import Device
from poot.backends.toolchain import clear_memory
from poot.errors import EngineError

N = 24
ROOT = str(Path(poot.__file__).parent)


def full(value: float) -> np.ndarray[Any, Any]:
    return np.full(N, value, np.float32)


class Life:
    """An engine with an exe and an entry: y = w * x * 2 + 7, and a state to which x is added."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.engine = Engine(device)
        b = Builder(TraceLimits.STANDARD)
        x, w, total = b.input("x", f32[N]), b.constant("w", f32[N]), b.state("total", f32[N])
        graph = b.finish(w * x * 2.0 + 7.0, updates={"total": total + x})
        self.program = poot.compile(graph, device.target, poot.CompileOptions())
        self.exe, self.entry = self.load()

    def load(self) -> tuple[Any, Any]:
        exe = self.engine.load_weights(WeightStore.from_arrays({"w": full(1)}))
        return exe, self.engine.add_entry(exe, self.program)

    def step(self, x: Any, sync: Callable[[], None] | None = None) -> Any:
        return self.engine.step(self.exe, self.entry, StepInputs().push("x", x), sync=sync)

    def changes(self) -> dict[str, Callable[[], object]]:
        return {
            "step": lambda: self.step(full(100)),
            "step of another entry": lambda: self.engine.step(self.exe, self.other, StepInputs().push("x", full(9))),
            "add_entry": lambda: self.engine.add_entry(self.exe, self.program),
            "remove_entry": lambda: self.engine.remove_entry(self.entry),
            "unload": lambda: self.engine.unload(self.exe),
            "setting": lambda: self.exe.state.__setitem__("total", full(50)),
            "reset": self.exe.state.reset,
        }

    @property
    def other(self) -> Any:
        return next(entry for entry in self.exe.entries.values() if entry is not self.entry)


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


# --- code that runs anywhere -----------------------------------------------------------------------------------------


def run_with(run: Callable[[], Any], action: Callable[[], None], number: int) -> tuple[Any, int]:
    """What `run` gives with `action` called at one of the lines of poot's that it executes, and how many there are."""
    lines = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                action()
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(ROOT) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        return run(), lines
    finally:
        sys.settrace(before)


def anywhere(run: Callable[[], Any], action: Callable[[], None], want: Callable[[Any], bool], most: int = 120) -> None:
    total = run_with(run, action, -1)[1]
    for number in range(1, total + 1, max(1, total // most)):
        assert want(run_with(run, action, number)[0]), number


def test_a_step_may_be_asked_for_at_any_line_of_one(life: Life) -> None:
    exe, entry = life.load()
    taken: list[int] = [0]

    def action() -> None:
        try:
            life.step(full(100))
            taken[0] += 1
        except EngineError as error:
            assert "in the middle of" in str(error)
        found = life.engine.step(exe, entry, StepInputs().push("x", full(3))).read()
        assert (found == 13).all()

    def run() -> Any:
        life.exe.state.reset()
        taken[0] = 0
        result = life.step(full(1))
        total = life.exe.state["total"]
        try:
            return result.read(), total
        except EngineError as error:
            assert "was overwritten" in str(error)
            return full(9), total

    def want(found: Any) -> bool:
        y, total = found
        return bool((y == 9).all() and total[0] in (1, 101) and (total == total[0]).all())

    anywhere(run, action, want)


@pytest.mark.parametrize("change", ["step", "setting", "reset", "add_entry"])
def test_another_thread_may_come_at_any_line_of_a_change(life: Life, change: str) -> None:
    """It waits for the change, and sees nothing of what is half done."""
    threads: list[threading.Thread] = []
    errors: list[BaseException] = []

    def use() -> None:
        try:
            life.step(full(1))
            total = life.exe.state["total"]
            assert (total == total[0]).all()
        except BaseException as error:
            errors.append(error)

    def action() -> None:
        threads.append(threading.Thread(target=use))
        threads[-1].start()
        threads[-1].join(0.01)

    def run() -> bool:
        life.changes()[change]()
        while threads:
            threads.pop().join()
        return not errors

    anywhere(run, action, bool, most=40)


def collect() -> None:
    gc.collect()


def test_a_finalizer_may_step(life: Life) -> None:
    found: list[Any] = []

    class Garbage:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            try:
                found.append(life.step(full(100)))
            except EngineError as error:
                found.append(error)

    for _ in range(5):
        Garbage()
        assert (life.step(full(1), collect).read() == 9).all()
    assert len(found) == 5 and all(isinstance(each, EngineError) for each in found)
    assert (life.exe.state["total"] == 5).all()


def test_a_signal_handler_may_step(life: Life) -> None:
    found: list[Any] = []

    def handler(number: int, frame: object) -> None:
        try:
            found.append(life.step(full(100)).read())
        except EngineError as error:
            found.append(error)

    before = signal.signal(signal.SIGINT, handler)
    try:
        result = life.step(full(1), lambda: signal.raise_signal(signal.SIGINT))
        assert (result.read() == 9).all() and isinstance(found[0], EngineError)
        signal.raise_signal(signal.SIGINT)
        assert (found[1] == 207).all()
    finally:
        signal.signal(signal.SIGINT, before)


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


def test_calls_may_be_made_at_any_line_of_one(device: Device) -> None:
    """Traced calls, operators and kernels share caches, recordings and memory with the call that they interrupt."""

    @poot.trace
    def rows(x: Any, i: Any) -> Any:
        return x[i] * x + 1.0

    @poot.kernel
    def add(a: poot.In[poot.f32], b: poot.Out[poot.f32]) -> None:
        i = poot.thread_index()
        if i < len(b):
            b[i] = a[i] + 2.0

    def calls(value: float) -> tuple[Any, ...]:
        x, y = (poot.asarray(full(each), device=device) for each in (value, 0))
        add(x, y, threads=N)
        return rows(x, np.int32(3)), x + y, y

    def right(found: tuple[Any, ...], value: float) -> bool:
        wanted = value * value + 1, value + value + 2, value + 2
        return all(bool((np.asarray(y) == want).all()) for y, want in zip(found, wanted, strict=True))

    waiting: list[tuple[Any, ...]] = []

    def action() -> None:
        waiting.append(calls(5))
        assert right(calls(7), 7)

    for _ in range(3):
        assert right(calls(5), 5)
    anywhere(
        lambda: calls(3), action, lambda found: right(found, 3) and all(right(waiting.pop(), 5) for _ in waiting[:])
    )


def test_a_compile_may_ask_for_its_own_kernel(device: Device) -> None:
    """As a finalizer may while LLVM or a driver is at work, and waits for nobody."""
    clear_memory()

    def step() -> Any:
        life = Life(device)
        found = life.step(full(1)).read()
        life.engine.unload(life.exe)
        return found

    step()

    def action() -> None:
        assert (step() == 9).all()

    def run() -> Any:
        clear_memory()
        return step()

    anywhere(run, action, lambda found: bool((found == 9).all()), 40)
