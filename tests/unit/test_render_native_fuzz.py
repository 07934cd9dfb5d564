"""Random kernels: native code against the interpreter, bit for bit."""

import copy
from collections.abc import Callable

import numpy as np
import pytest

from poot.errors import KernelCheckError
from poot.kernel.check import check
from poot.kernel.interpret import bind
from poot.kernel.interpret import run as interpret
from tests.unit.native_fuzz import Generator
from tests.unit.native_kernels import Compiled

LANES = (None, None, 1, 32, 16)


def agree(seed: int) -> bool:
    """Run one random kernel both ways; False where the generator made one that is not valid."""
    generator = Generator(seed)
    kernel = generator.kernel()
    try:
        check(kernel)
    except KernelCheckError:
        return False
    arguments = generator.arguments()
    expected = copy.deepcopy(arguments)
    fault = np.zeros(8, np.int32)
    given = zip(generator.threads or (), kernel.threads or (), strict=True)
    threads = [count for count, baked in given if baked is None]
    with np.errstate(all="ignore"):
        interpret(kernel, bind(kernel, expected, threads=threads), groups=generator.groups, fault=fault)
    compiled = Compiled(kernel, vector_lanes=LANES[seed % len(LANES)])
    split = [int(np.prod(generator.groups)) // 2] if seed % 2 else []
    compiled(
        *(arguments[p.name] for p in kernel.params), threads=generator.threads, groups=generator.groups, split=split
    )
    for name, actual in arguments.items():
        wanted = expected[name]
        if isinstance(actual, np.ndarray) and isinstance(wanted, np.ndarray):
            bits = f"u{actual.itemsize}"
            same = actual.view(bits) == wanted.view(bits)
            if actual.dtype.kind == "f":
                same |= np.isnan(actual) & np.isnan(wanted)
            assert same.all(), f"seed {seed}: {name} at {np.flatnonzero(~same)[:5]}"
    assert bool(fault[0]) == bool(compiled.fault[0]), f"seed {seed}: fault"
    return True


@pytest.mark.fuzz
def test_random_kernels(cases: Callable[[int, int], int]) -> None:
    count = cases(40, 5000)
    assert sum(agree(seed) for seed in range(count)) > count * 0.9
