"""ONNX's attention operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.model import Node, dtype_of, operator


def _heads(x: Any, count: int | None) -> Any:
    """[batch, rows, heads * dims] as [batch, heads, rows, dims]."""
    if x.ndim == 4 or count is None:
        return x
    batch, rows, width = x.shape
    return ops.permute_dims(ops.reshape(x, (batch, rows, count, width // count)), (0, 2, 1, 3))


def _flat(x: Any) -> Any:
    batch, heads, rows, dims = x.shape
    return ops.reshape(ops.permute_dims(x, (0, 2, 1, 3)), (batch, rows, heads * dims))


@operator("Attention")
def attention(
    node: Node,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
) -> Any:
    flat = q.ndim == 3
    heads, shared = node.get("q_num_heads"), node.get("kv_num_heads")
    q, k, v = _heads(q, heads), _heads(k, shared), _heads(v, shared)
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = ops.concat([past_key, k], axis=2), ops.concat([past_value, v], axis=2)
    rows, keys = q.shape[2], k.shape[2]
    if mask is not None and mask.shape[-1] < keys:
        widths = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        mask = ops.pad(mask, widths, False if mask.dtype.kind == "bool" else -math.inf)
    if lengths is not None:
        offset = ops.expand_dims(lengths, 1) - rows
        valid = ops.reshape(ops.iota((len(lengths), keys), 1) < ops.expand_dims(lengths, 1), (-1, 1, 1, keys))
        mask = _both(mask, valid)
    left, right = node.get("left_window_size", -1), node.get("right_window_size", -1)
    window = (None if left < 0 else left, None if right < 0 else right)
    given: dict[str, Any] = {
        "scale": node.get("scale"),
        "causal": bool(node.get("is_causal", 0)),
        "window": None if window == (None, None) else window,
        "softcap": node.get("softcap", 0.0) or None,
        "offset": offset,
    }
    found = nn.attention(q, k, v, mask, **given)
    found = _flat(found) if flat else found
    scores = _scores(node, q, k, mask, given) if node.outputs > 3 else None
    return (found, k, v, scores)[: node.outputs]


def _both(mask: Any, valid: Any) -> Any:
    if mask is None:
        return valid
    return ops.logical_and(mask, valid) if mask.dtype.kind == "bool" else ops.where(valid, mask, -math.inf)


def _scores(node: Node, q: Any, k: Any, mask: Any, given: dict[str, Any]) -> Any:
    """What the optional last output shows: the scores at one of four stages."""
    mode = node.get("qk_matmul_output_mode", 0)
    shape = (*q.shape[:3], k.shape[2])
    if mode == 3:  # the weights are the attention to unit values
        unit = ops.broadcast_to(ops.eye(shape[3], dtype=q.dtype), (*k.shape[:2], shape[3], shape[3]))
        return nn.attention(q, k, unit, mask, **given)
    group = q.shape[1] // k.shape[1]
    k = ops.repeat(k, group, axis=1)
    scale = given["scale"] or 1 / math.sqrt(q.shape[-1])
    scores = ops.matmul(q, ops.matrix_transpose(k)) * scale
    if mode == 0:
        return scores
    if given["softcap"] is not None:
        scores = nn.softcap(scores, given["softcap"])
    if mode == 1:
        return scores
    if mask is not None:
        scores = ops.where(mask, scores, -math.inf) if mask.dtype.kind == "bool" else scores + mask
    if given["causal"]:
        allowed = ops.iota(shape, 3) <= ops.iota(shape, 2) + given["offset"]
        scores = ops.where(allowed, scores, -math.inf)
    return scores


@operator("ai.onnx.preview.FlexAttention")
def flex_attention(node: Node, q: Any, k: Any, v: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    k, v = (ops.repeat(x, group, axis=1) for x in (k, v))
    wide = dtype_of(node.get("softmax_precision", 1)) if q.dtype.bits < 32 else q.dtype
    scores = ops.matmul(q, ops.matrix_transpose(k)) * node.get("scale", 1 / math.sqrt(q.shape[-1]))
    scores = ops.astype(scores, wide)
    if node.has("score_mod"):
        (scores,) = node.call("score_mod", scores)
    weights = nn.softmax(scores)
    if node.has("prob_mod"):
        (weights,) = node.call("prob_mod", weights)
    return ops.matmul(ops.astype(weights, q.dtype), v)


@operator("RotaryEmbedding")
def rotary_embedding(node: Node, x: Any, cos: Any, sin: Any, positions: Any = None) -> Any:
    flat = x.ndim == 3
    heads = _heads(x, node.get("num_heads"))
    if positions is not None:
        cos, sin = ops.take(cos, positions, axis=0), ops.take(sin, positions, axis=0)
    turned = nn.rotate(
        heads, ops.expand_dims(cos, 1), ops.expand_dims(sin, 1), interleaved=bool(node.get("interleaved", 0))
    )
    return _flat(turned) if flat else turned


@operator("CausalConvWithState")
def causal_conv_with_state(node: Node, x: Any, w: Any, b: Any = None, past: Any = None) -> Any:
    width = w.shape[2]
    if past is None:
        past = ops.zeros((*x.shape[:2], width - 1), x.dtype)
    found = nn.causal_conv1d(x, ops.squeeze(w, 1), b, before=past)
    if node.get("activation", "none") in ("silu", "swish"):
        found = nn.silu(found)
    return found, ops.concat([past, x], axis=2)[..., x.shape[2] :]


@operator("LinearAttention")
def linear_attention(node: Node, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None) -> Any:
    heads, shared = node.get("q_num_heads"), node.get("kv_num_heads")
    batch, steps = q.shape[:2]
    dtype, group = q.dtype, heads // shared
    state_dtype = dtype if past is None else past.dtype

    def rows(x: Any, count: int) -> Any:
        """One step first: [steps, batch, heads, dims] in f32."""
        return ops.moveaxis(ops.astype(_heads(x, count), np.float32), 2, 0)

    queries, keys, values = rows(q, heads), rows(k, shared), rows(v, shared)
    dims, width = keys.shape[-1], values.shape[-1]
    fade = ops.zeros((steps, 1, 1, 1)) if decay is None else rows(decay, shared)
    rate = ops.zeros((steps, 1, 1, 1)) if beta is None else rows(beta, beta.shape[-1])
    scale = node.get("scale", 0.0) or 1 / math.sqrt(dims)
    start = ops.zeros((batch, shared, dims, width)) if past is None else ops.astype(past, np.float32)

    def step(state: Any, row: Any) -> Any:
        query, key, value, gone, correction = row
        state = state * ops.expand_dims(ops.exp(gone), -1)
        if beta is not None:
            value = correction * (value - ops.einsum("bhdm,bhd->bhm", state, key))
        state = state + ops.expand_dims(key, -1) * ops.expand_dims(value, -2)
        read = ops.repeat(state, group, axis=1)
        return state, ops.einsum("bhd,bhdm->bhm", query, read) * scale

    state, found = ops.scan(step, start, (queries, keys, values, fade, rate))
    found = _flat(ops.moveaxis(found, 0, 2))
    return ops.astype(found, dtype), ops.astype(state, state_dtype)
