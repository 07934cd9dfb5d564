"""Quotients and square roots of f32, bit for bit.

On wgpu it is those of poot/kernel/render/wgsl_division.py, which devices get whose own are not rounded correctly.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from poot.backends.device import BufferView, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import f32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import FAULT_WORDS
from tests.device_runs import assert_same

COUNT = 1 << 18


def numbers(seed: int) -> np.ndarray:
    """Numbers of every size, subnormal ones among them, with few and with many digits."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    bits[: COUNT // 4] &= np.uint32(0x807FFFFF)
    bits[COUNT // 8 : COUNT // 2] &= random.choice(
        np.array([0xFF800000, 0xFFF00000, 0xFFFFFF00], np.uint32), COUNT * 3 // 8
    )
    return bits.view(np.float32)


def special() -> np.ndarray:
    tiny = np.finfo(np.float32).tiny
    found = [
        0.0,
        1.0,
        1.5,
        3.0,
        tiny,
        tiny * 0.999,
        2.0**-149,
        3 * 2.0**-149,
        2.0**127,
        3.4028235e38,
        1e38,
        2.0**24 - 1,
        np.inf,
    ]
    return np.array([*found, *(-x for x in found), np.nan], np.float32)


def computed(device_name: str, name: str, *operands: np.ndarray) -> np.ndarray:
    """On a device; one of WebGPU is taken to lack correct division."""
    device = open_device(device_name)
    count = operands[0].size
    k = KernelBuilder(name, workgroup=(64, 1, 1), threads=(count, 1, 1))
    i = k.let(k.index("thread", 0), "i")
    values = [k.load(k.buffer(f"x{n}", f32, "read", (count,)), (i,)) for n in range(len(operands))]
    k.store(k.buffer("out", f32, "write", (count,)), (i,), k.op(name, *values))
    target = device.target
    if target.backend == "wgpu":
        target = replace(target, features=target.features - {"correct_division"})
    compiled = compile_kernel(k.finish(), target)
    arrays = [*operands, np.zeros(count, np.float32), np.zeros(FAULT_WORDS, np.int32)]
    views = [BufferView(device.allocate(array.nbytes)) for array in arrays]
    for view, array in zip(views, arrays, strict=True):
        device.write(view, array)
    launch = LaunchSpec(device.load(compiled), tuple((n, 0) for n in range(len(arrays) - 1)), (-(-count // 64), 1, 1))
    device.record([launch], views, (), (), len(arrays) - 1)
    device.read(views[-2], arrays[-2])
    for view in views:
        device.free(view.buffer)
    return arrays[-2]


@pytest.mark.parametrize("seed", range(3))
def test_quotients(device_name: str, seed: int) -> None:
    pairs = np.array(list(itertools.product(special(), repeat=2)), np.float32)
    a = np.concatenate([pairs[:, 0], numbers(2 * seed)])
    b = np.concatenate([pairs[:, 1], numbers(2 * seed + 1)])
    with np.errstate(all="ignore"):
        assert_same(computed(device_name, "div", a, b), a / b, "quotient")


@pytest.mark.parametrize("seed", range(3))
def test_square_roots(device_name: str, seed: int) -> None:
    a = np.concatenate([special(), np.abs(numbers(seed))])
    with np.errstate(all="ignore"):
        assert_same(computed(device_name, "sqrt", a), np.sqrt(a), "square root")
