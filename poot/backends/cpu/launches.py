"""Launches laid out in native memory, once, and patched in place between runs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from poot.backends.cpu.runtime_ir import CHUNK_BITS, CONTROL_SHIFT, INDEX_BITS, INLINE_FLAG, QUICK_FLAG, Operation
from poot.errors import ArgumentError

_WORDS: Final = 5  # function, arguments, groups, grain, flags
_CALL: Final = 4  # pool, list, count, generation
_MASK: Final = (1 << 64) - 1
_MAX_GROUPS: Final = 1 << 62
_MAX_CHUNKS: Final = 1 << CHUNK_BITS
_MAX_LAUNCHES: Final = 1 << INDEX_BITS


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel over a linear range of work-groups.

    `function` is the kernel's address; `arguments` are its 8-byte slots, each a pointer or the bits of a scalar.
    Threads take `grain` groups at a time; `inline` keeps the launch on the calling thread, still `grain` groups at a
    time.  After a `quick` one, of one chunk and a few microseconds, nobody asks for the time.  `ArgumentError` for a
    null function, fewer than 0 groups, a grain below 1, or 2^38 chunks or more.
    """

    function: int
    arguments: tuple[int, ...]
    groups: int
    grain: int
    inline: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.function <= _MASK:
            raise ArgumentError(what="function", actual=self.function, expected="the address of a kernel")
        _check_range(self.groups, self.grain)


@dataclass(frozen=True, slots=True)
class Control:
    """A decision between launches: `operation` is one of `runtime_ir.Operation`, and `target` the index of a step.

    `arguments` hold addresses, as those of a launch do: of the bool that TEST looks at (it goes to `target` where that
    is false), or of an i32 that is to have the number of the turn, or 0.  START begins the turns that the TURN at
    `target` counts; that one goes to `target` until there have been `limit` turns.  JUMP goes there always.
    """

    operation: Operation
    target: int
    arguments: tuple[int, ...] = ()
    limit: int = 0


def _check_range(groups: int, grain: int) -> None:
    if not 0 <= groups < _MAX_GROUPS:
        raise ArgumentError(what="groups", actual=groups, expected="0 or more")
    if not 1 <= grain < _MAX_GROUPS:
        raise ArgumentError(what="grain", actual=grain, expected="1 or more")
    if -(-groups // grain) >= _MAX_CHUNKS:
        raise ArgumentError(what="grain", actual=grain, expected=f"enough for {groups} groups in 2^{CHUNK_BITS} chunks")


class LaunchList:
    """A sequence of launches and decisions that `Pool.run(list.address, list.count)` runs in order, as often as wanted.

    Between runs any argument or range may be changed; while a run is in progress none may, so threads that run the same
    launches at the same time each take a `copy`.  `words` is the memory itself, 64-bit words: `words[slot] = pointer`,
    with `slot` from `slot(launch, index)` looked up once, is the quick way to patch.  `call` is the address of the four
    words that `poot_call` takes, the first of them `words[call_slot]`.
    """

    __slots__ = ("_memory", "_starts", "address", "call", "call_slot", "count", "words")

    def __init__(self, launches: Sequence[Launch | Control]) -> None:
        if len(launches) >= _MAX_LAUNCHES:
            raise ArgumentError(what="launches", actual=len(launches), expected=f"fewer than 2^{INDEX_BITS}")
        slots = sum(len(launch.arguments) for launch in launches)
        self._build(array("Q", bytes(8 * (_WORDS * len(launches) + slots + _CALL))), len(launches))
        starts = [_WORDS * len(launches)]
        for launch in launches:
            starts.append(starts[-1] + len(launch.arguments))
        self._starts: tuple[int, ...] = tuple(starts)
        for index, launch in enumerate(launches):
            at = _WORDS * index
            if isinstance(launch, Control):
                self.words[at + 2] = launch.target
                self.words[at + 3] = launch.limit
                self.words[at + 4] = launch.operation << CONTROL_SHIFT
            else:
                self.words[at] = launch.function
                self.words[at + 2] = launch.groups
                self.words[at + 3] = launch.grain
                self.words[at + 4] = INLINE_FLAG * launch.inline + QUICK_FLAG * launch.quick
            self.set_arguments(index, launch.arguments)
        self._link()

    def _build(self, memory: array[int], count: int) -> None:
        self._memory = memory
        # The view fixes the array's size, and with it the address.
        self.words: memoryview[int] = memoryview(memory)
        self.address: int = memory.buffer_info()[0]
        self.count: int = count
        self.call_slot: int = len(memory) - _CALL
        self.call: int = self.address + 8 * self.call_slot
        self.words[self.call_slot + 1] = self.address
        self.words[self.call_slot + 2] = count

    def _link(self) -> None:
        for index in range(self.count):
            self.words[_WORDS * index + 1] = self.address + 8 * self._starts[index]

    def copy(self) -> LaunchList:
        """The same launches, with their arguments as they are now, in memory of their own."""
        other = LaunchList.__new__(LaunchList)
        other._build(self._memory[:], self.count)
        other._starts = self._starts
        other._link()
        return other

    def slot(self, launch: int, index: int) -> int:
        """The position in `words` of argument `index` of a launch; `IndexError` if there is none."""
        start, stop = self._starts[launch], self._starts[launch + 1]
        if launch < 0 or not 0 <= index < stop - start:
            raise IndexError(f"launch {launch} has {stop - start} arguments, no argument {index}")
        return start + index

    def set_argument(self, launch: int, index: int, value: int) -> None:
        """Set one argument to a pointer or to the bits of a scalar, negative or not."""
        self.words[self.slot(launch, index)] = value & _MASK

    def set_arguments(self, launch: int, values: Sequence[int]) -> None:
        """Set every argument of a launch; `ArgumentError` if the number differs."""
        start, stop = self._starts[launch], self._starts[launch + 1]
        if len(values) != stop - start:
            raise ArgumentError(what="arguments", actual=len(values), expected=f"{stop - start} values")
        for at, value in enumerate(values, start):
            self.words[at] = value & _MASK

    def set_groups(self, launch: int, groups: int, grain: int) -> None:
        """Set the range of a launch; the same errors as in `Launch`."""
        _check_range(groups, grain)
        self.words[_WORDS * launch + 2] = groups
        self.words[_WORDS * launch + 3] = grain
