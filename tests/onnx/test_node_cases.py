"""ONNX's own test cases of its operators (`onnx.backend.test.case.node`), written with `ops`, on every device.

A case passes if every output has the dtype and shape that ONNX expects, and its values within ONNX's tolerances.  The
quick suite runs a few operators; everything that `left_out` does not name runs under the marker `slow`.
"""

from __future__ import annotations

import functools
import importlib
import warnings
import zlib
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.executor import Engine, StepInputs
from poot.backends.weights import WeightStore
from tests.onnx import model, operators
from tests.onnx.left_out import LEFT_OUT, reason

assert operators.__all__  # the import registers them

OPTIONS = poot.CompileOptions(poot.CompileLimits.STANDARD)
PACKAGE = "onnx.backend.test.case.node"

#: Modules of cases for the quick suite, which imports no others, and how many cases of each.
QUICK = ("conv", "cumsum", "gru", "layernormalization", "qlinearmatmul", "resize", "rotaryembedding", "slice", "topk")
EACH = 3

#: The slow suite's cases are cut into parts by their names, so that processes share them.
PARTS = 24

#: How many cases are run, of them those of a single node, and all there are.
RUN, SINGLE, ALL = 1569, 1166, 1884


@functools.cache
def all_cases() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(importlib.import_module(PACKAGE).collect_testcases())


@functools.cache
def quick_cases() -> tuple[Any, ...]:
    """The first cases of some operators, without the others, whose collection takes a quarter of a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = importlib.import_module(PACKAGE)
        for name in QUICK:
            importlib.import_module(f"{PACKAGE}.{name}")
    found: dict[str, list[Any]] = {}
    for case in package._NodeTestCases:
        if reason(case.name) is None:
            found.setdefault(case.model.graph.node[0].op_type, []).append(case)
    wanted = [kind for kind in found if kind.lower() in QUICK]
    assert len(wanted) == len(QUICK), wanted
    return tuple(case for kind in wanted for case in found[kind][:EACH])


def run(case: Any, device: Any) -> None:
    for inputs, outputs in case.data_sets:
        graph, bindings = model.record(case.model, inputs)
        engine = Engine(device)
        exe = engine.load_weights(WeightStore.from_arrays({}))
        entry = engine.add_entry(exe, poot.compile(graph, device.target, OPTIONS))
        step = StepInputs()
        for name, array in bindings.items():
            step.push(name, array)
        found = engine.step(exe, entry, step).read()
        engine.unload(exe)
        for actual, wanted in zip(found, outputs, strict=True):
            check(np.asarray(actual), model.array_of(wanted), case)


def check(actual: np.ndarray, expected: np.ndarray, case: Any) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
    else:
        wide = actual.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=case.rtol, atol=case.atol)


def failures(cases: Any, device: Any) -> list[str]:
    """What went wrong, one line a case."""
    found: list[str] = []
    for case in cases:
        try:
            run(case, device)
        except Exception as error:
            found.append(f"{case.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return found


@pytest.mark.slow_on("opencl", "wgpu")
def test_some_operators(device: Any) -> None:
    assert failures(quick_cases(), device) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_that_is_not_left_out(part: int, device: Any) -> None:
    cases = [case for case in all_cases() if reason(case.name) is None]
    mine = [case for case in cases if zlib.crc32(case.name.encode()) % PARTS == part]
    assert mine
    assert failures(mine, device) == []


@pytest.mark.slow
def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    names = [case.name for case in all_cases()]
    kept = [case for case in all_cases() if reason(case.name) is None]
    assert len(set(names)) == len(names) == ALL
    assert len(kept) == RUN
    assert sum(len(case.model.graph.node) == 1 for case in kept) == SINGLE >= 350


@pytest.mark.slow
def test_every_pattern_names_a_case_of_its_own() -> None:
    names = [case.name for case in all_cases()]
    for pattern in LEFT_OUT:
        mine = {name for name in names if fnmatchcase(name, pattern)}
        others = {name for name in mine for other in LEFT_OUT if other != pattern and fnmatchcase(name, other)}
        assert mine - others, pattern
