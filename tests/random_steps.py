"""The makers of `random_graphs`: each adds equations to a generator, or gives False where it found no operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from poot.dtypes import FLOATS, INTEGERS, NUMBERS, ArraySpec, DType, bool_, f32, f64, i32
from poot.trace.graph import Literal, Params
from poot.trace.primitives import lookup, table

if TYPE_CHECKING:
    from tests.random_graphs import Generator, Known

Maker = Callable[["Generator"], bool]

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
        _MAKERS.update({entry.name: _reduce_maker(entry.name) for entry in table() if entry.kind == "reduce"})
        _MAKERS.update(_SPECIAL)
    return [maker for name, maker in _MAKERS.items()]


_MAKERS: dict[str, Maker] = {}


# --- maps -------------------------------------------------------------------------------------------------------------


def _grid_of(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int, int]:
    """Two (most, grain) on the finer of the two grains."""
    grain = max(a[1], b[1])
    return a[0] << (grain - a[1]), b[0] << (grain - b[1]), grain


def _bounds(name: str, knowns: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(most, grain) of the result of an exact operation."""
    most, grain = knowns[0]
    if name in ("floor", "ceil", "round", "trunc", "sign"):
        return (most >> grain) + 1, 0
    if len(knowns) == 1:
        return most, grain
    if name == "mul":
        return most * knowns[1][0], grain + knowns[1][1]
    left, right, grain = _grid_of(knowns[0], knowns[1])
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
        g.know(g.emit(name, operands), rounded=rounded or name not in ("neg", "abs", "min", "max", *_JUMPS))
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
    left, right, grain = _grid_of((first.most, first.grain), (second.most, second.grain))
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
    targets = [d for d in NUMBERS if d.bits == known.dtype.bits and (g.family == "any" or not d.is_float)]
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
    a, b = next((a, b) for a, m in enumerate(left.shape) for b, n in enumerate(right.shape) if m == n)
    shape = left.shape[:a] + left.shape[a + 1 :] + right.shape[:b] + right.shape[b + 1 :]
    if not g.small(shape):
        return False
    dtype = left.dtype
    if dtype.is_float:
        accumulate: DType = dtype if dtype is f64 else f32
        result: DType = g.choose([d for d in FLOATS if d.bits >= dtype.bits]) if g.family != "exact" else dtype
    else:
        accumulate = g.choose([d for d in INTEGERS if d.bits >= dtype.bits])
        result = g.choose(INTEGERS)
    most = left.most * right.most * max(left.shape[a], 1)
    if not g.fits(dtype, most):
        return False
    params = {"contract": ((a,), (b,)), "batch": ((), ()), "accumulate": accumulate, "dtype": result}
    handle = g.emit("dot_general", (left, right), **params)
    g.know(handle, most, left.grain + right.grain, dtype.is_float and g.family != "exact")
    return True


# --- movements --------------------------------------------------------------------------------------------------------


def _moved(g: Generator, known: Known, primitive: str, *others: Known | Literal, **params: Any) -> bool:
    g.know(g.emit(primitive, (known, *others), **params), known.most, known.grain, known.rounded)
    return True


def _any(g: Generator) -> Known:
    known = g.pick(lambda known: True)
    assert known is not None
    return known


def _broadcast(g: Generator) -> bool:
    known = _any(g)
    shape = [g.choose((2, 3)) if extent == 1 and g.rng.integers(2) else extent for extent in known.shape]
    dims = list(range(len(shape)))
    at = int(g.rng.integers(len(shape) + 1))
    shape.insert(at, g.choose((1, 2, 5)))
    dims = [dim + (dim >= at) for dim in dims]
    return g.small(shape) and _moved(g, known, "broadcast", shape=tuple(shape), dims=tuple(dims))


def _reshape(g: Generator) -> bool:
    known = _any(g)
    size = math.prod(known.shape)
    divisors = [n for n in range(1, size + 1) if size % n == 0] or [0]
    first = g.choose(divisors)
    shape = (first, size // first) if size else (0, 2)
    return _moved(g, known, "reshape", shape=shape if g.rng.integers(3) else (size,))


def _transpose(g: Generator) -> bool:
    known = _any(g)
    return _moved(g, known, "transpose", perm=tuple(int(axis) for axis in g.rng.permutation(len(known.shape))))


def _slice(g: Generator) -> bool:
    known = _any(g)
    start = [int(g.rng.integers(extent + 1)) if g.rng.integers(2) else 0 for extent in known.shape]
    step = [int(g.rng.integers(1, 3)) for _ in known.shape]
    return _moved(g, known, "slice", start=tuple(start), limit=known.shape, step=tuple(step))


def _reverse(g: Generator) -> bool:
    known = _any(g)
    return _moved(g, known, "reverse", axes=tuple(axis for axis in range(len(known.shape)) if g.rng.integers(2)))


def _concat(g: Generator) -> bool:
    known = g.pick(lambda known: len(known.shape) > 0)
    if known is None:
        return False
    axis = int(g.rng.integers(len(known.shape)))

    def matches(other: Known) -> bool:
        return (
            other.dtype is known.dtype
            and len(other.shape) == len(known.shape)
            and all(a == b for place, (a, b) in enumerate(zip(other.shape, known.shape, strict=True)) if place != axis)
        )

    parts = [part for _ in range(int(g.rng.integers(1, 4))) if (part := g.pick(matches)) is not None]
    grain = max(part.grain for part in parts)
    most = max(part.most << (grain - part.grain) for part in parts)
    shape = list(known.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    if not g.small(shape) or not g.fits(known.dtype, most):
        return False
    g.know(g.emit("concat", parts, axis=axis), most, grain, any(part.rounded for part in parts))
    return True


def _pad(g: Generator) -> bool:
    known = _any(g)
    fill, most, grain = g.number(known.dtype)
    low = tuple(int(g.rng.integers(-1, 3)) if extent else 0 for extent in known.shape)
    high = tuple(int(g.rng.integers(0, 3)) for _ in known.shape)
    interior = tuple(int(g.rng.integers(2)) for _ in known.shape)
    left, right, grain = _grid_of((known.most, known.grain), (most, grain))
    if not g.small([2 * extent + 5 for extent in known.shape]) or not g.fits(known.dtype, max(left, right)):
        return False
    handle = g.emit("pad", (known, fill), low=low, high=high, interior=interior)
    g.know(handle, max(left, right), grain, known.rounded)
    return True


def _iota(g: Generator) -> bool:
    dtype = g.choose([d for d in g.dtypes if d is not bool_] or [i32])
    shape = g.choose([(5,), (3, 4), (40,)])
    g.know(g.emit("iota", (), dtype=dtype, shape=shape, axis=int(g.rng.integers(len(shape)))), 40, 0)
    return True


def _gather(g: Generator) -> bool:
    known = g.pick(lambda known: len(known.shape) > 0 and 0 not in known.shape)
    index = g.pick(lambda known: known.dtype in INTEGERS and known.dtype.bits >= 8 and known.spec.size <= 32)
    if known is None or index is None:
        return False
    axis = int(g.rng.integers(len(known.shape)))
    extent = known.shape[axis]
    if extent > index.dtype.max or not g.small((*index.shape, *known.shape)):
        return False
    mode = g.choose(("fault", "clip", "wrap", "fill"))
    if mode == "fault":
        index = g.know(g.emit("rem", (index, Literal(extent, index.dtype))))
    column = g.know(g.emit("reshape", (index,), shape=(*index.shape, 1)))
    fill = {"fill": 1} if mode == "fill" and known.dtype is not bool_ else {"fill": True} if mode == "fill" else {}
    most = max(known.most, 1 << known.grain)
    if not g.fits(known.dtype, most):
        return False
    handle = g.emit("gather", (known, column), axes=(axis,), mode=mode, **fill)
    g.know(handle, most, known.grain, known.rounded)
    return True


def _starts(g: Generator, rank: int) -> list[Known | Literal]:
    index = g.pick(lambda known: known.dtype is i32 and known.shape == ())
    return [
        Literal(int(g.rng.integers(-3, 9)), i32) if index is None or g.rng.integers(2) else index for _ in range(rank)
    ]


def _dynamic_slice(g: Generator) -> bool:
    known = _any(g)
    sizes = tuple(int(g.rng.integers(extent + 1)) for extent in known.shape)
    return _moved(g, known, "dynamic_slice", *_starts(g, len(sizes)), sizes=sizes)


def _dynamic_update_slice(g: Generator) -> bool:
    known = _any(g)
    update = g.pick(
        lambda other: (
            other.dtype is known.dtype
            and len(other.shape) == len(known.shape)
            and all(a <= b for a, b in zip(other.shape, known.shape, strict=True))
        )
    )
    assert update is not None
    left, right, grain = _grid_of((known.most, known.grain), (update.most, update.grain))
    if not g.fits(known.dtype, max(left, right)):
        return False
    handle = g.emit("dynamic_update_slice", (known, update, *_starts(g, len(known.shape))))
    g.know(handle, max(left, right), grain, known.rounded or update.rounded)
    return True


# --- control ----------------------------------------------------------------------------------------------------------


def _bounded_like(inner: Generator, known: Known) -> Known:
    """A value of a region that may take the place of one of its inputs in the next turn."""
    found = inner.pick(
        lambda other: (
            other.spec == known.spec
            and (not known.dtype.is_float or inner.family == "any" or other.rounded <= known.rounded)
            and (
                inner.family != "exact"
                or not known.dtype.is_float
                or (other.grain <= known.grain and other.most << (known.grain - other.grain) <= known.most)
            )
        )
    )
    assert found is not None
    return found


def _region(g: Generator, name: str, operands: Sequence[Known], results: Sequence[int]) -> Any:
    inner, inputs = g.inner(name, operands)
    for _ in range(int(g.rng.integers(1, 4))):
        inner.step()
    outputs = tuple(_bounded_like(inner, inputs[number]).handle for number in results)
    return inner.builder.finish(outputs)


def _inputs_of(g: Generator, count: int) -> list[Known]:
    return [_any(g) for _ in range(count)]


def _cond(g: Generator) -> bool:
    flag = g.pick(lambda known: known.dtype is bool_ and known.shape == ())
    if g.depth > 1 or flag is None:
        return False
    operands = _inputs_of(g, int(g.rng.integers(1, 4)))
    results = range(len(operands))
    regions = [_region(g, name, operands, results) for name in ("when_false", "when_true")]
    handles = [flag.handle, *(known.handle for known in operands)]
    for known, handle in zip(operands, g.builder.emit("cond", handles, Params(), regions), strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _while_loop(g: Generator) -> bool:
    if g.depth > 1:
        return False
    counter = g.know(g.emit("iota", (), dtype=i32, shape=(1,), axis=0))
    counter = g.know(g.emit("reshape", (counter,), shape=()))
    operands = [counter, *_inputs_of(g, int(g.rng.integers(1, 3)))]
    condition, inputs = g.inner("condition", operands)
    limit = Literal(int(g.rng.integers(0, 4)), i32)
    regions = [condition.builder.finish((condition.emit("lt", (inputs[0], limit)),))]
    body, inputs = g.inner("body", operands)
    step = body.emit("add", (inputs[0], Literal(1, i32)))
    for _ in range(2):
        body.step()
    regions.append(body.builder.finish((step, *(_bounded_like(body, known).handle for known in inputs[1:]))))
    params = Params(condition_consts=0, body_consts=0)
    handles = g.builder.emit("while_loop", [known.handle for known in operands], params, regions)
    for known, handle in zip(operands, handles, strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _scan(g: Generator) -> bool:
    xs = g.pick(lambda known: len(known.shape) > 0 and known.shape[0] <= 12)
    if xs is None or g.depth > 1:
        return False
    carry = _inputs_of(g, 2)
    inner, inputs = g.inner("body", carry)
    x = inner.builder.input("x", ArraySpec(xs.dtype, xs.shape[1:]))
    element = inner.know(x, xs.most, xs.grain, xs.rounded)
    for _ in range(3):
        inner.step()
    results = (*(_bounded_like(inner, known).handle for known in inputs), _bounded_like(inner, element).handle)
    params = Params(consts=0, carry=2, length=xs.shape[0], reverse=bool(g.rng.integers(2)))
    operands = [*(known.handle for known in carry), xs.handle]
    handles = g.builder.emit("scan", operands, params, (inner.builder.finish(results),))
    for known, handle in zip((*carry, xs), handles, strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _input(g: Generator) -> bool:
    shapes = ((), (), (1,), (7,), (3, 5), (4, 1, 9))
    spec = ArraySpec(g.choose(g.dtypes), g.choose(shapes))
    if g.depth:
        return False
    g.fresh(spec)
    return True


_SPECIAL: dict[str, Maker] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "concat": _concat,
    "pad": _pad,
    "iota": _iota,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "dot_general": _dot_general,
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "": _input,
}
