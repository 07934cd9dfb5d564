"""Corners of the kernel language, on every device: side effects of conditions, decorated helpers, chains, powers."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import numpy as np
import pytest

import poot
from poot.api.devices import Device
from poot.api.kernels import Kernel, kernel
from poot.dtypes import DType, as_dtype, bf16, f16, f32, f64, i32, i64
from poot.errors import KernelFault
from poot.kernel.language import In, InOut, InOut2, Out, Out2, atomic_add, thread_index
from tests.errors.kernel_source import build

T = TypeVar("T")
U = TypeVar("U")


def agree(made: Kernel, device: Device, *args: np.ndarray) -> list[list[Any]]:
    """Launch a kernel, and run its function as plain Python for every thread: the same."""
    count = len(args[0])
    here, there = ([a.copy() for a in args] for _ in range(2))
    made(*here, threads=count, device=device)
    for i in range(count):
        made.interpret(*there, threads=count, thread=i)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)
    return [a.tolist() for a in here]


# --- conditions that do something -----------------------------------------------------------------------------------


def step(a, i):
    a[i] += 1
    return True


def stop(a, i):
    a[i] += 10
    return False


@kernel
def while_steps(a: InOut[i32]):
    i = thread_index()
    n = 0
    while step(a, i):
        n += 1
        if n > 5:
            break
    while stop(a, i):
        n += 100
    while step(a, i) and step(a, i):
        n += 1
        if n == 8:
            continue
        if n > 9:
            break
    a[i] += n * 1000


def test_the_side_effects_of_a_loops_constant_condition(device: Device) -> None:
    assert agree(while_steps, device, np.arange(3, dtype=np.int32)) == [[10024, 10025, 10026]]


# --- decorated helpers ----------------------------------------------------------------------------------------------


def difference(x: i32, y: Any = 100.0) -> Any:
    return f32(x) - y


@functools.wraps(difference)
def turned(y: Any, x: Any = 7) -> Any:
    return difference(x, f32(y))


@functools.wraps(difference)
def scaled(a: Any, b: f32) -> Any:
    return a * b


@functools.wraps(turned)
def told(p, *, q):
    return turned(p, q)


told.__signature__ = None  # pyright: ignore[reportAttributeAccessIssue]


@kernel
def wrapped(a: In[i32], x: In[f32], out: Out[f32]):
    i = thread_index()
    out[i] = turned(x[i], a[i]) + turned(a[i]) * 1000 + scaled(x[i], f32(2)) + told(1, q=2)


def test_a_decorated_helper_has_its_own_parameters_and_defaults(device: Device) -> None:
    a, x = np.arange(4, dtype=np.int32), np.arange(4, dtype=np.float32) + 0.5
    out = np.zeros(4, np.float32)
    wrapped(a, x, out, threads=4, device=device)
    np.testing.assert_array_equal(out, (a - x) + (7 - a) * 1000 + x * 2 + 1)


def original(x: In[i32], y: Out[i32], up: int = 5): ...


@kernel
@functools.wraps(original)
def decorated(y, x, up=1):
    i = thread_index()
    y[i] = x[i] + up


def test_a_decorated_kernel_has_its_own_order_and_defaults(device: Device) -> None:
    y, x = np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    decorated(y, x, threads=3, device=device)
    assert y.tolist() == [1, 2, 3]


# --- chains of comparisons ------------------------------------------------------------------------------------------


def counted(a, i):
    a[i] += 1
    return a[i]


@kernel
def chains(r: In[i32], a: InOut[i32], out: InOut[i32]):
    i = thread_index()
    v = a[i]
    out[i] = 1 if 0 < r[0] < r[1] < r[2] < r[i] else 0
    if 0 < v < v + 1 < v + 2 < 2 * v:
        out[i] += 2
    if a[i] > 0 < counted(a, i) <= counted(a, i) < counted(a, i) < 9:
        out[i] += 4
    while 0 < v * 2 < v * 3 < a[i] * 4:
        v += 1
    out[i] += v * 8


def test_long_chains_evaluate_each_operand_once_and_no_more_than_python(device: Device) -> None:
    a = np.array([1, 2, 3, 4, 6, -5], np.int32)
    _, changed, out = agree(chains, device, a, a, np.zeros(6, np.int32))
    assert changed == [4, 5, 6, 7, 9, -5]
    assert [value % 8 for value in out] == [4, 4, 6, 7, 3, 0]


# --- powers ---------------------------------------------------------------------------------------------------------


@kernel
def powers(x: In[f32], y: In[f64], h: In[f16], b: In[bf16], a: Out[f32], c: Out[f64], d: Out[f16], e: Out[bf16]):
    i = thread_index()
    a[i] = x[i] ** 3
    c[i] = y[i] ** 3
    d[i] = h[i] ** 3
    e[i] = b[i] ** 3


@kernel
def narrow_powers(x: In[f32], a: Out[f32], b: Out[f32], c: Out[f32]):
    i = thread_index()
    a[i] = x[i] ** 3
    b[i] = x[i] ** 2
    c[i] = x[i] ** 2.0


def error(values: np.ndarray, power: int, found: np.ndarray, dtype: DType) -> float:
    """The greatest error in units in the last place, of what is normal and finite."""
    wide = values.astype(np.longdouble) ** power
    tiny = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}[dtype.name]
    digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[dtype.name]
    size = np.abs(wide)
    limit = np.longdouble(float(dtype.max))
    kept = (size >= tiny) & (size <= limit)
    unit = np.ldexp(np.longdouble(1), np.frexp(size[kept])[1] - digits)
    return float(np.max(np.abs(found[kept].astype(np.longdouble) - wide[kept]) / unit))


def some(dtype: Any, count: int = 3000) -> np.ndarray:
    return (np.random.default_rng(7).uniform(-8, 8, count)).astype(np.float64).astype(dtype)


def test_literal_powers_keep_the_bound_of_pow(device: Device) -> None:
    x = some(np.float32)
    cube, square, other = (np.zeros_like(x) for _ in range(3))
    narrow_powers(x, cube, square, other, threads=len(x), device=device)
    np.testing.assert_array_equal(square, x * x)
    assert error(x, 2, other, f32) <= 0.5
    assert error(x, 3, cube, f32) <= 1


@pytest.mark.parametrize("name", ["cpu", "interpret"])
def test_literal_powers_of_every_float(name: str) -> None:
    inputs = [some(d.dtype) for d in (f32, f64, f16, bf16)]
    outputs = [np.zeros_like(x) for x in inputs]
    powers(*inputs, *outputs, threads=len(inputs[0]), device=name)
    for x, y in zip(inputs, outputs, strict=True):
        dtype = as_dtype(x.dtype)
        assert error(x, 3, y, dtype) <= (0.501 if dtype.bits == 16 else 1), dtype


@kernel
def whole_powers(a: In[i32], out: Out[i32]):
    i = thread_index()
    out[i] = a[i] ** 2 + a[i] ** 3 * 3


def test_literal_powers_of_integers_wrap(device: Device) -> None:
    a = np.array([-3, 0, 5, 1 << 20, -(2**31)], np.int32)
    agreed = np.zeros_like(a)
    whole_powers(a, agreed, threads=len(a), device=device)
    wide = [(int(v) ** 2 + 3 * int(v) ** 3 + 2**31) % 2**32 - 2**31 for v in a]
    assert agreed.tolist() == wide


# --- faults name the index that was given ---------------------------------------------------------------------------


@kernel
def at(x: In[f32], v: In[T], n: U, y: InOut[f32]):
    i = thread_index()
    y[i] = x[n] if n != 0 else x[v[i]]


@kernel
def put(v: In[T], y: InOut2[f32]):
    i = thread_index()
    y[i % 2, v[i]] = 1


@kernel
def count_at(v: In[T], y: InOut[i32], old: Out[i32]):
    i = thread_index()
    old[i] = atomic_add(y, v[i], 1)


WIDE = [
    *(np.int64(value) for value in (2**31, 2**32, 2**40, -1, -2, -(2**31) - 1, -(2**32), 2**63 - 1, -(2**63))),
    *(np.uint64(value) for value in (2**32, 2**63 + 5, 2**64 - 1)),
    *(np.uint32(value) for value in (2**31 - 1, 2**31, 2**32 - 1)),
]


@pytest.mark.parametrize("index", WIDE, ids=lambda index: f"{index.dtype}:{index}")
def test_faults_name_the_index_that_was_given(device: Device, index: Any) -> None:
    x, y, v = np.ones(8, np.float32), np.zeros(8, np.float32), np.full(8, 3, index.dtype)
    with pytest.raises(KernelFault, match=f"index {index} of x is outside axis 0 of extent 8"):
        at(x, v, index, y, threads=8, device=device)
    v[5] = index
    with pytest.raises(KernelFault, match=f"index {index} of x is outside axis 0 of extent 8"):
        at(x, v, i32.dtype.type(0), y, threads=8, device=device)
    assert y.tolist() == [1] * 5 + [0] + [1] * 2
    grid = np.zeros((2, 4), np.float32)
    with pytest.raises(KernelFault, match=f"index {index} of y is outside axis 1 of extent 4"):
        put(v, grid, threads=8, device=device)
    assert grid.sum() == 2
    counts, old = np.zeros(8, np.int32), np.full(8, -1, np.int32)
    with pytest.raises(KernelFault, match=f"index {index} of y is outside axis 0 of extent 8"):
        count_at(v, counts, old, threads=8, device=device)
    assert counts.tolist() == [0, 0, 0, 7, 0, 0, 0, 0] and old[5] == 0


# --- long and deep --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[i] = " + " + ".join(["x[i]"] * 30), 30),
        ("v = x[i]\ny[i] = " + " + ".join(["v"] * 900), 900),
        ("v = x[i]\ny[i] = " + " + ".join(["v * v"] * 300), 300),
        ("y[i] = 1 if " + " and ".join(["i >= 0"] * 300) + " else 0", 1),
        ("if " + " and ".join(["i >= 0"] * 300) + ": y[i] = 2", 2),
        ("y[i] = 1 if " + " <= ".join(["i"] * 300) + " else 0", 1),
        ("v = x[i]\ny[i] = min(" + ", ".join(["v"] * 300) + ")", 1),
        ("v = x[i]\ny[i] = " + "v + (" * 90 + "v" + ")" * 90, 91),
        ("if i < 0: y[i] = 0\n" + "".join(f"elif i < -{k}: y[i] = {k}\n" for k in range(60)) + "else: y[i] = 3", 3),
    ],
    ids=["loads", "sum", "products", "and", "if", "chain", "min", "right", "elif"],
)
def test_long_expressions(fast_device: str, body: str, expected: int) -> None:
    y = np.zeros(8, np.float32)
    build(body)(np.ones(8, np.float32), np.arange(8, dtype=np.int32), y, threads=8, device=fast_device)
    assert y.tolist() == [expected] * 8


@kernel
def falling(high: In[T], low: In[T], n: Out[i32], total: Out[i32]):
    i = thread_index()
    count = 0
    for k in range(high[i], low[i], -1):
        count += i32(k)
    n[i] = count
    count = 0
    for k in range(high[i], low[i], -100):
        count += i32(k) + 1
        if count > 1000:
            break
    total[i] = count


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int8])
def test_ranges_that_count_down_in_any_dtype(device: Device, dtype: Any) -> None:
    top = int(np.iinfo(dtype).max)
    high, low = np.array([5, 3, 0, 120, top], dtype), np.array([0, 3, 9, 20, top - 1], dtype)
    n, total = np.zeros(5, np.int32), np.zeros(5, np.int32)
    falling(high, low, n, total, threads=5, device=device)
    pairs = list(zip(high.tolist(), low.tolist(), strict=True))
    assert n.tolist() == [(sum(range(a, b, -1)) + 2**31) % 2**32 - 2**31 for a, b in pairs]
    expected = [sum(k + 1 for k in range(a, b, -100)) for a, b in pairs]
    assert total.tolist() == [(value + 2**31) % 2**32 - 2**31 for value in expected]


@kernel
def faults_and_returns(x: In[f32], y: InOut[f32], past: int):
    i = thread_index()
    v = x[i + past]
    for k in range(3):
        if v < f32(k):
            y[i] = x[i + 2 * past]
            return
    y[i] = 1


def test_a_fault_before_a_return_is_the_one_that_is_told(device: Device) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(KernelFault, match="index 100 of x"):
        faults_and_returns(x, y, 100, threads=1, device=device)
    faults_and_returns(x, y, 0, threads=4, device=device)


# --- what assemblers make of narrow and wide integers ----------------------------------------------------------------


@kernel
def compares_wrapped(a: In[T], b: In[T], out: Out[i32]):
    i = thread_index()
    sizes = i32(abs(a[i]) < b[i]) + 2 * i32(-a[i] < b[i]) + 4 * i32(abs(a[i]) == a[i]) + 8 * i32(-a[i] == a[i])
    out[i] = sizes + 16 * i32(-abs(a[i]) >= b[i]) + 32 * i32(i64(-a[i]) < i64(0)) + 64 * i32(f32(abs(a[i])) < f32(0))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_least_integer_wraps_in_comparisons(device: Device, dtype: Any) -> None:
    """NVIDIA's assembler keeps -(-32768) as 32768 where the result is compared at once."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = [low, low + 1, -7, -1, 0, 1, 7, high - 1, high]
    a, b = (np.array(side, dtype) for side in zip(*((x, y) for x in values for y in values), strict=True))
    agree(compares_wrapped, device, a, b, np.zeros(len(a), np.int32))


@kernel
def shifts_by_any_count(a: In[T], count: In[T], out: Out2[T]):
    i = thread_index()
    one: T = 1
    out[i, 0], out[i, 1] = a[i] << count[i], a[i] >> count[i]
    out[i, 2], out[i, 3] = one << count[i], (a[i] ^ one) >> count[i]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_counts_of_shifts_count_in_all_their_bits(device: Device, dtype: Any) -> None:
    """LLVM's own shift for NVIDIA that gives 0 past the width looks at the low 32 bits of a count."""
    info = np.iinfo(dtype)
    counts = [0, 1, info.bits - 1, info.bits, info.max, info.min, info.max // 2 + 1]
    counts += [1 << 32, (1 << 32) + 3, (1 << 63) + 1 if info.max >= 1 << 63 else 5, 1 << 40] if info.bits == 64 else []
    values = [1, 3, info.max, info.min, info.max // 3]
    a, count = (np.array(side, dtype) for side in zip(*((x, y) for x in values for y in counts), strict=True))
    agree(shifts_by_any_count, device, a, count, np.zeros((len(a), 4), dtype))


def test_a_product_with_a_zero_keeps_its_sign(device: Device) -> None:
    """Whatever is known of the other factor: of integers, that it is finite."""
    x = np.array([-100, -1, 0, 1, 9], np.int32)

    def products(x: Any) -> list[Any]:
        wide = [x.astype(dtype) for dtype in (f32, f64) if dtype in device.target.dtypes]
        return [y * zero for value in wide for y in (value, -value) for zero in (-0.0, 0.0)]

    wanted = [y * zero for y in (x.astype(np.float64), -x.astype(np.float64)) for zero in (-0.0, 0.0)]
    for number, found in enumerate(poot.trace(products, device=device)(x)):
        assert np.signbit(np.asarray(found)).tolist() == np.signbit(wanted[number % 4]).tolist()
