"""Checks of a run that cost time: races, missing barriers, and arrays read before they are written.

Every element of a watched array has a shadow: who wrote it last, and who has read it since.  Threads of one group are
in order if a barrier lies between (each group counts the barriers that it has passed); threads of different groups
never are.  Two accesses of one element by threads that are not in order, one of them a write, are a race, unless both
are atomic, or both write the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from typing_extensions import override

from poot.errors import KernelError, SourceLocation
from poot.kernel.interpret.affine import Value, as_array
from poot.kernel.interpret.memory import Access, Memory, Strided, Update
from poot.kernel.interpret.space import Array, Mask

if TYPE_CHECKING:
    from poot.kernel.interpret.frame import Frame

_NOBODY = -1
_SEVERAL = -2


class Lanes(NamedTuple):
    """The active lanes of an access: the element that each names, its thread and group number, its barrier count.

    `chosen` says which of all lanes they are, in their order.
    """

    element: Array
    thread: Array
    group: Array
    epoch: Array
    chosen: Array


class Watch:
    """What a watched run remembers from chunk to chunk, and the numbers of the lanes of the present one."""

    def __init__(self) -> None:
        self.shadows: dict[str, Shadow] = {}
        self.places: list[SourceLocation | None] = []
        self.thread: Array = np.zeros((), np.int64)
        self.group: Array = self.thread
        self.epoch: Array = self.thread

    def enter(self, frame: Frame) -> None:
        """Number the lanes of a chunk."""
        shape = frame.space.shape
        zero: Array = np.zeros(shape, np.int64)
        self.thread = self.group = self.epoch = zero
        for axis in (2, 1, 0):
            thread, group = (as_array(frame.number(kind, axis)) for kind in ("thread", "group"))
            self.thread = self.thread * frame.threads[axis] + thread
            self.group = self.group * frame.groups[axis] + group

    def barrier(self, mask: Mask) -> None:
        """The groups of the active lanes pass a barrier."""
        self.epoch = self.epoch + np.asarray(mask)

    def place(self, where: SourceLocation | None) -> int:
        """A number for a place in the user's program."""
        if where not in self.places:
            self.places.append(where)
        return self.places.index(where)


class Shadow:
    """For each element of a storage: its last writer and its readers since, and whether it has been written at all."""

    def __init__(self, size: int, *, defined: bool, private: bool = False) -> None:
        self.defined = np.full(size, defined)
        self.private = private
        self.writer = _Touch(0 if private else size)
        self.reader = _Touch(0 if private else size)
        self.atomic = np.zeros(0 if private else size, np.bool_)


class _Touch:
    """Who touched each element last: a thread (or several of one group), its group (or several), when, and where."""

    def __init__(self, size: int) -> None:
        self.thread = np.full(size, _NOBODY, np.int64)
        self.group = np.full(size, _NOBODY, np.int64)
        self.epoch = np.zeros(size, np.int64)
        self.place = np.zeros(size, np.int64)

    def conflicts(self, lanes: Lanes) -> Array:
        """Which lanes meet a touch by another thread that is not in order with them."""
        thread, group, epoch = (part[lanes.element] for part in (self.thread, self.group, self.epoch))
        unordered = (group != lanes.group) | (epoch == lanes.epoch)
        return (thread != _NOBODY) & (thread != lanes.thread) & unordered

    def add(self, lanes: Lanes, place: int) -> None:
        """Note that the lanes touch their elements, beside those that did before."""
        order = np.argsort(lanes.element, kind="stable")
        sorted_elements = lanes.element[order]
        first = np.flatnonzero(np.append(True, sorted_elements[1:] != sorted_elements[:-1]))
        element = sorted_elements[first]
        thread, group = (_common(part[order], first) for part in (lanes.thread, lanes.group))
        epoch = np.maximum.reduceat(lanes.epoch[order], first)
        before, their = self.thread[element], self.group[element]
        fresh = (before == _NOBODY) | ((their == group) & (self.epoch[element] != epoch))
        self.thread[element] = np.where(fresh | (before == thread), thread, _SEVERAL)
        self.group[element] = np.where(fresh | (their == group), group, _SEVERAL)
        self.epoch[element] = epoch
        self.place[element] = place

    def replace(self, lanes: Lanes, place: int) -> None:
        """Note that the lanes alone count from here on."""
        self.thread[lanes.element] = _NOBODY
        self.add(lanes, place)


def _common(values: Array, first: Array) -> Array:
    """For each run of values, the one that all are, or `_SEVERAL`."""
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    return np.where(low == high, low, _SEVERAL)


class WatchedMemory(Memory):
    """An array whose accesses are checked against its shadow."""

    shadow: Shadow

    def watched(self, watch: Watch, name: str, kind: str) -> WatchedMemory:
        """Give the array its shadow: a buffer's lasts as long as the run, that of another as long as the array."""
        if kind == "buffer":
            self.shadow = watch.shadows.setdefault(name, Shadow(self.storage.size, defined=True))
        else:
            self.shadow = Shadow(self.storage.size, defined=False, private=kind == "private")
        return self

    @override
    def load(self, frame: Frame, indices: Sequence[Value], access: Access) -> Array:
        lanes = self._lanes(frame, indices, access)
        loaded = super().load(frame, indices, access)
        if not lanes.element.size:
            return loaded
        shadow, watch = self.shadow, _watch(frame)
        undefined = ~shadow.defined[lanes.element]
        if undefined.any():
            who = _thread(frame, int(lanes.thread[undefined][0]))
            self._fail(frame, access, f"thread {who} reads an element of `{access.buffer}` that nothing has written")
        if not shadow.private:
            self._meet(frame, lanes, shadow.writer, access, "reads", "wrote", shadow.writer.conflicts(lanes))
            shadow.reader.add(lanes, watch.place(access.where))
        return loaded

    @override
    def store(self, frame: Frame, indices: Sequence[Value], value: Value, access: Access) -> None:
        lanes = self._lanes(frame, indices, access)
        if lanes.element.size and not self.shadow.private:
            values = np.broadcast_to(as_array(value), self.space.shape).ravel()[lanes.chosen]
            self._before_store(frame, lanes, values, access)
        super().store(frame, indices, value, access)
        self.shadow.defined[lanes.element] = True

    def _before_store(self, frame: Frame, lanes: Lanes, values: Array, access: Access) -> None:
        shadow, place = self.shadow, _watch(frame).place(access.where)
        present = _bits(self.storage)[lanes.element]
        written = _bits(values)
        differs = shadow.writer.conflicts(lanes) & ((present != written) | shadow.atomic[lanes.element])
        self._meet(frame, lanes, shadow.writer, access, "writes", "wrote", differs)
        self._meet(frame, lanes, shadow.reader, access, "writes", "read", shadow.reader.conflicts(lanes))
        last = np.zeros(self.storage.size, written.dtype)
        last[lanes.element] = written
        twice = last[lanes.element] != written
        shadow.writer.replace(lanes, place)
        self._meet(frame, lanes, shadow.writer, access, "writes", "wrote", twice)
        shadow.reader.thread[lanes.element] = _NOBODY
        shadow.atomic[lanes.element] = False

    @override
    def atomic(
        self, frame: Frame, indices: Sequence[Value], values: Sequence[Value], update: Update, access: Access
    ) -> Array:
        lanes = self._lanes(frame, indices, access)
        if lanes.element.size:
            shadow, place = self.shadow, _watch(frame).place(access.where)
            plain = shadow.writer.conflicts(lanes) & ~shadow.atomic[lanes.element]
            self._meet(frame, lanes, shadow.writer, access, "changes", "wrote", plain)
            self._meet(frame, lanes, shadow.reader, access, "changes", "read", shadow.reader.conflicts(lanes))
            shadow.writer.add(lanes, place)
            shadow.atomic[lanes.element] = True
            shadow.defined[lanes.element] = True
        return super().atomic(frame, indices, values, update, access)

    # --- lanes ---

    def _lanes(self, frame: Frame, indices: Sequence[Value], access: Access) -> Lanes:
        place = self.locate(frame, indices, access)
        flat, allowed = (self.flat(place), frame.mask) if isinstance(place, Strided) else place
        watch, shape = _watch(frame), self.space.shape
        chosen = np.broadcast_to(np.asarray(allowed), shape).ravel()
        element, thread, group, epoch = (
            np.broadcast_to(part, shape).ravel()[chosen] for part in (flat, watch.thread, watch.group, watch.epoch)
        )
        return Lanes(element, thread, group, epoch, chosen)

    # --- errors ---

    def _meet(
        self, frame: Frame, lanes: Lanes, touch: _Touch, access: Access, does: str, did: str, conflict: Array
    ) -> None:
        """Fail where a lane meets a touch that it is not in order with."""
        if not conflict.any():
            return
        lane = int(conflict.argmax())
        other, place = (int(part[lanes.element[lane]]) for part in (touch.thread, touch.place))
        where = _watch(frame).places[place]
        apart = int(touch.group[lanes.element[lane]]) != int(lanes.group[lane])
        order = "and work-groups are in no order" if apart else "with no barrier between them"
        who = (
            "another thread" if other == _SEVERAL or other == lanes.thread[lane] else f"thread {_thread(frame, other)}"
        )
        self._fail(
            frame,
            access,
            f"race on `{access.buffer}`: thread {_thread(frame, int(lanes.thread[lane]))} {does} an element that {who} "
            f"{did}{f' at {where}' if where else ''}, {order}",
        )

    def _fail(self, frame: Frame, access: Access, what: str) -> None:
        name = frame.kernel.name
        remedy = "write it first, and put barrier() between" if "nothing has" in what else "put barrier() between them"
        if "work-groups are in no order" in what:
            remedy = "let each group have elements of its own, launch a second kernel for what comes after"
        raise KernelError(message=f"kernel {name}: {what}", where=access.where, remedy=f"{remedy}, or use atomics.")


def _watch(frame: Frame) -> Watch:
    assert frame.watch is not None
    return frame.watch


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _thread(frame: Frame, number: int) -> tuple[int, int, int]:
    """The numbers of a thread, x first."""
    x, y, _ = frame.threads
    return number % x, number // x % y, number // (x * y)
