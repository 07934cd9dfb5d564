"""Lowering: each group of equations becomes kernels, by the schedule for its kind; equal groups are lowered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from poot.kernel.ir import Kernel
from poot.plan import cost
from poot.plan.groups import Group
from poot.plan.indexing import Space
from poot.plan.program import Declined
from poot.plan.schedules.attention import lower_attention
from poot.plan.schedules.common import Context, GroupPlan, Setup
from poot.plan.schedules.contract import lower_contraction
from poot.plan.schedules.pointwise import lower_pointwise
from poot.plan.schedules.rows import lower_rows
from poot.plan.schedules.updates import lower_update
from poot.plan.tune import Tuner, alternatives, task_of
from poot.target import Target
from poot.trace.graph import Literal, Value

#: What the rule of a `Launches` primitive gives: arguments number its inputs, then its outputs; -1 - n is temporary n.
KernelPlan = GroupPlan

_SCHEDULES: dict[str, Callable[[Context, Group], GroupPlan]] = {
    "map": lower_pointwise,
    "reduce": lower_rows,
    "contract": lower_contraction,
    "attention": lower_attention,
    "update": lower_update,
}


@dataclass(slots=True)
class Lowering:
    """Lowers the groups of one compile; `kernels` are the distinct kernels so far, in order of first use."""

    target: Target
    space: Space = field(default_factory=Space)
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    tuner: Tuner | None = None
    contract: bool = False
    ahead: Callable[[Kernel], None] | None = None
    tuned: list[str] = field(default_factory=list[str])
    rejected: list[Declined] = field(default_factory=list[Declined])
    _numbers: dict[Kernel, int] = field(default_factory=dict[Kernel, int])
    _by_identity: dict[int, tuple[Kernel, int]] = field(default_factory=dict[int, "tuple[Kernel, int]"])
    _plans: dict[object, GroupPlan] = field(default_factory=dict[object, GroupPlan])

    def lower(self, group: Group, constants: frozenset[int] = frozenset()) -> GroupPlan:
        """The launches of a group; Unsupported where the target cannot run it.

        `constants` are the ids of the values that it reads which stay the same from step to step.
        """
        shape, identities = _signature(group)
        key = shape, tuple(identity in constants for identity in identities)
        plan = self._plans.get(key)
        if plan is None:
            context = Context(self.target, cost.costs(self.target), self.space, constants)
            made = self._tuned(context, group, _SCHEDULES[group.kind](context, group))
            local = {identity: place for place, identity in enumerate(identities)}
            plan = self._plans[key] = _renamed(made, lambda identity: local[identity])
        return _renamed(plan, lambda place: identities[place])

    def _tuned(self, context: Context, group: Group, default: GroupPlan) -> GroupPlan:
        """The plan that the tuner prefers, where there is one, nothing can fault, and results are made as a whole."""
        if self.tuner is None or group.faults or group.kind == "update":
            return default
        schedule = _SCHEDULES[group.kind]
        figures = alternatives(context.costs, group.kind, self.target.limit("workgroup_invocations"))
        others = {name: partial(schedule, replace(context, costs=changed), group) for name, changed in figures.items()}
        answer = self.tuner.choose(task_of(group, default, others, self.target, contract=self.contract))
        if answer.note:
            self.tuned.append(answer.note)
        self.rejected += answer.declined
        return answer.plan

    def number(self, kernel: Kernel) -> int:
        """The number of a kernel in `kernels`; equal kernels share one."""
        if id(kernel) not in self._by_identity:
            number = self._numbers.setdefault(kernel, len(self.kernels))
            if number == len(self.kernels):
                self.kernels.append(kernel)
                if self.ahead is not None:
                    self.ahead(kernel)
            self._by_identity[id(kernel)] = kernel, number  # the kernel is kept, so that its id is not used again
        return self._by_identity[id(kernel)][1]


def _renamed(plan: GroupPlan, rename: Callable[[int], int]) -> GroupPlan:
    setups = tuple(
        Setup(setup.kernel, setup.groups, tuple(rename(a) if a >= 0 else a for a in setup.arguments))
        for setup in plan.setups
    )
    return replace(plan, setups=setups)


def _signature(group: Group) -> tuple[object, list[int]]:
    """What a group computes whatever its values are called, and its values in the order of that."""
    numbers: dict[int, int] = {}
    parts: list[object] = [group.kind]
    for number in sorted(group.members):
        equation = group.members[number]
        parts += (equation.primitive, equation.params)
        for atom in equation.inputs:
            parts.append(atom if isinstance(atom, Literal) else _numbered(atom, numbers))
        parts.append("=")
        parts += [_numbered(value, numbers) for value in equation.outputs]
    parts.append("stores")
    parts += sorted(numbers[value.id] for value in group.outputs)
    parts.append("contracts")
    parts += sorted(numbers[identity] for identity in group.products)
    return tuple(parts), list(numbers)


def _numbered(value: Value, numbers: dict[int, int]) -> object:
    known = numbers.get(value.id)
    if known is None:
        numbers[value.id] = len(numbers)
        return len(numbers) - 1, value.spec
    return known
