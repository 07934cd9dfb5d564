"""The prologue: what depends on constants alone is computed once, not at every step.

A constant is a variable whose contents stay from step to step (`CompileOptions.stable`).  Launches that read constants
alone, packed copies of weights above all, move to the prologue, and what they write becomes a kept slot.  Nothing that
can fault moves, nor anything much larger than what it is made of: kept slots stay in memory between steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from poot.kernel.ir import Atomic, Kernel, Load, Store, walk
from poot.plan.program import Copy, Launch, Slot
from poot.plan.schedules.common import GroupPlan, Setup

#: How many times larger than its constants a kept value may be, and how many bytes all larger ones may have together.
_GROWTH = 2
_LARGER_BYTES = 16 << 20


@dataclass(slots=True)
class Constants:
    """The cells whose contents stay from step to step, and the launches that fill those among them that are kept."""

    cells: set[int] = field(default_factory=set[int])
    steps: list[Launch | Copy] = field(default_factory=list[Launch | Copy])
    made: dict[object, tuple[int, ...]] = field(default_factory=dict[object, tuple[int, ...]])
    _larger: int = 0
    _checked: dict[int, tuple[Kernel, bool]] = field(default_factory=dict[int, tuple[Kernel, bool]])

    def affords(self, sources: Sequence[Slot], results: Sequence[Slot]) -> bool:
        """Whether results made of these constants may be kept; notes the bytes of those that grow."""
        size = sum(slot.nbytes for slot in results)
        if size <= _GROWTH * sum(slot.nbytes for slot in sources):
            return True
        if self._larger + size > _LARGER_BYTES:
            return False
        self._larger += size
        return True

    def can_fault(self, kernel: Kernel) -> bool:
        """Whether a kernel has an access that is checked when it runs."""
        known = self._checked.get(id(kernel))
        if known is None:
            checked = any(isinstance(node, (Load, Store, Atomic)) and node.checked for node in walk(kernel.body))
            known = self._checked[id(kernel)] = kernel, checked
        return known[1]


def accesses(setup: Setup) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The arguments of a launch that it reads, and those that it writes."""
    pairs = list(zip(setup.arguments, setup.kernel.buffers, strict=True))
    reads = tuple(argument for argument, param in pairs if param.access != "write")
    return reads, tuple(argument for argument, param in pairs if param.access != "read")


def constant_setups(plan: GroupPlan, stable: Collection[int], fresh: Collection[int]) -> list[int]:
    """The places of a plan's launches that depend on constants alone.

    `stable` are the value ids whose memory is constant, `fresh` those that only this group writes; temporaries are
    numbered as in `Setup.arguments`.
    """
    writers: dict[int, int] = {}
    for setup in plan.setups:
        for argument in accesses(setup)[1]:
            writers[argument] = writers.get(argument, 0) + 1
    known = set(stable)
    found: list[int] = []
    for place, setup in enumerate(plan.setups):
        reads, writes = accesses(setup)
        own = all(writers[a] == 1 and (a < 0 or a in fresh) and a not in reads for a in writes)
        if own and known.issuperset(reads):
            found.append(place)
            known.update(writes)
    return found
