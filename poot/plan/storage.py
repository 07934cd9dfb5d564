"""Storage: where values live while a program runs, and how scratch memory is reused over time.

`Cells` collects the buffers of a program while its steps are assembled; a step names them by number, which is the
number of the slot that each becomes.  `plan_storage` then places scratch slots in one arena: slots that are live at the
same time do not overlap; each is put at the offset where it wastes least, in the order among a few that needs least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from poot.dtypes import ArraySpec
from poot.plan.program import Branch, Copy, Launch, Loop, Role, Slot, Step, Storage

#: Alignment of slots, in bytes: a cache line and the widest vector.
ALIGN = 64


@dataclass(slots=True)
class Cells:
    """The buffers of a program in the making."""

    slots: list[Slot] = field(default_factory=list[Slot])

    def new(self, role: Role, spec: ArraySpec, name: str = "") -> int:
        self.slots.append(Slot(role, spec, name))
        return len(self.slots) - 1


@dataclass(slots=True)
class _Life:
    slot: int
    size: int
    first: int
    last: int
    offset: int = -1


def plan_storage(
    slots: list[Slot], steps: tuple[Step, ...], last: frozenset[int] = frozenset(), prologue: tuple[Step, ...] = ()
) -> Storage:
    """Place the scratch slots; those in `last` are read after the last step.  The prologue has an arena of its own."""
    placed = list(slots)
    lives = _lives(slots, steps, last)
    before = _lives(slots, prologue, frozenset())
    arena, prologue_bytes = _place(lives), _place(before)
    for life in (*lives, *before):
        placed[life.slot] = replace(placed[life.slot], offset=life.offset)
    for number, slot in enumerate(placed):
        if slot.role == "scratch" and slot.offset < 0:
            placed[number] = replace(slot, offset=0)
    return Storage(tuple(placed), arena, _bound(lives), prologue_bytes)


def _lives(slots: list[Slot], steps: tuple[Step, ...], last: frozenset[int]) -> list[_Life]:
    spans = _Spans()
    spans.block(steps)
    for slot in last:
        spans.touch(slot, spans.clock)
    spans.widen()
    return [
        _Life(number, -(-slot.nbytes // ALIGN) * ALIGN, *spans.found[number])
        for number, slot in enumerate(slots)
        if slot.role == "scratch" and number in spans.found
    ]


@dataclass(slots=True)
class _Spans:
    """First and last time at which each slot is used.

    A slot used in a loop and before it lives until the loop ends; one made in a loop and used after it lives from the
    loop's begin on, since a turn may make a part of it alone.
    """

    clock: int = 0
    found: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    loops: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def touch(self, slot: int, time: int) -> None:
        first, last = self.found.get(slot, (time, time))
        self.found[slot] = min(first, time), max(last, time)

    def widen(self) -> None:
        """Let what leaves a loop live from its begin on; inner loops come before those around them."""
        for begin, end in self.loops:
            for slot, (first, last) in self.found.items():
                if begin < first <= end < last:
                    self.found[slot] = begin, last

    def block(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.clock += 1
            match step:
                case Launch():
                    for binding in step.bindings:
                        self.touch(binding.slot, self.clock)
                case Copy():
                    self.touch(step.source, self.clock)
                    self.touch(step.target, self.clock)
                case Branch():
                    self.touch(step.predicate, self.clock)
                    for block in step.blocks:
                        self.block(block)
                case Loop():
                    self._loop(step)

    def _loop(self, step: Loop) -> None:
        begin = self.clock
        inside = _Spans(begin)
        inside.block(step.condition)
        for slot in (step.predicate, step.counter):
            if slot >= 0:
                inside.touch(slot, begin)
        inside.block(step.body)
        self.clock = inside.clock + 1
        self.loops += [*inside.loops, (begin, self.clock)]
        for slot, (first, last) in inside.found.items():
            if slot in self.found or slot in (step.predicate, step.counter):
                self.touch(slot, begin)
                self.touch(slot, self.clock)
            else:
                self.touch(slot, first)
                self.touch(slot, last)


#: Steps that share a list of the slots that live during any of them.
_BLOCK = 64
#: Attempts at a placement that takes no more than what is live at once, and the slots up to which there are several.
_ATTEMPTS = 24
_MANY = 1 << 12


def _place(lives: list[_Life]) -> int:
    """Offsets for all, and how much memory they take: the least of several attempts.

    Each slot takes the smallest gap that holds it beside those live at the same time: largest first, then first used
    first, and while that takes more than is live at once, what lay beyond it goes first in the next attempt.
    """
    least, total, best = _bound(lives), -1, list[int]()
    starts: tuple[Callable[[_Life], tuple[int, int]], ...] = (
        lambda life: (-life.size, life.first),
        lambda life: (life.first, -life.size),
    )
    for start in starts:
        order = sorted(lives, key=start)
        for _ in range(_ATTEMPTS // 2 if len(lives) <= _MANY else 1):
            arena = _placed(order)
            if total < 0 or arena < total:
                total, best = arena, [life.offset for life in lives]
            if arena <= least:
                break
            beyond = [life for life in order if life.offset + life.size > least]
            order = [*beyond, *(life for life in order if life.offset + life.size <= least)]
        if total <= least:
            break
    for life, offset in zip(lives, best, strict=True):
        life.offset = offset
    return max(total, 0)


def _placed(lives: list[_Life]) -> int:
    """Give each slot in turn the smallest gap that holds it; the end of the last."""
    arena = 0
    blocks: dict[int, list[_Life]] = {}
    for life in lives:
        span = range(life.first // _BLOCK, life.last // _BLOCK + 1)
        near = {id(other): other for block in span for other in blocks.get(block, ())}
        beside = sorted(
            (other for other in near.values() if other.first <= life.last and life.first <= other.last),
            key=lambda other: other.offset,
        )
        best, waste, end = -1, -1, 0
        for other in beside:
            gap = other.offset - end
            if gap >= life.size and (waste < 0 or gap - life.size < waste):
                best, waste = end, gap - life.size
            end = max(end, other.offset + other.size)
        life.offset = end if best < 0 else best
        arena = max(arena, life.offset + life.size)
        for block in span:
            blocks.setdefault(block, []).append(life)
    return arena


def _bound(lives: list[_Life]) -> int:
    """The most bytes that are live at one time."""
    changes: dict[int, int] = {}
    for life in lives:
        changes[life.first] = changes.get(life.first, 0) + life.size
        changes[life.last + 1] = changes.get(life.last + 1, 0) - life.size
    live = most = 0
    for time in sorted(changes):
        live += changes[time]
        most = max(most, live)
    return most
