"""Every native row of the operation table and every cast, on special values, as scalars and as vectors."""

import itertools

import numpy as np
import pytest

from poot.dtypes import ALL, INTEGERS, DType, bf16, bool_, f16, f32, f64
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from tests.unit.native_kernels import Compiled, zeros

LANES = [1, 16, 32]


def specials(dtype: DType) -> np.ndarray:
    """Values at the edges of a dtype."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_integer:
        low, high, bits = int(dtype.min), int(dtype.max), dtype.bits
        near = {low, low + 1, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3, 5, 7, 31, 100, bits - 1, bits}
        near |= {-1, -2, -3, -7, -100, bits + 1} if dtype.kind == "int" else {bits + 1}
        return np.array(sorted(v for v in near if low <= v <= high), dtype.dtype)
    info = np.finfo(np.float64) if dtype is f64 else np.finfo(np.float32)
    tiny = [float(info.tiny), float(info.smallest_subnormal), float(info.tiny) / 2]
    plain = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 1e10, 2.0**31, 2.0**31 - 128, 2.0**63, 2.0**24 + 2, float(info.max)]
    plain += [127.5, 128.0, 255.5, 256.0, 32767.5, 65519.0, 65520.0, 1 / 3, *tiny, float(info.eps), np.inf]
    with np.errstate(over="ignore"):
        return np.array([*plain, *(-v for v in plain), np.nan], np.float64).astype(dtype.dtype)


def same(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal bit for bit, but for the bits of a NaN."""
    unsigned = f"u{actual.dtype.itemsize}"
    equal = actual.view(unsigned) == expected.astype(actual.dtype).view(unsigned)
    if actual.dtype.kind == "f" or actual.dtype == bf16.dtype:
        equal |= np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    at = np.flatnonzero(~equal)
    assert not at.size, f"{what}: at {at[:5]}: {actual[at[:5]]}, expected {expected[at[:5]]}"


def rows(dtype: DType) -> list[ops.ScalarOp]:
    return [op for op in ops.table() if dtype in op.dtypes and not op.expands(dtype) and op.name != "bitcast"]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [d for d in ALL if d not in (f16, bf16)], ids=str)
def test_native_rows(dtype: DType, lanes: int) -> None:
    pairs = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype.dtype)
    a, b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    c = np.arange(len(a)) % 3 == 0
    n = len(a)
    k = KernelBuilder("rows", workgroup=(32, 1, 1), threads=(n, 1, 1))
    x, y = k.buffer("x", dtype, "read", (n,)), k.buffer("y", dtype, "read", (n,))
    z = k.buffer("z", bool_, "read", (n,))
    i = k.index("thread", 0)
    operands = [k.let(k.load(x, (i,))), k.let(k.load(y, (i,)))]
    condition = k.let(k.load(z, (i,)))
    outputs = []
    for op in rows(dtype):
        args = [condition, *operands] if op.name == "select" else operands[: op.arity]
        value = k.op(op.name, *args)
        k.store(k.buffer(f"out_{op.name}", value.dtype, "write", (n,)), (i,), value)
        outputs.append(zeros(value.dtype, n))
    Compiled(k.finish(), vector_lanes=lanes)(a, b, c, *outputs)
    with np.errstate(all="ignore"):
        for op, actual in zip(rows(dtype), outputs, strict=True):
            args = [c, a, b] if op.name == "select" else [a, b][: op.arity]
            assert op.evaluate is not None
            same(actual, np.asarray(op.evaluate(*args)), f"{op.name} on {dtype}")


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_by_constants(dtype: DType, lanes: int) -> None:
    a = specials(dtype)
    n = len(a)
    k = KernelBuilder("constants", workgroup=(32, 1, 1), threads=(n, 1, 1))
    x = k.buffer("x", dtype, "read", (n,))
    i = k.index("thread", 0)
    value = k.let(k.load(x, (i,)))
    divisors = [d for d in (0, 1, 2, 3, 7, 16, 100, -1, -2, -7, int(dtype.min)) if dtype.min <= d <= dtype.max]
    shifts = [0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 3]
    cases = [(name, d) for name in ("floor_div", "rem") for d in divisors]
    cases += [(name, s) for name in ("shift_left", "shift_right") for s in shifts]
    outputs = []
    for number, (name, constant) in enumerate(cases):
        k.store(k.buffer(f"out{number}", dtype, "write", (n,)), (i,), k.op(name, value, k.const(constant, dtype)))
        outputs.append(zeros(dtype, n))
    Compiled(k.finish(), vector_lanes=lanes)(a, *outputs)
    with np.errstate(all="ignore"):
        for (name, constant), actual in zip(cases, outputs, strict=True):
            evaluate = ops.lookup(name).evaluate
            assert evaluate is not None
            same(actual, evaluate(a, np.full_like(a, constant)), f"{name} by {constant} on {dtype}")


def converted(values: np.ndarray, source: DType, to: DType) -> np.ndarray:
    """The value conversion of docs/numerics.md, in Python numbers."""
    if to is bool_:
        return values != 0
    if to.is_float:
        with np.errstate(all="ignore"):
            return np.array([_rounded(v, to) for v in values.tolist()], to.dtype)
    if source.is_float:
        return np.array([_saturated(float(v), to) for v in values.astype(np.float64)], to.dtype)
    return values.astype(to.dtype)


def _saturated(value: float, to: DType) -> int:
    if np.isnan(value):
        return 0
    return (
        int(max(min(value, float(to.max)), float(to.min)))
        if abs(value) < 2.0**62
        else (
            int(to.max)
            if value > 0 and value >= float(to.max)
            else int(to.min)
            if value < 0 and value <= float(to.min)
            else int(value)
        )
    )


def _rounded(value: float | int, to: DType) -> float:
    """Nearest even at once, from exact integers too."""
    if isinstance(value, float) and (value != value or value in (np.inf, -np.inf) or value == 0):
        return value
    if to is f64:
        return float(value)
    from fractions import Fraction

    exact = Fraction(value)
    digits, least, most = {f32: (24, -149, 128), f16: (11, -24, 16), bf16: (8, -133, 128)}[to]
    size = abs(exact)
    exponent = max(_exponent(size) - digits + 1, least)
    units = size / Fraction(2) ** exponent
    whole = units.numerator // units.denominator
    rest = units - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    result = Fraction(whole) * Fraction(2) ** exponent
    rounded = np.inf if result >= Fraction(2) ** most else float(result)
    return -rounded if exact < 0 else rounded


def _exponent(size: object) -> int:
    from fractions import Fraction

    assert isinstance(size, Fraction)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(source: DType, lanes: int) -> None:
    rng = np.random.default_rng(0)
    values = specials(source)
    if source.is_float:
        near = np.array(
            [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-50, 2.0**-24 * 1.5, 2.0**-25, 65519.999]
        )
        with np.errstate(all="ignore"):
            more = np.concatenate([near, -near, rng.standard_normal(200) * 2.0 ** rng.integers(-40, 66, 200)])
            values = np.concatenate([values, more.astype(source.dtype)])
    elif source.is_integer:
        values = np.concatenate([values, rng.integers(source.min, source.max, 300, source.dtype, endpoint=True)])
        if source.bits > 32:
            values = np.concatenate([values, (values >> source.dtype.type(7)) | source.dtype.type(1)])
    n = len(values)
    k = KernelBuilder("casts", workgroup=(32, 1, 1), threads=(n, 1, 1))
    x = k.buffer("x", source, "read", (n,))
    i = k.index("thread", 0)
    value = k.let(k.load(x, (i,)))
    targets = [to for to in ALL if to is not source]
    outputs = [zeros(to, n) for to in targets]
    for to in targets:
        k.store(k.buffer(f"out_{to}", to, "write", (n,)), (i,), k.cast(value, to))
    Compiled(k.finish(), vector_lanes=lanes)(values, *outputs)
    for to, actual in zip(targets, outputs, strict=True):
        same(actual, converted(values, source, to), f"{source} to {to}")


@pytest.mark.parametrize("lanes", LANES)
def test_bitcasts(lanes: int) -> None:
    rng = np.random.default_rng(1)
    for bits in (8, 16, 32, 64):
        dtypes = [d for d in ALL if d.bits == bits and d is not bool_]
        n = 64
        raw = rng.integers(0, 255, n * bits // 8, np.uint8)
        k = KernelBuilder("bits", workgroup=(32, 1, 1), threads=(n, 1, 1))
        i = k.index("thread", 0)
        inputs, outputs, expected = [], [], []
        for a in dtypes:
            value = k.let(k.load(k.buffer(f"x_{a}", a, "read", (n,)), (i,)))
            inputs.append(raw.view(a.dtype))
            for b in dtypes:
                if a is not b:
                    k.store(k.buffer(f"y_{a}_{b}", b, "write", (n,)), (i,), k.bitcast(value, b))
                    outputs.append(zeros(b, n))
        kernel = k.finish()
        order = {p.name: p for p in kernel.params}
        arrays = iter(outputs)
        given = iter(inputs)
        values = [next(given) if name.startswith("x") else next(arrays) for name in order]
        Compiled(kernel, vector_lanes=lanes)(*values)
        expected = [raw.view(out.dtype) for out in outputs]
        for out, want in zip(outputs, expected, strict=True):
            assert out.tobytes() == want.tobytes()
