"""DLPack capsules of both ages, made and taken by hand, with NumPy at the other end."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot import dlpack
from poot.backends import capsules
from poot.dtypes import ALL, ArraySpec, DType, bf16, bool_, f32
from poot.errors import ArgumentError, UnsupportedDTypeError

CPU = (dlpack.CPU, 0)


class Holder(capsules.Owner):
    """Keeps an array, and counts how many are kept."""

    alive = 0

    def __init__(self, array: np.ndarray) -> None:
        super().__init__()
        self.array = array
        Holder.alive += 1

    def __del__(self) -> None:
        Holder.alive -= 1


class Wrapped:
    """What NumPy takes: a capsule behind the protocol's methods."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule


def capsule(array: np.ndarray, dtype: DType, *, versioned: bool = True, read_only: bool = True) -> Any:
    spec = ArraySpec(dtype, array.shape)
    return capsules.make(array.ctypes.data, spec, CPU, Holder(array), versioned=versioned, read_only=read_only)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    gc.freeze()  # what other tests left behind is not looked at in every collection
    yield
    gc.collect()
    gc.unfreeze()
    assert Holder.alive == 0


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype is not bf16], ids=str)
def test_numpy_takes_ours(dtype: DType, versioned: bool) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype.dtype)
    taken = np.from_dlpack(Wrapped(capsule(array, dtype, versioned=versioned)))
    assert taken.ctypes.data == array.ctypes.data and taken.dtype == array.dtype and Holder.alive == 1
    np.testing.assert_array_equal(taken, array)
    assert not taken.flags.writeable
    del taken
    gc.collect()
    assert Holder.alive == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (4, 1, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.float32)
    for versioned in (True, False):
        taken = np.from_dlpack(Wrapped(capsule(array, f32, versioned=versioned)))
        assert taken.shape == shape
        lent = dlpack.take(capsule(array, f32, versioned=versioned), "x")
        assert lent.shape == shape and lent.strides == dlpack.contiguous(shape) and lent.dtype is f32
        lent.release()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_we_take_numpys(version: tuple[int, int] | None) -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[1:, ::-2]
    lent = dlpack.take(array.__dlpack__(max_version=version), "x")
    assert lent.address == array.ctypes.data and lent.shape == (3, 3) and lent.strides == (6, -2)
    assert lent.device == CPU and lent.read_only is (version is None)
    lent.release()
    array.flags.writeable = False
    lent = dlpack.take(array.__dlpack__(max_version=(1, 0)), "x")
    assert lent.read_only
    lent.release()


def test_both_ages_of_bfloat16() -> None:
    array = np.ones(3, bf16.dtype)
    for versioned in (True, False):
        lent = dlpack.take(capsule(array, bf16, versioned=versioned), "x")
        assert lent.dtype is bf16 and lent.read_only
        lent.release()


def test_marks() -> None:
    array = np.ones(3, bool)
    for read_only in (True, False):
        lent = dlpack.take(capsule(array, bool_, read_only=read_only), "x")
        assert lent.read_only is read_only
        lent.release()


def _raise(made: Callable[[], Any]) -> None:
    kept = made()
    raise KeyError(type(kept).__name__)


@pytest.mark.parametrize("versioned", [True, False])
def test_capsules_that_go_while_an_exception_passes(versioned: bool) -> None:
    array = np.ones(3, np.float32)
    for made in (
        lambda: capsule(array, f32, versioned=versioned),
        lambda: np.from_dlpack(Wrapped(capsule(array, f32, versioned=versioned))),
    ):
        try:
            _raise(made)
        except KeyError as error:
            assert str(error) in ("'PyCapsule'", "'ndarray'")
            error.__traceback__ = None
        gc.collect()
        assert Holder.alive == 0


def test_other_threads_let_go() -> None:
    array = np.ones(3, np.float32)
    held = [np.from_dlpack(Wrapped(capsule(array, f32))), capsule(array, f32, versioned=False)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()


def test_what_is_no_fresh_capsule_is_refused() -> None:
    with pytest.raises(ArgumentError, match="x: 3 is not valid"):
        dlpack.take(3, "x")
    used = capsule(np.ones(3, np.float32), f32)
    lent = dlpack.take(used, "x")
    with pytest.raises(ArgumentError, match="not been used"):
        dlpack.take(used, "x")
    lent.release()
    with pytest.raises(UnsupportedDTypeError, match="complex64"):
        dlpack.take(np.ones(3, np.complex64).__dlpack__(), "x")
