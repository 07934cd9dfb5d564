"""Index arithmetic of the planner: affine forms over loop axes, exact division, and axes that split on demand.

A fused group reads its operands at indices that are sums of loop axes times constants.  Keeping them in that form,
rather than as expressions, lets reshapes cancel, tells contiguous accesses from strided ones, and lets loops be
collapsed.

    index  ::= Affine(const, ((axis, coefficient), …))
    axis   ::= Axis(name, extent)            0 <= axis < extent
             | Axis with parts (high, low)   axis = extent(low) * high + low, once a division has asked for it
             | Axis with a source            a value that no loop counts: an expression, a quotient or a remainder
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from poot.kernel.ir import Expr
from poot.records import record

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Quotient:
    """What an axis stands for where division does not come out even: floor(`of` / `by`), or the remainder."""

    of: Affine
    by: int
    remainder: bool


class Axis:
    """A bounded integer; compared by identity.  `extent` 0 means that nothing is known of its range."""

    __slots__ = ("extent", "name", "number", "parts", "source")

    def __init__(self, name: str, extent: int, source: Expr | Quotient | None = None) -> None:
        self.name = name
        self.extent = extent
        self.source = source
        self.parts: tuple[Axis, Axis] | None = None
        self.number = next(_numbers)

    @override
    def __repr__(self) -> str:
        return f"{self.name}[{self.extent}]"

    def leaves(self) -> tuple[Axis, ...]:
        """The axes that this one is made of, outermost first; axes of extent 1 are left out."""
        if self.parts is None:
            return () if self.extent == 1 and self.source is None else (self,)
        return self.parts[0].leaves() + self.parts[1].leaves()


@record
class Affine:
    """`const` plus the sum of axes times non-zero coefficients, in the order in which the axes were made."""

    const: int
    terms: tuple[tuple[Axis, int], ...] = ()

    def coefficient(self, axis: Axis) -> int:
        for term, factor in self.terms:
            if term is axis:
                return factor
        return 0

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple([axis for axis, _ in self.terms])

    @override
    def __repr__(self) -> str:
        return " + ".join([f"{factor}*{axis.name}" for axis, factor in self.terms] + [str(self.const)])


ZERO = Affine(0)
Indices = tuple[Affine, ...]


def of_axis(axis: Axis) -> Affine:
    """The axis itself; 0 for an axis of extent 1."""
    return ZERO if axis.extent == 1 and axis.source is None else Affine(0, ((axis, 1),))


def combine(parts: Iterable[tuple[Affine, int]], const: int = 0) -> Affine:
    """The sum of forms times constants."""
    total: dict[Axis, int] = {}
    for form, factor in parts:
        const += form.const * factor
        for axis, coefficient in form.terms:
            total[axis] = total.get(axis, 0) + coefficient * factor
    return _made(const, total)


def _made(const: int, total: dict[Axis, int]) -> Affine:
    terms = [(axis, factor) for axis, factor in total.items() if factor]
    if len(terms) > 1:
        terms.sort(key=lambda term: term[0].number)
    return Affine(const, tuple(terms))


def expand(form: Affine) -> Affine:
    """The form with every split axis replaced by its parts."""
    for axis, _ in form.terms:
        if axis.parts is not None:
            break
    else:
        return form
    total: dict[Axis, int] = {}
    for axis, factor in form.terms:
        for leaf, step in _leaf_steps(axis):
            total[leaf] = total.get(leaf, 0) + factor * step
    return _made(form.const, total)


def loops_of(form: Affine) -> Iterator[Axis]:
    """The axes of a form, with those that its quotients and remainders are made of."""
    for axis in expand(form).axes:
        if isinstance(axis.source, Quotient):
            yield from loops_of(axis.source.of)
        yield axis


def _leaf_steps(axis: Axis) -> list[tuple[Axis, int]]:
    steps: list[tuple[Axis, int]] = []
    step = 1
    leaves = axis.leaves() if axis.parts is not None else (axis,)
    for leaf in reversed(leaves):
        steps.append((leaf, step))
        step *= leaf.extent
    return steps


def bounds(form: Affine) -> tuple[int, int] | None:
    """The least and greatest value, or None where an axis has no known range."""
    low = high = form.const
    for axis, factor in form.terms:
        if axis.extent <= 0:
            return None
        reach = factor * (axis.extent - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def split(axis: Axis, by: int) -> None:
    """Make a loop axis two: quotients by `by`, and remainders."""
    axis.parts = (Axis(axis.name, axis.extent // by), Axis(axis.name, by))


class Space:
    """Makes axes and divides forms; quotients and expressions that are equal share one axis."""

    def __init__(self) -> None:
        self._shared: dict[object, Axis] = {}

    def opaque(self, expr: Expr) -> Affine:
        """A value of which nothing is known."""
        axis = self._shared.get(expr)
        if axis is None:
            axis = self._shared[expr] = Axis("e", 0, expr)
        return Affine(0, ((axis, 1),))

    def _quotient(self, form: Affine, by: int, remainder: bool) -> Affine:
        key = Quotient(form, by, remainder)
        axis = self._shared.get(key)
        if axis is None:
            reach = bounds(form)
            nonnegative = reach is not None and reach[0] >= 0
            extent = by if remainder else reach[1] // by + 1 if reach is not None and nonnegative else 0
            axis = self._shared[key] = Axis("r" if remainder else "q", extent, key)
        return of_axis(axis)

    def divide(self, form: Affine, by: int, *, refine: bool = True) -> tuple[Affine, Affine]:
        """Floor quotient and remainder by a positive constant, exact where ranges prove it.

        With `refine` loop axes are split where that makes the division come out even; the loops of a kernel that is
        being emitted are fixed.
        """
        if by == 1:
            return form, ZERO
        while True:
            form = expand(form)
            reach = bounds(form)
            if reach is not None and reach[0] // by == reach[1] // by:
                return Affine(reach[0] // by), combine([(form, 1)], -(reach[0] // by) * by)
            quotient = {axis: factor // by for axis, factor in form.terms}
            rest = _made(form.const % by, {axis: factor % by for axis, factor in form.terms})
            reach = bounds(rest)
            if reach is not None and reach[0] >= 0 and reach[1] < by:
                return _made(form.const // by, quotient), rest
            if not refine or not self._refine(rest, by):
                break
        whole = _made(form.const // by, quotient)
        return combine([(whole, 1), (self._quotient(rest, by, False), 1)]), self._quotient(rest, by, True)

    @staticmethod
    def _refine(rest: Affine, by: int) -> bool:
        """Split the axis that straddles a multiple of `by`, if it is a loop axis and the parts come out even."""
        for axis, factor in rest.terms:
            if axis.source is not None or by % factor or axis.extent % (by // factor) or axis.extent * factor <= by:
                continue
            split(axis, by // factor)
            return True
        return False


def flatten(indices: Sequence[Affine], shape: Sequence[int]) -> Affine:
    """The row-major element number of an index."""
    step = 1
    parts: list[tuple[Affine, int]] = []
    for form, extent in zip(reversed(indices), reversed(shape), strict=True):
        parts.append((form, step))
        step *= extent
    return expand(combine(parts))


def dense(form: Affine, extent: int) -> tuple[Axis, ...] | None:
    """The loop axes, largest stride first, over which a form takes every value of 0 … extent - 1 once; else None."""
    form = expand(form)
    if form.const:
        return None
    step = 1
    found: list[Axis] = []
    for axis, factor in sorted(form.terms, key=lambda term: (term[1], term[0].extent)):
        if factor != step or axis.source is not None:
            return None
        found.append(axis)
        step *= axis.extent
    return tuple(reversed(found)) if step == extent else None


def axes_for(name: str, shape: Sequence[int]) -> tuple[Axis, ...]:
    """One fresh axis an extent."""
    return tuple(Axis(f"{name}{number}", extent) for number, extent in enumerate(shape))


def whole(axes: Sequence[Axis]) -> Indices:
    """The index that has one axis a dimension."""
    return tuple(map(of_axis, axes))
