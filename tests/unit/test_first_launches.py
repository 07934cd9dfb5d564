"""Drivers that compile a kernel when it is first launched: such launches are counted, and Ctrl-C comes between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import poot
from poot import StepInputs, WeightStore, f32, i32, ops
from poot.api import traced
from poot.api.devices import Device
from poot.backends import device as registry
from poot.backends import progress
from poot.backends.progress import Work, working
from poot.errors import DeviceError, DeviceLostError, IndexFault, StateLost

X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Seen:
    """The counts of first launches that were shown; `interrupt` is after how many of one more a Ctrl-C comes."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.interrupt = -1

    def take(self) -> list[tuple[int, int | None]]:
        """How many were done of how many, of each recording since this was asked last."""
        found = [(work.done, work.total) for work in self.works]
        self.works.clear()
        return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()

    class Watched(Work):
        def __init__(self, *details: Any) -> None:
            super().__init__(*details)
            if self.text == "starting":
                seen.works.append(self)

        def advance(self) -> None:
            super().advance()
            if self in seen.works and self.done == seen.interrupt:
                seen.interrupt = -1
                raise KeyboardInterrupt

    monkeypatch.setattr(progress, "Work", Watched)
    return seen


@pytest.fixture(params=["opencl", "wgpu"])
def late(request: pytest.FixtureRequest) -> Device:
    return poot.device(request.param)


def forget(device: Device) -> None:
    """Let every kernel that is loaded count as one that was never launched."""
    backend: Any = device.backend
    if device.name == "opencl":
        for program in backend._programs.values():
            program.has_run = False
        return
    for kernel in backend._kernels.values():
        for pipeline in kernel._pipelines.values():
            pipeline.launched = False


def several(x: Any) -> Any:
    """Several kernels on every device."""
    return ops.cumsum((x @ x.T) * 1.75, axis=1) @ x


def expected() -> np.ndarray[Any, Any]:
    return np.cumsum((X @ X.T) * 1.75, axis=1) @ X


def fresh(device: Device) -> Callable[[Any], Any]:
    """A function that is traced, and its program recorded, at its next call."""
    traced._CACHE.clear()
    return poot.trace(device=device)(several)


def test_first_launches_are_counted_once(late: Device, seen: Seen) -> None:
    function = fresh(late)
    forget(late)
    x = poot.asarray(X, device=late)
    np.testing.assert_allclose(np.asarray(function(x)), expected(), rtol=1e-6)
    ((done, total),) = seen.take()
    assert done == total and done >= 2
    function(x)
    fresh(late)(x)  # another recording of the same kernels
    assert seen.take() == []


def test_an_interrupt_between_first_launches(late: Device, seen: Seen) -> None:
    function = fresh(late)
    forget(late)
    function(X)
    ((_, total),) = seen.take()
    assert total is not None
    for number in range(1, total + 1):
        function = fresh(late)
        forget(late)
        seen.interrupt = number
        with pytest.raises(KeyboardInterrupt):
            function(X)
        assert seen.take() == [(number, total)]
        np.testing.assert_allclose(np.asarray(function(X)), expected(), rtol=1e-6)
        assert seen.take() == ([(total - number, total - number)] if number < total else [])
        np.testing.assert_allclose(np.asarray(function(X + 1)), np.cumsum((X + 1) @ (X + 1).T * 1.75, 1) @ (X + 1))


def graph(*, faults: bool) -> poot.Graph:
    """Two states that change together, and with `faults` an index that may be out of range."""
    b = poot.Builder(poot.TraceLimits.STANDARD)
    x, index = b.input("x", f32[2, 4]), b.input("index", i32[1])
    total = b.state("total", f32[2, 4]) + b.constant("w", f32[2, 4]) * x
    twice = b.state("twice", f32[8]) + ops.reshape(total, (8,)) * 0 + 2
    result = ops.sum(total, axis=1) if not faults else ops.take(ops.sum(total, axis=1), index)
    return b.finish((result, ops.cumsum(twice)), updates={"total": total, "twice": twice})


@pytest.mark.parametrize("faults", [False, True])
def test_an_interrupted_first_step_is_none_or_whole(late: Device, seen: Seen, faults: bool) -> None:
    engine = poot.Engine(late)
    exe = engine.load_weights(WeightStore.from_arrays({"w": np.ones((2, 4), np.float32)}))
    program = poot.compile(graph(faults=faults), late.target, poot.CompileOptions())
    inputs = StepInputs().push("x", np.ones((2, 4), np.float32)).push("index", np.array([1], np.int32))
    count, number, entry = 0, 0, engine.add_entry(exe, program)
    while True:
        number += 1
        engine.remove_entry(entry)
        entry = engine.add_entry(exe, program)
        forget(late)
        seen.take()
        seen.interrupt = number
        try:
            engine.step(exe, entry, inputs)
        except KeyboardInterrupt:
            total, twice = exe.state["total"], exe.state["twice"]
            assert (twice == 2 * total[0, 0]).all() and (total == total[0, 0]).all()
            assert total[0, 0] in (count, count + 1)
            count = int(total[0, 0])
        else:
            break
        result, _ = engine.step(exe, entry, inputs).read()
        count += 1
        assert (result == 4 * count).all() and (exe.state["total"] == count).all()
        if faults:
            with pytest.raises(IndexFault):
                engine.step(exe, entry, StepInputs().push("x", X).push("index", np.array([7], np.int32)))
            assert (exe.state["total"] == count).all()
    seen.interrupt = -1
    assert number > 3
    engine.unload(exe)
    assert engine.stats.allocated_bytes == 0


def test_an_interrupted_first_step_loses_donated_states(late: Device, seen: Seen) -> None:
    function: Any = poot.trace(donate="cache")(lambda cache, x: (cache.at[1].set(x[0] * 1.5), ops.cumsum(x, axis=1)))
    program = function.program(f32[3, 4], f32[2, 4], device=late, states={"cache": "0"})
    assert program.in_place == ("cache",)
    engine = poot.Engine(late)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, program)
    forget(late)
    seen.interrupt = 1
    with pytest.raises(KeyboardInterrupt):
        engine.step(exe, entry, StepInputs().push("x", X))
    with pytest.raises(StateLost):
        engine.step(exe, entry, StepInputs().push("x", X))
    exe.state.reset()
    result = engine.step(exe, entry, StepInputs().push("x", X))
    np.testing.assert_allclose(result.read(), np.cumsum(X, axis=1))
    np.testing.assert_allclose(exe.state["cache"], [[0] * 4, X[0] * 1.5, [0] * 4])
    engine.unload(exe)


@poot.kernel
def doubled(a: poot.In[f32], b: poot.Out[f32]):
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i] * 2.0


def test_launches_of_kernels_are_counted(late: Device, seen: Seen) -> None:
    a, b = poot.asarray(X.ravel(), device=late), poot.asarray(np.zeros(8, np.float32), device=late)
    doubled(a, b, threads=8)
    forget(late)
    seen.take()
    seen.interrupt = 1
    with pytest.raises(KeyboardInterrupt):
        doubled(a, b, threads=8)
    assert seen.take() == [(1, 1)]
    doubled(a, b, threads=8)
    np.testing.assert_array_equal(np.asarray(b), X.ravel() * 2)
    assert seen.take() == []


def test_every_part_of_a_program_counts_its_own(late: Device, seen: Seen) -> None:
    """The host decides between them, so that each is recorded when it is reached."""

    @poot.trace(device=late)
    def grown(x: Any) -> Any:
        x = ops.while_loop(lambda x: ops.sum(x) < 1000.0, lambda x: ops.cumsum(x, axis=1) + 1.0, x)
        return ops.cond(x[0, 0] > 3.0, lambda x: x @ x.T, lambda x: x @ x.T + 1.0, x)

    first = np.asarray(grown(X))
    forget(late)
    traced._CACHE.clear()
    seen.take()
    np.testing.assert_array_equal(np.asarray(grown(X)), first)
    found = seen.take()
    assert len(found) >= 3 and all(done == total for done, total in found)


@pytest.mark.parametrize(("name", "recorded"), [("opencl", False), ("wgpu", False), ("wgpu", True)])
def test_a_call_in_the_middle(name: str, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal's handler makes it: of the same function on other arrays, while kernels are launched first.

    On wgpu they are so in a replay as well, where buffers are bound that a kernel both reads and writes.
    """
    device = poot.device(name)
    function = fresh(device)
    x, y = poot.asarray(X, device=device), poot.asarray(X + 1, device=device)
    second = np.asarray(function(y))
    function = function if recorded else fresh(device)
    forget(device)
    inner: list[Any] = []

    def between(work: Work) -> None:
        work.done += 1
        if work.text == "starting" and not inner:
            inner.append(None)
            inner[0] = function(y)

    monkeypatch.setattr(Work, "advance", between)
    outer = function(x)
    np.testing.assert_allclose(np.asarray(outer), expected(), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(inner[0]), second)


def test_adapters_that_compile_before_are_not_held_up(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    device = poot.device("wgpu")
    assert getattr(device.backend, "_compiles_late") is True  # noqa: B009
    monkeypatch.setattr(device.backend, "_compiles_late", False)
    function = fresh(device)
    forget(device)
    np.testing.assert_allclose(np.asarray(function(X)), expected(), rtol=1e-6)
    assert seen.take() == []


class Failing:
    """The event of a launch that fails when it runs."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def wait(self) -> None:
        import pyopencl as cl

        self._event.wait()
        code = cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        raise cl.RuntimeError(cl._cl._ErrorRecord("", code, "clWaitForEvents"))  # type: ignore[attr-defined]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device that the test may break."""
    monkeypatch.setattr(registry, "_devices", {})
    yield poot.device("opencl")


@pytest.mark.parametrize("lost", [False, True])
def test_a_first_launch_that_fails(lost: bool, own: Device, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    from poot.backends.opencl.platform import cl

    function = fresh(own)
    enqueue = cl.enqueue_nd_range_kernel
    with monkeypatch.context() as patch:
        patch.setattr(cl, "enqueue_nd_range_kernel", lambda *details: Failing(enqueue(*details)))
        patch.setattr(own.backend, "_answers", lambda: not lost)
        with pytest.raises(DeviceLostError if lost else DeviceError, match=r"launch: .* - clWaitForEvents"):
            function(X)
    np.testing.assert_allclose(np.asarray(function(X)), expected(), rtol=1e-6)  # lost ones are opened anew
    seen.take()


def test_what_counts_goes_on_being_shown() -> None:
    with working("autotuning f", 3, "schedules") as outer:
        with working("starting", 2, "kernels") as inner:
            inner.advance()
            assert str(outer) == "autotuning f 0/3 schedules" and str(inner) == "starting 1/2 kernels"
        outer.advance()
        assert str(outer) == "autotuning f 1/3 schedules"
