"""Device memory kept for reuse: freed blocks by size class, up to a cap of bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Block = TypeVar("Block")

_LEAST = 256


def size_class(nbytes: int) -> int:
    """The size that a request is rounded up to: a quarter of a power of two more at most, and never below 256 bytes."""
    if nbytes <= _LEAST:
        return _LEAST
    step = 1 << max((nbytes - 1).bit_length() - 3, 8)
    return -(-nbytes // step) * step


class Spares(Generic[Block]):
    """Blocks that were freed, least recently freed first; the caller holds a lock."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._bytes = 0
        self._number = 0
        self._kept: OrderedDict[int, tuple[int, Block]] = OrderedDict()
        self._by_size: dict[int, list[int]] = {}

    def take(self, size: int) -> Block | None:
        """A kept block of exactly this size class, or None."""
        numbers = self._by_size.get(size)
        if not numbers:
            return None
        _, block = self._kept.pop(numbers.pop())
        self._bytes -= size
        return block

    def give(self, size: int, block: Block) -> list[Block]:
        """Keep a block; returns the blocks that no longer fit the cap."""
        self._number += 1
        self._kept[self._number] = size, block
        self._by_size.setdefault(size, []).append(self._number)
        self._bytes += size
        dropped: list[Block] = []
        while self._bytes > self._cap:
            dropped.append(self._drop())
        return dropped

    def clear(self) -> list[Block]:
        """Let go of every block."""
        return [self._drop() for _ in range(len(self._kept))]

    def _drop(self) -> Block:
        number, (size, block) = self._kept.popitem(last=False)
        self._by_size[size].remove(number)
        self._bytes -= size
        return block
