"""The work of equations: how many floating-point operations they ask for."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from poot.trace.graph import Equation
from poot.trace.primitives import Contraction, Elementwise, Reduction, lookup
from poot.trace.primitives.contract import dimension_numbers

#: MAPs of floats that count, one an element: arithmetic, and elementary functions, however dear they are.
COUNTED = frozenset(
    {
        *("add", "sub", "mul", "div", "floor_div", "rem", "max", "min", "recip"),
        *("sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow", "atan2"),
    }
)
_SCATTERS = frozenset({"scatter_add", "scatter_mul", "scatter_max", "scatter_min"})


def flops(equations: Iterable[Equation]) -> int:
    """Floating-point operations that equations ask for, regions not counted.

    A contraction has two for each product that it sums, a reduction of n elements n - 1, an elementwise operation of
    `COUNTED` and a scatter that combines one an element.  Moves, casts, comparisons, selections, signs, rounding to
    whole numbers, and whatever gives integers or bools have none.
    """
    return sum(map(_of, equations))


def _of(equation: Equation) -> int:
    if not equation.outputs or not equation.outputs[0].dtype.is_float:
        return 0
    size = equation.outputs[0].spec.size
    match lookup(equation.primitive).lower:
        case Contraction():
            axes = dimension_numbers(equation.params)[0]
            return 2 * size * prod(equation.inputs[0].shape[axis] for axis in axes)
        case Reduction():
            return max(equation.inputs[0].spec.size - size, 0)
        case Elementwise() if equation.primitive in COUNTED:
            return size
        case _ if equation.primitive in _SCATTERS:
            return equation.inputs[2].spec.size
        case _:
            return 0
