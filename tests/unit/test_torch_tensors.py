"""torch's tensors on a GPU, which are read by their own attributes: over a torch and a CuPy of host memory."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import poot
from poot.errors import ArgumentError, ExchangeError
from tests.unit.fake_cupy import Fake, installed
from tests.unit.test_cuda_interop import Tensor as Shared

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Tensor(Shared):
    """What poot asks of a tensor of torch; its DLPack capsule says that it was asked for."""

    requires_grad = False
    layout = "strided"
    detached = 0

    @property
    def dtype(self) -> Any:
        return f"torch.{self.spec.dtype.dtype.name}"

    @property
    def device(self) -> Any:
        return types.SimpleNamespace(type="cuda", index=0)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    def stride(self) -> tuple[int, ...]:
        steps = np.cumprod([1, *self.spec.shape[:0:-1]])
        return tuple(int(step) for step in steps[::-1])

    def data_ptr(self) -> int:
        return self.address

    def is_neg(self) -> bool:
        return False

    def detach(self) -> Any:
        self.detached += 1
        return Detached(self)


class Detached:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __del__(self) -> None:
        self.tensor.detached -= 1


class Torch(types.ModuleType):
    """The module; `stream` is the one that it works on."""

    Tensor = Tensor
    strided = "strided"
    stream = 0

    def __init__(self) -> None:
        super().__init__("torch")
        for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"):
            setattr(self, name, f"torch.{name}")
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: self.stream)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    made = installed(monkeypatch)
    yield made
    assert not made.problems


@pytest.fixture
def torch(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Torch:
    module = Torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(Tensor, "__module__", "torch")
    return module


def test_a_tensor_is_shared_without_a_capsule(torch: Torch, fake: Fake) -> None:
    x = Tensor(X)
    shared = poot.asarray(x, copy=False)
    assert shared.address == x.address and shared.spec == x.spec and not x.streams  # type: ignore[attr-defined]
    assert x.detached == 1 and not fake.waits
    np.testing.assert_array_equal(poot.trace(lambda x, y: x + y)(x, shared).numpy(), X + X)
    del shared
    gc.collect()
    assert x.detached == 0


def test_streams_wait_for_each_other(torch: Torch, fake: Fake) -> None:
    with fake.stream() as stream:
        torch.stream = stream.ptr
    x = Tensor(X)
    shared = poot.asarray(x, copy=False)
    assert fake.waits == [(0, stream.ptr)], "our stream waits for torch's"
    del shared
    gc.collect()
    assert fake.waits == [(0, stream.ptr), (stream.ptr, 0)], "and torch's for ours, which may have written"


def test_what_is_no_plain_tensor_goes_by_its_capsule(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("requires_grad", True), ("layout", "sparse")):
        with monkeypatch.context() as changed:
            changed.setattr(Tensor, name, value)
            x = Tensor(X)
            shared = poot.asarray(x, copy=False)
            assert x.streams and not x.detached, name
            del shared


def test_a_tensor_that_dlpack_would_give_with_wrong_signs_is_refused(
    torch: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "is_neg", lambda self: True)
    x = Tensor(X)
    with pytest.raises(ExchangeError, match="signs turned") as caught:
        poot.asarray(x)
    assert "resolve_neg" in caught.value.remedy and not x.streams


def test_what_torch_refuses_is_quoted(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Tensor, **options: Any) -> Any:
        raise BufferError("use tensor.detach()")

    monkeypatch.setattr(Tensor, "requires_grad", True)
    monkeypatch.setattr(Tensor, "__dlpack__", refuse)
    with pytest.raises(ExchangeError, match=r"use tensor\.detach") as caught:
        poot.trace(lambda x: x)(Tensor(X))
    assert "x.detach()" in caught.value.remedy and caught.value.where is not None
    assert caught.value.where.file == __file__


def test_a_view_that_cannot_be_shared_is_refused_or_copied(torch: Torch) -> None:
    x = Tensor(X, shift=4)
    with pytest.raises(ArgumentError, match="copy: False"):
        poot.asarray(x, copy=False)
    np.testing.assert_array_equal(poot.asarray(x).numpy(), X)  # type: ignore[union-attr]
    gc.collect()
    assert x.detached == 0
