"""Every kernel that ships, on every device, against NumPy: random values at plain and awkward sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poot.api import library
from poot.api.devices import Device
from tests.closeness import KERNELS

Array = np.ndarray[Any, Any]

LENGTHS = [1, 31, 256, 1000, 4097]
FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16]


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def groups(count: int, size: int) -> int:
    return -(-count // size)


def close(actual: Array, wanted: Array, scale: float = 1.0) -> None:
    bound = KERNELS[actual.dtype.name] * scale
    np.testing.assert_allclose(actual.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound)


# --- elementwise ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float16])
@pytest.mark.parametrize("n", LENGTHS)
def test_add(device: Device, n: int, dtype: Any) -> None:
    a, b = (np.random.default_rng(seed).integers(0, 255, n).astype(dtype) for seed in (1, 2))
    c = np.zeros(n, dtype)
    library.add(a, b, c, threads=n, device=device)
    np.testing.assert_array_equal(c, a + b)


def test_add_to_strided_and_reversed_arrays(device: Device) -> None:
    a, b = normal(64)[::-1], normal(128, seed=1)[::2]
    c = np.full((64, 3), 7, np.float32)
    library.add(a, b, c[:, 1], threads=64, device=device)
    np.testing.assert_array_equal(c[:, 1], a + b)
    assert (c[:, [0, 2]] == 7).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_saxpy(device: Device, n: int) -> None:
    x, y = normal(n), normal(n, seed=1)
    wanted = np.float32(0.5) * x + y
    library.saxpy(0.5, x, y, threads=n, device=device)
    close(y, wanted)


def test_mandelbrot(device: Device) -> None:
    turns = np.zeros((23, 37), np.int32)
    library.mandelbrot(turns, -2.25, 1.25, 0.09375, 40, threads=(37, 23), device=device)
    c = (-2.25 + 0.09375 * np.arange(37)) + 1j * (1.25 - 0.09375 * np.arange(23))[:, None]
    z, wanted, running = np.zeros_like(c), np.zeros(c.shape, np.int32), np.ones(c.shape, bool)
    for _ in range(40):
        running &= z.real**2 + z.imag**2 <= 4
        wanted += running
        z = np.where(running, z * z + c, z)
    assert np.mean(turns != wanted) < 0.01  # f32 decides a pixel on the edge otherwise now and then
    assert turns.min() == 1 and turns.max() == 40


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 48), (33, 70)])
def test_game_of_life(device: Device, shape: tuple[int, int]) -> None:
    old = np.random.default_rng(3).integers(0, 2, shape, np.uint8)
    new = np.zeros_like(old)
    library.game_of_life(old, new, threads=shape[::-1], device=device)
    shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)]
    around = sum(np.roll(old, shift, (0, 1)) for shift in shifts)
    np.testing.assert_array_equal(new, (around == 3) | ((around == 2) & (old == 1)))


# --- rows -----------------------------------------------------------------------------------------------------------

ROWS = [(1, 1), (3, 255), (2, 256), (5, 1000)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", ROWS)
def test_softmax(device: Device, shape: tuple[int, int], dtype: Any) -> None:
    x = (normal(*shape) * 4).astype(dtype)
    y = np.zeros_like(x)
    library.softmax(x, y, groups=shape[0], device=device)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    close(y, powers / powers.sum(1, keepdims=True), 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", ROWS)
def test_rmsnorm(device: Device, shape: tuple[int, int], dtype: Any) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype)
    y = np.zeros_like(x)
    library.rmsnorm(x, weight, y, 1e-6, groups=shape[0], device=device)
    wide = x.astype(np.float64)
    close(y, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight.astype(np.float64), 4)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("shape", ROWS)
def test_argmax(device: Device, shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(5).integers(-9, 9, shape).astype(dtype)
    at = np.zeros(shape[0], np.int32)
    library.argmax(x, at, groups=shape[0], device=device)
    np.testing.assert_array_equal(at, x.argmax(1))


def test_argmax_of_nan(device: Device) -> None:
    x = normal(3, 600)
    x[1, 300] = x[1, 2] = np.nan
    x[2, 0] = np.nan
    at = np.zeros(3, np.int32)
    library.argmax(x, at, groups=3, device=device)
    np.testing.assert_array_equal(at, x.argmax(1))


@pytest.mark.parametrize(("batch", "rows", "columns"), [(1, 1, 1), (2, 7, 65), (3, 5, 300)])
def test_gemv(device: Device, batch: int, rows: int, columns: int) -> None:
    a, x = normal(batch, rows, columns), normal(batch, columns, seed=1)
    y = np.zeros((batch, rows), np.float32)
    library.gemv(a, x, y, groups=(rows, batch), device=device)
    close(y, np.einsum("brc,bc->br", a.astype(np.float64), x.astype(np.float64)), 20)


# --- reductions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize("n", [1, 31, 1000, 100_003])
def test_reduce(device: Device, n: int, dtype: Any, op: str) -> None:
    x = np.random.default_rng(7).integers(-3, 4, n).astype(dtype)
    parts, total = np.zeros(7, np.float32 if dtype == np.float16 and op == "sum" else dtype), np.zeros(1, dtype)
    if parts.dtype != dtype:  # whole numbers of this size are exact in f32, their halves' sums not
        x = x.astype(np.float32)
        total = total.astype(np.float32)
    library.reduce(x, parts, op, groups=7, device=device)
    library.reduce(parts, total, op, groups=1, device=device)
    assert total[0] == getattr(np, op)(x.astype(np.float64))


def test_the_sum_of_nothing(device: Device) -> None:
    total = np.ones(1, np.float32)
    library.reduce(np.zeros(0, np.float32), total, groups=1, device=device)
    assert total[0] == 0


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("n", [1, 255, 256, 257, 3000])
def test_scan(device: Device, n: int, dtype: Any) -> None:
    x = np.random.default_rng(9).integers(-5, 6, n).astype(dtype)
    y = np.zeros_like(x)
    library.scan(x, y, groups=1, device=device)
    np.testing.assert_array_equal(y, np.cumsum(x, dtype=dtype))


def test_scan_of_many_blocks(device: Device) -> None:
    n = 70_001
    x = np.random.default_rng(11).integers(-5, 6, n).astype(np.int32)
    blocks = groups(n, 256)
    y, totals, scanned = np.zeros(n, np.int32), np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    library.scan_blocks(x, y, totals, groups=blocks, device=device)
    library.scan(totals, scanned, groups=1, device=device)
    library.add_before(y, scanned, groups=blocks, device=device)
    np.testing.assert_array_equal(y, np.cumsum(x, dtype=np.int32))


@pytest.mark.parametrize("n", [1, 1000, 20_000])
def test_histogram(device: Device, n: int) -> None:
    x = (np.random.default_rng(13).normal(size=n) * 40 + 128).clip(0, 255).astype(np.uint8)
    counts = np.full(256, 3, np.int32)
    library.histogram(x, counts, groups=5, device=device)
    np.testing.assert_array_equal(counts, 3 + np.bincount(x, minlength=256))


# --- matrices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (64, 32), (100, 70)])
def test_transpose(device: Device, shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(15).integers(0, 255, shape).astype(dtype)
    y = np.zeros(shape[::-1], dtype)
    library.transpose(x, y, groups=(groups(shape[1], 32), groups(shape[0], 32)), device=device)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (64, 16, 64), (65, 17, 63), (100, 50, 130)])
def test_matmul(device: Device, m: int, k: int, n: int, dtype: Any) -> None:
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
    c = np.zeros((m, n), dtype)
    library.matmul(a, b, c, groups=(groups(n, 64), groups(m, 64)), device=device)
    close(c, a.astype(np.float64) @ b.astype(np.float64), 10)


def test_matmul_of_transposed_views(device: Device) -> None:
    a, b = normal(40, 70).T, normal(30, 40, seed=1).T
    c = np.zeros((70, 30), np.float32)
    library.matmul(a, b, c, groups=(1, 2), device=device)
    close(c, a.astype(np.float64) @ b.astype(np.float64), 10)


@pytest.mark.parametrize(("shape", "size"), [((1, 1), (1, 1)), ((9, 12), (3, 3)), ((40, 33), (5, 3))])
def test_convolution(device: Device, shape: tuple[int, int], size: tuple[int, int]) -> None:
    x, weight = normal(*shape), normal(*size, seed=1)
    y = np.zeros_like(x)
    library.convolution(x, weight, y, threads=shape[::-1], device=device)
    padded = np.pad(x.astype(np.float64), [(s // 2, s // 2) for s in size])
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)
    close(y, np.einsum("hwij,ij->hw", windows, weight.astype(np.float64)), 10)


# --- others ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("n", [1, 2, 37, 256])
def test_bitonic_sort(device: Device, n: int, dtype: Any) -> None:
    x = np.random.default_rng(17).integers(-99, 99, n).astype(dtype)
    wanted = np.sort(x)
    size = 2
    while size // 2 < n:
        library.bitonic_step(x, size - 1, threads=n, device=device)
        step = size // 4
        while step:
            library.bitonic_step(x, step, threads=n, device=device)
            step //= 2
        size *= 2
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("n", [1, 127, 300])
def test_accelerations(device: Device, n: int) -> None:
    position, mass = normal(n, 3), np.abs(normal(n, seed=1))
    out = np.zeros((n, 3), np.float32)
    library.accelerations(position, mass, out, 0.1, groups=groups(n, 128), device=device)
    apart = position.astype(np.float64)[None] - position.astype(np.float64)[:, None]
    square = (apart**2).sum(-1) + 0.01
    close(out, np.einsum("ijk,ij->ik", apart, mass.astype(np.float64) / square**1.5), 100)


# --- nothing --------------------------------------------------------------------------------------------------------


def empty(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def test_empty_arrays(device: Device) -> None:
    library.add(empty(0), empty(0), empty(0), threads=0, device=device)
    library.saxpy(1.0, empty(0), empty(0), threads=0, device=device)
    library.mandelbrot(empty(0, 4, dtype=np.int32), -2.0, 1.0, 0.1, 10, threads=(4, 0), device=device)
    library.game_of_life(empty(0, 0, dtype=np.uint8), empty(0, 0, dtype=np.uint8), threads=(0, 0), device=device)
    library.softmax(empty(0, 5), empty(0, 5), groups=0, device=device)
    library.rmsnorm(empty(3, 0), empty(0), empty(3, 0), 1e-6, groups=3, device=device)
    library.scan(empty(0), empty(0), groups=1, device=device)
    library.transpose(empty(0, 5), empty(5, 0), groups=(1, 1), device=device)
    library.convolution(empty(0, 3), empty(3, 3), empty(0, 3), threads=(3, 0), device=device)
    library.bitonic_step(empty(0), 1, threads=0, device=device)
    library.accelerations(empty(0, 3), empty(0), empty(0, 3), 0.1, groups=0, device=device)


def test_sums_of_nothing_are_zero(device: Device) -> None:
    c, y = np.ones((3, 4), np.float32), np.ones((2, 3), np.float32)
    library.matmul(empty(3, 0), empty(0, 4), c, groups=(1, 1), device=device)
    library.gemv(empty(2, 3, 0), empty(2, 0), y, groups=(3, 2), device=device)
    assert not c.any() and not y.any()
    counts = np.full(256, 3, np.int32)
    library.histogram(empty(0, dtype=np.uint8), counts, groups=2, device=device)
    assert (counts == 3).all()
