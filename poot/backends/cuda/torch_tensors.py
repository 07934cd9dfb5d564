# pyright: basic
"""torch's plain tensors on a GPU by their own attributes: a fraction of the time that a DLPack capsule takes."""

from __future__ import annotations

import functools
import sys
from typing import Any

from poot import dlpack
from poot.dtypes import ALL, DType


@functools.cache
def _dtypes(torch: Any) -> dict[Any, DType]:
    """By torch's own, which are named as NumPy's."""
    return {getattr(torch, name): dtype for dtype in ALL if hasattr(torch, name := dtype.dtype.name)}


def lent(value: Any) -> dlpack.Lent | None:
    """The memory of a tensor, in use until its `release`; None for what is not a plain tensor that may be shared.

    A tensor that needs gradients is none: its own DLPack says what to do.  Nothing is ordered: see `current_stream`.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.requires_grad or value.layout is not torch.strided:
        return None
    dtype = _dtypes(torch).get(value.dtype)
    if dtype is None or value.is_neg():
        return None
    place = dlpack.CUDA, value.device.index
    kept = [value.detach()]  # what is done to the tensor itself later, as `set_`, leaves this one
    return dlpack.Lent(value.data_ptr(), dtype, tuple(value.shape), value.stride(), place, False, kept.clear)


def current_stream(value: Any) -> int:
    """The stream that torch works on just now, on a tensor's device."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return torch.cuda.current_stream(value.device).cuda_stream if raw is None else raw(value.device.index)
