"""What a device is asked about memory that other libraries, or other devices, use in place."""

from __future__ import annotations

import operator
from typing import Any, Protocol

from poot.backends.device import Buffer, BufferView, DeviceBackend, open_device
from poot.dlpack import CUDA, CUDA_MANAGED
from poot.dtypes import ArraySpec
from poot.foreign import refuse
from poot.probe import has


class Sharing(Protocol):
    """How arrays on a device come from other libraries and go to them without a copy."""

    def device(self) -> tuple[int, int]:
        """DLPack's kind and number of the device."""
        ...

    def owner(self, address: int) -> int:
        """The number of the device, among all of its kind, that an address belongs to."""
        ...

    def borrow(self, value: Any, what: str, *, copy: bool | None = None) -> tuple[Buffer, ArraySpec]:
        """The memory of another library's array on this device, which frees itself; `what` names it in errors.

        Where it cannot be used in place it is a copy; ArgumentError for copy=False.
        """
        ...

    def export(self, view: BufferView, spec: ArraySpec, stream: int | None, *, versioned: bool, copy: bool) -> Any:
        """A DLPack capsule for a consumer that works on `stream`, as DLPack numbers it."""
        ...

    def interface(self, view: BufferView, spec: ArraySpec) -> dict[str, Any]:
        """`__cuda_array_interface__`; AttributeError for a dtype that it does not have."""
        ...


def sharing_of(device: DeviceBackend) -> Sharing | None:
    """How a device shares memory: its `sharing`, where it has one."""
    return getattr(device, "sharing", None)


def same_memory(one: DeviceBackend, other: DeviceBackend) -> bool:
    """Whether two devices are one as far as memory goes: the same, or of one `space`, as one GPU in two languages."""
    return one is other or getattr(one, "space", one) is getattr(other, "space", other)


def gpu_protocol(value: Any) -> str | None:
    """By which of the protocols an object says where its elements lie; None for other objects."""
    return next((name for name in ("__dlpack_device__", "__cuda_array_interface__") if has(value, name)), None)


def gpu_of(value: Any, what: str) -> int | None:
    """The number of the GPU where an array, `what` in messages, lies; None where it lies on none.

    ExchangeError for an array that does not say where it lies as its protocol has it.
    """
    protocol = gpu_protocol(value)
    if protocol is None:
        return None
    try:
        if protocol == "__dlpack_device__":
            kind, number = map(operator.index, value.__dlpack_device__())
            return number if kind in (CUDA, CUDA_MANAGED) else None
        try:
            facts = value.__cuda_array_interface__
        except AttributeError:  # as of an array on the host, whose class has the property for others
            return None
        address = operator.index(facts["data"][0] or 0)
    except Exception as error:  # whatever the other library raises, or the answer is
        refuse(value, f"{what}, {protocol}", error)
    return _owner(address) if address else 0


def _owner(address: int) -> int:
    sharing = sharing_of(open_device("cuda"))
    return sharing.owner(address) if sharing is not None else 0
