"""Every scalar operation and conversion, on every dtype and at special values, against the interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poot.backends.device import DeviceBackend
from poot.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, f32, f64
from poot.kernel import expand as expand  # the table is complete with its expansions
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from tests.cuda.support import agree, specials


def rows(dtype: DType, arity: int) -> list[ops.ScalarOp]:
    return [op for op in ops.table() if dtype in op.dtypes and op.name != "bitcast" and op.arity == arity]


def run_rows(cuda: DeviceBackend, dtype: DType, chosen: list[ops.ScalarOp], values: list[np.ndarray]) -> None:
    n = len(values[0])
    k = KernelBuilder("rows", workgroup=(128, 1, 1), threads=(n, 1, 1))
    given = {"x": values[0], "y": values[1], "z": np.arange(n) % 3 == 0}
    x, y = k.buffer("x", dtype, "read", (n,)), k.buffer("y", dtype, "read", (n,))
    z = k.buffer("z", bool_, "read", (n,))
    i = k.index("thread", 0)
    operands = [k.let(k.load(x, (i,))), k.let(k.load(y, (i,)))]
    condition = k.let(k.load(z, (i,)))
    for op in chosen:
        args = [condition, *operands] if op.name == "select" else operands[: op.arity]
        value = k.op(op.name, *args)
        name = k.buffer(f"out_{op.name}", value.dtype, "write", (n,))
        k.store(name, (i,), value)
        given[name] = np.zeros(n, value.dtype.dtype)
    agree(cuda, k.finish(), given, (-(-n // 128), 1, 1), what=f"{dtype}")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_native_rows(cuda: DeviceBackend, dtype: DType) -> None:
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype.dtype)
    values = [np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])]
    chosen = [op for arity in (1, 2, 3) for op in rows(dtype, arity) if op.native]
    run_rows(cuda, dtype, chosen, values)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("part", range(6))
def test_expanded_rows(cuda: DeviceBackend, dtype: DType, part: int) -> None:
    """The expansions are the same arithmetic on every target, so they agree to the last bit."""
    rng = np.random.default_rng(part)
    count = 4096
    spread = rng.standard_normal(count) * 2.0 ** rng.integers(-30, 30, count)
    with np.errstate(all="ignore"):
        x = np.concatenate([specials(dtype), spread.astype(dtype.dtype)])
        y = np.concatenate([specials(dtype)[::-1], rng.standard_normal(count).astype(dtype.dtype)])
    expanded = [op for arity in (1, 2) for op in rows(dtype, arity) if not op.native]
    run_rows(cuda, dtype, expanded[part::6], [x, y])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_expansions_and_constants(cuda: DeviceBackend, dtype: DType) -> None:
    a = specials(dtype)
    n = len(a)
    k = KernelBuilder("constants", workgroup=(32, 1, 1), threads=(n, 1, 1))
    given = {"x": a}
    value = k.let(k.load(k.buffer("x", dtype, "read", (n,)), (k.index("thread", 0),)))
    divisors = [d for d in (0, 1, 2, 3, 7, 16, 100, -1, -2, -7, int(dtype.min)) if dtype.min <= d <= dtype.max]
    shifts = [0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 3]
    cases = [(name, d) for name in ("floor_div", "rem") for d in divisors]
    cases += [(name, s) for name in ("shift_left", "shift_right") for s in shifts]
    for number, (name, constant) in enumerate(cases):
        out = k.buffer(f"out{number}", dtype, "write", (n,))
        k.store(out, (k.index("thread", 0),), k.op(name, value, k.const(constant, dtype)))
        given[out] = np.zeros(n, dtype.dtype)
    agree(cuda, k.finish(), given, (-(-n // 32), 1, 1), what=f"constants {dtype}")
    expanded = [op for arity in (1, 2) for op in rows(dtype, arity) if not op.native]
    if expanded:
        pairs = np.array(list(itertools.product(a, repeat=2)), dtype.dtype)
        values = [np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])]
        run_rows(cuda, dtype, expanded, values)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(cuda: DeviceBackend, source: DType) -> None:
    rng = np.random.default_rng(0)
    values = specials(source)
    if source.is_float:
        near = np.array(
            [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-50, 2.0**-24 * 1.5, 2.0**-25, 65519.999]
        )
        with np.errstate(all="ignore"):
            more = np.concatenate([near, -near, rng.standard_normal(500) * 2.0 ** rng.integers(-40, 66, 500)])
            values = np.concatenate([values, more.astype(source.dtype)])
    elif source.is_integer:
        values = np.concatenate([values, rng.integers(source.min, source.max, 500, source.dtype, endpoint=True)])
        if source.bits > 32:
            values = np.concatenate([values, (values >> source.dtype.type(7)) | source.dtype.type(1)])
    n = len(values)
    k = KernelBuilder("casts", workgroup=(64, 1, 1), threads=(n, 1, 1))
    given = {"x": values}
    i = k.index("thread", 0)
    value = k.let(k.load(k.buffer("x", source, "read", (n,)), (i,)))
    for to in ALL:
        if to is not source:
            out = k.buffer(f"out_{to}", to, "write", (n,))
            k.store(out, (i,), k.cast(value, to))
            given[out] = np.zeros(n, to.dtype)
    agree(cuda, k.finish(), given, (-(-n // 64), 1, 1), what=f"casts of {source}")


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bitcasts(cuda: DeviceBackend, bits: int) -> None:
    dtypes = [d for d in ALL if d.bits == bits and d is not bool_]
    n = 64
    raw = np.random.default_rng(1).integers(0, 255, n * bits // 8, np.uint8)
    k = KernelBuilder("bits", workgroup=(32, 1, 1), threads=(n, 1, 1))
    i = k.index("thread", 0)
    given: dict[str, np.ndarray] = {}
    for a in dtypes:
        given[f"x_{a}"] = raw.view(a.dtype)
        value = k.let(k.load(k.buffer(f"x_{a}", a, "read", (n,)), (i,)))
        for b in dtypes:
            if a is not b:
                k.store(k.buffer(f"y_{a}_{b}", b, "write", (n,)), (i,), k.bitcast(value, b))
                given[f"y_{a}_{b}"] = np.zeros(n, b.dtype)
    agree(cuda, k.finish(), given, (2, 1, 1), what=f"bitcasts of {bits}")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_scalar_parameters(cuda: DeviceBackend, dtype: DType) -> None:
    k = KernelBuilder("scalars", workgroup=(32, 1, 1), threads=(40, 1, 1))
    s = k.scalar("s", dtype)
    k.store(k.buffer("y", dtype, "write", (40,)), (k.index("thread", 0),), s)
    value = dtype.dtype.type(specials(dtype)[-4] if dtype is not bool_ else True)
    agree(cuda, k.finish(), {"s": value, "y": np.zeros(40, dtype.dtype)}, (2, 1, 1), what=f"scalar {dtype}")


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_contraction(cuda: DeviceBackend, dtype: DType) -> None:
    """a*b + c rounds once where it may, and twice where it may not."""
    from tests.cuda.support import on_device

    n, rng = 512, np.random.default_rng(3)
    a, b, c = (rng.standard_normal(n).astype(dtype.dtype) for _ in range(3))
    k = KernelBuilder("fma", workgroup=(128, 1, 1), threads=(n, 1, 1))
    i = k.index("thread", 0)
    x, y, z = (k.load(k.buffer(name, dtype, "read", (n,)), (i,)) for name in "abc")
    k.store(k.buffer("out", dtype, "write", (n,)), (i,), k.op("add", k.op("mul", x, y), z))
    given = {"a": a, "b": b, "c": c, "out": np.zeros(n, dtype.dtype)}
    plain = on_device(cuda, k.finish(), given, (4, 1, 1)).values["out"]
    fused = on_device(cuda, k.finish(), given, (4, 1, 1), contract=True).values["out"]
    assert np.array_equal(plain, a * b + c)
    assert not np.array_equal(fused, plain)
    assert np.allclose(fused, plain, rtol=1e-4)
