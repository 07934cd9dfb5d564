"""Loops whose bodies are traced once: long scans, a decoder that stops by itself, and MiniLM over stacked layers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import optree
import pytest

import poot
from examples import sentence_similarity as example
from poot import ops

STEPS = 10_000
STOP, WORDS, WIDTH, MOST = 0, 11, 5, 24


# --- a long scan ------------------------------------------------------------------------------------------------------


def test_a_scan_of_many_steps_traces_its_body_once(device_name: str) -> None:
    steps = STEPS if device_name == "cpu" else 300
    traces = itertools.count()  # a number would be a capture, whose change traces again

    @poot.trace(device=device_name)
    def decay(start: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            next(traces)
            new = carry * 0.5 + x
            return new, new

        return ops.scan(body, start, xs)

    rng = np.random.default_rng(0)
    xs = rng.integers(-8, 8, (steps, 3)).astype(np.float32)
    carry, rows = np.zeros(3, np.float32), []
    for x in xs:
        carry = carry * np.float32(0.5) + x
        rows.append(carry)
    for _ in range(2):
        last, found = decay(np.zeros(3, np.float32), xs)
        np.testing.assert_allclose(np.asarray(found), np.array(rows), rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(np.asarray(last), np.asarray(found)[-1])
    assert next(traces) == 1
    graph = decay.graph(poot.f32[3], poot.f32[STEPS, 3])
    assert [equation.primitive for equation in graph.equations] == ["scan"]
    assert graph.equations[0].params["length"] == STEPS


@pytest.mark.slow_on("opencl", "wgpu")
def test_ten_thousand_integer_steps_are_exact(fast_device: str) -> None:
    @poot.trace(device=fast_device)
    def generator(seed: Any) -> Any:
        return ops.scan(lambda s, _: (s * np.uint32(1664525) + np.uint32(1013904223), None), seed, length=STEPS)[0]

    state = 7
    for _ in range(STEPS):
        state = (state * 1664525 + 1013904223) % (1 << 32)
    assert int(generator(np.array(7, np.uint32))) == state


# --- a decoder that stops on a condition ------------------------------------------------------------------------------


def decoder(embedding: Any, mixing: Any, token: Any) -> Any:
    """Choose the likeliest next token until it is STOP or there are MOST: the tokens, and how many."""

    def going(state: Any) -> Any:
        _, _, last, count = state
        return ops.logical_and(last != STOP, count < MOST)

    def step(state: Any) -> Any:
        hidden, tokens, last, count = state
        hidden = ops.tanh(mixing @ hidden + embedding[last])
        chosen = ops.argmax(embedding @ hidden)
        return hidden, tokens.at[count].set(chosen), chosen, count + 1

    start = (ops.zeros(WIDTH), ops.full(MOST, -1, dtype=poot.i32), token, 0)
    _, tokens, _, count = ops.while_loop(going, step, start)
    return tokens, count


def plain(embedding: np.ndarray, mixing: np.ndarray, token: int) -> list[int]:
    """The same, in Python and float64."""
    hidden, tokens = np.zeros(WIDTH), []
    while token != STOP and len(tokens) < MOST:
        hidden = np.tanh(mixing.astype(np.float64) @ hidden + embedding[token])
        token = int(np.argmax(embedding.astype(np.float64) @ hidden))
        tokens.append(token)
    return tokens


def test_a_decoder_stops_where_its_python_twin_does(device_name: str) -> None:
    decode = poot.trace(decoder, device=device_name)
    lengths = set()
    for seed in range(12 if device_name == "cpu" else 3):
        rng = np.random.default_rng(seed)
        embedding = rng.normal(size=(WORDS, WIDTH)).astype(np.float32)
        mixing = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
        for token in (0, 1, 5):
            expected = plain(embedding, mixing, token)
            tokens, count = decode(embedding, mixing, np.array(token, np.int32))
            assert int(count) == len(expected)
            assert np.asarray(tokens).tolist() == expected + [-1] * (MOST - len(expected))
            lengths.add(len(expected))
    assert {0, MOST} <= lengths
    assert device_name != "cpu" or len(lengths) > 3  # some stop on the way
    assert [e.primitive for e in decode.graph(embedding, mixing, poot.i32[()]).equations].count("while_loop") == 1


# --- MiniLM over stacked layers ---------------------------------------------------------------------------------------


def scanned_encoder(params: Any, ids: Any, mask: Any) -> Any:
    """The encoder of the example, its layers one scan over weights stacked along a first axis."""
    p = params["embeddings"]
    x = ops.nn.embedding(ids, p["word"]) + p["position"][: ids.shape[1]] + p["type"][0]
    x = example.norm(p["norm"], x)

    def layer(x: Any, p: Any) -> Any:
        x = example.norm(p["attention"]["norm"], x + example.attention(p["attention"], x, mask))
        hidden = ops.nn.gelu(example.linear(p["feedforward"]["input"], x), approximate=False)
        return example.norm(p["feedforward"]["norm"], x + example.linear(p["feedforward"]["output"], hidden)), None

    x, _ = ops.scan(layer, x, params["layers"])
    count = ops.sum(ops.where(mask, 1.0, 0.0), axis=1, keepdims=True)
    mean = ops.sum(ops.where(mask[:, :, None], x, 0.0), axis=1) / count
    return mean / ops.sqrt(ops.sum(mean * mean, axis=1, keepdims=True))


def stacked(params: Any) -> Any:
    """The parameters with the layers' weights stacked."""
    layers: Any = optree.tree_map(lambda *leaves: np.stack(leaves), *params["layers"])
    return {**params, "layers": layers}


@pytest.mark.slow_on("opencl", "wgpu")
def test_minilm_with_scanned_layers_equals_the_unrolled_one(device_name: str) -> None:
    params = example.load_params()
    tokens = example.tokenize(["A cat naps.", "Shares fell."])
    if device_name == "cpu":
        ids, mask = example.pad(tokens, 2, 8)
    else:
        ids, mask = example.pad([tokens[0][:2]], 1, 2)
        params = {**params, "layers": params["layers"][:2]}
    unrolled = poot.trace(example.encoder, device=device_name)(params, ids, mask)
    scanned = poot.trace(scanned_encoder, device=device_name)
    found = np.asarray(scanned(stacked(params), ids, mask))
    np.testing.assert_allclose(found, np.asarray(unrolled), rtol=0, atol=1e-6)
    primitives = [equation.primitive for equation in scanned.graph(stacked(params), ids, mask).equations]
    assert primitives.count("scan") == 1
