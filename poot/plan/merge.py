"""Merging: groups that read the same value over the same loops become one kernel with the outputs of both.

Done after the sweep, pair by pair: the members of one group are joined to a copy of the other, at the places that
follow from how both read the shared value; what a join refuses leaves both groups as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from poot.plan.groups import Group, copy
from poot.plan.indexing import Affine, Axis, Indices, combine, expand, of_axis
from poot.plan.joins import Setting, join
from poot.trace.graph import Equation, Value

#: Partners that a group tries for each value that it reads.
_PARTNERS = 3


class Groups(Protocol):
    """What merging needs of the sweep."""

    setting: Setting
    groups: list[Group]

    @property
    def uses(self) -> Callable[[Value], Iterable[Equation]]: ...

    def replace(self, a: Group, b: Group, together: Group) -> None:
        """Let one group stand for two."""
        ...

    def reaches(self, start: Group, goal: Group) -> bool:
        """Whether the second group needs something of the first."""
        ...


def merge_groups(sweep: Groups) -> None:
    """Merge what can be merged among the groups that read the same value."""
    readers: dict[int, list[Group]] = {}
    for group in sweep.groups:
        if group.kind in ("map", "reduce"):
            for identity in group.reads:
                readers.setdefault(identity, []).append(group)
    merged: dict[int, Group] = {}

    def current(group: Group) -> Group:
        while group.number in merged and merged[group.number] is not group:
            group = merged[group.number]
        return group

    tried: set[tuple[int, int]] = set()
    for groups in readers.values():
        for place, first in enumerate(groups):
            for second in groups[place + 1 : place + 1 + _PARTNERS]:
                a, b = current(first), current(second)
                if a is b or (a.number, b.number) in tried:
                    continue
                tried.add((a.number, b.number))
                together = _merge(sweep, a, b) or _merge(sweep, b, a)
                if together is not None:
                    merged[a.number] = merged[b.number] = together
                    sweep.replace(a, b, together)


def _merge(sweep: Groups, host: Group, guest: Group) -> Group | None:
    """A copy of `host` that also computes what `guest` does, or None."""
    axes = _correspondence(host, guest)
    if axes is None or _recomputes(host, guest) or sweep.reaches(host, guest) or sweep.reaches(guest, host):
        return None
    together = copy(host)
    for value, index in guest.outputs.items():
        if value.id in together.places:
            return None
        together.places[value.id] = [_moved(index, axes)]
    for number in sorted(guest.members, reverse=True):
        equation = guest.members[number]
        if number in together.members:
            if not _same_places(together, guest, equation, axes):
                return None
            # What joined before seems to read these from memory, as long as their equation had not joined.
            for value in equation.outputs:
                if value.id not in together.checked:
                    together.reads.pop(value.id, None)
            continue
        stored = any(value in guest.outputs for value in equation.outputs)
        if len(equation.outputs) > 1 or join(sweep.setting, together, number, equation, sweep.uses, output=stored):
            return None
    return together


def _recomputes(host: Group, guest: Group) -> bool:
    """Whether both compute a value that one of them stores: what the other makes of it would read that memory."""
    both = host.members.keys() & guest.members.keys()
    stored = host.outputs.keys() | guest.outputs.keys()
    return any(value in stored for number in both for value in host.members[number].outputs)


def _correspondence(host: Group, guest: Group) -> dict[Axis, Affine] | None:
    """For each loop axis of the guest the one of the host that goes with it, from how both read the same values."""
    axes: dict[Axis, Affine] = {}
    for identity in guest.reads:
        ours, theirs = _place(host, identity), _place(guest, identity)
        if identity not in host.reads or ours is None or theirs is None:
            continue
        for mine, its in zip(map(expand, ours), map(expand, theirs), strict=True):
            axis, other = _single(its), _single(mine)
            if axis is None or other is None or axis.extent != other.extent:
                continue
            if axes.setdefault(axis, mine) != mine:
                return None
    wanted = set(guest.parallel_leaves()) | set(guest.reduced_leaves())
    if not axes or set(axes) != wanted or len(set(axes.values())) != len(axes):
        return None
    return axes


def _place(group: Group, identity: int) -> Indices | None:
    """Where a group reads a value, if it is one place."""
    places = group.places.get(identity)
    return places[0] if places is not None and len(places) == 1 else None


def _single(form: Affine) -> Axis | None:
    """The loop axis that a form is, if it is just that."""
    if form.const or len(form.terms) != 1:
        return None
    ((axis, factor),) = form.terms
    return axis if factor == 1 and axis.source is None else None


def _moved(index: Indices, axes: dict[Axis, Affine]) -> Indices:
    return tuple(
        combine([(axes.get(axis, of_axis(axis)), factor) for axis, factor in expand(form).terms], form.const)
        for form in index
    )


def _same_places(host: Group, guest: Group, equation: Equation, axes: dict[Axis, Affine]) -> bool:
    """Whether an equation that both compute is read at the same places."""
    for value in equation.outputs:
        ours, theirs = host.places.get(value.id), guest.places.get(value.id)
        if ours is None or theirs is None or any(_moved(index, axes) not in ours for index in theirs):
            return False
    return True
