"""Attention against a reference that walks over queries and keys in float64."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace import ops
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(2)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def reference(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    scale: float | None = None,
    causal: bool = False,
    before: int | None = None,
    after: int | None = None,
    softcap: float | None = None,
    sinks: Any = None,
    offset: Any = None,
) -> Any:
    """One query at a time, of 4-d arrays [batch, heads, rows, dims]."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    batch, heads, queries, dims = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    mask = None if mask is None else np.broadcast_to(mask, (batch, heads, queries, keys))
    offsets = np.broadcast_to(keys - queries if offset is None else offset, (batch, heads))
    result = np.zeros((batch, heads, queries, v.shape[-1]))
    for b, h, i in np.ndindex(batch, heads, queries):
        place = offsets[b, h] + i
        scores, values = [], []
        for j in range(keys):
            if (causal and j > place) or (before is not None and j < place - before):
                continue
            if after is not None and j > place + after:
                continue
            score = q[b, h, i] @ k[b, h // group, j] * (1 / math.sqrt(dims) if scale is None else scale)
            score = score if softcap is None else softcap * math.tanh(score / softcap)
            if mask is not None and mask.dtype == np.bool_:
                if not mask[b, h, i, j]:
                    continue
            elif mask is not None:
                score += float(mask[b, h, i, j])
            scores.append(score)
            values.append(v[b, h // group, j])
        if not scores:
            continue
        powers = np.exp(np.array(scores) - max(scores))
        total = powers.sum() + (0 if sinks is None else math.exp(sinks[h] - max(scores)))
        result[b, h, i] = powers @ np.array(values) / total
    return result


Q, K, V = normal(2, 4, 5, 8), normal(2, 4, 7, 8), normal(2, 4, 7, 6)
SHARED_K, SHARED_V = normal(2, 2, 7, 8), normal(2, 2, 7, 6)
SINKS = normal(4)
BOOLS = RNG.random((2, 1, 5, 7)) > 0.3

OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "causal": ({"causal": True}, {"causal": True}),
    "softcap": ({"softcap": 0.7}, {"softcap": 0.7}),
    "softcap before the mask": ({"softcap": 0.7, "mask": BOOLS}, {"softcap": 0.7, "mask": BOOLS}),
    "window": ({"window": 2}, {"before": 1, "after": 1}),
    "causal window": ({"window": 3, "causal": True}, {"before": 2, "causal": True}),
    "window of a pair": ({"window": (1, 2)}, {"before": 1, "after": 2}),
    "window without end": ({"window": (None, 1)}, {"after": 1}),
    "window of itself": ({"window": 1}, {"before": 0, "after": 0}),
    "sinks": ({"sinks": SINKS}, {"sinks": SINKS}),
    "sinks, causal": ({"sinks": SINKS * 5, "causal": True}, {"sinks": SINKS * 5, "causal": True}),
    "offset": ({"offset": 1, "causal": True}, {"offset": 1, "causal": True}),
    "offset of nothing to see": ({"offset": -2, "causal": True}, {"offset": -2, "causal": True}),
    "offset, window": ({"offset": 3, "window": (2, 0)}, {"offset": 3, "before": 2, "after": 0}),
    "mask": ({"mask": BOOLS}, {"mask": BOOLS}),
    "float mask": ({"mask": SINKS[:, None, None]}, {"mask": SINKS[:, None, None]}),
    "all at once": (
        {"mask": BOOLS, "causal": True, "window": 4, "softcap": 2.0, "sinks": SINKS, "scale": 0.5},
        {"mask": BOOLS, "causal": True, "before": 3, "softcap": 2.0, "sinks": SINKS, "scale": 0.5},
    ),
}


def attend(options: dict[str, Any], *arrays: Any) -> Any:
    """Attention with the arrays among the options as operands of the graph."""
    names = [name for name, value in options.items() if isinstance(value, np.ndarray)]
    rest = {name: value for name, value in options.items() if name not in names}
    return (
        lambda q, k, v, *xs: ops.nn.attention(q, k, v, **rest, **dict(zip(names, xs, strict=True))),
        *arrays,
        *(options[name] for name in names),
    )


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("shared", [False, True])
def test_options(name: str, shared: bool) -> None:
    options, meaning = OPTIONS[name]
    k, v = (SHARED_K, SHARED_V) if shared else (K, V)
    function, *arrays = attend(options, Q, k, v)
    check(function, reference(Q, k, v, **meaning).astype(np.float32), *arrays, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_keep_scores_in_f32(dtype: Any) -> None:
    q, k, v = (x.astype(dtype) for x in (Q * 8, SHARED_K * 8, SHARED_V))
    expected = reference(q, k, v, causal=True, softcap=50.0).astype(np.float64)
    actual = run(lambda q, k, v: ops.nn.attention(q, k, v, causal=True, softcap=50.0), q, k, v)
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual.astype(np.float64), expected, atol=0.03, rtol=0.01)


def test_offsets_of_their_own_for_each_sequence() -> None:
    offset = np.int32([[3], [0]])
    function, *arrays = attend({"causal": True, "offset": offset}, Q, SHARED_K, SHARED_V)
    expected = reference(Q, SHARED_K, SHARED_V, causal=True, offset=offset).astype(np.float32)
    check(function, expected, *arrays, rtol=1e-5, atol=1e-5)


def test_other_ranks() -> None:
    q, k, v = Q[0, 0], K[0, 0], V[0, 0]
    expected = reference(q[None, None], k[None, None], v[None, None], causal=True)[0, 0].astype(np.float32)
    check(lambda q, k, v: ops.nn.attention(q, k, v, causal=True), expected, q, k, v, rtol=1e-5, atol=1e-5)
    five = [x.reshape(1, *x.shape) for x in (Q, SHARED_K, SHARED_V)]
    expected = reference(Q, SHARED_K, SHARED_V)[None].astype(np.float32)
    check(ops.nn.attention, expected, *five, rtol=1e-5, atol=1e-5)
    empty = Q[:, :, :0]
    check(ops.nn.attention, np.zeros((2, 4, 0, 6), np.float32), empty, K, V)


def test_shared_heads_copy_no_keys() -> None:
    graph = build(ops.nn.attention, Q, SHARED_K, SHARED_V)
    assert [equation.primitive for equation in graph.equations].count("dot_general") == 2
    assert max(value.spec.size for equation in graph.equations for value in equation.outputs) <= 2 * 4 * 5 * 8


REFUSALS: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (
        ShapeError,
        r"attention: k: shape \(2, 3, 7, 8\), expected \(2, 4, keys, 8\), as q has it, or a divisor",
        {"k": normal(2, 3, 7, 8)},
    ),
    (ShapeError, r"attention: v: shape \(2, 4, 6, 6\), expected \(2, 4, 7, value_dim\)", {"v": V[:, :, :6]}),
    (ShapeError, "attention: q", {"q": Q[0, 0, 0]}),
    (ShapeError, r"attention: mask: shape \(5, 6\)", {"mask": np.ones((5, 7), bool)[:, :6]}),
    (ShapeError, r"attention: sinks: shape \(3,\), expected \(4,\), one a head", {"sinks": SINKS[:3]}),
    (ShapeError, r"attention: offset: shape \(3,\)", {"offset": np.zeros(3, np.int32), "causal": True}),
    (DTypeError, "attention: mask: dtype i32", {"mask": np.ones((5, 7), np.int32)}),
    (DTypeError, "attention: offset: dtype f32", {"offset": np.float32([1]), "causal": True}),
    (ArgumentError, "attention: window: 0 is not valid", {"window": 0}),
    (ArgumentError, "attention: window", {"window": (1, 2, 3)}),
    (ArgumentError, "attention: window", {"window": (-1, 2)}),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, changes = REFUSALS[number]
    options: dict[str, Any] = {"q": Q, "k": K, "v": V} | changes
    arrays = [options.pop(name) for name in ("q", "k", "v")]
    function, *operands = attend(options, *arrays)
    with pytest.raises(error, match=message) as caught:
        build(function, *operands)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]
