"""Device memory kept for reuse: freed blocks by size class, up to a cap of bytes; and how a device comes by them."""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from poot import forks

Block = TypeVar("Block")

_LEAST = 256


def size_class(nbytes: int) -> int:
    """The size that a request is rounded up to: a quarter of a power of two more at most, and never below 256 bytes."""
    if nbytes <= _LEAST:
        return _LEAST
    step = 1 << max((nbytes - 1).bit_length() - 3, 8)
    return -(-nbytes // step) * step


class Spares(Generic[Block]):
    """Blocks that were freed, least recently freed first; the caller holds a lock.

    A finalizer may take and give blocks in the middle of another call of its thread: who takes one out of `_kept` has
    it, and a number that is left in `_by_size` stands for nothing.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._bytes = 0
        self._numbers = itertools.count()
        self._kept: OrderedDict[int, tuple[int, Block]] = OrderedDict()
        self._by_size: dict[int, list[int]] = {}

    def take(self, size: int) -> Block | None:
        """A kept block of exactly this size class, or None."""
        numbers = self._by_size.get(size)
        while numbers:
            found = self._kept.pop(numbers.pop(), None)
            if found is not None:
                self._bytes -= size
                return found[1]
        return None

    def give(self, size: int, block: Block) -> list[Block]:
        """Keep a block; returns the blocks that no longer fit the cap."""
        number = next(self._numbers)
        self._bytes += size
        self._kept[number] = size, block
        self._by_size.setdefault(size, []).append(number)
        dropped: list[Block] = []
        while self._bytes > self._cap and self._kept:
            dropped.append(self._drop())
        return dropped

    def clear(self) -> list[Block]:
        """Let go of every block."""
        return [self._drop() for _ in range(len(self._kept))]

    def _drop(self) -> Block:
        number, (size, block) = self._kept.popitem(last=False)
        with contextlib.suppress(KeyError, ValueError):
            self._by_size[size].remove(number)
        self._bytes -= size
        return block


def reclaim(freed: deque[Block], lock: Any, take_in: Callable[[Block], None]) -> None:
    """Take in what was freed, under a reentrant lock; a thread that holds it will have done it when it lets go.

    Nothing waits here: garbage is collected under any lock, and on a thread that another one may wait for.
    """

    def take_one() -> bool:
        with contextlib.suppress(IndexError):  # what garbage is collected in between comes here too
            take_in(freed.popleft())
        return True

    while freed and forks.if_free(lock, take_one):
        pass
