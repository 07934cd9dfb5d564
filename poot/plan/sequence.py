"""The order in which fusion visits equations: from the last to the first, but for the sums of deferred softmax.

    power  = exp(scores - maximum)
    mixed  = power @ v
    total  = sum(power)            # may as well stand above: nothing in it needs the contraction
    result = mixed / total

Attention is found at its contraction, and takes the sums of its powers with it, as long as these have no place yet.  So
what is computed from powers beside the contraction is visited after it, as if it stood above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poot.trace.graph import Atom, Equation, Graph, Value
from poot.trace.primitives import Contraction, Elementwise, Reduction, is_movement, lookup

#: Views and casts between powers and the contraction that they weight.
_LOOK_BACK = 8
#: Equations below a contraction among which sums of its powers are looked for.
_LOOK_AHEAD = 200


def visits(graph: Graph, makers: Mapping[int, Equation]) -> Sequence[int]:
    """The numbers of a graph's equations, each after those that read its results."""
    last_first: list[int] = []
    later: dict[int, list[int]] = {}
    moved: set[int] = set()
    for number, equation in enumerate(graph.equations):
        if isinstance(lookup(equation.primitive).lower, Contraction) and number not in moved:
            beside = _beside(graph, number, makers, moved)
            moved.update(beside)
            later[number] = beside
    for number in reversed(range(len(graph.equations))):
        if number not in moved:
            last_first.append(number)
            last_first += reversed(later.get(number, ()))
    return last_first


def _beside(graph: Graph, number: int, makers: Mapping[int, Equation], moved: set[int]) -> list[int]:
    """What follows a contraction and is made of the powers that it weights, a sum among it, but not of its result."""
    powers = {atom.id for operand in graph.equations[number].inputs for atom in _powers(operand, makers)}
    if not powers:
        return []
    found: list[int] = []
    below: set[int] = set()  # what is made below the contraction and stays there
    sums = False
    for place, equation in enumerate(graph.equations[number : number + _LOOK_AHEAD], number):
        read = {atom.id for atom in equation.inputs if isinstance(atom, Value)}
        computed = isinstance(lookup(equation.primitive).lower, (Elementwise, Reduction))
        plain = computed or is_movement(equation.primitive)
        free = plain and place not in moved and not equation.effects and not read & below
        if free and read & powers:
            found.append(place)
            powers.update(value.id for value in equation.outputs)
            sums |= equation.primitive == "reduce_sum"
        elif place not in moved:
            below.update(value.id for value in equation.outputs)
    return found if sums else []


def _powers(atom: Atom, makers: Mapping[int, Equation]) -> list[Value]:
    """The values from a power to an operand, by views and casts; none if it is no power."""
    found: list[Value] = []
    while isinstance(atom, Value) and len(found) < _LOOK_BACK:
        found.append(atom)
        equation = makers.get(atom.id)
        if equation is None:
            break
        if equation.primitive == "exp":
            return found
        moved = is_movement(equation.primitive) and len(equation.inputs) == 1
        if equation.primitive != "cast" and not moved:
            break
        atom = equation.inputs[0]
    return []
