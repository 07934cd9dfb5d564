"""Attention written at random: it is one streaming kernel, whatever the form, and gives what the oracle gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

import poot
from poot.trace.evaluate import evaluate
from tests.attention_cases import stream_anything
from tests.plan_support import compare
from tests.random_attention import Form

#: Many small functions share the line that calls them; infinite scores are part of it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

#: Forms a device: of the quick run, and of --full.
COUNTS = {"cpu": (24, 2000), "interpret": (12, 400)}


def check(seed: int, device: str, numerics: Literal["fused", "strict"] = "fused") -> None:
    form = Form.of(seed)
    arrays = form.arrays(seed)
    if form.wide and "f64" not in map(str, poot.device(device).target.dtypes):
        return
    traced = poot.trace(device=device, numerics=numerics)(form.function())
    program = traced.program(*arrays.values())
    names = [launch.kernel for launch in program.report().launches]
    streamed = form.streams and numerics == "fused"
    assert names.count("attention") == streamed, (seed, form, program.report())
    bindings = {variable.name: arrays[variable.name] for variable in program.graph.inputs}
    try:
        compare(np.asarray(traced(*arrays.values())), evaluate(program.graph, {**bindings}).output, exact=False)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {form}, {names}: {error}") from None


@pytest.mark.fuzz
def test_it_streams_and_agrees(
    device_name: str, cases: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --full 2,000 forms on the CPU, 400 in the interpreter and 40 on other devices; here 24, 12 and 3."""
    stream_anything(monkeypatch)
    for seed in range(cases(*COUNTS.get(device_name, (3, 40)))):
        check(seed, device_name)


def test_strict_programs_stream_nothing_and_agree(cases: Callable[[int, int], int]) -> None:
    for seed in range(10_000, 10_000 + cases(6, 200)):
        check(seed, "cpu", "strict")
