"""Checking a host array against the spec that it is bound to."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.backends.device import DeviceBackend
from poot.backends.loss import require_alive
from poot.backends.sharing import same_memory
from poot.dtypes import ArraySpec, as_dtype, check_plain
from poot.errors import DeviceMismatchError, DTypeError, ShapeError
from poot.foreign import as_numpy


def check_home(what: str, value: Any, device: DeviceBackend) -> None:
    """DeviceMismatchError for an array of poot's that lives on another device than the one it is for."""
    home = getattr(value, "backend", None)
    if home is None or not hasattr(home, "replay"):
        return
    require_alive(home)
    if not same_memory(home, device):
        raise DeviceMismatchError(
            devices=f"{what} on {home.name}, the engine on {device.name}",
            remedy=f'move it once, with x.to_device("{device.name}"), or pass a NumPy array.',
        )


def check_array(what: str, value: Any, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """`value` as a C-contiguous NumPy array of exactly the spec's dtype and shape.

    UnsupportedDTypeError, DTypeError or ShapeError name `what`; nothing is narrowed, widened or broadcast.
    """
    check_plain(value, what)
    array = as_numpy(value, what)
    dtype = as_dtype(array.dtype, what)
    if dtype is not spec.dtype:
        raise DTypeError(
            what=what, actual=dtype, expected=spec.dtype, remedy="cast it first; nothing is cast silently."
        )
    if array.shape != spec.shape:
        raise ShapeError(what=what, actual=array.shape, expected=spec.shape)
    if not (array.dtype.isnative and array.flags.aligned):
        array = array.astype(spec.dtype.dtype)
    return np.ascontiguousarray(array).reshape(spec.shape)
