"""Fusion: which equations become one kernel.

One sweep from the last equation to the first (`sequence.py` says where that differs).  When an equation's turn comes,
every equation that reads its results has a group already, so it can be decided at once whether it is computed inside
its only reader, inside several (views and cheap MAPs), inside one of them which also stores it, beside another group
that reads the same operands, or by itself.  A contiguous view of a stored value needs no kernel: it is an alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from poot.plan import cost
from poot.plan.attention import Streams
from poot.plan.contract import contract_products
from poot.plan.elements import alias_of
from poot.plan.groups import Group, GroupKind, known_axes
from poot.plan.indexing import Space, axes_for, whole
from poot.plan.joins import Setting, join, probes
from poot.plan.merge import merge_groups
from poot.plan.order import Line, ordered, updates_last
from poot.plan.sequence import visits
from poot.plan.updates import Carried, reading, updates_in
from poot.target import Target
from poot.trace.graph import Atom, Equation, Graph, Value
from poot.trace.primitives import Contraction, Elementwise, HostControl, Launches, Pull, lookup

#: Groups visited at most to see whether one depends on another; past it the answer is taken to be yes.
_REACH = 512
#: Groups that read the same operand tried at most as companions.
_SIBLINGS = 4


@dataclass(slots=True)
class Fusion:
    """The groups of a graph, in an order in which they can run.

    `aliases` maps a value to the one whose storage it shares; `homes` gives the groups that compute each equation (none
    for aliases); `declined` says why equations stand alone, and `unstreamed` why contractions that look like the end of
    attention are none, by equation number.
    """

    groups: list[Group]
    aliases: dict[int, Value]
    homes: list[list[Group]]
    declined: dict[int, str]
    unstreamed: dict[int, str]


def fuse(
    graph: Graph,
    target: Target,
    space: Space | None = None,
    *,
    streaming: bool = True,
    carried: Carried | None = None,
) -> Fusion:
    """Group the equations of a graph whose passes have run (no Inline rules are left).

    `streaming` lets attention be one kernel, which takes the terms of its sums in another order.  `carried` values may
    be changed where they lie.
    """
    buffers = target.limit("buffers") - 1  # one is the fault record's
    makers = {value.id: equation for equation in graph.equations for value in equation.outputs}
    setting = Setting(space or Space(), cost.costs(target), buffers, makers)
    sweep = Sweep(graph, setting, updates={} if carried is None else updates_in(graph, carried))
    refusal = "" if streaming else 'numerics="strict" keeps the weights as they are divided and rounded'
    if target.languages == ("triton",):
        refusal = "a thread of Triton has no arrays"
    sweep.streams = Streams(graph, sweep.setting, sweep.consumers, sweep.needed, sweep.homes, refusal)
    for number in visits(graph, makers):
        sweep.place(number)
    sweep.line_up()
    merge_groups(sweep)
    contract_products(graph, sweep.needed, sweep.groups)
    groups = ordered(sweep.groups, sweep.aliases)
    groups = groups if carried is None else updates_last(groups, sweep.aliases)
    return Fusion(groups, sweep.aliases, sweep.homes, sweep.declined, sweep.streams.declined)


@dataclass(slots=True)
class _Shape:
    """What a Pull does whatever the index: found once for each primitive, parameters and operand types.

    `alias` is the operand in whose memory the result lies, or -1.
    """

    view: bool
    constant: bool
    alias: int
    checked: frozenset[int]


@dataclass(slots=True)
class Sweep:
    """The sweep while it goes on, and its result."""

    graph: Graph
    setting: Setting
    streams: Streams | None = None
    updates: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, "tuple[int, ...]"])
    groups: list[Group] = field(default_factory=list[Group])
    aliases: dict[int, Value] = field(default_factory=dict[int, Value])
    declined: dict[int, str] = field(default_factory=dict[int, str])
    homes: list[list[Group]] = field(init=False)
    needed: set[int] = field(init=False)
    consumers: dict[int, list[int]] = field(init=False)
    _makers: dict[int, tuple[int, Value]] = field(init=False)
    _line: Line | None = None
    _readers: dict[int, list[Group]] = field(default_factory=dict[int, "list[Group]"])
    _shapes: dict[object, _Shape] = field(default_factory=dict[object, _Shape])

    def __post_init__(self) -> None:
        graph = self.graph
        self.homes = [[] for _ in graph.equations]
        outputs: Iterable[Atom] = (*graph.outputs, *(atom for _, atom in graph.updates))
        self.needed = {atom.id for atom in outputs if isinstance(atom, Value)}
        self.consumers = {}
        self._makers = {v.id: (number, v) for number, each in enumerate(graph.equations) for v in each.outputs}
        for number, equation in enumerate(graph.equations):
            for identity in {atom.id for atom in equation.inputs if isinstance(atom, Value)}:
                self.consumers.setdefault(identity, []).append(number)

    # --- one equation ---

    def place(self, number: int) -> None:
        equation = self.graph.equations[number]
        rule = lookup(equation.primitive).lower
        if self.homes[number] or (not equation.regions and not any(value.spec.size for value in equation.outputs)):
            return
        if isinstance(rule, (HostControl, Launches)) or equation.effects - {"fault"}:
            self._single(number, equation)
            return
        if number in self.updates:
            self._update(number, equation)
            return
        if isinstance(rule, Pull) and len(equation.outputs) == 1:
            shape = self._shape(equation, rule)
            self.needed.update(self._ids(equation.inputs[operand] for operand in shape.checked))
            if shape.view or shape.constant:
                self._place_view(number, equation, shape)
                return
        self._place(number, equation)
        if self.streams is not None and isinstance(rule, Contraction):
            self.streams.take(number)

    @staticmethod
    def _ids(atoms: Iterable[Atom]) -> Iterator[int]:
        return (atom.id for atom in atoms if isinstance(atom, Value))

    def _shape(self, equation: Equation, rule: Pull) -> _Shape:
        key = equation.primitive, equation.params, tuple(atom.spec for atom in equation.inputs)
        known = self._shapes.get(key)
        if known is None:
            output = equation.outputs[0]
            index = whole(axes_for("p", output.shape))
            (found,) = probes(self.setting, equation, rule, [index])
            known = self._shapes[key] = _Shape(
                found.view,
                found.constant,
                alias_of(equation, found, index),
                frozenset(read.operand for read in found.reads if read.checked),
            )
        return known

    def _hosts(self, equation: Equation) -> list[Group]:
        """The groups that read an equation's results, in the order in which they were made."""
        found: dict[int, Group] = {}
        for value in equation.outputs:
            for consumer in self.consumers.get(value.id, ()):
                for group in self.homes[consumer]:
                    if value.id in group.reads:
                        found[group.number] = group
        return list(found.values())

    def _is_needed(self, equation: Equation) -> bool:
        return any(value.id in self.needed for value in equation.outputs)

    def _place_view(self, number: int, equation: Equation, shape: _Shape) -> None:
        """Views and constants are computed in every group that reads them, and stored only if something else does."""
        stored = self._is_needed(equation)
        hosts = self._hosts(equation)
        for group in hosts:
            reason = self._join(group, number, equation)
            if reason:
                self.declined[number] = reason
                stored = True
        (value,) = equation.outputs
        if not stored and hosts:
            return
        operand = equation.inputs[shape.alias] if shape.alias >= 0 else None
        if isinstance(operand, Value):
            self.aliases[value.id] = operand
            self.needed.add(operand.id)
        else:
            self._root(number, equation)

    def _place(self, number: int, equation: Equation) -> None:
        hosts = self._hosts(equation)
        if len(equation.outputs) > 1 or not hosts:
            self._root(number, equation)
            return
        if len(hosts) == 1 and not self._is_needed(equation):
            reason = self._join(hosts[0], number, equation)
        elif not self._is_needed(equation) and self._cheap(number, equation, hosts):
            return
        else:
            reason = self._store_in_one(number, equation, hosts)
        if reason:
            self.declined[number] = reason
            self._root(number, equation)

    def _cheap(self, number: int, equation: Equation, hosts: list[Group]) -> bool:
        """Compute a cheap MAP of one operand in every group that reads it, rather than store it."""
        operands = set(self._ids(equation.inputs))
        light = cost.weight(equation.primitive) == 1 and len(operands) == 1 and len(hosts) <= _SIBLINGS
        light = light or all(group.scores(equation.outputs[0]) for group in hosts)
        if not light or not isinstance(lookup(equation.primitive).lower, Elementwise):
            return False
        joined = [group for group in hosts if not self._join(group, number, equation)]
        if len(joined) < len(hosts):
            self.needed.add(equation.outputs[0].id)
            self._root(number, equation)
        return True

    def _store_in_one(self, number: int, equation: Equation, hosts: list[Group]) -> str:
        """Let one of the groups that read a value compute and store it, if none of the others comes before that one."""
        reason = ""
        for group in reversed(hosts):
            others = [host for host in hosts if host is not group]
            others += [each for value in equation.outputs for each in self._after_aliases(value)]
            if any(self.reaches(other, group) for other in others):
                reason = "its readers depend on each other"
                continue
            reason = self._join(group, number, equation, output=True)
            if not reason:
                return ""
        return reason

    def _join(self, group: Group, number: int, equation: Equation, *, output: bool = False) -> str:
        reason = join(self.setting, group, number, equation, self.uses, output=output)
        if not reason:
            self.homes[number].append(group)
            self._index_reads(group, equation)
        return reason

    def uses(self, value: Value) -> Iterator[Equation]:
        return (self.graph.equations[number] for number in self.consumers.get(value.id, ()))

    def _index_reads(self, group: Group, equation: Equation) -> None:
        for identity in self._ids(equation.inputs):
            readers = self._readers.setdefault(identity, [])
            if group not in readers[-_SIBLINGS:]:
                readers.append(group)

    # --- groups of their own ---

    def _new(self, kind: GroupKind) -> Group:
        group = Group(len(self.groups), kind)
        self.groups.append(group)
        return group

    def _single(self, number: int, equation: Equation) -> None:
        """An equation that takes and gives whole buffers."""
        group = self._new("single")
        group.take(number, equation)
        for atom in equation.inputs:
            if isinstance(atom, Value):
                group.read(atom, None)
                self.needed.add(atom.id)
        for value in equation.outputs:
            group.outputs[value] = ()
        self.homes[number].append(group)

    def _root(self, number: int, equation: Equation) -> None:
        """An equation whose result is stored: beside a group that reads the same, or in a new one."""
        if len(equation.outputs) == 1 and self._beside(number, equation):
            return
        value = equation.outputs[0]
        group = self._new("map")
        group.parallel = axes_for("d", value.shape)
        group.places[value.id] = [whole(group.parallel)]
        if len(equation.outputs) > 1:
            rule = lookup(equation.primitive).lower
            assert isinstance(rule, Pull)
            self._single_pull(group, number, equation, rule)
            return
        reason = self._join(group, number, equation, output=True)
        if reason:
            self.groups.pop()
            self.declined[number] = reason
            self._single(number, equation)

    def _update(self, number: int, equation: Equation) -> None:
        """An equation that changes a few elements of its first operand."""
        group = self._new("update")
        group.parallel, group.update = axes_for("d", self.updates[number]), number
        self._single_pull(group, number, equation, reading(equation))
        group.read(cast("Value", equation.inputs[0]), None)
        self.needed.update(self._ids(equation.inputs[:1]))

    def _single_pull(self, group: Group, number: int, equation: Equation, rule: Pull) -> None:
        """A Pull by itself: each of its results is stored at the index of the first."""
        index = whole(group.parallel)
        group.take(number, equation)
        group.weight = cost.weight(equation.primitive)
        group.faults = "fault" in equation.effects
        (found,) = probes(self.setting, equation, rule, [index])
        if found.imperative:
            group.imperative.update(value.id for value in equation.outputs)
        for read in found.reads:
            atom = equation.inputs[read.operand]
            if isinstance(atom, Value):
                known = group.kind == "update" and not read.checked and known_axes(group, read.index)
                group.read(atom, [read.index] if known else None, 1, checked=read.checked, conditional=True)
                self.needed.update({atom.id} if read.checked else ())
        group.pinned.append(index)
        for value in equation.outputs:
            group.outputs[value] = index
            group.places[value.id] = [index]
        self.homes[number].append(group)
        self._index_reads(group, equation)

    def _beside(self, number: int, equation: Equation) -> bool:
        """Join a group that reads one of the operands and has a stored value of the same shape."""
        (value,) = equation.outputs
        if isinstance(lookup(equation.primitive).lower, Contraction):
            return False
        for identity in self._ids(equation.inputs):
            for group in self._readers.get(identity, [])[-_SIBLINGS:]:
                if group.kind not in ("map", "reduce") or identity not in group.reads or value.id in group.places:
                    continue
                index = next((at for stored, at in group.outputs.items() if stored.shape == value.shape), None)
                if index is None or any(self.reaches(host, group) for host in self._after(value)):
                    continue
                group.places[value.id] = [index]
                if not self._join(group, number, equation, output=True):
                    return True
                del group.places[value.id]
        return False

    # --- order ---

    def _after(self, value: Value) -> Iterator[Group]:
        """The groups that read a value, or an alias of it."""
        for consumer in self.consumers.get(value.id, ()):
            yield from self.homes[consumer]
        yield from self._after_aliases(value)

    def _after_aliases(self, value: Value) -> Iterator[Group]:
        for consumer in self.consumers.get(value.id, ()):
            for output in self.graph.equations[consumer].outputs:
                if output.id in self.aliases:
                    yield from self._after(output)

    def reaches(self, start: Group, goal: Group) -> bool:
        """Whether `goal` needs, directly or not, something that `start` stores.

        Looked for from the goal back: in the sweep what comes before it is mostly not placed yet, and later the groups'
        positions say where to stop.
        """
        positions = {} if self._line is None else self._line.positions
        least = positions.get(start.number, -1)
        seen = {goal.number}
        stack = [goal]
        while stack:
            group = stack.pop()
            if group is start:
                return True
            if len(seen) > _REACH:
                return True
            for before in self._needs(group):
                if before.number not in seen and positions.get(before.number, least) >= least:
                    seen.add(before.number)
                    stack.append(before)
        return False

    def _needs(self, group: Group) -> Iterator[Group]:
        """The groups that store what a group reads."""
        for identity in group.reads:
            while identity in self.aliases:
                identity = self.aliases[identity].id
            if identity in self._makers:
                number, value = self._makers[identity]
                yield from (home for home in self.homes[number] if home is not group and value in home.outputs)

    def line_up(self) -> None:
        """From here on groups are only merged, and have positions."""
        self._line = Line(ordered(self.groups, self.aliases), self._needs)

    def replace(self, a: Group, b: Group, together: Group) -> None:
        """Let one group, with the number of either, stand for two of which neither needs the other."""
        assert self._line is not None
        self._line.replace(a, b, together)
        self.groups[:] = [together if group is a else group for group in self.groups if group is not b]
        for number in together.members:
            homes = [together if group is a or group is b else group for group in self.homes[number]]
            self.homes[number] = list(dict.fromkeys(homes))
