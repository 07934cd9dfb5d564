"""Intervals of integer operations that are not linear."""

from __future__ import annotations

from collections.abc import Sequence

from poot.kernel.ir import Op
from poot.kernel.ranges import Interval


def interval(op: Op, args: Sequence[Interval]) -> Interval:
    """The least and greatest value of an integer operation, from its operands' (a select's condition first)."""
    whole = int(op.dtype.min), int(op.dtype.max)
    match op.name, args:
        case "select", (_, a, b):
            return min(a[0], b[0]), max(a[1], b[1])
        case "min", (a, b):
            return min(a[0], b[0]), min(a[1], b[1])
        case "max", (a, b):
            return max(a[0], b[0]), max(a[1], b[1])
        case (("popcount" | "clz"), _):
            return 0, op.dtype.bits
        case "abs", (a,) if a[0] > whole[0]:
            return 0, max(-a[0], a[1])
        case "mul", (a, b):
            corners = [x * y for x in a for y in b]
            return _within((min(corners), max(corners)), whole)
        case "floor_div", (a, b):
            return _quotient(a, b, whole)
        case "rem", (a, b):
            return _remainder(a, b, whole)
        case (("and" | "or" | "xor" | "shift_left" | "shift_right"), (a, b)):
            return _bits(op, a, b, whole)
        case _:
            return whole


def _within(found: Interval, whole: Interval) -> Interval:
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _quotient(a: Interval, b: Interval, whole: Interval) -> Interval:
    if b[0] > 0:
        corners = [x // y for x in a for y in b]
        return min(corners), max(corners)
    return (0, a[1]) if a[0] >= 0 and b[0] >= 0 else whole


def _remainder(a: Interval, b: Interval, whole: Interval) -> Interval:
    """A zero divisor gives 0, which every interval here has."""
    if b[0] < 0:
        return whole
    most = max(b[1] - 1, 0)
    return 0, min(most, a[1]) if a[0] >= 0 else most


def _bits(op: Op, a: Interval, b: Interval, whole: Interval) -> Interval:
    positive = a[0] >= 0 and b[0] >= 0
    match op.name:
        case "and" if a[0] >= 0 or b[0] >= 0:
            return 0, min(x[1] for x in (a, b) if x[0] >= 0)
        case "or" | "xor" if positive:
            return 0, (1 << max(a[1], b[1]).bit_length()) - 1
        case "shift_right" if b[0] == b[1] and 0 <= b[0] < op.dtype.bits:
            return a[0] >> b[0], a[1] >> b[0]
        case "shift_right" if a[0] >= 0:
            return 0, a[1]
        case _:
            return whole
