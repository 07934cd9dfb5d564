"""The interpreter: atomics, control flow, faults, and what a launch refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import DType, bf16, bool_, f16, f32, i32, i64, u8, u32
from poot.errors import KernelFault, LaunchError, SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.faults import fault_error, new_record
from poot.kernel.interpret import Interpreter, bind, run
from poot.kernel.ir import Expr, Kernel
from tests.kernel_reference import run_reference
from tests.unit.test_kernel_interpret import copy, gathered, launch

Array = np.ndarray[Any, Any]


# --- atomics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor", "exchange"])
@pytest.mark.parametrize("seen", [False, True])
def test_atomics_run_in_the_order_of_threads(op: str, seen: bool) -> None:
    n = 50
    k = KernelBuilder("atomic", workgroup=(8, 1, 1), threads=(n, 1, 1))
    total = k.buffer("total", u32, "readwrite", (4,))
    out = k.buffer("out", u32, "readwrite", (n,))
    i = k.index("thread", 0)
    value = k.bitcast(k.op("mul", k.op("add", i, k.i(3)), k.i(77777777)), u32)
    old = k.atomic(op, total, (k.op("rem", k.op("mul", i, i), k.i(4)),), value, checked=True)  # type: ignore[arg-type]
    if seen:
        k.store(out, (i,), old)
    kernel = k.finish()

    def values() -> dict[str, Array]:
        return {"total": np.array([5, 2**31, 9, 2**32 - 1], np.uint32), "out": np.zeros(n, np.uint32)}

    result, expected = values(), values()
    launch(kernel, result, (7, 1, 1))
    run_reference(kernel, expected, (7, 1, 1), (n, 1, 1))
    for name, array in result.items():
        np.testing.assert_array_equal(array, expected[name])


def test_compare_exchange_lets_one_thread_through() -> None:
    k = KernelBuilder("lock", workgroup=(8, 1, 1), threads=(40, 1, 1))
    lock = k.buffer("lock", i32, "readwrite", ())
    out = k.buffer("out", i32, "write", (40,))
    i = k.index("thread", 0)
    with k.if_(k.op("ge", i, k.i(5))):
        k.store(out, (i,), k.atomic("compare_exchange", lock, (), i, compare=k.i(-1)))
    held, result = np.array(-1, np.int32), np.zeros(40, np.int32)
    launch(k.finish(), {"lock": held, "out": result}, (5, 1, 1))
    assert held == 5
    assert result.tolist() == [0] * 5 + [-1] + [5] * 34


def test_a_histogram_of_floats() -> None:
    k = KernelBuilder("sum", workgroup=(8, 1, 1), threads=(1000, 1, 1))
    total = k.buffer("total", f32, "readwrite", (3,))
    i = k.index("thread", 0)
    k.atomic("add", total, (k.op("rem", i, k.i(3)),), k.cast(i, f32))
    sums = np.zeros(3, np.float32)
    launch(k.finish(), {"total": sums}, (125, 1, 1))
    assert sums.tolist() == [sum(range(start, 1000, 3)) for start in range(3)]


# --- flow -----------------------------------------------------------------------------------------------------------


def test_nested_flow_with_exits() -> None:
    n = 60
    k = KernelBuilder("flow", workgroup=(8, 1, 1), threads=(n, 1, 1))
    out = k.buffer("out", i32, "write", (n, 2))
    i = k.index("thread", 0)
    total = k.let(k.i(0), "total")
    with k.for_(k.op("rem", i, k.i(4)), k.op("floor_div", i, k.i(3)), 2) as a:
        with k.if_(k.op("eq", k.op("rem", a, k.i(5)), k.i(3))):
            k.continue_()
        with k.while_(k.op("lt", total, k.op("mul", a, i))):
            k.assign(total, k.op("add", total, k.op("add", a, k.i(1))))
            with k.if_(k.op("gt", total, k.i(90))):
                k.break_()
            with k.if_(k.op("eq", k.op("rem", k.op("add", total, i), k.i(37)), k.i(0))):
                k.store(out, (i, k.i(1)), k.i(7))
                k.return_()
    with k.for_(k.i(3), k.op("neg", k.op("rem", i, k.i(3))), -1) as down:
        k.assign(total, k.op("sub", total, down))
    k.store(out, (i, k.i(0)), total)
    kernel = k.finish()
    result, expected = np.zeros((n, 2), np.int32), np.zeros((n, 2), np.int32)
    launch(kernel, {"out": result}, (8, 1, 1))
    run_reference(kernel, {"out": expected}, (8, 1, 1), (n, 1, 1))
    np.testing.assert_array_equal(result, expected)
    assert 0 < (result[:, 1] == 7).sum() < n


def test_loops_to_the_ends_of_their_dtype() -> None:
    k = KernelBuilder("ends", workgroup=(8, 1, 1), threads=(8, 1, 1))
    out = k.buffer("out", i32, "readwrite", (8,))
    i = k.index("thread", 0)
    high, low = k.i(2**31 - 1), k.i(-(2**31))
    for start, stop, step in [(k.op("sub", high, i), high, 3), (low, high, 2**31 - 1), (k.op("add", low, i), low, -1)]:
        with k.for_(start, stop, step):
            k.store(out, (i,), k.op("add", k.load(out, (i,)), k.i(1)))
    with k.for_(k.const(250, u8), k.const(255, u8), 2):
        k.store(out, (i,), k.op("add", k.load(out, (i,)), k.i(100)))
    kernel = k.finish()
    result, expected = np.zeros(8, np.int32), np.zeros(8, np.int32)
    launch(kernel, {"out": result}, (1, 1, 1))
    run_reference(kernel, {"out": expected}, (1, 1, 1), (8, 1, 1))
    np.testing.assert_array_equal(result, expected)
    assert result[7] == 3 + 3 + 7 + 300


def test_half_floats_compute_in_f32_and_round_once() -> None:
    for dtype in (f16, bf16):
        k = KernelBuilder("half", workgroup=(8, 1, 1), threads=(64, 1, 1))
        x = k.buffer("x", dtype, "read", (64,))
        y = k.buffer("y", dtype, "write", (2, 64))
        i = k.index("thread", 0)
        a, b = k.load(x, (i,)), k.load(x, (k.op("sub", k.i(63), i),))
        k.store(y, (k.i(0), i), k.op("mul", a, b))
        k.store(y, (k.i(1), i), k.op("max", k.op("neg", a), b))
        values = np.random.default_rng(3).standard_normal(64).astype(dtype.dtype)
        result = np.zeros((2, 64), dtype.dtype)
        launch(k.finish(), {"x": values, "y": result}, (8, 1, 1))
        wide = values.astype(np.float32)
        np.testing.assert_array_equal(result[0], (wide * wide[::-1]).astype(dtype.dtype))
        np.testing.assert_array_equal(result[1], np.maximum(-wide, wide[::-1]).astype(dtype.dtype))


@pytest.mark.parametrize("dtype", [f16, bf16, bool_, u8], ids=str)
def test_locals_of_narrow_dtypes_change_under_a_mask(dtype: DType) -> None:
    k = KernelBuilder("narrow", workgroup=(8, 1, 1), threads=(16, 1, 1))
    x = k.buffer("x", dtype, "read", (16,))
    y = k.buffer("y", dtype, "write", (16,))
    i = k.index("thread", 0)
    chosen = k.let(k.load(x, (k.i(3),)), "chosen")
    with k.if_(k.op("lt", i, k.i(5))):
        k.assign(chosen, k.const(1, dtype))
    with k.if_(k.op("gt", i, k.i(11))):
        k.assign(chosen, k.load(x, (i,)))
    k.store(y, (i,), k.op("select", k.op("eq", i, k.i(7)), k.const(0, dtype), chosen))
    values = (np.arange(16) % 5).astype(dtype.dtype)
    result = np.zeros(16, dtype.dtype)
    launch(k.finish(), {"x": values, "y": result}, (2, 1, 1))
    expected = np.array([1] * 5 + [3] * 7 + [2, 3, 4, 0]).astype(dtype.dtype)
    expected[7] = 0
    np.testing.assert_array_equal(result, expected)


# --- faults ---------------------------------------------------------------------------------------------------------


def faulty() -> Kernel:
    k = KernelBuilder("faulty", workgroup=(8, 1, 1), threads=(20, 1, 1))
    x = k.buffer("x", i32, "read", (None, 4))
    y = k.buffer("y", i32, "readwrite", (20,))
    i = k.index("thread", 0)
    k.where = SourceLocation("faulty.py", 2)
    value = k.let(k.load(x, (i, k.op("sub", i, k.i(2))), checked=True), "value")
    k.where = SourceLocation("faulty.py", 3)
    k.store(y, (k.op("add", i, k.i(15)),), k.op("add", value, k.i(100)), checked=True)
    k.where = SourceLocation("faulty.py", 4)
    k.assertion(k.op("lt", i, k.i(19)), "few threads")
    return k.finish()


def test_a_failed_check_yields_0_stores_nothing_and_goes_on() -> None:
    x, y, record = np.arange(16, dtype=np.int32).reshape(4, 4), np.full(20, -1, np.int32), new_record()
    launch(faulty(), {"x": x, "y": y}, (3, 1, 1), fault=record, launch=7)
    assert y.tolist() == [-1] * 15 + [100, 100, 108, 113, 100]
    assert record.tolist() == [1, 7, 0, 1, -2, -1, 4, 0]
    assert str(fault_error(faulty(), record)) == (
        "kernel faulty: index -2 of x is outside axis 1 of extent 4\n  at faulty.py:2\n"
        "  Remedy: guard the access, or launch fewer threads."
    )


def test_the_first_fault_is_kept() -> None:
    x, y, record = np.zeros((4, 4), np.int32), np.zeros(20, np.int32), new_record()
    record[0] = 1
    launch(faulty(), {"x": x, "y": y}, (3, 1, 1), fault=record)
    assert record.tolist() == [1] + [0] * 7


def test_without_a_record_faults_raise() -> None:
    with pytest.raises(KernelFault, match=r"index -2 of x is outside axis 1 of extent 4"):
        launch(faulty(), {"x": np.zeros((4, 4), np.int32), "y": np.zeros(20, np.int32)}, (3, 1, 1))


def test_assertions() -> None:
    k = KernelBuilder("asserts", workgroup=(8, 1, 1), threads=(None, 1, 1))
    out = k.buffer("out", i32, "write", (None,))
    i = k.index("thread", 0)
    k.where = SourceLocation("asserts.py", 9)
    with k.if_(k.op("gt", i, k.i(2))):
        k.assertion(k.op("lt", i, k.i(5)), "i < 5")
    k.store(out, (i,), k.i(1))
    kernel, out, record = k.finish(), np.zeros(6, np.int32), new_record()
    launch(kernel, {"out": out[:5]}, (1, 1, 1), threads=[5], fault=record)
    assert not record.any()
    launch(kernel, {"out": out}, (1, 1, 1), threads=[6], fault=record)
    assert out.all()
    assert str(fault_error(kernel, record)) == "kernel asserts: assertion failed: i < 5\n  at asserts.py:9"


def test_large_indices_are_kept_whole() -> None:
    k = KernelBuilder("wide", workgroup=(8, 1, 1), index_dtype=i64)
    x = k.buffer("x", u8, "write", (None,))
    k.store(x, (k.const(2**40 + 5, i64),), k.const(1, u8), checked=True)
    kernel, record = k.finish(), new_record()
    launch(kernel, {"x": np.zeros(3, np.uint8)}, (1, 1, 1), fault=record)
    assert "index 1099511627781 of x is outside axis 0 of extent 3" in str(fault_error(kernel, record))


def test_an_unchecked_access_outside_its_memory_is_no_silent_error() -> None:
    k = KernelBuilder("loose", workgroup=(8, 1, 1), threads=(9, 1, 1))
    x = k.buffer("x", i32, "readwrite", (8,))
    i = k.index("thread", 0)
    with k.if_(k.op("ne", k.op("rem", i, k.i(3)), k.i(1))):
        k.store(x, (i,), k.load(x, (k.i(0),)))
    with pytest.raises(KernelFault, match="an unchecked access of `x` is outside its memory"):
        launch(k.finish(), {"x": np.zeros(8, np.int32)}, (2, 1, 1))


def test_inactive_lanes_touch_nothing() -> None:
    def body(k: KernelBuilder, i: Expr, at: Expr) -> None:
        with k.if_(k.op("lt", i, k.i(20))):
            twice = k.op("mul", i, k.i(2))
            k.store("out", (twice,), k.load("x", (k.op("mul", at, k.op("sub", k.i(0), k.i(0))),)))
            k.store("out", (twice,), k.load("x", (twice,)))

    out, _ = gathered(body)
    np.testing.assert_array_equal(out[::2], np.arange(0, 40, 2))
    assert (out[1::2] == -1).all()


# --- launches -------------------------------------------------------------------------------------------------------


def refused(kernel: Kernel, arguments: list[object], groups: tuple[int, int, int] = (1, 1, 1)) -> str:
    with pytest.raises(LaunchError) as caught:
        run(kernel, arguments, groups=groups)
    return caught.value.summary


def test_arguments_that_do_not_fit() -> None:
    kernel = copy(1)
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    assert refused(kernel, [x]) == "kernel copy: 1 arguments given, 9 expected"
    assert (
        refused(kernel, [x.astype(np.int32), 4, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` is int32(4,), expected flat contiguous f32"
    )
    assert (
        refused(kernel, [x.reshape(2, 2), 4, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` is float32(2, 2), expected flat contiguous f32"
    )
    assert (
        refused(kernel, [x, 4, 2, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has 4 elements of memory, fewer than its extents (4,) and strides (2,) reach"
    )
    assert (
        refused(kernel, [x, -1, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has extents (-1,) and strides (1,), which i32 indices cannot hold"
    )
    assert (
        refused(kernel, [x, 1, 2**31, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has extents (1,) and strides (2147483648,), which i32 indices cannot hold"
    )
    y.flags.writeable = False
    assert (
        refused(kernel, [x, 4, 1, y, 4, 1, 4, 1, 1]) == "kernel copy: `y` is read-only memory, and the kernel writes it"
    )


def test_strides_of_part_elements() -> None:
    records = np.zeros(4, np.dtype([("a", np.int8), ("b", np.float32)]))
    with pytest.raises(LaunchError, match=r"`x` has strides \(5,\) that are no multiples of its 4 bytes"):
        bind(copy(1), {"x": records["b"], "y": np.zeros(4, np.float32)}, threads=[4, 1, 1])


def test_partial_groups_cannot_meet() -> None:
    k = KernelBuilder("meet", workgroup=(8, 1, 1), threads=(None, 1, 1))
    k.barrier()
    kernel = k.finish()
    assert refused(kernel, [12], (2, 1, 1)) == "kernel meet: 12 threads on axis 0 are no multiple of the work-group's 8"
    run(kernel, [16], groups=(2, 1, 1))


def test_a_grid_past_the_index_dtype() -> None:
    k = KernelBuilder("far", workgroup=(1024, 1, 1))
    assert refused(k.finish(), [], (2**22, 1, 1)) == "kernel far: 4294967296 threads on axis 0 are more than i32 counts"


def test_one_interpreter_runs_many_times() -> None:
    interpreter = Interpreter(copy(1))
    for n in (3, 8, 0, 5):
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        interpreter.run(bind(interpreter.kernel, {"x": x, "y": y}, threads=[n, 1, 1]), groups=(1, 1, 1))
        np.testing.assert_array_equal(x, y)


def test_what_no_turn_changes_is_evaluated_once_and_right() -> None:
    """Index arithmetic moves out of the loops that leave it alone, and out of no other."""
    n = 12
    k = KernelBuilder("hoist", workgroup=(4, 1, 1), threads=(n, 1, 1))
    out = k.buffer("out", i32, "readwrite", (n, 400))
    i = k.index("thread", 0)
    base = k.let(k.op("mul", i, k.i(3)), "base")
    moving = k.let(k.i(1), "moving")
    with k.for_(k.i(0), k.i(4), hint="a") as a:
        with k.for_(k.i(0), k.op("rem", i, k.i(5)), hint="b") as b:
            fixed = k.op("add", k.op("mul", base, k.i(2)), k.i(1))
            outer = k.op("sub", k.op("mul", a, k.i(7)), base)
            inner = k.op("add", k.op("mul", b, k.i(5)), k.op("mul", moving, k.i(3)))
            place = k.op("rem", k.op("add", k.op("add", fixed, outer), inner), k.i(400))
            k.store(out, (i, place), k.op("add", k.load(out, (i, place)), outer))
            k.assign(moving, k.op("add", moving, k.op("mul", a, k.i(2))))
        with k.while_(k.op("lt", moving, k.op("mul", a, k.i(9)))):
            k.assign(moving, k.op("add", moving, k.op("add", k.op("mul", i, k.i(2)), k.i(1))))
    kernel = k.finish()
    result, expected = np.zeros((n, 400), np.int32), np.zeros((n, 400), np.int32)
    launch(kernel, {"out": result}, (3, 1, 1))
    run_reference(kernel, {"out": expected}, (3, 1, 1), (n, 1, 1))
    np.testing.assert_array_equal(result, expected)


def test_collectives_of_a_single_thread() -> None:
    """A launch without any axis: one group of one thread, which no number tells from another."""
    k = KernelBuilder("alone", workgroup=(1, 1, 1))
    x, y = k.buffer("x", i32, "read", (1,)), k.buffer("y", i32, "write", (4,))
    value = k.let(k.load(x, (k.i(0),)))
    for place, op in enumerate(("sum", "max", "min", "scan")):
        k.store(y, (k.i(place),), k.collective(op, value))
    found = np.zeros(4, np.int32)
    kernel = k.finish()
    run(kernel, bind(kernel, {"x": np.array([7], np.int32), "y": found}), groups=(1, 1, 1))
    assert found.tolist() == [7, 7, 7, 7]
