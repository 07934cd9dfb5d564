"""Products, einsum and ops.nn, against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from poot.dtypes import bf16, f32, i8, i32
from poot.errors import IndexFault
from poot.trace import ops
from tests.unit.ops_support import build, check, primitives, run, tracer

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# --- products ---------------------------------------------------------------------------------------------------------

SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: Any, right: Any) -> None:
    check(lambda a, b: a @ b, lambda a, b: a @ b, normal(*left), normal(*right), rtol=1e-5, atol=1e-5)


def test_matmul_dtypes() -> None:
    a, b = np.full((2, 300), 100, np.int8), np.full((300, 2), 100, np.int8)
    check(lambda a, b: a @ b, lambda a, b: a @ b, a, b)
    check(lambda a, b: ops.matmul(a, b, dtype=i32), np.full((2, 2), 3000000, np.int32), a, b)
    half = np.full((2, 300), 100, np.float16)
    check(lambda a, b: ops.matmul(a, b, dtype=f32), np.full((2, 2), 3000000, np.float32), half, half.T.copy())
    assert run(lambda a, b: a @ b, np.full((1, 4096), 1, np.float16), np.full((4096, 1), 1, np.float16)) == 4096
    x = tracer(i8[2, 2])
    assert (x @ x.builder.input("y", f32[2, 2])).dtype is f32


def test_other_products() -> None:
    x, y, v, w = normal(2, 3, 4), normal(4, 5), normal(4), normal(4)
    check(lambda x, y: ops.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), x, y, rtol=1e-5)
    axes = ([0, 2], [0, 1])
    check(lambda x: ops.tensordot(x, x[:, 0], axes), lambda x: np.tensordot(x, x[:, 0], axes), x, rtol=1e-5)
    check(lambda x: ops.tensordot(x, x[0, 0], 0), lambda x: np.tensordot(x, x[0, 0], 0), x)
    check(ops.dot, np.dot, x, y, rtol=1e-5, atol=1e-5)
    check(lambda v, w: [ops.dot(v, w), ops.dot(v, 2)], lambda v, w: [np.dot(v, w), v * 2], v, w, rtol=1e-5)
    check(ops.outer, np.outer, v, w)
    check(lambda x, v: ops.vecdot(x, v), lambda x, v: np.einsum("abi,i->ab", x, v), x, v, rtol=1e-5, atol=1e-6)
    check(lambda x: ops.vecdot(x, x, axis=1), lambda x: np.einsum("aib,aib->ab", x, x), x, rtol=1e-5)
    check(lambda x: [ops.trace(x), ops.diagonal(x)], lambda x: [np.trace(x, 0, 1, 2), np.diagonal(x, 0, 1, 2)], x)
    for offset in (-3, -1, 2, 4):
        check(lambda x, o=offset: ops.diagonal(x, offset=o), lambda x, o=offset: np.diagonal(x, o, 1, 2), x)
    check(
        lambda x, y: ops.dot_general(x, y, ((2,), (0,)), dtype="f32"),
        lambda x, y: np.einsum("abi,ij->abj", x, y),
        x,
        y,
        rtol=1e-5,
    )


def test_norms() -> None:
    x = normal(2, 3, 4)
    for order in (2, 1, 0, np.inf, -np.inf, 3):
        check(
            lambda x, o=order: ops.linalg.vector_norm(x, axis=1, ord=o),
            lambda x, o=order: np.linalg.norm(x, o, 1).astype(np.float32),
            x,
            rtol=1e-5,
        )
    for order in ("fro", 1, -1, np.inf, -np.inf):
        for keepdims in (False, True):
            check(
                lambda x, o=order, k=keepdims: ops.linalg.matrix_norm(x, ord=o, keepdims=k),
                lambda x, o=order, k=keepdims: np.linalg.norm(x, o, (1, 2), k),
                x,
                rtol=1e-5,
            )
        check(
            lambda x, o=order: ops.linalg.norm(x, o, (0, 2), True),
            lambda x, o=order: np.linalg.norm(x, o, (0, 2), True),
            x,
            rtol=1e-5,
        )
    check(lambda x: np.linalg.norm(x), lambda x: np.linalg.norm(x), x, rtol=1e-5)
    check(lambda x: np.linalg.norm(x, axis=0), lambda x: np.linalg.norm(x, axis=0), x, rtol=1e-5)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bij,bjk->kib", (2, 3, 4), (2, 4, 5)),
    ("i,j->ji", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    ("ij,ij,j->i", (3, 4), (3, 4), (4,)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...ij,...jk", (2, 1, 3, 4), (6, 4, 5)),
    ("i...->...", (3, 2, 2)),
    ("ijk,jl->l", (2, 3, 4), (3, 5)),
    (" i j , k -> k i ", (2, 3), (4,)),
]


@pytest.mark.parametrize("case", EINSUMS)
def test_einsum(case: Any) -> None:
    subscripts, *shapes = case
    arrays = [normal(*shape) for shape in shapes]
    check(
        lambda *xs: ops.einsum(subscripts, *xs),
        lambda *xs: np.einsum(subscripts, *xs, dtype=np.float32) + np.float32(0),
        *arrays,
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_pair_is_one_product() -> None:
    arrays = normal(2, 3, 4, 5), normal(2, 3, 6, 5)
    assert primitives(lambda x, y: ops.einsum("bhqd,bhkd->bhqk", x, y), *arrays) == ["dot_general"]


# --- activations ------------------------------------------------------------------------------------------------------

POINTS = np.float32([-90, -10, -3, -1, -1e-3, -0.0, 0.0, 0.5, 2, 8, 100])
WIDE = POINTS.astype(np.float64)
ACTIVATIONS: list[tuple[Any, Any]] = [
    (ops.nn.relu, np.maximum(WIDE, 0)),
    (ops.nn.sigmoid, special.expit(WIDE)),
    (ops.nn.silu, WIDE * special.expit(WIDE)),
    (ops.nn.gelu, WIDE * special.ndtr(WIDE)),
    (
        lambda x: ops.nn.gelu(x, "tanh"),
        WIDE / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (WIDE + 0.044715 * WIDE**3))),
    ),
]


@pytest.mark.parametrize("number", range(len(ACTIVATIONS)))
def test_activations(number: int) -> None:
    function, expected = ACTIVATIONS[number]
    check(function, expected.astype(np.float32), POINTS, rtol=2e-6, atol=2e-6)
    half = POINTS.astype(np.float16)
    check(function, expected.astype(np.float16), half, rtol=2e-3, atol=2e-3)


def test_relu_of_other_dtypes() -> None:
    check(ops.nn.relu, lambda x: np.maximum(x, 0), np.int8([-3, 4]))
    assert np.isnan(run(ops.nn.relu, np.float32([np.nan])))[0]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int) -> None:
    x = normal(3, 4, 5) * 50
    wide = x.astype(np.float64)
    check(lambda x: ops.nn.softmax(x, axis), special.softmax(wide, axis).astype(np.float32), x)
    check(lambda x: ops.nn.log_softmax(x, axis), special.log_softmax(wide, axis).astype(np.float32), x, rtol=1e-5)
    check(lambda x: ops.nn.logsumexp(x, axis), special.logsumexp(wide, axis).astype(np.float32), x)


def test_softmax_of_large_and_masked_values() -> None:
    x = np.float32([[1e30, 1e30, -1e30], [-np.inf, 0, -np.inf]])
    check(ops.nn.softmax, np.float32([[0.5, 0.5, 0], [0, 1, 0]]), x)
    assert np.isnan(run(ops.nn.softmax, np.float32([-np.inf, -np.inf]))).all()
    assert run(ops.nn.softmax, np.zeros((2, 0), np.float32)).shape == (2, 0)
    check(lambda x: ops.nn.logsumexp(x, keepdims=True), np.float32([[np.inf]]), np.float32([[np.inf, 1]]))
    check(ops.nn.logsumexp, np.float32(-np.inf), np.float32([-np.inf, -np.inf]))
    check(lambda x: ops.nn.softmax(x), np.full(2048, 1 / 2048, np.float16), np.zeros(2048, np.float16), rtol=1e-3)


# --- normalisation ----------------------------------------------------------------------------------------------------


def layernorm(x: Any, w: Any = 1.0, b: Any = 0.0, eps: float = 1e-5) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def test_layernorm() -> None:
    x, w, b = normal(2, 3, 8) * 3 + 100, normal(8), normal(8)
    check(ops.nn.layernorm, layernorm(x, w, b).astype(np.float32), x, w, b, rtol=1e-4, atol=1e-4)
    check(ops.nn.layernorm, layernorm(x).astype(np.float32), x, rtol=1e-4, atol=1e-4)
    check(lambda x: ops.nn.layernorm(x, eps=1e-12), np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32))
    assert ops.nn.layernorm(tracer(bf16[2, 8])).dtype is bf16


def test_rmsnorm() -> None:
    x, w = normal(2, 8), normal(8)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * w
    check(lambda x, w: ops.nn.rmsnorm(x, w, 1e-6), expected.astype(np.float32), x, w)
    half = np.full((1, 8), 300, np.float16)
    check(ops.nn.rmsnorm, np.ones((1, 8), np.float16), half, rtol=1e-3)


# --- layers -----------------------------------------------------------------------------------------------------------


def test_linear() -> None:
    x, w, b = normal(2, 3, 4), normal(5, 4), normal(5)
    check(ops.nn.linear, lambda x, w, b: x @ w.T + b, x, w, b, rtol=1e-5, atol=1e-5)
    check(ops.nn.linear, lambda x, w: x @ w.T, x[0, 0], w, rtol=1e-5, atol=1e-5)
    assert primitives(ops.nn.linear, x, w) == ["dot_general"]


def test_embedding() -> None:
    check(ops.nn.embedding, lambda ids, table: table[ids], np.int32([[1, 0], [2, 2]]), normal(3, 4))
    for ids in (np.int32([-1]), np.int64([0, -3]), np.int8([-128]), np.int32([3])):
        with pytest.raises(IndexFault, match="out of range for axis 0 of extent 3"):
            np.asarray(ops.nn.embedding(ids, normal(3, 4)))
    ids, table = np.int32([-1, -4, 1, 3, 7]), normal(3, 4)
    check(lambda i, t: ops.nn.embedding(i, t, mode="clip"), lambda i, t: t[np.clip(i, 0, 2)], ids, table)
    check(lambda i, t: ops.nn.embedding(i, t, mode="wrap"), lambda i, t: t[i % 3], ids, table)
    kept = np.array([[False], [False], [True], [False], [False]])
    check(lambda i, t: ops.nn.embedding(i, t, mode="fill"), lambda i, t: np.where(kept, t[1], np.nan), ids, table)
    graph = build(ops.nn.embedding, np.int32([1]), normal(3, 4))
    assert [equation.effects for equation in graph.equations if equation.primitive == "gather"] == [{"fault"}]


# --- attention --------------------------------------------------------------------------------------------------------


def attention(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    with np.errstate(all="ignore"):
        return np.nan_to_num(special.softmax(scores, -1)) @ v


Q, K, V = normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 5)


def test_attention() -> None:
    check(ops.nn.attention, attention(Q, K, V).astype(np.float32), Q, K, V, rtol=1e-5, atol=1e-5)
    check(
        lambda q, k, v: ops.nn.attention(q, k, v, scale=0.1),
        attention(Q, K, V, scale=0.1).astype(np.float32),
        Q,
        K,
        V,
        rtol=1e-5,
        atol=1e-5,
    )


def test_attention_masks() -> None:
    bools = RNG.random((2, 1, 1, 6)) > 0.4
    bools[..., 0] = True
    floats = normal(4, 6)
    for mask in (bools, floats):
        expected = attention(Q, K, V, mask).astype(np.float32)
        check(ops.nn.attention, expected, Q, K, V, mask, rtol=1e-5, atol=1e-5)


def test_a_query_that_may_attend_to_nothing_gives_zeros() -> None:
    mask = np.ones((4, 6), np.bool_)
    mask[1] = False
    expected = attention(Q, K, V, mask).astype(np.float32)
    assert (expected[:, :, 1] == 0).all()
    check(ops.nn.attention, expected, Q, K, V, mask, rtol=1e-5, atol=1e-5)
    floats = np.where(mask, 0, -np.inf).astype(np.float32)
    check(ops.nn.attention, expected, Q, K, V, floats, rtol=1e-5, atol=1e-5)
    none = np.zeros((2, 3, 0, 8), np.float32)
    check(lambda q, k: ops.nn.attention(q, k, k), np.zeros((2, 3, 4, 8), np.float32), Q, none)


def test_causal_attention_lines_up_the_ends() -> None:
    mask = np.tril(np.ones((4, 6), np.bool_), 2)
    expected = attention(Q, K, V, mask).astype(np.float32)
    check(lambda q, k, v: ops.nn.attention(q, k, v, causal=True), expected, Q, K, V, rtol=1e-5, atol=1e-5)
    both = np.array(mask & (np.arange(6) != 1))
    expected = attention(Q, K, V, both).astype(np.float32)
    check(
        lambda q, k, v, m: ops.nn.attention(q, k, v, m, causal=True),
        expected,
        Q,
        K,
        V,
        np.arange(6) != 1,
        rtol=1e-5,
        atol=1e-5,
    )


def test_attention_of_halves() -> None:
    q, k, v = (x.astype(np.float16) for x in (Q, K, V))
    check(ops.nn.attention, attention(q, k, v).astype(np.float16), q, k, v, rtol=3e-3, atol=3e-3)
    assert ops.nn.attention(*(tracer(bf16[2, 4, 8]),) * 3).dtype is bf16
