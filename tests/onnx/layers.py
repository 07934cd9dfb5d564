"""ONNX's products, convolutions, poolings and norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from poot.trace.ops.nn.windows import geometry
from tests.onnx.model import Node, operator, static_ints

# --- products ---------------------------------------------------------------------------------------------------------


@operator("MatMul")
def matmul(node: Node, a: Any, b: Any) -> Any:
    return ops.matmul(a, b)


@operator("Gemm")
def gemm(node: Node, a: Any, b: Any, c: Any = None) -> Any:
    a = a.T if node.get("transA", 0) else a
    found = nn.linear(a, b if node.get("transB", 0) else b.T) * node.get("alpha", 1.0)
    return found if c is None else found + c * node.get("beta", 1.0)


@operator("Einsum")
def einsum(node: Node, *xs: Any) -> Any:
    return ops.einsum(node.get("equation"), *xs)


@operator("Det")
def determinant(node: Node, x: Any) -> Any:
    assert x.shape[-1] == 2, "ops has no factorisation"
    return x[..., 0, 0] * x[..., 1, 1] - x[..., 0, 1] * x[..., 1, 0]


# --- windows ----------------------------------------------------------------------------------------------------------

AUTO = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def options(node: Node, rank: int) -> dict[str, Any]:
    """Stride, dilation and padding as `nn.conv` takes them."""
    found: dict[str, Any] = {
        "stride": tuple(node.get("strides", [1] * rank)),
        "dilation": tuple(node.get("dilations", [1] * rank)),
    }
    auto = node.get("auto_pad", "NOTSET")
    pads = node.get("pads", [0] * (2 * rank))
    found["padding"] = AUTO.get(auto) or tuple(zip(pads[:rank], pads[rank:], strict=True))
    return found


@operator("Conv")
def conv(node: Node, x: Any, w: Any, b: Any = None) -> Any:
    return nn.conv(x, w, b, groups=node.get("group", 1), **options(node, w.ndim - 2))


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Any, w: Any, b: Any = None) -> Any:
    rank = w.ndim - 2
    given = options(node, rank)
    extra = node.get("output_padding", [0] * rank)
    steps, apart = given["stride"], given["dilation"]
    padding = given["padding"]
    wanted = node.get("output_shape")
    if padding in ("same", "same_lower"):
        wanted = [extent * step for extent, step in zip(x.shape[2:], steps, strict=True)]
    if wanted is not None:
        natural = [
            (extent - 1) * step + by * (size - 1) + 1 + more
            for extent, step, by, size, more in zip(x.shape[2:], steps, apart, w.shape[2:], extra, strict=True)
        ]
        totals = [have - want for have, want in zip(natural, wanted, strict=True)]
        lower = padding == "same_lower"
        # A result longer than the natural one is padded after.
        extra = [more + max(-total, 0) for more, total in zip(extra, totals, strict=True)]
        totals = [max(total, 0) for total in totals]
        padding = tuple(
            (total - total // 2, total // 2) if lower else (total // 2, total - total // 2) for total in totals
        )
    elif padding == "valid":
        padding = 0
    return nn.conv_transpose(
        x,
        w,
        b,
        stride=steps,
        padding=padding,
        dilation=apart,
        output_padding=tuple(extra),
        groups=node.get("group", 1),
    )


@operator("AveragePool")
def average_pool(node: Node, x: Any) -> Any:
    sizes = tuple(node.get("kernel_shape"))
    return nn.avg_pool(
        x,
        sizes,
        ceil=bool(node.get("ceil_mode", 0)),
        count_padding=bool(node.get("count_include_pad", 0)),
        **options(node, len(sizes)),
    )


@operator("MaxPool")
def max_pool(node: Node, x: Any) -> Any:
    sizes = tuple(node.get("kernel_shape"))
    given, ceil = options(node, len(sizes)), bool(node.get("ceil_mode", 0))
    found = nn.max_pool(x, sizes, ceil=ceil, **given)
    return found if node.outputs == 1 else (found, _max_positions(node, x, sizes, given, ceil))


def _max_positions(node: Node, x: Any, sizes: tuple[int, ...], given: dict[str, Any], ceil: bool) -> Any:
    """The flat position of each window's greatest element."""
    extents = x.shape[2:]
    place = geometry("max_pool", extents, sizes, given["stride"], given["padding"], given["dilation"], ceil=ceil)
    strides = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    if node.get("storage_order", 0):
        strides = [math.prod(extents[:axis]) for axis in range(len(extents))]
    flat = sum(ops.iota(x.shape, axis + 2) * step for axis, step in enumerate(strides))
    flat = flat + (ops.iota(x.shape, 0) * x.shape[1] + ops.iota(x.shape, 1)) * math.prod(extents)
    windows, inner, outer = place.over(place.padded(x, -math.inf))
    positions, _, _ = place.over(place.padded(flat, 0))
    order = (0, 1, *outer, *inner)
    windows, positions = (
        ops.reshape(ops.permute_dims(part, order), (*x.shape[:2], *place.counts, -1)) for part in (windows, positions)
    )
    best = ops.argmax(windows, -1, keepdims=True)
    return ops.astype(ops.squeeze(ops.take_along_axis(positions, best, -1), -1), np.int64)


@operator("LpPool")
def lp_pool(node: Node, x: Any) -> Any:
    p, sizes = node.get("p", 2), tuple(node.get("kernel_shape"))
    ceil = bool(node.get("ceil_mode", 0))
    mean = nn.avg_pool(ops.abs(x) ** p, sizes, ceil=ceil, count_padding=True, **options(node, len(sizes)))
    return (mean * math.prod(sizes)) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(node: Node, x: Any) -> Any:
    return nn.global_avg_pool(x)


@operator("GlobalMaxPool")
def global_max_pool(node: Node, x: Any) -> Any:
    return nn.global_max_pool(x)


@operator("Col2Im", static=(1, 2))
def col2im(node: Node, x: Any, image: Any, block: Any) -> Any:
    """The transpose of taking windows: a transposed convolution that lays unit kernels."""
    extents, sizes = static_ints(image) or [], static_ints(block) or []
    rank = len(sizes)
    given = options(node, rank)
    taps = math.prod(sizes)
    counts = geometry("col2im", extents, sizes, given["stride"], given["padding"], given["dilation"]).counts
    batch, channels = x.shape[0], x.shape[1] // taps
    columns = ops.reshape(x, (batch * channels, taps, *counts))
    unit = ops.reshape(ops.eye(taps, dtype=x.dtype), (taps, 1, *sizes))
    found = nn.conv_transpose(
        columns, unit, stride=given["stride"], padding=given["padding"], dilation=given["dilation"]
    )
    short = [want - have for want, have in zip(extents, found.shape[2:], strict=True)]
    found = ops.pad(found, [(0, 0), (0, 0), *((0, missing) for missing in short)])
    return ops.reshape(found, (batch, channels, *extents))


# --- norms ------------------------------------------------------------------------------------------------------------


@operator("BatchNormalization")
def batch_normalization(node: Node, x: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
    eps = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0):
        return nn.batchnorm(x, mean, var, w, b, eps)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    own, spread = ops.mean(x, axes), ops.var(x, axes)
    keep = node.get("momentum", 0.9)
    running = mean * keep + own * (1 - keep), var * keep + spread * (1 - keep)
    return (nn.batchnorm(x, own, spread, w, b, eps), *running)


@operator("InstanceNormalization")
def instance_normalization(node: Node, x: Any, w: Any, b: Any) -> Any:
    return nn.instancenorm(x, w, b, node.get("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(node: Node, x: Any, w: Any, b: Any) -> Any:
    return nn.groupnorm(x, node.get("num_groups"), w, b, node.get("epsilon", 1e-5))


def _rows(x: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """The axes from `axis` on as one, and the shape of a statistic."""
    place = axis % x.ndim
    shape = (*x.shape[:place], *(1,) * (x.ndim - place))
    return ops.reshape(x, (*x.shape[:place], -1)), shape


@operator("LayerNormalization")
def layer_normalization(node: Node, x: Any, w: Any, b: Any = None) -> Any:
    rows, shape = _rows(x, node.get("axis", -1))
    eps = node.get("epsilon", 1e-5)
    offset = None if b is None else ops.reshape(b, (-1,))
    found = ops.reshape(nn.layernorm(rows, ops.reshape(w, (-1,)), offset, eps), x.shape)
    if node.outputs == 1:
        return found
    mean, spread = ops.mean(rows, -1), ops.var(rows, -1)
    return (found, ops.reshape(mean, shape), ops.reshape(ops.rsqrt(spread + eps), shape))[: node.outputs]


@operator("RMSNormalization")
def rms_normalization(node: Node, x: Any, w: Any) -> Any:
    rows, _ = _rows(x, node.get("axis", -1))
    return ops.reshape(nn.rmsnorm(rows, ops.reshape(w, (-1,)), node.get("epsilon", 1e-5)), x.shape)


@operator("LpNormalization")
def lp_normalization(node: Node, x: Any) -> Any:
    size = ops.linalg.vector_norm(x, axis=node.get("axis", -1), keepdims=True, ord=node.get("p", 2))
    return x / ops.where(size == 0, 1, size)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node, x: Any) -> Any:
    axes = tuple(node.get("axes", [0, 2, 3]))
    return (x - ops.mean(x, axes, keepdims=True)) / (ops.std(x, axes, keepdims=True) + 1e-9)


@operator("LRN")
def local_response_normalization(node: Node, x: Any) -> Any:
    size = node.get("size")
    square = ops.reshape(x * x, (x.shape[0], 1, x.shape[1], -1))
    low = (size - 1) // 2
    mean = nn.avg_pool(square, (size, 1), stride=1, padding=((low, size - 1 - low), (0, 0)), count_padding=True)
    scale = node.get("bias", 1.0) + node.get("alpha", 0.0001) * ops.reshape(mean, x.shape)
    return x / scale ** node.get("beta", 0.75)


# --- losses -----------------------------------------------------------------------------------------------------------


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(node: Node, x: Any, targets: Any, weights: Any = None) -> Any:
    loss = nn.cross_entropy(
        x,
        targets,
        axis=1,
        weights=weights,
        ignore_index=node.get("ignore_index"),
        reduction=node.get("reduction", "mean"),
    )
    return (loss, nn.log_softmax(x, 1))[: node.outputs]


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(node: Node, x: Any, targets: Any, weights: Any = None) -> Any:
    return nn.nll_loss(
        x,
        targets,
        axis=1,
        weights=weights,
        ignore_index=node.get("ignore_index"),
        reduction=node.get("reduction", "mean"),
    )
