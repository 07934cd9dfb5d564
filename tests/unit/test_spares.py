"""Freed blocks of a device: kept by size class, and taken in by whoever holds its lock."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from poot.backends.spares import Spares, reclaim, size_class


def test_blocks_are_kept_up_to_a_cap() -> None:
    spares: Spares[str] = Spares(1024)
    assert spares.give(512, "a") == [] and spares.give(512, "b") == []
    assert spares.give(512, "c") == ["a"]
    assert spares.take(256) is None
    assert [spares.take(512) for _ in range(3)] == ["c", "b", None]
    spares.give(256, "d")
    assert spares.clear() == ["d"] and spares.take(256) is None
    assert [size_class(number) for number in (0, 256, 257, 4097)] == [256, 256, 512, 5120]


def test_what_is_freed_while_it_is_taken_in() -> None:
    """A finalizer comes in the middle of the taking in, on the same thread."""
    freed, lock, taken = deque([1, 2]), threading.RLock(), list[int]()

    def take_in(block: int) -> None:
        if block == 1:
            freed.append(3)
            reclaim(freed, lock, take_in)
        taken.append(block)

    reclaim(freed, lock, take_in)
    assert taken == [2, 3, 1] and not freed


def test_what_another_thread_holds_is_left_to_it() -> None:
    freed, lock, taken = deque([1]), threading.RLock(), list[int]()
    with lock:
        thread = threading.Thread(target=reclaim, args=(freed, lock, taken.append))
        thread.start()
        thread.join(60)
        assert list(freed) == [1] and not taken
    reclaim(freed, lock, taken.append)
    assert taken == [1]


def test_the_lock_is_free_after_an_interrupt() -> None:
    freed, lock = deque([1, 2]), threading.RLock()

    def interrupted(block: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reclaim(freed, lock, interrupted)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join(60)
    assert got == [True] and list(freed) == [2]
