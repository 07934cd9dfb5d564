"""Devices, DLPack and inspection, as the array API asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, DeviceError, FeatureError, ShapeError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


# --- devices ----------------------------------------------------------------------------------------------------------


def test_arrays_move_between_devices() -> None:
    x = poot.asarray(X, device="cpu")
    y = x.to_device("interpret")
    assert (x.device, y.device) == ("cpu", "interpret")
    assert x.to_device(x.device) is x and x.to_device(poot.device("cpu")) is x
    np.testing.assert_array_equal(np.asarray(y), X)
    with pytest.raises(ArgumentError, match="stream"):
        x.to_device("cpu", stream=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda device: ops.zeros(3, device=device),
        lambda device: ops.ones((2, 2), device=device),
        lambda device: ops.empty(2, device=device),
        lambda device: ops.full(2, 7, device=device),
        lambda device: ops.full(2, X[0, 0], device=device),
        lambda device: ops.eye(3, k=1, device=device),
        lambda device: ops.arange(3, device=device),
        lambda device: ops.linspace(0, 1, 3, device=device),
        lambda device: ops.asarray(X, device=device),
        lambda device: ops.asarray([1, 2], device=device),
        lambda device: ops.asarray(poot.asarray(X, device="cpu"), device=device),
        lambda device: ops.astype(poot.asarray(X, device="cpu"), poot.i32, device=device),
        lambda device: ops.zeros_like(poot.asarray(X, device="cpu"), device=device),
        lambda device: ops.ones_like(poot.asarray(X, device=device)),
        lambda device: ops.full_like(poot.asarray(X, device=device), 2),
        lambda device: ops.empty_like(poot.asarray(X, device=device)),
        lambda device: ops.from_dlpack(X, device=device),
    ],
)
def test_new_arrays_go_where_they_are_told_to(make: Any, device_name: str) -> None:
    assert make(device_name).device == device_name


@pytest.mark.parametrize(
    "function",
    [
        ops.argsort,
        ops.tril,
        ops.nn.softmax,
        lambda x: ops.top_k(x, 2),
        lambda x: ops.cumulative_sum(x, axis=0, include_initial=True),
        lambda x: ops.searchsorted(x[0], x),
        lambda x: ops.take_along_axis(x, ops.argsort(x)),
        lambda x: ops.nn.one_hot(ops.argmax(x, axis=1), 3),
        lambda x: ops.nn.attention(x[None, None], x[None, None], x[None, None], causal=True),
        lambda x: ops.linalg.matrix_power(x[:, :2], 0),
        lambda x: ops.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        lambda x: ops.scan(lambda c, row: (c + ops.sum(row), c), 0.0, x),
        lambda x: x.at[0, 1].add(1.0),
        lambda x: x[np.array([0, 1]), 1],
        lambda x: x[np.array([True, False])],
        lambda x: ops.where(x > 1, 0.0, 1.0),
    ],
)
def test_what_an_operation_makes_goes_where_its_arrays_are(function: Any) -> None:
    with poot.device("cpu"):
        found = function(poot.asarray(X, device="interpret"))
        expected = function(poot.asarray(X, device="cpu"))
    for one, other in zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True):
        assert one.device == "interpret"
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5)


def test_values_of_a_trace_are_on_no_device_yet() -> None:
    @poot.trace(device="cpu")
    def double(x: Any) -> Any:
        xp = x.__array_namespace__()
        assert x.device == "traced" and x.to_device(x.device) is x
        return x + xp.ones_like(x, device=x.device) + xp.from_dlpack(xp.zeros(3, device=x.device))

    np.testing.assert_array_equal(np.asarray(double(X)), X + 1)
    for wrong in (lambda x: x.to_device("cpu"), lambda x: ops.ones(3, device="cpu") + x):
        with pytest.raises(DeviceError, match="inside a traced function"):
            poot.trace(wrong, device="cpu")(X)


# --- DLPack -----------------------------------------------------------------------------------------------------------


def test_arrays_are_exported_without_a_copy_and_read_only() -> None:
    x = poot.asarray(X, device="cpu")
    assert x.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(x)
    assert np.shares_memory(y, x.numpy()) and not y.flags.writeable
    del x
    np.testing.assert_array_equal(y, X)
    copied = np.from_dlpack(poot.asarray(X, device="cpu"), copy=True)
    assert copied.flags.writeable


def test_an_array_is_exported_for_no_other_device() -> None:
    x: Any = poot.asarray(X, device="cpu")
    with pytest.raises(BufferError, match="not exported"):
        x.__dlpack__(max_version=(1, 0), dl_device=(2, 0))


def test_arrays_of_others_are_shared_unless_a_copy_is_asked_for() -> None:
    for host in (X.copy(), np.frombuffer(X.tobytes(), np.float32)):
        shared = ops.from_dlpack(host, device="cpu")
        assert np.shares_memory(np.asarray(shared), host)
        assert not np.shares_memory(np.asarray(ops.from_dlpack(host, device="cpu", copy=True)), host)
        assert np.shares_memory(np.asarray(ops.asarray(host, device="cpu", copy=False)), host)
        assert not np.asarray(shared).flags.writeable and ops.from_dlpack(shared) is shared
    strided = X[:, ::2]
    np.testing.assert_array_equal(np.asarray(ops.from_dlpack(strided, device="cpu")), strided)
    with pytest.raises(BufferError, match="copy"):
        ops.from_dlpack(strided, device="cpu", copy=False)


def test_copies_that_cannot_be_avoided_are_refused() -> None:
    for wrong in (lambda: ops.asarray([1, 2], copy=False), lambda: ops.asarray(X, dtype=poot.f16, copy=False)):
        with pytest.raises(ArgumentError, match="copy"):
            wrong()
    x = poot.asarray(X)
    assert ops.asarray(x, copy=False) is x
    copied = ops.asarray(x, copy=True)
    assert copied.device == x.device and not np.shares_memory(np.asarray(copied), np.asarray(x))
    assert ops.asarray(x, dtype=poot.i32, copy=True).dtype is poot.i32


# --- the namespace ----------------------------------------------------------------------------------------------------


def test_inspection() -> None:
    info = ops.__array_namespace_info__()
    assert ops.__array_api_version__ == "2024.12"
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": None,
    }
    assert {"cpu", "interpret"} <= set(info.devices())
    with poot.device("interpret"):
        assert info.default_device() == "interpret"
    assert info.default_dtypes() == {"real floating": poot.f32, "integral": poot.i32, "indexing": poot.i32}
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {"bool", "int8", "int16", "int32", "int64"}
    assert info.dtypes(kind="complex floating") == {}
    assert all(getattr(ops, name) is dtype for name, dtype in info.dtypes().items())


def test_dtypes_answer_as_the_standard_says() -> None:
    assert ops.isdtype(ops.float32, ("integral", "real floating")) and not ops.isdtype(ops.bool, "numeric")
    assert ops.result_type(ops.int8, ops.uint8) is ops.int16
    assert ops.result_type(poot.asarray(X), 1, ops.float64) is ops.float64
    assert ops.can_cast(ops.int8, ops.int16) and not ops.can_cast(ops.int16, ops.int8)
    for name in ("float32", "float64"):
        ours, theirs = ops.finfo(getattr(ops, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.dtype is getattr(ops, name)
    for name in ("int8", "uint8", "int64", "uint64"):
        assert ops.iinfo(getattr(ops, name)).max == np.iinfo(name).max
        assert ops.iinfo(getattr(ops, name)).min == np.iinfo(name).min
    assert (ops.e, ops.pi, ops.inf, ops.newaxis) == (np.e, np.pi, np.inf, None) and np.isnan(ops.nan)


@pytest.mark.parametrize("version", ["2022.12", "2023.12", "2024.12"])
def test_the_namespace_of_a_version(version: str) -> None:
    assert poot.asarray(X).__array_namespace__(api_version=version) is ops
    with pytest.raises(ArgumentError, match="api_version"):
        poot.asarray(X).__array_namespace__(api_version="2019.12")


def test_missing_names_say_what_to_do() -> None:
    assert not hasattr(ops, "unique_all") and not hasattr(ops.linalg, "svd")
    with pytest.raises(FeatureError, match="complex"):
        ops.conj
    with pytest.raises(FeatureError, match=r"numpy\.linalg"):
        ops.linalg.svd
    with pytest.raises(AttributeError, match="nothing_such"):
        ops.linalg.nothing_such


def test_vector_products_and_powers_refuse_what_they_cannot_do() -> None:
    with pytest.raises(ShapeError, match="three elements"):
        ops.linalg.cross(np.ones(2, np.float32), np.ones(2, np.float32))
    with pytest.raises(ShapeError, match="square"):
        ops.linalg.matrix_power(X, 2)
    with pytest.raises(ArgumentError, match="0 or more"):
        ops.linalg.matrix_power(X[:, :2], -1)
    power = poot.trace(lambda x: ops.linalg.matrix_power(x, 5), device="cpu")
    np.testing.assert_array_equal(np.asarray(power(X[:, :2])), np.linalg.matrix_power(X[:, :2], 5))
