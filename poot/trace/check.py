"""The check that every graph passes: single assignment, types, closed regions, outputs and updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from poot.errors import GraphError, PootError, SourceLocation
from poot.trace.graph import Atom, Equation, Graph, Literal, Value, Variable
from poot.trace.literals import literal
from poot.trace.primitives import Typing, lookup
from poot.trace.tree import check_tree


def check_graph(graph: Graph) -> None:
    """GraphError, naming the equation and the user's line, unless the graph is well formed.

    Value ids are 0 to n - 1, each defined once and before its use with one spec; every primitive is known, its type
    rule gives the outputs, and its effects are those stated; regions are closed graphs with inputs only; updates name
    states of the same spec; the output tree has as many leaves as there are outputs.
    """
    _Checker(graph, "", Typing()).run()


class _Checker:
    __slots__ = ("defined", "graph", "prefix", "typing")

    def __init__(self, graph: Graph, prefix: str, typing: Typing) -> None:
        self.graph = graph
        self.prefix = prefix
        self.typing = typing
        self.defined: dict[int, Value] = {}

    def run(self) -> None:
        graph = self.graph
        self.variables(graph.variables)
        for index, equation in enumerate(graph.equations):
            self.equation(index, equation)
        missing = [number for number in range(len(self.defined)) if number not in self.defined]
        if missing:
            self.fail("values", f"ids are not dense: %{missing[0]} is not defined")
        self.outputs()

    def fail(self, what: str, message: str, where: SourceLocation | None = None) -> NoReturn:
        raise GraphError(equation=self.prefix + what, message=message, where=where)

    def variables(self, variables: Sequence[Variable]) -> None:
        names: set[str] = set()
        for variable in variables:
            if variable.name in names:
                self.fail(f"variable {variable.name!r}", "the name is used twice")
            names.add(variable.name)
            self.define(variable.value, f"variable {variable.name!r}", None)

    def define(self, value: Value, what: str, where: SourceLocation | None) -> None:
        if value.id in self.defined:
            self.fail(what, f"%{value.id} is defined twice", where)
        if value.id < 0:
            self.fail(what, f"%{value.id} is not a valid id", where)
        self.defined[value.id] = value

    def atom(self, atom: Atom, what: str, where: SourceLocation | None) -> None:
        if isinstance(atom, Literal):
            try:
                exact = literal(atom.value, atom.dtype) == atom
            except PootError as error:
                self.fail(what, _brief(error), where)
            if not exact:
                self.fail(what, f"the literal {atom.value!r} is not a value of {atom.dtype}", where)
            return
        found = self.defined.get(atom.id)
        if found is None:
            self.fail(what, f"%{atom.id} is used before it is defined", where)
        if found != atom:
            self.fail(what, f"%{atom.id} is {found.spec}, used as {atom.spec}", where)

    def equation(self, index: int, equation: Equation) -> None:
        results = ", ".join([f"%{value.id}" for value in equation.outputs]) or "()"
        what, where = f"equation {index} ({results} = {equation.primitive})", equation.where
        for atom in equation.inputs:
            self.atom(atom, what, where)
        for number, region in enumerate(equation.regions):
            inner = f"{self.prefix}{what}, region {number} ({region.name}): "
            if region.constants or region.states or region.updates:
                self.fail(what, f"region {number} has constants, states or updates; a region has inputs only", where)
            _Checker(region, inner, self.typing).run()
        try:
            entry = lookup(equation.primitive)
            specs = tuple([atom.spec for atom in equation.inputs])
            results_of_rule, effects = self.typing(entry, specs, equation.params, equation.regions)
        except PootError as error:
            raise GraphError(equation=self.prefix + what, message=_brief(error), where=where) from error
        stated = tuple([value.spec for value in equation.outputs])
        if stated != results_of_rule:
            listed, given = (", ".join(map(str, specs)) or "nothing" for specs in (stated, results_of_rule))
            self.fail(what, f"the results are stated as {listed}, but the type rule gives {given}", where)
        if effects != equation.effects:
            self.fail(what, f"the effects are stated as {_set(equation.effects)}, but are {_set(effects)}", where)
        for value in equation.outputs:
            self.define(value, what, where)

    def outputs(self) -> None:
        graph = self.graph
        for number, atom in enumerate(graph.outputs):
            self.atom(atom, f"output {number}", None)
        if wrong := check_tree(graph.tree):
            self.fail("outputs", wrong)
        if graph.tree.leaves != len(graph.outputs):
            self.fail("outputs", f"{len(graph.outputs)} values for a tree of {graph.tree.leaves} leaves")
        states = {variable.name: variable.spec for variable in graph.states}
        seen: set[str] = set()
        for name, atom in graph.updates:
            what = f"update of state {name!r}"
            if name not in states:
                self.fail(what, "there is no such state")
            if name in seen:
                self.fail(what, "the state is updated twice")
            seen.add(name)
            self.atom(atom, what, None)
            if atom.spec != states[name]:
                self.fail(what, f"the state is {states[name]}, its update {atom.spec}")


def _brief(error: PootError) -> str:
    """An error's own words: its remedy is for those who write operations, not for those who wrote a graph down."""
    return str(error).partition("\n")[0]


def _set(effects: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(effects)) + "}"
