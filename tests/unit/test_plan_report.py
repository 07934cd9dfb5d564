"""The report of a program: what it counts, in loops and branches too, and that it is data as well as text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.dtypes import i32
from poot.kernel.build import KernelBuilder
from poot.plan.report import LaunchReport, Report, Work
from poot.plan.serial import dump_program, load_program
from poot.plan.touched import touched

SQUARE = f32[32, 32]


def report_of(function: Any, *specs: Any, device: str = "cpu", **options: Any) -> Report:
    return poot.trace(function).program(*specs, device=device, **options).report()


def launches_of(report: Report, kernel: str) -> list[LaunchReport]:
    return [each for each in report.launches if kernel in each.kernel]


# --- flops ------------------------------------------------------------------------------------------------------------

COUNTS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "product": (lambda x, w: x @ w, (f32[5, 7], f32[7, 11]), 2 * 5 * 7 * 11),
    "batched": (lambda x, w: ops.einsum("bij,bjk->bik", x, w), (f32[3, 5, 7], f32[3, 7, 11]), 3 * 2 * 5 * 7 * 11),
    "elementwise": (lambda x: ops.tanh(x) * 1.5 + x, (f32[40],), 3 * 40),
    "sum": (lambda x: ops.sum(x, axis=1), (f32[6, 9],), 6 * 8),
    "moves": (lambda x: ops.where(x > 0, -x, x.T), (f32[6, 6],), 0),
    "whole numbers": (lambda x: x * 3 + 1, (i32[40],), 0),
    "softmax": (lambda x: ops.nn.softmax(x), (f32[6, 9],), 6 * (8 + 9 + 9 + 8 + 9)),
    "bias": (lambda x, w, b: x @ w + b, (f32[5, 7], f32[7, 11], f32[11]), 2 * 5 * 7 * 11 + 5 * 11),
    "a long sum, in two launches": (lambda x: ops.sum(x), (f32[1 << 20],), (1 << 20) - 1),
    "attention": (
        lambda q, k, v: ops.nn.softmax(q @ k.mT) @ v,
        (f32[4, 64, 16],) * 3,
        4 * 64 * (2 * 64 * 16 * 2 + 63 + 64 + 64 + 63 + 64),
    ),
    "few rows, in slabs": (lambda x, w: x @ w, (f32[2, 4096], f32[4096, 512]), 2 * 2 * 4096 * 512),
    "rows off the contracted axis": (lambda x, w: x.T @ w, (f32[64, 64], f32[64, 64]), 2 * 64**3),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_flops_are_those_of_the_equations(name: str, device: str) -> None:
    function, specs, count = COUNTS[name]
    report = report_of(function, *specs, device=device)
    assert report.work.flops == count == sum(each.flops or 0 for each in report.launches)
    assert report.per_turn == Work() and report.uncounted == ()


def test_what_is_done_once_is_counted_apart() -> None:
    report = report_of(lambda x, w: x @ ops.tanh(w), f32[64, 64], f32[64, 64], constants=("w",))
    assert report.once.flops == 64 * 64 and report.work.flops == 2 * 64**3
    assert [each.flops for each in report.prologue] == [64 * 64]


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_bytes_are_those_that_are_read_and_written() -> None:
    work = report_of(lambda x, y: x + y, f32[100], f32[100]).work
    assert (work.bytes_read, work.bytes_written) == (800, 400)
    work = report_of(lambda x: x[3] * 2, f32[50, 100]).work
    assert (work.bytes_read, work.bytes_written) == (400, 400)


def test_a_launch_touches_what_its_indices_reach() -> None:
    k = KernelBuilder("some", workgroup=(8, 1, 1))
    turn = k.buffer("turn", i32, "read", (1,))
    rows = k.buffer("rows", f32, "read", (10, 100))
    out = k.buffer("out", f32, "write", (400,))
    row = k.let(k.load(turn, (k.i(0),)), "row")
    with k.for_(k.i(0), k.i(5), hint="j") as j:
        place = k.op("add", k.op("mul", k.index("group", 0), k.i(5)), j)
        k.store(out, (k.op("add", k.op("mul", row, k.i(100)), place),), k.load(rows, (row, place)))
    kernel = k.finish()
    assert touched(kernel, (4, 1, 1)) == {"turn": 1, "rows": 20, "out": 20}
    assert touched(kernel, (100, 1, 1)) == {"turn": 1, "rows": 100, "out": 400}


# --- loops and branches -----------------------------------------------------------------------------------------------


def scanned(x: Any, xs: Any) -> Any:
    def turn(carry: Any, row: Any) -> Any:
        return ops.nn.softmax(carry @ row), ops.sum(carry, axis=0)

    return ops.scan(turn, x, xs)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("length", [1, 10])
def test_a_scan_counts_every_turn(device: str, length: int) -> None:
    report = report_of(scanned, SQUARE, f32[length, 32, 32], device=device)
    turn = 2 * 32**3 + 32 * (31 + 32 + 32 + 31 + 32) + 32 * 31
    assert report.work.flops == length * turn and report.per_turn == Work()
    (product,) = launches_of(report, "dot_general")
    assert (product.times, product.flops, product.per_turn) == (length, 2 * 32**3, False)
    # Each turn reads its own slice of what the scan goes along, and stores into its own place.
    assert report.work.bytes_read < length * 7 * 32 * 32 * 4 + 32 * 32 * 4
    assert report.work.bytes_written < length * 5 * 32 * 32 * 4 + 32 * 32 * 4


def test_turns_inside_a_kernel_count_too() -> None:
    report = report_of(lambda x, xs: ops.scan(lambda c, y: (c * 0.5 + y, ops.tanh(c)), x, xs), f32[64], f32[10, 64])
    (launch,) = report.launches
    assert launch.kernel.startswith("turns_of") and launch.flops == 10 * 3 * 64 == report.work.flops


def test_loops_of_unknown_length_count_by_the_turn() -> None:
    def halved(x: Any) -> Any:
        return ops.while_loop(lambda c: ops.sum(c) > 1, lambda c: c @ c, x)

    report = report_of(halved, SQUARE)
    assert report.per_turn.flops == 2 * 32**3 + 32 * 32 - 1
    assert report.work.flops == 32 * 32 - 1  # the condition before the first turn
    assert all(each.per_turn for each in launches_of(report, "dot_general"))
    assert "per turn of loops of unknown length: 2 launches" in str(report)


def test_loops_in_loops_multiply() -> None:
    def nested(x: Any) -> Any:
        def inner(c: Any, _: Any) -> Any:
            return c @ c, None

        def outer(c: Any, _: Any) -> Any:
            return ops.scan(inner, c, None, length=3)[0], None

        return ops.scan(outer, x, None, length=5)[0]

    report = report_of(nested, SQUARE)
    assert report.work.flops == 15 * 2 * 32**3
    assert [each.times for each in launches_of(report, "dot_general")] == [15]


def test_a_branch_counts_its_greater_side() -> None:
    def either(x: Any) -> Any:
        return ops.cond(ops.sum(x) > 0, lambda x: x @ x, lambda x: ops.tanh(x), x)

    report = report_of(either, SQUARE)
    assert report.work.flops == 2 * 32**3 + 32 * 32 - 1
    assert [each.conditional for each in launches_of(report, "dot_general")] == [True]


# --- the rest ---------------------------------------------------------------------------------------------------------


@poot.kernel
def double(x: poot.In[f32], y: poot.Out[f32]) -> None:
    i = poot.thread_index("x")
    y[i] = x[i] * 2.0


def test_kernels_written_by_hand_are_not_counted() -> None:
    report = report_of(lambda x: double(x, f32[64], threads=64) + 1.0, f32[64])
    assert report.uncounted == ("double",) and report.work.flops == 64
    assert [each.flops for each in launches_of(report, "double")] == [None]
    assert "not counted: double" in str(report)


def test_declines_have_reasons_and_lines() -> None:
    report = report_of(scanned, SQUARE, f32[4, 32, 32])
    (decline,) = [each for each in report.declined if "dot_general" in each.what]
    assert decline.by == "fuse" and decline.reason and "in the body of equation 0 (scan)" in decline.what
    assert decline.line is not None and decline.line.startswith(__file__)
    assert f"declined: {decline.what}: {decline.reason} ({decline.line})" in str(report)


def test_declines_are_numbered_as_the_body_is() -> None:
    program = poot.trace(scanned).program(SQUARE, f32[4, 32, 32], device="cpu")
    body = program.planned.equations[0].regions[0]
    (decline,) = [each for each in program.report().declined if "(dot_general)" in each.what]
    number = int(decline.what.split()[1])
    assert body.equations[number].primitive == "dot_general"


def test_declines_say_in_which_part_of_what_they_are() -> None:
    def turn(c: Any) -> Any:
        return ops.cond(ops.sum(c @ c) > 0, lambda c: c @ c @ c, lambda c: c * 2.0, c)

    report = report_of(lambda x: ops.while_loop(lambda c: ops.sum(c @ x) > 1, turn, x), SQUARE)
    whats = " ".join(each.what for each in report.declined)
    assert "(dot_general) in the condition of equation 0 (while_loop)" in whats
    assert "of the condition (dot_general) in the body of equation 0 (while_loop)" in whats
    assert "(cond) in the body of equation 0 (while_loop)" in whats and "in the true branch of equation" in whats


def test_loops_of_one_kernel_decline_nothing() -> None:
    report = report_of(lambda x: ops.scan(lambda c, _: (ops.cumsum(c), None), x, None, length=9)[0], f32[4])
    assert any(each.kernel.startswith("turns_of") for each in report.launches) and not report.declined


def test_it_is_data_and_text() -> None:
    program = poot.trace(scanned).program(SQUARE, f32[4, 32, 32], device="cpu")
    report = program.report()
    data = report.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["work"]["flops"] == report.work.flops and data["storage"]["ratio"] == report.storage.ratio
    assert data["launches"][0]["kernel"] == report.launches[0].kernel and data["fates"] == dict(report.fates)
    assert str(report) == repr(report) and "kFLOP" in str(report)
    loaded = load_program(dump_program(program)).report()
    assert loaded == report and loaded.declined[0].line is None


def test_storage_is_told() -> None:
    storage = report_of(lambda x: ops.nn.softmax(x @ x) @ x @ x, f32[64, 64]).storage
    assert storage.liveness_bound <= storage.arena_bytes <= storage.scratch_bytes
    assert storage.output_bytes == 64 * 64 * 4 and storage.reuse >= 1.0
    assert np.isclose(storage.ratio, storage.arena_bytes / max(storage.liveness_bound, 1))
