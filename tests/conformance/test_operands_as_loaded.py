"""Prologues of contractions: operands that are computed as they are loaded, of every layout and on every device.

Small integers have exact sums in any order, so results are bit for bit those of the oracle.
"""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poot
from poot import bf16, f32, i8, ops

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

BF16 = ml_dtypes.bfloat16
TRACE: Any = poot.trace
FORMS: dict[str, Any] = {
    "x @ cast(w)": lambda x, w, s: x @ w.astype(f32),
    "x @ cast(w).T": lambda x, w, s: x @ w.astype(f32).mT,
    "x @ cast(w.T)": lambda x, w, s: x @ w.mT.astype(f32),
    "matmul(x, w)": lambda x, w, s: ops.matmul(x, w),
    "cast(w) @ x": lambda x, w, s: w.astype(f32) @ x.mT,
    "einsum": lambda x, w, s: ops.einsum("mk,kn->nm", x, w),
    "einsum, transposed": lambda x, w, s: ops.einsum("mk,nk->mn", x, w),
    "scaled columns": lambda x, w, s: x @ (w.astype(f32) * s),
    "scaled and moved": lambda x, w, s: x @ ((w.astype(f32) - 1) * s[:, None]).mT + s,
    "grown rows": lambda x, w, s: (w.astype(f32).mT @ x.mT).mT,
}
TRANSPOSED = ("x @ cast(w).T", "x @ cast(w.T)", "cast(w) @ x", "einsum, transposed", "scaled and moved")


def operands(form: str, m: int, k: int, n: int, dtype: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(m + k + n)
    shape = (n, k) if form in TRANSPOSED else (k, n)
    x, w, s = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, shape), rng.integers(1, 4, (n,))
    return x.astype(np.float32), w.astype(dtype), s.astype(np.float32)


def check(form: str, device: str, arrays: tuple[Any, ...]) -> None:
    expected = np.asarray(TRACE(FORMS[form]).evaluate(*arrays))
    found = np.asarray(TRACE(FORMS[form], device=device)(*arrays))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 260, 40), (3, 33, 17), (20, 70, 33)])
def test_forms(form: str, m: int, k: int, n: int, device_name: str) -> None:
    check(form, device_name, operands(form, m, k, n, BF16))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int16, np.bool_], ids=str)
def test_dtypes(dtype: Any, device_name: str) -> None:
    for form in ("x @ cast(w)", "cast(w) @ x"):
        x, w, s = operands(form, 2, 130, 20, np.int8)
        check(form, device_name, (x, np.abs(w).astype(dtype), s))


@pytest.mark.parametrize("seed", range(40))
def test_random_sizes(seed: int) -> None:
    """What the CPU cuts up in slabs, dots, tiles, panels of either operand, and nothing at all."""
    draw = random.Random(seed)
    m = draw.choice((1, 1, 2, 4, 5, 16, 37, 70))
    k = draw.choice((0, 1, 63, 64, 130, 257, 512))
    n = draw.choice((1, 7, 64, 93, 260, 520))
    form = draw.choice(list(FORMS))
    check(form, "cpu", operands(form, m, k, n, BF16))


def test_a_batch_of_scales_for_one_weight(device_name: str) -> None:
    """The operand goes along the batch although the largest array that it is made of does not."""
    rng = np.random.default_rng(0)
    w, s = rng.integers(-2, 3, (40, 70)).astype(np.int8), np.arange(1, 4, dtype=np.float32)
    for m in (1, 40):
        x = rng.integers(-2, 3, (3, m, 70)).astype(np.float32)
        function = TRACE(lambda x, w, s: x @ (w.mT.astype(f32) * s[:, None, None]), device=device_name)
        np.testing.assert_array_equal(np.asarray(function(x, w, s)), x @ (w.T.astype(np.float32) * s[:, None, None]))


def test_both_operands_are_one_array(device_name: str) -> None:
    w = np.random.default_rng(0).integers(-2, 3, (20, 33)).astype(BF16)
    wide = w.astype(np.float32)
    found = TRACE(lambda w: w.astype(f32) @ w.astype(f32).mT, device=device_name)(w)
    np.testing.assert_array_equal(np.asarray(found), wide @ wide.T)


@pytest.mark.parametrize("k", [1, 7, 512])
@pytest.mark.parametrize("form", ["cast", "map"])
def test_an_operand_that_is_needed_elsewhere_too(form: str, k: int, device_name: str) -> None:
    """Contractions of no rows, one and several; the operand is a result, or what another result is made of."""
    make = {"cast": lambda w: w.astype(f32), "map": lambda w: ops.minimum(w, 1)}[form]
    w = np.random.default_rng(0).integers(-2, 3, k).astype(np.int8 if form == "cast" else np.float32)
    x = np.random.default_rng(1).integers(-2, 3, (3, k)).astype(np.float32)
    functions = (
        lambda x, w: (ops.vecdot(make(w), x[0]), make(w)),
        lambda x, w: (ops.vecdot(make(w), make(w)), make(w) + 1),
        lambda x, w: (x @ make(w), make(w)[::-1]),
        lambda x, w: (x[:1] @ make(w)[:, None], make(w)),
        lambda x, w: (ops.sum(make(w)), x @ make(w), ops.sort(make(w))),
    )
    for function in functions:
        expected = TRACE(function).evaluate(x, w)
        for found, wanted in zip(TRACE(function, device=device_name)(x, w), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_casts_keep_their_order(device_name: str) -> None:
    """A cast through a dtype that is not the sums' own is not left out."""
    w = np.arange(-60, 60, dtype=np.int8).reshape(30, 4)
    x = np.ones((2, 30), np.float32)
    function = TRACE(lambda x, w: x @ w.astype(poot.u16).astype(f32), device=device_name)
    np.testing.assert_array_equal(np.asarray(function(x, w)), x @ w.astype(np.uint16).astype(np.float32))


# --- what is stored ---------------------------------------------------------------------------------------------------


def largest_scratch(function: Any, *specs: Any) -> int:
    program = TRACE(function).program(*specs, device="cpu")
    return max((slot.nbytes for slot in program.storage.slots if slot.role in ("scratch", "kept")), default=0)


@pytest.mark.parametrize("dtype", [bf16, poot.f16, i8], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 4])
def test_no_copy_of_the_weights(form: str, rows: int, dtype: Any) -> None:
    k, n = 512, 2048
    w = dtype[n, k] if form in TRANSPOSED else dtype[k, n]
    partial_sums = 4 * 4 * rows * n  # of up to four slabs
    assert largest_scratch(FORMS[form], f32[rows, k], w, f32[n]) <= partial_sums


def test_vectors_make_no_copy_either() -> None:
    for function in (lambda x, w: x @ w.astype(f32), lambda x, w: w.astype(f32).mT @ x, lambda x, w: ops.matmul(x, w)):
        assert largest_scratch(function, f32[512], bf16[512, 2048]) <= 16 * 2048


def test_many_rows_keep_the_stored_dtype() -> None:
    """Panels are as narrow as the weights, and there is no other copy."""
    assert largest_scratch(lambda x, w: x @ w.astype(f32).mT, f32[300, 520], bf16[640, 520]) == 2 * 640 * 520


def test_captured_weights_are_kept_as_they_are() -> None:
    w = poot.asarray(np.ones((1024, 512), BF16))
    assert largest_scratch(lambda x: x @ w.astype(f32).mT, f32[1, 512]) == 0


def test_dear_prologues_are_stored() -> None:
    """Where an element is read many times, or takes long, it is computed once."""
    assert largest_scratch(lambda x, w: x @ ops.tanh(w), f32[1, 512], f32[512, 256]) >= 4 * 512 * 256
    assert largest_scratch(lambda x, w: x @ (w.astype(f32) * 3), f32[64, 512], i8[512, 256]) >= 4 * 512 * 256


def rms(x: Any, g: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, axis=-1, keepdims=True) + 1e-5) * g


def feed_forward(x: Any, g: Any, gate: Any, up: Any, down: Any) -> Any:
    y = rms(x, g)
    hidden = ops.nn.silu(y @ gate.astype(f32).mT) * (y @ up.astype(f32).mT)
    return x + hidden @ down.astype(f32).mT


def test_a_decode_step_stores_rows_alone() -> None:
    """The norm, gate, up with the activation, down with the residual: four launches, nothing the size of a weight."""
    d, h = 512, 1024
    specs = (f32[1, d], f32[d], bf16[h, d], bf16[h, d], bf16[d, h])
    program = TRACE(feed_forward).program(*specs, device="cpu")
    assert len(program.launches) == 4
    assert largest_scratch(feed_forward, *specs) <= 4 * h
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(spec.shape).astype(spec.dtype.dtype) / 8 for spec in specs]
    found = np.asarray(TRACE(feed_forward)(*arrays))
    np.testing.assert_allclose(found, np.asarray(TRACE(feed_forward).evaluate(*arrays)), rtol=1e-4, atol=1e-5)
