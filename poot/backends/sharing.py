"""What a device is asked about memory that other libraries, or other devices, use in place."""

from __future__ import annotations

from typing import Any, Protocol

from poot.backends.device import Buffer, BufferView, DeviceBackend
from poot.dtypes import ArraySpec


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
