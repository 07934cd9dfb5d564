"""Which products are rounded together with the sum that takes them.

A value of the graph may be computed in several places: in two passes over a row, in two kernels.  It has to be the same
in all of them, or `x - max(x)` is above 0 where x is a product.  So a product is rounded by itself, unless one sum is
all that ever reads it; then it stands directly below the sum in the kernel, and never anywhere else.  Nor is a product
contracted into a sum with another product of the same factor: in `x * c - max(x) * c` both have to be rounded, so that
they are equal where their factors are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from poot.dtypes import f32, f64
from poot.plan.groups import Group
from poot.trace.graph import Atom, Equation, Graph, Literal, Value
from poot.trace.primitives import is_movement

#: What may take a product unrounded.
SUMS = ("add", "sub", "reduce_sum")


def contract_products(graph: Graph, needed: Collection[int], groups: Iterable[Group]) -> None:
    """State in each group which of the products that it computes are not rounded; `needed` ones are stored."""
    groups = list(groups)
    stored = {value.id for group in groups for value in group.outputs}
    makers = {value.id: each for each in graph.equations for value in each.outputs}
    reads = Counter(atom.id for each in graph.equations for atom in each.inputs if isinstance(atom, Value))
    found = {
        atom.id
        for each in graph.equations
        if each.primitive in SUMS and not _share_a_factor(each, makers)
        for atom in each.inputs
        if isinstance(atom, Value) and reads[atom.id] == 1 and atom.id not in needed and atom.id not in stored
    }
    for group in groups:
        products = (value for each in group.members.values() if each.primitive == "mul" for value in each.outputs)
        group.products = frozenset(value.id for value in products if value.id in found and value.dtype in (f32, f64))


def _share_a_factor(equation: Equation, makers: Mapping[int, Equation]) -> bool:
    """Whether an equation takes two products with a factor in common, whatever its sign."""
    factors: list[set[object]] = []
    for atom in equation.inputs:
        made = _source(atom, makers)
        product = makers.get(made.id) if isinstance(made, Value) else None
        if product is None or product.primitive != "mul":
            return False
        sources = (_source(factor, makers) for factor in product.inputs)
        factors.append({("literal", abs(each.value)) if isinstance(each, Literal) else each.id for each in sources})
    return len(factors) == 2 and not factors[0].isdisjoint(factors[1])


def _source(atom: Atom, makers: Mapping[int, Equation]) -> Atom:
    """What an atom is a view of, or the negative of."""
    while isinstance(atom, Value) and (equation := makers.get(atom.id)) is not None:
        moved = is_movement(equation.primitive) and len(equation.inputs) == 1
        if not moved and equation.primitive != "neg":
            break
        atom = equation.inputs[0]
    return atom
