"""Locks when a process forks: the child has the one thread that forked, and a lock of any other would be held for ever.

Two kinds of locks are safe in a child:

- `lock()`, which the child finds free.  It is for what is whole between any two lines of Python.
- One that the fork waits for, by `awaited`: whatever another thread does under it is done, and none begins anew, until
  the child is there.  It is for work that the child goes on with: a device that is being opened, a module that is being
  imported, LLVM, a library that a driver is loading.  They are taken in the order of their ranks, so a thread that
  holds one may wait for those of a higher rank, and for nothing else that a fork waits for; least of all may it run a
  user's code.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

#: The locks that a child finds free.
_locks: set[weakref.ref[threading.RLock]] = set()


def lock() -> threading.RLock:
    """A lock for `with`, which is free in a forked child, unless it is the thread that forked that holds it.

    It is reentrant: a finalizer or a handler of a signal runs between any two lines, and may come to the same lock.
    And it is Python's own: between taking or freeing it and the lines around no handler runs, so that a Ctrl-C never
    leaves it held.  A class around it, with an `__enter__` in Python, would.
    """
    made = threading.RLock()
    _locks.add(weakref.ref(made, _locks.discard))
    return made


def is_mine(lock: Any) -> bool:
    """Whether this thread holds a reentrant lock, so that this is a finalizer's, a handler's or a hook's code.

    The lock itself knows that whatever raises in between, as a flag beside it would not.
    """
    return lock._is_owned()


def if_free(lock: Any, work: Callable[[], T]) -> T | None:
    """What work gives under a reentrant lock; None, and nothing done, where another thread holds it.

    Once `acquire` returns, a Ctrl-C may come before the next line: what this thread did not hold it lets go of again.
    """
    if is_mine(lock):
        return work()
    try:
        return work() if lock.acquire(blocking=False) else None
    finally:
        if is_mine(lock):
            lock.release()


class _Fork:
    """What a fork waits for, by rank, and what it holds meanwhile."""

    def __init__(self) -> None:
        self.awaited: list[tuple[int, Callable[[], object], Callable[[], object]]] = []
        self.held: list[Callable[[], object]] = []
        self.one = threading.RLock()

    def before(self) -> None:
        self.one.acquire()
        for _, acquire, release in self.awaited:
            acquire()
            self.held.append(release)

    def after(self) -> None:
        while self.held:
            self.held.pop()()
        self.one.release()

    def in_child(self) -> None:
        for each in list(_locks):
            if (held := each()) is not None and not is_mine(held):
                cast("Any", held)._at_fork_reinit()
        self.after()


_fork = _Fork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.in_child)


def awaited(rank: int, acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Let every fork acquire something first, after what has a lower rank, and release it in parent and child."""
    _fork.awaited.append((rank, acquire, release))
    _fork.awaited.sort(key=lambda each: each[0])


#: The ranks: devices that are opened, modules that are imported, queues of devices, LLVM's threads, its linker,
#: llvmlite, and locks under which no thread waits for anything.
DEVICES: Final = 0
IMPORTS: Final = 1
QUEUES: Final = 2
COMPILING: Final = 3
LINKING: Final = 4
LLVM: Final = 5
LEAF: Final = 6

#: Held around imports that a first call makes: a child cannot import what another thread is half through.
imports: Final = threading.RLock()
awaited(IMPORTS, imports.acquire, imports.release)
