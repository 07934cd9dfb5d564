"""The cache of compiled calls: one for the process, bounded, and one trace per key however many threads ask.

A call site that keeps missing warns once, naming the argument that changes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from types import FrameType
from typing import Any, Generic, TypeVar

from poot import forks
from poot.trace.source import user_frame

T = TypeVar("T")

LIMIT = 512
_WARN_AT = 8
_SITES = 1024


class Pending:
    """Someone is making the value; others wait."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = threading.Event()


class CallCache(Generic[T]):
    """Least recently used values out first; `get` makes a missing value exactly once."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.hits = 0
        self.misses = 0
        self._lock = forks.lock()
        _caches.add(self)
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._pending: dict[Hashable, tuple[Pending, int]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def find(self, key: Hashable) -> T | None:
        """The value under a key, now the most recently used, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._used(key)
            return value

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value under `key`, made by `make` if there is none; an error of `make` is kept for nobody."""
        me = threading.get_ident()
        mine: Pending | None = None
        try:  # a Ctrl-C between any two lines must leave nobody waiting
            while mine is None:
                with self._lock:
                    value = self._values.get(key)
                    if value is not None:
                        self._used(key)
                        return value
                    pending, owner = self._pending.get(key, (None, 0))
                    if pending is None or owner == me:
                        mine = Pending()
                        self._pending[key] = mine, me
                        self.misses += 1
                        break
                pending.done.wait()
            value = make()
            with self._lock:
                self._values[key] = value
                while len(self._values) > self.limit:
                    self._values.popitem(last=False)
            return value
        finally:
            if mine is not None:
                with self._lock:
                    if self._pending.get(key, (None, 0))[0] is mine:
                        del self._pending[key]
                mine.done.set()

    def _used(self, key: Hashable) -> None:
        self.hits += 1
        with contextlib.suppress(KeyError):  # what a finalizer has called may just have put it out
            self._values.move_to_end(key)

    def drop(self, key: Hashable, value: T) -> None:
        """Forget the value under a key, if it is still this one."""
        with self._lock:
            if self._values.get(key) is value:
                del self._values[key]

    def clear(self) -> None:
        """Forget every value."""
        with self._lock:
            self._values.clear()

    def forget_threads(self) -> None:
        """In a forked child: whoever was making a value is not here."""
        self._pending.clear()


_caches: weakref.WeakSet[CallCache[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_caches):
        cache.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class MissWatch:
    """Counts misses by call site and device, and says once which argument keeps changing."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._sites: OrderedDict[Hashable, list[Mapping[str, Any]]] = OrderedDict()

    def miss(self, function: str, token: int, device: object, parts: Mapping[str, Any]) -> None:
        """Record a miss of `function`, whose code has this token, on a device; `parts` are its key by name.

        A device that takes the place of a lost one is another.
        """
        frame = user_frame()
        if frame is None:
            return
        site = (frame.f_code.co_filename, frame.f_code, frame.f_lineno, token, weakref.ref(device))
        with self._lock:
            seen = self._sites.setdefault(site, [])
            seen.append(parts)
            count = len(seen)
            if count > _WARN_AT:
                seen.pop()
            while len(self._sites) > _SITES:
                self._sites.popitem(last=False)
        if count == _WARN_AT:
            self._warn(function, frame, seen)

    def _warn(self, function: str, frame: FrameType, seen: list[Mapping[str, Any]]) -> None:
        changing = [name for name in seen[-1] if len({repr(parts.get(name)) for parts in seen}) > 1]
        what = ", ".join(repr(name) for name in changing) or "its captures"
        keeps = "keeps" if len(changing) == 1 else "keep"
        values = {name: seen[-1][name] for name in changing[:1]}
        example = "".join(f" (now {value})" for value in values.values())
        warnings.warn_explicit(
            f"{function} has been traced {_WARN_AT} times from this line, because {what} {keeps} changing{example}. "
            "Pad arrays to a few shapes, or pass numbers as run-time scalars instead of static arguments.",
            RetraceWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
        )


class RetraceWarning(UserWarning):
    """A call site that keeps tracing anew."""
