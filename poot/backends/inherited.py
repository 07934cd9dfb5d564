"""A device in a forked child: it cannot be used there, and nothing of it is given back.

A driver's handles in a child are those of its parent: what the child frees may be the parent's memory, and the driver's
own threads and locks have not come along.  So all that a device has made stays in the child as it is until the process
ends, whatever becomes of the arrays and functions that use it.

Asking a driver which devices there are starts such threads as well (PoCL's, which a child would wait for without end),
so a child of a process that has listed devices is refused as one of a process that has opened them.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from poot.errors import DeviceError

#: The backends whose drivers this process has in use, and those that its parents had when they forked.
_in_use: set[str] = set()
_in_parents: set[str] = set()


def ask_driver(backend: str) -> None:
    """To be called before a backend's driver is: DeviceError in a child of a process that had it in use."""
    if backend in _in_parents:
        raise _forked(backend)
    _in_use.add(backend)


def driver_absent(backend: str) -> None:
    """There turned out to be no driver, or nothing that it drives: a child may ask again."""
    _in_use.discard(backend)


def is_forked(device: Any) -> bool:
    """Whether this process is a child of the one that opened the device."""
    return bool(getattr(device, "forked", False))


def require_process(device: Any) -> None:
    """DeviceError in a child of the process that opened the device."""
    if is_forked(device):
        raise _forked(device.name)


def _forked(device: str) -> DeviceError:
    return DeviceError(
        device=device,
        message="this process was forked from one that had opened the device, or had listed what its driver has, "
        "and the driver does not survive a fork",
        remedy='start processes that use it with multiprocessing\'s "spawn", or fork before it is opened or listed.',
    )


class Inherited:
    """What a device has made, which must not go in a child."""

    def __init__(self, device: Any) -> None:
        self._device = weakref.ref(device)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        _known.add(self)

    def note(self, made: Any) -> None:
        """Something that holds objects of the driver."""
        self._made.add(made)

    def keep(self) -> None:
        """In a child: keep everything, even when the interpreter ends."""
        device = self._device()
        if device is not None:
            device.forked = True
        for kept in (self, device, *self._made):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_known: weakref.WeakSet[Inherited] = weakref.WeakSet()


def _after_fork() -> None:
    _in_parents.update(_in_use)
    for each in list(_known):
        each.keep()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
