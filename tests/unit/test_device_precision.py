"""`poot.device(…, f64="f32", i64="i32")`: calls on that device convert 64-bit arrays, as the options of trace do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, OverflowArgumentError, UnsupportedDTypeError

X = np.linspace(0, 1, 5)
TRACE: Any = poot.trace


def test_in_a_block_and_after_it() -> None:
    f = TRACE(lambda x: x * 2)
    for _ in range(3):  # the short way, too, knows where it is
        assert f(X).dtype is poot.f64
        with poot.device("cpu", f64="f32"):
            assert f(X).dtype is poot.f32
            assert f.graph(X).inputs[0].value.spec.dtype is poot.f32
            np.testing.assert_array_equal(np.asarray(f(X)), np.float32(X) * 2)
            assert f.evaluate(X).dtype == np.float32
        with poot.device("cpu"):
            assert f(X).dtype is poot.f64


def test_captured_arrays_and_eager_calls() -> None:
    captured = np.arange(5)
    f = TRACE(lambda x: ops.sum(x * captured))
    wide = np.arange(5)
    for _ in range(2):
        assert f(wide).dtype is poot.i64
        with poot.device("cpu", i64="i32"):
            assert f(wide).dtype is poot.i32
            with poot.eager():
                assert f(wide).dtype is poot.i32


def test_as_the_device_of_a_function() -> None:
    small = poot.device("cpu", f64="f32")
    assert TRACE(lambda x: x + 1, device=small)(X).dtype is poot.f32
    assert TRACE(lambda x: x + 1, device=small, i64="i32")(X).dtype is poot.f64, "what a function says holds"
    with small:
        assert TRACE(lambda x: x + 1, device="cpu")(X).dtype is poot.f64
        assert TRACE(lambda x: x + 1, i64="i32")(X).dtype is poot.f64


def test_arrays_that_are_made() -> None:
    small = poot.device("cpu", f64="f32", i64="i32")
    assert poot.asarray(X, device=small).dtype is poot.f32
    with small:
        assert poot.asarray(np.arange(3)).dtype is poot.i32
        assert poot.asarray(X, dtype=poot.f64).dtype is poot.f64, "what is asked for by name"
        with pytest.raises(OverflowArgumentError, match="4294967296"):
            poot.asarray(np.array([1 << 32]))
        with pytest.raises(ArgumentError, match="f64 as f32 has to be copied"):
            poot.asarray(X, copy=False)
    assert poot.asarray(X).dtype is poot.f64


def test_what_is_converted_and_what_is_kept() -> None:
    """As the table of docs/devices.md says."""
    past, wide, made = np.array([1.5, 1e300]), np.array([1 << 40]), poot.asarray(X)
    with poot.device("cpu", f64="f32", i64="i32"):
        assert TRACE(lambda x: x * 2)(made).dtype is poot.f32, "arrays of poot too"
        np.testing.assert_array_equal(np.asarray(TRACE(lambda x: x * 2)(past)), np.float32([3, np.inf]))
        np.testing.assert_array_equal(np.asarray(poot.asarray(past)), np.float32([1.5, np.inf]))
        for array in (wide, wide.astype(np.uint64)):
            for call in (TRACE(lambda x: x + x), poot.asarray):
                with pytest.raises(OverflowArgumentError, match=f"{1 << 40} in .* does not fit [iu]32"):
                    call(array)
        kept = (made * 2, ops.asarray(X), ops.zeros(3, dtype=poot.f64), ops.zeros_like(made), poot.asarray(made))
        assert {array.dtype for array in kept} == {poot.f64}
        assert ops.ones(1, dtype=poot.f32).astype(poot.f64).dtype is poot.f64
        assert TRACE(lambda x: x.astype(poot.f64))(X).dtype is poot.f64
        assert TRACE(lambda x: x + ops.zeros(5, dtype=poot.f64))(X).dtype is poot.f64


def test_where_the_device_has_no_such_dtype(device_name: str) -> None:
    device = poot.device(device_name)
    f = TRACE(lambda x: x * 2, device=device)
    if poot.f64 in device.target.dtypes:
        assert f(X).dtype is poot.f64
    else:
        with pytest.raises(UnsupportedDTypeError, match=r'f64="f32" in @poot.trace or poot.device'):
            f(X)
    with poot.device(device_name, f64="f32") as small:
        np.testing.assert_array_equal(np.asarray(TRACE(lambda x: x * 2)(X)), np.float32(X) * 2)
        assert poot.device(small) is small and poot.device(small, f64="f32") is small
        assert repr(small) == f"poot.device({device_name!r}, f64='f32')"
    assert small != device and hash(small) != hash(device)
    with pytest.raises(ArgumentError, match="f64="):
        poot.device(device_name, f64="f16")  # type: ignore[arg-type]
