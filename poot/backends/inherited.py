"""A device in a forked child: it cannot be used there, and nothing of it is given back.

A driver's handles in a child are those of its parent: what the child frees may be the parent's memory, and the driver's
own threads and locks have not come along.  So all that a device has made stays in the child as it is until the process
ends, whatever becomes of the arrays and functions that use it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from poot.errors import DeviceError


class Inherited:
    """Whether a device was opened by the parent of this process, and what must not go in a child."""

    def __init__(self, device: Any) -> None:
        #: Whether this process is a child of the one that opened the device.
        self.forked = False
        self._name: str = device.name
        self._device = weakref.ref(device)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        _known.add(self)

    def note(self, made: Any) -> None:
        """Something that holds objects of the driver."""
        self._made.add(made)

    def require_process(self) -> None:
        """DeviceError in a child."""
        if self.forked:
            raise DeviceError(
                device=self._name,
                message="it was opened before a fork, and does not survive one",
                remedy='start processes with multiprocessing\'s "spawn", or open the device after the fork alone.',
            )

    def keep(self) -> None:
        """In a child: keep everything, even when the interpreter ends."""
        self.forked = True
        for kept in (self, self._device(), *self._made):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_known: weakref.WeakSet[Inherited] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_known):
        each.keep()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
