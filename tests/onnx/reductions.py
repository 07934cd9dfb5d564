"""ONNX's reductions, positions of extrema, running sums and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.model import Node, operator, static_ints


def _extreme(name: str, bools: Callable[..., Any]) -> Callable[..., Any]:
    primitive: Any = ops.primitive_function(f"reduce_{name}")

    def reduce(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if x.dtype.kind == "bool":
            return bools(x, axes, keepdims=keepdims)
        # The primitive, unlike ops.max, gives the least value for no elements, as ONNX wants it.
        found = primitive(x, axes=axes)
        return ops.expand_dims(found, axes) if keepdims and axes else found

    return reduce


REDUCTIONS: dict[str, Callable[[Any, tuple[int, ...], bool], Any]] = {
    "ReduceL1": lambda x, axes, keep: ops.linalg.vector_norm(x, axis=axes, keepdims=keep, ord=1),
    "ReduceL2": lambda x, axes, keep: ops.linalg.vector_norm(x, axis=axes, keepdims=keep),
    "ReduceLogSum": lambda x, axes, keep: ops.log(ops.sum(x, axes, keepdims=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: nn.logsumexp(x, axes, keepdims=keep),
    "ReduceMax": _extreme("max", ops.any),
    "ReduceMean": lambda x, axes, keep: ops.mean(x, axes, keepdims=keep),
    "ReduceMin": _extreme("min", ops.all),
    "ReduceProd": lambda x, axes, keep: ops.prod(x, axes, keepdims=keep),
    "ReduceSum": lambda x, axes, keep: ops.sum(x, axes, keepdims=keep),
    "ReduceSumSquare": lambda x, axes, keep: ops.sum(x * x, axes, keepdims=keep),
}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(node: Node, x: Any, axes: Any = None) -> Any:
        found = static_ints(axes) if axes is not None else node.get("axes")
        if not found and node.get("noop_with_empty_axes", 0):
            found = []
        elif not found:
            found = list(range(x.ndim))
        places = tuple(sorted(axis % x.ndim for axis in found))
        return ops.astype(function(x, places, bool(node.get("keepdims", 1))), x.dtype)

    return reduce


for _name, _function in REDUCTIONS.items():
    operator(_name, static=(1,))(_reduction(_function))


# --- positions --------------------------------------------------------------------------------------------------------


def _position(find: Callable[..., Any]) -> Callable[..., Any]:
    def position(node: Node, x: Any) -> Any:
        axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
        if node.get("select_last_index", 0):
            found = x.shape[axis] - 1 - find(ops.flip(x, axis=axis), axis, keepdims=keepdims)
        else:
            found = find(x, axis, keepdims=keepdims)
        return ops.astype(found, np.int64)

    return position


operator("ArgMax")(_position(ops.argmax))
operator("ArgMin")(_position(ops.argmin))


@operator("TopK", static=(1,))
def top_k(node: Node, x: Any, k: Any) -> Any:
    axis, count = node.get("axis", -1), int(static_ints(k)[0])  # type: ignore[index]
    if node.get("largest", 1):
        values, positions = ops.top_k(x, count, axis)
    else:
        positions = ops.take(ops.argsort(x, axis), ops.arange(count), axis=axis)
        values = ops.take_along_axis(x, positions, axis)
    return values, ops.astype(positions, np.int64)


# --- running results --------------------------------------------------------------------------------------------------


def _running(function: Callable[..., Any], identity: int) -> Callable[..., Any]:
    def run(node: Node, x: Any, axis: Any) -> Any:
        place = static_ints(axis)[0] % x.ndim  # type: ignore[index]
        backwards = bool(node.get("reverse", 0))
        x = ops.flip(x, axis=place) if backwards else x
        if node.get("exclusive", 0):
            widths = [(1, 0) if item == place else (0, 0) for item in range(x.ndim)]
            x = ops.take(ops.pad(x, widths, identity), ops.arange(x.shape[place]), axis=place)
        found = function(x, place, dtype=x.dtype)
        return ops.flip(found, axis=place) if backwards else found

    return run


operator("CumSum", static=(1,))(_running(ops.cumsum, 0))
operator("CumProd", static=(1,))(_running(ops.cumprod, 1))
