"""ONNX's operators on shapes and places: reshape, slice, gather, scatter, pad …"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.model import Node, dtype_of, operator, static_ints

# --- known values -----------------------------------------------------------------------------------------------------


@operator("Shape")
def shape(node: Node, x: Any) -> Any:
    return np.array(x.shape[node.get("start", 0) : node.get("end", None)], np.int64)


@operator("Size")
def size(node: Node, x: Any) -> Any:
    return np.array(math.prod(x.shape), np.int64)


@operator("Constant")
def constant(node: Node) -> Any:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if node.has(name):
            return np.array(node.get(name), dtype)
    return np.asarray(node.get("value"))


@operator("ConstantOfShape", static=(0,))
def constant_of_shape(node: Node, wanted: Any) -> Any:
    value = np.asarray(node.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    return ops.full(tuple(static_ints(wanted) or ()), value.item(), dtype=value.dtype)


@operator("Range", static=(0, 1, 2))
def arange(node: Node, start: Any, limit: Any, delta: Any) -> Any:
    first, last, step = (np.asarray(x).item() for x in (start, limit, delta))
    return ops.arange(first, last, step, dtype=np.asarray(start).dtype)


@operator("EyeLike")
def eye_like(node: Node, x: Any) -> Any:
    dtype = dtype_of(node.get("dtype")) if node.has("dtype") else x.dtype
    return ops.eye(*x.shape, k=node.get("k", 0), dtype=dtype)


# --- shapes -----------------------------------------------------------------------------------------------------------


@operator("Reshape", static=(1,))
def reshape(node: Node, x: Any, wanted: Any) -> Any:
    extents = static_ints(wanted) or []
    if not node.get("allowzero", 0):
        extents = [x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(extents)]
    return ops.reshape(x, extents)


@operator("Flatten")
def flatten(node: Node, x: Any) -> Any:
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose")
def transpose(node: Node, x: Any) -> Any:
    return ops.transpose(x, node.get("perm"))


@operator("Squeeze", static=(1,))
def squeeze(node: Node, x: Any, axes: Any = None) -> Any:
    return ops.squeeze(x, static_ints(axes) if axes is not None else node.get("axes"))


@operator("Unsqueeze", static=(1,))
def unsqueeze(node: Node, x: Any, axes: Any = None) -> Any:
    return ops.expand_dims(x, static_ints(axes) if axes is not None else node.get("axes"))


@operator("Expand", static=(1,))
def expand(node: Node, x: Any, wanted: Any) -> Any:
    return ops.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(static_ints(wanted) or ())))


@operator("Tile", static=(1,))
def tile(node: Node, x: Any, repeats: Any) -> Any:
    return ops.tile(x, static_ints(repeats) or ())


@operator("Concat")
def concat(node: Node, *xs: Any) -> Any:
    return ops.concat(xs, axis=node.get("axis"))


@operator("Split", static=(1,))
def split(node: Node, x: Any, sizes: Any = None) -> Any:
    axis = node.get("axis", 0)
    extent, count = x.shape[axis], node.get("num_outputs", node.outputs)
    each = -(-extent // count)
    parts = static_ints(sizes) or [each] * (count - 1) + [extent - each * (count - 1)]
    return tuple(ops.split(x, np.cumsum(parts)[:-1].tolist(), axis=axis))


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Any) -> Any:
    n, c, h, w = x.shape
    b = node.get("blocksize")
    if node.get("mode", "DCR") == "DCR":
        parts = ops.permute_dims(ops.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = ops.permute_dims(ops.reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return ops.reshape(parts, (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Any) -> Any:
    n, c, h, w = x.shape
    b = node.get("blocksize")
    parts = ops.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.permute_dims(parts, order), (n, c * b * b, h // b, w // b))


# --- parts ------------------------------------------------------------------------------------------------------------


@operator("Slice", static=(1, 2, 3, 4))
def cut(node: Node, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = static_ints(starts) or [], static_ints(ends) or []
    places = static_ints(axes) if axes is not None else list(range(len(first)))
    by = static_ints(steps) if steps is not None else [1] * len(first)
    keys = [slice(None)] * x.ndim
    for axis, low, high, step in zip(places or [], first, last, by or [], strict=True):
        extent = x.shape[axis]
        # ONNX counts an end below -extent, going backwards, as "past the first element".
        high = None if step < 0 and high < -extent else high
        keys[axis] = slice(low, high, step)
    return x[tuple(keys)]


@operator("Trilu", static=(1,))
def triangle(node: Node, x: Any, k: Any = None) -> Any:
    diagonal = static_ints(k)[0] if k is not None else 0  # type: ignore[index]
    return ops.triu(x, k=diagonal) if node.get("upper", 1) else ops.tril(x, k=diagonal)


@operator("Pad", static=(1, 3))
def pad(node: Node, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    widths = static_ints(pads) or []
    places = [axis % x.ndim for axis in (static_ints(axes) if axes is not None else range(x.ndim)) or []]
    low, high = dict(zip(places, widths, strict=False)), dict(zip(places, widths[len(places) :], strict=True))
    mode = node.get("mode", "constant")
    if mode == "constant":
        pairs = [(max(low.get(axis, 0), 0), max(high.get(axis, 0), 0)) for axis in range(x.ndim)]
        return ops.pad(x, pairs, 0 if value is None else ops.reshape(value, ()))
    for axis in places:
        order = np.pad(np.arange(x.shape[axis]), (low[axis], high[axis]), mode=mode)
        x = ops.take(x, order.astype(np.int32), axis=axis)
    return x


@operator("CenterCropPad", static=(1,))
def center_crop_pad(node: Node, x: Any, wanted: Any) -> Any:
    axes = [axis % x.ndim for axis in node.get("axes", range(x.ndim))]
    for axis, extent in zip(axes, static_ints(wanted) or [], strict=True):
        own = x.shape[axis]
        if extent < own:
            first = (own - extent) // 2
            x = x[tuple(slice(first, first + extent) if place == axis else slice(None) for place in range(x.ndim))]
        else:
            before = (extent - own) // 2
            after = extent - own - before
            x = ops.pad(x, [(before, after) if place == axis else (0, 0) for place in range(x.ndim)])
    return x


@operator("ReverseSequence")
def reverse_sequence(node: Node, x: Any, lengths: Any) -> Any:
    batch, time = node.get("batch_axis", 1), node.get("time_axis", 0)
    moved = ops.moveaxis(x, (batch, time), (0, 1))
    place = ops.iota(moved.shape[:2], 1)
    limit = ops.expand_dims(ops.astype(lengths, np.int32), 1)
    order = ops.where(place < limit, limit - 1 - place, place)
    rest = (1,) * (moved.ndim - 2)
    found = ops.take_along_axis(moved, ops.reshape(order, (*order.shape, *rest)), 1)
    return ops.moveaxis(found, (0, 1), (batch, time))


@operator("Compress", static=(1,))
def compress(node: Node, x: Any, condition: Any) -> Any:
    axis = node.get("axis")
    return ops.take(x, np.flatnonzero(condition).astype(np.int32), axis=axis)


# --- gather and scatter -----------------------------------------------------------------------------------------------


@operator("Gather")
def gather(node: Node, x: Any, indices: Any) -> Any:
    return ops.take(x, indices, axis=node.get("axis", 0))


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(node: Node, x: Any, indices: Any) -> Any:
    return ops.take(x, indices, axis=-1)


def _grid(indices: Any, axis: int) -> tuple[Any, ...]:
    """Every element's own place, but for one axis, where it is the index."""
    return tuple(
        indices if place == axis % indices.ndim else ops.iota(indices.shape, place) for place in range(indices.ndim)
    )


@operator("GatherElements")
def gather_elements(node: Node, x: Any, indices: Any) -> Any:
    return x[_grid(indices, node.get("axis", 0))]


@operator("GatherND")
def gather_nd(node: Node, x: Any, indices: Any) -> Any:
    batch = node.get("batch_dims", 0)
    columns = tuple(indices[..., number] for number in range(indices.shape[-1]))
    lead = indices.shape[:-1]
    return x[(*(ops.iota(lead, axis) for axis in range(batch)), *columns)]


REDUCE = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    target = x.at[_grid(indices, node.get("axis", 0))]
    return getattr(target, REDUCE[node.get("reduction", "none")])(updates)


@operator("ScatterND")
def scatter_nd(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    target = x.at[tuple(indices[..., number] for number in range(indices.shape[-1]))]
    return getattr(target, REDUCE[node.get("reduction", "none")])(updates)


@operator("TensorScatter")
def tensor_scatter(node: Node, cache: Any, update: Any, starts: Any = None) -> Any:
    axis = node.get("axis", -2) % cache.ndim
    moved, new = ops.moveaxis(cache, axis, 1), ops.moveaxis(update, axis, 1)
    first = ops.zeros(cache.shape[:1], np.int32) if starts is None else ops.astype(starts, np.int32)
    place = ops.expand_dims(first, 1) + ops.iota(new.shape[:2], 1)
    place = place % moved.shape[1] if node.get("mode", "linear") == "circular" else place
    return ops.moveaxis(moved.at[ops.iota(new.shape[:2], 0), place].set(new), 1, axis)


@operator("OneHot", static=(1,))
def one_hot(node: Node, indices: Any, depth: Any, values: Any) -> Any:
    count = int(np.asarray(depth).item())
    whole = ops.astype(indices, np.int32)
    hit = nn.one_hot(ops.where(whole < 0, whole + count, whole), count, axis=node.get("axis", -1), dtype="bool")
    return ops.where(hit, values[1], values[0])


@operator("MaxUnpool", static=(2,))
def max_unpool(node: Node, x: Any, indices: Any, wanted: Any = None) -> Any:
    sizes, rank = node.get("kernel_shape"), x.ndim - 2
    steps, pads = node.get("strides", [1] * rank), node.get("pads", [0] * (2 * rank))
    inferred = [
        (extent - 1) * step + size - low - high
        for extent, step, size, low, high in zip(x.shape[2:], steps, sizes, pads[:rank], pads[rank:], strict=True)
    ]
    natural = (*x.shape[:2], *inferred)
    flat = ops.zeros(math.prod(natural), x.dtype).at[ops.reshape(indices, (-1,))].set(ops.reshape(x, (-1,)))
    found = ops.reshape(flat, natural)
    if wanted is None:
        return found
    return ops.pad(found, [(0, big - small) for big, small in zip(static_ints(wanted) or [], natural, strict=True)])
