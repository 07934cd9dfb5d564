"""Prologues: what depends on constants alone is computed once, and again as soon as a constant has other contents."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.backends.prologue import Prologue
from poot.errors import EngineError
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.program import Launch, Program
from poot.target import Target
from poot.trace.builder import Builder
from tests.plan_support import LIMITS, assert_same

W = np.random.default_rng(0).standard_normal((96, 40)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((70, 40)).astype(np.float32)


@pytest.fixture
def fills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many kept slots each run of a prologue filled."""
    found: list[int] = []
    original = Prologue.fill

    def counted(self: Prologue, wanted: Any, views: Any) -> None:
        found.append(len(wanted))
        original(self, wanted, views)

    monkeypatch.setattr(Prologue, "fill", counted)
    return found


def linear(w: Any) -> Callable[[Any], Any]:
    @poot.trace
    def f(x: Any) -> Any:
        return x @ w.T

    return f


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=2e-5, atol=2e-5)


# --- in a program -----------------------------------------------------------------------------------------------------


def program(stable: frozenset[str] | None = None) -> Program:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[70, 40]), b.constant("w", f32[96, 40])
    return plan(b.finish(ops.matmul(x, w.T)), Target.parse("cpu"), CompileOptions(stable=stable))


def test_packed_weights_are_made_once() -> None:
    made = program()
    (launch,) = made.prologue
    assert isinstance(launch, Launch)
    bindings = launch.bindings
    (kept,) = made.storage.kept
    assert len(made.launches) == 1 and kept in {binding.slot for binding in made.launches[0].bindings}
    assert {made.storage.slots[binding.slot].role for binding in bindings} == {"constant", "kept"}
    assert "once, from constants: 1 launches fill" in str(made.report())


def test_nothing_is_constant_unless_it_is_said_to_be() -> None:
    made = program(frozenset())
    assert not made.prologue and not made.storage.kept and len(made.launches) >= 1


def test_inputs_may_be_named_stable() -> None:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[70, 40]), b.input("w", f32[96, 40])
    made = plan(b.finish(ops.matmul(x, w.T)), Target.parse("cpu"), CompileOptions(stable=frozenset({"w"})))
    assert len(made.prologue) == 1


def test_whole_groups_of_constants() -> None:
    """Not packing alone: a reduction of a weight, which kernels read."""
    b = Builder(LIMITS)
    x, w = b.input("x", f32[7, 40]), b.constant("w", f32[96, 40])
    norm = ops.sqrt(ops.sum(w * w, axis=0))
    made = assert_same(b.finish((x / norm, x + norm)), {"x": X[:7], "w": W}, exact=False)
    assert len(made.prologue) >= 1
    assert sum(each.fate == "prologue" for each in made.equation_plans) >= 2


def test_equal_copies_are_made_once() -> None:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[70, 40]), b.constant("w", f32[96, 40])
    made = plan(b.finish((ops.matmul(x, w.T), ops.matmul(ops.exp(x), w.T))), Target.parse("cpu"))
    assert len(made.prologue) == 1 and len(made.storage.kept) == 1


def test_constants_inside_loops() -> None:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[40, 40]), b.constant("w", f32[40, 40])
    carry, _ = ops.scan(lambda c, _: (ops.tanh(c @ w.T), None), x, None, length=3)
    made = assert_same(b.finish(carry), {"x": X[:40], "w": W[:40]}, exact=False)
    assert len(made.prologue) == 1


def test_what_can_fault_stays_in_the_step() -> None:
    b = Builder(LIMITS)
    w, i = b.constant("w", f32[8]), b.constant("i", poot.i32[4])
    made = plan(b.finish(ops.take(w, i, axis=0) + b.input("x", f32[4])), Target.parse("cpu"))
    assert not made.prologue


def test_what_grows_much_is_not_kept() -> None:
    b = Builder(LIMITS)
    w = b.constant("w", f32[4096])
    wide = ops.exp(w[:, None] + w[None, :])
    made = plan(b.finish(ops.cumsum(wide, axis=0)[-1] + b.input("x", f32[4096])), Target.parse("cpu"))
    assert sum(made.storage.slots[slot].nbytes for slot in made.storage.kept) <= 32 << 20


# --- in an engine -----------------------------------------------------------------------------------------------------


def entry_program(device: poot.Device, rows: int) -> Program:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[rows, 40]), b.constant("w", f32[96, 40])
    return plan(b.finish(ops.matmul(x, w.T)), device.target)


def test_entries_share_what_was_made_of_weights(device: poot.Device, fills: list[int]) -> None:
    engine = poot.Engine(device)
    exe = engine.load_weights(poot.WeightStore.from_arrays({"w": W}))
    before = engine.stats.allocated_bytes
    entries = [engine.add_entry(exe, entry_program(device, rows)) for rows in (70, 70)]
    assert fills == [len(entries[0].program.storage.kept)]
    for _ in range(3):
        for entry in entries:
            close(engine.step(exe, entry, poot.StepInputs().push("x", X)).read(), X @ W.T)
    for entry in entries:
        engine.remove_entry(entry)
    assert engine.stats.allocated_bytes == before and not exe.kept
    engine.unload(exe)
    assert engine.stats.allocated_bytes == 0


def test_a_prologue_that_fails_leaves_nothing_behind(device: poot.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = poot.Engine(device)
    exe = engine.load_weights(poot.WeightStore.from_arrays({"w": W}))
    before = engine.stats.allocated_bytes

    def broken(*_: Any) -> None:
        raise RuntimeError("no prologue today")

    made = entry_program(device, 70)
    if not made.prologue:
        return
    with monkeypatch.context() as patch:
        patch.setattr(Prologue, "fill", broken)
        with pytest.raises(RuntimeError, match="no prologue today"):
            engine.add_entry(exe, made)
    assert engine.stats.allocated_bytes == before and not exe.kept
    close(engine.step(exe, engine.add_entry(exe, made), poot.StepInputs().push("x", X)).read(), X @ W.T)


def test_an_engine_refuses_stable_inputs() -> None:
    device = poot.device("cpu")
    b = Builder(LIMITS)
    graph = b.finish(ops.matmul(b.input("x", f32[70, 40]), b.input("w", f32[96, 40]).T))
    engine = poot.Engine(device)
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    with pytest.raises(EngineError, match="takes input 'w' for the same at every step"):
        engine.add_entry(exe, plan(graph, device.target, CompileOptions(stable=frozenset({"w"}))))


# --- in jit-style calls -----------------------------------------------------------------------------------------------


def test_captured_arrays_are_constants(device: poot.Device, fills: list[int]) -> None:
    f = linear(poot.asarray(W, device=device))
    for n in range(4):
        close(f(X + n), (X + n) @ W.T)
    assert len(fills) <= 1


def test_numpy_arrays_may_change_at_any_time(fills: list[int]) -> None:
    w = W.copy()
    f = linear(w)
    for n in range(3):
        w[:] = W + n
        close(f(X), X @ w.T)
    assert not fills


def test_shared_memory_may_change_at_any_time(fills: list[int]) -> None:
    w = W.copy()
    f = linear(poot.asarray(w, copy=False, device="cpu"))
    for n in range(3):
        w[:] = W + n
        close(f(X), X @ w.T)
    assert not fills


def test_an_array_that_is_replaced() -> None:
    holder = {"w": poot.asarray(W)}

    @poot.trace
    def f(x: Any) -> Any:
        return x @ holder["w"].T

    close(f(X), X @ W.T)
    close(f(X), X @ W.T)
    holder["w"] = poot.asarray(W * 2)
    close(f(X), X @ (W * 2).T)
    holder["w"] = poot.asarray(W)
    close(f(X), X @ W.T)


def test_containers_of_arrays() -> None:
    """Calls go the short way, and see whatever is put elsewhere."""
    params: dict[str, Any] = {"layers": [{"w": poot.asarray(W[:40])}, {"w": poot.asarray(W[40:80])}], "scale": 1.0}

    @poot.trace
    def f(x: Any) -> Any:
        for p in params["layers"]:
            x = x @ p["w"].T * params["scale"]
        return x

    def expected(*weights: Any, scale: float = 1.0) -> Any:
        x = X.astype(np.float64)
        for w in weights:
            x = x @ w.T * scale
        return x

    def both(wanted: Any) -> None:
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(f(X)), wanted, rtol=1e-4, atol=1e-3)

    both(expected(W[:40], W[40:80]))
    params["layers"][1]["w"] = poot.asarray(W[50:90])
    both(expected(W[:40], W[50:90]))
    params["layers"].append({"w": poot.asarray(W[10:50])})
    both(expected(W[:40], W[50:90], W[10:50]))
    params["layers"].reverse()
    both(expected(W[10:50], W[50:90], W[:40]))
    params["scale"] = 0.5
    both(expected(W[10:50], W[50:90], W[:40], scale=0.5))
    params["layers"] = params["layers"][:1]
    both(expected(W[10:50], scale=0.5))


@poot.kernel
def bump(w: poot.InOut[poot.f32]) -> None:
    i = poot.thread_index()
    w[i] += 1.0


def test_a_kernel_that_writes_into_a_captured_array() -> None:
    w = poot.asarray(W.reshape(-1))

    @poot.trace
    def f(x: Any) -> Any:
        return x @ ops.reshape(w, (96, 40)).T

    for n in range(4):
        for _ in range(2):
            close(f(X), X @ (W + n).T)
        bump(w, threads=w.shape[0])
    bump.interpret(w, threads=w.shape[0])
    close(f(X), X @ (W + 5).T)


def test_functions_with_the_same_code_keep_their_own(fills: list[int]) -> None:
    made = [(linear(poot.asarray(W + n)), W + n) for n in range(6)]
    for _ in range(3):
        for f, w in made:
            close(f(X), X @ w.T)
    assert len(fills) == 6


def test_shapes_share_packed_copies(fills: list[int]) -> None:
    f = linear(poot.asarray(W))
    for rows in (70, 60, 50):
        for _ in range(2):
            close(f(X[:rows]), X[:rows] @ W.T)
    assert sum(fills) <= 3


def test_memory_goes_with_the_array() -> None:
    from poot.api.constants import _tracked

    w = poot.asarray(W)
    f = linear(w)
    f(X)
    f(X)
    memory, contents = weakref.ref(w.memory), weakref.ref(_tracked.arrays[w.memory])
    assert contents().made
    del f, w
    gc.collect()
    assert memory() is None and contents() is None


def test_donated_constants() -> None:
    w = poot.asarray(W)
    f = linear(w)
    f(X)
    f(X)

    @poot.trace(donate="a")
    def spend(a: Any) -> Any:
        return a + 1.0

    spend(w)
    with pytest.raises(EngineError, match="was donated"):
        f(X)


def test_eight_threads() -> None:
    w = poot.asarray(W)
    f, g = linear(w), linear(poot.asarray(W * 3))
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(20):
                close(f(X + n), (X + n) @ W.T)
                close(g(X), X @ (W * 3).T)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_what_depends_on_nothing_is_made_once_a_program(fills: list[int]) -> None:
    @poot.trace
    def turn(x: Any) -> Any:
        angles = ops.arange(64, dtype=f32)[:, None] * 0.01 ** (ops.arange(8, dtype=f32) / 8)
        return x * ops.cos(angles) + ops.sin(angles)

    x = np.ones((5, 64, 8), np.float32)
    for _ in range(4):
        close(turn(x), turn.evaluate(x))
    assert len(fills) <= 1
