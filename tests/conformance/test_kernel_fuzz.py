"""Random kernels on every device, bit for bit against the interpreter: integers at their edges, dyadic floats, nested
flow, faults; IR of single threads, IR of work-groups, and functions of the language from their source.

A tenth of each family runs in the quick suite; CI runs 100 kernels of each on each device, `--full` 2,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.device import open_device
from poot.dtypes import INTEGERS, i64
from poot.errors import KernelCheckError, KernelFault
from poot.kernel.check import check
from tests.device_runs import agree, assert_same, supported
from tests.errors.kernel_source import module
from tests.random_functions import Function
from tests.random_kernels import RandomKernel
from tests.unit.native_fuzz import Generator

Cases = Callable[[int, int], int]

PARTS = 10

#: Seeds that were wrong once on some device: in every run.
FOUND = {
    "kernels": (1261,),
    "groups": (510, 552, 602, 994, 1801),
    "functions": (32, 275, 363, 580, 589, 709, 981, 1089, 1294, 1796, 1851, 1917),
}
in_parts = pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)


def seeds(family: str, part: int, cases: Cases) -> list[int]:
    """Every PARTS-th seed, from `part` on; the first part has those that were wrong too."""
    plain = range(part, cases(100, 2000), PARTS)
    return [*plain, *(seed for seed in FOUND[family] if not part and seed not in plain)]


@pytest.mark.fuzz
@in_parts
def test_random_kernels(device_name: str, part: int, cases: Cases) -> None:
    for seed in seeds("kernels", part, cases):
        made = RandomKernel(seed, racy=False)
        agree(device_name, made.kernel, made.values(), groups=made.groups, threads=made.bound, record=False)


@pytest.mark.fuzz
@in_parts
def test_random_groups(device_name: str, part: int, cases: Cases) -> None:
    for seed in seeds("groups", part, cases):
        made = Generator(seed)
        kernel = made.kernel()
        try:
            check(kernel)
        except KernelCheckError:
            continue
        if kernel.index_dtype is i64 and not supported(device_name, i64):
            continue
        given = zip(made.threads or (), kernel.threads or (), strict=True)
        threads = [count for count, baked in given if baked is None]
        agree(device_name, kernel, made.arguments(), groups=made.groups, threads=threads, record=False)


@pytest.mark.fuzz
@in_parts
def test_random_functions(device_name: str, part: int, cases: Cases) -> None:
    has = open_device(device_name).target.dtypes
    dtypes = [dtype for dtype in INTEGERS if dtype in has]
    for seed in seeds("functions", part, cases):
        function = Function(seed, dtypes)
        kernel = module(function.text)["k"]
        found, wanted = (outcome(kernel, function, name) for name in (device_name, "interpret"))
        assert found[0] == wanted[0], f"seed {seed}: faulted: {found[0]}\n{function.text}"
        for (name, actual), (_, expected) in zip(found[1], wanted[1], strict=True):
            assert_same(actual, expected, f"seed {seed}: {name}\n{function.text}")


def outcome(kernel: Any, function: Function, device: str) -> tuple[bool, list[tuple[str, np.ndarray]]]:
    """Whether a launch faulted, and its arrays by name."""
    arguments = function.arguments()
    faulted = False
    try:
        kernel(*arguments, **function.options, device=poot.device(device))
    except KernelFault:
        faulted = True
    names = kernel.definition.source.function.__annotations__
    return faulted, [(n, a) for n, a in zip(names, arguments, strict=True) if isinstance(a, np.ndarray)]
