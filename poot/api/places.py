"""What `poot.ops` asks about devices: `device=`, `to_device`, `from_dlpack` and the namespace's inspection."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from poot.api.array import DeviceArray
from poot.api.creation import asarray
from poot.api.devices import Device, apart, choose, default, devices
from poot.api.devices import device as find_device
from poot.errors import DeviceMismatchError
from poot.trace.array import Array
from poot.trace.places import register_places


class _Places:
    def default(self) -> str:
        return find_device().name

    def names(self) -> list[str]:
        return [report.name for report in devices() if report.available]

    def scope(self, device: Any) -> AbstractContextManager[object]:
        return find_device(device)

    def home(self, array: Array) -> AbstractContextManager[object] | None:
        if not isinstance(array, DeviceArray) or array.backend is default():
            return None
        return Device(array.backend)

    def check(self, arrays: Sequence[object], names: Sequence[str]) -> None:
        found = [(place, array) for place, array in enumerate(arrays) if isinstance(array, DeviceArray)]
        if not found:
            return
        try:
            choose(None, [array.backend for _, array in found])
        except DeviceMismatchError:
            last = len(names) - 1
            raise apart((f"{names[min(place, last)]} {array.spec}", array.backend) for place, array in found) from None

    def move(self, array: Array, device: Any) -> Array:
        return array.to_device(find_device(device).backend) if isinstance(array, DeviceArray) else array

    def share(self, value: Any, device: Any, copy: bool | None) -> Array:
        return asarray(value, device=device, copy=copy)


register_places(_Places())
