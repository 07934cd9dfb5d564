"""Streaming attention on every device against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import poot
from poot import ops
from poot.trace.evaluate import evaluate
from tests.attention_cases import CASES, causal, normal, stream_anything
from tests.plan_support import compare

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")


FIRST = ["causal", "everything", "no key, finite", "grouped, bf16"]


def agrees(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream_anything(monkeypatch)
    function, arrays = CASES[name]
    traced = poot.trace(device=device)(function)
    program = traced.program(*arrays)
    assert "attention" in [program.kernels[launch.kernel].name for launch in program.launches]
    named = dict(zip(function.__code__.co_varnames, arrays, strict=False))
    with np.errstate(all="ignore"):
        expected = evaluate(program.graph, {each.name: named[each.name] for each in program.graph.inputs}).output
    compare(np.asarray(traced(*arrays)), expected, exact=False)


@pytest.mark.parametrize("name", FIRST)
def test_every_device_agrees_with_the_oracle(name: str, device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(name, device_name, monkeypatch)


@pytest.mark.slow_on("interpret", "opencl", "wgpu")
@pytest.mark.parametrize("name", [name for name in CASES if name not in FIRST])
def test_so_it_does_for_all_else(name: str, device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(name, device_name, monkeypatch)


def test_long_rows_on_the_cpu() -> None:
    arrays = normal(3, 400, 40), normal(3, 650, 40), normal(3, 650, 24)
    traced = poot.trace(device="cpu")(causal)
    graph = traced.program(*arrays).graph
    expected = evaluate(graph, dict(zip("qkv", arrays, strict=True))).output
    compare(np.asarray(traced(*arrays)), expected, exact=False)


@pytest.mark.parametrize("shape", [(128, 32), (2, 128, 32), (2, 4, 128, 32), (2, 4, 128, 64), (64, 64)], ids=str)
def test_keys_that_are_values_too(shape: tuple[int, ...], device_name: str) -> None:
    """Fewer arrays, so other registers: a frame of several pages must not cost one that is in use."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    for function in (
        lambda q, k: ops.nn.softmax(q @ k.mT) @ k,
        lambda q, k: ops.nn.softmax(k @ k.mT * 0.1) @ k + q * 0,
    ):
        wanted = poot.trace(function).evaluate(q, k)
        np.testing.assert_allclose(np.asarray(poot.trace(function, device=device_name)(q, k)), wanted, atol=2e-4)
