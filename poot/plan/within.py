"""Where the equations of a block stand: in the planned graph itself, or in a region inside one of its equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

#: The way to an equation from one of the planned graph: a region and an equation there, for each level.
Path: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Within:
    """The planned graph, or the graph made of a region that is lowered.

    `outer` is the equation of the planned graph that the region is in, or -1; `above` is the way from there to the
    region's own equation, and `words` says which that is.  The graph's equations are those of regions of that equation:
    of `parts`, each a region and a number of equations, one after the other; region -1 stands for equations that slice
    its operands.  `region` is the one that is lowered.
    """

    outer: int = -1
    above: Path = ()
    words: str = ""
    region: int = 0
    parts: tuple[tuple[int, int], ...] = ()

    def numbers(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Equations of the planned graph that a launch names: its own, or the one that the region belongs to."""
        return tuple(numbers) if self.outer < 0 else (self.outer,)

    def inside(self, number: int) -> Path:
        """The way to an equation from that of `numbers`."""
        origin = self._origin(number)
        return () if origin is None else (*self.above, origin)

    def named(self, number: int) -> str:
        """What an equation is called in its region; "" where it slices operands."""
        if self.outer < 0:
            return f"equation {number}"
        origin = self._origin(number)
        if origin is None:
            return ""
        region, place = origin
        return f"equation {place}" if region == self.region else f"equation {place} of the condition"

    def deeper(self, number: int, primitive: str, part: str, region: int, parts: Sequence[tuple[int, int]]) -> Within:
        """A region of one of the equations; `part` is what the region is to it."""
        outer = number if self.outer < 0 else self.outer
        words = f" in the {part} of {self.named(number)} ({primitive}){self.words}"
        return Within(outer, self.inside(number), words, region, tuple(parts))

    def _origin(self, number: int) -> tuple[int, int] | None:
        for region, count in self.parts:
            if number < count:
                return None if region < 0 else (region, number)
            number -= count
        return None


#: Where the equations of the planned graph stand.
PLANNED = Within()
