"""Arrays of other libraries on the host, in and out: dtypes that NumPy's reader lacks, and what cannot be shared."""

from __future__ import annotations

import copy
import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import poot
from poot import dlpack, foreign, ops
from poot.backends.binding import check_array
from poot.dtypes import ALL, ArraySpec, DType, bf16, f32, i64
from poot.errors import ArgumentError, ExchangeError, LaunchError, PootError, UnsupportedDTypeError

BITS = np.arange(24, dtype=np.uint16).reshape(4, 6) + 0x3F80
BF16 = BITS.view(bf16.dtype)
_BFLOAT, _E4M3 = 4, 10


class Tensor:
    """An array of another library: NumPy's capsule of the bits, whose code is another one than that of integers."""

    def __init__(self, bits: Any, code: int = _BFLOAT, *, old: bool = False) -> None:
        self.bits, self.code, self.old = bits, code, old

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self, *, max_version: Any = None, **options: Any) -> Any:
        if self.old and max_version is not None:
            raise TypeError("max_version")
        capsule = self.bits.__dlpack__(max_version=max_version)
        at = dlpack._pointer(id(capsule), dlpack.NAMES[max_version is not None])
        offset = dlpack.VERSIONED.size - 28 if max_version is not None else 20
        ctypes.memmove(at + offset, bytes([self.code]), 1)
        return capsule


class Old:
    """The same of other dtypes, by the older structure."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__()


@contextmanager
def at_the_users_line(kind: type[Exception], match: str) -> Iterator[None]:
    with pytest.raises(kind, match=match) as caught:
        yield
    assert isinstance(caught.value, PootError) and caught.value.where is not None
    assert caught.value.where.file == __file__ and caught.value.remedy


# --- in ---------------------------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "0-d": lambda a: a[1, 2, ...],
    "empty": lambda a: a[:0],
    "empty inside": lambda a: a[:, 3:3],
    "strided": lambda a: a[1:, ::2],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-2],
    "repeated": lambda a: np.broadcast_to(a[0], (3, 6)),
}


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_bfloat16_comes_in(view: str, old: bool) -> None:
    bits, expected = VIEWS[view](BITS.copy()), VIEWS[view](BF16).astype(np.float32)
    if old and not bits.flags.writeable:
        bits = bits.copy()  # NumPy gives no read-only memory by the older structure
    tensor = Tensor(bits, old=old)
    found = foreign.host_array(tensor, "x")
    assert found is not None and found.dtype == bf16 and np.shares_memory(found, bits) is bool(bits.size)
    assert found.flags.writeable is (bits.flags.writeable and not old)
    takers: list[Any] = [
        poot.asarray,
        ops.asarray,
        ops.from_dlpack,
        poot.trace(lambda x: x),
        lambda x: poot.trace(lambda y: y + ops.asarray(x))(np.zeros((), bf16.dtype)),
        lambda x: poot.WeightStore.from_arrays({"w": x}).array("w"),
        lambda x: check_array("x", x, ArraySpec(bf16, bits.shape)),
        lambda x: poot.asarray([x, x])[1],
        lambda x: poot.asarray(x, f32),
    ]
    for take in takers:
        y: Any = take(tensor)
        assert y.dtype in (bf16, f32) and y.shape == bits.shape
        np.testing.assert_array_equal(np.asarray(y).astype(np.float32), expected)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype is not bf16], ids=str)
def test_our_reader_agrees_with_numpys(dtype: DType, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = VIEWS[view](np.arange(24).reshape(4, 6).astype(dtype.dtype))
    direct = foreign.host_array(array, "x")

    def refuse(value: Any) -> Any:
        raise RuntimeError("Unsupported dtype")

    monkeypatch.setattr(np, "from_dlpack", refuse)
    for given in (array, Old(array.copy())):
        found = foreign.host_array(given, "x")
        assert found is not None and direct is not None and found.dtype == direct.dtype
        np.testing.assert_array_equal(found, direct)
    shared = foreign.host_array(array, "x")
    assert (shared is not None and shared.strides == array.strides) or not array.size


def test_bfloat16_is_shared_and_written_in_place() -> None:
    bits = BITS.copy()
    for x in (poot.asarray(Tensor(bits), copy=False), ops.from_dlpack(Tensor(bits))):
        assert x.dtype is bf16 and np.shares_memory(np.asarray(x), bits)
    assert np.shares_memory(poot.WeightStore.from_arrays({"w": Tensor(bits)}).array("w"), bits)
    with pytest.raises(ValueError, match="copy: False"):
        poot.asarray(Tensor(bits[:, ::2]), copy=False)

    @poot.kernel
    def double(x: poot.In[poot.bf16], y: poot.Out[poot.bf16]) -> None:
        i = poot.thread_index()
        if i < len(y):
            y[i] = x[i] + x[i]

    out = np.zeros(6, np.uint16)
    double(Tensor(bits[0]), Tensor(out), threads=6)
    np.testing.assert_array_equal(out.view(bf16.dtype), BF16[0] + BF16[0])


def test_memory_goes_back_when_the_last_array_goes_and_no_sooner() -> None:
    class Bits(np.ndarray):
        pass

    gc.disable()
    try:
        bits = BITS[0].copy().view(Bits)
        gone = weakref.ref(bits)
        kept = poot.asarray(Tensor(bits), copy=False)
        poot.asarray(Tensor(bits))
        del bits
        assert gone() is not None and np.asarray(kept)[1] == BF16[0, 1]
        del kept
        assert gone() is None, "and no cycle keeps it"
    finally:
        gc.enable()


def test_other_dtypes_are_named() -> None:
    takers: list[Callable[[Any], Any]] = [
        poot.asarray, poot.trace(lambda x: x), lambda x: poot.WeightStore.from_arrays({"w": x})
    ]  # fmt: skip
    for take in takers:
        with at_the_users_line(UnsupportedDTypeError, "float8_e4m3fn(.|\n)*pass its bytes, as u8"):
            take(Tensor(BITS.view(np.uint8), _E4M3))
        with at_the_users_line(UnsupportedDTypeError, "DLPack's code 99, 16 bits"):
            take(Tensor(BITS, 99))


def test_lists_of_other_libraries_arrays_keep_their_dtypes() -> None:
    for make in (poot.asarray, ops.asarray):
        assert make([Old(np.arange(3)), Old(np.arange(3))]).spec == i64[2, 3]
        assert make([[Tensor(BITS[0])], [Tensor(BITS[1])]]).spec == bf16[2, 1, 6]


class Refusing(Tensor):
    """A tensor that says why, as torch's do."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("this cannot be exported")


@pytest.mark.parametrize(
    ("name", "said", "remedy"),
    [
        ("requires_grad", True, "x.detach()"),
        ("is_meta", True, "holds no elements"),
        ("is_sparse", True, "x.to_dense()"),
        ("is_sparse_csr", True, "x.to_dense()"),
        ("is_quantized", True, "x.dequantize()"),
        ("is_neg", lambda self: True, "x.resolve_neg()"),
    ],
)
def test_what_torch_keeps_to_itself_has_a_remedy(name: str, said: Any, remedy: str) -> None:
    kind = type("Kept", (Tensor if name == "is_neg" else Refusing,), {name: said})
    takers: list[Callable[[Any], Any]] = [
        poot.asarray,
        ops.from_dlpack,
        poot.trace(lambda x: x),
        lambda x: poot.WeightStore.from_arrays({"w": x}),
        lambda x: check_array("x", x, bf16[4, 6]),
    ]
    for take in takers:
        with pytest.raises(ExchangeError, match="the Kept of tests") as caught:
            take(kind(BITS))
        assert remedy in caught.value.remedy and caught.value.where is not None
        assert caught.value.where.file == __file__


def test_memory_that_the_host_cannot_address_is_refused() -> None:
    class Away(Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            capsule = super().__dlpack__(**options)
            at = dlpack._pointer(id(capsule), dlpack.NAMES["max_version" in options])
            ctypes.memmove(at + 40 if "max_version" in options else at + 8, bytes([8]), 1)  # Metal
            return capsule

    with at_the_users_line(ExchangeError, r"lie on DLPack's device \(8, 0\)"):
        poot.asarray(Away(BITS))


# --- out --------------------------------------------------------------------------------------------------------------

SHAPES = [(), (0,), (3, 0, 2), (5,), (2, 3), (1, 5, 1)]


def made(dtype: DType, shape: tuple[int, ...], name: str = "cpu") -> Any:
    return poot.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.dtype), device=name)


def elements(lent: dlpack.Lent) -> Any:
    return np.asarray(foreign._Borrowed(lent)).view(lent.dtype.dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arrays_go_out_as_they_are(dtype: DType) -> None:
    for shape in SHAPES:
        x = made(dtype, shape)
        lent = dlpack.take(x.__dlpack__(max_version=(1, 0)), "x")
        assert (lent.dtype, lent.shape, lent.device, lent.read_only) == (dtype, shape, (dlpack.CPU, 0), True)
        assert lent.address == x.address or not x.size
        expected = x.numpy().copy()
        del x
        np.testing.assert_array_equal(elements(lent), expected)


@pytest.mark.parametrize(
    "options", [{}, {"copy": True}, {"max_version": (0, 8)}, {"copy": True, "max_version": (1, 0)}]
)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_what_may_be_written_is_a_copy(dtype: DType, options: dict[str, Any], device_name: str) -> None:
    if device_name not in ("cpu", "interpret"):
        return
    for shape in SHAPES:
        x = made(dtype, shape, device_name)
        lent = dlpack.take(x.__dlpack__(**options), "x")
        assert lent.dtype is dtype and lent.shape == shape
        array, expected = elements(lent), x.numpy().copy()
        np.testing.assert_array_equal(array, expected)
        ctypes.memset(lent.address, 1, x.nbytes)
        np.testing.assert_array_equal(x.numpy(), expected)


def test_an_old_consumer_that_wants_no_copy_is_refused() -> None:
    for dtype in (f32, bf16):
        x = made(dtype, (3,))
        for version in (None, (0, 8)):
            with at_the_users_line(BufferError, "copy=False(.|\n)*leave copy= out"):
                x.__dlpack__(copy=False, max_version=version)
        assert dlpack.take(x.__dlpack__(copy=False, max_version=(1, 1)), "x").address == x.address


def test_bfloat16_goes_out_and_comes_back() -> None:
    x = made(bf16, (2, 3))
    for y in (ops.from_dlpack(Other(x), copy=False), poot.asarray(Other(x), copy=False)):
        assert y.address == x.address and y.dtype is bf16  # type: ignore[attr-defined]


class Other:
    """The same array, as another library's."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


# --- launches -------------------------------------------------------------------------------------------------------


def shares_host(device_name: str) -> bool:
    try:
        poot.asarray(np.ones(4, np.float32), device=device_name, copy=False)
    except ArgumentError:
        return False
    return True


@poot.kernel
def increase(x: poot.In[f32], y: poot.InOut[f32]):
    i = poot.thread_index()
    if i < len(y):
        y[i] = y[i] + x[i]


@pytest.mark.parametrize("aligned", [False, True], ids=["first", "after aligned ones"])
def test_kernels_run_on_shared_memory_wherever_it_begins(device_name: str, aligned: bool) -> None:
    if not shares_host(device_name):
        return
    if aligned:
        increase(*(poot.asarray(np.ones(8, np.float32), device=device_name) for _ in range(2)), threads=8)
    memory, other = np.arange(9, dtype=np.float32), np.ones(9, np.float32)
    x, y = (poot.asarray(array[1:], device=device_name, copy=False) for array in (other, memory))
    for turn in (1, 2):
        increase(x, y, threads=8)
        assert memory.tolist() == [0, *(place + turn for place in range(1, 9))]
    assert np.asarray(y).tolist() == memory[1:].tolist()


def test_an_array_and_a_view_of_its_memory_are_refused_in_one_launch(device_name: str) -> None:
    if not shares_host(device_name):
        return
    memory = np.arange(9, dtype=np.float32)
    whole = poot.asarray(memory, device=device_name, copy=False)
    for arrays in ((memory, whole), (whole, memory), (np.asarray(whole), whole), (memory[::-1], whole)):
        with pytest.raises(LaunchError, match="the output `y` shares memory with `x`"):
            increase(*arrays, threads=9, device=device_name)
    half = poot.asarray(memory[4:], device=device_name, copy=False)
    increase(memory[:4], half, threads=4, device=device_name)
    assert memory.tolist() == [0, 1, 2, 3, 4, 6, 8, 10, 8]


# --- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made_of",
    [
        copy.copy,
        copy.deepcopy,
        ops.copy,
        ops.positive,
        ops.clip,
        lambda x: x.T,
        lambda x: x[:],
        lambda x: x.at[:0].set(0),
    ],
)
def test_what_is_made_of_shared_memory_has_read_it(device_name: str, made_of: Callable[[Any], Any]) -> None:
    if not shares_host(device_name):
        return
    memory = np.ones(1 << 20, np.float32)
    for _ in range(2):
        memory[:] = 1
        made = made_of(poot.asarray(memory, device=device_name, copy=False))
        memory[:] = 2
        assert (np.asarray(made) == 1).all()
