"""MAP primitives: each result element depends on the operand elements at its own index.

Operands have equal dtypes and equal shapes, or are 0-d and spread over the others.  The meaning of every operation is
that of the row of the scalar table of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from poot.dtypes import ALL, FLOATS, INTEGERS, NUMBERS, ArraySpec, DType, bool_
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import EXACT, Elementwise, Example, Numerics, OracleCall, Primitive, TypeRule, register

Array = np.ndarray[Any, Any]

_BITS = (bool_, *INTEGERS)


# --- rules ----------------------------------------------------------------------------------------------------------


def _type_rule(name: str, count: int, dtypes: tuple[DType, ...], result: DType | None) -> TypeRule:
    def rule(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
        rules.arity(name, specs, count)
        rules.parameters(name, params)
        rules.no_regions(name, regions)
        rules.admit(name, specs[0], dtypes)
        rules.same_dtypes(name, specs)
        return (ArraySpec(result or specs[0].dtype, rules.spread_shape(name, specs)),)

    return rule


def _map(
    name: str,
    count: int,
    dtypes: tuple[DType, ...],
    oracle: Callable[..., Any],
    doc: str,
    *,
    result: DType | None = None,
    ulps: float = 0.0,
) -> Primitive:
    """Register a MAP whose operands share one dtype; its lowering is the row of the same name."""

    def evaluate(call: OracleCall, *operands: Array) -> Array:
        return np.asarray(oracle(*operands))

    def lower(k: KernelBuilder, operands: tuple[Expr, ...], params: Params, dtype: DType) -> Expr:
        return k.op(name, *operands)

    return register(
        Primitive(
            name,
            "map",
            doc,
            _type_rule(name, count, dtypes, result),
            evaluate,
            Elementwise(lower),
            dtypes,
            Numerics(exact=False, ulps=ulps) if ulps else EXACT,
            rules.unary_examples() if count == 1 else rules.spread_examples(count),
        )
    )


# --- oracle functions that are not one NumPy function ---------------------------------------------------------------

_erf = np.frompyfunc(math.erf, 1, 1)


def _error_function(x: Array) -> Array:
    return np.asarray(_erf(x)).astype(np.float64)


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _guarded(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Floor division or remainder that gives 0 for an integer zero divisor."""

    def divide(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return function(a, b)
        zero = b == 0
        return np.where(zero, np.zeros_like(a), function(a, np.where(zero, np.ones_like(b), b)))

    return divide


def _extreme(pick: Callable[..., Any], negative: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Minimum or maximum with NaN winning and -0.0 before +0.0."""

    def choose(a: Array, b: Array) -> Array:
        found = pick(a, b)
        if a.dtype.kind != "f":
            return found
        zero = np.where(negative(np.signbit(a), np.signbit(b)), -0.0, 0.0)
        return np.where((a == 0) & (b == 0), zero, found)

    return choose


maximum = _extreme(np.maximum, np.logical_and)
minimum = _extreme(np.minimum, np.logical_or)


def _power(a: Array, b: Array) -> Array:
    """A to the b; integers wrap, and a negative exponent gives the truncated reciprocal: 1, -1 or 0."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    a, b = np.broadcast_arrays(a, b)
    result, factor, rest = np.ones_like(a), a.copy(), b.copy()
    for _ in range(8 * b.dtype.itemsize):
        result = np.where(rest & 1 != 0, result * factor, result)
        factor, rest = factor * factor, rest >> 1
    if a.dtype.kind == "i":
        unit = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1 != 0, -1, 1), 0)).astype(a.dtype)
        result = np.where(b < 0, unit, result)
    return result


def _sign(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def _count_bits(x: Array) -> Array:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _count_leading_zeros(x: Array) -> Array:
    bits, width = _unsigned(x).copy(), 8 * x.dtype.itemsize
    distance = 1
    while distance < width:
        bits |= bits >> np.array(distance, bits.dtype)
        distance *= 2
    return (width - np.bitwise_count(bits)).astype(x.dtype)


def _shift(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """A shift by a count read as unsigned; past the width it gives 0, or the sign to the right of a signed integer."""

    def shift(x: Array, count: Array) -> Array:
        width = 8 * x.dtype.itemsize
        past = _unsigned(count) >= width
        shifted = function(x, np.where(past, 0, count).astype(count.dtype))
        if function is np.right_shift and x.dtype.kind == "i":
            return np.where(past, np.where(x < 0, -1, 0), shifted).astype(x.dtype)
        return np.where(past, np.zeros_like(x), shifted)

    return shift


# --- arithmetic -----------------------------------------------------------------------------------------------------

_map("neg", 1, NUMBERS, np.negative, "-a; integers wrap")
_map("abs", 1, NUMBERS, np.abs, "|a|; the least integer stays as it is")
_map("sign", 1, NUMBERS, _sign, "-1, 0 or 1 as a is below, at or above 0; zeros and NaN stay as they are")
_map("sqrt", 1, FLOATS, np.sqrt, "square root; NaN below zero")
_map("rsqrt", 1, FLOATS, _rsqrt, "1 / sqrt(a)", ulps=2.0)
_map("recip", 1, FLOATS, np.reciprocal, "1 / a")
_map("exp", 1, FLOATS, np.exp, "e to the a", ulps=2.0)
_map("log", 1, FLOATS, np.log, "natural logarithm; NaN below zero, -inf at it", ulps=2.0)
_map("expm1", 1, FLOATS, np.expm1, "e to the a, less 1, accurate near 0", ulps=2.0)
_map("log1p", 1, FLOATS, np.log1p, "natural logarithm of 1 + a, accurate near 0", ulps=2.0)
_map("sin", 1, FLOATS, np.sin, "sine of a in radians", ulps=2.0)
_map("cos", 1, FLOATS, np.cos, "cosine of a in radians", ulps=2.0)
_map("tanh", 1, FLOATS, np.tanh, "hyperbolic tangent", ulps=2.0)
_map("erf", 1, FLOATS, _error_function, "the error function", ulps=2.0)
_map("floor", 1, FLOATS, np.floor, "the greatest integer not above a")
_map("ceil", 1, FLOATS, np.ceil, "the least integer not below a")
_map("round", 1, FLOATS, np.rint, "the nearest integer, the even one of two")
_map("trunc", 1, FLOATS, np.trunc, "a without its fraction")
_map("is_finite", 1, FLOATS, np.isfinite, "whether a is neither infinite nor NaN", result=bool_)
_map("not", 1, _BITS, np.invert, "complement of every bit; logical on bools")
_map("popcount", 1, INTEGERS, _count_bits, "how many bits are set")
_map("clz", 1, INTEGERS, _count_leading_zeros, "how many zero bits stand before the first that is set; the width for 0")

_map("add", 2, NUMBERS, np.add, "a + b; integers wrap")
_map("sub", 2, NUMBERS, np.subtract, "a - b; integers wrap")
_map("mul", 2, NUMBERS, np.multiply, "a * b; integers wrap")
_map("div", 2, FLOATS, np.divide, "a / b")
_map(
    "floor_div",
    2,
    NUMBERS,
    _guarded(np.floor_divide),
    "the floor of a / b; 0 where an integer b is 0",
    ulps=2.0,
)
_map(
    "rem",
    2,
    NUMBERS,
    _guarded(np.remainder),
    "a - b * floor(a / b), with the sign of b; 0 where an integer b is 0",
)
_map("max", 2, ALL, maximum, "the greater; NaN if either is; -0.0 is below +0.0")
_map("min", 2, ALL, minimum, "the lesser; NaN if either is; -0.0 is below +0.0")
_map("pow", 2, NUMBERS, _power, "a to the b, as C's pow; integers wrap", ulps=2.0)
_map("atan2", 2, FLOATS, np.arctan2, "the angle in radians of the point with x = b and y = a", ulps=3.0)


# --- comparisons and bits -------------------------------------------------------------------------------------------

_map("eq", 2, ALL, np.equal, "a == b", result=bool_)
_map("ne", 2, ALL, np.not_equal, "a != b; true if either is NaN", result=bool_)
_map("lt", 2, ALL, np.less, "a < b", result=bool_)
_map("le", 2, ALL, np.less_equal, "a <= b", result=bool_)
_map("gt", 2, ALL, np.greater, "a > b", result=bool_)
_map("ge", 2, ALL, np.greater_equal, "a >= b", result=bool_)

_map("and", 2, _BITS, np.bitwise_and, "bitwise and; logical on bools")
_map("or", 2, _BITS, np.bitwise_or, "bitwise or; logical on bools")
_map("xor", 2, _BITS, np.bitwise_xor, "bitwise exclusive or; logical on bools")
_map("shift_left", 2, INTEGERS, _shift(np.left_shift), "a << b; 0 where b, read as unsigned, is the width or more")
_map("shift_right", 2, INTEGERS, _shift(np.right_shift), "a >> b; 0, or the sign, where b is the width or more")


# --- select and cast ------------------------------------------------------------------------------------------------


def _select_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("select", specs, 3)
    rules.parameters("select", params)
    rules.no_regions("select", regions)
    rules.admit("select", specs[0], (bool_,))
    rules.same_dtypes("select", specs[1:], first=2)
    return (ArraySpec(specs[1].dtype, rules.spread_shape("select", specs)),)


def _select(call: OracleCall, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


register(
    Primitive(
        "select",
        "map",
        "a where the condition holds, else b",
        _select_type,
        _select,
        Elementwise(lambda k, operands, params, dtype: k.op("select", *operands)),
        examples=tuple(Example(example.shapes, dtypes=(bool_, None, None)) for example in rules.spread_examples(3)),
        stored=True,
    )
)


def _cast_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("cast", specs, 1)
    rules.parameters("cast", params, "dtype")
    rules.no_regions("cast", regions)
    return (ArraySpec(rules.dtype_param("cast", params, ALL), specs[0].shape),)


def _cast(call: OracleCall, x: Array) -> Array:
    source, target = call.inputs[0].dtype, call.outputs[0].dtype
    if source.is_float and target.is_integer:
        return _saturate(x, target)
    if source.is_integer and target.is_float and target.bits < 64:
        return _sticky(x).astype(np.float64)
    return x.astype(np.float64 if target.is_float else target.dtype)


def _saturate(x: Array, target: DType) -> Array:
    """Truncated towards zero; beyond the range its nearest end; NaN is 0."""
    low, high = int(target.min), int(target.max)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    # float(high) may round up to the first value outside, so that the upper end is tested with >=.
    inside = np.where((whole >= float(high)) | (whole <= float(low)), 0.0, whole).astype(target.dtype)
    return np.where(whole >= float(high), target.dtype.type(high), np.where(whole <= float(low), low, inside)).astype(
        target.dtype
    )


def _sticky(x: Array) -> Array:
    """Large 64-bit integers rounded to odd at 53 bits, so that the one rounding that follows is the only one."""
    if x.dtype.itemsize < 8:
        return x
    low = np.array(0xFFF, x.dtype)
    large = x >= 1 << 53 if x.dtype.kind == "u" else (x >= 1 << 53) | (x <= -(1 << 53))
    odd = ((x & low) != 0).astype(x.dtype) << np.array(11, x.dtype)
    return np.where(large, (x & ~low) | odd, x)


register(
    Primitive(
        "cast",
        "map",
        "the value in another dtype: floats to integers truncate and saturate with NaN to 0, integers wrap, bool is "
        "whether the value is not 0, floats round to nearest even",
        _cast_type,
        _cast,
        Elementwise(lambda k, operands, params, dtype: k.cast(operands[0], dtype)),
        examples=tuple(Example((shape,), Params(dtype=dtype)) for dtype in ALL for shape in ((), (0,), (3, 5))),
    )
)


def _bitcast_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("bitcast", specs, 1)
    rules.parameters("bitcast", params, "dtype")
    rules.no_regions("bitcast", regions)
    rules.admit("bitcast", specs[0], NUMBERS)
    same_width = [dtype for dtype in NUMBERS if dtype.bits == specs[0].dtype.bits]
    return (ArraySpec(rules.dtype_param("bitcast", params, same_width), specs[0].shape),)


def _bitcast(call: OracleCall, x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(x.shape).view(call.outputs[0].dtype.dtype)


register(
    Primitive(
        "bitcast",
        "map",
        "the same bits as another dtype of the same width",
        _bitcast_type,
        _bitcast,
        Elementwise(lambda k, operands, params, dtype: k.bitcast(operands[0], dtype)),
        NUMBERS,
        examples=tuple(
            Example((shape,), Params(dtype=target), dtypes=(source,))
            for source in NUMBERS
            for target in NUMBERS
            if source.bits == target.bits
            for shape in ((), (3, 5))
        ),
        stored=True,
    )
)
