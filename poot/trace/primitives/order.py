"""sort and top_k: stable, with NaN after every number and zeros equal.

Lowered into other primitives.  Keys become integers in the order of their values, ties are broken by position, so that
the order is strict and every method gives the same result: short rows by counting for each element those before it,
others by a bitonic network (K. E. Batcher, "Sorting Networks and Their Applications", 1968), whose stages are the turns
of a scan, so that one kernel serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poot.dtypes import BY_NAME, ArraySpec, bf16, bool_, f32, i32, i64, u8
from poot.errors import ArgumentError, ShapeError
from poot.trace.graph import Atom, Equation, Graph, Params
from poot.trace.graph import Literal as Number
from poot.trace.primitives import rules
from poot.trace.primitives.accumulate import flag
from poot.trace.primitives.base import Example, Inline, OracleCall, Primitive, register
from poot.trace.primitives.compose import Region, Step, as_rows, from_rows, stepper

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]

#: Rows up to this length are sorted by counting.
COUNTED = 64


def order_of(x: Array, axis: int, descending: bool) -> Array:
    """Positions that sort NumPy values, stably: NaN last, or first where descending."""
    keys = x.astype(np.float64) if x.dtype.kind not in "biu" else x
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    backwards = np.argsort(np.flip(keys, axis), axis, kind="stable")
    return np.flip(keys.shape[axis] - 1 - backwards, axis)


# --- lowering ---------------------------------------------------------------------------------------------------------


def _ordered_keys(step: Step, keys: Atom, descending: bool) -> Atom:
    """Integers in the order of the keys: those of floats from their bits, with NaN greatest and both zeros 0."""
    dtype = keys.dtype
    if dtype is bool_:
        keys = step("cast", keys, dtype=u8)
    elif dtype.is_float:
        signed = BY_NAME[f"i{dtype.bits}"]
        infinity = int(np.array(np.inf).astype(dtype.dtype).view(signed.dtype))
        bits = step("bitcast", keys, dtype=signed)
        magnitude = step("and", bits, Number(int(signed.max), signed))
        negative = step("lt", bits, Number(0, signed))
        # A negative float is greater the smaller its magnitude is; -0.0 has none.
        keys = step("select", negative, step("neg", magnitude), magnitude)
        keys = step("select", step("gt", magnitude, Number(infinity, signed)), Number(int(signed.max), signed), keys)
    return step("not", keys) if descending else keys


def _before(step: Step, key: Atom, place: Atom, other_key: Atom, other_place: Atom) -> Atom:
    """Whether an element stands before another."""
    tie = step("and", step("eq", key, other_key), step("lt", place, other_place))
    return step("or", step("lt", key, other_key), tie)


def _counted(step: Step, keys: Atom) -> Atom:
    rows, count = keys.shape
    cube = (rows, count, count)
    mine, theirs = (step("broadcast", keys, shape=cube, dims=(0, axis)) for axis in (1, 2))
    first, second = (step("iota", dtype=i32, shape=cube, axis=axis) for axis in (1, 2))
    earlier = step("cast", _before(step, theirs, second, mine, first), dtype=i32)
    rank = step("reduce_sum", earlier, axes=(2,))
    hit = step("eq", step("broadcast", rank, shape=cube, dims=(0, 2)), first)
    return step("reduce_sum", step("select", hit, second, Number(0, i32)), axes=(2,))


def _network(emit: Callable[..., Any], keys: Atom) -> Atom:
    """A scan over the stages of the network, two a turn, so that arrays change places twice."""
    step = stepper(emit)
    rows, count = keys.shape
    doublings = (count - 1).bit_length()
    size, stages = 1 << doublings, doublings * (doublings + 1) // 2
    last = Number(int(keys.dtype.max), keys.dtype)
    keys = step("pad", keys, last, low=(0, 0), high=(0, size - count), interior=(0, 0))
    places = step("iota", dtype=i32, shape=(rows, size), axis=1)
    block, distance = (step("broadcast", Number(number, i32), shape=(), dims=()) for number in (2, 1))
    body = Region([keys.spec, places.spec, block.spec, distance.spec])
    state: tuple[Atom, ...] = body.inputs
    for _ in range(2):
        state = (*_exchange(body.step, *state), *_next_stage(body.step, *state[2:]))
    counts: dict[str, Any] = {"consts": 0, "carry": 4, "length": (stages + 1) // 2, "reverse": False}
    region = body.finish(state, "stages")
    places = emit("scan", (keys, places, block, distance), regions=(region,), **counts)[1]
    return step("slice", places, start=(0, 0), limit=(rows, count), step=(1, 1))


def _next_stage(step: Step, block: Atom, distance: Atom) -> tuple[Atom, Atom]:
    """Half the distance; after a distance of 1 the next block, which begins with half of its length."""
    ends = step("eq", distance, Number(1, i32))
    following = step("select", ends, block, step("shift_right", distance, Number(1, i32)))
    return step("select", ends, step("shift_left", block, Number(1, i32)), block), following


def _exchange(step: Step, keys: Atom, places: Atom, block: Atom, distance: Atom) -> tuple[Atom, Atom]:
    """One stage: elements `distance` apart are put in order, upwards in every other block.

    Past the last stage the distance is the length of a row, and all stay as they are.
    """
    shape = keys.shape
    distance = step("and", distance, Number(shape[1] - 1, i32))
    place = step("iota", dtype=i32, shape=shape, axis=1)
    apart, inside = (step("broadcast", number, shape=shape, dims=()) for number in (distance, block))
    partner = step("xor", place, apart)
    other_key, other_place = _picked(step, keys, partner), _picked(step, places, partner)
    zero = step("broadcast", Number(0, i32), shape=shape, dims=())
    low = step("eq", step("and", place, apart), zero)
    upwards = step("eq", step("and", place, inside), zero)
    stays = step("eq", _before(step, keys, places, other_key, other_place), step("eq", low, upwards))
    # Gathered once more, so that the stage after this one finds its results in memory.
    chosen = step("select", stays, place, partner)
    return _picked(step, keys, chosen), _picked(step, places, chosen)


def _sorting_places(emit: Callable[..., Any], keys: Atom, descending: bool) -> Atom:
    """Positions (i32) that sort every row."""
    step = stepper(emit)
    rows, count = keys.shape
    if rows == 0 or count <= 1:
        return step("iota", dtype=i32, shape=(rows, count), axis=1)
    ordered = _ordered_keys(step, keys, descending)
    return _counted(step, ordered) if count <= COUNTED else _network(emit, ordered)


def _picked(step: Step, x: Atom, places: Atom) -> Atom:
    """The elements of every row at positions in it."""
    column = step("reshape", places, shape=(*places.shape, 1))
    return step("gather", x, column, axes=(1,), batch=1, mode="clip")


#: The longest axis whose length, rounded up to a power of two, is still an i32.
_LONGEST = 1 << 30


# --- sort -------------------------------------------------------------------------------------------------------------


def _sort_type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    rules.parameters("sort", params, "axis", "descending")
    rules.no_regions("sort", regions)
    if not specs:
        raise ArgumentError(what="sort: number of operands", actual=0, expected="at least 1")
    for number, spec in enumerate(specs, 1):
        if spec.shape != specs[0].shape:
            raise ShapeError(
                what=f"sort: operand {number}", actual=spec.shape, expected=f"{specs[0].shape}, as operand 1"
            )
    rules.told_apart("sort", specs[0].shape, rules.axis("sort", params, specs[0].rank), i32, _LONGEST)
    flag("sort", params, "descending")
    return specs


def _sort(call: OracleCall, *operands: Array) -> tuple[Array, ...]:
    axis = rules.integer("sort", call.params, "axis")
    order = order_of(operands[0], axis, flag("sort", call.params, "descending"))
    return tuple(np.take_along_axis(operand, order, axis) for operand in operands)


def _sort_body(emit: Callable[..., Any], equation: Equation) -> list[Atom]:
    step, axis = stepper(emit), rules.integer("sort", equation.params, "axis")
    operands = [as_rows(step, operand, axis) for operand in equation.inputs]
    places = _sorting_places(emit, operands[0], flag("sort", equation.params, "descending"))
    shape = equation.inputs[0].shape
    return [from_rows(step, _picked(step, operand, places), shape, axis) for operand in operands]


def _sort_examples() -> tuple[Example, ...]:
    found: list[Example] = []
    for descending in (False, True):
        for shape, axis in (((1,), 0), ((0,), 0), ((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 0, 3), 1)):
            params = Params(axis=axis, descending=descending)
            found += [Example((shape,), params), Example((shape, shape), params, dtypes=(None, i32))]
        long = Params(axis=1, descending=descending)
        found += [Example(((2, 70), (2, 70)), long, dtypes=(dtype, i32)) for dtype in (f32, bf16, u8, i64)]
    return tuple(found)


register(
    Primitive(
        "sort",
        "index",
        "the operands in the order of the first along `axis`; stable; NaN comes last, or first where descending",
        _sort_type,
        _sort,
        Inline(_sort_body),
        examples=_sort_examples(),
        stored=True,
    )
)


# --- top_k ------------------------------------------------------------------------------------------------------------


def _top_k_type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    rules.arity("top_k", specs, 1)
    rules.parameters("top_k", params, "k")
    rules.no_regions("top_k", regions)
    k, (operand,) = rules.integer("top_k", params, "k"), specs
    if operand.rank == 0 or not 0 <= k <= operand.shape[-1]:
        expected = f"an int between 0 and the last extent of {operand.shape}"
        raise ArgumentError(what="top_k: k", actual=k, expected=expected)
    rules.told_apart("top_k", operand.shape, operand.rank - 1, i32, _LONGEST)
    shape = (*operand.shape[:-1], k)
    return ArraySpec(operand.dtype, shape), ArraySpec(i32, shape)


def _top_k(call: OracleCall, x: Array) -> tuple[Array, Array]:
    order = order_of(x, x.ndim - 1, descending=True)[..., : rules.integer("top_k", call.params, "k")]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _top_k_body(emit: Callable[..., Any], equation: Equation) -> list[Atom]:
    step, shape = stepper(emit), equation.outputs[0].shape
    axis = len(shape) - 1
    rows = as_rows(step, equation.inputs[0], axis)
    places = _sorting_places(emit, rows, descending=True)
    places = step("slice", places, start=(0, 0), limit=(rows.shape[0], shape[-1]), step=(1, 1))
    return [from_rows(step, x, shape, axis) for x in (_picked(step, rows, places), places)]


register(
    Primitive(
        "top_k",
        "index",
        "the k greatest elements along the last axis, in descending order, and their positions (i32); NaN is greatest, "
        "and of equal elements the first comes first",
        _top_k_type,
        _top_k,
        Inline(_top_k_body),
        examples=(
            *(
                Example((shape,), Params(k=k))
                for shape, k in (((1,), 1), ((7,), 3), ((3, 5), 5), ((3, 5), 0), ((4, 1, 9), 2), ((0, 3), 2))
            ),
            Example(((2, 70),), Params(k=4), dtypes=(f32,)),
        ),
        stored=True,
    )
)
