"""Devices that have stopped working for good: what they refuse, and what takes their place."""

from __future__ import annotations

from poot.backends.device import DeviceBackend, open_device
from poot.errors import DeviceLostError


def is_lost(device: DeviceBackend) -> bool:
    """Whether a device has stopped working."""
    return getattr(device, "lost", None) is not None


def require_alive(device: DeviceBackend) -> None:
    """DeviceLostError for a device that has stopped working."""
    message: str | None = getattr(device, "lost", None)
    if message is not None:
        raise DeviceLostError(device=device.name, message=message)


def reopened(device: DeviceBackend) -> DeviceBackend:
    """A device, or where it has been lost, the one that takes its place."""
    return open_device(device.name, language=device.target.languages[0]) if is_lost(device) else device
