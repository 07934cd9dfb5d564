"""Quotients and square roots of f32 and f64, bit for bit.

On wgpu it is those of poot/kernel/render/wgsl_division.py, which devices get whose own are not rounded correctly.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from poot.backends.device import BufferView, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import DType, as_dtype, f32, f64
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import FAULT_WORDS
from tests.device_runs import assert_same

COUNT = 1 << 18


def numbers(dtype: DType, seed: int) -> np.ndarray:
    """Numbers of every size, subnormal ones among them, with few and with many digits."""
    random = np.random.default_rng(seed)
    wide = dtype is f64
    unsigned, digits = (np.uint64, 52) if wide else (np.uint32, 23)
    bits = random.integers(0, 1 << dtype.bits, COUNT, dtype=unsigned)
    bits[: COUNT // 4] &= unsigned(1 << (dtype.bits - 1) | ((1 << digits) - 1))
    kept = np.array([digits, digits - 3, digits * 3 // 4, digits // 2, 8], unsigned)
    bits[COUNT // 8 : COUNT // 2] &= ~unsigned(0) << random.choice(kept, COUNT * 3 // 8)
    return bits.view(dtype.dtype)


def special(dtype: DType) -> np.ndarray:
    info = np.finfo(dtype.dtype)
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    digits = 2.0 ** (info.nmant + 1) - 1
    found = [0.0, 1.0, 1.5, 3.0, tiny, tiny * 0.999, tiny * 3, least, 3 * least, most, most / 3, digits, np.inf]
    found += [1.0 + float(info.eps), 1.0 - float(info.epsneg), 0.1, 2.0**info.nmant, float(2.0 ** (info.maxexp - 1))]
    return np.array([*found, *(-x for x in found), np.nan], dtype.dtype)


def halfway(dtype: DType, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose quotients lie in the middle between two subnormal numbers, and next to it."""
    random = np.random.default_rng(seed)
    info = np.finfo(dtype.dtype)
    odd = 2 * random.integers(0, 1 << 20, COUNT // 8) + 1
    b = np.ldexp(1.0, random.integers(1, info.nmant, odd.size)) * random.choice([1.0, -1.0, 3.0], odd.size)
    a = odd.astype(np.float64) * (b / 2).astype(np.float64) + random.integers(-1, 2, odd.size)
    return (a.astype(dtype.dtype) * info.smallest_subnormal).astype(dtype.dtype), b.astype(dtype.dtype)


def computed(device_name: str, name: str, *operands: np.ndarray) -> np.ndarray:
    """On a device; one of WebGPU is taken to lack correct division."""
    device = open_device(device_name)
    count, dtype = operands[0].size, as_dtype(operands[0].dtype)
    k = KernelBuilder(name, workgroup=(64, 1, 1), threads=(count, 1, 1))
    i = k.let(k.index("thread", 0), "i")
    values = [k.load(k.buffer(f"x{n}", dtype, "read", (count,)), (i,)) for n in range(len(operands))]
    k.store(k.buffer("out", dtype, "write", (count,)), (i,), k.op(name, *values))
    target = device.target
    if target.backend == "wgpu":
        target = replace(target, features=target.features - {"correct_division"})
    compiled = compile_kernel(k.finish(), target)
    arrays = [*operands, np.zeros(count, dtype.dtype), np.zeros(FAULT_WORDS, np.int32)]
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
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_quotients(device_name: str, dtype: DType, seed: int) -> None:
    pairs = np.array(list(itertools.product(special(dtype), repeat=2)), dtype.dtype)
    between = halfway(dtype, seed)
    a = np.concatenate([pairs[:, 0], between[0], numbers(dtype, 2 * seed)])
    b = np.concatenate([pairs[:, 1], between[1], numbers(dtype, 2 * seed + 1)])
    with np.errstate(all="ignore"):
        assert_same(computed(device_name, "div", a, b), a / b, "quotient")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_square_roots(device_name: str, dtype: DType, seed: int) -> None:
    random = np.random.default_rng(seed)
    whole = random.integers(1, 1 << (11 if dtype is f32 else 26), COUNT // 8).astype(dtype.dtype)
    squares = np.concatenate([np.nextafter(whole * whole, each, dtype=dtype.dtype) for each in (0, np.inf)])
    a = np.concatenate([special(dtype), whole * whole, squares, np.abs(numbers(dtype, seed))])
    with np.errstate(all="ignore"):
        assert_same(computed(device_name, "sqrt", a), np.sqrt(a), "square root")
