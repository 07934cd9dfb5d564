"""ONNX's quantised operators, of integers of 8 bits and more."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.layers import options
from tests.onnx.model import Node, dtype_of, operator


def _spread(node: Node, parameter: Any, x: Any) -> Any:
    """A scale or zero point for each element: one for all, for each index of an axis, or for blocks along it."""
    if parameter.ndim == 0 or parameter.size == 1:
        return ops.reshape(parameter, ())
    axis = node.get("axis", 1) % x.ndim
    if node.get("block_size", 0):
        whole = ops.repeat(parameter, node.get("block_size"), axis=axis)
        return whole[tuple(slice(0, extent) for extent in x.shape)]
    return ops.reshape(parameter, (-1, *(1,) * (x.ndim - axis - 1)))


def quantize(x: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    """Rounded to nearest even, and saturated, as casts saturate."""
    wide = ops.round(x / scale) + ops.astype(zero, x.dtype)
    return ops.astype(wide, dtype)


@operator("QuantizeLinear")
def quantize_linear(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = zero.dtype if zero is not None else dtype_of(node.get("output_dtype", 2))
    offset = ops.zeros((), dtype) if zero is None else _spread(node, zero, x)
    return quantize(x, _spread(node, scale, x), offset, dtype)


@operator("DequantizeLinear")
def dequantize_linear(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    size = _spread(node, scale, x)
    whole = ops.astype(x, np.int32)
    if zero is not None:
        whole = whole - ops.astype(_spread(node, zero, x), np.int32)
    return ops.astype(whole, scale.dtype) * size


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, x: Any) -> Any:
    high, low = ops.maximum(ops.max(x), 0), ops.minimum(ops.min(x), 0)
    scale = (high - low) / 255
    zero = ops.astype(ops.round(ops.clip(-low / scale, 0, 255)), np.uint8)
    return quantize(x, scale, zero, np.uint8), scale, zero


def _less(x: Any, zero: Any, axis: int | None = None) -> Any:
    whole = ops.astype(x, np.int32)
    if zero is None:
        return whole
    offset = ops.astype(zero, np.int32)
    if offset.ndim == 0 or offset.size == 1:
        return whole - ops.reshape(offset, ())
    shape = [1] * x.ndim
    shape[axis or 0] = -1
    return whole - ops.reshape(offset, shape)


@operator("MatMulInteger")
def matmul_integer(node: Node, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return ops.matmul(_less(a, a_zero, -2), _less(b, b_zero, -1))


@operator("ConvInteger")
def conv_integer(node: Node, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return nn.conv(_less(x, x_zero), _less(w, w_zero, 0), groups=node.get("group", 1), **options(node, w.ndim - 2))


@operator("QLinearMatMul")
def quantized_matmul(
    node: Node, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    found = ops.matmul(_less(a, a_zero, -2), _less(b, b_zero, -1))
    scale = ops.astype(a_scale, np.float32) * ops.astype(b_scale, np.float32)
    wide = ops.astype(found, np.float32) * scale
    return quantize(wide, ops.astype(y_scale, np.float32), y_zero, y_zero.dtype)


@operator("QLinearConv")
def quantized_conv(
    node: Node,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    b: Any = None,
) -> Any:
    rank = w.ndim - 2
    found = nn.conv(_less(x, x_zero), _less(w, w_zero, 0), b, groups=node.get("group", 1), **options(node, rank))
    scale = ops.reshape(x_scale * w_scale, (-1, *(1,) * rank))
    return quantize(ops.astype(found, np.float32) * scale, y_scale, y_zero, y_zero.dtype)
