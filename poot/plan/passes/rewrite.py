"""What every pass works with: a pass by name, and a rewriter that makes a new graph equation by equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poot.errors import CompileError, PootError, SourceLocation
from poot.plan.limits import CompileLimits, CompileOptions
from poot.plan.program import Fate, PassRecord, Removed
from poot.target import Target
from poot.trace.graph import Atom, Equation, Graph, Literal, Params, ParamValue, Value, Variable
from poot.trace.primitives import effects_of, lookup

#: Equations that any pass may add to any graph.
_SPARE = 256


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over immutable graphs.

    `run` gives the graph it leaves, which means the same, and the record of what it did; LimitError where the graph
    would be past a limit, CompileError.Expansion where a graph would have more than `growth` equations for each that
    it had, and `_SPARE` more.
    """

    name: str
    body: Callable[[Rewriter], None]
    growth: int = 1

    def budget(self, equations: int) -> int:
        """The most equations that the pass may leave of so many."""
        return self.growth * equations + _SPARE

    @property
    def doc(self) -> str:
        """What the pass does, as its body says."""
        return self.body.__doc__ or ""

    def run(self, graph: Graph, target: Target, options: CompileOptions) -> tuple[Graph, PassRecord]:
        rewriter = Rewriter(graph, target, options, self)
        self.body(rewriter)
        return rewriter.finish()


class Rewriter:
    """Makes a graph out of another one; `values` maps the ids of the old graph to atoms of the new.

    A pass goes through `graph.equations` and calls, for each, `keep` (with regions rewritten by the same pass), `drop`,
    or `emit` and `replace`.
    """

    def __init__(self, graph: Graph, target: Target, options: CompileOptions, running: Pass) -> None:
        self.graph = graph
        self.target = target
        self.options = options
        self.notes: list[str] = []
        self._pass = running
        self._next = 0
        self._values: dict[int, Atom] = {}
        self._equations: list[Equation] = []
        self._origins: list[int] = []
        self._removed: list[Removed] = []
        #: As long as nothing has changed, values keep their numbers and equations are taken as they are; the values
        #: below `_plain` are still the old ones afterwards.
        self._same = True
        self._plain = 0
        self._most = min(options.limits.max_eqns, running.budget(len(graph.equations)))
        self._budget = running.budget(len(graph.equations))
        self._constants, self._inputs, self._states = (
            tuple(Variable(variable.name, self._define(variable.value), variable.where) for variable in kind)
            for kind in (graph.constants, graph.inputs, graph.states)
        )
        self._same = all(new.value is old.value for new, old in zip(self._variables(), graph.variables, strict=True))

    def _variables(self) -> tuple[Variable, ...]:
        return self._constants + self._inputs + self._states

    @property
    def limits(self) -> CompileLimits:
        return self.options.limits

    def _change(self) -> None:
        if self._same:
            self._same = False
            self._plain = self._next

    def _define(self, old: Value) -> Value:
        new = old if old.id == self._next else Value(self._next, old.spec)
        self._next += 1
        self._values[old.id] = new
        return new

    # --- atoms ---

    def atom(self, old: Atom) -> Atom:
        """What an atom of the old graph is in the new one."""
        if isinstance(old, Literal):
            return old
        found = self._values.get(old.id)
        if found is None and (self._same or old.id < self._plain):
            return old
        return self._values[old.id] if found is None else found

    def atoms(self, old: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(map(self.atom, old))

    # --- equations ---

    def keep(self, number: int) -> Equation:
        """Append an equation of the old graph, its inputs and regions rewritten."""
        equation = self.graph.equations[number]
        if self._same and not equation.regions and self._in_place(equation.outputs):
            self._next += len(equation.outputs)
            return self._append(equation, number)
        self._change()
        inputs = self.atoms(equation.inputs)
        outputs = tuple(map(self._define, equation.outputs))
        regions = tuple(map(self._region, equation.regions))
        if inputs != equation.inputs or outputs != equation.outputs or regions != equation.regions:
            old = equation
            equation = Equation(old.primitive, inputs, old.params, outputs, regions, old.effects, old.where)
        return self._append(equation, number)

    def _in_place(self, outputs: tuple[Value, ...]) -> bool:
        """Whether values have the next numbers already."""
        if len(outputs) == 1:
            return outputs[0].id == self._next
        return all(value.id == self._next + place for place, value in enumerate(outputs))

    def _append(self, equation: Equation, number: int) -> Equation:
        self._equations.append(equation)
        self._origins.append(number)
        count = len(self._equations)
        if count > self._most or self._next > self.limits.max_values:
            stems = self.graph.equations[number]
            what = f"equation {number} ({stems.primitive})"
            by = f"in what pass {self._pass.name} makes, reached at {what}"
            self.limits.check("max_eqns", count, by, stems.where)
            self.limits.check("max_values", self._next, by, stems.where)
            raise CompileError.Expansion(
                what=what,
                target=self.target,
                name=self._pass.name,
                attempted=count,
                given=len(self.graph.equations),
                limit=self._budget,
                where=stems.where,
            )
        return equation

    def _region(self, region: Graph) -> Graph:
        inner = Rewriter(region, self.target, self.options, self._pass)
        self._pass.body(inner)
        rewritten, record = inner.finish()
        self.notes += record.notes
        return rewritten

    def drop(self, number: int, instead: Sequence[Atom], fate: Fate, note: str = "") -> None:
        """Leave an equation out; `instead`, atoms of the new graph, stand for its outputs (none if they are unused)."""
        self._change()
        outputs = self.graph.equations[number].outputs
        self._values.update(zip((output.id for output in outputs), instead, strict=False))
        self._removed.append(Removed(number, fate, note))

    def emit(
        self,
        number: int,
        primitive: str,
        inputs: Sequence[Atom],
        params: dict[str, ParamValue],
        regions: Sequence[Graph] = (),
    ) -> tuple[Value, ...]:
        """Append a new equation that stems from equation `number`; inputs are atoms of the new graph."""
        self._change()
        where: SourceLocation | None = self.graph.equations[number].where
        entry = lookup(primitive)
        try:
            plain = Params(params)
            specs = entry.type_rule(tuple(atom.spec for atom in inputs), plain, tuple(regions))
        except PootError as error:
            raise error.at(where) from error.__cause__
        effects = effects_of(entry, plain, regions)
        outputs = tuple(Value(self._next + place, spec) for place, spec in enumerate(specs))
        self._next += len(outputs)
        self._append(Equation(primitive, tuple(inputs), plain, outputs, tuple(regions), effects, where), number)
        return outputs

    def replace(self, number: int, instead: Sequence[Atom]) -> None:
        """Let atoms of the new graph stand for the outputs of an old equation."""
        self._change()
        outputs = self.graph.equations[number].outputs
        self._values.update(zip((output.id for output in outputs), instead, strict=True))

    # --- the result ---

    def finish(self) -> tuple[Graph, PassRecord]:
        graph = self.graph
        rewritten = Graph(
            self._constants,
            self._inputs,
            self._states,
            tuple(self._equations),
            self.atoms(graph.outputs),
            graph.tree,
            tuple((name, self.atom(atom)) for name, atom in graph.updates),
            graph.name,
        )
        self.limits.check_graph(rewritten, f"what pass {self._pass.name} leaves")
        record = PassRecord(
            self._pass.name,
            len(graph.equations),
            len(rewritten.equations),
            tuple(self.notes),
            (),
            tuple(self._origins),
            tuple(self._removed),
        )
        return rewritten, record
