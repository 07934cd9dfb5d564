"""Which products are rounded together with the sum that takes them.

A value of the graph may be computed in several places: in two passes over a row, in two kernels.  It has to be the same
in all of them, or `x - max(x)` is above 0 where x is a product.  So a product is rounded by itself, unless one sum is
all that ever reads it; then it stands directly below the sum in the kernel, and never anywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from poot.dtypes import f32, f64
from poot.plan.groups import Group
from poot.trace.graph import Graph, Value

#: What may take a product unrounded.
SUMS = ("add", "sub", "reduce_sum")


def contract_products(graph: Graph, needed: Collection[int], groups: Iterable[Group]) -> None:
    """State in each group which of the products that it computes are not rounded; `needed` ones are stored."""
    groups = list(groups)
    stored = {value.id for group in groups for value in group.outputs}
    reads = Counter(atom.id for each in graph.equations for atom in each.inputs if isinstance(atom, Value))
    found = {
        atom.id
        for each in graph.equations
        if each.primitive in SUMS
        for atom in each.inputs
        if isinstance(atom, Value) and reads[atom.id] == 1 and atom.id not in needed and atom.id not in stored
    }
    for group in groups:
        products = (value for each in group.members.values() if each.primitive == "mul" for value in each.outputs)
        group.products = frozenset(value.id for value in products if value.id in found and value.dtype in (f32, f64))
