"""Columns beside scores: a softmax over both that reads them where they are, so that no wider scores are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import cast

from poot.dtypes import f32
from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Equation, Graph, Literal, Value
from poot.trace.primitives import Contraction, Elementwise, Reduction, is_movement, lookup

#: Columns that are taken one by one.
_FEW = 4
#: Parts of a concat that is taken apart.
_MOST_PARTS = 6
#: Equations from weights to a contraction, or from a contraction to scores.
_REACH = 100
_COMBINED = {"reduce_max": "max", "reduce_sum": "add"}


def _run(rewriter: Rewriter) -> None:
    """Take a softmax over scores and further columns apart, where the columns' weights are dropped again.

        weights = softmax(concat([q @ k.mT, sink]))[..., :keys]        weights @ v

    becomes what attention with sinks is: the maximum of both maxima, the sum of both sums, and no column of weights.
    Each part of the concat is taken through MAPs by itself, a maximum or sum along the axis becomes that of the parts',
    and a slice within a part one of that part.  So sums are taken in another order: it is left alone with
    `numerics="strict"`, and where anything else reads the wider values.
    """
    graph = rewriter.graph
    found = [] if rewriter.options.numerics == "strict" else list(_searched(graph))
    sites = {number: site for site in found for number in site.members}
    for number in range(len(graph.equations)):
        if number in sites:
            sites[number].rewrite(rewriter, number)
        else:
            rewriter.keep(number)


def _searched(graph: Graph) -> Iterator[_Site]:
    """The concats that can go, each with all that reads it."""
    concats = [number for number, equation in enumerate(graph.equations) if equation.primitive == "concat"]
    if not concats:
        return
    makers = {value.id: equation for equation in graph.equations for value in equation.outputs}
    readers: dict[int, list[int]] = {}
    for number, equation in enumerate(graph.equations):
        for identity in {atom.id for atom in equation.inputs if isinstance(atom, Value)}:
            readers.setdefault(identity, []).append(number)
    outputs = (*graph.outputs, *(atom for _, atom in graph.updates))
    kept = {atom.id for atom in outputs if isinstance(atom, Value)}
    taken: set[int] = set()
    for number in concats:
        site = _Site(graph, makers, number)
        if site.reach(readers, kept) and taken.isdisjoint(site.members):
            taken.update(site.members)
            yield site


@dataclass(slots=True)
class _Site:
    """A concat along `axis` of parts that end at `ends`, and the equations that read it, directly or through MAPs."""

    graph: Graph
    makers: dict[int, Equation]
    concat: int
    members: set[int] = field(default_factory=set[int])
    axis: int = field(init=False)
    bounds: list[tuple[int, int]] = field(init=False)
    parts: dict[int, list[Atom]] = field(default_factory=dict[int, "list[Atom]"])
    _others: dict[tuple[int, int], Atom] = field(default_factory=dict[tuple[int, int], Atom])

    def __post_init__(self) -> None:
        equation = self.graph.equations[self.concat]
        self.axis = cast("int", equation.params["axis"])
        extents = [atom.shape[self.axis] for atom in equation.inputs]
        # A few columns are taken one by one, so that no reduction is left of them.
        widths = [
            [1] * n if n <= _FEW and not self._is_product(atom) else [n]
            for atom, n in zip(equation.inputs, extents, strict=True)
        ]
        self.bounds = list(pairwise(accumulate(chain(*widths), initial=0)))

    # --- whether it can go ---

    def reach(self, readers: dict[int, list[int]], kept: set[int]) -> bool:
        """Follow the concat to maxima, sums and slices along its axis; False where anything else needs its values."""
        equations = self.graph.equations
        (wide,) = equations[self.concat].outputs
        if not wide.dtype.is_float or len(self.bounds) > _MOST_PARTS or any(low == high for low, high in self.bounds):
            return False
        if sum(map(self._is_product, equations[self.concat].inputs)) != 1:
            return False
        sums = weights = False
        pending = [wide]
        self.members.add(self.concat)
        while pending:
            value = pending.pop()
            if value.id in kept:
                return False
            for number in readers.get(value.id, ()):
                equation = equations[number]
                if number not in self.members and self._is_map(equation, wide):
                    pending += equation.outputs
                elif not self._is_map(equation, wide) and not self._is_end(equation):
                    return False
                self.members.add(number)
                sums |= equation.primitive == "reduce_sum"
                weights |= equation.primitive == "slice" and _is_weights(self.graph, readers, number)
        return sums and weights

    def _is_product(self, part: Atom) -> bool:
        """Whether a part is computed from a contraction element by element."""
        pending: list[Atom] = [part]
        seen: set[int] = set()
        while pending and len(seen) < _REACH:
            atom = pending.pop()
            equation = self.makers.get(atom.id) if isinstance(atom, Value) else None
            if equation is None or not isinstance(atom, Value) or atom.id in seen:
                continue
            seen.add(atom.id)
            rule = lookup(equation.primitive).lower
            if isinstance(rule, Contraction):
                return True
            if isinstance(rule, Elementwise) or is_movement(equation.primitive):
                pending += equation.inputs
        return False

    @staticmethod
    def _is_map(equation: Equation, wide: Value) -> bool:
        rule = lookup(equation.primitive).lower
        return isinstance(rule, Elementwise) and equation.outputs[0].shape == wide.shape and not equation.effects

    def _is_end(self, equation: Equation) -> bool:
        """Whether an equation of a wide value can be had from the parts."""
        if equation.primitive == "slice":
            return self._part(equation) >= 0
        axes = cast("tuple[int, ...]", equation.params.get("axes", ()))
        return equation.primitive in _COMBINED and self.axis in axes

    def _part(self, equation: Equation) -> int:
        """The part that a slice lies in, or -1."""
        start, limit, step = (cast("tuple[int, ...]", equation.params[key]) for key in ("start", "limit", "step"))
        begin, end = start[self.axis], limit[self.axis]
        within = [place for place, (low, high) in enumerate(self.bounds) if low <= begin < end <= high]
        return within[0] if within and set(step) == {1} else -1

    # --- what stands for it ---

    def rewrite(self, rewriter: Rewriter, number: int) -> None:
        """Write one of the members anew."""
        equation = self.graph.equations[number]
        (output,) = equation.outputs
        if number == self.concat:
            self.parts[output.id] = list(self._columns(rewriter, number, equation))
            rewriter.drop(number, (), "fold", "its parts are read where they are")
            rewriter.notes.append(f"equation {number}: the columns beside scores are taken by themselves")
        elif equation.primitive == "slice":
            rewriter.replace(number, (self._slice(rewriter, number, equation),))
        elif isinstance(lookup(equation.primitive).lower, Reduction):
            rewriter.replace(number, (self._reduction(rewriter, number, equation),))
        else:
            self.parts[output.id] = [
                rewriter.emit(number, equation.primitive, inputs, dict(equation.params))[0]
                for inputs in (self._inputs(rewriter, number, equation, part) for part in range(len(self.bounds)))
            ]

    def _columns(self, rewriter: Rewriter, number: int, equation: Equation) -> Iterator[Atom]:
        """The parts of what is joined, within its operands."""
        first = 0
        for operand in equation.inputs:
            last = first + operand.shape[self.axis]
            for low, high in self.bounds:
                if first <= low < high <= last:
                    yield self._between(rewriter, number, operand, low - first, high - first)
            first = last

    def _inputs(self, rewriter: Rewriter, number: int, equation: Equation, part: int) -> list[Atom]:
        return [self._input(rewriter, number, atom, part) for atom in equation.inputs]

    def _input(self, rewriter: Rewriter, number: int, atom: Atom, part: int) -> Atom:
        """A part of a MAP's operand."""
        if isinstance(atom, Literal) or not atom.shape:
            return rewriter.atom(atom)
        if atom.id in self.parts:
            return self.parts[atom.id][part]
        if (atom.id, part) not in self._others:
            self._others[atom.id, part] = self._cut(rewriter, number, atom, part)
        return self._others[atom.id, part]

    def _cut(self, rewriter: Rewriter, number: int, value: Value, part: int) -> Atom:
        low, high = self.bounds[part]
        return self._between(rewriter, number, value, low, high)

    def _between(self, rewriter: Rewriter, number: int, value: Atom, low: int, high: int) -> Atom:
        """What a value has along the axis from one place to another."""
        if (low, high) == (0, value.shape[self.axis]):
            return rewriter.atom(value)
        shape = (*value.shape[: self.axis], high - low, *value.shape[self.axis + 1 :])
        above = self.makers.get(value.id) if isinstance(value, Value) else None
        if above is not None and above.primitive == "broadcast":
            dims = cast("tuple[int, ...]", above.params["dims"])
            (source,) = above.inputs
            if self.axis not in dims or source.shape[dims.index(self.axis)] == 1:
                inputs = (rewriter.atom(source),)
                return rewriter.emit(number, "broadcast", inputs, {"shape": shape, "dims": dims})[0]
        start = tuple(low if axis == self.axis else 0 for axis in range(len(shape)))
        limit = tuple(high if axis == self.axis else extent for axis, extent in enumerate(shape))
        params = {"start": start, "limit": limit, "step": (1,) * len(shape)}
        return rewriter.emit(number, "slice", (rewriter.atom(value),), dict(params))[0]

    def _slice(self, rewriter: Rewriter, number: int, equation: Equation) -> Atom:
        part = self._part(equation)
        (operand,) = equation.inputs
        source = self.parts[cast("Value", operand).id][part]
        start, limit = (list(cast("tuple[int, ...]", equation.params[key])) for key in ("start", "limit"))
        start[self.axis] -= self.bounds[part][0]
        limit[self.axis] -= self.bounds[part][0]
        if not any(start) and tuple(limit) == source.shape:
            return source
        params = {"start": tuple(start), "limit": tuple(limit), "step": (1,) * len(start)}
        return rewriter.emit(number, "slice", (source,), dict(params))[0]

    def _reduction(self, rewriter: Rewriter, number: int, equation: Equation) -> Atom:
        """The parts' maxima or sums as one; sums of narrow floats meet in f32, as they do within one sum."""
        (operand,), (output,) = equation.inputs, equation.outputs
        narrow = output.dtype.bits < 32 and equation.primitive == "reduce_sum"
        found: list[Atom] = []
        for atom in self.parts[cast("Value", operand).id]:
            part = rewriter.emit(number, "cast", (atom,), {"dtype": f32})[0] if narrow else atom
            if part.spec.size == output.spec.size:
                found += rewriter.emit(number, "reshape", (part,), {"shape": output.shape})
            else:
                found += rewriter.emit(number, equation.primitive, (part,), dict(equation.params))
        total = found[0]
        for each in found[1:]:
            (total,) = rewriter.emit(number, _COMBINED[equation.primitive], (total, each), {})
        return rewriter.emit(number, "cast", (total,), {"dtype": output.dtype})[0] if narrow else total


def _is_weights(graph: Graph, readers: dict[int, list[int]], number: int) -> bool:
    """Whether a contraction reads what an equation makes, directly or through casts and movement."""
    pending: list[int] = [number]
    seen: set[int] = set()
    while pending and len(seen) < _REACH:
        for value in graph.equations[pending.pop()].outputs:
            for reader in readers.get(value.id, ()):
                equation = graph.equations[reader]
                if isinstance(lookup(equation.primitive).lower, Contraction):
                    return True
                if reader not in seen and (equation.primitive == "cast" or is_movement(equation.primitive)):
                    seen.add(reader)
                    pending.append(reader)
    return False


COLUMNS = Pass("columns", _run, growth=24)
