"""Makers of `random_steps` that move elements, choose them by index, put them in order or accumulate them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from poot.dtypes import INTEGERS, NUMBERS, bool_, i32, i64, u32
from poot.trace.graph import Literal
from tests.random_facts import grid_of

if TYPE_CHECKING:
    from tests.random_graphs import Generator, Known


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
    shape: list[int] = [size]
    for _ in range(int(g.rng.integers(3)) if size else 0):
        first = g.choose([n for n in range(1, shape[-1] + 1) if shape[-1] % n == 0])
        shape[-1:] = [first, shape[-1] // first]
    if not size and g.rng.integers(2):
        shape = [2, 0]
    return _moved(g, known, "reshape", shape=tuple(shape))


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
    left, right, grain = grid_of((known.most, known.grain), (most, grain))
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
    left, right, grain = grid_of((known.most, known.grain), (update.most, update.grain))
    if not g.fits(known.dtype, max(left, right)):
        return False
    handle = g.emit("dynamic_update_slice", (known, update, *_starts(g, len(known.shape))))
    g.know(handle, max(left, right), grain, known.rounded or update.rounded)
    return True


# --- scans and orders -------------------------------------------------------------------------------------------------


def _some_axis(g: Generator, wanted: Any = lambda known: True) -> tuple[Known, int] | None:
    known = g.pick(lambda known: len(known.shape) > 0 and wanted(known))
    return None if known is None else (known, int(g.rng.integers(len(known.shape))))


def _cumulative(name: str) -> Any:
    def maker(g: Generator) -> bool:
        found = _some_axis(g, lambda known: known.dtype in NUMBERS)
        if found is None:
            return False
        known, axis = found
        count, most, grain = max(known.shape[axis], 1), known.most, known.grain
        if name == "cumsum":
            most *= count
        elif name == "cumprod":
            if count > 64:
                return False
            most, grain = max(most, 1 << grain) ** count, grain * count
        if not g.fits(known.dtype, most):
            return False
        rounded = known.rounded or (name in ("cumsum", "cumprod") and g.family != "exact")
        handle = g.emit(name, (known,), axis=axis, reverse=bool(g.rng.integers(2)))
        g.know(handle, most, grain, rounded)
        return True

    return maker


def _position(name: str) -> Any:
    def maker(g: Generator) -> bool:
        found = _some_axis(g, lambda known: 0 not in known.shape and g.jumps_allowed(known))
        if found is None:
            return False
        g.know(g.emit(name, (found[0],), axis=found[1], dtype=g.choose(g.some((i32, i64)))))
        return True

    return maker


def _long(g: Generator, extent: int) -> bool:
    """Whether to leave out rows that are sorted by a network: many stages, so that a few are enough."""
    return extent > 64 and bool(g.rng.integers(12))


def _sort(g: Generator) -> bool:
    found = _some_axis(g, g.jumps_allowed)
    if found is None or _long(g, found[0].shape[found[1]]):
        return False
    keys, axis = found
    other = g.pick(lambda known: known.shape == keys.shape)
    assert other is not None
    params = {"axis": axis, "descending": bool(g.rng.integers(2))}
    handles = g.builder.emit("sort", (keys.handle, other.handle), params)
    for known, handle in zip((keys, other), handles, strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _top_k(g: Generator) -> bool:
    found = _some_axis(g, g.jumps_allowed)
    if found is None or _long(g, found[0].shape[-1]):
        return False
    known, _ = found
    values, places = g.builder.emit("top_k", (known.handle,), {"k": int(g.rng.integers(known.shape[-1] + 1))})
    g.know(values, known.most, known.grain, known.rounded)
    g.know(places)
    return True


def _scatter(name: str) -> Any:
    def maker(g: Generator) -> bool:
        found = _some_axis(g, lambda known: 0 not in known.shape and (name == "scatter" or known.dtype is not bool_))
        index = g.pick(lambda known: known.dtype in INTEGERS and known.spec.size <= 7)
        if found is None or index is None:
            return False
        known, axis = found
        updates = g.pick(lambda other: other.dtype is known.dtype and other.shape == _without(known.shape, axis))
        if updates is None:
            return False
        count = index.spec.size
        left, right, grain = grid_of((known.most, known.grain), (updates.most, updates.grain))
        most = left + count * right if name == "scatter_add" else max(left, right)
        if name == "scatter_mul":
            factor = max(updates.most, 1 << updates.grain)
            most, grain = max(known.most, 1 << known.grain) * factor**count, known.grain + updates.grain * count
        if not g.fits(known.dtype, most):
            return False
        mode = g.choose(("clip", "wrap", "drop", "fault"))
        if mode == "fault":
            if known.shape[axis] > index.dtype.max:
                return False
            index = g.know(g.emit("rem", (index, Literal(known.shape[axis], index.dtype))))
        column = g.know(g.emit("reshape", (index,), shape=(count, 1)))
        dims = tuple(range(1, 1 + len(updates.shape)))
        window = g.emit("broadcast", (updates,), shape=(count, *updates.shape), dims=dims)
        window = g.know(window, updates.most, updates.grain, updates.rounded)
        handle = g.emit(name, (known, column, window), axes=(axis,), mode=mode)
        rounded = known.rounded or updates.rounded or (name in ("scatter_add", "scatter_mul") and g.family != "exact")
        g.know(handle, most, grain, rounded)
        return True

    return maker


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _random_bits(g: Generator) -> bool:
    key = g.know(g.emit("iota", (), dtype=u32, shape=(2,), axis=0))
    g.know(g.emit("random_bits", (key,), shape=g.choose(((), (5,), (3, 4))), dtype=u32))
    return True


MOVES: dict[str, Any] = {
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
    **{name: _cumulative(name) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    **{name: _position(name) for name in ("argmax", "argmin")},
    "sort": _sort,
    "top_k": _top_k,
    **{name: _scatter(name) for name in ("scatter", "scatter_add", "scatter_mul", "scatter_max", "scatter_min")},
    "random_bits": _random_bits,
}
