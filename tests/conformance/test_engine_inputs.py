"""Arrays of poot's as inputs of steps and as values of states: they stay on their device."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore
from poot.api.devices import Device
from poot.dtypes import ALL, ArraySpec, DType
from poot.errors import DTypeError, EngineError, IndexFault, ShapeError
from tests.lives import Life, N, full

SHAPES = ((7,), (), (0, 3), (2, 1, 5))


def more(x: Any) -> Any:
    return x + 1.0


def row(x: Any, i: Any) -> Any:
    return x[i] + poot.ops.zeros((N,), poot.f32)


def loaded(device: Device, spec: ArraySpec) -> tuple[Engine, Any, Any]:
    """An engine whose steps give x and then keep it as the state "last"."""
    b = Builder(TraceLimits.STANDARD)
    x = b.input("x", spec)
    program = poot.compile(b.finish((x, b.state("last", spec)), updates={"last": x}), device.target)
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    return engine, exe, engine.add_entry(exe, program)


def held(device: Device) -> list[DType]:
    return [dtype for dtype in ALL if dtype in device.target.dtypes]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_on_the_device_is_an_input(device: Device, shape: tuple[int, ...]) -> None:
    """Of every dtype; what the step keeps is its own."""
    size = int(np.prod(shape))
    for dtype in held(device):
        engine, exe, entry = loaded(device, ArraySpec(dtype, shape))
        host = (np.arange(size) % 2).astype(dtype.dtype).reshape(shape)
        one, two = poot.asarray(host, device=device), poot.asarray(host[::-1] if shape else host, device=device)
        for array, wanted in ((one, host), (two, np.asarray(two)), (one, host)):
            last = exe.state["last"]
            x, state = engine.step(exe, entry, StepInputs().push("x", array)).read()
            assert x.tobytes() == wanted.tobytes() and x.shape == shape
            assert state.tobytes() == last.tobytes()
        exe.state["last"] = two
        assert exe.state["last"].tobytes() == np.asarray(two).tobytes()
        engine.unload(exe)


def test_the_host_is_not_asked(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for an input's elements nor for a state's."""
    life = Life(device)
    x = poot.trace(more, device=device)(poot.asarray(full(2), device=device))
    life.step(x)
    calls: list[str] = []
    for name in ("read", "write", "host_view"):
        kept = getattr(device.backend, name)

        def counted(*args: Any, kept: Any = kept, name: str = name) -> Any:
            calls.append(name)
            return kept(*args)

        monkeypatch.setattr(device.backend, name, counted)
    result = life.step(x)
    life.exe.state["total"] = x
    assert not calls
    assert (result.read() == 13).all() and (life.exe.state["total"] == 3).all()


def test_what_does_not_fit_is_refused_before_anything_is_written(device: Device) -> None:
    life = Life(device)
    kept = life.step(full(1))
    for wrong, error in ((np.zeros(N, np.int32), DTypeError), (np.zeros(N + 1, np.float32), ShapeError)):
        array = poot.asarray(wrong, device=device)
        with pytest.raises(error, match="input 'x'"):
            life.step(array)
        with pytest.raises(error, match="state 'total'"):
            life.exe.state["total"] = array
    gone = poot.asarray(full(3), device=device)
    poot.trace(more, donate="x", device=device)(gone)
    for use in (lambda: life.step(gone), lambda: life.exe.state.__setitem__("total", gone)):
        with pytest.raises(EngineError, match="was donated to"):
            use()
    assert (kept.read() == 9).all() and (life.exe.state["total"] == 1).all()


def test_a_faulty_array_is_never_an_input(device: Device) -> None:
    life = Life(device)
    kept = life.step(full(1))
    take = poot.trace(row, device=device)
    on = poot.asarray(full(3), device=device)
    for use in (life.step, lambda array: life.exe.state.__setitem__("total", array)):
        with pytest.raises(IndexFault, match="index 99 is out of range"):
            use(take(on, np.int32(99)))
    assert (kept.read() == 9).all() and (life.exe.state["total"] == 1).all()


def test_memory_of_the_caller_may_change_after_the_step(device: Device) -> None:
    """NumPy's array that poot shares is read before the step returns, as one that is pushed itself."""
    life = Life(device)
    host = full(0)
    try:
        shared = poot.asarray(host, device=device, copy=False)
    except poot.errors.ArgumentError:  # a device that cannot use the host's memory
        shared = host
    for turn in range(4):
        host[:] = turn
        result = life.step(shared)
        host[:] = -1
        assert (result.read() == 2 * turn + 7).all()


def test_arrays_that_go_while_they_are_pushed(device: Device) -> None:
    """Donated or dropped by another thread: a step has the elements, or says that they are gone."""
    life = Life(device)
    give = poot.trace(more, donate="x", device=device)
    for turn in range(20):
        x = poot.asarray(full(turn), device=device)
        inputs = StepInputs().push("x", x)
        thread = threading.Thread(target=lambda x=x: give(x))
        thread.start()
        del x
        try:
            found = life.engine.step(life.exe, life.entry, inputs).read()
        except EngineError as error:
            assert "was donated to" in str(error)
        else:
            assert (found == 2 * turn + 7).all()
        thread.join()
