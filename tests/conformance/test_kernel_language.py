"""The kernel language on every device: kernels compute what their functions compute as plain Python, one by one.

Integers and dyadic floats alone, so that results are equal bit for bit.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

from poot.api.devices import Device
from poot.api.kernels import Kernel, kernel
from poot.dtypes import bool_, f32, f64, i8, i32, i64, u8, u32
from poot.kernel.language import (
    Const,
    In,
    InOut,
    Out,
    atomic_add,
    bitcast,
    clz,
    popcount,
    private,
    sign,
    thread_index,
    unroll,
)
from poot.kernel.parse.syntax import ACCEPTED
from tests.unit import kernel_helpers as helpers

T = TypeVar("T")
SCALE = 3
WEIGHTS = (0.25, 0.5, 0.25)
CONFIG = SimpleNamespace(tile=SimpleNamespace(width=4), shift=-2)
THREADS = 40

KERNELS: list[Kernel] = []


def case(function: Any) -> Kernel:
    made = kernel(function)
    KERNELS.append(made)
    return made


@case
def arithmetic(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    p, q = a[i], a[(i + 1) % len(a)]
    out[i] = p + q * SCALE - (p - 7) // 3 + (q % 5) - -p
    u = x[i]
    res[i] = +u * 2 - u / 4 + u**2 - u // 0.5
    out[i] += i32(u8(250 if p > 3 else -(3 if p < 0 else 2))) + (7 if p % 2 == 0 else -9) * 3
    res[i] += u * (1 if p > 0 else 0.5) + (0.25 if i % 3 == 1 else 2) * (4 if p < 2 else 1)


@case
def bits(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    p = a[i]
    out[i] = ((p & 0xFF) | (i << 8)) ^ (p >> 2) ^ ~p
    res[i] = f32(popcount(p & 1023) + clz(i) + bitcast(f32(1.5), i32) // 65536)


@case
def comparisons(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    p, u = a[i], x[i]
    count = 0
    if p == 3 or (p != 4 and not p < 0):
        count += 1
    if -2 <= p < 10 > i:
        count += 2
    if (u > 0 and u >= 0.5) or u <= -0.5:
        count += 4
    out[i] = count + i32(p > 0) + (8 if u < 0 else 16)
    res[i] = u if p > 0 else -u if p < -5 else 0.0


@case
def guarded(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    if i + 5 < len(a) and a[i + 5] > 0:
        out[i] = 1
    elif i < 3 or a[i - 3] < 0:
        out[i] = 2
    else:
        out[i] = 3
    res[i] = x[i + 30] if i + 30 < len(x) else 0.5
    if i + 1 < len(a) and a[i + 1] > 0 and i + 2 < len(a) and a[i + 2] > 0:
        res[i] += 1
    if not (i + 1 >= len(a) or a[i + 1] == 0):
        res[i] += 2


@case
def loops(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    total = 0
    for k in range(i % 7):
        if k == 5:
            break
        if k % 2:
            continue
        total += a[k]
    for k in range(10, i, -3):
        total -= k
    for k in range(i, len(a), 4):
        for j in range(k, k + 2):
            total += j * k
    n = i
    while n > 0 and a[n] != 0:
        n //= 2
        total += 1
    while n or (not n and total % 2):
        total += 3
        n = 0
    while True:
        total += 1
        if total % 8 == 0:
            break
    out[i] = total
    acc: f32 = 0
    for k in unroll(range(len(WEIGHTS))):
        acc += WEIGHTS[k] * x[(i + k) % len(x)]
    res[i] = acc


@case
def strides(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    total, step = 0, 1 + i % 5
    for k in range(i, len(a), step):
        step = -1
        if k % 3 == 1:
            continue
        if k > 30:
            break
        total += k
        for j in range(0, k, 1 + i % 2):
            total += j
    for k in range(-5, 3, 1 + i):
        total += k * k
    for k in range(2147483000, 2147483647, 1 + 2000000 * i):
        total ^= k
    for k in range(-2147483647 + i, 2147483647, 1 << 30 - i % 2):
        total ^= k
    for k in range(i, 3, 4 + i):
        i = k
    out[i] += total
    last = u8(0)
    for last in range(u8(7), u8(255), u8(i + 1)):
        res[i] += f32(last)
    res[i] += f32(last)


@case
def written_out(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    for k in unroll(range(3)):
        for j in range(i % 4):
            late = a[j] + k
            late *= 2
            if late > 3:
                swapped, kept = late, k
                swapped, kept = kept, swapped
                out[i] += kept - swapped
            turns = 0
            while turns < k:
                turns += 1
            out[i] += late * turns
    for k in unroll(range(2)):
        for j in unroll(range(2)):
            if k + j == 0:
                carried = x[i]
            else:
                carried = carried * 2 + k
    res[i] = carried


@case
def variables(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    if a[i] > 2:
        late = a[i] * 2
        other = 1.5
    else:
        late = 5
        other = x[i]
    p = q = late + 1
    p, q = q + 1, p - 1
    (r, s), t = (p, q), other
    r, s = s, r
    half: f32 = 1
    half *= 0.5
    if i > 3:
        pass
    out[i] = r * 1000 + s
    res[i] = t * half
    out[i] -= 1
    res[i] /= 2


@case
def casts(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    u = x[i]
    out[i] = int(u * 4) + i32(u8(a[i] & 255)) + i32(bool(a[i])) + int(f64(u) * 2.0)
    res[i] = float(a[i]) + f32(i64(a[i]) * 3) + f32(True)


@case
def functions(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    u = x[i]
    out[i] = min(a[i], i, 7) + max(a[i], -3) + abs(a[i]) + len(WEIGHTS) + a.shape[0] + a.ndim + x.size
    q, r = divmod(a[i], 7)
    out[i] += q * 10 + r
    res[i] = math.sqrt(u * u) + math.fabs(u) + sign(u) + pow(u, 2) + math.pi * 0


@case
def inlined(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    low, high = helpers.ordered(a[i], a[len(a) - 1 - i])
    out[i] = helpers.clamp(low, -4, upper=4) * 100 + high + helpers.first_positive(a, i)
    helpers.put(res, i, helpers.relu(x[i]) + helpers.steps(x[i]))


@case
def attributes(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    out[i] = a[i] * CONFIG.tile.width + CONFIG.shift
    res[i] = x[i] if a.dtype == i32 and x.dtype is not i32 and a.dtype in (i32, i64) else 0.0


@case
def memory(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    i = thread_index()
    own = private(i32, (2, 3))
    for j in unroll(range(2)):
        for k in unroll(range(3)):
            own[j, k] = a[i] + j * 10 + k
    own[1, 2] += 5
    place = (1, i % 3)
    out[i] = own[place] + own[0, 1]
    atomic_add(out, i, 1)
    res[i] = f32(atomic_add(out, i, 2)) + x[i]


@case
def leaving(a: In[i32], x: In[f32], out: InOut[i32], res: InOut[f32]):
    """A docstring."""
    i = thread_index()
    if i % 3 == 0:
        return
    out[i] = 1
    for k in range(5):
        if k > i:
            return None
        res[i] += x[k]
    assert i >= 0, "threads count from 0"
    assert out[i] == 1


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(21)
    a = generator.integers(-9, 10, THREADS).astype(np.int32)
    x = (generator.integers(-32, 33, THREADS) / 16).astype(np.float32)
    return a, x, np.zeros(THREADS, np.int32), np.zeros(THREADS, np.float32)


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.name)
def test_a_kernel_computes_what_its_function_computes(device: Device, made: Kernel) -> None:
    a, x, out, res = inputs()
    made(a, x, out, res, threads=THREADS, device=device)
    _, _, wanted, wanted_res = inputs()
    for thread in range(THREADS):
        made.interpret(a, x, wanted, wanted_res, threads=THREADS, thread=thread)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(res, wanted_res)


@kernel
def generic(x: In[T], y: Out[T], factor: T, mode: Const[int] = 0, flag: Const[bool] = False):
    i = thread_index()
    if i < len(y):
        value = x[i] * factor
        if mode == 1 and T is f32:
            value = value + 1
        if flag and mode not in (0, 1):
            value = -value
        y[i] = value


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64, np.float64])
@pytest.mark.parametrize(("mode", "flag"), [(0, False), (1, True), (2, True), (2, False)])
def test_type_variables_and_constants(device: Device, dtype: Any, mode: int, flag: bool) -> None:
    x = np.arange(50).astype(dtype)
    y = np.zeros_like(x)
    generic(x, y, 3, mode, flag=flag, threads=50, device=device)
    wanted = x * np.asarray(3, dtype)
    if mode == 1 and dtype == np.float32:
        wanted += 1
    if flag and mode == 2:
        wanted = np.negative(wanted)
    np.testing.assert_array_equal(y, wanted)


def test_every_accepted_node_is_in_a_kernel_that_runs_on_every_device() -> None:
    trees = [made.definition.source.tree for made in (*KERNELS, generic)]
    trees.append(ast.parse(Path(helpers.__file__).read_text("utf-8")))
    assert not ACCEPTED - {type(node).__name__ for tree in trees for node in ast.walk(tree)}


@kernel
def narrow(a: In[i8], b: In[u32], c: Out[i8], d: Out[u32], e: Out[bool_]):
    i = thread_index()
    c[i] = a[i] + 100
    d[i] = b[i] - 1
    e[i] = a[i] > 0


def test_integers_wrap(device: Device) -> None:
    a, b = np.array([100, -128, 27], np.int8), np.array([0, 1, 2**32 - 1], np.uint32)
    c, d, e = np.zeros(3, np.int8), np.zeros(3, np.uint32), np.zeros(3, np.bool_)
    narrow(a, b, c, d, e, threads=3, device=device)
    np.testing.assert_array_equal(c, np.array([-56, -28, 127], np.int8))
    np.testing.assert_array_equal(d, np.array([2**32 - 1, 0, 2**32 - 2], np.uint32))
    np.testing.assert_array_equal(e, [True, False, True])


@kernel
def divisions(a: In[i32], b: In[i32], c: InOut[i32], d: InOut[i32], e: InOut[i32], f: InOut[i32]):
    i = thread_index()
    c[i] = a[i] // b[i]
    d[i] = a[i] % b[i]
    e[i] = a[i] << b[i]
    f[i] = a[i] >> b[i]


def test_the_edges_of_integers(device: Device) -> None:
    least = -(2**31)
    a = np.array([-7, 7, 7, 5, least, least, 1, -1], np.int32)
    b = np.array([2, -3, 0, 40, -1, 0, 31, 33], np.int32)
    c, d, e, f = (np.zeros(8, np.int32) for _ in range(4))
    divisions(a, b, c, d, e, f, threads=8, device=device)
    assert c.tolist() == [-4, -3, 0, 0, least, 0, 0, -1]
    assert d.tolist() == [1, -2, 0, 5, 0, 0, 1, 32]
    assert e.tolist() == [-28, 0, 7, 0, 0, least, least, 0]
    assert f.tolist() == [-2, 0, 7, 0, -1, least, 0, -1]


@kernel
def floats(x: In[f32], y: In[f32], c: Out[i32], d: Out[i32], e: Out[f32]):
    i = thread_index()
    c[i] = i32(x[i])
    d[i] = (
        i32(x[i] < y[i])
        + 2 * i32(x[i] <= y[i])
        + 4 * i32(x[i] == y[i])
        + 8 * i32(x[i] != y[i])
        + 16 * i32(math.isnan(x[i]))
        + 32 * i32(math.isinf(x[i]))
    )
    e[i] = max(x[i], y[i])


def test_the_edges_of_floats(device: Device) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -2.9, -0.0], np.float32)
    y = np.array([1, 1, -np.inf, 1, -3, 0.0], np.float32)
    c, d, e = np.zeros(6, np.int32), np.zeros(6, np.int32), np.zeros(6, np.float32)
    floats(x, y, c, d, e, threads=6, device=device)
    assert c.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -2, 0]
    assert d.tolist() == [24, 40, 38, 8, 8, 6]
    np.testing.assert_array_equal(e, np.array([np.nan, np.inf, -np.inf, 3e9, -2.9, 0.0], np.float32))
    assert not np.signbit(e[5])


@kernel
def gather(x: In[f32], at: In[T], y: Out[f32]):
    i = thread_index()
    y[i] = x[at[i]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_indices_of_any_integer_dtype(device: Device, dtype: Any) -> None:
    x, at = np.arange(9, dtype=np.float32), np.array([8, 0, 3], dtype)
    y = np.zeros(3, np.float32)
    gather(x, at, y, threads=3, device=device)
    assert y.tolist() == [8, 0, 3]
