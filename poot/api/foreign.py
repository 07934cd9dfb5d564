"""Arrays of other libraries on a GPU, as arrays of poot over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.api.array import DeviceArray, Held
from poot.backends.device import DeviceBackend, open_device
from poot.backends.sharing import gpu_of, gpu_protocol, sharing_of
from poot.errors import DeviceError

_COPY = "copy it to the host first, and pass the NumPy array."
#: Arguments that are not other libraries' arrays, most often.
_OURS = frozenset({dict, list, tuple, np.ndarray, DeviceArray, float, int, bool, str, type(None)})


def device_array(value: Any, what: str, *, copy: bool | None = None) -> DeviceArray | None:
    """A poot array over another library's array on a CUDA device; None for arrays on the host, and for other objects.

    Nothing is copied where the elements are contiguous and aligned; ArgumentError for copy=False where they are not.
    `what` names the array in errors.
    DeviceUnavailableError says what is missing for its device.
    """
    ordinal = gpu_of(value, what)
    if ordinal is None:
        return None
    backend: DeviceBackend = open_device(f"cuda:{ordinal}")
    sharing = sharing_of(backend)
    if sharing is None:
        raise DeviceError(device=backend.name, message="it does not take other libraries' arrays", remedy=_COPY)
    buffer, spec = sharing.borrow(value, what, copy=copy)
    return DeviceArray(Held(backend, buffer), spec)


def all_here(args: tuple[Any, ...], what: str) -> tuple[Any, ...] | None:
    """The arguments of a call with other libraries' arrays on GPUs as arrays of poot; None where there are none."""
    if all(type(value) in _OURS or gpu_protocol(value) is None for value in args):
        return None
    found = [None if isinstance(value, (DeviceArray, np.ndarray)) else device_array(value, what) for value in args]
    if all(array is None for array in found):
        return None
    return tuple(value if array is None else array for value, array in zip(args, found, strict=True))
