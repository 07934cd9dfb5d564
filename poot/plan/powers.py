"""Powers: values of attention read as exp(scores - row values), times and over other row values.

Everything here asks at which index a group reads a value: one that moves along the keys, or one that has an element a
query.  `Powers.seen` collects the equations that turned out to be part of powers and weights rather than of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poot.plan.elements import probe
from poot.plan.emitter import Emitter
from poot.plan.groups import Group, Power, Shifts
from poot.plan.indexing import Axis, Indices, Space, loops_of
from poot.trace.graph import Atom, Equation, Value
from poot.trace.primitives import Pull, lookup

NO_SOFTMAX = "its weights are no softmax of scores"


def axes_of(index: Indices) -> list[Axis]:
    """The loop axes that an index moves along, those of quotients included."""
    return [axis for form in index for axis in loops_of(form)]


def varies(index: Indices, axes: Sequence[Axis]) -> bool:
    """Whether an index moves along one of some axes."""
    wanted = {leaf for axis in axes for leaf in axis.leaves()}
    return any(axis in wanted for axis in axes_of(index))


class Powers:
    """Reads powers off a group; `number` gives the equation that makes a value, `maker` the equation itself."""

    def __init__(
        self,
        space: Space,
        group: Group,
        keys: Sequence[Axis],
        number: Callable[[Atom], int],
        maker: Callable[[Atom], Equation | None],
    ) -> None:
        self.space = space
        self.group = group
        self.keys = keys
        self.number = number
        self.maker = maker
        self.seen: set[int] = set()

    def place(self, atom: Atom) -> Indices:
        """Where the group reads a value."""
        places = self.group.places.get(atom.id) if isinstance(atom, Value) else None
        return places[0] if places else ()

    def moves(self, index: Indices) -> bool:
        """Whether an index moves along the keys."""
        return varies(index, self.keys)

    def settled(self, atom: Atom, index: Indices) -> tuple[Atom, Indices]:
        """A value through the views that made it, as far as its index moves along the keys."""
        while isinstance(atom, Value) and self.moves(index):
            equation = self.maker(atom)
            source = None if equation is None else self._source(equation, index)
            if source is None:
                break
            atom, index = source
        return atom, index

    def _source(self, equation: Equation, index: Indices) -> tuple[Atom, Indices] | None:
        """What a view's element at an index is a copy of."""
        rule = lookup(equation.primitive).lower
        if not isinstance(rule, Pull) or not rule.movement or len(equation.outputs) != 1:
            return None
        found = probe(Emitter("probe", self.space, probing=True), equation, rule, index)
        return (equation.inputs[found.reads[0].operand], found.reads[0].index) if found.view else None

    def above(self, atom: Atom) -> Equation | None:
        """The member that makes a value, casts and movement left out."""
        while (equation := self.group.members.get(self.number(atom))) is not None:
            source = self._source(equation, self.place(atom))
            if equation.primitive == "cast":
                source = equation.inputs[0], ()
            if source is None:
                return equation
            self.seen.add(self.number(atom))
            atom = source[0]
        return None

    def _split(self, equation: Equation) -> tuple[Atom, Atom, Indices] | None:
        """A MAP of two operands as the one that varies along the keys, and a row value with where it is read."""
        left, right = equation.inputs
        place = self.place(equation.outputs[0])
        ours, theirs = (self.settled(atom, place if atom.shape else ()) for atom in (left, right))
        if self.moves(ours[1]) and not self.moves(theirs[1]):
            return (left, *theirs)
        if equation.primitive == "mul" and self.moves(theirs[1]) and not self.moves(ours[1]):
            return (right, *ours)
        return None

    def power(self, atom: Atom) -> tuple[Value, Power] | str:
        """A value as a power times or over row values, and the score that the power is of."""
        factors: list[tuple[str, Atom, Indices]] = []
        equation = self.above(atom)
        while equation is not None and equation.primitive in ("mul", "div"):
            halves = self._split(equation)
            if halves is None:
                return f"its weights are a {equation.primitive} by what is no row value"
            factors.append((equation.primitive, *halves[1:]))
            self._note(equation)
            equation = self.above(halves[0])
        if equation is None or equation.primitive != "exp":
            return NO_SOFTMAX if equation is None else f"its weights are made by {equation.primitive}, not exp"
        self._note(equation)
        shifted = self.shifted(equation.inputs[0])
        return NO_SOFTMAX if shifted is None else (shifted[0], Power(shifted[1], tuple(reversed(factors))))

    def shifted(self, atom: Atom) -> tuple[Value, Shifts] | None:
        """A value as a score and the row values that are subtracted from it, the last one first."""
        shifts: list[tuple[Atom, Indices]] = []
        while (equation := self.above(atom)) is not None:
            halves = self._split(equation) if equation.primitive == "sub" else None
            if halves is None or not self._of_scores(halves[1]):
                return equation.outputs[0], tuple(shifts)
            shifts.append(halves[1:])
            self._note(equation)
            atom = halves[0]
        return None

    def _of_scores(self, atom: Atom) -> bool:
        return self.number(atom) in self.group.members

    def _note(self, equation: Equation) -> None:
        """Note that an equation is part of a power or of weights rather than of the scores."""
        self.seen.add(self.number(equation.outputs[0]))
