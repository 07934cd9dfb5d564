"""Every native operation and every cast of kernels on every device, on special values, against NumPy and exact sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from poot.backends.device import open_device
from poot.dtypes import ALL, INTEGERS, DType, bf16, bool_, f16
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr, Var
from tests.closeness import outcomes
from tests.device_runs import assert_same, launch, supported
from tests.unit.test_render_native_ops import converted, rows, specials

ARITHMETIC = [dtype for dtype in ALL if dtype not in (f16, bf16)]


def batches(device_name: str, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """As many at a time as a device has bindings for, beside three operands and the fault record."""
    count = open_device(device_name).target.limit("buffers") - 4
    for start in range(0, len(items), count):
        yield items[start : start + count]


class Sheet:
    """A kernel over the elements of some arrays, with a column of results for each expression."""

    def __init__(self, **inputs: np.ndarray) -> None:
        self.inputs = inputs
        self.n = n = len(next(iter(inputs.values())))
        self.k = KernelBuilder("sheet", workgroup=(32, 1, 1), threads=(n, 1, 1))
        self.i = self.k.index("thread", 0)
        self.vars: dict[str, Var] = {}
        for name, array in inputs.items():
            dtype = next(d for d in ALL if d.dtype == array.dtype)
            self.vars[name] = self.k.let(self.k.load(self.k.buffer(f"in_{name}", dtype, "read", (n,)), (self.i,)), name)
        self.columns: dict[str, np.ndarray] = {}

    def column(self, name: str, value: Expr) -> None:
        self.k.store(self.k.buffer(name, value.dtype, "write", (self.n,)), (self.i,), value)
        self.columns[name] = np.zeros(self.n, value.dtype.dtype)

    def run(self, device_name: str) -> dict[str, np.ndarray]:
        values = {f"in_{name}": array for name, array in self.inputs.items()} | self.columns
        launch(open_device(device_name), self.k.finish(), values, groups=(-(-self.n // 32), 1, 1))
        return self.columns


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_native_rows(device_name: str, dtype: DType) -> None:
    if not supported(device_name, dtype):
        return
    target = open_device(device_name).target
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype.dtype)
    a, b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    c = np.arange(len(a)) % 3 == 0
    for batch in batches(device_name, rows(dtype)):
        sheet = Sheet(a=a, b=b, c=c)
        x, y, z = sheet.vars.values()
        for op in batch:
            sheet.column(
                f"out_{op.name}", sheet.k.op(op.name, *([z, x, y] if op.name == "select" else [x, y][: op.arity]))
            )
        columns = sheet.run(device_name)
        with np.errstate(all="ignore"):
            for op in batch:
                args = [c, a, b] if op.name == "select" else [a, b][: op.arity]
                assert op.evaluate is not None
                assert_same(columns[f"out_{op.name}"], outcomes(target, op.evaluate, *args), f"{op.name} on {dtype}")


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_and_shifts_by_constants(device_name: str, dtype: DType) -> None:
    if not supported(device_name, dtype):
        return
    a = specials(dtype)
    divisors = [d for d in (0, 1, 2, 3, 7, 16, 100, -1, -2, -7, int(dtype.min)) if dtype.min <= d <= dtype.max]
    shifts = [0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 3]
    cases = [(name, d) for name in ("floor_div", "rem") for d in divisors]
    cases += [(name, s) for name in ("shift_left", "shift_right") for s in shifts]
    for batch in batches(device_name, cases):
        sheet = Sheet(a=a)
        for number, (name, constant) in enumerate(batch):
            sheet.column(f"out{number}", sheet.k.op(name, sheet.vars["a"], sheet.k.const(constant, dtype)))
        columns = sheet.run(device_name)
        with np.errstate(all="ignore"):
            for number, (name, constant) in enumerate(batch):
                evaluate = ops.lookup(name).evaluate
                assert evaluate is not None
                expected = evaluate(a, np.full_like(a, constant))
                assert_same(columns[f"out{number}"], expected, f"{name} by {constant} on {dtype}")


def cast_values(source: DType) -> np.ndarray:
    rng = np.random.default_rng(0)
    values = specials(source)
    with np.errstate(all="ignore"):
        if source.is_float:
            near = np.array(
                [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-50, 2.0**-24 * 1.5, 2.0**-25, 65519.999]
            )
            more = np.concatenate([near, -near, rng.standard_normal(200) * 2.0 ** rng.integers(-40, 66, 200)])
            values = np.concatenate([values, more.astype(source.dtype)])
        elif source.is_integer:
            values = np.concatenate([values, rng.integers(source.min, source.max, 300, source.dtype, endpoint=True)])
            if source.bits > 32:
                values = np.concatenate([values, (values >> source.dtype.type(7)) | source.dtype.type(1)])
    return values


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(device_name: str, source: DType) -> None:
    values, device = cast_values(source), open_device(device_name)
    targets = [to for to in ALL if to is not source and supported(device_name, source, to)]
    for batch in batches(device_name, targets):
        sheet = Sheet(a=values)
        for to in batch:
            sheet.column(f"out_{to}", sheet.k.cast(sheet.vars["a"], to))
        columns = sheet.run(device_name)
        for to in batch:
            expected = outcomes(device.target, partial(converted, source=source, to=to), values)
            assert_same(columns[f"out_{to}"], expected, f"{source} to {to}")


@pytest.mark.parametrize("source", [d for d in ALL if d is not bool_], ids=str)
def test_bitcasts(device_name: str, source: DType) -> None:
    raw = np.random.default_rng(1).integers(0, 255, 64 * source.itemsize, np.uint8)
    values = raw.view(source.dtype)
    targets = [
        d for d in ALL if d.bits == source.bits and d not in (source, bool_) and supported(device_name, source, d)
    ]
    for batch in batches(device_name, targets):
        sheet = Sheet(a=values)
        for to in batch:
            sheet.column(f"out_{to}", sheet.k.bitcast(sheet.vars["a"], to))
        columns = sheet.run(device_name)
        for to in batch:
            assert columns[f"out_{to}"].tobytes() == raw.tobytes()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_literals(device_name: str, dtype: DType) -> None:
    """Every special value as a literal, and computed with where the compiler could fold it."""
    if not supported(device_name, dtype):
        return
    values = specials(dtype)
    k = KernelBuilder("literals", workgroup=(32, 1, 1), threads=(1, 1, 1))
    out = k.buffer("out", dtype, "write", (len(values),))
    for place, value in enumerate(values.tolist()):
        k.store(out, (k.i(place),), k.const(value, dtype))
    result = np.zeros(len(values), dtype.dtype)
    launch(open_device(device_name), k.finish(), {"out": result}, groups=(1, 1, 1))
    assert_same(result, values, str(dtype))
