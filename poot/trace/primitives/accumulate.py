"""SCAN primitives, which give every partial result along an axis, and the REDUCE primitives that give a position.

On devices a scan doubles its reach every step: after k steps each element has combined 2**k of those before it (W. D.
Hillis and G. L. Steele, "Data Parallel Algorithms", 1986).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from poot.dtypes import ALL, NUMBERS, ArraySpec, DType, bool_, i32, i64, u8
from poot.errors import ArgumentTypeError, ShapeError
from poot.trace.graph import Atom, Equation, Graph, Params
from poot.trace.graph import Literal as Number
from poot.trace.primitives import rules
from poot.trace.primitives.base import EXACT, Example, Inline, Numerics, OracleCall, Primitive, register
from poot.trace.primitives.compose import along, stepper
from poot.trace.primitives.map import maximum, minimum
from poot.trace.primitives.reduce import accumulator

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]


# --- cumsum, cumprod, cummax, cummin ----------------------------------------------------------------------------------


def flag(name: str, params: Params, key: str) -> bool:
    """A bool parameter."""
    value = params[key]
    if type(value) is not bool:
        raise ArgumentTypeError(what=f"{name}: {key}", actual=repr(value), expected="a bool")
    return value


def _cumulative_type(name: str) -> Callable[[Specs, Params, tuple[Graph, ...]], Specs]:
    def rule(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
        rules.arity(name, specs, 1)
        rules.parameters(name, params, "axis", "reverse")
        rules.no_regions(name, regions)
        rules.admit(name, specs[0], NUMBERS)
        rules.axis(name, params, specs[0].rank)
        flag(name, params, "reverse")
        return specs

    return rule


def _length(specs: Specs, params: Params) -> int:
    return specs[0].shape[cast("int", params["axis"])]


def _cumulative(
    name: str, combine: str, identity: Callable[[DType], int | float], oracle: Callable[..., Array], doc: str
) -> None:
    def evaluate(call: OracleCall, x: Array) -> Array:
        axis = rules.integer(name, call.params, "axis")
        if not call.params["reverse"]:
            return oracle(x, axis)
        return np.flip(oracle(np.flip(x, axis), axis), axis)

    def body(emit: Callable[..., Any], equation: Equation) -> list[Atom]:
        step, x = stepper(emit), equation.inputs[0]
        axis, dtype = rules.integer(name, equation.params, "axis"), x.dtype
        wide = accumulator(dtype)
        if wide is not dtype:
            x = step("cast", x, dtype=wide)
        if combine == "add" and dtype.is_float:
            x = step("add", x, Number(0.0, wide))
        fill = Number(identity(wide), wide)
        reach, none = 1, (0,) * len(x.shape)
        while reach < x.shape[axis]:
            shift = tuple(reach if place == axis else 0 for place in range(len(none)))
            back = tuple(-distance for distance in shift)
            low, high = (back, shift) if equation.params["reverse"] else (shift, back)
            x = step(combine, step("pad", x, fill, low=low, high=high, interior=none), x)
            reach *= 2
        return [x if wide is dtype else step("cast", x, dtype=dtype)]

    sums = combine in ("add", "mul")
    register(
        Primitive(
            name,
            "scan",
            doc,
            _cumulative_type(name),
            evaluate,
            Inline(body),
            NUMBERS,
            Numerics(exact=False, depth=_length) if sums else EXACT,
            tuple(
                Example((shape,), Params(axis=axis, reverse=reverse))
                for reverse in (False, True)
                for shape, axis in (
                    ((1,), 0),
                    ((7,), 0),
                    ((3, 5), 0),
                    ((3, 5), 1),
                    ((2, 0, 3), 1),
                    ((0, 2), 1),
                    ((33,), 0),
                )
            ),
        )
    )


def _cumsum(x: Array, axis: int) -> Array:
    total = np.cumsum(x, axis, dtype=x.dtype)
    return total + 0.0 if x.dtype.kind == "f" else total


def _cumprod(x: Array, axis: int) -> Array:
    return np.multiply.accumulate(x, axis, dtype=x.dtype)


def _running(choose: Callable[[Array, Array], Array]) -> Callable[[Array, int], Array]:
    """A running extreme by the oracle's own two-operand rule, which orders zeros."""

    def run(x: Array, axis: int) -> Array:
        moved = np.moveaxis(x, axis, 0)
        result = moved.copy()
        for position in range(1, len(moved)):
            result[position] = choose(result[position - 1], moved[position])
        return np.moveaxis(result, 0, axis)

    return run


_cumulative(
    "cumsum", "add", lambda dtype: 0, _cumsum, "the sums of all elements up to each, or from each on in reverse"
)
_cumulative(
    "cumprod",
    "mul",
    lambda dtype: 1,
    _cumprod,
    "the products of all elements up to each, or from each on in reverse",
)
_cumulative(
    "cummax",
    "max",
    lambda dtype: -math.inf if dtype.is_float else dtype.min,
    _running(maximum),
    "the greatest of all elements up to each, or from each on in reverse; NaN from the first one on",
)
_cumulative(
    "cummin",
    "min",
    lambda dtype: math.inf if dtype.is_float else dtype.max,
    _running(minimum),
    "the least of all elements up to each, or from each on in reverse; NaN from the first one on",
)


# --- argmax and argmin ------------------------------------------------------------------------------------------------


def _position(name: str, reduction: str, find: Callable[..., Any], doc: str) -> None:
    def type_rule(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
        rules.arity(name, specs, 1)
        rules.parameters(name, params, "axis", "dtype")
        rules.no_regions(name, regions)
        shape = specs[0].shape
        axis = rules.axis(name, params, len(shape))
        if shape[axis] == 0:
            raise ShapeError(what=name, actual=shape, expected=f"at least one element along axis {axis}")
        dtype = rules.dtype_param(name, params, (i32, i64))
        rules.told_apart(name, shape, axis, dtype)
        return (ArraySpec(dtype, shape[:axis] + shape[axis + 1 :]),)

    def evaluate(call: OracleCall, x: Array) -> Array:
        # NumPy's argmax and argmin give the first NaN, and the first of equal elements.
        return np.asarray(find(x, rules.integer(name, call.params, "axis"))).astype(call.outputs[0].dtype.dtype)

    def body(emit: Callable[..., Any], equation: Equation) -> list[Atom]:
        step, x, result = stepper(emit), equation.inputs[0], equation.outputs[0].dtype
        axis = rules.integer(name, equation.params, "axis")
        if x.dtype is bool_:
            x = step("cast", x, dtype=u8)
        best = along(step, step(reduction, x, axes=(axis,)), x.shape, axis)
        hit = step("eq", x, best)
        if x.dtype.is_float:
            hit = step("or", hit, step("ne", x, x))
        places = step("iota", dtype=result, shape=x.shape, axis=axis)
        chosen = step("select", hit, places, Number(min(x.shape[axis], int(result.max)), result))
        return [step("reduce_min", chosen, axes=(axis,))]

    register(
        Primitive(
            name,
            "reduce",
            doc,
            type_rule,
            evaluate,
            Inline(body),
            ALL,
            examples=tuple(
                Example((shape,), Params(axis=axis, dtype=dtype))
                for shape, axis, dtype in (
                    ((1,), 0, i32),
                    ((7,), 0, i64),
                    ((3, 5), 0, i32),
                    ((3, 5), 1, i32),
                    ((4, 1, 9), 2, i64),
                    ((2, 0, 3), 2, i32),
                    ((33,), 0, i32),
                )
            ),
        )
    )


_position(
    "argmax",
    "reduce_max",
    np.argmax,
    "the position along `axis` of the first NaN, or else of the first of the greatest elements",
)
_position(
    "argmin",
    "reduce_min",
    np.argmin,
    "the position along `axis` of the first NaN, or else of the first of the least elements",
)
