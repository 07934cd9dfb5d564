"""Faults of launches that are read later: with the arrays that the launch wrote."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from poot import forks
from poot.backends.device import Buffer, BufferView, DeviceBackend
from poot.errors import PootError
from poot.kernel.ir import FAULT_WORDS


class Check(Protocol):
    """Something to ask before an array is read."""

    def check(self) -> None:
        """Raise the error of the work that the array comes from, if there was one."""
        ...


def again(error: PootError) -> PootError:
    """An error to raise once more: each raise has a traceback of its own, and keeps no frame alive afterwards."""
    made = copy.copy(error)
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


class Failed:
    """A fault that is known already."""

    def __init__(self, error: PootError) -> None:
        self._error = error

    def check(self) -> None:
        """Raise it."""
        raise again(self._error)


class LaunchCheck:
    """The fault record of one launch on a device, read at most once."""

    def __init__(self, device: DeviceBackend, record: Buffer, error_of: Callable[[Sequence[int]], PootError]) -> None:
        self._device = device
        self._record: Buffer | None = record
        self._error_of = error_of
        self._error: PootError | None = None
        self._lock = forks.lock()

    def check(self) -> None:
        """Wait for the launch, and raise its fault if it had one."""
        within = forks.is_mine(self._lock)  # in the middle of another check, which frees the record
        with self._lock:
            record = self._record
            if record is not None:
                words = np.empty(FAULT_WORDS, np.int32)
                self._device.read(BufferView(record), words)
                if words[0]:
                    self._error = self._error_of(words.tolist())
                if not within:
                    self._record = None
                    self._device.free(record)
        if self._error is not None:
            raise again(self._error)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._record is not None and not finalizing():
            self._device.free(self._record)


#: Checks that one array may gather unread; past it they are made at once.
_GATHERED = 32


class Checks:
    """The checks of several launches on one array, oldest first."""

    def __init__(self, parts: tuple[Check, ...]) -> None:
        self.parts = parts

    def check(self) -> None:
        """Raise the oldest error among them."""
        for part in self.parts:
            part.check()


def joined(old: Check | None, new: Check) -> Check:
    """What an array has to ask once a launch has written it again."""
    if old is None:
        return new
    parts = old.parts if isinstance(old, Checks) else (old,)
    if len(parts) < _GATHERED:
        return Checks((*parts, new))
    try:
        old.check()
    except PootError as error:
        return Failed(error)
    return new


#: Held while what is to be asked takes the place of something else.
_replacing = forks.lock()


class Awaited:
    """What launches write: whoever reads it asks first whether they have failed, whatever other threads do with it."""

    __slots__ = ("_check",)

    _check: Check | None

    def await_check(self, check: Check) -> None:
        """A launch that `check` speaks of has written the elements: whoever reads them asks first."""
        while not self._replace(old := self._check, joined(old, check)):
            pass

    def require_checked(self) -> None:
        """Wait for the launches that wrote the elements, and raise the first fault among them.

        What another thread has launched meanwhile is asked by the next reader.
        """
        check = self._check
        if check is not None:
            check.check()
            self._replace(check, None)

    def _replace(self, old: Check | None, new: Check | None) -> bool:
        """Ask `new` from now on, unless another thread has put something else in the place of `old`."""
        with _replacing:
            if self._check is not old:
                return False
            self._check = new
            return True
