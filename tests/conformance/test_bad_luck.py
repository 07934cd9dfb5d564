# size: one list, a section for each kind of bad luck
"""What goes wrong in practice, on every device: nothing at all in an array, sizes past 32 bits, too many buffers or
work-groups, bad indices, NaN, infinite masks, ties, aliases, memory used anew, threads, and code that does not build.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore, bf16, f16, f32, i32, ops, u8
from poot.api.devices import Device
from poot.backends import toolchain
from poot.dtypes import ArraySpec, DType
from poot.errors import (
    BuilderError,
    CompileError,
    EngineError,
    IndexFault,
    LaunchError,
    ShapeError,
    Unsupported,
)
from tests.faulty_device import FaultyDevice

pytestmark = [
    pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning"),
    pytest.mark.slow_on("opencl", "wgpu"),
]

OPTIONS = poot.CompileOptions()
Array = np.ndarray[Any, Any]


def graph_of(function: Callable[..., Any], *specs: ArraySpec) -> poot.Graph:
    b = Builder(TraceLimits.STANDARD)
    return b.finish(function(*(b.input(f"a{n}", spec) for n, spec in enumerate(specs))))


def stepped(device: Any, graph: poot.Graph, *arrays: Array) -> Any:
    """The outputs of one step of an engine."""
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, poot.compile(graph, engine.device.target, OPTIONS))
    inputs = StepInputs()
    for number, array in enumerate(arrays):
        inputs.push(f"a{number}", array)
    result = engine.step(exe, entry, inputs).read()
    engine.unload(exe)
    return result


def agrees(device: Device, function: Callable[..., Any], *arrays: Any, ulps: float = 0) -> None:
    """A traced call on the device gives what the oracle gives: exactly, or within ULPs of f32."""
    traced = poot.trace(function, device=device)
    expected = poot.trace(function).evaluate(*arrays)
    found = traced(*arrays)
    for actual, wanted in zip(_leaves(found), _leaves(expected), strict=True):
        result = np.asarray(actual)
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        if ulps:
            np.testing.assert_allclose(result, wanted, rtol=ulps * 2.0**-23, atol=ulps * 2.0**-25)
        else:
            same = np.array_equal(result.astype(np.float64), wanted.astype(np.float64), equal_nan=True)
            assert same, (result, wanted)


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, (tuple, list)) else [value]


# --- nothing, and one thing -------------------------------------------------------------------------------------------

EMPTY = np.zeros((0, 3), np.float32)
NOTHING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "map": (lambda x: ops.exp(x) * 2.0 + x, (EMPTY,)),
    "sum over nothing": (lambda x: (ops.sum(x, axis=0), ops.prod(x, axis=0), ops.sum(x)), (EMPTY,)),
    "sum of nothing": (lambda x: ops.sum(x, axis=1), (EMPTY,)),
    "any and all": (lambda x: (ops.any(x > 0, axis=0), ops.all(x > 0, axis=0)), (EMPTY,)),
    "softmax": (lambda x: ops.nn.softmax(x, axis=-1), (EMPTY,)),
    "concat": (lambda x, y: ops.concat([x, y, x]), (EMPTY, np.ones((2, 3), np.float32))),
    "transpose": (lambda x: x.T + 1.0, (EMPTY,)),
    "no rows": (lambda x, y: x @ y, (EMPTY, np.ones((3, 4), np.float32))),
    "gather of nothing": (lambda x, i: x[i], (np.ones(4, np.float32), np.zeros((0,), np.int32))),
    "scatter of nothing": (lambda x, i: x.at[i].set(5.0), (np.ones(4, np.float32), np.zeros((0,), np.int32))),
    "sort": (lambda x: ops.sort(x, axis=0), (EMPTY,)),
    "cumsum": (lambda x: ops.cumulative_sum(x, axis=0), (EMPTY,)),
    "pad": (lambda x: ops.pad(x, ((1, 1), (0, 0))), (EMPTY,)),
}
SCALAR = np.array(2.5, np.float32)
ONE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "map": (lambda x, y: x * y + 1.0, (SCALAR, SCALAR)),
    "reductions": (lambda x: (ops.sum(x), ops.max(x), ops.prod(x)), (SCALAR,)),
    "broadcast": (lambda x, y: x + y, (SCALAR, np.ones((2, 0, 3), np.float32))),
    "reshape": (lambda x: ops.reshape(x, (1, 1)) * 2.0, (SCALAR,)),
    "where": (lambda x, c: ops.where(c, x, 0.0), (SCALAR, np.array(True))),
    "index": (lambda x, i: x[i], (np.arange(4, dtype=np.float32), np.array(3, np.int32))),
    "weak": (lambda x, n: x * n, (SCALAR, 3)),
    "nothing but a constant": (lambda: ops.ones(()) * 2.0, ()),
}


@pytest.mark.parametrize("name", NOTHING)
def test_empty_arrays(device: Device, name: str) -> None:
    function, arrays = NOTHING[name]
    agrees(device, function, *arrays)


@pytest.mark.parametrize("name", ONE)
def test_arrays_of_rank_0(device: Device, name: str) -> None:
    function, arrays = ONE[name]
    agrees(device, function, *arrays)


@pytest.mark.parametrize("dtype", [f32, bf16, i32], ids=str)
def test_matmul_over_nothing(device: Device, dtype: DType) -> None:
    """K = 0: a sum of no products, with whatever comes after it."""
    x, y, bias = (np.ones(shape, dtype.dtype) for shape in ((3, 0), (0, 4), (4,)))
    agrees(device, lambda x, y, b: (x @ y, x @ y + b), x, y, bias)
    agrees(device, lambda x, y: ops.einsum("bik,bkj->bij", x, y), x[None], y[None])


def test_an_engine_with_nothing_to_do(device: Device) -> None:
    result = stepped(device, graph_of(lambda x: (x * 2.0, x), f32[0, 3]), EMPTY)
    assert [each.shape for each in result] == [(0, 3), (0, 3)]


# --- too much ---------------------------------------------------------------------------------------------------------

HUGE: dict[str, Callable[..., Any]] = {
    "map": lambda x: x + 1,
    "rows": lambda x: ops.max(ops.reshape(x, (x.shape[0], 1)), axis=1),
    "sum": lambda x: ops.sum(x, dtype=u8),
    "concat": lambda x: ops.concat([x, x[:1]]),
    "pad": lambda x: ops.pad(x, ((1, 2),)),
    "slice": lambda x: x[1::2],
    "flip": lambda x: ops.flip(x),
    "argmax": lambda x: ops.argmax(x),
    "sort": lambda x: ops.sort(x),
    "matmul": lambda x: ops.reshape(x, (1, -1)) @ ops.reshape(x, (-1, 1)),
}


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("name", HUGE)
def test_about_2_to_31_elements(device: Device, name: str, beyond: int) -> None:
    """Such sizes compile, with 64-bit indices from 2^31 elements on, or are refused with what does not fit."""
    count = (1 << 31) + beyond
    try:
        graph = graph_of(HUGE[name], u8[count])
        program = poot.compile(graph, device.target, OPTIONS)
        for kernel in program.kernels:
            assert kernel.index_dtype.bits == 64 or not any(
                np.prod([extent or 0 for extent in buffer.shape]) >= 1 << 31 for buffer in kernel.buffers
            )
            toolchain.compile_kernel(kernel, device.target)
    except Unsupported as error:
        limit = device.target.limit("binding_bytes")
        assert f"its buffers hold {limit}" in str(error) and error.fields["what"]
    except BuilderError as error:
        assert isinstance(error, ShapeError) and "positions are i32" in str(error)
        assert error.where is not None and error.where.file == __file__
        assert "split the axis" in error.remedy
        assert name in ("argmax", "sort")


@pytest.mark.slow
def test_more_work_groups_than_one_axis_has(device: Device) -> None:
    """52,428,800 elements are 204,800 groups of 256, and a dispatch of WGSL has at most 65,535 along an axis."""
    count = 52_428_800
    x = np.arange(count, dtype=np.uint8)
    traced = poot.trace(lambda x: x * 3 + 1, device=device)
    if device.name == "wgpu":
        program = traced.program(x, device=device)
        assert max(program.launches[0].groups) > device.target.limit("dispatch")
    np.testing.assert_array_equal(np.asarray(traced(x)), x * np.uint8(3) + np.uint8(1))


def test_a_long_map(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in small, on a device that is said to dispatch few groups along an axis."""
    few = FaultyDevice(device)
    if "dispatch" in dict(device.target.limits):
        few.target = device.target.replace_limits(dispatch=7)
        monkeypatch.setitem(device.backend._limits, "dispatch", 7)  # type: ignore[attr-defined]
    x = np.arange(70_001, dtype=np.int32)
    np.testing.assert_array_equal(stepped(few, graph_of(lambda x: x * 3 - 1, i32[70_001]), x), x * 3 - 1)


def test_more_buffers_than_a_kernel_may_bind(device: Device) -> None:
    """Thirteen buffers would be fused into one kernel; a device with eight gets several."""
    arrays = [np.full(70, n + 1, np.float32) for n in range(12)]

    def total(*xs: Any) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = result * 0.5 + x
        return result

    few = FaultyDevice(device)
    few.target = device.target.replace_limits(buffers=8)
    graph = graph_of(total, *[f32[70]] * 12)
    program = poot.compile(graph, few.target, OPTIONS)
    assert len(program.launches) > 1
    assert all(len(launch.bindings) <= 8 for launch in program.launches)
    wanted = poot.evaluate(graph, {f"a{n}": array for n, array in enumerate(arrays)}).output
    np.testing.assert_allclose(stepped(few, graph, *arrays), wanted, rtol=1e-6)


# --- indices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [4, -5, 2**31 - 1, -(2**31)])
def test_gather_out_of_range(device: Device, index: int) -> None:
    """The fault names the index at the first read, and leaves the device as good as before."""
    x = np.arange(4, dtype=np.float32)
    take = poot.trace(lambda x, i: x[i] * 2.0, device=device)
    bad, good = np.array([0, index], np.int32), np.array([0, 3], np.int32)
    for _ in range(2):
        result = take(x, bad)
        with pytest.raises(IndexFault, match="out of range for axis 0 of extent 4"):
            np.asarray(result)
        assert np.asarray(take(x, good)).tolist() == [0.0, 6.0]
    graph = graph_of(lambda x, i: x[i], f32[4], i32[2])
    with pytest.raises(IndexFault):
        stepped(device, graph, x, bad)
    for mode in ("clip", "wrap", "fill"):
        agrees(device, lambda x, i, mode=mode: x.at[i].get(mode=mode), x, bad)


def test_scatter_out_of_range(device: Device) -> None:
    x = np.zeros(4, np.float32)
    put = poot.trace(lambda x, i: x.at[i].add(1.0), device=device)
    with pytest.raises(IndexFault, match=r"^scatter_add: index 4 is out of range for axis 0 of extent 4\n") as caught:
        np.asarray(put(x, np.array([1, 4], np.int32)))
    assert 'mode="clip", "wrap" or "drop"' in caught.value.remedy
    assert caught.value.where is not None
    assert caught.value.where.text.strip().startswith("put = ")

    def steps(x: Any, i: Any) -> Any:
        return ops.scan(lambda carry, place: (carry.at[place].add(1.0), None), x, i)[0]

    with pytest.raises(IndexFault, match="scatter"):
        np.asarray(poot.trace(steps, device=device)(x, np.array([1, 4], np.int32)))
    assert np.asarray(put(x, np.array([1, -1], np.int32))).tolist() == [0.0, 1.0, 0.0, 1.0]


# --- NaN, infinities, ties --------------------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 31, 32, 33, 64, 255, 256, 257, 1000, 4097)


def extremes(x: Any) -> Any:
    return ops.max(x, axis=1), ops.min(x, axis=1), ops.argmax(x, axis=1), ops.argmin(x, axis=1)


def reduce_nan(device: Device, dtype: DType, length: int) -> None:
    """Rows without a NaN, with one anywhere, with several, and with one at the end."""
    rng = np.random.default_rng(length)
    rows = rng.standard_normal((4, length)).astype(dtype.dtype)
    rows[1, rng.integers(length)] = np.nan
    rows[2, :: max(1, length // 2)] = np.nan
    rows[3, length - 1] = np.nan
    agrees(device, extremes, rows)


@pytest.mark.parametrize("length", [1, 33, 256, 1000])
def test_nan_through_reductions(device: Device, length: int) -> None:
    reduce_nan(device, f32, length)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f32, bf16, f16], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_nan_through_reductions_of_every_length(device: Device, length: int, dtype: DType) -> None:
    reduce_nan(device, dtype, length)


@pytest.mark.parametrize("length", [1, 2, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (33, 130, 600))])
def test_nan_through_sort(device: Device, length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.integers(-3, 4, length).astype(np.float32)
    x[rng.integers(0, length, max(1, length // 4))] = np.nan
    x[rng.integers(0, length)] = -np.inf
    agrees(device, lambda x: (ops.sort(x), ops.argsort(x), ops.sort(x, descending=True)), x)
    agrees(device, lambda x: ops.top_k(x, 1), x)


def test_infinite_masks(device: Device) -> None:
    """Minus infinity where a mask says no: in literals, in arrays, and in a row with nothing left."""
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
    mask = np.arange(24).reshape(4, 6) % 3 > 0
    mask[2] = False
    agrees(device, lambda x, m: ops.nn.softmax(ops.where(m, x, -np.inf), axis=-1), x, mask, ulps=8)
    agrees(device, lambda x, m: ops.max(ops.where(m, x, -np.inf), axis=-1), x, mask)
    bias = np.where(mask, 0, -np.inf).astype(np.float32)
    agrees(device, lambda x, b: ops.nn.softmax(x + b, axis=-1), x, bias, ulps=8)
    agrees(device, lambda x: (x * np.inf, ops.where(x > 1, np.inf, x), ops.minimum(x, -np.inf)), x)
    q, k, v = (np.random.default_rng(n).standard_normal((1, 2, 5, 8)).astype(np.float32) for n in range(3))
    agrees(device, lambda q, k, v: ops.nn.attention(q, k, v, causal=True), q, k, v, ulps=64)


@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_ties_of_halves(device: Device, dtype: DType) -> None:
    """Every number half-way between two neighbours, and what lies on either side of it, rounds to the even one."""
    past = int(np.array(dtype.max, dtype.dtype).view(np.uint16))
    bits = np.arange(past, dtype=np.uint16)
    low, high = (each.view(dtype.dtype).astype(np.float64) for each in (bits, bits + np.uint16(1)))
    middle = ((low + high) / 2).astype(np.float32)
    middle = np.concatenate([middle, -middle])
    smaller = middle[np.abs(middle) >= (2.0**-126 if device.target.has("subnormals") else 2.0**-110)]
    values = np.concatenate([smaller, np.nextafter(smaller, np.float32(0)), np.nextafter(smaller, np.float32(np.inf))])
    with np.errstate(all="ignore"):
        wanted = values.astype(dtype.dtype)
        found = np.asarray(poot.trace(lambda x: x.astype(dtype), device=device)(values))
        np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))
        # Sums whose exact value is a tie.
        one = np.array([1.0, 1.0, 2.0, -1.0], dtype.dtype)
        half = np.array([1.0, 3.0, 2.0, -1.0], dtype.dtype) * dtype.dtype.type(2.0 ** -(8 if dtype is bf16 else 11))
        agrees(device, lambda a, b: a + b, one, half)


# --- aliases, views and memory that goes -----------------------------------------------------------------------------


@poot.kernel
def shift(source: poot.In[f32], target: poot.InOut[f32]):
    i = poot.thread_index()
    if i < len(target):
        target[i] = source[i] + target[i]


def test_the_same_array_twice(device: Device) -> None:
    x = np.arange(5, dtype=np.float32)
    function = poot.trace(lambda a, b: (a * b, a - b), device=device)
    on = poot.asarray(x, device=device)
    for pair in ((x, x), (on, on), (on, x), (x[1:], x[:-1])):
        product, difference = function(*pair)
        one, two = (np.asarray(each) for each in pair)
        np.testing.assert_array_equal(np.asarray(product), one * two)
        np.testing.assert_array_equal(np.asarray(difference), one - two)
    with pytest.raises(LaunchError, match="source"):
        shift(on, on, threads=5, device=device)
    donated = poot.trace(lambda a, b: a + b, device=device, donate="a")
    result = donated(on, poot.asarray(x, device=device))
    np.testing.assert_array_equal(np.asarray(result), x + x)
    with pytest.raises(EngineError, match="donated"):
        np.asarray(on)


def test_one_input_of_an_engine_from_another_ones_output(device: Device) -> None:
    """What was read is pushed again, borrowed or not, and is read whole before it is written over."""
    graph = graph_of(lambda a, b: (b, a + b), f32[4], f32[4])
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, poot.compile(graph, device.target, OPTIONS))
    a, b = np.ones(4, np.float32), np.ones(4, np.float32)
    for borrow in (False, True, True, False):
        before = a.copy(), b.copy()
        a, b = engine.step(exe, entry, StepInputs().push("a0", a).push("a1", b)).read(borrow=borrow)
        np.testing.assert_array_equal(a, before[1])
        np.testing.assert_array_equal(b, before[0] + before[1])


def test_views_with_other_offsets(device: Device) -> None:
    """One compiled function and one kernel, on views that start anywhere and run in any direction."""
    base = np.arange(300, dtype=np.float32)
    function = poot.trace(lambda a, b: a * 2.0 + b, device=device)
    for start in (0, 1, 3, 16, 63, 64, 65):
        a, b = base[start : start + 100], base[200 - start : 100 - start : -1]
        np.testing.assert_array_equal(np.asarray(function(a, b)), a * 2 + b)
        target = np.zeros(310, np.float32)
        shift(a, target[start : start + 100], threads=100, device=device)
        np.testing.assert_array_equal(target[start : start + 100], a)
        assert not target[:start].any() and not target[start + 100 :].any()


def test_an_array_freed_between_two_replays(device: Device) -> None:
    """Replays after their arguments have gone, and after others have taken their memory."""
    function = poot.trace(lambda a, b: a * 2.0 + b, device=device)
    rng = np.random.default_rng(3)
    kept: list[tuple[Any, Array]] = []
    for turn in range(24):
        a, b = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
        on = [poot.asarray(a, device=device), poot.asarray(b, device=device)]
        kept.append((function(*on), a * 2 + b))
        del on
        if turn % 13 == 0:
            gc.collect()
        if turn % 2:
            found, wanted = kept.pop(rng.integers(len(kept)))
            np.testing.assert_array_equal(np.asarray(found), wanted)
            del found
    for found, wanted in kept:
        np.testing.assert_array_equal(np.asarray(found), wanted)


# --- threads ----------------------------------------------------------------------------------------------------------


def test_eight_threads_step_two_entries(device: Device) -> None:
    """Two exes of one engine, and entries that come and go meanwhile."""
    engine = Engine(device)

    def counting(gain: float) -> poot.Program:
        b = Builder(TraceLimits.STANDARD)
        total = b.state("total", f32[3]) + b.constant("w", f32[3]) * b.input("x", f32[3]) * gain
        return poot.compile(b.finish(total, updates={"total": total}), device.target, OPTIONS)

    exes = [engine.load_weights(WeightStore.from_arrays({"w": np.full(3, n + 1, np.float32)})) for n in range(2)]
    entries = [engine.add_entry(exe, counting(1.0)) for exe in exes]
    other = counting(2.0)
    one, steps, errors = np.ones(3, np.float32), 12, list[BaseException]()

    def work(number: int) -> None:
        try:
            exe, entry = exes[number % 2], entries[number % 2]
            for turn in range(steps):
                engine.step(exe, entry, StepInputs().push("x", one))
                if turn % 6 == 5:
                    extra = engine.add_entry(exe, other)
                    engine.step(exe, extra, StepInputs().push("x", one))
                    engine.remove_entry(extra)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for number, exe in enumerate(exes):
        assert exe.state["total"].tolist() == [4 * (steps + 2 * (steps // 6)) * (number + 1)] * 3
        engine.unload(exe)
    assert engine.stats.allocated_bytes == 0 and engine.stats.entries == 0


def test_threads_that_reset_and_step(device: Device) -> None:
    """Two states that every step moves together are never seen apart, whoever resets them meanwhile."""
    b = Builder(TraceLimits.STANDARD)
    first, second = b.state("first", f32[3]) + b.input("x", f32[3]), b.state("second", f32[3]) + 1.0
    program = poot.compile(b.finish(first - second, updates={"first": first, "second": second}), device.target, OPTIONS)
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, program)
    one, errors = np.ones(3, np.float32), list[BaseException]()
    done = threading.Event()

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def step() -> None:
        for _ in range(40):
            try:
                apart = engine.step(exe, entry, StepInputs().push("x", one)).read()
            except EngineError as error:  # another step came between the two
                assert "overwritten" in str(error)
                continue
            assert apart.tolist() == [0, 0, 0]

    def reset() -> None:
        while not done.is_set():
            exe.state.reset()

    def load() -> None:
        while not done.is_set():
            engine.unload(engine.load_weights(WeightStore.from_arrays({"w": one})))

    steppers = [threading.Thread(target=guarded(step)) for _ in range(3)]
    others = [threading.Thread(target=guarded(work)) for work in (reset, load)]
    for thread in (*steppers, *others):
        thread.start()
    for thread in steppers:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert not errors
    assert engine.stats.steps == 120
    assert (exe.state["first"] == exe.state["second"]).all()
    engine.unload(exe)
    assert engine.stats.allocated_bytes == 0 and engine.stats.entries == 0


def test_eight_threads_call_one_function(device: Device) -> None:
    function = poot.trace(lambda x, n: x * n + x[:1], device=device)
    x = np.arange(100, dtype=np.float32)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            if not np.array_equal(np.asarray(function(x + number, number)), (x + number) * number + number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- many compiles ----------------------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


PARTS = ("code", "interpreter", "program", "_tracker")
"""What a loaded kernel holds that is its own, where it cannot be referred to weakly itself."""


def test_compiles_beyond_every_cache(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that nobody uses any more go, with what the device made of them."""
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    monkeypatch.setattr(toolchain, "_KEPT", 2)
    module = __import__(type(device.backend).__module__, fromlist=["_"])
    for name in ("_PROGRAMS", "_KERNELS"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, 2)
            getattr(device.backend, name.lower()).clear()
    toolchain.clear_memory()
    original, loaded = device.backend.load, weakref.WeakSet[Any]()
    count = 0

    def load(compiled: Any) -> Any:
        nonlocal count
        count += 1
        made = original(compiled)
        part = made
        while part is not None and not hasattr(part, "__weakref__"):
            part = next((getattr(part, name) for name in PARTS if hasattr(part, name)), None)
        if part is not None:
            loaded.add(part)
        return made

    monkeypatch.setattr(device.backend, "load", load, raising=False)
    for number in range(7):
        result = stepped(
            device, graph_of(lambda x, number=number: x * 2.0 + float(number), f32[4]), np.ones(4, np.float32)
        )
        assert result.tolist() == [2.0 + number] * 4
    gc.collect()
    assert count == 7 and len(loaded) <= 3


@pytest.mark.slow
@pytest.mark.fuzz
def test_thousands_of_compiles(
    device: Device, cases: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 with --full: once every cache is full, which 1,500 programs see to, memory grows no more."""
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    count = cases(30, 5000)
    full, before = min(count // 2, 1500), 0
    with device:
        for number in range(count):
            result = poot.trace(lambda x, number=number: x * 2.0 + float(number))(np.ones(4, np.float32))
            assert float(np.asarray(result)[0]) == 2.0 + number
            if number == full:
                gc.collect()
                before = resident()
    gc.collect()
    each = (resident() - before) / (count - full)
    # Few programs fill the caches alone: the code of one, with all that a driver keeps of it, takes some 100 KiB.
    assert each < (4_000_000 if full < 1500 else 40_000), f"{each:.0f} bytes a program"


# --- code that does not build -----------------------------------------------------------------------------------------


@pytest.fixture
def broken(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A renderer that writes what the device's compiler does not take; undone within the test by `undo`."""
    (language, *_) = device.target.languages
    original = toolchain._languages[language]
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    if language == "native":
        from poot.backends.cpu import language as native

        def bad(kernel: Any, **options: Any) -> Any:
            source = native_render(kernel, **options)
            return dataclasses.replace(source, text=source.text.replace("ret void", "ret nonsense", 1))

        native_render = native.render
        monkeypatch.setattr(native, "render", bad)
    elif language == "triton":
        from poot.backends.cuda import language as cuda

        def foul(source: Any, arch: str, **options: Any) -> Any:
            text = "nonsense".join(source.text.rpartition("tl.store")[::2])
            return compile_triton(dataclasses.replace(source, text=text), arch, **options)

        compile_triton = cuda.compile_triton
        monkeypatch.setattr(cuda, "compile_triton", foul)
    elif language == "interpret":

        def refuse(*_: Any) -> Any:
            raise CompileError(what="kernel", target="interpret", message="nonsense")

        monkeypatch.setitem(toolchain._languages, "interpret", refuse)  # type: ignore[arg-type]
    else:

        def worse(kernel: Any, target: Any, contract: bool) -> Any:
            made = original(kernel, target, contract)
            head, brace, rest = made.artifact.text.rpartition("}")
            text = f"{head}  nonsense = 1;\n{brace}{rest}"
            return dataclasses.replace(made, artifact=dataclasses.replace(made.artifact, text=text))

        monkeypatch.setitem(toolchain._languages, language, worse)  # type: ignore[arg-type]
    yield monkeypatch


def test_a_kernel_that_does_not_build(device: Device, broken: pytest.MonkeyPatch) -> None:
    """The error has the device's log and our line; nothing stale is returned, and nothing of it is remembered."""
    toolchain.clear_memory()

    @poot.kernel
    def unlucky(x: poot.In[f32], y: poot.Out[f32]):
        i = poot.thread_index()
        if i < len(y):
            y[i] = x[i] * 17.25

    x, y = np.ones(8, np.float32), np.full(8, 7, np.float32)
    traced = poot.trace(lambda x: ops.exp(x) * 19.5, device=device)
    for _ in range(2):
        with pytest.raises(CompileError, match="nonsense") as caught:
            unlucky(x, y, threads=8, device=device)
        assert y.tolist() == [7.0] * 8
        with pytest.raises(CompileError, match="nonsense") as planned:
            traced(x)
        if device.name != "interpret":
            for error in (caught.value, planned.value):
                assert error.where is not None and error.where.file == __file__, str(error)
    broken.undo()
    toolchain.clear_memory()
    unlucky(x, y, threads=8, device=device)
    assert y.tolist() == [17.25] * 8
    np.testing.assert_allclose(np.asarray(traced(x)), np.exp(x) * np.float32(19.5), rtol=1e-6)
