"""Constant folding: what the graph itself determines is computed by the oracle, once, while compiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from poot.dtypes import ArraySpec
from poot.errors import PootError
from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Equation, Graph, Literal, Value
from poot.trace.primitives import Elementwise, Pull, lookup
from poot.trace.primitives.oracle import apply_rule, literal_array

Array = np.ndarray[Any, Any]

#: The most elements of an array that is computed here, and of all of them together in one graph.
_ELEMENTS = 1 << 14
_TOTAL = 1 << 20

#: What gives the same element everywhere where its first operand does.
_MOVES = ("broadcast", "reshape", "transpose", "slice", "reverse")


@dataclass(slots=True)
class _Known:
    """What is known of the values of the old graph: the element that all are equal to, or the whole array."""

    elements: dict[int, Array] = field(default_factory=dict[int, Array])
    arrays: dict[int, Array] = field(default_factory=dict[int, Array])
    work: int = 0

    def element(self, atom: Atom) -> Array | None:
        """The one element of an atom, as a 0-d array."""
        return literal_array(atom) if isinstance(atom, Literal) else self.elements.get(atom.id)

    def array(self, atom: Atom) -> Array | None:
        """The whole of an atom, where that is small."""
        if isinstance(atom, Literal):
            return literal_array(atom)
        if atom.id in self.arrays:
            return self.arrays[atom.id]
        element = self.elements.get(atom.id)
        return None if element is None or atom.spec.size > _ELEMENTS else np.broadcast_to(element, atom.shape)


def _no_regions(region: Graph, arrays: Sequence[Array]) -> tuple[Array, ...]:
    raise AssertionError(f"{region.name} of {len(arrays)} arrays is not folded")


def _element(equation: Equation, known: _Known) -> Array | None:
    """The element that all of a result are equal to, because all of each operand are."""
    (output,) = equation.outputs
    elements = [known.element(atom) for atom in equation.inputs]
    if equation.primitive in _MOVES:
        return elements[0]
    if not isinstance(lookup(equation.primitive).lower, Elementwise) or any(each is None for each in elements):
        return None
    single = replace(
        equation,
        inputs=tuple(Value(n, ArraySpec(atom.dtype, ())) for n, atom in enumerate(equation.inputs)),
        outputs=(Value(len(elements), ArraySpec(output.dtype, ())),),
    )
    return apply_rule(single, cast("list[Array]", elements), _no_regions)[0]


def _array(equation: Equation, known: _Known) -> Array | None:
    """The whole of a small result whose operands are known."""
    size = equation.outputs[0].spec.size
    if size > _ELEMENTS or known.work + size > _TOTAL:
        return None
    arrays = [known.array(atom) for atom in equation.inputs]
    if any(each is None for each in arrays):
        return None
    known.work += size
    return apply_rule(equation, cast("list[Array]", arrays), _no_regions)[0]


def _uniform(array: Array) -> Array | None:
    """The element that all of an array are equal to, bit for bit."""
    flat = np.ascontiguousarray(array).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return flat[0].reshape(()) if (raw == raw[0]).all() else None


def _literal(element: Array, spec: ArraySpec) -> Literal | None:
    """An element as a literal; None for a NaN, of which a literal has but one."""
    plain: Any = element.astype(np.float64).item() if spec.dtype.is_float else element.item()
    return None if plain != plain else Literal(plain, spec.dtype)


def _learn(equation: Equation, known: _Known) -> Literal | None:
    """Note what an equation makes, if that is known; the literal that all its elements are, if there is one."""
    (output,) = equation.outputs
    element, array = _element(equation, known), None
    if element is None:
        array = _array(equation, known)
        element = None if array is None else _uniform(array)
    if element is not None:
        known.elements[output.id] = element
        return _literal(element, output.spec)
    if array is not None:
        known.arrays[output.id] = array
    return None


def _chosen(equation: Equation, known: _Known) -> Atom | None:
    """The operand that a select always gives."""
    if equation.primitive != "select":
        return None
    condition = known.element(equation.inputs[0])
    if condition is None:
        return None
    return equation.inputs[1 if condition else 2]


def _spread(rewriter: Rewriter, number: int, atom: Atom) -> Atom:
    """An atom of the new graph in the shape of an equation's result."""
    shape = rewriter.graph.equations[number].outputs[0].shape
    return atom if atom.shape == shape else rewriter.emit(number, "broadcast", (atom,), {"shape": shape, "dims": ()})[0]


def _run(rewriter: Rewriter) -> None:
    """Compute by the oracle what depends on literals and iotas alone, and write it as a literal where it is uniform.

    Chains of any size are folded where all elements are the same (MAPs and movement of one literal); arrays of up to
    2^14 elements, 2^20 in one graph, are computed whole to see whether they are, as a mask that hides nothing is.  A
    select whose condition is so known gives its operand.  Everything else stays: kernels compute iotas and comparisons
    of them where they are used, and what is dear goes to the program's prologue.
    """
    known = _Known()
    for number, equation in enumerate(rewriter.graph.equations):
        rule = lookup(equation.primitive).lower
        plain = isinstance(rule, (Elementwise, Pull)) and not equation.regions and not equation.effects
        if not plain or len(equation.outputs) != 1 or not equation.outputs[0].spec.size:
            rewriter.keep(number)
            continue
        chosen = _chosen(equation, known)
        if chosen is not None:
            instead = _spread(rewriter, number, rewriter.atom(chosen))
            rewriter.drop(number, (instead,), "fold", "its condition is the same everywhere")
            continue
        try:
            literal = _learn(equation, known)
        except (PootError, MemoryError):  # the step says so, if it comes to that
            literal = None
        spread = equation.primitive == "broadcast" and isinstance(equation.inputs[0], Literal)
        if literal is None or spread:
            rewriter.keep(number)
        else:
            rewriter.drop(number, (_spread(rewriter, number, literal),), "fold", f"always {literal.value}")


FOLD = Pass("fold", _run)
