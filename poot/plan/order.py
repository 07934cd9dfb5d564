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
