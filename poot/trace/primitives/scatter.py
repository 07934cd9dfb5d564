"""scatter: the inverse of `gather`: windows of the first operand changed by updates, at the indices in the second.

The operands are (operand, indices, updates); `axes` and `batch` are those of `gather`, and the updates have the shape
that gather's result would have.  Where several updates meet one element, `scatter` keeps the last in row-major order,
and the others combine them all with the element.  Modes: "fault" raises IndexFault, "clip" and "wrap" move the index
into range, "drop" leaves such updates out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from poot.dtypes import ALL, NUMBERS, ArraySpec, DType, i8, i32, i64, u8, u32
from poot.errors import ShapeError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import (
    EXACT,
    Example,
    Numerics,
    OracleCall,
    Primitive,
    Pull,
    PullContext,
    Update,
    Writer,
    register,
)
from poot.trace.primitives.index import (
    batch_axes,
    check_indices,
    fault_effect,
    positions_index,
    resolve,
    window_axes,
)
from poot.trace.primitives.indexing import all_of, check_index, clamped, within, wrapped
from poot.trace.primitives.map import maximum, minimum
from poot.trace.primitives.reduce import accumulator

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]
Index = tuple[Expr, ...]

MODES = ("fault", "clip", "wrap", "drop")


def _type_rule(name: str, dtypes: tuple[DType, ...]) -> Callable[[Specs, Params, tuple[Graph, ...]], Specs]:
    def rule(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
        rules.arity(name, specs, 3)
        rules.parameters(name, params, "axes", "mode", optional=("batch",))
        rules.no_regions(name, regions)
        operand, indices, updates = specs
        rules.admit(name, operand, dtypes)
        rules.admit(name, updates, (operand.dtype,), operand=3)
        positions = check_indices(name, operand, indices, params, MODES)
        expected = positions + tuple(operand.shape[axis] for axis in window_axes(operand, params))
        if updates.shape != expected:
            raise ShapeError(what=f"{name}: operand 3", actual=updates.shape, expected=expected)
        return (operand,)

    return rule


# --- oracle -----------------------------------------------------------------------------------------------------------


def _oracle(name: str, combine: Callable[[Array, Array], Array] | None) -> Callable[..., Array]:
    def scatter(call: OracleCall, operand: Array, indices: Array, updates: Array) -> Array:
        params, spec = call.params, call.inputs[0]
        axes, batch = rules.integers(name, params, "axes"), batch_axes(params)
        extents = tuple(operand.shape[axis] for axis in axes)
        valid, inside = resolve(name, indices, extents, axes, str(params["mode"]))
        order = (*range(batch), *axes, *window_axes(spec, params))
        result = operand.copy()
        target = result.transpose(order)
        places = np.broadcast_arrays(*positions_index(valid, batch))
        for position in np.ndindex(*inside.shape):
            if inside[position] or params["mode"] != "drop":
                place = tuple(int(axis[position]) for axis in places)
                target[place] = updates[position] if combine is None else combine(target[place], updates[position])
        return result

    return scatter


# --- lowering ---------------------------------------------------------------------------------------------------------


def _read(context: PullContext, name: str, index: Index, combine: str | None) -> Expr:
    """One element: the operand's, changed by every update that meets it, in order."""
    k, (operand, indices, _) = context.k, context.inputs
    axes, batch = rules.integers("scatter", context.params, "axes"), batch_axes(context.params)
    mode = str(context.params["mode"])
    wide = operand.dtype if combine is None else accumulator(operand.dtype)
    result = k.let(k.cast(context.readers[0](index), wide), "result")
    window = tuple(index[axis] for axis in window_axes(operand, context.params))
    with ExitStack() as loops:
        inner = [loops.enter_context(k.for_(k.i(0), k.i(count))) for count in indices.shape[batch:-1]]
        position = (*index[:batch], *inner)
        meets: list[Expr] = []
        for item, axis in enumerate(axes):
            raw = k.let(context.readers[1]((*position, k.i(item))), "index")
            place, conditions = _in_mode(k, name, raw, axis, operand.shape[axis], mode)
            meets += [*conditions, k.op("eq", place, index[axis])]
        with k.if_(all_of(k, meets)):
            update = k.cast(context.readers[2]((*position, *window)), wide)
            k.assign(result, update if combine is None else k.op(combine, result, update))
    return k.cast(result, operand.dtype)


#: Updates that one thread may make after another.
_SERIAL = 64


def _points(specs: Specs, params: Params, combine: str | None) -> tuple[int, ...] | None:
    """One point for each element of a window, and each of a batch: it takes the updates in order."""
    operand, indices, _ = specs
    batch = batch_axes(params)
    rounded_once = combine is not None and accumulator(operand.dtype) is not operand.dtype
    if rounded_once or int(np.prod(indices.shape[batch:-1], dtype=np.int64)) > _SERIAL:
        return None
    return (*operand.shape[:batch], *(operand.shape[axis] for axis in window_axes(operand, params)))


def _write(context: PullContext, name: str, point: Index, write: Writer, combine: str | None) -> None:
    """One element of each window: the operand's, changed by its update."""
    k, (operand, indices, _) = context.k, context.inputs
    axes, batch = rules.integers("scatter", context.params, "axes"), batch_axes(context.params)
    mode = str(context.params["mode"])
    window = point[batch:]
    with ExitStack() as loops:
        inner = [loops.enter_context(k.for_(k.i(0), k.i(count))) for count in indices.shape[batch:-1]]
        position = (*point[:batch], *inner)
        place = dict(enumerate(point[:batch])) | dict(zip(window_axes(operand, context.params), window, strict=True))
        meets: list[Expr] = []
        for item, axis in enumerate(axes):
            raw = k.let(context.readers[1]((*position, k.i(item))), "index")
            place[axis], conditions = _in_mode(k, name, raw, axis, operand.shape[axis], mode)
            meets += conditions
        at = [place[axis] for axis in range(operand.rank)]
        with k.if_(all_of(k, meets)):
            update = context.readers[2]((*position, *window))
            write(at, update if combine is None else k.op(combine, context.readers[0](at), update))


def _in_mode(k: KernelBuilder, name: str, raw: Expr, axis: int, extent: int, mode: str) -> tuple[Expr, list[Expr]]:
    """The place of an update on an axis, and the conditions under which there is one."""
    if mode == "clip":
        return clamped(k, raw, 0, extent - 1), []
    if mode == "wrap":
        return wrapped(k, raw, extent), []
    conditions = within(k, raw, extent)
    if mode == "fault":
        check_index(k, name, raw, axis, extent)
    return clamped(k, raw, 0, max(extent - 1, 0)), conditions


# --- entries ----------------------------------------------------------------------------------------------------------

_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int], ...] = (
    # operand, indices, axes, batch
    ((7,), (1,), (0,), 0),
    ((7,), (9, 1), (0,), 0),
    ((5, 4), (2, 3, 1), (0,), 0),
    ((3, 5), (6, 2), (0, 1), 0),
    ((3, 5), (4, 1), (1,), 0),
    ((2, 3, 4), (5, 2), (0, 2), 0),
    ((3, 6), (3, 2, 1), (1,), 1),
    ((4, 0), (2, 1), (0,), 0),
    ((3, 2), (0, 1), (0,), 0),
)


def _updates(operand: tuple[int, ...], indices: tuple[int, ...], axes: tuple[int, ...], batch: int) -> tuple[int, ...]:
    window = tuple(extent for axis, extent in enumerate(operand) if axis >= batch and axis not in axes)
    return (*indices[:-1], *window)


def _examples() -> tuple[Example, ...]:
    found: list[Example] = []
    for number, (operand, indices, axes, batch) in enumerate(_CASES):
        shapes = (operand, indices, _updates(operand, indices, axes, batch))
        params = {"axes": axes} | ({"batch": batch} if batch else {})
        dtype = (i32, i64, u8, u32, i8)[number % 5]
        inside = (0, min(operand[axis] for axis in axes) - 1)
        wild = (0 if dtype.kind == "uint" else -20, 20)
        for mode in MODES:
            bounds = (None, inside if mode == "fault" else wild, None)
            found.append(Example(shapes, Params(params, mode=mode), bounds, (None, dtype, None)))
    return tuple(found)


def _terms(specs: Specs, params: Params) -> int:
    positions = specs[1].shape[batch_axes(params) : -1]
    return 1 + int(np.prod(positions, dtype=np.int64))


def _scatter(
    name: str,
    dtypes: tuple[DType, ...],
    doc: str,
    combine: str | None,
    oracle: Callable[[Array, Array], Array] | None,
    numerics: Numerics = EXACT,
) -> None:
    register(
        Primitive(
            name,
            "index",
            doc,
            _type_rule(name, dtypes),
            _oracle(name, oracle),
            Pull(
                lambda context, index: (_read(context, name, index, combine),),
                update=Update(
                    lambda specs, params: _points(specs, params, combine),
                    lambda context, point, write: _write(context, name, point, write, combine),
                ),
            ),
            dtypes,
            numerics,
            _examples(),
            fault_effect,
            stored=combine is None,
        )
    )


_SUM = Numerics(exact=False, depth=_terms)

_scatter("scatter", ALL, "the operand with windows replaced by updates; of several, the last", None, None)
_scatter("scatter_add", NUMBERS, "the operand with updates added to windows", "add", np.add, _SUM)
_scatter("scatter_mul", NUMBERS, "the operand with windows multiplied by updates", "mul", np.multiply, _SUM)
_scatter("scatter_max", NUMBERS, "the operand with the greater of windows and updates", "max", maximum)
_scatter("scatter_min", NUMBERS, "the operand with the lesser of windows and updates", "min", minimum)
