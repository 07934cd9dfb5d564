"""Groups: equations that become one kernel, and the index forms at which each value is read inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from poot.plan.indexing import Affine, Axis, Indices, Quotient, dense, expand, flatten, loops_of
from poot.trace.graph import Atom, Equation, Value

GroupKind = Literal["map", "reduce", "contract", "attention", "update", "single"]

#: Where a value is read inside a group; None: at indices that are not known, or too many.
Places = list[Indices] | None

_MOST_PLACES = 4


#: Row values that are subtracted from scores one after the other, each with where it is read.
Shifts = tuple[tuple[Atom, Indices], ...]


@dataclass(frozen=True, slots=True)
class Power:
    """exp(score - shifts), and the row values that it is multiplied with or divided by, in this order."""

    shifts: Shifts
    factors: tuple[tuple[str, Atom, Indices], ...] = ()


@dataclass(frozen=True, slots=True)
class Attention:
    """What makes a group streaming attention: sums of values, weighted by powers of scores.

    `products` is the equation that contracts queries and keys, its operand number `query` the queries; `score` the
    value that powers are taken of; `value` the operand number of the values in the last contraction.  `maxima` and
    `sums` are the reductions along the keys, with what each is of (score - shifts, or a power), `weights` the power
    that the values are weighted by.  Axes: `keys` run through the keys, `inner` along the contraction of queries and
    keys, `columns` through the values' own axes.
    """

    products: int
    query: int
    score: Value
    value: int
    maxima: tuple[tuple[int, Shifts], ...]
    sums: tuple[tuple[int, Power], ...]
    weights: Power
    keys: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    def uses(self, axes: Sequence[Axis], index: Indices) -> bool:
        """Whether an index moves along one of some axes."""
        leaves = {leaf for axis in axes for leaf in axis.leaves()}
        return any(axis in leaves for form in index for axis in loops_of(form))

    def is_score(self, index: Indices) -> bool:
        """Whether an element is read once for each pair of query and key."""
        return self.uses(self.keys, index) and not self.uses((*self.inner, *self.columns), index)

    def visits(self, rows: int, index: Indices) -> int:
        """How often an element is evaluated; `rows` counts queries and columns."""
        columns = prod(axis.extent for axis in self.columns)
        total = rows // columns
        levels = [axes for axes in (self.keys, self.inner, self.columns) if self.uses(axes, index)]
        for axes in levels or [self.columns]:
            total *= prod(axis.extent for axis in axes)
        return total


@dataclass(slots=True, eq=False)
class Group:
    """One kernel in the making.

    `parallel` are the loop axes whose threads are independent, in row-major order of the first output; `reduced` the
    forms that run through the reduced (or contracted) axes, outermost first.  `members` are equation numbers,
    `outputs` the values that are stored, with the index that each is stored at, `places` where each value is read,
    `operands` where each reduction or contraction reads its operands, by equation number, `reads` the values read from
    memory, `checked` those among them read with bounds checks.  `conditional` values are read only where control flow
    has made their index valid; `imperative` ones are made by rules that change locals; `pinned` are the places at which
    a rule uses the index itself.  `products` are the ids of products that are not rounded by themselves.  `update` is
    the number of the equation that an update makes in the memory of its first operand.
    """

    number: int
    kind: GroupKind
    parallel: tuple[Axis, ...] = ()
    reduced: Indices = ()
    reduced_shape: tuple[int, ...] = ()
    members: dict[int, Equation] = field(default_factory=dict[int, Equation])
    outputs: dict[Value, Indices] = field(default_factory=dict[Value, Indices])
    places: dict[int, Places] = field(default_factory=dict[int, Places])
    reads: dict[int, Value] = field(default_factory=dict[int, Value])
    checked: set[int] = field(default_factory=set[int])
    conditional: set[int] = field(default_factory=set[int])
    imperative: set[int] = field(default_factory=set[int])
    operands: dict[int, tuple[Indices, ...]] = field(default_factory=dict[int, tuple[Indices, ...]])
    pinned: list[Indices] = field(default_factory=list[Indices])
    depth: dict[int, int] = field(default_factory=dict[int, int])
    weight: int = 0
    faults: bool = False
    reductions: list[int] = field(default_factory=list[int])
    contraction: int = -1
    attention: Attention | None = None
    products: frozenset[int] = frozenset()
    update: int = -1

    @property
    def bindings(self) -> int:
        return len(self.reads) + len(self.outputs) + len(self.checked)

    def parallel_leaves(self) -> tuple[Axis, ...]:
        return tuple(leaf for axis in self.parallel for leaf in axis.leaves())

    def reduced_leaves(self) -> tuple[Axis, ...]:
        return tuple(leaf for form in self.reduced for axis in form.axes for leaf in axis.leaves())

    @property
    def rows(self) -> int:
        return prod(axis.extent for axis in self.parallel)

    @property
    def length(self) -> int:
        return prod(self.reduced_shape)

    def uses_reduced(self, index: Indices) -> bool:
        """Whether an index moves along a reduced axis, be it by a quotient or remainder of it."""
        reduced = set(self.reduced_leaves())
        return any(axis in reduced for form in index for axis in loops_of(form))

    def operand_at(self, places: Places) -> bool:
        """Whether a value read at some places is an operand of a contraction, each of its elements read many times."""
        if self.contraction < 0 or places is None:
            return self.contraction >= 0
        streamed = self.attention
        if streamed is None:
            return any(map(self.uses_reduced, places))
        ends = (*streamed.inner, *streamed.columns)
        return any(streamed.uses(streamed.keys, index) and streamed.uses(ends, index) for index in places)

    def scores(self, value: Value) -> bool:
        """Whether a value is read once for each pair of query and key of attention."""
        places = self.places.get(value.id)
        return self.attention is not None and bool(places) and all(map(self.attention.is_score, places or ()))

    def visits(self, index: Indices) -> int:
        """How often an element at this index is evaluated."""
        if self.attention is not None:
            return self.attention.visits(self.rows, index)
        if not self.reduced or not self.uses_reduced(index):
            return self.rows
        return self.rows * self.length

    def covered(self, value: Value, index: Indices) -> tuple[Axis, ...] | None:
        """The axes over which the index takes every element of a value exactly once, largest stride first."""
        return dense(flatten(index, value.shape), value.spec.size)

    def stores(self, value: Value, index: Indices) -> bool:
        """Whether the group makes every element of a value, once a thread or once a row."""
        axes = self.covered(value, index)
        if axes is None:
            return False
        parallel = set(self.parallel_leaves())
        return set(axes) == parallel or set(axes) == parallel | set(self.reduced_leaves())

    # --- growth ---

    def read(
        self, value: Value, places: Places, depth: int = 0, *, checked: bool = False, conditional: bool = False
    ) -> None:
        """Note that a value is read at some places."""
        self.reads.setdefault(value.id, value)
        if checked:
            self.checked.add(value.id)
        if conditional:
            self.conditional.add(value.id)
        self.depth[value.id] = max(depth, self.depth.get(value.id, 0))
        known = self.places.get(value.id, [])
        self.places[value.id] = None if known is None or places is None else merge(known, places)

    def take(self, number: int, equation: Equation) -> None:
        """Make an equation a member: its outputs are no longer read from memory."""
        self.members[number] = equation
        for output in equation.outputs:
            self.reads.pop(output.id, None)


def copy(group: Group) -> Group:
    """A group that grows apart from this one."""
    return replace(
        group,
        members=dict(group.members),
        outputs=dict(group.outputs),
        places={identity: None if known is None else list(known) for identity, known in group.places.items()},
        reads=dict(group.reads),
        checked=set(group.checked),
        conditional=set(group.conditional),
        imperative=set(group.imperative),
        operands=dict(group.operands),
        pinned=list(group.pinned),
        depth=dict(group.depth),
        reductions=list(group.reductions),
    )


def merge(known: Sequence[Indices], more: Sequence[Indices]) -> Places:
    """Both lists without repetition; None where that is too many."""
    if not known and len(more) == 1:
        return [tuple(map(expand, more[0]))]
    found = {tuple(map(expand, index)): None for index in known}
    found.update({tuple(map(expand, index)): None for index in more})
    return list(found) if len(found) <= _MOST_PLACES else None


def known_axes(group: Group, index: Indices) -> bool:
    """Whether an index is made of the group's own axes, quotients of them included."""
    own = set(group.parallel_leaves()) | set(group.reduced_leaves())

    def inside(form: Affine) -> bool:
        for axis in expand(form).axes:
            source = axis.source
            if source is None:
                if axis not in own:
                    return False
            elif not isinstance(source, Quotient) or not inside(source.of):
                return False
        return True

    return all(map(inside, index))
