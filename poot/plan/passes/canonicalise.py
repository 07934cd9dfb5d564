"""Canonical forms: operations that do nothing go, and movement is written in the fewest equations."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import cast

from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Equation, Literal, ParamValue, Value
from poot.trace.primitives import Reduction, lookup

Shape = tuple[int, ...]
Axes = tuple[int, ...]


class _Site:
    """One equation while it is rewritten: its inputs in the new graph, and what made them."""

    def __init__(self, rewriter: Rewriter, number: int, made: dict[int, Equation]) -> None:
        self.rewriter = rewriter
        self.number = number
        self.equation = rewriter.graph.equations[number]
        self.inputs = rewriter.atoms(self.equation.inputs)
        self.made = made

    @property
    def shape(self) -> Shape:
        return self.equation.outputs[0].shape

    def maker(self, atom: Atom, primitive: str) -> Equation | None:
        """The equation that made an atom, if it is of a primitive."""
        equation = self.made.get(atom.id) if isinstance(atom, Value) else None
        return equation if equation is not None and equation.primitive == primitive else None

    def emit(self, primitive: str, inputs: Sequence[Atom], **params: ParamValue) -> Atom:
        (output,) = self.rewriter.emit(self.number, primitive, inputs, params)
        self.made[output.id] = Equation(primitive, tuple(inputs), self.equation.params.__class__(params), (output,))
        return output

    def axes(self, key: str) -> Axes:
        return cast("Axes", self.equation.params[key])

    def reshape(self, atom: Atom) -> Atom:
        """The atom in the shape of this equation's result, by at most one reshape of what it came from."""
        above = self.maker(atom, "reshape")
        if above is not None:
            atom = above.inputs[0]
        return atom if atom.shape == self.shape else self.emit("reshape", (atom,), shape=self.shape)


# Each rule gives the atom that stands for the equation's result, or None where the equation stays as it is.


def _cast(site: _Site) -> Atom | None:
    (operand,) = site.inputs
    target = site.equation.outputs[0].dtype
    if operand.dtype is target:
        return operand
    above = site.maker(operand, "cast")
    if above is not None and above.inputs[0].dtype is target:
        wide = operand.dtype
        if (wide.kind == target.kind and wide.bits > target.bits and wide.is_integer) or (
            wide.kind == target.kind == "float" and wide.bits >= 32 > target.bits
        ):
            return above.inputs[0]
    return None


def _reshape(site: _Site) -> Atom | None:
    (operand,) = site.inputs
    if operand.shape == site.shape or site.maker(operand, "reshape") is not None:
        return site.reshape(operand)
    return None


def _transpose(site: _Site) -> Atom | None:
    (operand,), perm = site.inputs, site.axes("perm")
    above = site.maker(operand, "transpose")
    if above is not None:
        first = cast("Axes", above.params["perm"])
        operand, perm = above.inputs[0], tuple(first[axis] for axis in perm)
    moved = [axis for axis in perm if operand.shape[axis] != 1]
    if moved == sorted(moved):
        return site.reshape(operand)
    return None if above is None else site.emit("transpose", (operand,), perm=perm)


def _broadcast(site: _Site) -> Atom | None:
    (operand,), dims = site.inputs, site.axes("dims")
    above = site.maker(operand, "broadcast")
    if above is not None:
        first = cast("Axes", above.params["dims"])
        operand, dims = above.inputs[0], tuple(dims[axis] for axis in first)
    if not isinstance(operand, Literal) and operand.spec.size == site.equation.outputs[0].spec.size:
        return site.reshape(operand)
    return None if above is None else site.emit("broadcast", (operand,), shape=site.shape, dims=dims)


def _same_shape(site: _Site) -> Atom | None:
    """slice, pad: each keeps its operand as it is if the shape stays and nothing is moved."""
    operand = site.inputs[0]
    if operand.shape != site.shape:
        return None
    if site.equation.primitive == "pad" and any((*site.axes("low"), *site.axes("high"))):
        return None
    return operand


def _reverse(site: _Site) -> Atom | None:
    (operand,) = site.inputs
    return operand if all(operand.shape[axis] <= 1 for axis in site.axes("axes")) else None


def _concat(site: _Site) -> Atom | None:
    filled = [atom for atom in site.inputs if atom.spec.size]
    if len(filled) == 1:
        return filled[0]
    if filled and len(filled) < len(site.inputs):
        return site.emit("concat", filled, axis=site.equation.params["axis"])
    return None


def _select(site: _Site) -> Atom | None:
    condition = site.inputs[0]
    if isinstance(condition, Literal):
        chosen = site.inputs[1 if condition.value else 2]
        return chosen if chosen.shape == site.shape else None
    return None


def _neutral(operand: int, value: float) -> Callable[[_Site], Atom | None]:
    """A MAP of two operands that gives the other one unchanged where this one is a certain literal, bit for bit.

    Adding 0.0 is not such a case, since it turns -0.0 into 0.0; adding -0.0 and subtracting 0.0 are.
    """

    def rule(site: _Site) -> Atom | None:
        literal, other = site.inputs[operand], site.inputs[1 - operand]
        if not isinstance(literal, Literal) or other.shape != site.shape:
            return None
        wanted = value if literal.dtype.is_float else abs(value)
        same = struct.pack("<d", literal.value) == struct.pack("<d", wanted)
        return other if same else None

    return rule


def _reduce(site: _Site) -> Atom | None:
    """Of one element a row: a reshape (a sum starts from +0); of none: the identity."""
    rule = lookup(site.equation.primitive).lower
    if not isinstance(rule, Reduction):
        return None
    (operand,), output = site.inputs, site.equation.outputs[0]
    if operand.spec.size == 0 and output.spec.size:
        identity = Literal(rule.identity(output.dtype), output.dtype)
        return site.emit("broadcast", (identity,), shape=site.shape, dims=())
    if operand.spec.size != output.spec.size:
        return None
    result = site.reshape(operand)
    if site.equation.primitive == "reduce_sum" and output.dtype.is_float:
        return site.emit("add", (result, Literal(0.0, output.dtype)))
    return result


def _dot_general(site: _Site) -> Atom | None:
    output = site.equation.outputs[0]
    if output.spec.size == 0 or all(atom.spec.size for atom in site.inputs):
        return None
    zero = Literal(0.0 if output.dtype.is_float else 0, output.dtype)
    return site.emit("broadcast", (zero,), shape=site.shape, dims=())


_RULES: dict[str, tuple[Callable[[_Site], Atom | None], ...]] = {
    "cast": (_cast,),
    "reshape": (_reshape,),
    "transpose": (_transpose,),
    "broadcast": (_broadcast,),
    "slice": (_same_shape,),
    "pad": (_same_shape,),
    "reverse": (_reverse,),
    "concat": (_concat,),
    "select": (_select,),
    "add": (_neutral(0, -0.0), _neutral(1, -0.0)),
    "sub": (_neutral(1, 0.0),),
    "mul": (_neutral(0, 1.0), _neutral(1, 1.0)),
    "div": (_neutral(1, 1.0),),
    "dot_general": (_dot_general,),
}


def _run(rewriter: Rewriter) -> None:
    """Remove what does nothing, and merge movement.

    Casts, reshapes, transposes, broadcasts, slices and pads that change nothing give their operand; runs of reshapes,
    transposes or broadcasts become one; those that only add, drop or move axes of extent 1 become reshapes.  Arithmetic
    with a neutral literal goes where no bit can change.  Reductions and contractions of nothing become their identity.
    """
    made: dict[int, Equation] = {}
    for number, equation in enumerate(rewriter.graph.equations):
        site = _Site(rewriter, number, made)
        rules = _RULES.get(equation.primitive, (_reduce,) if equation.primitive.startswith("reduce_") else ())
        result = next((found for rule in rules if (found := rule(site)) is not None), None)
        if result is None:
            kept = rewriter.keep(number)
            made.update((output.id, kept) for output in kept.outputs)
        elif isinstance(result, Value) and result.id in made and result not in site.inputs:
            rewriter.replace(number, (result,))
        else:
            rewriter.drop(number, (result,), "view", "changes nothing")


CANONICALISE = Pass("canonicalise", _run, growth=2)
