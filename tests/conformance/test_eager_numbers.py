"""Python numbers in operations on concrete arrays: inputs of one small program, which mean what literals mean."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.backends.toolchain import compile_count
from poot.errors import PootError
from poot.target import Target

DTYPES = (poot.bool_, poot.i8, poot.u8, poot.i16, poot.u16, poot.i32, poot.u32, poot.i64, poot.u64)
FLOATS = (poot.f16, poot.bf16, poot.f32, poot.f64)
SOME = np.array([0, 2])
FAR = np.array([0, 77])

Use = Callable[[Any, Any], Any]
OPERATORS: dict[str, Use] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and_",
                 "or_", "xor", "lshift", "rshift")
}  # fmt: skip
REVERSED: dict[str, Use] = {f"r{name}": lambda x, n, f=f: f(n, x) for name, f in OPERATORS.items()}
FUNCTIONS: dict[str, Use] = {
    "maximum": ops.maximum,
    "clip": lambda x, n: ops.clip(x, n, 100),
    "where": lambda x, n: ops.where(x > 0, x, n),
    "atan2": ops.atan2,
    "full": lambda x, n: ops.full((3,), n, dtype=x.dtype),
    "full_like": ops.full_like,
    "asarray": lambda x, n: ops.asarray(n),
    "pad": lambda x, n: ops.pad(x, 1, constant_values=n),
    "set": lambda x, n: x.at[1].set(n),
    "add at an array": lambda x, n: x.at[SOME].add(n),
    "get, filled": lambda x, n: x.at[FAR].get(mode="fill", fill_value=n),
    "take, filled": lambda x, n: ops.take(x, FAR, mode="fill", fill_value=n),
    "along an axis, filled": lambda x, n: ops.take_along_axis(x, FAR, 0, mode="fill", fill_value=n),
    "nan_to_num": lambda x, n: ops.nan_to_num(x, nan=n),
}
USES = {**OPERATORS, **REVERSED, **FUNCTIONS}
NUMBERS: list[Any] = [
    0,
    2,
    3,
    -5,
    17,
    300,
    2.5,
    -0.0,
    1 / 3,
    math.inf,
    math.nan,
    True,
    np.float64(0.1),
    np.float32(0.1),
]


def dtypes_of(target: Target) -> list[poot.DType]:
    return [dtype for dtype in (*DTYPES, *FLOATS) if dtype in target.dtypes]


def sample(dtype: poot.DType) -> Any:
    values = [0, 1, 2, 3, 5, 7, 100] if dtype.kind in ("uint", "bool") else [-100, -3, -1, 0, 1, 2, 100]
    if dtype.is_float:
        values = [*(value / 3 for value in values), math.nan, math.inf, -0.0]
    return ops.asarray(values, dtype=dtype)


def outcome(use: Callable[[], Any]) -> tuple[str, ...]:
    """A result's dtype and bits, every NaN alike, or the class of the error."""
    try:
        found = use()
    except PootError as error:
        return (type(error).__name__.removeprefix("Builder"),)
    array = np.asarray(found)
    if found.dtype.is_float:
        array = np.where(array == array, array, np.ones_like(array) * np.nan)
    return str(found.dtype), array.tobytes().hex()


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.slow_on("cpu", "opencl", "wgpu")
def test_one_program_serves_every_number(device_name: str) -> None:
    with poot.device(device_name):
        for dtype in dtypes_of(poot.device(device_name).target):
            x, count = sample(dtype), 200 if dtype is poot.f32 else 8
            wanted: list[Any] = [1.25 + step / 2 if dtype.is_float else 20 + step % 80 for step in range(count)]
            wanted = [2] if dtype is poot.bool_ else wanted
            for use in USES.values():
                if len(outcome(lambda: use(x, wanted[0]))) == 1:  # noqa: B023
                    continue
                before = compile_count()
                for value in wanted:
                    use(x, value)
                assert compile_count() == before


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.slow_on("cpu", "opencl", "wgpu")
def test_numbers_mean_what_literals_mean(device_name: str) -> None:
    with poot.device(device_name):
        for place, dtype in enumerate(dtypes_of(poot.device(device_name).target)):
            x = sample(dtype)
            for number, (name, use) in enumerate(USES.items()):
                for value in NUMBERS[(place + number) % 11 :: 11]:  # each meets every dtype in some of the operations
                    eager = outcome(lambda: use(x, value))  # noqa: B023
                    assert eager == outcome(lambda: poot.trace(lambda x: use(x, value))(x)), (name, dtype, value)  # noqa: B023


def test_numbers_mean_what_numpy_says(device_name: str) -> None:
    array = np.array([-100, -3, -1, 1, 2, 5], np.int32)
    with poot.device(device_name):
        x = poot.asarray(array)
        for number in range(1, 40):
            for use in (operator.add, operator.mul, operator.floordiv, operator.mod, operator.lt, operator.xor):
                np.testing.assert_array_equal(np.asarray(use(x, number)), use(array, number))
                np.testing.assert_array_equal(np.asarray(use(number, x)), use(number, array))
            single = array.astype(np.float32)
            np.testing.assert_array_equal(np.asarray(x.astype(poot.f32) * (number / 7)), single * (number / 7))


def test_signs_of_zeros_are_numbers_of_their_own() -> None:
    x = poot.asarray(np.array([-0.0, 0.0], np.float32))
    assert np.signbit(np.asarray(x + 0.0)).tolist() == [False, False]
    assert np.signbit(np.asarray(x + -0.0)).tolist() == [True, False]
    assert np.signbit(np.asarray(ops.full(2, -0.0))).all()
    assert not np.signbit(np.asarray(ops.full(2, 0.0))).any()


@poot.kernel
def bump(x: poot.InOut[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(x):
        x[i] += 1.0


def test_a_kernel_that_writes_into_a_filled_array_changes_no_number(device_name: str) -> None:
    with poot.device(device_name):
        for make in (lambda: ops.full(1, 3.5), lambda: ops.asarray([3.5]), lambda: ops.full((), 3.5).reshape(1)):
            bump(make(), threads=1)
            assert np.asarray(make()).tolist() == [3.5]


def test_a_number_passed_to_a_traced_function_may_be_a_fill_value(device_name: str) -> None:
    x = ops.arange(4, dtype=poot.f32, device=device_name)
    fill = poot.trace(lambda x, n: (x.at[FAR].get(mode="fill", fill_value=n), ops.pad(x, 1, constant_values=n)))
    got, padded = fill(x, 2.5)
    assert np.asarray(got).tolist() == [0.0, 2.5]
    assert np.asarray(padded).tolist() == [2.5, 0.0, 1.0, 2.0, 3.0, 2.5]
