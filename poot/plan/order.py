"""The order in which groups can run, and how it changes when two of them become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from poot.plan.groups import Group
from poot.trace.graph import Value


def ordered(groups: Sequence[Group], aliases: Mapping[int, Value]) -> list[Group]:
    """The groups so that each comes after those it reads from, otherwise in the order of the equations."""
    makers = {value.id: group for group in groups for value in group.outputs}
    done: set[int] = set()
    opened: set[int] = set()
    order: list[Group] = []
    for group in sorted(groups, key=lambda group: min(group.members)):
        stack = [group]
        while stack:
            current = stack[-1]
            waiting = [] if current.number in done else _before(current, makers, aliases)
            waiting = [maker for maker in waiting if maker.number not in done]
            if waiting:
                if current.number in opened:
                    raise AssertionError(f"group {current.number} waits for itself: {sorted(current.members)}")
                opened.add(current.number)
                stack += waiting
                continue
            stack.pop()
            if current.number not in done:
                done.add(current.number)
                order.append(current)
    return order


def updates_last(groups: Sequence[Group], aliases: Mapping[int, Value]) -> list[Group]:
    """The groups so that an update, or a loop, comes after what else reads the value that it changes.

    Where it can: a reader may need what the update makes.
    """
    order = list(groups)
    makers = {value.id: group for group in groups for value in group.outputs}
    for update in groups:
        changed = {_base(value, aliases).id for value in _changed(update)}
        for reader in [group for group in order if changed]:
            begin, end = order.index(update), order.index(reader)
            if begin > end or changed.isdisjoint(_base(value, aliases).id for value in reader.reads.values()):
                continue
            needed = _needed(reader, makers, aliases)
            if update.number not in needed and reader is not update:
                between = order[begin + 1 : end]
                early = [group for group in between if group.number in needed]
                late = [group for group in between if group.number not in needed]
                order[begin : end + 1] = [*early, reader, update, *late]
    return order


def _changed(group: Group) -> list[Value]:
    """What a group may change: the first operand of an update; a loop goes on from what it is given."""
    if group.kind == "update":
        inputs = group.members[group.update].inputs[:1]
    else:
        inputs = [atom for each in group.members.values() for atom in each.inputs if group.kind == "single"]
    return [atom for atom in inputs if isinstance(atom, Value)]


def _needed(group: Group, makers: Mapping[int, Group], aliases: Mapping[int, Value]) -> set[int]:
    """The numbers of the groups that a group needs, directly or not."""
    found: set[int] = set()
    pending = [group]
    while pending:
        for maker in _before(pending.pop(), makers, aliases):
            if maker.number not in found:
                found.add(maker.number)
                pending.append(maker)
    return found


def _base(value: Value, aliases: Mapping[int, Value]) -> Value:
    while value.id in aliases:
        value = aliases[value.id]
    return value


def _before(group: Group, makers: Mapping[int, Group], aliases: Mapping[int, Value]) -> list[Group]:
    found: list[Group] = []
    for identity in group.reads:
        while identity in aliases:
            identity = aliases[identity].id
        if identity in makers:
            found.append(makers[identity])
    return found


class Line:
    """Groups by position: each comes after those that it needs, as `needs` gives them."""

    def __init__(self, groups: Sequence[Group], needs: Callable[[Group], Iterable[Group]]) -> None:
        self._needs = needs
        self._groups: list[Group | None] = list(groups)
        #: By a group's number.
        self.positions = {group.number: place for place, group in enumerate(groups)}

    def replace(self, a: Group, b: Group, together: Group) -> None:
        """Put one group, with the number of either, in the place of two of which neither needs the other.

        Only those between the two move: what the later one needs comes before both, everything else after.
        """
        first, last = sorted((a, b), key=lambda group: self.positions[group.number])
        begin, end = self.positions[first.number], self.positions[last.number]
        needed: set[int] = set()
        stack = [last]
        while stack:
            for group in self._needs(stack.pop()):
                if group.number not in needed and self.positions[group.number] > begin:
                    needed.add(group.number)
                    stack.append(group)
        between = [group for group in self._groups[begin + 1 : end] if group is not None]
        early = [group for group in between if group.number in needed]
        late = [group for group in between if group.number not in needed]
        window = [*early, together, *late]
        del self.positions[a.number], self.positions[b.number]
        self._groups[begin : end + 1] = [*window, *[None] * (end + 1 - begin - len(window))]
        self.positions.update((group.number, begin + place) for place, group in enumerate(window))
