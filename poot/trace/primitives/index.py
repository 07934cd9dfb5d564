"""INDEX primitives: elements chosen by integer operands.

`gather` picks windows of its first operand.  Its second, of any integer dtype, has shape (batch…, position…, k): its
last axis holds one index for each of the k `axes` of the operand.  The first `batch` axes of both operands run together
(0 if not given).  The result has the axes (batch…, position…, window…), where the window is all other axes of the
operand, whole and in order:

    result[b, p, w] = operand[b, w with indices[b, p, j] on axes[j]]

So an embedding lookup has axes=(0,), take_along_axis has all leading axes as batch and axes=(last,), and x[i, :, j]
axes=(0, 2).  Negative indices are out of range.  `mode` says what happens there: "fault" raises IndexFault (on devices
the load yields 0 and the fault is recorded), "clip" takes the nearest valid index, "wrap" the index modulo the extent,
and "fill" gives the parameter `fill`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from poot.dtypes import INTEGERS, ArraySpec, i8, i32, i64, u8, u32
from poot.errors import ArgumentError, IndexFault, ScatterFault, ShapeError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.literals import literal
from poot.trace.primitives import rules
from poot.trace.primitives.base import Example, OracleCall, Primitive, Pull, PullContext, Update, Writer, register
from poot.trace.primitives.indexing import all_of, check_index, clamped, fits, within, wrapped

Array = np.ndarray[Any, Any]
Index = tuple[Expr, ...]

MODES = ("fault", "clip", "wrap", "fill")


# --- gather ---------------------------------------------------------------------------------------------------------


def batch_axes(params: Params) -> int:
    """How many leading axes of operand and indices run together."""
    return cast("int", params.get("batch", 0))


def window_axes(operand: ArraySpec, params: Params) -> tuple[int, ...]:
    """The axes of the operand that are neither batch axes nor indexed."""
    taken = rules.integers("gather", params, "axes")
    return tuple(axis for axis in range(batch_axes(params), operand.rank) if axis not in taken)


def _gather_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("gather", specs, 2)
    rules.parameters("gather", params, "axes", "mode", optional=("batch", "fill"))
    rules.no_regions("gather", regions)
    operand, indices = specs
    positions = check_indices("gather", operand, indices, params, MODES)
    mode, fill = params["mode"], params.get("fill")
    if (mode == "fill") != (fill is not None):
        expected = "a number, with mode='fill'" if mode == "fill" else "no such parameter but with mode='fill'"
        raise ArgumentError(what="gather: fill", actual=fill, expected=expected)
    if fill is not None:
        literal(cast("bool | int | float", fill), operand.dtype)
    window = tuple(operand.shape[axis] for axis in window_axes(operand, params))
    return (ArraySpec(operand.dtype, positions + window),)


def check_indices(
    name: str, operand: ArraySpec, indices: ArraySpec, params: Params, modes: tuple[str, ...]
) -> tuple[int, ...]:
    """The position axes, batch axes included, after indices and their parameters have been checked."""
    rules.admit(name, indices, INTEGERS, operand=2)
    mode = rules.choice(name, params, "mode", modes)
    batch = rules.integer(name, params, "batch") if "batch" in params else 0
    axes = rules.axes(name, params, operand.rank)
    if not axes or not 0 <= batch <= axes[0]:
        raise ArgumentError(what=f"{name}: axes and batch", actual=(axes, batch), expected="axes after the batch axes")
    if indices.rank <= batch or indices.shape[-1] != len(axes) or indices.shape[:batch] != operand.shape[:batch]:
        expected = f"{operand.shape[:batch]} first and {len(axes)} last, for axes={axes} and batch={batch}"
        raise ShapeError(what=f"{name}: indices", actual=indices.shape, expected=expected)
    if mode in ("clip", "wrap") and indices.size and any(operand.shape[axis] == 0 for axis in axes):
        raise ShapeError(what=f"{name}: operand 1", actual=operand.shape, expected=f"no empty axis for mode={mode!r}")
    return indices.shape[:-1]


def resolve(
    name: str, indices: Array, extents: tuple[int, ...], axes: tuple[int, ...], mode: str
) -> tuple[Array, Array]:
    """Valid int64 indices (0 where there is none) and, for each position, whether it is in range; or IndexFault."""
    limits = np.array(extents, np.int64)
    outside = (indices < 0) | (indices.astype(np.uint64) >= limits.astype(np.uint64))
    inside = np.asarray(~outside.any(axis=-1))
    if mode == "fault" and outside.any():
        place = tuple(int(item[0]) for item in np.nonzero(outside))
        axis = place[-1]
        error = ScatterFault if name.startswith("scatter") else IndexFault
        raise error(what=name, index=int(indices[place]), axis=axes[axis], extent=extents[axis])
    if mode == "wrap":
        wide = indices.astype(np.uint64 if indices.dtype.kind == "u" else np.int64)
        return np.mod(wide, np.maximum(limits, 1).astype(wide.dtype)).astype(np.int64), inside
    if mode == "clip":
        return np.where(indices < 0, 0, np.where(outside, limits - 1, indices)).astype(np.int64), inside
    return np.where(outside, 0, indices).astype(np.int64), inside


def positions_index(indices: Array, batch: int) -> tuple[Array, ...]:
    """An index for NumPy of an array whose batch axes and indexed axes come first: one int array an axis, broadcast."""
    positions = indices.shape[:-1]
    leading: list[Array] = [
        np.arange(extent, dtype=np.int64).reshape([-1 if place == axis else 1 for place in range(len(positions))])
        for axis, extent in enumerate(positions[:batch])
    ]
    return (*leading, *(indices[..., item] for item in range(indices.shape[-1])))


def _gather(call: OracleCall, operand: Array, indices: Array) -> Array:
    axes, mode, batch = rules.integers("gather", call.params, "axes"), str(call.params["mode"]), batch_axes(call.params)
    valid, inside = resolve("gather", indices, tuple(operand.shape[axis] for axis in axes), axes, mode)
    window = window_axes(call.inputs[0], call.params)
    if any(operand.shape[axis] == 0 for axis in axes):
        found = np.zeros(call.outputs[0].shape, operand.dtype)
    else:
        ordered = operand.transpose(*range(batch), *axes, *window)
        found = ordered[positions_index(valid, batch)]
    if mode != "fill":
        return found
    fill = literal(cast("bool | int | float", call.params["fill"]), call.outputs[0].dtype).value
    return np.where(inside.reshape(inside.shape + (1,) * len(window)), found, np.array(fill).astype(operand.dtype))


def _gather_read(context: PullContext, index: Index) -> Expr:
    k, (operand, indices), mode = context.k, context.inputs, str(context.params["mode"])
    axes, batch = rules.integers("gather", context.params, "axes"), batch_axes(context.params)
    positions = index[: indices.rank - 1]
    raw = [k.let(context.readers[1]([*positions, k.i(item)]), "index") for item in range(len(axes))]
    chosen = dict(
        zip(axes, (_in_mode(k, i, a, operand.shape[a], mode) for a, i in zip(axes, raw, strict=True)), strict=True)
    )
    chosen |= dict(enumerate(index[:batch]))
    chosen |= dict(zip(window_axes(operand, context.params), index[len(positions) :], strict=True))
    place = [chosen[axis] for axis in range(operand.rank)]
    if mode == "fault":
        return context.checked_readers[0](place)
    if mode != "fill":
        return context.readers[0](place)
    fill = literal(cast("bool | int | float", context.params["fill"]), operand.dtype)
    result = k.const(fill.value, operand.dtype)
    if any(operand.shape[axis] == 0 for axis in axes):
        return result
    inside = [condition for axis, i in zip(axes, raw, strict=True) for condition in within(k, i, operand.shape[axis])]
    found = k.let(result, "found")
    with k.if_(all_of(k, inside)):
        k.assign(found, context.readers[0](place))
    return found


def _in_mode(k: KernelBuilder, raw: Expr, axis: int, extent: int, mode: str) -> Expr:
    """An index of any integer dtype as the operand's, kept out of range where the read is checked or conditional."""
    if mode == "clip":
        return clamped(k, raw, 0, extent - 1)
    if mode == "wrap":
        return wrapped(k, raw, extent)
    if fits(raw.dtype, k.index_dtype):
        return k.cast(raw, k.index_dtype)
    if mode == "fault":  # the checked read sees what is left of the index
        check_index(k, "gather", raw, axis, extent)
    return clamped(k, raw, int(k.index_dtype.min), int(k.index_dtype.max))


def fault_effect(params: Params) -> frozenset[str]:
    """{"fault"} where out-of-range indices raise."""
    return frozenset({"fault"} if params["mode"] == "fault" else ())


def _gather_examples() -> tuple[Example, ...]:
    cases: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int], ...] = (
        # operand, indices, axes, batch
        ((7,), (1,), (0,), 0),
        ((7,), (3, 1), (0,), 0),
        ((11, 4), (2, 3, 1), (0,), 0),
        ((3, 5), (6, 2), (0, 1), 0),
        ((3, 5), (4, 1), (1,), 0),
        ((2, 3, 4), (5, 2), (0, 2), 0),
        ((3, 6), (3, 2, 1), (1,), 1),
        ((2, 3, 5, 2), (2, 3, 4, 1), (2,), 2),
        ((0, 3), (0, 1), (0,), 0),
        ((4, 0), (2, 1), (0,), 0),
    )
    found: list[Example] = []
    for number, (operand, indices, axes, batch) in enumerate(cases):
        inside = (0, max(min(operand[axis] for axis in axes) - 1, 0))
        params = {"axes": axes} | ({"batch": batch} if batch else {})
        dtype = (i32, i64, u8, u32, i8)[number % 5]
        found.append(Example((operand, indices), Params(params, mode="fault"), (None, inside), (None, dtype)))
        if all(operand[axis] for axis in axes):
            wild = (0 if dtype.kind == "uint" else -20, 20)
            found += [
                Example((operand, indices), Params(params, mode=mode, **fill), (None, wild), (None, dtype))
                for mode, fill in (("clip", {}), ("wrap", {}), ("fill", {"fill": True}))
            ]
    return tuple(found)


register(
    Primitive(
        "gather",
        "index",
        "windows of the first operand at the indices in the second, whose last axis holds one for each of `axes`; the "
        "first `batch` axes of both run together; `mode` says what an index out of range does: fault, clip, wrap or "
        "fill, with `fill`",
        _gather_type,
        _gather,
        Pull(lambda context, index: (_gather_read(context, index),)),
        examples=_gather_examples(),
        effects=fault_effect,
        stored=True,
    )
)


# --- dynamic_slice and dynamic_update_slice ---------------------------------------------------------------------------


def _check_starts(name: str, starts: tuple[ArraySpec, ...], first: int) -> None:
    for number, start in enumerate(starts, first):
        rules.admit(name, start, INTEGERS, number)
        if start.shape:
            raise ShapeError(what=f"{name}: operand {number}", actual=start.shape, expected="()")
    if starts:
        rules.same_dtypes(name, starts, first)


def _dynamic_slice_type(
    specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]
) -> tuple[ArraySpec, ...]:
    name = "dynamic_slice"
    rules.parameters(name, params, "sizes")
    rules.no_regions(name, regions)
    if not specs:
        raise ArgumentError(what=f"{name}: number of operands", actual=0, expected="at least 1")
    operand = specs[0]
    rules.arity(name, specs, 1 + operand.rank)
    _check_starts(name, specs[1:], 2)
    sizes = rules.integers(name, params, "sizes", operand.rank)
    if any(size > extent for size, extent in zip(sizes, operand.shape, strict=True)):
        raise ArgumentError(what=f"{name}: sizes", actual=sizes, expected=f"at most {operand.shape}")
    return (ArraySpec(operand.dtype, sizes),)


def _window(shape: tuple[int, ...], sizes: tuple[int, ...], starts: tuple[Array, ...]) -> tuple[slice, ...]:
    found: list[slice] = []
    for extent, size, start in zip(shape, sizes, starts, strict=True):
        low = min(max(int(start), 0), extent - size)
        found.append(slice(low, low + size))
    return tuple(found)


def _dynamic_slice(call: OracleCall, x: Array, *starts: Array) -> Array:
    return x[_window(x.shape, call.outputs[0].shape, starts)]


def _low(context: PullContext, number: int, extent: int, size: int) -> Expr:
    """The start on an axis, moved so that the window lies inside."""
    k = context.k
    if extent == size:
        return k.i(0)
    return k.let(clamped(k, context.readers[number](()), 0, extent - size), "start")


def _dynamic_slice_read(context: PullContext, index: Index) -> Expr:
    operand, result = context.inputs[0], context.outputs[0]
    axes = zip(operand.shape, result.shape, strict=True)
    lows = [_low(context, number, extent, size) for number, (extent, size) in enumerate(axes, 1)]
    return context.readers[0]([context.k.op("add", low, i) for low, i in zip(lows, index, strict=True)])


register(
    Primitive(
        "dynamic_slice",
        "index",
        "a window of static `sizes` at 0-d integer starts, one an axis; starts are moved so that it lies inside",
        _dynamic_slice_type,
        _dynamic_slice,
        Pull(lambda context, index: (_dynamic_slice_read(context, index),), movement=True),
        examples=tuple(
            Example((shape,) + ((),) * len(shape), Params(sizes=sizes), (None,) + ((low, 12),) * len(shape), dtypes)
            for shape, sizes, low, dtypes in (
                ((), (), -3, (None,)),
                ((7,), (3,), -3, (None, i32)),
                ((3, 5), (3, 2), -3, (None, i64, i64)),
                ((3, 5), (1, 5), 0, (None, u8, u8)),
                ((4, 1, 9), (2, 0, 4), -3, (None, i8, i8, i8)),
                ((0, 2), (0, 1), 0, (None, u32, u32)),
            )
        ),
        stored=True,
    )
)


def _dynamic_update_slice_type(
    specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]
) -> tuple[ArraySpec, ...]:
    name = "dynamic_update_slice"
    rules.parameters(name, params)
    rules.no_regions(name, regions)
    if len(specs) < 2:
        raise ArgumentError(what=f"{name}: number of operands", actual=len(specs), expected="at least 2")
    operand, update = specs[:2]
    rules.same_dtypes(name, specs[:2])
    rules.arity(name, specs, 2 + operand.rank)
    _check_starts(name, specs[2:], 3)
    if update.rank != operand.rank or any(u > x for u, x in zip(update.shape, operand.shape, strict=True)):
        raise ShapeError(what=f"{name}: operand 2", actual=update.shape, expected=f"a shape within {operand.shape}")
    return (operand,)


def _dynamic_update_slice(call: OracleCall, x: Array, update: Array, *starts: Array) -> Array:
    result = x.copy()
    result[_window(x.shape, update.shape, starts)] = update
    return result


def _dynamic_update_slice_read(context: PullContext, index: Index) -> Expr:
    k, (operand, update) = context.k, context.inputs[:2]
    if update.size == 0:
        return context.readers[0](index)
    places: list[Expr] = []
    inside: list[Expr] = []
    for axis, (extent, size) in enumerate(zip(operand.shape, update.shape, strict=True)):
        place = index[axis]
        if extent != size:
            place = k.let(k.op("sub", place, _low(context, axis + 2, extent, size)), "place")
            inside += [k.op("ge", place, k.i(0)), k.op("lt", place, k.i(size))]
        places.append(place)
    if not inside:
        return context.readers[1](places)
    result = k.let(context.readers[0](index), "updated")
    with k.if_(all_of(k, inside)):
        k.assign(result, context.readers[1](places))
    return result


def _dynamic_update_slice_write(context: PullContext, index: Index, write: Writer) -> None:
    operand, update = context.inputs[:2]
    axes = zip(operand.shape, update.shape, strict=True)
    lows = [_low(context, number, extent, size) for number, (extent, size) in enumerate(axes, 2)]
    place = [context.k.op("add", low, i) for low, i in zip(lows, index, strict=True)]
    write(place, context.readers[1](index))


register(
    Primitive(
        "dynamic_update_slice",
        "index",
        "the first operand with a window replaced by the second, at 0-d integer starts, one an axis; starts are moved "
        "so that it lies inside",
        _dynamic_update_slice_type,
        _dynamic_update_slice,
        Pull(
            lambda context, index: (_dynamic_update_slice_read(context, index),),
            movement=True,
            update=Update(lambda specs, params: specs[1].shape, _dynamic_update_slice_write),
        ),
        examples=tuple(
            Example((shape, size) + ((),) * len(shape), Params(), (None, None) + ((low, 12),) * len(shape), dtypes)
            for shape, size, low, dtypes in (
                ((), (), -3, (None, None)),
                ((7,), (3,), -3, (None, None, i32)),
                ((3, 5), (3, 2), -3, (None, None, i64, i64)),
                ((3, 5), (1, 1), 0, (None, None, u8, u8)),
                ((4, 1, 9), (2, 0, 4), -3, (None, None, i8, i8, i8)),
                ((0, 2), (0, 1), 0, (None, None, u32, u32)),
            )
        ),
        stored=True,
    )
)
