"""The makers of `random_graphs`: each adds equations to a generator, or gives False where it found no operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from poot.dtypes import FLOATS, INTEGERS, NUMBERS, ArraySpec, DType, bool_, f32, f64
from poot.plan.kernel_call import KERNEL_CALL
from poot.trace.graph import Literal
from poot.trace.primitives import lookup, table
from tests.random_control import CONTROL
from tests.random_facts import grid_of
from tests.random_moves import MOVES

if TYPE_CHECKING:
    from tests.random_graphs import Generator, Known

Maker = Callable[["Generator"], bool]
Pair = tuple[int, int]

#: Operations on floats that stay exact on exact operands, and those whose result jumps.
_EXACT = {"neg", "abs", "sign", "add", "sub", "mul", "min", "max", "floor", "ceil", "round", "trunc", "rem"}
_JUMPS = {
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "floor_div",
    "rem",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "is_finite",
}
#: Operations that give NaN for numbers below zero: mostly they are given magnitudes.
_POSITIVE = {"log", "log1p", "sqrt", "rsqrt", "pow"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "is_finite"}


def make(g: Generator) -> None:
    """Add the equations of one maker, each as likely as any other."""
    for _ in range(20):
        if makers()[int(g.rng.integers(len(makers())))](g):
            return


def makers() -> list[Maker]:
    """One maker for every primitive of the table that has one."""
    if not _MAKERS:
        _MAKERS.update({entry.name: _map_maker(entry.name) for entry in table() if entry.kind == "map"})
        _MAKERS.update({name: _reduce_maker(name) for name in REDUCTIONS})
        _MAKERS.update({**MOVES, **CONTROL, "dot_general": _dot_general, "kernel_call": _kernel_call, "input": _input})
    return list(_MAKERS.values())


_MAKERS: dict[str, Maker] = {}
REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all")


# --- maps -------------------------------------------------------------------------------------------------------------


def _bounds(name: str, knowns: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(most, grain) of the result of an exact operation."""
    most, grain = knowns[0]
    if name in ("floor", "ceil", "round", "trunc", "sign"):
        return (most >> grain) + 1, 0
    if len(knowns) == 1:
        return most, grain
    if name == "mul":
        return most * knowns[1][0], grain + knowns[1][1]
    left, right, grain = grid_of(knowns[0], knowns[1])
    if name in ("min", "max", "select"):
        return max(left, right), grain
    return (right if name == "rem" else left + right), grain


def _map_maker(name: str) -> Maker:
    special = {"select": _select, "cast": _cast, "bitcast": _bitcast}.get(name)
    if special is not None:
        return special
    entry = lookup(name)
    count = len(entry.examples[0].shapes)

    def maker(g: Generator) -> bool:
        first = g.pick(lambda known: known.dtype in entry.dtypes)
        if first is None:
            return False
        if name in _POSITIVE and g.family == "float" and first.dtype.is_float and g.rng.integers(4):
            first = g.know(g.emit("abs", (first,)), rounded=first.rounded)
        operands: list[Known | Literal] = [first]
        facts = [(first.most, first.grain)]
        rounded = first.rounded
        for _ in range(count - 1):
            other = g.pick(lambda known: known.dtype is first.dtype and known.shape in ((), first.shape))
            if other is None or g.rng.integers(4) == 0:
                number, most, grain = g.number(first.dtype)
                operands.append(number)
                facts.append((most, grain))
            else:
                operands.append(other)
                facts.append((other.most, other.grain))
                rounded |= other.rounded
        if not first.dtype.is_float:
            g.know(g.emit(name, operands))
            return True
        if g.family == "float" and rounded and name in _JUMPS:
            return False
        if name in _COMPARISONS:
            g.know(g.emit(name, operands))
            return True
        if g.family == "exact":
            if name not in _EXACT:
                return False
            most, grain = _bounds(name, facts)
            if not g.fits(first.dtype, most):
                return False
            g.know(g.emit(name, operands), most, grain)
            return True
        exact = {"neg", "abs", "min", "max", *_JUMPS} - {"floor_div"}
        g.know(g.emit(name, operands), rounded=rounded or name not in exact)
        return True

    return maker


def _select(g: Generator) -> bool:
    condition = g.pick(lambda known: known.dtype is bool_)
    if condition is None:
        return False
    first = g.pick(lambda known: condition.shape in ((), known.shape) or known.shape == ())
    if first is None:
        return False
    shape = condition.shape or first.shape
    second = g.pick(lambda known: known.dtype is first.dtype and known.shape in ((), shape))
    if second is None:
        return False
    left, right, grain = grid_of((first.most, first.grain), (second.most, second.grain))
    if not g.fits(first.dtype, max(left, right)):
        return False
    g.know(g.emit("select", (condition, first, second)), max(left, right), grain, first.rounded or second.rounded)
    return True


def _cast(g: Generator) -> bool:
    known = g.pick(lambda known: True)
    target: DType = g.choose(g.dtypes)
    if known is None or (known.dtype.is_float and not target.is_float and not g.jumps_allowed(known)):
        return False
    most, grain, rounded = known.most, known.grain, known.rounded
    if not known.dtype.is_float:
        most, grain = (1 << known.dtype.bits if known.dtype is not bool_ else 1), 0
        rounded = False
    if target.is_float:
        if not g.fits(target, most):
            return False
        rounded |= g.family != "exact"
    g.know(g.emit("cast", (known,), dtype=target), most, grain, rounded and target.is_float)
    return True


def _bitcast(g: Generator) -> bool:
    # The sign and payload of a NaN are not the same everywhere, so that its bits are looked at in "any" graphs alone.
    known = g.pick(lambda known: known.dtype in (NUMBERS if g.family == "any" else INTEGERS))
    if known is None:
        return False
    targets = [d for d in g.some(NUMBERS) if d.bits == known.dtype.bits and (g.family == "any" or not d.is_float)]
    g.know(g.emit("bitcast", (known,), dtype=g.choose(targets)))
    return True


# --- reductions and contractions ------------------------------------------------------------------------------------


def _reduce_maker(name: str) -> Maker:
    entry = lookup(name)

    def maker(g: Generator) -> bool:
        known = g.pick(lambda known: known.dtype in entry.dtypes)
        if known is None:
            return False
        axes = tuple(axis for axis in range(len(known.shape)) if g.rng.integers(2))
        count = math.prod(known.shape[axis] for axis in axes)
        most, grain = known.most, known.grain
        if name == "reduce_sum":
            most *= max(count, 1)
        elif name == "reduce_prod":
            if count > 64:
                return False
            most, grain = max(most, 1 << grain) ** max(count, 1), grain * max(count, 1)
        if known.dtype.is_float and not g.fits(known.dtype, most):
            return False
        sums = name in ("reduce_sum", "reduce_prod") and g.family != "exact"
        g.know(g.emit(name, (known,), axes=axes), most, grain, known.rounded or sums)
        return True

    return maker


def _dot_general(g: Generator) -> bool:
    left = g.pick(lambda known: known.dtype is not bool_ and len(known.shape) >= 1)
    if left is None:
        return False
    right = g.pick(lambda known: known.dtype is left.dtype and any(extent in left.shape for extent in known.shape))
    if right is None:
        return False
    contract, batch = _pairs(g, left.shape, right.shape)
    taken = {side: {pair[side] for pair in (*contract, *batch)} for side in (0, 1)}
    shape = [left.shape[a] for a, _ in batch]
    shape += [n for axis, n in enumerate(left.shape) if axis not in taken[0]]
    shape += [n for axis, n in enumerate(right.shape) if axis not in taken[1]]
    if not g.small(shape):
        return False
    dtype = left.dtype
    if dtype.is_float:
        accumulate: DType = dtype if dtype is f64 else f32
        result: DType = g.choose([d for d in g.some(FLOATS) if d.bits >= dtype.bits]) if g.family != "exact" else dtype
    else:
        accumulate = g.choose([d for d in g.some(INTEGERS) if d.bits >= dtype.bits])
        result = g.choose(g.some(INTEGERS))
    most = left.most * right.most * max(math.prod(left.shape[a] for a, _ in contract), 1)
    if not g.fits(dtype, most):
        return False
    sides = {"contract": _axes(contract), "batch": _axes(batch)}
    params = {**sides, "accumulate": accumulate, "dtype": result}
    handle = g.emit("dot_general", (left, right), **params)
    g.know(handle, most, left.grain + right.grain, dtype.is_float and g.family != "exact")
    return True


def _pairs(g: Generator, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[list[Pair], list[Pair]]:
    """Axes of equal extents: some to contract, some, more seldom, to go through together."""
    places: list[Pair] = [(a, b) for a, m in enumerate(left) for b, n in enumerate(right) if m == n]
    contract: list[Pair] = []
    batch: list[Pair] = []
    for place in g.rng.permutation(len(places)):
        pair = places[int(place)]
        if any(pair[0] == a or pair[1] == b for a, b in (*contract, *batch)):
            continue
        if not contract or g.rng.integers(2):
            (batch if contract and g.rng.integers(2) else contract).append(pair)
    return contract, batch


def _axes(pairs: Sequence[Pair]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _kernel_call(g: Generator) -> bool:
    """The table's example of a kernel: it doubles five numbers."""
    known = g.pick(lambda known: known.dtype is f32 and known.spec.size >= 5)
    if known is None or not g.fits(f32, 2 * known.most):
        return False
    flat = g.emit("reshape", (known,), shape=(known.spec.size,))
    five = g.know(flat, known.most, known.grain, known.rounded)
    if known.spec.size > 5:
        part = g.emit("slice", (five,), start=(0,), limit=(5,), step=(1,))
        five = g.know(part, known.most, known.grain, known.rounded)
    g.know(g.emit("kernel_call", (five,), **KERNEL_CALL.examples[0].params), 2 * known.most, known.grain, known.rounded)
    return True


def _input(g: Generator) -> bool:
    shapes = ((), (), (1,), (7,), (3, 5), (4, 1, 9))
    spec = ArraySpec(g.choose(g.dtypes), g.choose(shapes))
    if g.depth:
        return False
    g.fresh(spec)
    return True
