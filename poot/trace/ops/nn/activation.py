"""Activation functions, element by element.  f16 and bf16 are computed in f32 and rounded once; integers give f32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike, is_array, python_number
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, logic, manipulation
from poot.trace.ops.axes import number, one_axis, scalar
from poot.trace.ops.maps import narrowed, widened
from poot.trace.ops.promotion import cast, common_float, shape_of
from poot.trace.source import user_location

Approximation = bool | Literal["none", "tanh"]

# --- rectifiers -------------------------------------------------------------------------------------------------------


def relu(x: ArrayLike, /) -> Array:
    """max(x, 0), in x's dtype, integers too; NaN stays NaN."""
    return elementwise.maximum(x, 0)


def relu6(x: ArrayLike, /) -> Array:
    """min(max(x, 0), 6), in x's dtype, integers too."""
    return elementwise.clip(x, 0, 6)


def leaky_relu(x: ArrayLike, /, slope: ArrayLike = 0.01) -> Array:
    """The leaky ReLU: x where it is not negative, else slope * x; `slope` may be an array that broadcasts with x.

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "leaky_relu")
    with joined(wide, slope):
        return narrowed(logic.where(wide < 0, wide * lift(cast(slope, wide.dtype)), wide), dtype)


def elu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """The exponential linear unit (Clevert et al., arXiv:1511.07289): x above zero, else alpha * (exp(x) - 1).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "elu")
    alpha = scalar(alpha, "elu: alpha")
    return narrowed(logic.where(wide > 0, wide, alpha * elementwise.expm1(wide)), dtype)


def celu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """The continuously differentiable ELU (Barron, arXiv:1704.07483): alpha * (exp(x / alpha) - 1) below zero.

    Floats keep their dtype, integers and bools give f32.
    """
    alpha = number(alpha, "celu: alpha")
    if alpha == 0:
        raise ArgumentError(what="celu: alpha", actual=alpha, expected="a number other than 0", where=user_location())
    wide, dtype = widened(x, "celu")
    below = alpha * elementwise.expm1(elementwise.minimum(wide, 0) / alpha)
    return narrowed(logic.where(wide > 0, wide, below), dtype)


#: The fixed point of means 0 and variances 1, from the paper's equation 14.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def selu(x: ArrayLike, /) -> Array:
    """The scaled ELU of self-normalising networks (Klambauer et al., arXiv:1706.02515).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "selu")
    below = _SELU_ALPHA * elementwise.expm1(wide)
    return narrowed(_SELU_SCALE * logic.where(wide > 0, wide, below), dtype)


# --- sigmoids and what is made of them --------------------------------------------------------------------------------


def sigmoid(x: ArrayLike, /) -> Array:
    """The logistic function, 1 / (1 + exp(-x)).  Floats keep their dtype, integers and bools give f32."""
    wide, dtype = widened(x, "sigmoid")
    return narrowed(_sigmoid(wide), dtype)


def log_sigmoid(x: ArrayLike, /) -> Array:
    """The logarithm of sigmoid, without its loss of accuracy: -softplus(-x).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "log_sigmoid")
    return narrowed(-_softplus(-wide), dtype)


def silu(x: ArrayLike, /) -> Array:
    """The sigmoid linear unit, x * sigmoid(x), also called swish (Elfwing et al., arXiv:1702.03118).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "silu")
    return narrowed(_silu(wide), dtype)


def softplus(x: ArrayLike, /) -> Array:
    """log(1 + exp(x)), which neither overflows nor cancels.

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "softplus")
    return narrowed(_softplus(wide), dtype)


def softsign(x: ArrayLike, /) -> Array:
    """The soft sign, x / (1 + |x|).  Floats keep their dtype, integers and bools give f32."""
    wide, dtype = widened(x, "softsign")
    return narrowed(wide / (1 + elementwise.abs(wide)), dtype)


def mish(x: ArrayLike, /) -> Array:
    """Mish (Misra, arXiv:1908.08681): x * tanh(softplus(x)).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "mish")
    return narrowed(wide * elementwise.tanh(_softplus(wide)), dtype)


def gelu(x: ArrayLike, /, approximate: Approximation = False) -> Array:
    """The Gaussian error linear unit (Hendrycks and Gimpel, arXiv:1606.08415): x * Φ(x), Φ the normal distribution.

    `approximate="tanh"` (or True) takes x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))) instead of the error function.
    """
    _check_approximation(approximate, "gelu")
    wide, dtype = widened(x, "gelu")
    return narrowed(_gelu(wide, approximate), dtype)


def hardsigmoid(x: ArrayLike, /) -> Array:
    """The sigmoid in three straight pieces: min(max(x + 3, 0), 6) / 6.

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "hardsigmoid")
    return narrowed(elementwise.clip(wide + 3, 0, 6) / 6, dtype)


def hardswish(x: ArrayLike, /) -> Array:
    """The hard swish (Howard et al., arXiv:1905.02244): x * (min(max(x + 3, 0), 6) / 6).

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "hardswish")
    return narrowed(wide * (elementwise.clip(wide + 3, 0, 6) / 6), dtype)


def hardtanh(x: ArrayLike, /) -> Array:
    """min(max(x, -1), 1), in x's dtype, integers too."""
    return elementwise.clip(x, -1, 1)


def softcap(x: ArrayLike, /, cap: ArrayLike) -> Array:
    """Logits kept in bounds (Gemma Team, arXiv:2408.00118): cap * tanh(x / cap), near x where that is small.

    Floats keep their dtype, integers and bools give f32.
    """
    known = python_number(cap)
    if isinstance(known, (int, float)) and not known > 0:
        raise ArgumentError(
            what="softcap: cap", actual=known, expected="a number above 0", where=user_location(),
            remedy="leave it out, or pass None, where there is to be no cap.",
        )  # fmt: skip
    wide, dtype = widened(x, "softcap")
    with joined(wide, cap):
        limit = lift(cast(cap, wide.dtype))
        return narrowed(limit * elementwise.tanh(wide / limit), dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + elementwise.exp(-x))


def _silu(x: Array) -> Array:
    return x / (1 + elementwise.exp(-x))


def _softplus(x: Array) -> Array:
    return elementwise.maximum(x, 0) + elementwise.log1p(elementwise.exp(-elementwise.abs(x)))


def _gelu(x: Array, approximate: Approximation) -> Array:
    if approximate in (True, "tanh"):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1 + elementwise.tanh(inner))
    return 0.5 * x * (1 + elementwise.erf(x * math.sqrt(0.5)))


def _check_approximation(approximate: object, what: str) -> None:
    if is_array(approximate) or approximate not in (False, True, "none", "tanh"):
        raise ArgumentError(
            what=f"{what}: approximate", actual=approximate, expected='False or "tanh"', where=user_location()
        )


# --- gated units ------------------------------------------------------------------------------------------------------


def glu(x: ArrayLike, /, axis: int = -1) -> Array:
    """The gated linear unit (Dauphin et al., arXiv:1612.08083): the first half along `axis` * sigmoid(the second).

    ShapeError where the extent is odd.
    """
    shape = shape_of(x)
    place = one_axis(axis, len(shape), "glu")
    if shape[place] % 2:
        raise ShapeError(what="glu", actual=shape, expected=f"an even extent on axis {place}", where=user_location())
    wide, dtype = widened(x, "glu")
    value, gate = manipulation.split(wide, 2, axis=place)
    return narrowed(value * _sigmoid(gate), dtype)


def swiglu(gate: ArrayLike, up: ArrayLike, /) -> Array:
    """silu(gate) * up (Shazeer, arXiv:2002.05202), of two arrays that broadcast; floats, or f32."""
    return _gated(_silu, gate, up, "swiglu")


def geglu(gate: ArrayLike, up: ArrayLike, /, approximate: Approximation = False) -> Array:
    """gelu(gate) * up (Shazeer, arXiv:2002.05202), of two arrays that broadcast; floats, or f32."""
    _check_approximation(approximate, "geglu")
    return _gated(lambda x: _gelu(x, approximate), gate, up, "geglu")


def _gated(activation: Callable[[Array], Array], gate: ArrayLike, up: ArrayLike, what: str) -> Array:
    dtype = common_float(gate, up, what=what)
    with joined(gate, up):
        a, b = (widened(lift(cast(x, dtype)), what)[0] for x in (gate, up))
        return narrowed(activation(a) * b, dtype)
