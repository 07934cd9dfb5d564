"""Scalar operations and casts of the interpreter, against Python integers and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poot.dtypes import ALL, FLOATS, INTEGERS, DType, bf16, bool_, f16, f32, f64
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.fold import fold_cast, fold_op
from poot.kernel.interpret import Interpreter, bind
from poot.kernel.ir import Cast, Const, Kernel, Op
from tests.exact_floats import round_fraction
from tests.kernel_reference import binary, convert, lesser, unary

NATIVE = [row for row in ops.table() if row.evaluate is not None and row.name not in ("select", "bitcast")]
KERNELS: dict[Any, Interpreter] = {}


def values(dtype: DType) -> st.SearchStrategy[Any]:
    """Values of a dtype, its edges often."""
    if dtype is bool_:
        return st.booleans()
    if dtype.is_integer:
        low, high = int(dtype.min), int(dtype.max)
        edges = [v for v in (low, low + 1, high, high - 1, 0, 1, 2, 7, dtype.bits - 1, dtype.bits, -1, -7) if v >= low]
        return st.one_of(st.sampled_from(edges), st.integers(low, high))
    width = 32 if dtype is bf16 else dtype.bits
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, float(dtype.max), float(dtype.min)]
    edges += [2.0**-24, 2.0**-149, 2.0**24 + 2, 2.0**31, 2.0**63, 65520.0, 127.5, -128.5]
    chosen = st.one_of(st.sampled_from(edges), st.floats(width=width))
    return chosen.map(lambda v: cast_to(v, dtype))


def pairs(dtype: DType) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(values(dtype), values(dtype)), min_size=1, max_size=32)


def make(name: str, dtype: DType, arity: int, result: DType) -> Kernel:
    k = KernelBuilder("one", workgroup=(64, 1, 1), threads=(None, 1, 1))
    i = k.index("thread", 0)
    loads = [k.load(k.buffer(which, dtype, "read", (None,)), (i,)) for which in "xy"[:arity]]
    k.store(k.buffer("out", result, "write", (None,)), (i,), k.op(name, *loads))
    return k.finish()


def interpreted(name: str, dtype: DType, arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    result = ops.result_dtype(name, [dtype] * len(arrays))
    key = name, dtype.name
    if key not in KERNELS:
        KERNELS[key] = Interpreter(make(name, dtype, len(arrays), result))
    out = np.zeros(len(arrays[0]), result.dtype)
    bound = bind(KERNELS[key].kernel, dict(zip("xy", arrays, strict=False)) | {"out": out}, threads=[len(out)])
    KERNELS[key].run(bound, groups=(-(-len(out) // 64), 1, 1))
    return out


def expected(name: str, args: list[Any], dtype: DType) -> Any:
    """The result by integers and fractions alone."""
    if not dtype.is_float:
        return unary(name, args[0], dtype) if len(args) == 1 else binary(name, args[0], args[1], dtype)
    wide = [float(arg) for arg in args]
    if len(args) == 1:
        return float_unary(name, wide[0], dtype)
    if name in ("min", "max"):
        return lesser(*wide, name == "max")
    if name in ("add", "sub", "mul", "div"):
        return arithmetic(name, *wide, dtype)
    return binary(name, *wide, f64)


def float_unary(name: str, a: float, dtype: DType) -> float:
    if name == "neg":
        return -a
    if name == "abs":
        return abs(a)
    if not math.isfinite(a):
        return math.nan if name == "sqrt" and a < 0 else a
    if name == "sqrt":
        root = math.sqrt(a) if a > 0 else a if a == 0 else math.nan
        return root if dtype is f64 or a <= 0 else round_fraction(Fraction(root), dtype)
    whole = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round}[name](a)
    return math.copysign(float(whole), a)


def arithmetic(name: str, a: float, b: float, dtype: DType) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or (name == "div" and b == 0):
        with np.errstate(all="ignore"):
            return float(binary(name, np.float64(a), np.float64(b), f64))
    x, y = Fraction(a), Fraction(b)
    exact = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y}[name]()
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    if name in ("add", "sub"):  # a zero sum is -0.0 where both operands are
        negative = a == b == 0 and math.copysign(1, a) < 0 and math.copysign(1, b if name == "add" else -b) < 0
    return round_fraction(exact, dtype, negative)


def check_same(actual: Any, wanted: Any, what: str) -> None:
    if isinstance(wanted, float) and math.isnan(wanted):
        assert math.isnan(float(actual)), what
        return
    assert actual == wanted, f"{what}: {actual!r}, expected {wanted!r}"
    if isinstance(wanted, float):
        assert math.copysign(1, float(actual)) == math.copysign(1, wanted), f"{what}: sign of zero"


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_native_rows(dtype: DType) -> None:
    rows = [row.name for row in NATIVE if dtype in row.dtypes and not row.expands(dtype)]

    @given(pairs(dtype))
    def run(drawn: list[tuple[Any, Any]]) -> None:
        sides = [np.array([pair[side] for pair in drawn], dtype.dtype) for side in range(2)]
        for name in rows:
            check_row(name, dtype, sides[: ops.lookup(name).arity])

    run()


def check_row(name: str, dtype: DType, arrays: list[np.ndarray[Any, Any]]) -> None:
    result = ops.result_dtype(name, [dtype] * len(arrays))
    for lane, got in enumerate(interpreted(name, dtype, arrays)):
        args = [array[lane] if dtype.is_float else array[lane].item() for array in arrays]
        what = f"{name}({', '.join(map(repr, args))})"
        wanted = expected(name, args, dtype)
        check_same(got, wanted, what)
        literals = tuple(Const(float(arg) if dtype.is_float else arg, dtype) for arg in args)
        folded = fold_op(Op(name, literals, result))
        if isinstance(folded, Const):
            check_same(cast_to(folded.value, result), wanted, f"folded {what}")


def cast_to(value: Any, dtype: DType) -> Any:
    with np.errstate(all="ignore"):
        return dtype.dtype.type(value)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(source: DType) -> None:
    made = {target: cast_kernel(source, target) for target in ALL if target is not source}

    @given(st.lists(values(source), min_size=1, max_size=32))
    def run(drawn: list[Any]) -> None:
        array = np.array(drawn, source.dtype)
        for target, interpreter in made.items():
            out = np.zeros(len(array), target.dtype)
            bound = bind(interpreter.kernel, {"x": array, "out": out}, threads=[len(out)])
            interpreter.run(bound, groups=(1, 1, 1))
            for value, got in zip(array, out, strict=True):
                check_cast(float(value) if source.is_float else value.item(), got, source, target)

    run()


def cast_kernel(source: DType, target: DType) -> Interpreter:
    k = KernelBuilder("cast", workgroup=(64, 1, 1), threads=(None, 1, 1))
    i = k.index("thread", 0)
    value = k.load(k.buffer("x", source, "read", (None,)), (i,))
    k.store(k.buffer("out", target, "write", (None,)), (i,), k.cast(value, target))
    return Interpreter(k.finish())


def check_cast(plain: Any, got: Any, source: DType, target: DType) -> None:
    if not target.is_float:
        wanted = convert(plain, source, target)
    elif math.isfinite(plain):
        wanted = round_fraction(Fraction(plain), target, math.copysign(1, plain) < 0)
    else:
        wanted = plain
    check_same(got, wanted, f"{source} {plain!r} as {target}")
    folded = fold_cast(Cast(Const(plain, source), target))
    if isinstance(folded, Const):
        check_same(cast_to(folded.value, target), wanted, f"folded {source} {plain!r} as {target}")


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_bits_are_kept_by_bitcast_and_select(dtype: DType) -> None:
    unsigned = next(d for d in INTEGERS if d.kind == "uint" and d.bits == dtype.bits)
    k = KernelBuilder("bits", workgroup=(64, 1, 1), threads=(256, 1, 1))
    i = k.index("thread", 0)
    value = k.bitcast(k.load(k.buffer("x", unsigned, "read", (256,)), (i,)), dtype)
    chosen = k.op("select", k.op("lt", i, k.i(128)), value, k.op("select", k.const(True, bool_), value, value))
    k.store(k.buffer("out", unsigned, "write", (256,)), (i,), k.bitcast(chosen, unsigned))
    kernel = k.finish()
    bits = np.random.default_rng(0).integers(0, 2**dtype.bits, 256, dtype=np.uint64).astype(unsigned.dtype)
    out = np.zeros_like(bits)
    Interpreter(kernel).run(bind(kernel, {"x": bits, "out": out}), groups=(4, 1, 1))
    np.testing.assert_array_equal(out, bits)


def test_scalars_and_vectors_agree() -> None:
    """A value that all lanes share is computed once, by the same rules."""
    for name, dtype in [("add", f32), ("mul", f16), ("max", bf16), ("div", f32), ("sqrt", f64)]:
        arity = ops.lookup(name).arity
        k = KernelBuilder("both", workgroup=(4, 1, 1), threads=(4, 1, 1))
        i = k.index("thread", 0)
        x = [k.buffer(f"x{side}", dtype, "read", (4,)) for side in range(arity)]
        out = k.buffer("out", dtype, "write", (2, 4))
        k.store(out, (k.i(0), i), k.op(name, *(k.load(b, (i,)) for b in x)))
        k.store(out, (k.i(1), i), k.op(name, *(k.load(b, (k.i(1),)) for b in x)))
        kernel = k.finish()
        arrays = {f"x{side}": np.array([0.1, 1 / 3, 2.5, 7.0]).astype(dtype.dtype) for side in range(arity)}
        result = np.zeros((2, 4), dtype.dtype)
        Interpreter(kernel).run(bind(kernel, arrays | {"out": result}), groups=(1, 1, 1))
        assert (result[1] == result[0, 1]).all()
