"""What the tests of refusals share: a builder with some values, and a region."""

from __future__ import annotations

from typing import Any

from poot.dtypes import bool_, f32, i32
from poot.trace.builder import Builder
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits

LIMITS = TraceLimits(max_values=8, max_eqns=3, max_literal_bytes=16, max_owned_bytes=1 << 10, max_tokens=1)


class Scene:
    """A builder with x: f32[2,3], i: i32[2,3], c: bool[], a state s: f32[3], and a foreign handle."""

    def __init__(self) -> None:
        self.b = Builder(LIMITS)
        self.x = self.b.input("x", f32[2, 3])
        self.i = self.b.constant("i", i32[2, 3])
        self.c = self.b.input("c", bool_[()])
        self.s = self.b.state("s", f32[3])
        self.foreign = Builder(LIMITS).input("other", f32[2, 3])

    def column(self) -> tuple[Any, ...]:
        """Indices, i32[1,1]."""
        return self.b.emit("iota", (), {"dtype": i32, "shape": (1, 1), "axis": 0})

    def finished(self) -> Builder:
        self.b.finish(self.x)
        return self.b


def body(*specs: Any) -> Graph:
    b = Builder(LIMITS, name="body")
    return b.finish(tuple(b.input(f"in{number}", spec) for number, spec in enumerate(specs)))
