"""The all-MiniLM-L6-v2 encoder in NumPy, float64, one sentence at a time: written from the BERT paper's equations.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018): post-norm layers, exact GELU. It shares
no code with the traced encoder, and takes no padding and no mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import erf, softmax

HEADS, LAYERS, EPSILON = 12, 6, 1e-12


def widened(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the stored weights in float64."""
    return {name: array.astype(np.float64) for name, array in stored.items() if array.dtype == np.float32}


def embed(w: Mapping[str, np.ndarray], tokens: Sequence[int]) -> np.ndarray:
    """Return the unit vector, float64 [384], of one sentence's token ids; w: widened weights by stored name."""

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def attend(name: str, x: np.ndarray) -> np.ndarray:
        q, k, v = (np.split(dense(f"{name}.self.{part}", x), HEADS, axis=1) for part in ("query", "key", "value"))
        heads = [softmax(a @ b.T / np.sqrt(a.shape[1]), axis=1) @ c for a, b, c in zip(q, k, v, strict=True)]
        return dense(f"{name}.output.dense", np.concatenate(heads, axis=1))

    x = w["embeddings.word_embeddings.weight"][list(tokens)]
    x = x + w["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        x = norm(f"{layer}.attention.output.LayerNorm", x + attend(f"{layer}.attention", x))
        hidden = dense(f"{layer}.intermediate.dense", x)
        hidden = hidden * 0.5 * (1 + erf(hidden / np.sqrt(2)))
        x = norm(f"{layer}.output.LayerNorm", x + dense(f"{layer}.output.dense", hidden))
    mean = x.mean(axis=0)
    return mean / np.sqrt(mean @ mean)
