"""The engine: weights, states, entries that record once and replay, and what failures leave behind."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightMap, WeightStore, f32, i32, ops
from poot.backends import toolchain
from poot.backends.device import DeviceBackend
from poot.errors import (
    AllocationError,
    CompileError,
    DTypeError,
    EngineError,
    EvaluateError,
    IndexFault,
    ShapeError,
    UnsupportedDTypeError,
    WeightError,
)

N = 8
OPTIONS = poot.CompileOptions(poot.CompileLimits.STANDARD)


def accumulate(name: str = "accumulate", gain: float = 1.0) -> poot.Graph:
    """total <- total + w * x; the output is the new total."""
    b = Builder(TraceLimits.STANDARD, name=name)
    w, x, total = b.constant("w", f32[N]), b.input("x", f32[N]), b.state("total", f32[N])
    new = total + w * x * gain
    return b.finish({"total": new}, updates={"total": new})


def lookup() -> poot.Graph:
    """count <- count + 1; the output is table[index], which faults where the index is out of range."""
    b = Builder(TraceLimits.STANDARD, name="lookup")
    table, index, count = b.constant("w", f32[N]), b.input("index", i32[2]), b.state("count", f32[N])
    new = count + 1.0
    return b.finish(table[index], updates={"count": new})


class Setup:
    """An engine with one exe and one entry of `graph`."""

    def __init__(self, device: poot.Device, graph: poot.Graph) -> None:
        self.engine = Engine(device)
        self.exe = self.engine.load_weights(WeightStore.from_arrays({"w": np.arange(N, dtype=np.float32)}))
        self.entry = self.engine.add_entry(self.exe, poot.compile(graph, device.target, OPTIONS))

    def step(self, **inputs: Any) -> Any:
        pushed = StepInputs()
        for name, value in inputs.items():
            pushed.push(name, value)
        return self.engine.step(self.exe, self.entry, pushed)


@pytest.fixture
def setup(device: poot.Device) -> Setup:
    return Setup(device, accumulate())


@pytest.fixture
def faulty(device: poot.Device) -> Setup:
    return Setup(device, lookup())


ONE = np.ones(N, np.float32)
W = np.arange(N, dtype=np.float32)


def test_a_thousand_steps_record_once_and_replay_the_rest(device: poot.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"record": 0, "replay": 0}
    for name in calls:
        original = getattr(type(device.backend), name)

        def counted(self: Any, *args: Any, _name: str = name, _original: Any = original) -> Any:
            calls[_name] += 1
            return _original(self, *args)

        monkeypatch.setattr(type(device.backend), name, counted)
    setup = Setup(device, accumulate())
    steps = 1000 if device.name == "cpu" else 50
    for _ in range(steps):
        setup.step(x=ONE)
    assert calls["record"] == 1
    assert setup.engine.stats.records == 1
    assert setup.engine.stats.replays == steps - 1
    assert np.array_equal(setup.exe.state["total"], W * steps)


def test_state_is_read_set_reset_and_shared_between_entries(setup: Setup, device: poot.Device) -> None:
    other = setup.engine.add_entry(setup.exe, poot.compile(accumulate("twice", 2.0), device.target, OPTIONS))
    setup.step(x=ONE)
    setup.engine.step(setup.exe, other, StepInputs().push("x", ONE))
    assert np.array_equal(setup.exe.state["total"], W * 3)
    setup.exe.state["total"] = ONE
    assert np.array_equal(setup.step(x=ONE).read()["total"], W + 1)
    setup.exe.state.reset()
    assert not setup.exe.state["total"].any()
    state = setup.exe.state
    assert list(state) == [*state.keys()] == ["total"] and "total" in state and "other" not in state
    for found in (dict(state), dict(state.items()), {"total": state.get("total")}):
        assert found.keys() == {"total"} and not found["total"].any()
    assert len([*state.values()]) == 1 and state.get("other") is None and state.get("other", 3) == 3
    assert state == state and state != {} and isinstance(hash(state), int)


def test_states_that_exchange_their_values(device: poot.Device) -> None:
    b = Builder(TraceLimits.STANDARD)
    a, c = b.state("a", f32[N]), b.state("c", f32[N])
    graph = b.finish(a, updates={"a": c, "c": a})
    setup = Setup(device, graph)
    setup.exe.state["a"] = ONE
    setup.step()
    assert not setup.exe.state["a"].any()
    assert np.array_equal(setup.exe.state["c"], ONE)


def test_results_are_copies_unless_borrowed_and_end_with_the_next_step(setup: Setup) -> None:
    result = setup.step(x=ONE)
    copy, borrowed = result.read()["total"], result.read(borrow=True)["total"]
    assert not borrowed.flags.writeable
    setup.step(x=ONE)
    assert np.array_equal(copy, W)
    with pytest.raises(EngineError, match="the result of step 1 was overwritten by step 2 of its entry"):
        result.read()


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({}, EvaluateError, "input 'x': was not pushed"),
        ({"y": ONE}, EvaluateError, "input 'y': the program has no such input; it has x"),
        ({"x": ONE.astype(np.float64)}, DTypeError, "input 'x': dtype f64, expected f32"),
        ({"x": ONE[:3]}, ShapeError, "input 'x': shape (3,), expected (8,)"),
        ({"x": np.array(["a"] * N)}, UnsupportedDTypeError, "input 'x': dtype str32 is not supported"),
        ({"x": np.array([None] * N)}, UnsupportedDTypeError, "input 'x': dtype object is not supported"),
        ({"x": np.zeros(N, "datetime64[s]")}, UnsupportedDTypeError, "dtype datetime64[s] is not supported"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_written(
    setup: Setup, inputs: dict[str, Any], error: type[Exception], message: str
) -> None:
    result = setup.step(x=ONE)
    with pytest.raises(error) as caught:
        setup.step(**inputs)
    assert message in str(caught.value)
    assert np.array_equal(result.read()["total"], W)
    assert np.array_equal(setup.exe.state["total"], W)


def test_a_duplicate_input_is_refused() -> None:
    with pytest.raises(EvaluateError, match="input 'x': pushed twice"):
        StepInputs().push("x", ONE).push("x", ONE)


def test_a_fault_raises_and_leaves_state_as_it_was(faulty: Setup) -> None:
    good = np.array([1, 7], np.int32)
    assert np.array_equal(faulty.step(index=good).read(), [1, 7])
    with pytest.raises(IndexFault, match="gather: index 8 is out of range for axis 0 of extent 8"):
        faulty.step(index=np.array([0, 8], np.int32))
    assert np.array_equal(faulty.exe.state["count"], ONE)
    assert np.array_equal(faulty.step(index=good).read(), [1, 7])
    assert np.array_equal(faulty.exe.state["count"], ONE * 2)


def test_wrong_weights_are_named(device: poot.Device) -> None:
    engine = Engine(device)
    program = poot.compile(accumulate(), device.target, OPTIONS)
    exe = engine.load_weights(WeightStore.from_arrays({"v": ONE}))
    with pytest.raises(
        WeightError, match=r"1 weight does not fit:\n  missing from the exe \(1\), which has v:\n    w\n  at"
    ):
        engine.add_entry(exe, program)
    wide = engine.load_weights(WeightStore.from_arrays({"w": np.ones(N)}))
    with pytest.raises(WeightError, match=r"of another dtype \(1\):\n    w: f64\[8\], f32\[8\] is wanted\n  at"):
        engine.add_entry(wide, program)
    store = WeightStore.from_arrays({"big": np.arange(2 * N, dtype=np.float32).reshape(2, N)})
    with pytest.raises(WeightError, match=r"missing from the store \(1\), which has big:\n    w\n  at"):
        engine.load_weights(store, WeightMap({"w": "w"}))
    part = engine.load_weights(store, WeightMap({"w": poot.StoredView("big", (1,))}))
    entry = engine.add_entry(part, program)
    result = engine.step(part, entry, StepInputs().push("x", ONE)).read()
    assert np.array_equal(result["total"], np.arange(N, 2 * N))


def test_use_after_unload_and_removal(setup: Setup) -> None:
    before = Engine(setup.engine.device).stats.allocated_bytes
    result = setup.step(x=ONE)
    setup.engine.remove_entry(setup.entry)
    with pytest.raises(EngineError, match="this entry was removed"):
        setup.step(x=ONE)
    with pytest.raises(EngineError, match="the entry of this result was removed"):
        result.read()
    with pytest.raises(EngineError, match="this entry was removed"):
        setup.engine.remove_entry(setup.entry)
    setup.engine.unload(setup.exe)
    assert setup.engine.stats.allocated_bytes == before
    for use in (lambda: setup.step(x=ONE), lambda: setup.exe.state["total"], lambda: setup.engine.unload(setup.exe)):
        with pytest.raises(EngineError, match="this exe was unloaded"):
            use()


def test_an_exe_of_another_engine_is_refused(setup: Setup, device: poot.Device) -> None:
    with pytest.raises(EngineError, match="the exe belongs to another engine"):
        Engine(device).step(setup.exe, setup.entry, StepInputs().push("x", ONE))


def test_a_program_for_another_target_is_refused(setup: Setup, device: poot.Device) -> None:
    other = "interpret" if device.name != "interpret" else "cpu"
    program = poot.compile(accumulate(), poot.Target.parse(other), OPTIONS)
    with pytest.raises(EngineError, match=f"the program was compiled for {other}"):
        setup.engine.add_entry(setup.exe, program)


def test_engines_do_not_pickle(setup: Setup) -> None:
    with pytest.raises(EngineError, match="cannot be pickled"):
        pickle.dumps(setup.engine)


class Failing:
    """Makes the next call of a function raise."""

    def __init__(self, original: Any, error: Exception, after: int = 0) -> None:
        self.original, self.error, self.left = original, error, after

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left == 0:
            self.left = -1
            raise self.error
        self.left -= 1
        return self.original(*args, **kwargs)


def test_a_failed_compile_changes_nothing(setup: Setup, device: poot.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.step(x=ONE)
    before = setup.engine.stats.allocated_bytes
    program = poot.compile(accumulate("other", 5.0), device.target, OPTIONS)
    failure = CompileError(what="kernel", target="here", message="injected")
    toolchain.clear_memory()
    monkeypatch.setattr(toolchain, "_compile", Failing(toolchain._compile, failure))
    with pytest.raises(CompileError, match="injected"):
        setup.engine.add_entry(setup.exe, program)
    assert setup.engine.stats.allocated_bytes == before
    entry = setup.engine.add_entry(setup.exe, program)
    result = setup.engine.step(setup.exe, entry, StepInputs().push("x", ONE)).read()
    assert np.array_equal(result["total"], W * 6)


@pytest.mark.parametrize("after", range(3))
def test_a_failed_allocation_changes_nothing(
    setup: Setup, device: poot.Device, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    before = setup.engine.stats.allocated_bytes
    program = poot.compile(accumulate("again", 3.0), device.target, OPTIONS)
    failure = AllocationError(nbytes=1, device=device.name, message="injected")
    with monkeypatch.context() as patch:
        patch.setattr(device.backend, "allocate", Failing(device.backend.allocate, failure, after), raising=False)
        with pytest.raises(AllocationError, match="injected"):
            setup.engine.add_entry(setup.exe, program)
    assert setup.engine.stats.allocated_bytes == before
    assert np.array_equal(setup.step(x=ONE).read()["total"], W)


@pytest.mark.parametrize("where", ["record", "replay", "write"])
def test_a_failed_step_changes_nothing(
    setup: Setup, device: poot.Device, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where != "record":
        setup.step(x=ONE)
    expected = setup.exe.state["total"].copy()
    before = setup.engine.stats.allocated_bytes
    backend: DeviceBackend = device.backend
    with monkeypatch.context() as patch:
        patch.setattr(backend, where, Failing(getattr(backend, where), RuntimeError("injected")), raising=False)
        with pytest.raises(RuntimeError, match="injected"):
            setup.step(x=ONE)
    assert np.array_equal(setup.exe.state["total"], expected)
    assert np.array_equal(setup.step(x=ONE).read()["total"], expected + W)
    assert setup.engine.stats.allocated_bytes == before


def test_sync_is_called_before_the_launch(setup: Setup) -> None:
    seen: list[float] = []
    setup.engine.step(
        setup.exe,
        setup.entry,
        StepInputs().push("x", ONE),
        sync=lambda: seen.append(float(setup.exe.state["total"][1])),
    )
    assert seen == [0.0]


def test_eight_threads_step_two_entries(setup: Setup, device: poot.Device) -> None:
    other = setup.engine.add_entry(setup.exe, poot.compile(accumulate("twice", 2.0), device.target, OPTIONS))
    steps = 25 if device.name == "cpu" else 4

    def work(number: int) -> None:
        entry = setup.entry if number % 2 else other
        for _ in range(steps):
            setup.engine.step(setup.exe, entry, StepInputs().push("x", ONE))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(setup.exe.state["total"], W * steps * 12)


def test_an_entry_without_inputs_and_with_an_empty_output(device: poot.Device) -> None:
    b = Builder(TraceLimits.STANDARD)
    w = b.constant("w", f32[N])
    setup = Setup(device, b.finish((w[:0], ops.exp(w) * 0.0, None)))
    empty, zeros, none = setup.step().read()
    assert empty.shape == (0,)
    assert not zeros.any()
    assert none is None
