"""The bounds of random graphs: wide enough for every admissible device, and narrow enough to see what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i32
from poot.trace import evaluate as evaluation
from poot.trace.evaluate import evaluate
from poot.trace.graph import Equation
from poot.trace.parse import parse_graph
from poot.trace.primitives import lookup
from tests.random_bounds import bounds
from tests.random_check import Case, tightness
from tests.random_intervals import Bound, dtype_of, is_float, quantum

Array = np.ndarray[Any, Any]


def moved(rng: np.random.Generator, equation: Equation, result: Array, magnitude: Array) -> Array:
    """A result off by as much as its entry allows, up or down."""
    numerics, dtype = lookup(equation.primitive).numerics, dtype_of(result)
    wide = result.astype(np.float64)
    if numerics.depth is None:
        reach = (0.0 if numerics.exact else numerics.ulps) * quantum(np.abs(wide) * (1 - 2.0**-30), dtype) / 2
    else:
        specs = tuple(atom.spec for atom in equation.inputs)
        eps = quantum(np.ones(()), f32 if equation.params.get("accumulate") is f32 else dtype) / 2
        reach = numerics.depth(specs, equation.params) * eps * magnitude / 2
    shifted = wide + rng.choice([-1.0, 1.0], wide.shape) * np.where(np.isfinite(wide), reach, 0.0)
    return np.asarray(shifted).astype(result.dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_admissible_error_is_within_bounds(monkeypatch: pytest.MonkeyPatch, cases: Any) -> None:
    """Each equation of the oracle is disturbed as far as its entry allows, and all that follows from it with it."""
    apply = evaluation.apply
    checked = 0
    for seed in range(cases(20, 500)):
        case = Case.of("float", seed, (bf16, f16, f32, f64, i32, bool_), 40)
        outputs, _ = bounds(case.graph, case.arrays, fused=False)
        rng = np.random.default_rng(seed)

        def disturbed(equation: Equation, operands: Any, observer: Any = None, rng: Any = rng) -> tuple[Array, ...]:
            results = apply(equation, operands, observer)
            if equation.regions or not is_float(results[0]) or lookup(equation.primitive).numerics.exact:
                return results
            positive = [np.abs(operand) if is_float(operand) else operand for operand in operands]
            (magnitude,) = apply(equation, positive)
            return (moved(rng, equation, results[0], magnitude.astype(np.float64)),)

        monkeypatch.setattr(evaluation, "apply", disturbed)
        found = evaluate(case.graph, case.arrays).output
        monkeypatch.setattr(evaluation, "apply", apply)
        for bound, array in zip(outputs, found, strict=True):
            assert np.all(bound.allows(np.asarray(array))), (seed, bound, array)
            checked += is_float(bound.value) and not np.array_equal(bound.value, array, equal_nan=False)
    assert checked > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_most_floats_are_known_to_a_tenth() -> None:
    total = np.zeros(3)
    for seed in range(20):
        case = Case.of("float", seed)
        total += tightness(case.wanted("fused"))
    wild, tight, count = total
    assert wild < 0.2 * count and tight > 0.7 * count


def of(text: str, **arrays: Array) -> Bound:
    lines = "".join(f"    input %{n} {name}: {dtype_name(a)}\n" for n, (name, a) in enumerate(arrays.items()))
    (found,), _ = bounds(parse_graph(f"graph g {{\n{lines}\n{text}}}\n"), arrays, fused=True)
    return found


def dtype_name(array: Array) -> str:
    dtype: DType = dtype_of(array)
    return f"{dtype.name}[{','.join(map(str, array.shape))}]"


def test_what_is_rounded_once_is_a_point() -> None:
    x = np.array([0.1, -3.0, np.inf, np.nan], np.float32)
    found = of("    %1: f32[4] = mul %0 %0\n    return (%1,)\n", x=x)
    assert np.all(found.point) and np.all(found.allows(x * x))
    assert not np.any(found.allows(np.nextafter(x * x, np.float32(0), dtype=np.float32))[:2])


def test_a_product_may_reach_an_addition_unrounded() -> None:
    x, y = np.array([0.1], np.float32), np.array([-0.01], np.float32)
    found = of("    %2: f32[1] = mul %0 %0\n    %3: f32[1] = add %2 %1\n    return (%3,)\n", x=x, y=y)
    fused = (x.astype(np.float64) ** 2 + y.astype(np.float64)).astype(np.float32)
    assert fused != x * x + y
    assert np.all(found.allows(fused)) and np.all(found.allows(x * x + y)) and not np.any(found.allows(fused * 4))


def test_around_a_pole_nothing_is_known() -> None:
    x = np.array([0.1], np.float32)
    text = "    %1: f32[1] = exp %0\n    %2: f32[1] = sub %1 %1\n    %3: f32[1] = recip %2\n    return (%3,)\n"
    assert np.all(of(text, x=x).wild)


def test_nan_is_nan_on_every_device() -> None:
    x = np.array([np.nan, 1.0], np.float32)
    found = of("    %1: f32[] = reduce_sum %0 [axes=(0,)]\n    return (%1,)\n", x=x)
    assert found.allows(np.array(np.nan, np.float32)) and not found.allows(np.array(1.0, np.float32))
