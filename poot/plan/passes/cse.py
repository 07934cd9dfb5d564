"""Common subexpressions: equal equations are computed once."""

from __future__ import annotations

from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Value


def _run(rewriter: Rewriter) -> None:
    """Drop each equation that applies the same primitive to the same inputs with the same parameters as an earlier one.

    Literals are equal by their bits, so that -0.0 and 0.0 differ and a NaN equals itself.  Equations with effects other
    than a fault, and those with regions, are kept: an equal fault has been raised already by the earlier equation.
    """
    known: dict[object, tuple[int, tuple[Value, ...]]] = {}
    for number, equation in enumerate(rewriter.graph.equations):
        if equation.regions or equation.effects - {"fault"}:
            rewriter.keep(number)
            continue
        key = equation.primitive, rewriter.atoms(equation.inputs), equation.params
        if key in known:
            first, outputs = known[key]
            rewriter.drop(number, outputs, "fold", f"the same as equation {first}")
        else:
            known[key] = number, rewriter.keep(number).outputs


CSE = Pass("cse", _run)
