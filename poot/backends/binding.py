"""Checking arguments: an array against the spec that it is bound to, which is then brought there, and others' kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from poot.backends.device import BufferView, DeviceBackend, HostArray
from poot.backends.loss import require_alive
from poot.backends.sharing import gpu_of, same_memory, sharing_of
from poot.dtypes import ArraySpec, as_dtype, check_plain
from poot.errors import AllocationError, ArgumentTypeError, DeviceMismatchError, DTypeError, ShapeError
from poot.foreign import as_numpy

_LONGEST = 60  # characters of a value in a message


class OnDevice(Protocol):
    """An array of poot's, which lives on a device."""

    @property
    def backend(self) -> DeviceBackend: ...

    @property
    def spec(self) -> ArraySpec: ...

    @property
    def memory(self) -> object: ...

    @property
    def is_tracked(self) -> bool: ...

    def buffer_view(self) -> BufferView: ...


@dataclass(frozen=True, slots=True)
class Resident:
    """Elements that are on the device already, and what keeps them there."""

    view: BufferView
    memory: object


#: What is to be brought to a place on the device: elements of the host, or of the device itself.
Elements: TypeAlias = HostArray | Resident


def check_elements(what: str, value: Any, spec: ArraySpec, device: DeviceBackend) -> Elements:
    """The elements of an array for `device`, which `put` brings to their place, without the host where it can.

    DeviceMismatchError for an array of poot's that lives on another device, or another library's on another GPU; its
    fault for one that was made by a computation that had one; and the errors of `check_array`.
    """
    if isinstance(value, np.ndarray):
        return check_array(what, value, spec)
    home = getattr(value, "backend", None)
    if home is not None and hasattr(home, "replay"):
        return _check_ours(what, cast("OnDevice", value), spec, device)
    sharing = sharing_of(device)
    number = None if sharing is None else gpu_of(value, what)
    if sharing is None or number is None:
        return check_array(what, value, spec)
    if number != sharing.device()[1]:
        raise _elsewhere(what, f"GPU {number}", device, f'poot.asarray(x, device="{device.name}")')
    buffer, actual = sharing.borrow(value, what)
    _check_spec(what, actual, spec)
    return Resident(BufferView(buffer), buffer)


def _check_ours(what: str, array: OnDevice, spec: ArraySpec, device: DeviceBackend) -> Elements:
    require_alive(array.backend)
    if not same_memory(array.backend, device):
        raise _elsewhere(what, array.backend.name, device, f'x.to_device("{device.name}")')
    if not array.is_tracked:  # the caller may write to it as soon as it has been given
        return check_array(what, array, spec)
    _check_spec(what, array.spec, spec)
    memory = array.memory  # first: what is donated from here on is still held
    return Resident(array.buffer_view(), memory)


def _elsewhere(what: str, home: str, device: DeviceBackend, call: str) -> DeviceMismatchError:
    return DeviceMismatchError(
        devices=f"{what} on {home}, the engine on {device.name}",
        remedy=f"move it once, with {call}, or pass a NumPy array.",
    )


def put(device: DeviceBackend, target: BufferView, elements: Elements, nbytes: int) -> None:
    """Bring checked elements to `target`, in order with launches."""
    if isinstance(elements, Resident):
        device.copy(elements.view, target, nbytes)
    else:
        device.write(target, elements)


def check_array(what: str, value: Any, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """`value` as a C-contiguous NumPy array of exactly the spec's dtype and shape.

    UnsupportedDTypeError, DTypeError or ShapeError name `what`; nothing is narrowed, widened or broadcast.
    """
    check_plain(value, what)
    array = as_numpy(value, what)
    _check_spec(what, ArraySpec(as_dtype(array.dtype, what), array.shape), spec)
    try:
        if not (array.dtype.isnative and array.flags.aligned):
            array = array.astype(spec.dtype.dtype)
        return np.ascontiguousarray(array).reshape(spec.shape)
    except MemoryError as error:
        raise AllocationError(nbytes=spec.nbytes, device="the host", message=str(error)) from error


def _check_spec(what: str, actual: ArraySpec, wanted: ArraySpec) -> None:
    if actual.dtype is not wanted.dtype:
        raise DTypeError(
            what=what, actual=actual.dtype, expected=wanted.dtype, remedy="cast it first; nothing is cast silently."
        )
    if actual.shape != wanted.shape:
        raise ShapeError(what=what, actual=actual.shape, expected=wanted.shape)


def expect(what: str, value: object, kind: type | tuple[type, ...], expected: str, remedy: str | None = None) -> None:
    """ArgumentTypeError for an argument of another kind, which names its value where that is a short one."""
    if not isinstance(value, kind):
        text = repr(value)
        short = len(text) <= _LONGEST and "\n" not in text and not text.startswith("<")
        actual = text if short else type(value).__name__
        raise ArgumentTypeError(what=what, actual=actual, expected=expected, remedy=remedy)
