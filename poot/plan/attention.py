"""Attention: the fusion rule by which softmax(scores) @ v becomes one streaming kernel.

A contraction whose operand is a softmax of scores, which another contraction made, takes all that lies between the two
into its kernel.  It is found by what is computed, not by who wrote it:

    scores  = any MAPs of q kᵀ: scale, soft cap, masks of any kind
    power   = exp(scores - shifts)                shifts: row values, such as the maximum along the keys
    weights = power, times or over row values     such as the sum of powers along the keys
    result  = weights @ v                         which row values may still divide, read by what follows it

Row values have one element a query.  They may be any expression of the maximum of the scores, of sums of powers and of
whatever else there is (sinks, guards of rows that are masked altogether, logarithms of sums): the kernel computes
maximum and sums first, as it goes along the keys, and the expressions from those (Milakov and Gimelshein,
arXiv:1805.02867; Rabe and Staats, arXiv:2112.05682).  So no matrix of scores is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import prod

from poot.plan.groups import Attention, Group, Power, Shifts, copy
from poot.plan.indexing import Axis, Indices, axes_for, of_axis
from poot.plan.joins import (
    Reading,
    Setting,
    commit,
    contraction_readings,
    operand_index,
    readings_of,
    reduced_axes,
    room,
    spread,
)
from poot.plan.powers import NO_SOFTMAX, Powers, axes_of, varies
from poot.trace.graph import Atom, Equation, Graph, Value
from poot.trace.primitives import Contraction, Elementwise, Pull, Reduction, is_movement, lookup
from poot.trace.primitives.contract import dimension_numbers

#: Equations looked at above the weights.
_LOOK_BACK = 200
#: Contractions among them that are tried as the one that makes the scores.
_TRIED = 3
#: Bytes of scores that are not stored even where queries are too few for the device.
_LARGE = 1 << 27
#: The longest rows of queries and values that a thread keeps.
_WIDEST = 512


@dataclass(slots=True)
class Streams:
    """Finds attention in a sweep over a graph's equations; `numbers` gives the equation that makes each value.

    `refusal` says why none may be streamed, if that is so; `declined` why what looks like attention is not, by the
    number of the contraction that ends it.
    """

    graph: Graph
    setting: Setting
    consumers: dict[int, list[int]]
    needed: set[int]
    homes: list[list[Group]]
    refusal: str = ""
    declined: dict[int, str] = field(default_factory=dict[int, str])
    numbers: dict[int, int] = field(init=False)
    _candidates: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def __post_init__(self) -> None:
        equations = enumerate(self.graph.equations)
        self.numbers = {value.id: number for number, equation in equations for value in equation.outputs}

    def number(self, atom: Atom) -> int:
        """The number of the equation that makes a value, or -1."""
        return self.numbers.get(atom.id, -1) if isinstance(atom, Value) else -1

    def maker(self, atom: Atom) -> Equation | None:
        """The equation that makes a value."""
        number = self.number(atom)
        return None if number < 0 else self.graph.equations[number]

    def take(self, number: int) -> None:
        """Let the group of a contraction that ends attention, which has just been placed, take all of it."""
        for group in self.homes[number]:
            if group.contraction != number:
                continue
            streamed = self._stream(group, number)
            if not isinstance(streamed, str) and self.refusal:
                streamed = self.refusal
            if isinstance(streamed, str):
                self.declined.update({number: streamed} if streamed else {})
                continue
            for member in streamed.members.keys() - group.members.keys():
                self.homes[member].append(group)
            for each in fields(group):
                setattr(group, each.name, getattr(streamed, each.name))

    def candidates(self, weights: Atom) -> list[int]:
        """The contractions above an atom that could make scores, if it may be made of powers of them."""
        if not isinstance(weights, Value):
            return []
        known = self._candidates.get(weights.id)
        if known is None:
            known = self._candidates[weights.id] = _candidates(self, weights)
        return known

    def _stream(self, group: Group, number: int) -> Group | str:
        """The group with the attention that ends in a contraction, or why it has none ("": nothing looks like it)."""
        inputs = group.members[number].inputs
        reason = ""
        for operand, weights in enumerate(inputs):
            candidates = self.candidates(weights)
            if not candidates or not all(isinstance(atom, Value) for atom in inputs):
                continue
            for products in candidates[:_TRIED]:
                found = _Match(self, group, number, operand, products).run()
                if isinstance(found, Group):
                    return found
                reason = reason or found
        return reason

    def row_values(self, group: Group, number: int, products: int) -> list[Value]:
        """What a group reads beside a contraction that is computed from the products, and has no place yet."""
        operands = {atom.id for atom in group.members[number].inputs if isinstance(atom, Value)}
        beside = [value for value in group.reads.values() if value.id not in operands]
        return [value for value in beside if self._is_below(value, products)]

    def _is_below(self, value: Value, products: int) -> bool:
        """Whether a value is computed from a contraction's result by MAPs, reductions and movement without a place."""
        pending: list[Atom] = [value]
        seen: set[int] = set()
        while pending and len(seen) < _LOOK_BACK:
            number = self.number(pending.pop())
            if number == products:
                return True
            if number > products and number not in seen and not self.homes[number]:
                seen.add(number)
                equation = self.graph.equations[number]
                pending += equation.inputs if _is_plain(equation) else ()
        return False


def _is_plain(equation: Equation) -> bool:
    computed = isinstance(lookup(equation.primitive).lower, (Elementwise, Reduction))
    return computed or is_movement(equation.primitive)


def _candidates(scene: Streams, weights: Value) -> list[int]:
    """The contractions above weights that are made of powers, last one first."""
    found: list[int] = []
    powers = False
    pending: deque[Atom] = deque([weights])
    seen: set[int] = set()
    while pending and len(seen) < _LOOK_BACK:
        atom = pending.popleft()
        equation = scene.maker(atom)
        if equation is None or not isinstance(atom, Value) or atom.id in seen:
            continue
        seen.add(atom.id)
        powers |= equation.primitive == "exp"
        if isinstance(lookup(equation.primitive).lower, Contraction):
            found.append(scene.number(atom))
        elif _is_plain(equation):
            pending += equation.inputs
    return sorted(set(found), reverse=True) if powers else []


class _Match:
    """One try: operand `side` of contraction `number` as weights, `products` as what makes the scores."""

    def __init__(self, scene: Streams, group: Group, number: int, side: int, products: int) -> None:
        self.scene = scene
        self.group = copy(group)
        self.number = number
        self.side = side
        self.products = products
        self.keys = tuple(axis for form in group.reduced for axis in form.axes)
        self.inner: tuple[Axis, ...] = ()
        self.powers = Powers(scene.setting.space, self.group, self.keys, scene.number, scene.maker)

    def run(self) -> Group | str:
        equations = self.scene.graph.equations
        weights = equations[self.number].inputs[self.side]
        spine = self._spine([weights, *self.scene.row_values(self.group, self.number, self.products)])
        if not any(equations[number].primitive == "reduce_sum" for number in spine):
            return self._undivided(spine)
        for number in sorted(spine, reverse=True):
            reason = self._take(number, equations[number])
            if reason:
                return reason
        for number in spine:
            for value in equations[number].outputs:
                readers = self.scene.consumers.get(value.id, ())
                others = [reader for reader in readers if reader not in self.group.members]
                if others:
                    return f"its scores or weights are read elsewhere, by {equations[others[0]].primitive}"
                if value.id in self.scene.needed:
                    return "its scores or weights are results, or read as a whole elsewhere"
        return self._finish(weights, spine)

    def _undivided(self, spine: set[int]) -> str:
        """Why there is no sum: the weights are powers that nothing sums, or that is not done for this kernel alone."""
        readers = [
            self.scene.graph.equations[reader].primitive
            for number in spine
            for value in self.scene.graph.equations[number].outputs
            for reader in self.scene.consumers.get(value.id, ())
        ]
        return "the sums of its weights are not read by its kernel" if "reduce_sum" in readers else ""

    def _spine(self, ends: Sequence[Atom]) -> set[int]:
        """The equations from the scores' contraction to the weights, and to what else the kernel reads."""
        scene = self.scene
        above: set[int] = set()
        pending = list(ends)
        while pending:
            atom = pending.pop()
            number = scene.number(atom)
            if number < self.products or number in above:
                continue
            above.add(number)
            if number != self.products:
                pending += scene.graph.equations[number].inputs
        spine = {self.products}
        for number in sorted(above):
            inputs = scene.graph.equations[number].inputs
            if any(scene.number(atom) in spine for atom in inputs):
                spine.add(number)
        return spine

    # --- members ---

    def _take(self, number: int, equation: Equation) -> str:
        """Make an equation a member, at the one place where the group reads it."""
        group, setting = self.group, self.scene.setting
        rule = lookup(equation.primitive).lower
        places = group.places.get(equation.outputs[0].id)
        if len(equation.outputs) != 1 or equation.effects:
            return f"{equation.primitive} is part of its scores"
        if not places or len(places) != 1:
            return f"its {equation.primitive} is read at {'several' if places else 'unknown'} places"
        (place,) = places
        if isinstance(rule, Contraction):
            readings = self._products(equation, place) if number == self.products else "its scores are contracted"
        elif isinstance(rule, Reduction):
            readings = self._reduction(number, equation, place)
        elif isinstance(rule, (Elementwise, Pull)):
            readings, found = readings_of(setting, group, equation, places)
            if any(result.imperative for result in found):
                group.imperative.add(equation.outputs[0].id)
            if not all(result.view for result in found):
                group.pinned += places
        else:
            readings = f"{equation.primitive} is part of its scores"
        if isinstance(readings, str):
            return readings
        reason = room(setting, group, equation, readings, False)
        if not reason:
            commit(group, number, equation, readings, int(not isinstance(rule, Elementwise)), None)
        return reason

    def _reduction(self, number: int, equation: Equation, place: Indices) -> list[Reading] | str:
        (operand,) = equation.inputs
        if equation.primitive not in ("reduce_max", "reduce_sum") or not isinstance(operand, Value):
            return f"{equation.primitive} is part of its softmax"
        axes = reduced_axes(equation)
        extents = [operand.shape[axis] for axis in axes if operand.shape[axis] != 1]
        contracted = [axis.extent for axis in self.keys]
        if prod(extents) != prod(contracted):
            return (
                f"its {equation.primitive} goes along {prod(extents)} elements, and {prod(contracted)} are contracted"
            )
        if extents != contracted or self.powers.moves(place):
            return "its softmax is not along the axes that are contracted"
        along = tuple(map(of_axis, self.keys))
        index = operand_index(operand, axes, place, spread(along, extents, [operand.shape[axis] for axis in axes]))
        self.group.operands[number] = (index,)
        return [Reading(operand, [index])]

    def _products(self, equation: Equation, place: Indices) -> list[Reading] | str:
        left, right = equation.inputs
        if not isinstance(left, Value) or not isinstance(right, Value):
            return "it contracts a literal"
        axes = axes_for("k", [left.shape[axis] for axis in dimension_numbers(equation.params)[0]])
        self.inner = tuple(axis for axis in axes if axis.extent != 1)
        self.group.reduced = (*self.group.reduced, *map(of_axis, axes))
        self.group.reduced_shape = (*self.group.reduced_shape, *(axis.extent for axis in axes))
        readings = contraction_readings(equation, place, axes)
        self.group.operands[self.products] = tuple(index for reading in readings for index in reading.places or ())
        return readings

    # --- what it computes ---

    def _finish(self, weights: Atom, spine: set[int]) -> Group | str:
        group = self.group
        reductions: dict[int, Equation] = {}
        for number in sorted(spine):
            if isinstance(lookup(group.members[number].primitive).lower, Reduction):
                reductions[number] = group.members[number]
        found = self.powers.power(weights)
        if isinstance(found, str):
            return found
        score, power = found
        maxima: list[tuple[int, Shifts]] = []
        sums: list[tuple[int, Power]] = []
        for number, equation in reductions.items():
            if equation.primitive == "reduce_max":
                shifted = self.powers.shifted(equation.inputs[0])
                if shifted is None or shifted[0] is not score:
                    return "its maximum is not that of its scores"
                maxima.append((number, shifted[1]))
                continue
            summed = self.powers.power(equation.inputs[0])
            if isinstance(summed, str) or summed[0] is not score or summed[1].factors:
                return "its sums are not of powers of its scores"
            sums.append((number, summed[1]))
        reason = self._others(score, spine, set(reductions))
        if reason:
            return reason
        return self._attention(score, power, tuple(maxima), tuple(sums))

    def _others(self, score: Value, spine: set[int], reductions: set[int]) -> str:
        """Whether all that moves along the keys is a power or weight, or makes the scores element by element."""
        making: set[int] = set()
        pending: list[Atom] = [score]
        while pending:
            atom = pending.pop()
            number = self.scene.number(atom)
            if number not in spine or number in making:
                continue
            making.add(number)
            if number in reductions or not self.powers.moves(self.powers.place(atom)):
                return "its scores are computed from sums over scores"
            if number != self.products:
                pending += self.group.members[number].inputs
        for number in spine - making - reductions - self.powers.seen:
            (value,) = self.group.members[number].outputs
            if self.powers.moves(self.powers.settled(value, self.powers.place(value))[1]):
                return NO_SOFTMAX
        return ""

    def _attention(
        self, score: Value, power: Power, maxima: tuple[tuple[int, Shifts], ...], sums: Sequence[tuple[int, Power]]
    ) -> Group | str:
        group = self.group
        left, right = group.operands[self.products]
        query = 1 if self.powers.moves(left) else 0
        queries, keys = (right, left) if query else (left, right)
        values = group.operands[self.number][1 - self.side]
        shared = set(axes_of(keys)) | set(axes_of(values))
        rows = [axis for axis in group.parallel_leaves() if axis not in shared]
        columns = tuple(axis for axis in group.parallel_leaves() if axis not in axes_of(self.powers.place(score)))
        own = {leaf for axis in columns for leaf in axis.leaves()}
        if (
            self.powers.moves(queries)
            or not self.powers.moves(keys)
            or any(axis in own for axis in axes_of(queries) + axes_of(keys))
        ):
            return "its queries and keys share axes"
        if not set(columns) <= set(axes_of(values)) or varies(values, self.inner):
            return "its values do not have axes of their own"
        counts = [prod(axis.extent for axis in axes) for axes in (rows, self.keys, self.inner, columns)]
        costs = self.scene.setting.costs
        if max(counts[2:]) > _WIDEST:
            return f"its rows of {max(counts[2:])} are longer than the {_WIDEST} that a thread keeps"
        queries = group.rows // counts[3]
        stored = queries * counts[1] * score.dtype.itemsize
        if counts[0] < costs.stream_rows or (counts[1] < costs.stream_keys and stored > costs.stream_small):
            return f"{counts[0]} queries and {counts[1]} keys are too few to stream"
        if queries < costs.stream_queries and stored < _LARGE:
            return f"{queries} queries do not keep the device busy, one a thread"
        group.kind = "attention"
        group.attention = Attention(
            self.products,
            query,
            score,
            1 - self.side,
            maxima,
            tuple(sums),
            power,
            self.keys,
            self.inner,
            columns,
        )
        return group
