"""What programs made of captured arrays once, kept as long as the arrays are there and nothing writes to them.

An array of poot changes only where a kernel writes to it, so what a program's prologue made of it stays good until
then.  Arrays that share memory with another library may change at any time: they are not tracked.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from poot import forks
from poot.api.array import DeviceArray, Memory
from poot.backends.device import Buffer, BufferView
from poot.backends.executable import Call

#: What is kept beside one array at most, least recently used out first; a call's short way holds what it needs.
_MOST = 64

_serials = itertools.count(1)


class Contents:
    """The contents of an array's memory while nothing writes to it, and what was made of them."""

    __slots__ = ("__weakref__", "made", "serial", "valid")

    def __init__(self) -> None:
        self.serial = next(_serials)
        self.valid = True
        self.made: OrderedDict[object, Any] = OrderedDict()

    def put(self, key: object, made: object) -> None:
        """Keep something, and let go of what has not been used for longest."""
        self.made.pop(key, None)
        self.made[key] = made
        while len(self.made) > _MOST:
            self.made.popitem(last=False)


class _Tracked:
    """The contents by memory, and those that stand for what calls make of nothing."""

    def __init__(self) -> None:
        self.lock = forks.lock()
        self.arrays: weakref.WeakKeyDictionary[Any, Contents] = weakref.WeakKeyDictionary()
        self.calls: weakref.WeakKeyDictionary[Call, Contents] = weakref.WeakKeyDictionary()

    def of(self, array: DeviceArray) -> Contents:
        found = self.arrays.get(array.memory)
        if found is None:
            found = self.arrays[array.memory] = Contents()
        return found

    def of_call(self, call: Call) -> Contents:
        found = self.calls.get(call)
        if found is None:
            found = self.calls[call] = Contents()
        return found


_tracked = _Tracked()


def note_write(array: DeviceArray) -> None:
    """A kernel has written to an array: what was made of it is of no use any more."""
    if _tracked.arrays:
        with _tracked.lock:
            found = _tracked.arrays.pop(array.memory, None)
            if found is not None:
                found.valid = False
                found.made.clear()


@dataclass(frozen=True, slots=True)
class Kept:
    """The filled kept slots of a program, and what they were made of: argument, contents, and offset in the memory."""

    memories: tuple[Memory, ...]
    sources: tuple[tuple[int, Contents, int], ...]

    @property
    def buffers(self) -> list[Buffer]:
        return [memory.buffer for memory in self.memories]

    @property
    def valid(self) -> bool:
        """Whether nothing has written to the sources since."""
        return all(contents.valid for _, contents, _ in self.sources)

    def fits(self, arrays: Sequence[Any]) -> bool:
        """Whether these arrays, the arguments of a call, have the same contents at the same places."""
        for argument, contents, offset in self.sources:
            array = arrays[argument]
            if type(array) is not DeviceArray or _tracked.arrays.get(array.memory) is not contents:
                return False
            if array.buffer_view().offset != offset:
                return False
        return True


def keep(call: Call, arrays: Sequence[object], views: Sequence[BufferView]) -> Kept | None:
    """The kept slots of a program for the arrays that are its arguments, filled where they are not yet.

    None where a source is an array that is not tracked: then each call has to fill them for itself.
    """
    prologue = call.executable.prologue
    if prologue is None:
        return None
    places = {slot: argument for argument, slot in enumerate(call.argument_slots) if slot >= 0}
    needed = sorted({places[source] for recipe in prologue.recipes for source in recipe.sources})
    if not all(isinstance(arrays[n], DeviceArray) and cast("DeviceArray", arrays[n]).is_tracked for n in needed):
        return None
    with _tracked.lock:
        own = _tracked.of_call(call)
        known = {n: _tracked.of(cast("DeviceArray", arrays[n])) for n in needed}
        home = known[needed[0]] if needed else own
        found: Kept | None = home.made.get(own.serial)
        if found is None or not found.fits(arrays):
            found = _fill(call, known, own, places, views)
            home.put(own.serial, found)
        return found


def _fill(
    call: Call, known: dict[int, Contents], own: Contents, places: dict[int, int], views: Sequence[BufferView]
) -> Kept:
    """Find or make every kept slot; other programs may have made equal ones of the same arrays."""
    prologue, device = call.executable.prologue, call.executable.device
    assert prologue is not None
    slots = call.executable.program.storage.slots
    memories: dict[int, Memory] = {}
    wanted: dict[int, Buffer] = {}
    homes: list[tuple[Contents, object]] = []
    for recipe in prologue.recipes:
        arguments = [places[source] for source in recipe.sources]
        key = id(device), recipe.key, tuple((known[n].serial, views[n].offset) for n in arguments)
        home = known[arguments[0]] if arguments else own
        memory = home.made.get(key)
        if memory is None:
            memory = Memory(device, device.allocate(slots[recipe.slot].nbytes))
            wanted[recipe.slot] = memory.buffer
        memories[recipe.slot] = memory
        homes.append((home, key))
    if wanted:
        filled = {slot: memory.buffer for slot, memory in memories.items() if slot not in wanted}
        call.fill(wanted, filled, views)
    for (home, key), memory in zip(homes, memories.values(), strict=True):
        home.put(key, memory)
    sources = tuple((n, contents, views[n].offset) for n, contents in known.items())
    return Kept(tuple(memories.values()), sources)
