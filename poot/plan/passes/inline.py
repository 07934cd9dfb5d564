"""Inline: primitives that are defined by others become those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from poot.errors import CompileError, LimitError
from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Equation, Graph, Params, ParamValue, Value
from poot.trace.primitives import Inline, lookup

#: How deep inlined primitives may stand for further inlined ones.
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class _Emit:
    """What an Inline body calls: appends an equation, or inlines it where its primitive is, and returns its outputs."""

    rewriter: Rewriter
    number: int
    depth: int

    def __call__(
        self, primitive: str, inputs: Sequence[Atom], *, regions: Sequence[Graph] = (), **params: ParamValue
    ) -> tuple[Atom, ...]:
        rule = lookup(primitive).lower
        if not isinstance(rule, Inline):
            return self.rewriter.emit(self.number, primitive, inputs, params, regions)
        entry, plain = lookup(primitive), dict(params)
        specs = entry.type_rule(tuple(atom.spec for atom in inputs), Params(plain), tuple(regions))
        where = self.rewriter.graph.equations[self.number].where
        outputs = tuple(Value(-1 - place, spec) for place, spec in enumerate(specs))
        return self.inline(
            Equation(primitive, tuple(inputs), Params(plain), outputs, tuple(regions), where=where), rule
        )

    def inline(self, equation: Equation, rule: Inline) -> tuple[Atom, ...]:
        """The results of an equation whose inputs are atoms of the new graph."""
        if self.depth >= _DEPTH:
            raise LimitError(
                resource=f"nesting of {equation.primitive}",
                attempted=self.depth + 1,
                limit=_DEPTH,
                by=f"in pass inline at equation {self.number}",
                where=self.rewriter.graph.equations[self.number].where,
                remedy="let the primitive's Inline rule emit others than itself.",
            )
        inner = _Emit(self.rewriter, self.number, self.depth + 1)
        return tuple(cast("Sequence[Atom]", rule.body(inner, equation)))


def _run(rewriter: Rewriter) -> None:
    """Replace each equation whose primitive is defined by others (an Inline rule) by what the rule emits.

    Done first, so that every later pass sees plain primitives; nothing else changes.
    """
    inlined = 0
    for number, equation in enumerate(rewriter.graph.equations):
        rule = lookup(equation.primitive).lower
        if not isinstance(rule, Inline):
            rewriter.keep(number)
            continue
        inputs = rewriter.atoms(equation.inputs)
        local = Equation(
            equation.primitive, inputs, equation.params, equation.outputs, equation.regions, where=equation.where
        )
        results = _Emit(rewriter, number, 0).inline(local, rule)
        if [result.spec for result in results] != [output.spec for output in equation.outputs]:
            raise CompileError(
                what=equation.primitive,
                target=rewriter.target,
                message="its Inline rule gives " + ", ".join(str(result.spec) for result in results),
                where=equation.where,
                remedy="let the rule return the results that the primitive's type rule states, in their order: "
                + ", ".join(str(output.spec) for output in equation.outputs),
            )
        rewriter.replace(number, results)
        inlined += 1
    if inlined:
        rewriter.notes.append(f"{inlined} equations inlined")


#: Far more than what any primitive becomes: some go along an axis by doublings, with a few equations for each.
INLINE = Pass("inline", _run, growth=1 << 10)
