"""Every primitive with every dtype of its entry on every device, against the oracle.

Each case is a program of one equation, through the planner, the renderer and the device; values are drawn from a fixed
seed and hold the specials of their dtype. How close is close enough stands in the entry's numerics class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.executor import Engine, StepInputs
from poot.backends.weights import WeightStore
from poot.errors import IndexFault
from poot.trace.evaluate import evaluate
from poot.trace.primitives import HostControl
from tests.closeness import PRODUCTS, modest, near
from tests.primitive_cases import Case, by_dtype, case_graph, sample

GROUPS = {name: group for name, group in by_dtype() if group and not isinstance(group[0].primitive.lower, HostControl)}
COMMON = [name for name in GROUPS if name.rpartition("-")[2] in ("f32", "i32", "bool")]
OPTIONS = poot.CompileOptions(poot.CompileLimits.STANDARD)


def on_device(case: Case, arrays: list[np.ndarray], device: Any) -> tuple[np.ndarray, ...]:
    """The results of a case's one equation as the device computes them."""
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, poot.compile(case_graph(case), device.target, OPTIONS))
    inputs = StepInputs()
    for number, array in enumerate(arrays):
        inputs.push(f"a{number}", array)
    results = engine.step(exe, entry, inputs).read()
    engine.unload(exe)
    return results


def check(name: str, device: Any, cases: list[Case]) -> None:
    """Compare every case that the device has the dtypes for."""
    rng = np.random.default_rng(list(name.encode()))
    for case in cases:
        graph = case_graph(case)
        if not {variable.spec.dtype for variable in graph.inputs} <= device.target.dtypes:
            continue
        arrays = sample(case, rng)
        if case.primitive.name in PRODUCTS:
            arrays = [modest(array) for array in arrays]
        named = {f"a{number}": array for number, array in enumerate(arrays)}
        try:
            expected = evaluate(graph, named).output
        except IndexFault:
            with pytest.raises(IndexFault):
                on_device(case, arrays, device)
            continue
        found = on_device(case, arrays, device)
        for number, (actual, oracle) in enumerate(zip(found, expected, strict=True)):
            assert (actual.dtype, actual.shape) == (oracle.dtype, oracle.shape)
            assert np.all(near(graph, arrays, actual, oracle, number, device.target)), (case, arrays, actual, oracle)


def some(name: str, count: int) -> list[Case]:
    """So many cases of a group, from a place that depends on its name."""
    group = GROUPS[name]
    first = sum(name.encode()) % len(group)
    return [*group[first:], *group[:first]][:count]


@pytest.mark.fuzz
@pytest.mark.parametrize("name", COMMON)
def test_a_device_equals_the_oracle(name: str, device: Any, cases: Callable[[int, int], int]) -> None:
    """One case of each group; with --full, all of them."""
    check(name, device, some(name, cases(1, len(GROUPS[name]))))


@pytest.mark.fuzz
@pytest.mark.slow_on("opencl", "wgpu")
@pytest.mark.parametrize("name", [name for name in GROUPS if name not in COMMON])
def test_other_dtypes(name: str, device: Any, cases: Callable[[int, int], int]) -> None:
    check(name, device, some(name, cases(1, len(GROUPS[name]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_every_case_on_cpu(name: str) -> None:
    check(name, poot.device("cpu"), GROUPS[name])
