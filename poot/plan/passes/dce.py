"""Dead code: what no output, update or effect needs is left out."""

from __future__ import annotations

from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Value


def _run(rewriter: Rewriter) -> None:
    """Drop equations without effects whose outputs nothing needs.

    Equations with effects stay, and so does all that they read; constants, inputs and states stay whether used or not.
    """
    graph = rewriter.graph
    live: set[int] = set()

    def need(atoms: tuple[Atom, ...]) -> None:
        live.update(atom.id for atom in atoms if isinstance(atom, Value))

    need(graph.outputs)
    need(tuple(atom for _, atom in graph.updates))
    kept: set[int] = set()
    for number in reversed(range(len(graph.equations))):
        equation = graph.equations[number]
        if equation.effects or any(output.id in live for output in equation.outputs):
            kept.add(number)
            need(equation.inputs)
    for number in range(len(graph.equations)):
        if number in kept:
            rewriter.keep(number)
        else:
            rewriter.drop(number, (), "dead")


DCE = Pass("dce", _run)
