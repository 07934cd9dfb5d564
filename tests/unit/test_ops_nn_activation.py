"""Activations and gated units against NumPy in float64, for every float dtype, with specials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from poot.dtypes import bf16
from poot.errors import ArgumentError, ShapeError
from poot.trace import ops
from tests.unit.ops_support import check, run, tracer

RNG = np.random.default_rng(1)
POINTS = np.float32(
    [-np.inf, -700, -20, -3.5, -3, -1, -1e-4, -0.0, 0.0, 1e-4, 0.5, 1, 3, 6, 6.5, 20, 700, np.inf, np.nan]
)
TOLERANCE = {"float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def clipped(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (ops.nn.relu, lambda x: np.maximum(x, 0)),
    "relu6": (ops.nn.relu6, lambda x: clipped(x, 0, 6)),
    "leaky_relu": (ops.nn.leaky_relu, lambda x: np.where(x < 0, 0.01 * x, x)),
    "leaky_relu of a slope": (lambda x: ops.nn.leaky_relu(x, 0.25), lambda x: np.where(x < 0, 0.25 * x, x)),
    "elu": (lambda x: ops.nn.elu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0)))),
    "celu": (lambda x: ops.nn.celu(x, 2), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    "selu": (
        ops.nn.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    ),
    "sigmoid": (ops.nn.sigmoid, special.expit),
    "log_sigmoid": (ops.nn.log_sigmoid, special.log_expit),
    "silu": (ops.nn.silu, lambda x: x * special.expit(x)),
    "softplus": (ops.nn.softplus, softplus),
    "softsign": (ops.nn.softsign, lambda x: x / (1 + np.abs(x))),
    "mish": (ops.nn.mish, lambda x: x * np.tanh(softplus(x))),
    "gelu": (ops.nn.gelu, lambda x: x * special.ndtr(x)),
    "hardsigmoid": (ops.nn.hardsigmoid, lambda x: clipped(x + 3, 0, 6) / 6),
    "hardswish": (ops.nn.hardswish, lambda x: x * clipped(x + 3, 0, 6) / 6),
    "hardtanh": (ops.nn.hardtanh, lambda x: clipped(x, -1, 1)),
    "softcap": (lambda x: ops.nn.softcap(x, 30.0), lambda x: 30 * np.tanh(x / 30)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str, dtype: str) -> None:
    function, reference = FUNCTIONS[name]
    x = np.concatenate([POINTS, RNG.standard_normal(40).astype(np.float32) * 4]).astype(np.dtype(dtype))
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64)).astype(x.dtype)
    actual = run(function, x)
    # Where x tends to an end, a product of infinity and zero is NaN in the definition as well as in the composition.
    known = ~np.isnan(expected.astype(np.float64)) | np.isnan(x.astype(np.float64))
    tolerance = TOLERANCE[dtype]
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(
        actual[known].astype(np.float64), expected[known].astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh"])
def test_clipping_activations_keep_integers(name: str) -> None:
    function, reference = FUNCTIONS[name]
    check(function, lambda x: reference(x).astype(np.int8), np.int8([-128, -3, 0, 4, 127]))


@pytest.mark.parametrize("name", ["elu", "sigmoid", "softplus", "gelu", "hardswish", "leaky_relu"])
def test_others_take_integers_as_floats(name: str) -> None:
    function, reference = FUNCTIONS[name]
    check(function, lambda x: reference(x.astype(np.float64)).astype(np.float32), np.int32([-3, 0, 2]))


def test_the_hard_swish_of_the_greatest_numbers_is_the_number() -> None:
    for dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        most = ml_dtypes.finfo(dtype).max
        check(ops.nn.hardswish, lambda x: np.where(x > 0, x, x * 0), np.array([most, most / 2, 100, -most], dtype))


def test_a_slope_of_its_own_for_each_channel() -> None:
    x, slope = RNG.standard_normal((2, 3, 4)).astype(np.float32), np.float32([[0.1], [0.2], [0.3]])
    check(ops.nn.leaky_relu, lambda x, s: np.where(x < 0, s * x, x), x, slope)


def test_gated_units() -> None:
    a, b = (RNG.standard_normal((3, 6)).astype(np.float32) for _ in range(2))
    wide = a.astype(np.float64)
    check(ops.nn.swiglu, (wide * special.expit(wide) * b).astype(np.float32), a, b)
    check(ops.nn.geglu, (wide * special.ndtr(wide) * b).astype(np.float32), a, b)
    tanh = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))) * b
    check(lambda a, b: ops.nn.geglu(a, b, "tanh"), tanh.astype(np.float32), a, b)
    for axis in (0, 1, -1):
        x = RNG.standard_normal((4, 6)).astype(np.float32)
        value, gate = np.split(x.astype(np.float64), 2, axis)
        check(lambda x, n=axis: ops.nn.glu(x, n), (value * special.expit(gate)).astype(np.float32), x)


def test_gated_units_round_halves_once() -> None:
    a, b = (RNG.standard_normal(4000).astype(ml_dtypes.bfloat16) for _ in range(2))
    wide = a.astype(np.float64)
    exact = (wide * special.expit(wide) * b.astype(np.float64)).astype(ml_dtypes.bfloat16)
    assert (run(ops.nn.swiglu, a, b) != exact).mean() < 1e-3
    assert ops.nn.swiglu(tracer(bf16[2]), 1.0).dtype is bf16


def test_refusals() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ShapeError, match=r"glu: shape \(2, 3\), expected an even extent on axis 1") as caught:
        run(ops.nn.glu, x)
    where = caught.value.where
    assert where is not None
    assert where.file.endswith("ops_support.py")  # the line that called it
    with pytest.raises(ArgumentError, match="celu: alpha"):
        run(lambda x: ops.nn.celu(x, 0), x)
    with pytest.raises(ArgumentError, match="geglu: approximate"):
        run(lambda x: ops.nn.geglu(x, x, "erf"), x)  # type: ignore[arg-type]
