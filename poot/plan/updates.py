"""Updates: equations that change a few elements of a large value that a loop, or a donated state, carries.

Such an equation becomes a kernel that stores what changes and nothing else, after a copy of its first operand to its
result.  Where nothing needs the old value afterwards, the end of the turn lets both be the same memory (`turns.py`),
and the copy goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from poot.kernel.ir import Expr
from poot.plan.groups import Group
from poot.records import record
from poot.trace.graph import Atom, Equation, Graph, Value
from poot.trace.primitives import HostControl, Pull, PullContext, Update, lookup

#: Elements below which a value is written whole, and how many times more of them than points of an update it has.
_LARGE = 1 << 10
_FEW = 8
#: Equations looked back through for what a value is made of.
_LOOK_BACK = 64


def update_of(equation: Equation) -> Update | None:
    """How an equation changes its first operand in place, if it may."""
    rule = lookup(equation.primitive).lower
    return rule.update if isinstance(rule, Pull) else None


def reading(equation: Equation) -> Pull:
    """A rule that reads what an update reads at a point."""
    update = update_of(equation)
    assert update is not None

    def body(context: PullContext, point: tuple[Expr, ...]) -> tuple[Expr, ...]:
        update.body(context, point, lambda index, element: None)
        return ()

    return Pull(body)


@record
class Carried:
    """The values that a graph is given and may change, and those that it hands on in their place, by their ids.

    Of a loop's body they are its inputs and results; of a whole program the donated states and their next values.
    """

    given: frozenset[int]
    handed_on: frozenset[int]

    @classmethod
    def of(cls, given: Iterable[Value], handed_on: Iterable[Atom]) -> Carried:
        wanted = (atom.id for atom in handed_on if isinstance(atom, Value))
        return cls(frozenset(value.id for value in given), frozenset(wanted))


def updates_in(graph: Graph, carried: Carried) -> dict[int, tuple[int, ...]]:
    """The equations that change a few elements of something large which the graph was given.

    That is a carried value, or the result of a loop or of another update; and what they make is handed on: it is
    carried on, or a loop or another update takes it.  By their numbers, with the grids of their points.
    """
    found = _handed_on(graph, carried.handed_on)
    given = set(carried.given)
    for number, equation in enumerate(graph.equations):
        if _is_loop(equation):
            given.update(value.id for value in equation.outputs)
        elif number in found:
            operand = equation.inputs[0]
            if isinstance(operand, Value) and operand.id in given:
                given.add(equation.outputs[0].id)
            else:
                del found[number]
    return found


def _handed_on(graph: Graph, handed_on: frozenset[int]) -> dict[int, tuple[int, ...]]:
    """The updates whose results are handed on."""
    wanted = set(handed_on)
    found: dict[int, tuple[int, ...]] = {}
    for number in reversed(range(len(graph.equations))):
        equation = graph.equations[number]
        if _is_loop(equation):
            wanted.update(atom.id for atom in equation.inputs if isinstance(atom, Value))
            continue
        points = _few_points(equation)
        if points is not None and equation.outputs[0].id in wanted:
            found[number] = points
            wanted.update(atom.id for atom in equation.inputs[:1] if isinstance(atom, Value))
    return found


def _is_loop(equation: Equation) -> bool:
    return isinstance(lookup(equation.primitive).lower, HostControl)


def _few_points(equation: Equation) -> tuple[int, ...] | None:
    """The points of an equation that changes few elements of many."""
    update = update_of(equation)
    points = None if update is None else update.points(tuple(atom.spec for atom in equation.inputs), equation.params)
    if points is None or 0 in points or equation.outputs[0].spec.size < max(_LARGE, _FEW * prod(points)):
        return None
    return points


def reads_updated(group: Group, equation: Equation, makers: Mapping[int, Equation]) -> bool:
    """Whether an equation computes something from the value that the group's update changes, or one before.

    Another thread may have changed that by then, so it comes in a kernel before.
    """
    changed: set[int] = set()
    update: Equation | None = group.members[group.update]
    while update is not None and update_of(update) is not None and isinstance(update.inputs[0], Value):
        changed.add(update.inputs[0].id)
        update = makers.get(update.inputs[0].id)
    pending, seen = [equation], set[int]()
    while pending:
        for atom in pending.pop().inputs:
            if isinstance(atom, Value) and atom.id not in seen:
                seen.add(atom.id)
                if atom.id in changed or len(seen) > _LOOK_BACK:
                    return True
                above = makers.get(atom.id)
                if above is not None and not _is_loop(above):
                    pending.append(above)
    return False
