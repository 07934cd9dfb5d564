"""How much of its buffers a launch may touch, as far as its kernel's indices tell.

A turn of a loop reads one slice of what it goes along: `xs[turn * 64 + i]` touches the 64 elements that `i` runs
through, wherever the part of the index that all threads share puts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from poot.kernel.interval import interval
from poot.kernel.ir import (
    Assign,
    Atomic,
    BufferParam,
    Cast,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Store,
    Var,
    operands,
    walk,
)
from poot.kernel.ranges import Interval, hull

#: Terms of an index that have one value in a launch, each with its factor.
_Shared: TypeAlias = "tuple[tuple[Expr, int], ...]"
_UNKNOWN = 1 << 62


def touched(kernel: Kernel, groups: tuple[int, int, int]) -> dict[str, int]:
    """For each buffer of a kernel, the most elements that a launch of so many work-groups reads or writes."""
    params = {param.name: param for param in kernel.buffers}
    found: dict[str, dict[tuple[_Shared, ...], list[Interval]]] = {name: {} for name in params}
    numbers = _Numbers(kernel, groups)
    for node in walk(kernel.body):
        if isinstance(node, (Let, For)):
            numbers.note(node)
        elif isinstance(node, (Load, Store, Atomic)) and node.buffer in params:
            shared, rest = numbers.access(node.indices)
            known = found[node.buffer].get(shared, rest)
            found[node.buffer][shared] = [hull(pair) for pair in zip(known, rest, strict=True)]
    return {name: _count(param, found[name].values()) for name, param in params.items()}


def _count(param: BufferParam, boxes: Iterable[Sequence[Interval]]) -> int:
    """The elements in boxes of indices, at most as many as the buffer has."""
    extents = [_UNKNOWN if extent is None else extent for extent in param.shape]
    spans = [[min(high - low + 1, n) for (low, high), n in zip(box, extents, strict=True)] for box in boxes]
    return min(sum(map(prod, spans)), prod(extents))


@dataclass(frozen=True, slots=True)
class _Number:
    """An integer of a kernel: a sum of `shared` terms, and of others that lie in an interval.

    `alike` says that there are no others but constants.
    """

    shared: _Shared
    rest: Interval
    alike: bool

    def plus(self, other: _Number, factor: int) -> _Number:
        ends = [factor * end for end in other.rest]
        shared = (*self.shared, *((term, factor * times) for term, times in other.shared))
        rest = self.rest[0] + min(ends), self.rest[1] + max(ends)
        return _Number(shared, rest, self.alike and other.alike)


_NOTHING = _Number((), (0, 0), True)


class _Numbers:
    """The integers of one kernel, as far as they are known at one place of it."""

    def __init__(self, kernel: Kernel, groups: tuple[int, int, int]) -> None:
        self._kernel = kernel
        self._groups = groups
        nodes = walk(kernel.body)
        self._read = {param.name for param in kernel.buffers if param.access == "read"}
        # A name that is given several values says nothing.
        names = Counter(n.var if isinstance(n, For) else n.name for n in nodes if isinstance(n, (Let, Assign, For)))
        self._once = {name for name, count in names.items() if count == 1}
        self._locals: dict[str, _Number] = {}
        self._ranges: dict[str, Interval] = {}

    def note(self, node: Let | For) -> None:
        """Note a local, or the variable of a loop."""
        name = node.var if isinstance(node, For) else node.name
        if name not in self._once or (isinstance(node, Let) and node.value.dtype.is_float):
            return
        if isinstance(node, Let):
            self._locals[name] = self._split(node.value)
            self._ranges[name] = self._range(node.value)
            return
        start, stop = self._range(node.start), self._range(node.stop)
        low, high = (start[0], stop[1] - 1) if node.step > 0 else (stop[0] + 1, start[1])
        self._ranges[name] = low, max(low, high)

    def access(self, indices: Sequence[Expr]) -> tuple[tuple[_Shared, ...], list[Interval]]:
        """What an access's indices share, and the intervals that the rest of them goes through."""
        found = list(map(self._split, indices))
        return tuple(number.shared for number in found), [number.rest for number in found]

    def _split(self, expr: Expr) -> _Number:
        match expr:
            case Const() if expr.dtype.is_integer:
                return _Number((), (int(expr.value), int(expr.value)), True)
            case Var() if expr.name in self._locals:
                return self._locals[expr.name]
            case Op("add" | "sub", (left, right)):
                return self._split(left).plus(self._split(right), 1 if expr.name == "add" else -1)
            case Op("mul", (other, Const() as factor)) | Op("mul", (Const() as factor, other)):
                return _NOTHING.plus(self._split(other), int(factor.value))
            case _ if self._is_shared(expr):
                return _Number(((expr, 1),), (0, 0), True)
            case _:
                return _Number((), self._range(expr), False)

    def _is_shared(self, expr: Expr) -> bool:
        """Whether an expression has one value in a launch."""
        match expr:
            case Const():
                return True
            case Var():
                return expr.name in self._locals and self._locals[expr.name].alike
            case Load():
                return expr.buffer in self._read and all(map(self._is_shared, expr.indices))
            case Op() | Cast():
                return all(map(self._is_shared, operands(expr)))
            case _:
                return False

    def _range(self, expr: Expr) -> Interval:
        whole = (int(expr.dtype.min), int(expr.dtype.max)) if expr.dtype.is_integer else (0, 1)
        match expr:
            case Const() if expr.dtype.is_integer:
                return int(expr.value), int(expr.value)
            case Var():
                return self._ranges.get(expr.name, whole)
            case Index() if not expr.buffer:
                return self._launched(expr, whole)
            case Op("select", (_, *sides)):
                return hull(map(self._range, sides))
            case Op() if expr.dtype.is_integer and all(arg.dtype.is_integer for arg in expr.args):
                a, b = [self._range(arg) for arg in (*expr.args, *expr.args)][:2]
                if expr.name in ("add", "sub"):
                    found = (a[0] + b[0], a[1] + b[1]) if expr.name == "add" else (a[0] - b[1], a[1] - b[0])
                else:
                    found = interval(expr, [self._range(arg) for arg in expr.args])
                return found if whole[0] <= found[0] and found[1] <= whole[1] else whole
            case _:
                return whole

    def _launched(self, expr: Index, whole: Interval) -> Interval:
        axis, size = expr.axis, self._kernel.workgroup[expr.axis]
        threads = None if self._kernel.threads is None else self._kernel.threads[axis]
        match expr.kind:
            case "local":
                return 0, size - 1
            case "group":
                return 0, self._groups[axis] - 1
            case "thread":
                return 0, (threads or size * self._groups[axis]) - 1
            case _:
                return whole
