"""The sentence encoder all-MiniLM-L6-v2, float32, 64 tokens, written anew for each library from the same weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import optree

import poot
from benchmarks.cpu.peers import OnnxModel, tensor, torch, with_jax, with_onnxruntime, with_torch
from benchmarks.cpu.row import Row, Run
from examples.sentence_similarity import EPSILON, HEADS, LAYERS, WIDTH, encoder, load_params

TOKENS = 64
INNER = 1536


def _inputs(batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (batch, TOKENS), dtype=np.int32)
    return ids, np.arange(TOKENS)[None, :] < rng.integers(TOKENS // 2, TOKENS + 1, (batch, 1))


def torch_encoder(params: Any, t: Any) -> Any:
    """The encoder in PyTorch, a function of token ids and a mask."""
    functional = t.nn.functional
    weights = optree.tree_map(lambda stored: tensor(np.array(stored)), params)

    def dense(p: Any, x: Any) -> Any:
        return functional.linear(x, p["weight"], p["bias"])

    def norm(p: Any, x: Any) -> Any:
        return functional.layer_norm(x, (WIDTH,), p["weight"], p["bias"], EPSILON)

    def attend(p: Any, x: Any, mask: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (
            dense(p[name], x).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return dense(p["output"], mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def run(ids: Any, mask: Any) -> Any:
        p = weights["embeddings"]
        x = norm(p["norm"], p["word"][ids] + p["position"][: ids.shape[1]] + p["type"][0])
        for p in weights["layers"]:
            x = norm(p["attention"]["norm"], x + attend(p["attention"], x, mask))
            hidden = functional.gelu(dense(p["feedforward"]["input"], x))
            x = norm(p["feedforward"]["norm"], x + dense(p["feedforward"]["output"], hidden))
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1)

    return run


def _jax_encoder(params: Any, jax: Any, jnp: Any) -> Any:
    weights = optree.tree_map(jnp.asarray, params)

    def dense(p: Any, x: Any) -> Any:
        return x @ p["weight"].T + p["bias"]

    def norm(p: Any, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON) * p["weight"] + p["bias"]

    def attend(p: Any, x: Any, mask: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (
            dense(p[name], x).reshape(batch, length, HEADS, WIDTH // HEADS).swapaxes(1, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(2, 3) / (WIDTH // HEADS) ** 0.5
        mixed = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -jnp.inf)) @ v
        return dense(p["output"], mixed.swapaxes(1, 2).reshape(batch, length, WIDTH))

    def run(ids: Any, mask: Any) -> Any:
        p = weights["embeddings"]
        x = norm(p["norm"], p["word"][ids] + p["position"][: ids.shape[1]] + p["type"][0])
        for p in weights["layers"]:
            x = norm(p["attention"]["norm"], x + attend(p["attention"], x, mask))
            hidden = jax.nn.gelu(dense(p["feedforward"]["input"], x), approximate=False)
            x = norm(p["feedforward"]["norm"], x + dense(p["feedforward"]["output"], hidden))
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)

    return run


def _onnx_encoder(params: Any, batch: int, m: OnnxModel) -> str:
    def dense(p: Any, x: str) -> str:
        return m("Add", m("MatMul", x, m.constant(p["weight"].T)), m.constant(p["bias"]))

    def norm(p: Any, x: str) -> str:
        weight, bias = m.constant(p["weight"]), m.constant(p["bias"])
        return m("LayerNormalization", x, weight, bias, axis=-1, epsilon=EPSILON)

    split = m.constant(np.array([batch, TOKENS, HEADS, WIDTH // HEADS]))
    merge = m.constant(np.array([batch, TOKENS, WIDTH]))
    floats = m("Cast", "mask", to=1)
    hidden = m("Mul", m("Sub", floats, m.constant(np.float32(1))), m.constant(np.float32(3e38)))
    bias = m("Unsqueeze", hidden, m.constant(np.array([1, 2])))

    def attend(p: Any, x: str) -> str:
        q, k, v = (
            m("Transpose", m("Reshape", dense(p[name], x), split), perm=[0, 2, 3, 1] if name == "key" else [0, 2, 1, 3])
            for name in ("query", "key", "value")
        )
        scores = m("Mul", m("MatMul", q, k), m.constant(np.float32((WIDTH // HEADS) ** -0.5)))
        mixed = m("MatMul", m("Softmax", m("Add", scores, bias), axis=-1), v)
        return dense(p["output"], m("Reshape", m("Transpose", mixed, perm=[0, 2, 1, 3]), merge))

    p = params["embeddings"]
    word = m("Gather", m.constant(p["word"]), "ids")
    x = norm(p["norm"], m("Add", word, m.constant(p["position"][:TOKENS] + p["type"][0])))
    for p in params["layers"]:
        x = norm(p["attention"]["norm"], m("Add", x, attend(p["attention"], x)))
        inner = m("Gelu", dense(p["feedforward"]["input"], x))
        x = norm(p["feedforward"]["norm"], m("Add", x, dense(p["feedforward"]["output"], inner)))
    one = m.constant(np.array([1]))
    kept = m("Mul", x, m("Unsqueeze", floats, m.constant(np.array([2]))))
    mean = m("Div", m("ReduceSum", kept, one, keepdims=0), m("ReduceSum", floats, one, keepdims=1))
    return m("Div", mean, m("Sqrt", m("ReduceSum", m("Mul", mean, mean), one, keepdims=1)))


def _encoder(batch: int) -> dict[str, Run]:
    params = load_params()
    ids, mask = _inputs(batch)
    weights = optree.tree_map(poot.asarray, params)
    ours = poot.trace(lambda ids, mask: encoder(weights, ids, mask))
    return {
        "poot": lambda: np.asarray(ours(ids, mask)),
        **with_jax(functools.partial(_jax_encoder, params), [ids, mask]),
        **(with_torch(functools.partial(torch_encoder, params), [ids, mask], compiled=True) if torch() else {}),
        **with_onnxruntime(functools.partial(_onnx_encoder, params, batch), {"ids": ids, "mask": mask}),
    }


def rows() -> list[Row]:
    """One sentence, and 32 at once."""
    dense = WIDTH * WIDTH * 4 + WIDTH * INNER * 2
    sentence = 2 * TOKENS * LAYERS * (dense + 2 * TOKENS * WIDTH)
    return [
        Row(
            f"minilm_{batch}",
            f"all-MiniLM-L6-v2, {batch} x {TOKENS} tokens",
            functools.partial(_encoder, batch),
            flops=sentence * batch,
        )
        for batch in (1, 32)
    ]
