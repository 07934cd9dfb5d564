"""Traced functions and engines on CUDA in both languages, against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore, f32, ops
from poot.backends.device import DeviceBackend
from poot.errors import IndexFault

RNG = np.random.default_rng(0)


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "map": (lambda x, y: ops.tanh(x) * y + ops.exp(-x), (rand(33, 65), rand(33, 65))),
    "broadcast": (lambda x, y: x + y, (rand(7, 1, 5), rand(3, 1))),
    "softmax": (lambda x: ops.nn.softmax(x), (rand(9, 1000),)),
    "rmsnorm": (lambda x, w: ops.nn.rmsnorm(x, w, eps=1e-6), (rand(5, 384), rand(384))),
    "sum": (lambda x: ops.sum(x, axis=0), (rand(300, 17),)),
    "all": (lambda x: ops.sum(x), (rand(1000, 100),)),
    "argmax": (lambda x: ops.argmax(x, axis=-1), (rand(40, 77),)),
    "matmul": (lambda x, y: x @ y, (rand(65, 130), rand(130, 33))),
    "gemv": (lambda x, y: x @ y, (rand(1, 512), rand(512, 700))),
    "batched": (lambda x, y: x @ y, (rand(3, 16, 24), rand(3, 24, 8))),
    "cumsum": (lambda x: ops.cumulative_sum(x, axis=-1), (rand(6, 300),)),
    "sort": (lambda x: ops.sort(x, axis=-1), (rand(4, 100),)),
    "where": (lambda x: ops.where(x > 0, x, 0.0), (rand(1000),)),
    "transpose": (lambda x: ops.permute_dims(x, (1, 0)) * 2.0, (rand(37, 50),)),
    "empty": (lambda x: x + 1.0, (rand(0, 5),)),
    "scalar": (lambda x: ops.sqrt(ops.abs(x)), (rand(),)),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(cuda: DeviceBackend, name: str) -> None:
    function, arguments = CASES[name]
    function.__name__ = function.__qualname__ = name
    device = poot.device("cuda", language=cuda.target.languages[0])
    traced = poot.trace(function, device=device)
    expected = traced.evaluate(*arguments)
    for _ in range(2):
        actual = np.asarray(traced(*arguments))
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if actual.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
        else:
            assert np.array_equal(actual, expected)


def test_engines_replay_and_keep_state(cuda: DeviceBackend) -> None:
    b = Builder(TraceLimits.STANDARD, name="accumulate")
    w, x, total = b.constant("w", f32[64]), b.input("x", f32[64]), b.state("total", f32[64])
    new = total + w * x
    graph = b.finish({"total": new}, updates={"total": new})
    engine = Engine(cuda)
    weights = np.arange(64, dtype=np.float32)
    exe = engine.load_weights(WeightStore.from_arrays({"w": weights}))
    entry = engine.add_entry(exe, poot.compile(graph, cuda.target, poot.CompileOptions(poot.CompileLimits.STANDARD)))
    for turn in range(1, 6):
        out = engine.step(exe, entry, StepInputs().push("x", np.ones(64, np.float32))).read()
        assert np.array_equal(out["total"], weights * turn)
    assert engine.stats.records == 1 and engine.stats.replays == 4
    assert np.array_equal(np.asarray(exe.state["total"]), weights * 5)
    engine.remove_entry(entry)
    engine.unload(exe)


def test_a_faulted_step_keeps_state(cuda: DeviceBackend) -> None:
    b = Builder(TraceLimits.STANDARD, name="lookup")
    table, index, count = b.constant("w", f32[8]), b.input("index", poot.i32[2]), b.state("count", f32[8])
    graph = b.finish(table[index], updates={"count": count + 1.0})
    engine = Engine(cuda)
    exe = engine.load_weights(WeightStore.from_arrays({"w": np.arange(8, dtype=np.float32)}))
    entry = engine.add_entry(exe, poot.compile(graph, cuda.target, poot.CompileOptions(poot.CompileLimits.STANDARD)))
    for numbers, fails in (([1, 2], False), ([1, 8], True), ([7, 0], False)):
        pushed = StepInputs().push("index", np.array(numbers, np.int32))
        if fails:
            with pytest.raises(IndexFault):
                engine.step(exe, entry, pushed)
        else:
            assert np.array_equal(engine.step(exe, entry, pushed).read(), np.float32(numbers))
    assert np.array_equal(np.asarray(exe.state["count"]), np.full(8, 2, np.float32))


def test_a_large_map(cuda: DeviceBackend) -> None:
    """More elements than 65,535 groups of 256 threads hold."""
    x = np.arange(52_428_800, dtype=np.float32)
    device = poot.device("cuda", language=cuda.target.languages[0])
    traced = poot.trace(lambda x: x * 2.0 + 1.0, device=device)
    actual = np.asarray(traced(x))
    assert np.array_equal(actual[::100_003], x[::100_003] * 2 + 1) and actual[-1] == x[-1] * 2 + 1
