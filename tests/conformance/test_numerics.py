"""docs/numerics.md, claim by claim, on every device."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poot.backends.device import BufferView, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import BY_NAME, DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u32, u64
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.expand.bounds import ULP
from poot.kernel.ir import FAULT_WORDS, Expr

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan
LEAST = {dtype: int(dtype.min) for dtype in (i8, i16, i32, i64)}


def compute(device_name: str, name: str, operands: Sequence[Array], result: DType | None = None) -> Array:
    """A row of the table, or a cast to `result`, on every element of the operands, on a device."""
    device = open_device(device_name)
    count = operands[0].size
    k = KernelBuilder(name, workgroup=(64, 1, 1), threads=(count, 1, 1))
    buffers = [k.buffer("x", _dtype(operand), "read", (count,)) for operand in operands]
    index = k.let(k.index("thread", 0), "i")
    loads: list[Expr] = [k.load(buffer, (index,)) for buffer in buffers]
    value = k.cast(loads[0], result) if result is not None else k.op(name, *loads)
    out = k.buffer("out", value.dtype, "write", (count,))
    k.store(out, (index,), value)
    compiled = compile_kernel(k.finish(), device.target)

    arrays = [*operands, np.zeros(count, value.dtype.dtype), np.zeros(FAULT_WORDS, np.int32)]
    views = [BufferView(device.allocate(array.nbytes)) for array in arrays]
    for view, array in zip(views, arrays, strict=True):
        device.write(view, np.ascontiguousarray(array))
    positions = tuple((number, 0) for number in range(len(arrays) - 1))
    launch = LaunchSpec(device.load(compiled), positions, (-(-count // 64), 1, 1))
    device.record([launch], views, (), (), len(arrays) - 1)
    device.read(views[-2], arrays[-2])
    for view in views:
        device.free(view.buffer)
    return arrays[-2]


def _dtype(array: Array) -> DType:
    return next(dtype for dtype in BY_NAME.values() if dtype.dtype == array.dtype)


def same(result: Array, expected: Sequence[Any], dtype: DType) -> bool:
    """Equal to the sign of zero; one NaN is as good as another."""
    wanted = np.array(expected, np.float64 if dtype.is_float else dtype.dtype).astype(dtype.dtype)
    if not dtype.is_float:
        return np.array_equal(result, wanted)
    a, b = result.astype(np.float64), wanted.astype(np.float64)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))))


BINARY: list[tuple[str, DType, list[tuple[Any, Any, Any]]]] = [
    *(
        (name, dtype, rows)
        for dtype, least in LEAST.items()
        for name, rows in (
            ("floor_div", [(-7, 2, -4), (7, -3, -3), (5, 0, 0), (0, 0, 0), (least, -1, least), (least, 1, least)]),
            ("rem", [(-7, 2, 1), (7, -3, -2), (5, 0, 0), (least, -1, 0), (-6, 3, 0)]),
            ("add", [(-least - 1, 1, least)]),
            ("mul", [(least, -1, least)]),
            ("shift_left", [(1, 3, 8), (1, dtype.bits, 0), (1, -1, 0), (1, dtype.bits - 1, least)]),
            ("shift_right", [(-8, 1, -4), (-8, dtype.bits, -1), (8, dtype.bits, 0), (-8, -1, -1), (8, 100, 0)]),
            ("pow", [(2, 3, 8), (2, dtype.bits, 0), (0, 0, 1), (2, -1, 0), (0, -2, 0), (1, -5, 1), (-1, -3, -1)]),
        )
    ),
    *(
        (name, dtype, rows)
        for dtype in (u8, u32, u64)
        for name, rows in (
            ("floor_div", [(7, 2, 3), (7, 0, 0), (dtype.max, 1, dtype.max)]),
            ("rem", [(7, 2, 1), (7, 0, 0)]),
            ("sub", [(0, 1, dtype.max)]),
            ("shift_right", [(dtype.max, dtype.bits - 1, 1), (dtype.max, dtype.bits, 0)]),
        )
    ),
    *(
        (name, dtype, rows)
        for dtype in (bf16, f16, f32, f64)
        for name, rows in (
            ("rem", [(-7, 2, 1), (7, -3, -2), (-6, 3, 0.0), (6, -3, -0.0), (1, 0, NAN), (INF, 2, NAN), (-1, INF, INF)]),
            ("floor_div", [(-7, 2, -4), (7, -3, -3), (1, 0, INF), (-1, 0, -INF), (0, 0, NAN), (-1, INF, -1)]),
            ("div", [(1, 0.0, INF), (1, -0.0, -INF), (0, 0, NAN)]),
            ("min", [(1, NAN, NAN), (NAN, 1, NAN), (0.0, -0.0, -0.0), (-0.0, 0.0, -0.0), (1, 2, 1)]),
            ("max", [(1, NAN, NAN), (NAN, 1, NAN), (0.0, -0.0, 0.0), (-0.0, 0.0, 0.0), (1, 2, 2)]),
            ("pow", [(NAN, 0, 1), (1, NAN, 1), (-8, 0.5, NAN), (-2, 3, -8), (-0.0, -1, -INF), (-1, INF, 1)]),
        )
    ),
]
COMPARISONS = {
    "eq": [(NAN, NAN, 0), (0.0, -0.0, 1)],
    "ne": [(NAN, NAN, 1), (1, NAN, 1), (0.0, -0.0, 0)],
    "lt": [(NAN, 1, 0), (1, NAN, 0), (-0.0, 0.0, 0)],
    "ge": [(NAN, 1, 0), (1, NAN, 0), (-0.0, 0.0, 1)],
}


@pytest.mark.parametrize(("name", "dtype", "rows"), BINARY, ids=lambda value: str(value)[:12])
def test_operations(device_name: str, name: str, dtype: DType, rows: list[tuple[Any, Any, Any]]) -> None:
    kind = np.float64 if dtype.is_float else dtype.dtype
    a, b = (np.array([row[side] for row in rows], kind).astype(dtype.dtype) for side in (0, 1))
    result = compute(device_name, name, (a, b))
    assert same(result, [row[2] for row in rows], dtype), [*zip(rows, result.tolist(), strict=True)]


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_comparisons(device_name: str, name: str, dtype: DType) -> None:
    rows = COMPARISONS[name]
    a, b = (np.array([row[side] for row in rows], np.float64).astype(dtype.dtype) for side in (0, 1))
    assert compute(device_name, name, (a, b)).tolist() == [bool(row[2]) for row in rows]


@pytest.mark.parametrize("dtype", LEAST, ids=str)
def test_the_least_integer(device_name: str, dtype: DType) -> None:
    least = np.array([LEAST[dtype]], dtype.dtype)
    assert compute(device_name, "neg", (least,)).tolist() == [LEAST[dtype]]
    assert compute(device_name, "abs", (least,)).tolist() == [LEAST[dtype]]
    assert compute(device_name, "clz", (np.zeros(1, dtype.dtype),)).tolist() == [dtype.bits]


FLOATS_TO_CAST = [0.0, -0.9, 1.9, -1.9, 300.7, -300.7, 3e9, -3e9, 1e30, -1e30, INF, -INF, NAN]


@pytest.mark.parametrize("target", [u8, i8, i16, i32, u32, i64, u64], ids=str)
@pytest.mark.parametrize("source", [f32, f64], ids=str)
def test_floats_to_integers(device_name: str, source: DType, target: DType) -> None:
    values = np.array(FLOATS_TO_CAST, source.dtype)
    expected = [
        0 if math.isnan(v) else min(max(math.trunc(v) if math.isfinite(v) else v, target.min), target.max)
        for v in values.tolist()
    ]
    assert compute(device_name, "cast", (values,), target).tolist() == [int(e) for e in expected]


def test_other_casts(device_name: str) -> None:
    wide = np.array([300, -1, 2**40 + 5], np.int64)
    assert compute(device_name, "cast", (wide,), u8).tolist() == [44, 255, 5]
    assert compute(device_name, "cast", (wide,), i8).tolist() == [44, -1, 5]
    truths = np.array([0.0, -0.0, 1e-30, NAN], np.float32)
    assert compute(device_name, "cast", (truths,), bool_).tolist() == [False, False, True, True]
    assert compute(device_name, "cast", (np.array([True, False]),), f32).tolist() == [1.0, 0.0]
    whole = np.array([2**24 + 1, 2**24 + 3], np.int32)
    assert compute(device_name, "cast", (whole,), f32).tolist() == [2.0**24, 2.0**24 + 4]
    past = np.array([65520.0, 65519.0, -1e30, 1e-8], np.float32)
    assert compute(device_name, "cast", (past,), f16).tolist() == [INF, 65504.0, -INF, 0.0]


@pytest.mark.parametrize(("target", "digits"), [(bf16, 8), (f16, 11), (f32, 24)], ids=str)
def test_narrowing_rounds_once(device_name: str, target: DType, digits: int) -> None:
    """Just above the middle of two values: a rounding on the way would make it the middle, and end at the even one."""
    values = np.array([1 + 2.0**-digits + 2.0**-45, 1 + 2.0**-digits, 1 + 3 * 2.0**-digits - 2.0**-45])
    result = compute(device_name, "cast", (values,), target).astype(np.float64)
    step = 2.0 ** (1 - digits)
    assert result.tolist() == [1 + step, 1.0, 1 + step]


@pytest.mark.parametrize("name", ["sin", "tanh", "erf", "expm1", "log1p", "asinh", "sign", "neg", "trunc"])
def test_signed_zeros(device_name: str, name: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    expected = [-0.0, 0.0] if name == "neg" else zeros
    assert same(compute(device_name, name, (zeros,)), expected, f32)


def test_subnormal_numbers(device_name: str) -> None:
    """They are kept, or are zero on a target without the feature, which only a GPU's language may lack."""
    keeps = open_device(device_name).target.has("subnormals")
    assert keeps or device_name not in ("cpu", "interpret")
    least = np.array([2.0**-149], np.float32)
    assert compute(device_name, "add", (least, least)).tolist() == [2.0**-148 if keeps else 0.0]
    assert compute(device_name, "exp2", (np.array([-149.0], np.float32),)).tolist() == [2.0**-149 if keeps else 0.0]
    assert compute(device_name, "cast", (least,), bool_).tolist() in ([True], [keeps])


def test_the_page_shows_the_bounds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text("utf-8")
    shown = {
        name: float(bound)
        for names, bound in re.findall(r"^\| (`.*`) \| ([0-9.]+) \|$", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert shown == dict(ULP)
    assert set(shown) <= {row.name for row in ops.table()}
