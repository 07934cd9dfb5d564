"""Prologues of contractions: what may be computed as an operand is loaded, rather than stored before.

A tile loads an element of an operand once for each tile of the other one.  A cast from a narrower dtype is done at each
load, as contractions of that dtype do: memory is read in the narrower one, and no copy is made.  Where the other one
is few rows every element is loaded once, and any cheap MAP is computed then, as the scales of quantised weights are.
"""

from __future__ import annotations

from collections.abc import Mapping

from poot.plan import cost
from poot.plan.groups import Group, Places
from poot.trace.graph import Equation, Value
from poot.trace.primitives import Elementwise, is_movement, lookup

#: The most rows of the other operand with which each element is loaded about once.
_FEW_ROWS = 4
#: Equations looked back through for what an operand is made of.
_LOOK_BACK = 32


def as_operand(group: Group, equation: Equation, places: Places, makers: Mapping[int, Equation], output: bool) -> str:
    """Whether a MAP is computed as a contraction loads its operand; if not, why.  An `output` is stored as well."""
    if output:
        return "it is needed elsewhere too, and contractions store none of their operands"
    if group.attention is not None or places is None or not isinstance(lookup(equation.primitive).lower, Elementwise):
        return "only views are folded into the operands of a contraction"
    value = equation.outputs[0]
    if equation.primitive == "cast" and equation.inputs[0].dtype.itemsize < value.dtype.itemsize:
        return ""
    if sum(group.visits(index) for index in places) > _FEW_ROWS * value.spec.size:
        return "each element of a contraction's operand is read many times"
    if cost.weight(equation.primitive) > 1:
        return "it is too dear to compute as a contraction's operand is loaded"
    if _source_bytes(equation, makers) > value.spec.nbytes:
        return "more is read to compute it than a contraction's operand holds"
    return ""


def _source_bytes(equation: Equation, makers: Mapping[int, Equation]) -> int:
    """The bytes that a value is made from, looking back through cheap MAPs and views."""
    pending, seen, total, steps = [equation], set[int](), 0, 0
    while pending:
        steps += 1
        for atom in pending.pop().inputs:
            if not isinstance(atom, Value) or atom.id in seen:
                continue
            seen.add(atom.id)
            above = makers.get(atom.id)
            if above is not None and steps < _LOOK_BACK and _foldable(above):
                pending.append(above)
            else:
                total += atom.spec.nbytes
    return total


def _foldable(equation: Equation) -> bool:
    cheap = isinstance(lookup(equation.primitive).lower, Elementwise) and cost.weight(equation.primitive) == 1
    return cheap or is_movement(equation.primitive)
