"""Host memory for buffers: aligned blocks, kept when they are freed and handed out again.

Fresh memory costs a page fault for every page that is written first, which for large results takes longer than the
kernels that compute them.  Freed blocks therefore go to a bounded cache, sorted by size class: eight classes for each
doubling, so that at most an eighth of a block is unused.

A block's memory belongs to a NumPy array.  It comes from one source on every system, `tracemalloc` sees it, and it
outlives its block for as long as a view is around: a block and its views share a lease, and memory is used again when
the last of them has gone, so a view that was lent out never changes under its holder.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from poot import forks
from poot.backends.settings import byte_count
from poot.errors import AllocationError, ArgumentError, DeviceError

ALIGNMENT: Final = 64
_HUGE_BLOCK: Final = 4 << 20
_HUGE_PAGE: Final = 2 << 20
_MAX_BYTES: Final = 1 << 47
_CLASSES_LOG2: Final = 3
_CACHE_CAP: Final = 2 << 30
# Freed blocks wait for the next call of the allocator, so that freeing is quick, unless they are large or many.
_PROMPT_BYTES: Final = 1 << 20
_QUEUE_LENGTH: Final = 64

before_allocate: Callable[[int], None] | None = None
"""Where set, called with the bytes of each attempt to allocate; its `MemoryError` makes the attempt fail."""

# A finalizer or a handler of a signal may come here while its own thread holds the lock: it takes memory from the
# system, and what it frees is queued.
_lock = threading.RLock()
forks.awaited(forks.LEAF, _lock.acquire, _lock.release)


@functools.lru_cache(4096)
def size_class(nbytes: int) -> int:
    """The bytes that a block of `nbytes` takes: a multiple of 64, at most an eighth more beyond the first 64."""
    shift = max(ALIGNMENT.bit_length() - 1, nbytes.bit_length() - 1 - _CLASSES_LOG2)
    return max(-(-nbytes >> shift) << shift, ALIGNMENT)


class _Whole(np.ndarray[Any, Any]):
    """All memory of an extent.  NumPy replaces a base by the base of that, unless it is of another class."""

    __slots__ = ()


class _Lent(np.ndarray[Any, Any]):
    """What the views of a block have as their base, all the way down: it holds the lease."""

    __slots__ = ("lease",)

    lease: _Lease


class _Extent:
    """Memory for one block of a size class; a large one starts at a huge page, which NumPy asks the system for."""

    __slots__ = ("address", "memory", "offset", "size")

    def __init__(self, size: int) -> None:
        alignment = _HUGE_PAGE if size >= _HUGE_BLOCK else ALIGNMENT
        self.memory = np.empty(size + alignment, np.uint8).view(_Whole)
        start: int = self.memory.__array_interface__["data"][0]
        self.offset = -start % alignment
        self.address = start + self.offset
        self.size = size


class _Lease:
    """Held by a block and by each of its views; the allocator has the memory back when the last of them goes."""

    __slots__ = ("allocator", "extent")

    def __init__(self, allocator: Allocator, extent: _Extent) -> None:
        self.allocator = allocator
        self.extent = extent

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # else the process gives everything back, and this module's names may be gone already
            self.allocator._give_back(self.extent)  # pyright: ignore[reportPrivateUsage]


def default_cache_bytes() -> int:
    """How much freed memory is kept: `POOT_CACHE_BYTES`, or a quarter of the machine's memory up to 2 GiB."""
    given = byte_count("POOT_CACHE_BYTES", None)
    return min(_physical_bytes() // 4, _CACHE_CAP) if given is None else given


def _physical_bytes() -> int:
    if sys.platform == "win32":
        kibibytes = ctypes.c_uint64()
        ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kibibytes))
        return kibibytes.value << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """What an allocator has done: bytes in use, kept, and most ever in use, all counted in size classes.

    `blocks` are in use now, by a view at least; of all `allocations` so far, `reused` were served from the cache.
    """

    allocated_bytes: int
    cached_bytes: int
    peak_bytes: int
    blocks: int
    allocations: int
    reused: int


class Block:
    """`nbytes` bytes at `address`, a multiple of 64, until it is freed or the last reference to it goes.

    After that `alive` is false, its address and new views raise `DeviceError`, and views that are around stay as they
    are.
    """

    __slots__ = ("_allocator", "_lease", "address", "nbytes")

    def __init__(self, allocator: Allocator, extent: _Extent, nbytes: int) -> None:
        self._allocator = allocator
        self._lease = _Lease(allocator, extent)  # a freed block has none, and no address: `__getattr__` then says so
        self.address = extent.address
        self.nbytes: Final = nbytes

    def __getattr__(self, name: str) -> Any:
        if name == "address":
            self._held()
        raise AttributeError(name)

    @property
    def alive(self) -> bool:
        return hasattr(self, "_lease")

    def _held(self) -> _Lease:
        try:
            return self._lease
        except AttributeError:
            raise DeviceError(
                device="cpu", message=f"a block of {self.nbytes} bytes is used after it was freed"
            ) from None

    def view(self, dtype: npt.DTypeLike, shape: int | Sequence[int], offset: int = 0) -> npt.NDArray[Any]:
        """A C-contiguous array over the block from byte `offset` on, without a copy; it keeps the memory alive.

        `ArgumentError` if it does not fit into the block.
        """
        lease = self._held()
        dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        end = offset + kind.itemsize * math.prod(dimensions)
        if not 0 <= offset <= end <= self.nbytes:
            expected = f"bytes within the {self.nbytes} of the block"
            raise ArgumentError(what="view", actual=f"bytes {offset} to {end}", expected=expected)
        lent = lease.extent.memory.view(_Lent)
        lent.lease = lease
        return np.ndarray(dimensions, kind, lent, lease.extent.offset + offset)

    def free(self) -> None:
        """The same as `Allocator.free` of the allocator that the block came from."""
        self._allocator.free(self)


class Allocator:
    """Blocks of host memory; any thread may allocate and free.

    Up to `cache_bytes` of freed memory (None: `default_cache_bytes`) are kept, and the least recently freed goes first.
    """

    __slots__ = (
        "_allocated",
        "_allocations",
        "_blocks",
        "_cached",
        "_free",
        "_oldest",
        "_peak",
        "_queue",
        "_reused",
        "cache_bytes",
    )

    def __init__(self, cache_bytes: int | None = None) -> None:
        self.cache_bytes: Final = default_cache_bytes() if cache_bytes is None else cache_bytes
        self._free: dict[int, deque[_Extent]] = {}  # by size, the least recently freed on the left
        self._oldest: OrderedDict[_Extent, None] = OrderedDict()  # the same extents, in the order of their freeing
        self._queue: deque[_Extent] = deque()  # freed, and not yet looked at
        self._allocated = self._cached = self._peak = self._blocks = self._allocations = self._reused = 0

    def allocate(self, nbytes: int) -> Block:
        """A block of `nbytes` (0 or more) bytes with undefined content.

        `AllocationError` if the system has no memory left even when nothing is cached any more.
        """
        if nbytes < 0:
            raise ArgumentError(what="nbytes", actual=nbytes, expected="0 or more")
        try:
            extent = self._take(nbytes)
        except MemoryError:
            extent = self._take_at_last(nbytes)
        return Block(self, extent, nbytes)

    def _take_at_last(self, nbytes: int) -> _Extent:
        """Once more, with nothing cached."""
        self.trim()
        try:
            return self._take(nbytes)
        except MemoryError as error:
            in_use = self.statistics().allocated_bytes
            message = f"out of memory with {in_use} bytes in use"
            raise AllocationError(nbytes=nbytes, device="cpu", message=message) from error

    def _take(self, nbytes: int) -> _Extent:
        if before_allocate is not None:
            before_allocate(nbytes)
        if nbytes > _MAX_BYTES:
            raise MemoryError
        size = size_class(nbytes)
        with _lock:
            queue = self._queue
            extent = queue.popleft() if queue and queue[0].size == size <= self.cache_bytes else None
            if extent is not None:
                # Freed just now and wanted again: the counts of what is in use do not change.
                self._allocations += 1
                self._reused += 1
                return extent
        extent = None if forks.is_mine(_lock) else self._take_kept(size)
        if extent is not None:
            return extent
        extent = _Extent(size)
        with _lock:
            self._count(size)
        return extent

    def _take_kept(self, size: int) -> _Extent | None:
        with _lock:
            dropped = self._settle()
            kept = self._free.get(size)
            if not kept:
                return None
            extent = kept.pop()
            self._oldest.pop(extent, None)
            self._cached -= size
            self._reused += 1
            self._count(size)
        del dropped
        return extent

    def _count(self, size: int) -> None:
        self._allocations += 1
        self._blocks += 1
        self._allocated += size
        self._peak = max(self._peak, self._allocated)

    def free(self, block: Block) -> None:
        """Take a block back, its memory once it has no views.

        `DeviceError` if it was freed before, or came from another allocator.
        """
        if block._allocator is not self:  # pyright: ignore[reportPrivateUsage]
            raise DeviceError(device="cpu", message=f"a block of {block.nbytes} bytes belongs to another allocator")
        try:
            del block._lease  # pyright: ignore[reportPrivateUsage]  # of two threads that free it, one finds it gone
        except AttributeError:
            raise DeviceError(device="cpu", message=f"a block of {block.nbytes} bytes was freed twice") from None
        del block.address

    def _give_back(self, extent: _Extent) -> None:
        """Queue freed memory; where it is much, look at it now, unless a thread, even this one, is in the allocator."""
        self._queue.append(extent)
        if extent.size < _PROMPT_BYTES and len(self._queue) < _QUEUE_LENGTH:
            return
        del extent
        dropped = None if forks.is_mine(_lock) else forks.if_free(_lock, self._settle)
        del dropped

    def _settle(self) -> list[_Extent]:
        """Move what is queued to the cache, under the lock; the caller drops the result, slow to free, outside it."""
        dropped: list[_Extent] = []
        while (extent := self._queue.popleft() if self._queue else None) is not None:
            self._blocks -= 1
            self._allocated -= extent.size
            if extent.size > self.cache_bytes:
                dropped.append(extent)
                continue
            self._free.setdefault(extent.size, deque()).append(extent)
            self._oldest[extent] = None
            self._cached += extent.size
        while self._cached > self.cache_bytes and self._oldest:
            dropped.append(self._evict())
        return dropped

    def _evict(self) -> _Extent:
        extent, _ = self._oldest.popitem(last=False)
        kept = self._free.get(extent.size)
        if kept and kept[0] is extent:  # the oldest of its size, unless a Ctrl-C came as one of the two was changed
            kept.popleft()
        if not kept:
            self._free.pop(extent.size, None)
        self._cached -= extent.size
        return extent

    def trim(self) -> int:
        """Give all cached memory back to the system; the number of bytes."""
        if forks.is_mine(_lock):
            return 0
        with _lock:
            dropped = self._settle()
            before = self._cached
            while self._oldest:
                dropped.append(self._evict())
        del dropped
        return before

    def statistics(self) -> MemoryStatistics:
        """The counts at this moment."""
        within = forks.is_mine(_lock)
        with _lock:
            dropped = [] if within else self._settle()
            counts = MemoryStatistics(
                self._allocated, self._cached, self._peak, self._blocks, self._allocations, self._reused
            )
        del dropped
        return counts
