"""How far a device may be from the oracle on a whole graph: every float value as an interval, equation by equation.

An interval holds whatever the equation may give when its operands are anywhere in theirs and its result is off by as
much as the entry's numerics allow.  Results of equations that are correctly rounded stay points where their operands
are points, so that nothing is granted where nothing is promised.  With `fused`, a product may reach an addition before
it is rounded.  Integers and bools are exact: graphs of the float family let no rounded float decide one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from poot.dtypes import ArraySpec, DType, f32, f64
from poot.trace.evaluate import apply
from poot.trace.graph import Atom, Equation, Graph, Params, Value
from poot.trace.primitives import OracleCall, lookup
from poot.trace.rounding import round_once
from tests.random_intervals import FORMATS, Bound, dtype_of, is_float, mapped, quantum, settled

Array = np.ndarray[Any, Any]


def bounds(graph: Graph, bindings: Mapping[str, Array], *, fused: bool) -> tuple[list[Bound], dict[str, Bound]]:
    """Bounds of every output, and of every state after the step."""
    found = {variable.value.id: Bound.of(np.asarray(bindings[variable.name])) for variable in graph.variables}
    with np.errstate(all="ignore"):
        _run(graph, found, fused)
    states = {variable.name: _read(variable.value, found) for variable in graph.states}
    states |= {name: _read(atom, found) for name, atom in graph.updates}
    return [_read(atom, found) for atom in graph.outputs], states


def _run(graph: Graph, found: dict[int, Bound], fused: bool) -> None:
    for equation in graph.equations:
        operands = [_read(atom, found) for atom in equation.inputs]
        results = _equation(equation, operands, fused)
        found.update(zip((value.id for value in equation.outputs), results, strict=True))


def _read(atom: Atom, found: Mapping[int, Bound]) -> Bound:
    if isinstance(atom, Value):
        return found[atom.id]
    wide = np.array(atom.value, np.float64 if atom.dtype.is_float else atom.dtype.dtype)
    return Bound.of(round_once(wide, atom.dtype) if atom.dtype.is_float else wide)


def _equation(equation: Equation, operands: list[Bound], fused: bool) -> Sequence[Bound]:
    name = equation.primitive
    if equation.regions:
        return _CONTROL[name](equation, operands, fused)
    values = apply(equation, [operand.value for operand in operands])
    if not any(is_float(operand.value) for operand in operands):
        return [Bound.of(value) for value in values]
    entry = lookup(name)
    if name == "kernel_call":
        return _kernel(equation, operands, values)
    if entry.stored or name in _SELECTING:
        return _moved(equation, operands, values)
    if not any(map(is_float, values)):
        assert all(np.all(operand.point) for operand in operands), f"{name} decides on a rounded float"
        return [Bound.of(value) for value in values]
    if entry.kind == "map":
        return [mapped(equation, _used(operands, name) if fused else operands, values[0])]
    return [_combined(equation, operands, values[0])]


#: Maps that use a product as it was rounded: nothing in them is an addition.
_DIRECT = frozenset({"neg", "abs", "min", "max", "sign", "mul", "cast"})


def _used(operands: list[Bound], name: str) -> list[Bound]:
    """Operands as an addition sees them: products perhaps without their rounding."""
    if name in _DIRECT:
        return operands
    return [_unrounded(operand) if operand.product else operand for operand in operands]


def _unrounded(bound: Bound) -> Bound:
    half = quantum(np.maximum(np.abs(bound.low), np.abs(bound.high)), dtype_of(bound.value)) / 2
    return replace(bound, low=bound.low - half, high=bound.high + half)


# --- movement and choice ----------------------------------------------------------------------------------------------

_SELECTING = frozenset({"reduce_max", "reduce_min", "cummax", "cummin", "scatter_max", "scatter_min"})
#: The rule that says for each result whether anything holds of any element that it is made from.
_ANY = {
    "reduce_min": "reduce_max",
    "reduce_sum": "reduce_max",
    "reduce_prod": "reduce_max",
    "cummin": "cummax",
    "cumsum": "cummax",
    "cumprod": "cummax",
    "scatter_min": "scatter_max",
    "scatter_add": "scatter_max",
    "scatter_mul": "scatter_max",
}


def wide_rule(
    equation: Equation, arrays: Sequence[Array], *, name: str = "", params: Params | None = None
) -> tuple[Array, ...]:
    """The oracle's rule, or that of another primitive, on float64 in place of every float, not rounded."""
    wide = [array.astype(np.float64) if is_float(array) else array for array in arrays]
    inputs = tuple(_wide(atom.spec) for atom in equation.inputs)
    outputs = tuple(_wide(value.spec) for value in equation.outputs)

    def none(region: Graph, operands: Sequence[Array]) -> tuple[Array, ...]:
        raise AssertionError("an equation without regions runs none")

    call = OracleCall(equation.params if params is None else params, inputs, outputs, (), none)
    found = lookup(name or equation.primitive).oracle(call, *wide)
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


def _wide(spec: ArraySpec) -> ArraySpec:
    return ArraySpec(f64, spec.shape) if spec.dtype.is_float else spec


def any_of(equation: Equation, operands: Sequence[Bound], mask: Callable[[Bound], Array]) -> Array:
    """For each element of the first result, whether the mask holds for any float element that it is made from."""
    arrays = [np.asarray(mask(o)).astype(np.float64) if is_float(o.value) else o.value for o in operands]
    if equation.primitive == "dot_general":
        left, right = arrays
        first = wide_rule(equation, (left, np.ones(right.shape)))[0]
        return (first + wide_rule(equation, (np.ones(left.shape), right))[0]) > 0
    name = _ANY.get(equation.primitive, equation.primitive)
    return wide_rule(equation, arrays, name=name)[0] > 0


def _moved(equation: Equation, operands: list[Bound], values: Sequence[Array]) -> list[Bound]:
    """What a rule gives that copies elements, or takes extremes; rules that compare do so on exact keys."""
    lows, highs = (wide_rule(equation, [getattr(o, side) for o in operands]) for side in ("low", "high"))
    if equation.primitive in _SELECTING:
        wilds: Sequence[Array] = (any_of(equation, operands, lambda bound: bound.wild),)
    else:
        keys = 1 if equation.primitive in ("sort", "top_k") else 0
        masks = [
            o.wild.astype(np.float64) if is_float(o.value) and number >= keys else o.value
            for number, o in enumerate(operands)
        ]
        fill = {"fill": 0} if "fill" in equation.params else {}
        wilds = wide_rule(equation, masks, params=Params(dict(equation.params) | fill))
        wilds = [np.zeros(wild.shape, np.bool_) if n < keys else wild > 0 for n, wild in enumerate(wilds)]
    product = any(operand.product for operand in operands)
    results: list[Bound] = []
    for value, low, high, wild in zip(values, lows, highs, wilds, strict=True):
        moved = settled(value, low, high, wild, np.isnan(low), dtype_of(value)) if is_float(value) else Bound.of(value)
        results.append(replace(moved, product=product))
    return results


def _kernel(equation: Equation, operands: list[Bound], values: Sequence[Array]) -> list[Bound]:
    """The table's example of a kernel_call: every element doubled."""
    (x,), (value,) = operands, values
    return [settled(value, 2 * x.low, 2 * x.high, x.wild, np.isnan(x.low), f32)]


# --- sums and products ------------------------------------------------------------------------------------------------


def _combined(equation: Equation, operands: list[Bound], value: Array) -> Bound:
    """Sums, products and contractions: within (n + 1) eps of the sum of magnitudes, as the table's entry says."""
    terms = equation_terms(equation)
    dtype = equation.outputs[0].dtype
    wild = any_of(equation, operands, lambda bound: bound.wild)
    certain = any_of(equation, operands, lambda bound: np.isnan(bound.low) & ~bound.wild)
    certain |= ~any_of(equation, operands, lambda bound: ~bound.point)
    # What is wild is wild in the result; its endpoints are of no use.
    calm = [
        replace(o, low=np.where(o.wild, 0.0, o.low), high=np.where(o.wild, 0.0, o.high)) if is_float(o.value) else o
        for o in operands
    ]
    low, high, magnitude = _ENDPOINTS[equation.primitive](equation, calm)
    # float64 itself rounds the endpoints as often as a device may round the result.
    accumulator = cast("DType", equation.params.get("accumulate", dtype))
    precision = min(FORMATS[dtype][0], FORMATS[accumulator][0])
    eps = 2.0**-precision * (2 if dtype is f64 else 1)
    slack = terms * eps * magnitude + quantum(np.zeros(()), dtype)
    points = ~any_of(equation, operands, lambda bound: ~bound.point)
    infinite = np.isinf(value.astype(np.float64)) & points & (low == high)
    greatest = min(float(f32.max if each.bits < 32 else each.max) for each in (dtype, accumulator))
    past = ~(magnitude < greatest) & ~infinite & ~certain
    found = settled(value, low - slack, high + slack, wild | past, certain, dtype)
    return replace(found, product=_ENDPOINTS[equation.primitive] is _products)


def _linear(equation: Equation, operands: list[Bound]) -> tuple[Array, Array, Array]:
    low, high, most = (
        wide_rule(equation, [side(o) if is_float(o.value) else o.value for o in operands])[0]
        for side in (lambda o: o.low, lambda o: o.high, _most)
    )
    return low, high, most


def _dot(equation: Equation, operands: list[Bound]) -> tuple[Array, Array, Array]:
    middles = [(o.low + o.high) / 2 for o in operands]
    radii = [(o.high - o.low) / 2 for o in operands]
    radii = [np.where(o.low == o.high, 0.0, radius) for o, radius in zip(operands, radii, strict=True)]
    middles = [np.where(o.low == o.high, o.low, middle) for o, middle in zip(operands, middles, strict=True)]
    most = [np.abs(middle) + radius for middle, radius in zip(middles, radii, strict=True)]
    centre = wide_rule(equation, middles)[0]
    reach = wide_rule(equation, (np.abs(middles[0]), radii[1]))[0] + wide_rule(equation, (radii[0], most[1]))[0]
    return centre - reach, centre + reach, wide_rule(equation, most)[0]


def _products(equation: Equation, operands: list[Bound]) -> tuple[Array, Array, Array]:
    """Factors that are at most M and r away from the oracle's give a product at most prod(M + r) - prod(M) away."""

    def rule(side: Callable[[Bound], Array]) -> Array:
        return wide_rule(equation, [side(o) if is_float(o.value) else o.value for o in operands])[0]

    value, above = rule(lambda o: o.value), rule(_most)
    reach = rule(lambda o: _most(o) + np.where(o.low == o.high, 0.0, o.high - o.low)) - above
    # Partial products may be as large as those of the large factors alone, and what underflows in them as well.
    greatest = rule(lambda o: np.maximum(_most(o), 1.0))
    dtype = equation.outputs[0].dtype
    limit = float(f32.max if dtype.bits < 32 else dtype.max)
    lost = equation_terms(equation) * quantum(np.zeros(()), f32 if dtype.bits < 32 else dtype) * greatest
    reach = np.where(greatest < limit, reach + lost, np.inf)
    return value - reach, value + reach, above


def _most(bound: Bound) -> Array:
    return np.maximum(np.abs(bound.low), np.abs(bound.high))


def equation_terms(equation: Equation) -> int:
    """How many roundings the table grants an equation."""
    depth = lookup(equation.primitive).numerics.depth
    assert depth is not None
    return depth(tuple(atom.spec for atom in equation.inputs), equation.params) + 1


_ENDPOINTS: dict[str, Callable[[Equation, list[Bound]], tuple[Array, Array, Array]]] = {
    "reduce_sum": _linear,
    "cumsum": _linear,
    "scatter_add": _linear,
    "dot_general": _dot,
    "reduce_prod": _products,
    "cumprod": _products,
    "scatter_mul": _products,
}


# --- regions ----------------------------------------------------------------------------------------------------------


def _region(region: Graph, operands: Sequence[Bound], fused: bool) -> list[Bound]:
    found = {variable.value.id: operand for variable, operand in zip(region.inputs, operands, strict=True)}
    _run(region, found, fused)
    return [_read(atom, found) for atom in region.outputs]


def _cond(equation: Equation, operands: list[Bound], fused: bool) -> Sequence[Bound]:
    return _region(equation.regions[int(operands[0].value)], operands[1:], fused)


def _while(equation: Equation, operands: list[Bound], fused: bool) -> Sequence[Bound]:
    first, second = (int(equation.params[key]) for key in ("condition_consts", "body_consts"))  # type: ignore[arg-type]
    condition, body = equation.regions
    consts, carry = operands[first : first + second], operands[first + second :]
    while _region(condition, [*operands[:first], *carry], fused)[0].value:
        carry = _region(body, [*consts, *carry], fused)
    return carry


def _scan(equation: Equation, operands: list[Bound], fused: bool) -> Sequence[Bound]:
    consts, count, length = (int(equation.params[key]) for key in ("consts", "carry", "length"))  # type: ignore[arg-type]
    fixed, carry, xs = operands[:consts], operands[consts : consts + count], operands[consts + count :]
    steps = list(range(length))
    rows: dict[int, list[Bound]] = {}
    for step in reversed(steps) if equation.params["reverse"] else steps:
        results = _region(equation.regions[0], [*fixed, *carry, *(_row(x, step) for x in xs)], fused)
        carry, rows[step] = results[:count], results[count:]
    specs = [value.spec for value in equation.outputs[count:]]
    return [*carry, *(_stacked(spec, [rows[step][n] for step in steps]) for n, spec in enumerate(specs))]


def _row(bound: Bound, step: int) -> Bound:
    parts = (np.asarray(part[step]) for part in (bound.value, bound.low, bound.high, bound.wild))
    return Bound(*parts, product=bound.product)


def _stacked(spec: ArraySpec, rows: Sequence[Bound]) -> Bound:
    if not rows:
        return Bound.of(np.zeros(spec.shape, spec.dtype.dtype))
    parts = (np.stack([getattr(row, name) for row in rows]) for name in ("value", "low", "high", "wild"))
    return Bound(*parts, product=any(row.product for row in rows))


_CONTROL = {"cond": _cond, "while_loop": _while, "scan": _scan}
