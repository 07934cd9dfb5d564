"""Code that comes at any line of poot's: in the same thread, as of finalizers and signals, or in another thread."""

from __future__ import annotations

import dataclasses
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
from poot import StepInputs
from poot.api.devices import Device
from poot.backends.toolchain import clear_memory
from poot.errors import EngineError, PootError
from tests.lives import Life, N, full

ROOT = str(Path(poot.__file__).parent)


@pytest.fixture
def life(device: Device) -> Life:
    return Life(device)


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


def elsewhere(run: Callable[[], Any], action: Callable[[], None], want: Callable[[Any], bool], most: int = 40) -> None:
    """As `anywhere`, with the action in another thread, which gets as far as it can before the run goes on."""
    threads: list[threading.Thread] = []
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    def begin() -> None:
        threads.append(threading.Thread(target=guarded))
        threads[-1].start()
        threads[-1].join(0.01)

    def run_both() -> Any:
        found = run()
        while threads:
            threads.pop().join()
        return found

    anywhere(run_both, begin, lambda found: want(found) and not errors, most)


@pytest.mark.parametrize("change", ["step", "setting", "reset", "add_entry"])
def test_another_thread_may_come_at_any_line_of_a_change(life: Life, change: str) -> None:
    """It waits for the change, and sees nothing of what is half done."""

    def use() -> None:
        life.step(full(1))
        total = life.exe.state["total"]
        assert (total == total[0]).all()

    elsewhere(life.changes()[change], use, lambda _: True)


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

    def collect() -> None:
        Garbage()  # made here, since what is collected before the step may step itself
        gc.collect()

    for _ in range(5):
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


class Calls:
    """A traced call, operators and a kernel."""

    def __init__(self, device: Device) -> None:
        @poot.trace
        def rows(x: Any, i: Any) -> Any:
            return x[i] * x + 1.0

        @poot.kernel
        def add(a: poot.In[poot.f32], b: poot.Out[poot.f32]) -> None:
            i = poot.thread_index()
            if i < len(b):
                b[i] = a[i] + 2.0

        self.device, self.rows, self.add = device, rows, add

    def make(self, value: float) -> tuple[Any, ...]:
        x, y = (poot.asarray(full(each), device=self.device) for each in (value, 0))
        self.add(x, y, threads=N)
        return self.rows(x, np.int32(3)), x + y, y

    @staticmethod
    def right(found: tuple[Any, ...], value: float) -> bool:
        wanted = value * value + 1, value + value + 2, value + 2
        return all(bool((np.asarray(y) == want).all()) for y, want in zip(found, wanted, strict=True))


def test_calls_may_be_made_at_any_line_of_one(device: Device) -> None:
    """Traced calls, operators and kernels share caches, recordings and memory with the call that they interrupt."""
    calls = Calls(device)
    waiting: list[tuple[Any, ...]] = []

    def action() -> None:
        waiting.append(calls.make(5))
        assert calls.right(calls.make(7), 7)

    def want(found: tuple[Any, ...]) -> bool:
        return calls.right(found, 3) and all(calls.right(waiting.pop(), 5) for _ in waiting[:])

    for _ in range(3):
        assert calls.right(calls.make(5), 5)
    anywhere(lambda: calls.make(3), action, want)


@pytest.mark.parametrize("first", [False, True])
def test_another_thread_may_call_at_any_line_of_a_call(device: Device, first: bool) -> None:
    """Also at those of a first call, which traces, plans, compiles and loads what the other asks for too."""
    calls = Calls(device)

    def run() -> tuple[Any, ...]:
        nonlocal calls
        if first:
            clear_memory()
            calls = Calls(device)
        return calls.make(3)

    def action() -> None:
        assert calls.right(calls.make(7), 7)

    run()
    elsewhere(run, action, lambda found: calls.right(found, 3))


@poot.kernel
def shifted(a: poot.In[poot.f32], b: poot.Out[poot.f32], by: poot.i32) -> None:
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i + by]


@pytest.mark.parametrize(("by", "most"), [(0, 1000), (1, 40)])
def test_another_thread_may_read_at_any_line_of_a_read(device: Device, by: int, most: int) -> None:
    """Each of them learns whether the launches have failed that wrote what it reads."""
    x, rows = poot.asarray(full(3), device=device), poot.trace(lambda x, i: x[i], device=device)
    arrays: list[Any] = []

    def make() -> None:
        written = poot.asarray(full(0), device=device)
        shifted(x, written, by, threads=N)
        arrays[:] = rows(x, np.full(N, by * N, np.int32)), written

    def faults() -> list[bool]:
        found: list[bool] = []
        for array in arrays:
            try:
                array.buffer_view()
                found.append(False)
            except IndexError:
                found.append(True)
        return found

    def action() -> None:
        assert faults() == [bool(by)] * 2

    def want(found: list[bool]) -> bool:
        make()
        return found == [bool(by)] * 2

    make()
    elsewhere(faults, action, want, most)


@dataclasses.dataclass
class Answer:
    """What one launch has to say."""

    fault: bool

    def check(self) -> None:
        if self.fault:
            raise PootError(message="it has failed")


@pytest.mark.parametrize("use", ["read", "launch"])
@pytest.mark.parametrize("kind", ["array", "buffer"])
def test_another_thread_may_launch_at_any_line_of_a(device: Device, use: str, kind: str) -> None:
    """Whatever a thread does with an array or a buffer, the fault of another's launch into it is told."""

    def make() -> Any:
        made: Any = poot.KernelBuffer.write(poot.f32, N) if kind == "buffer" else poot.asarray(full(3), device=device)
        made.await_check(Answer(False))
        return made

    def faults() -> bool:
        try:
            written.require_checked()
        except PootError:
            return True
        return False

    def run() -> None:
        nonlocal came
        came = False
        if use == "read":
            faults()
        else:
            written.await_check(Answer(False))

    def action() -> None:
        nonlocal came
        came = True
        written.await_check(Answer(True))

    def want(_: None) -> bool:
        nonlocal written
        found, written = faults(), make()
        return found == came

    written, came = make(), False
    elsewhere(run, action, want, most=1000)


def test_another_thread_may_put_a_buffer_where_one_puts_it(device: Device) -> None:
    """Both have the same memory, and its contents."""
    backend, views = device.backend, list[Any]()

    def view() -> None:
        assert (made.to_numpy() == 3).all()
        views.append(made.view(backend, "made").buffer)
        assert (made.to_numpy() == 3).all()

    def want(_: None) -> bool:
        nonlocal made
        made, found = poot.KernelBuffer.read_write(full(3)), views[:]
        views.clear()
        return len({id(each) for each in found}) == 1

    made = poot.KernelBuffer.read_write(full(3))
    elsewhere(view, view, want, most=1000)


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
