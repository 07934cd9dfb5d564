"""Passes over rows: what the schedules of reductions compute, whatever threads do it.

The reductions of a group fall into passes: those that need no other one are of the first pass, those that need them of
the second, and so on; a last pass stores results that have a value for each element.  Each pass goes over the row once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from poot.kernel.ir import Expr, Var
from poot.plan import cost
from poot.plan.elements import Elements
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Indices, flatten, whole
from poot.plan.schedules.common import Context, Loop, accesses, by_stride, collapse, pinned, stored
from poot.trace.graph import Equation, Value
from poot.trace.primitives import Elementwise, Reduction, lookup


@dataclass(slots=True)
class RowPlan:
    """The passes of a group: `level` of a value is the pass after which all reductions that it needs are known."""

    context: Context
    group: Group
    rules: dict[int, Reduction] = field(init=False)
    level: dict[int, int] = field(init=False)
    passes: int = field(init=False)
    row: list[tuple[Value, Indices]] = field(init=False)
    full: list[tuple[Value, Indices]] = field(init=False)
    row_loops: list[Loop] = field(init=False)
    loops: list[Loop] = field(init=False)
    values: list[Value] = field(init=False)
    makers: dict[int, Equation] = field(init=False)
    numbers: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        group = self.group
        self.rules = {}
        self.level = {}
        self.values = [value for number in sorted(group.members) for value in group.members[number].outputs]
        self.makers = {value.id: equation for equation in group.members.values() for value in equation.outputs}
        self.numbers = {equation.outputs[0].id: number for number, equation in group.members.items()}
        for number in sorted(group.members):
            equation = group.members[number]
            level = max((self.level.get(atom.id, 0) for atom in equation.inputs if isinstance(atom, Value)), default=0)
            rule = lookup(equation.primitive).lower
            if isinstance(rule, Reduction):
                self.rules[number] = rule
                level += 1
            self.level.update((value.id, level) for value in equation.outputs)
        self.passes = max(self.level[group.members[number].outputs[0].id] for number in self.rules)
        outputs = stored(group)
        self.row = [(value, index) for value, index in outputs if not group.uses_reduced(index)]
        self.full = [(value, index) for value, index in outputs if group.uses_reduced(index)]
        forms = accesses(group)
        fixed = pinned(group, forms)
        first, index = (self.row or self.full)[0]
        parallel = by_stride(group.parallel_leaves(), flatten(index, first.shape))
        self.row_loops = collapse(parallel, forms, fixed)
        self.loops = collapse(group.reduced_leaves(), forms, fixed)

    def runs_along_rows(self) -> bool:
        """Whether most reads are contiguous along the reduced axes rather than across rows."""
        group = self.group
        reduced, parallel = group.reduced_leaves(), group.parallel_leaves()
        votes = 0
        for value in group.reads.values():
            for index in group.places.get(value.id) or ():
                form = flatten(index, value.shape)
                votes += any(form.coefficient(axis) == 1 for axis in reduced)
                votes -= any(form.coefficient(axis) == 1 for axis in parallel)
        return votes > 0 or not parallel

    def reductions(self, number: int) -> list[tuple[Equation, Reduction]]:
        """The reductions of a pass, counted from 1."""
        found = ((self.group.members[n], rule) for n, rule in self.rules.items())
        return [(equation, rule) for equation, rule in found if self.level[equation.outputs[0].id] == number]

    def stores(self, number: int) -> list[tuple[Value, Indices]]:
        """The results with a value for each element that a pass stores: as early as they are known."""
        return [(value, index) for value, index in self.full if min(self.level[value.id], self.passes) + 1 == number]

    def number(self, equation: Equation) -> int:
        return self.numbers[equation.outputs[0].id]

    @property
    def place(self) -> Affine:
        """The number of the element within its row."""
        axes = self.group.reduced_leaves()
        return flatten(whole(axes), [axis.extent for axis in axes])

    @property
    def last(self) -> int:
        """The number of the last pass over the row."""
        return max([self.passes, *(self.level[value.id] + 1 for value, _ in self.full)])

    def kept(self) -> dict[int, list[Value]]:
        """Dear values that several passes need, by the pass that makes them first."""
        needed: dict[int, list[int]] = {}
        for number in range(1, self.last + 1):
            for identity in self._needs(number, frozenset()):
                needed.setdefault(identity, []).append(number)
        candidates = {identity for identity, passes in needed.items() if len(passes) > 1 and self._dear(identity)}
        found: dict[int, list[Value]] = {}
        seen: set[int] = set()
        for number in range(1, self.last + 1):
            for identity, value in self._needs(number, frozenset(candidates)).items():
                if identity in candidates and identity not in seen and needed[identity][0] < number:
                    seen.add(identity)
                    found.setdefault(needed[identity][0], []).append(value)
        return found

    def _dear(self, identity: int) -> bool:
        equation = self.makers[identity]
        places = self.group.places.get(identity)
        alone = places is not None and len(places) == 1 and identity not in self.group.conditional
        dear = (
            isinstance(lookup(equation.primitive).lower, Elementwise) and cost.weight(equation.primitive) >= cost.DEAR
        )
        return alone and dear

    def _needs(self, number: int, ends: frozenset[int]) -> dict[int, Value]:
        """What a pass computes for each element, not going beyond `ends` in passes after the first."""
        roots = [value for value, _ in self.stores(number)]
        roots += [
            value for equation, _ in self.reductions(number) for value in equation.inputs if isinstance(value, Value)
        ]
        found: dict[int, Value] = {}
        while roots:
            value = roots.pop()
            equation = self.makers.get(value.id)
            if value.id in found or equation is None or isinstance(lookup(equation.primitive).lower, Reduction):
                continue
            found[value.id] = value
            if value.id not in ends or number == 1:
                roots += [atom for atom in equation.inputs if isinstance(atom, Value)]
        return found


# --- passes -----------------------------------------------------------------------------------------------------------

Sweep = Callable[[Callable[[], None]], None]


def settle(plan: RowPlan, elements: Elements, level: int) -> None:
    """Compute what has one value a row once its reductions are known, so that no pass computes it for each element."""
    group = plan.group
    known = [value for value in group.reads.values() if level == 0]
    known += [value for value in plan.values if plan.level[value.id] == level and value.id not in elements.resident]
    for value in known:
        places = group.places.get(value.id)
        if places and value.id not in group.conditional and not any(map(group.uses_reduced, places)):
            for index in places:
                elements.read(value, index)


def run_passes(
    plan: RowPlan, elements: Elements, sweep: Sweep, combine: Callable[[Reduction, Var], Expr], width: int
) -> None:
    """Every pass over the row; afterwards all results of one value a row can be read."""
    k = elements.k
    kept = plan.kept() if width > 1 and plan.context.target.shares_arrays else {}
    room = min(plan.context.costs.row_cache, plan.context.target.limit("workgroup_storage") - 16 * width)
    settle(plan, elements, 0)
    for number in range(1, plan.last + 1):
        reductions = plan.reductions(number)
        totals = [identity(elements, equation, rule) for equation, rule in reductions]
        keeping: list[tuple[Value, str]] = []
        for value in kept.get(number, ()):
            room -= plan.group.length * value.dtype.itemsize
            if room >= 0:
                keeping.append((value, k.alloc("row", value.dtype, (plan.group.length,), "shared")))

        def body(
            number: int = number,
            reductions: Sequence[tuple[Equation, Reduction]] = reductions,
            totals: Sequence[Var] = totals,
            keeping: Sequence[tuple[Value, str]] = keeping,
        ) -> None:
            for value, row in keeping:
                index = (plan.group.places[value.id] or [])[0]
                k.store(row, (k.expr(plan.place),), elements.read(value, index))
            for value, index in plan.stores(number):
                elements.store(value, index, elements.read(value, index))
            for (equation, rule), total in zip(reductions, totals, strict=True):
                k.assign(total, rule.combine(k, total, operand(plan, elements, equation, total)))

        sweep(body)
        for (equation, rule), total in zip(reductions, totals, strict=True):
            finish(elements, equation, combine(rule, total))
        for value, row in keeping:
            elements.cached[value.id] = _reader(plan, elements, row)
        settle(plan, elements, number)


def _reader(plan: RowPlan, elements: Elements, row: str) -> Callable[[Indices], Expr]:
    return lambda index: elements.k.let(elements.k.load(row, (elements.k.expr(plan.place),)), "v")


def identity(elements: Elements, equation: Equation, rule: Reduction) -> Var:
    """A running value that starts from the identity."""
    dtype = rule.accumulator(equation.outputs[0].dtype)
    return elements.k.variable(elements.k.const(rule.identity(dtype), dtype), "total")


def operand(plan: RowPlan, elements: Elements, equation: Equation, total: Var) -> Expr:
    """The element that a reduction takes next, in the dtype of its running value."""
    (index,) = plan.group.operands[plan.number(equation)]
    return elements.k.cast(elements.term(equation.inputs[0], index), total.dtype)


def finish(elements: Elements, equation: Equation, total: Expr) -> None:
    """Keep the result of a reduction, rounded to its dtype."""
    (value,) = equation.outputs
    elements.resident[value.id] = elements.k.variable(elements.k.cast(total, value.dtype), "v")


def store_rows(plan: RowPlan, elements: Elements) -> None:
    """Store the results of one value a row."""
    for value, index in plan.row:
        elements.store(value, index, elements.read(value, index))
