"""Random kernels: the interpreter against one thread at a time, and simplified kernels against unsimplified ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.kernel.check import check
from poot.kernel.expand import expand_kernel
from poot.kernel.faults import new_record
from poot.kernel.interpret import bind, run
from poot.kernel.ir import Kernel
from poot.kernel.simplify import simplify
from tests.kernel_reference import run_reference
from tests.random_kernels import RandomKernel


def interpret(made: RandomKernel, kernel: Kernel) -> tuple[dict[str, Any], list[int]]:
    values, record = made.values(), new_record()
    run(kernel, bind(kernel, values, threads=made.bound), groups=made.groups, fault=record)
    return values, [int(record[0]), *record[3:].tolist()]


def assert_same(a: dict[str, Any], b: dict[str, Any], seed: int) -> None:
    for name, array in a.items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(array, b[name], err_msg=f"{name}, seed {seed}")
            zeros = array == 0
            assert (np.signbit(array[zeros]) == np.signbit(b[name][zeros])).all(), f"{name}, seed {seed}: signed zeros"


@pytest.mark.fuzz
def test_the_interpreter_runs_threads_as_each_alone_would(cases: Callable[[int, int], int]) -> None:
    for seed in range(cases(150, 2000)):
        made = RandomKernel(seed, racy=False)
        check(made.kernel)
        values, fault = interpret(made, made.kernel)
        expected = made.values()
        faults = run_reference(made.kernel, expected, made.groups, made.threads)
        assert_same(values, expected, seed)
        assert bool(faults) == bool(fault[0]), f"seed {seed}"


@pytest.mark.fuzz
@pytest.mark.parametrize("racy", [False, True])
def test_simplified_kernels_do_the_same(cases: Callable[[int, int], int], racy: bool) -> None:
    for seed in range(cases(150, 2000)):
        made = RandomKernel(seed, racy=racy)
        plain = expand_kernel(made.kernel)
        simple = simplify(plain)
        check(simple)
        values, fault = interpret(made, plain)
        again, same_fault = interpret(made, simple)
        assert_same(values, again, seed)
        assert fault == same_fault, f"seed {seed}"
