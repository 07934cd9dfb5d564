"""What conditions decide and imply, as linear forms that are at least 0."""

from __future__ import annotations

from collections.abc import Sequence

from poot.kernel.ir import Op
from poot.kernel.ranges import Facts, Linear
from poot.kernel.scope import Implied, Known


def decided(facts: Facts, name: str, a: Linear, b: Linear) -> bool | None:
    """The outcome of a comparison of two forms, if the facts say it."""
    if name in ("gt", "ge"):
        a, b, name = b, a, "lt" if name == "gt" else "le"
    gap = b.plus(a, -1)
    if name in ("eq", "ne"):
        low, high = facts.interval(gap)
        if low == high == 0:
            return name == "eq"
        return name == "ne" if low > 0 or high < 0 else None
    margin = 1 if name == "lt" else 0
    if facts.proves(gap.offset(-margin)):
        return True
    return False if facts.proves(gap.times(-1).offset(margin - 1)) else None


def compared(facts: Facts, name: str, a: Linear, b: Linear) -> Implied:
    """What a comparison of two forms implies."""
    gap = b.plus(a, -1)
    above, below = (gap,), (gap.times(-1),)  # a <= b, a >= b
    past, short = (gap.times(-1).offset(-1),), (gap.offset(-1),)  # a > b, a < b
    match name:
        case "lt":
            return below, short
        case "le":
            return past, above
        case "gt":
            return above, past
        case "ge":
            return short, below
        case _:
            low, high = facts.interval(gap)
            apart = short if low == 0 else past if high == 0 else ()
            return (apart, (*above, *below)) if name == "eq" else ((*above, *below), apart)


def combined(op: Op, args: Sequence[Known]) -> Implied:
    """What an operation on conditions implies."""
    match op.name, args:
        case "not", (a,):
            return a.implied[1], a.implied[0]
        case "and", (a, b):
            return (), (*a.implied[1], *b.implied[1])
        case "or", (a, b):
            return (*a.implied[0], *b.implied[0]), ()
        case _:
            return (), ()
