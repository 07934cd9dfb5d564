"""Errors of the scalar expansions against exact values, plainly and with products contracted into sums."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from poot.dtypes import DType, bf16, f16, f32, f64
from poot.kernel import ops
from poot.kernel.expand.bounds import ULP, bound
from tests.unit.expand_support import Array, run, ulps
from tools.check_ulp import REFERENCES

IN_MP: dict[str, Callable[[mpf], mpf]] = {
    **{name: getattr(mpmath.mp, name) for name in REFERENCES if hasattr(mpmath.mp, name)},
    "recip": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "exp2": lambda x: mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
}
"""References for f64."""

CONTRACT = pytest.mark.parametrize("contract", [False, True], ids=["plain", "contracted"])


def exact_in_f64(name: str, *args: Array) -> Array:
    with np.errstate(all="ignore"):
        return REFERENCES[name](*(arg.astype(np.float64) for arg in args))


def test_every_float_expansion_has_a_bound_and_a_reference() -> None:
    floats = {row.name for row in ops.table() if row.expand is not None and f32 in row.dtypes and row.result == "same"}
    assert floats <= set(ULP)
    assert floats - {"floor_div", "rem", "pow", "atan2", "sign", "copysign"} == set(REFERENCES) == set(IN_MP)


@CONTRACT
@pytest.mark.parametrize("name", REFERENCES)
def test_f32_over_the_bit_patterns(name: str, contract: bool, cases: Callable[[int, int], int]) -> None:
    step = cases(65_521, 1009)
    for first in range(0, 2**32, 2**30):
        x = np.arange(first + step // 2, first + 2**30, step, dtype=np.uint32).view(np.float32)
        error = ulps(run(name, x, contract=contract), exact_in_f64(name, x))
        worst = int(error.argmax())
        assert error[worst] <= bound(name, f32), f"{name}({x[worst]!r})"


@CONTRACT
@pytest.mark.parametrize("name", REFERENCES)
def test_f32_where_values_are_usual(name: str, contract: bool) -> None:
    random = np.random.default_rng(20)
    x = np.concatenate([random.normal(size=20_000) * scale for scale in (1e-3, 0.3, 1.0, 10.0, 100.0)])
    x = np.concatenate([x, 1 + random.normal(size=20_000) * 1e-3, 0.5 + random.normal(size=5_000) * 1e-3])
    x = x.astype(np.float32)
    error = ulps(run(name, x, contract=contract), exact_in_f64(name, x))
    worst = int(error.argmax())
    assert error[worst] <= bound(name, f32), f"{name}({x[worst]!r})"


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_f32_near_multiples_of_a_quarter_turn(name: str) -> None:
    quarters = np.concatenate([np.arange(1, 4000), np.arange(2**22, 2**22 + 2000)])
    nearest = (quarters * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([np.nextafter(nearest, np.float32(0)), nearest, np.nextafter(nearest, np.float32(np.inf))])
    assert ulps(run(name, x), exact_in_f64(name, x)).max() <= bound(name, f32)


def f64_samples(count: int) -> Array:
    random = np.random.default_rng(64)
    usual = [random.normal(size=count) * scale for scale in (1e-4, 0.3, 1.0, 30.0, 1e4)]
    quarters = np.round(random.uniform(0, 2.0**21, count)) * (np.pi / 2)
    wide = 10.0 ** random.uniform(-320, 308, count) * random.choice([-1, 1], count)
    special = [
        random.uniform(-750, 750, count),
        1 + random.normal(size=count) * 1e-3,
        0.5 + random.normal(size=count) / 99,
    ]
    return np.concatenate([*usual, quarters, wide, *special])


def mp_ulps(result: float, exact: mpf) -> float:
    """As `ulps`, for one f64; results past the range are right if they are infinite."""
    rounded = float(exact)
    if np.isinf(rounded):
        return 0.0 if result == rounded else np.inf
    return float(abs(mpf(result) - exact) / mpf(float(np.spacing(abs(rounded)))))


@CONTRACT
@pytest.mark.parametrize("name", IN_MP)
def test_f64(name: str, contract: bool, cases: Callable[[int, int], int]) -> None:
    x = f64_samples(cases(15, 2000))
    result = run(name, x, dtype=f64, contract=contract)
    with mpmath.workprec(160):
        for argument, value in zip(x.tolist(), result.tolist(), strict=True):
            try:
                exact = IN_MP[name](mpf(argument))
            except (ValueError, ZeroDivisionError):
                continue
            if isinstance(exact, mpmath.mpc) or mpmath.isnan(exact):
                assert np.isnan(value)
            else:
                assert mp_ulps(value, exact) <= bound(name, f64), f"{name}({argument!r}) is {value!r}"


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_narrow_floats_over_all_bit_patterns(name: str, dtype: DType) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(dtype.dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        result = run(name, wide).astype(dtype.dtype)
    exact = exact_in_f64(name, wide)
    assert narrow_ulps(result, exact, dtype).max() <= bound(name, dtype)


def narrow_ulps(result: Array, exact: Array, dtype: DType) -> Array:
    """As `ulps`, where NumPy has no `spacing`."""
    digits = {f16: 11, bf16: 8}[dtype]
    least = {f16: -24, bf16: -133}[dtype]
    with np.errstate(all="ignore"):
        target = exact.astype(np.float32).astype(dtype.dtype).astype(np.float64)
        got = result.astype(np.float64)
        spacing = np.ldexp(1.0, np.maximum(np.frexp(target)[1] - digits, least))
        same = (got == target) | (np.isnan(got) & np.isnan(target))
        distance = np.abs(got - exact) / spacing
    return np.where(same & ~np.isfinite(distance), 0.0, np.where(np.isnan(distance), np.inf, distance))


# --- two operands ---------------------------------------------------------------------------------------------------


def power_pairs(count: int) -> list[tuple[Array, Array]]:
    """Bases and exponents in f64: over the whole range of results, near 1, usual, whole exponents, subnormal bases."""
    random = np.random.default_rng(2)
    wide = np.exp(random.uniform(-80, 80, count))
    near = 1 + random.uniform(0.01, 1, count) * 10.0 ** random.uniform(-6, -1, count)
    small = random.uniform(0, 1, count)
    return [
        (wide, random.uniform(-100, 88, count) / np.log(wide)),
        (near, random.uniform(-100, 88, count) / np.log(near)),
        (small, random.uniform(-104, -87, count) / np.log(small)),
        (random.uniform(0.5, 2, count), random.uniform(-10, 10, count)),
        (random.uniform(-10, 10, count), random.integers(-20, 20, count).astype(np.float64)),
        (2.0 ** random.uniform(-149, -127, count), random.uniform(-1, 1, count)),
    ]


@CONTRACT
def test_f32_pow(contract: bool) -> None:
    for base, exponent in power_pairs(20_000):
        x, y = base.astype(np.float32), exponent.astype(np.float32)
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.float64), y.astype(np.float64))
        assert ulps(run("pow", x, y, contract=contract), exact).max() <= bound("pow", f32)


@CONTRACT
def test_f64_pow(contract: bool) -> None:
    for x, y in power_pairs(60):
        result = run("pow", x, y * 7.0, dtype=f64, contract=contract)
        with mpmath.workprec(200):
            for base, exponent, value in zip(x, (y * 7.0).tolist(), result.tolist(), strict=True):
                if base > 0 or exponent == int(exponent):
                    assert mp_ulps(value, mpf(float(base)) ** mpf(exponent)) <= bound("pow", f64)


def test_powers_that_the_format_holds_are_exact() -> None:
    base, exponent = (a.ravel().astype(np.float32) for a in np.meshgrid(np.arange(-40, 41), np.arange(0, 8)))
    exact = np.power(base.astype(np.float64), exponent.astype(np.float64))
    held = exact == exact.astype(np.float32)
    assert np.array_equal(run("pow", base, exponent)[held], exact[held].astype(np.float32))
    x = np.random.default_rng(3).integers(1, 0x7F800000, 10_000, dtype=np.uint32).view(np.float32)
    assert np.array_equal(run("pow", x, np.ones_like(x)), x)


@CONTRACT
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_atan2(dtype: DType, contract: bool) -> None:
    random = np.random.default_rng(4)
    count = 20_000 if dtype is f32 else 300
    y, x = (random.normal(size=count) * 10.0 ** random.uniform(-20, 20, count) for _ in range(2))
    for scale in (1.0, 0.0):
        near = np.where(random.uniform(size=count) < 0.5, x, x * (1 + random.normal(size=count)))
        y, x = (a.astype(dtype.dtype) for a in (y * scale + near * (1 - scale), x))
        result = run("atan2", y, x, dtype=dtype, contract=contract)
        if dtype is f32:
            assert ulps(result, np.arctan2(y.astype(np.float64), x.astype(np.float64))).max() <= bound("atan2", f32)
            continue
        with mpmath.workprec(160):
            exact = [mpmath.atan2(mpf(a), mpf(b)) for a, b in zip(y.tolist(), x.tolist(), strict=True)]
        assert max(map(mp_ulps, result.tolist(), exact)) <= bound("atan2", f64)


# --- where the constants come from ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_committed_coefficients_are_what_the_script_derives() -> None:
    script = Path(__file__).parents[2] / "tools" / "derive_coefficients.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
