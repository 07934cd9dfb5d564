"""Devices that have stopped working for good: what they refuse, and what takes their place."""

from __future__ import annotations

from poot.backends.device import DeviceBackend, open_device
from poot.backends.inherited import require_process
from poot.errors import DeviceError, DeviceLostError


def is_lost(device: DeviceBackend) -> bool:
    """Whether a device has stopped working."""
    return getattr(device, "lost", None) is not None


def require_alive(device: DeviceBackend) -> None:
    """DeviceLostError for a device that has stopped working."""
    message: str | None = getattr(device, "lost", None)
    if message is not None:
        raise DeviceLostError(device=device.name, message=message)


def require_working(device: DeviceBackend) -> None:
    """Its own error for a device that will not work again in this process: one that is lost, or was left by a fork."""
    require_process(device)
    try:
        device.synchronize()
    except DeviceLostError:
        raise
    except DeviceError:  # another time it may
        return


def reopened(device: DeviceBackend) -> DeviceBackend:
    """A device, or where it has been lost, the one that takes its place."""
    return open_device(device.name, language=device.target.languages[0]) if is_lost(device) else device
