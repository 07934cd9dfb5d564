"""Attention as people write it, each case a function and the arrays that it takes; all of it is to be streamed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poot
from poot import ops
from poot.plan import cost
from poot.target import Target

INF = math.inf
H, Q, K, D = 2, 20, 40, 12
RNG = np.random.default_rng(5)

Case = tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]


def stream_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures under which attention of any size is streamed, in blocks so small that there are many."""
    known = cost.costs

    def figures(target: Target) -> cost.Costs:
        least = {"stream_rows": 1, "stream_keys": 1, "stream_queries": 1}
        return replace(known(target), stream_lanes=16, stream_block=8, stream_tile=3, **least)

    monkeypatch.setattr(cost, "costs", figures)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (1.5 * RNG.standard_normal(shape)).astype(dtype)


def qkv(dtype: Any = np.float32, *, queries: int = K) -> tuple[np.ndarray[Any, Any], ...]:
    return normal(H, queries, D, dtype=dtype), normal(H, K, D, dtype=dtype), normal(H, K, D - 3, dtype=dtype)


def before(queries: int = K, keys: int = K, offset: int = 0) -> Any:
    """Which keys are not after which queries."""
    return ops.arange(queries)[:, None] + offset >= ops.arange(keys)[None, :]


def plain(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(q @ k.mT * 0.25) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(ops.where(before(q.shape[-2], k.shape[-2]), q @ k.mT * 0.25, -INF)) @ v


def tril_of_ones(q: Any, k: Any, v: Any) -> Any:
    kept = ops.tril(ops.ones((K, K)))
    return ops.nn.softmax(ops.where(kept == 0, -INF, q @ k.mT * 0.25)) @ v


def tril_of_bools(q: Any, k: Any, v: Any) -> Any:
    kept = ops.tril(ops.ones((K, K), dtype=poot.bool_))
    return ops.nn.softmax(ops.where(kept, q @ k.mT * 0.25, -1e30)) @ v


def added_mask(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(q @ k.mT * 0.25 + ops.where(before(), 0.0, -INF)) @ v


def scaled_after_mask(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(ops.where(before(), q @ k.mT, -INF) / 4.0) @ v


def given_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.nn.softmax(q @ k.mT * 0.25 + mask) @ v


def padding(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.nn.softmax(ops.where(mask, q @ k.mT * 0.25, -1e9)) @ v


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    scores = ops.where(before(), ops.einsum("bqhd,bkhd->bhqk", q, k) * 0.25, -INF)
    return ops.einsum("bhqk,bkhd->bqhd", ops.nn.softmax(scores), v)


def layer(x: Any, inner: Any, outer: Any) -> Any:
    q, k, v = (x @ inner).reshape(H, K, 3, 2, D).transpose(2, 0, 3, 1, 4)
    mixed = ops.nn.softmax(q @ k.mT * 0.25) @ v
    return x + mixed.transpose(0, 2, 1, 3).reshape(H, K, 2 * D) @ outer


def two_layers(q: Any, k: Any, v: Any) -> Any:
    kept = ops.tril(ops.ones((K, K), dtype=poot.bool_))
    for _ in range(2):
        q = ops.nn.softmax(ops.where(kept, q @ k.mT * 0.25, -INF)) @ v
    return q


def repeated_heads(q: Any, k: Any, v: Any) -> Any:
    k, v = ops.repeat(k, 2, axis=0), ops.repeat(v, 2, axis=0)
    return ops.nn.softmax(ops.where(before(Q, K, K - Q), q @ k.mT * 0.25, -INF)) @ v


def broadcast_heads(q: Any, k: Any, v: Any) -> Any:
    q = q.reshape(H, 2, Q, D)
    return ops.nn.softmax(q @ k[:, None].mT * 0.25) @ v[:, None]


def grouped(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.attention(q, k, v, causal=True)


def everything(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    return ops.nn.attention(q, k, v, causal=True, window=9, softcap=5.0, sinks=sinks)


def moving_offset(q: Any, k: Any, v: Any, offset: Any) -> Any:
    return ops.nn.attention(q, k, v, causal=True, offset=offset)


def no_key(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(ops.where(before(offset=-5), q @ k.mT * 0.25, -INF)) @ v


def no_key_finite(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(ops.where(before(offset=-5), q @ k.mT * 0.25, -1e9)) @ v


def no_key_zeros(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.attention(q, k, v, mask=before(offset=-5))


def finite_window(q: Any, k: Any, v: Any) -> Any:
    ahead = ops.arange(K)[None, :] - ops.arange(Q)[:, None]
    return ops.nn.softmax(ops.where((ahead <= 3) & ~(ahead < -12), q @ k.mT * 0.25, -30.0)) @ v


def by_logsumexp(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * 0.25
    return ops.exp(scores - ops.nn.logsumexp(scores, axis=-1, keepdims=True)) @ v


def by_log_softmax(q: Any, k: Any, v: Any) -> Any:
    return ops.exp(ops.nn.log_softmax(q @ k.mT * 0.25)) @ v


def no_maximum(q: Any, k: Any, v: Any) -> Any:
    powers = ops.exp(q @ k.mT * 0.25)
    return (powers / ops.sum(powers, axis=-1, keepdims=True)) @ v


def deferred(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * 0.25
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    return (powers @ v) / ops.sum(powers, axis=-1, keepdims=True)


def deferred_causal(q: Any, k: Any, v: Any) -> Any:
    scores = ops.where(before(q.shape[-2], k.shape[-2]), q @ k.mT * 0.25, -INF)
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    total = ops.sum(powers, axis=-1, keepdims=True)
    return (powers @ v) / total


def deferred_no_key(q: Any, k: Any, v: Any) -> Any:
    scores = ops.where(before(offset=-5), q @ k.mT * 0.25, -INF)
    powers = ops.exp(scores - ops.maximum(ops.max(scores, axis=-1, keepdims=True), -1e30))
    mixed, total = powers @ v, ops.sum(powers, axis=-1, keepdims=True)
    return ops.where(total == 0, 0.0, mixed / total)


def deferred_reciprocal(q: Any, k: Any, v: Any) -> Any:
    powers = ops.exp(q @ k.mT * 0.25)
    mixed = powers @ v
    return mixed * (1 / ops.sum(powers, axis=-1))[..., None]


def deferred_turned(q: Any, k: Any, v: Any, x: Any) -> Any:
    scores = ops.einsum("hqd,hkd->hqk", q, k) * 0.25
    powers = ops.exp(scores - ops.max(scores, axis=-1)[..., None])
    mixed = ops.einsum("hqk,hkd->qhd", powers, v)
    total = ops.sum(powers, axis=-1).T
    return ops.tanh((mixed / total[..., None]).reshape(K, -1)) + x


def deferred_sinks(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    k, v = ops.repeat(k, 2, axis=0), ops.repeat(v, 2, axis=0)
    scores = ops.where(before(Q, K, K - Q), ops.tanh(q @ k.mT * 0.25) * 5.0, -INF)
    most = ops.maximum(ops.max(scores, axis=-1), sinks[:, None])[..., None]
    powers = ops.exp(scores - most)
    mixed = powers @ v
    return mixed / (ops.sum(powers, axis=-1, keepdims=True) + ops.exp(sinks[:, None, None] - most))


def sink_column(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    keys = k.shape[-2]
    scores = ops.where(before(q.shape[-2], keys, keys - q.shape[-2]), q @ k.mT * 0.25, -INF)
    column = ops.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))
    return ops.nn.softmax(ops.concat([scores, column], axis=-1))[..., :-1] @ v


def sink_columns_first(q: Any, k: Any, v: Any, columns: Any) -> Any:
    scores = ops.concat([columns, q @ k.mT * 0.25], axis=-1)
    kept = ops.concat([ops.full((Q, 3), True), before(Q, K, K - Q)], axis=1)
    return ops.nn.softmax(ops.where(kept, scores, -1e9))[..., 3:] @ v


def sink_twice_shifted(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    k, v = ops.repeat(k, 2, axis=0), ops.repeat(v, 2, axis=0)
    column = ops.broadcast_to(sinks[:, None, None].astype(q.dtype), (2 * H, Q, 1))
    scores = ops.concat([ops.where(before(Q, K, K - Q), q @ k.mT * 0.25, -1e4), column], axis=-1)
    weights = ops.nn.softmax(scores - ops.max(scores, axis=-1, keepdims=True))
    return weights[..., :-1].astype(v.dtype) @ v


def sink_deferred(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    column = ops.broadcast_to(sinks[:, None, None], (H, Q, 1))
    scores = ops.concat([q @ k.mT * 0.25, column], axis=-1)
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    return (powers[..., :K] @ v) / ops.sum(powers, axis=-1, keepdims=True)


def sink_of_no_key(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    scores = ops.where(before(offset=-5), q @ k.mT * 0.25, -INF)
    column = ops.broadcast_to(sinks[:, None, None], (H, K, 1))
    return ops.nn.softmax(ops.concat([scores, column], axis=-1))[..., :K] @ v


def alibi(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    distance = (ops.arange(K)[None, :] - ops.arange(K)[:, None]).astype(poot.f32)
    return ops.nn.softmax(ops.where(before(), q @ k.mT * 0.25 + slopes[:, None, None] * distance, -INF)) @ v


def turned(q: Any, k: Any, v: Any) -> Any:
    return (v.mT @ ops.nn.softmax(k @ q.mT * 0.25, axis=1)).mT


def one_head(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(q @ k.T / 4) @ v


def one_dimension(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(ops.where(before(), q[..., :1] @ k[..., :1].mT, -INF)) @ v[..., :1]


def ends(q: Any, k: Any, v: Any, x: Any) -> Any:
    return ops.tanh(ops.nn.softmax((q * 0.5) @ k.mT) @ v * 2.0 + x)


F16, BF16 = np.float16, ml_dtypes.bfloat16
CASES: dict[str, Case] = {
    "plain": (plain, qkv()),
    "causal": (causal, qkv()),
    "causal, f16": (causal, qkv(F16)),
    "causal, bf16": (causal, qkv(BF16)),
    "causal, f64": (causal, qkv(np.float64)),
    "tril of ones": (tril_of_ones, qkv()),
    "tril of bools": (tril_of_bools, qkv()),
    "added mask": (added_mask, qkv()),
    "scaled after the mask": (scaled_after_mask, qkv()),
    "given mask": (given_mask, (*qkv(queries=Q), normal(Q, K))),
    "padding": (padding, (*qkv(queries=Q), RNG.random((H, 1, K)) > 0.4)),
    "by einsum": (by_einsum, (normal(H, K, 3, D), normal(H, K, 3, D), normal(H, K, 3, D))),
    "layer": (layer, (normal(H, K, 2 * D), normal(2 * D, 6 * D) / 4, normal(2 * D, 2 * D))),
    "two layers": (two_layers, (normal(H, K, D), normal(H, K, D), normal(H, K, D))),
    "repeated heads": (repeated_heads, (normal(2 * H, Q, D), *qkv()[1:])),
    "broadcast heads": (broadcast_heads, (normal(2 * H, Q, D), *qkv()[1:])),
    "grouped": (grouped, (normal(2 * H, Q, D), *qkv()[1:])),
    "grouped, bf16": (grouped, (normal(2 * H, Q, D, dtype=BF16), *qkv(BF16)[1:])),
    "everything": (everything, (normal(2 * H, Q, D), *qkv()[1:], normal(2 * H))),
    "moving offset": (moving_offset, (*qkv(queries=Q), np.array(7, np.int32))),
    "no key": (no_key, qkv()),
    "no key, finite": (no_key_finite, qkv()),
    "no key, zeros": (no_key_zeros, qkv()),
    "finite window": (finite_window, qkv(queries=Q)),
    "by logsumexp": (by_logsumexp, qkv()),
    "by log softmax": (by_log_softmax, qkv()),
    "no maximum": (no_maximum, qkv()),
    "deferred": (deferred, qkv()),
    "deferred, f16": (deferred_causal, qkv(F16)),
    "deferred, bf16": (deferred, qkv(BF16, queries=Q)),
    "deferred, f64": (deferred_causal, qkv(np.float64)),
    "deferred, causal": (deferred_causal, qkv()),
    "deferred, no key": (deferred_no_key, qkv()),
    "deferred, reciprocal": (deferred_reciprocal, qkv(queries=Q)),
    "deferred, turned": (deferred_turned, (*qkv(), normal(K, H * (D - 3)))),
    "deferred, sinks": (deferred_sinks, (normal(2 * H, Q, D), *qkv()[1:], normal(2 * H))),
    "sink column": (sink_column, (*qkv(), normal(H))),
    "sink column, f16": (sink_column, (*qkv(F16, queries=Q), normal(H, dtype=F16))),
    "sink column, bf16": (sink_column, (*qkv(BF16), normal(H, dtype=BF16))),
    "sink columns first": (sink_columns_first, (*qkv(queries=Q), normal(H, Q, 3))),
    "sink column, shifted twice": (sink_twice_shifted, (normal(2 * H, Q, D), *qkv()[1:], normal(2 * H))),
    "sink column, deferred": (sink_deferred, (*qkv(queries=Q), normal(H))),
    "sink column, no key": (sink_of_no_key, (*qkv(), normal(H))),
    "alibi": (alibi, (*qkv(), normal(H))),
    "turned": (turned, (normal(H, K, D), normal(H, K, D), normal(H, K, D))),
    "one head": (one_head, tuple(x[0] for x in qkv())),
    "one dimension": (one_dimension, qkv()),
    "ends": (ends, (*qkv(), normal(H, K, D - 3))),
}
