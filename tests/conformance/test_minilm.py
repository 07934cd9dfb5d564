"""A real sentence encoder agrees with stored embeddings, and with a reference written apart, on every device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import poot
from examples import sentence_similarity as example
from tests import minilm_reference
from tests.refusal import refuse

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "minilm_golden.json").read_text("utf-8"))
SENTENCES: list[str] = GOLDEN["sentences"]
EXPECTED = np.array(GOLDEN["embedding"])
TOLERANCE = 1e-5

ORACLE, INTERPRETER = "poot.trace.evaluate", "poot.kernel.interpret"
"""A device that computes by itself calls neither."""

UNSEEN = [
    "你好，世界！今天天气很好。",
    "🎉🚀 emoji only 🐈",
    "word " * 400,
    "[CLS] and [SEP] written out, and\ttabs\nand newlines",
    "a",
]
"""Sentences without a stored embedding; the third is cut at 256 tokens."""


@pytest.fixture(scope="module")
def wide() -> dict[str, np.ndarray]:
    return minilm_reference.widened(load_file(example.model_folder() / "model.safetensors"))


@pytest.fixture
def alone(fast_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the oracle raise, and the interpreter too, but on a device whose kernels it runs."""
    interpreted = "interpret" in poot.device(fast_device).target.languages
    for name in (ORACLE,) if interpreted else (ORACLE, INTERPRETER):
        assert refuse(monkeypatch, name) > 0


def worst(actual: np.ndarray, expected: np.ndarray) -> float:
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    return float(np.max(np.abs(actual - expected)))


def test_tokens_are_the_stored_ones() -> None:
    assert example.tokenize(SENTENCES) == GOLDEN["input_ids"]


def test_the_reference_agrees_with_the_stored_embeddings(wide: dict[str, np.ndarray]) -> None:
    actual = [minilm_reference.embed(wide, tokens) for tokens in GOLDEN["input_ids"]]
    assert np.max(np.abs(np.array(actual) - EXPECTED)) <= 1e-6


@pytest.mark.slow_on("opencl", "wgpu")
def test_short_sentences_on_every_device(device_name: str) -> None:
    params = example.params_on(poot.device(device_name))
    for chosen, rows, length in (([9], 1, 2), ([9, 3], 3, 11)):
        ids, mask = example.pad([GOLDEN["input_ids"][i] for i in chosen], rows, length)
        actual = np.asarray(example.encode(params, ids, mask))
        assert worst(actual[: len(chosen)], EXPECTED[chosen]) <= TOLERANCE


@pytest.mark.usefixtures("alone")
@pytest.mark.slow_on("opencl", "wgpu")
def test_each_sentence_alone(fast_device: str) -> None:
    actual = np.concatenate([example.embed([sentence], device=fast_device) for sentence in SENTENCES])
    assert worst(actual, EXPECTED) <= TOLERANCE


@pytest.mark.usefixtures("alone")
@pytest.mark.slow_on("opencl", "wgpu")
def test_padded_batches(fast_device: str) -> None:
    assert worst(example.embed(SENTENCES, device=fast_device), EXPECTED) <= TOLERANCE
    assert worst(example.embed(SENTENCES[:3], device=fast_device), EXPECTED[:3]) <= TOLERANCE


@pytest.mark.usefixtures("alone")
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "length"), [(1, 44), (2, 45), (5, 63), (32, 65), (3, 256), (32, 100)])
def test_batches_of_other_sizes(fast_device: str, rows: int, length: int) -> None:
    ids, mask = example.pad(GOLDEN["input_ids"][-rows:], rows, length)
    traced = poot.trace(example.encoder, device=fast_device)
    actual = np.asarray(traced(example.params_on(poot.device(fast_device)), ids, mask))
    expected = EXPECTED[-rows:]
    assert worst(actual[: len(expected)], expected) <= TOLERANCE


@pytest.mark.usefixtures("alone")
@pytest.mark.slow_on("opencl", "wgpu")
def test_unseen_sentences(fast_device: str, wide: dict[str, np.ndarray]) -> None:
    tokens = example.tokenize(UNSEEN)
    assert max(map(len, tokens)) == 256
    expected = np.array([minilm_reference.embed(wide, sequence) for sequence in tokens])
    assert worst(example.embed(UNSEEN, device=fast_device), expected) <= TOLERANCE


def test_the_interpreter_is_indeed_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, INTERPRETER)
    with pytest.raises(AssertionError, match="refused module"):
        example.embed(["a"], device="interpret")


def test_no_sentences(device_name: str) -> None:
    assert example.embed([], device=device_name).shape == (0, 384)


def test_a_single_string_is_refused() -> None:
    with pytest.raises(TypeError, match="put it in a list"):
        example.embed("not a list")


def test_padding_uses_few_shapes() -> None:
    rng = np.random.default_rng(0)
    shapes = {
        ids.shape
        for count in range(1, 70)
        for _, ids, _ in example.batches([[101] * length for length in rng.integers(2, 257, count)])
    }
    assert shapes <= {(rows, length) for rows in example.BATCHES for length in example.LENGTHS}


def test_the_oracle_agrees() -> None:
    ids, mask = example.pad([GOLDEN["input_ids"][3], GOLDEN["input_ids"][9]], rows=3, length=12)
    actual: Any = example.encode.evaluate(example.load_params(), ids, mask)
    assert worst(np.asarray(actual)[:2], EXPECTED[[3, 9]]) <= TOLERANCE


def test_like_sentences_rank_first() -> None:
    pairs = example.ranked_pairs(example.embed(example.SENTENCES))
    assert [(i, j) for _, i, j in pairs[:2]] == [(0, 1), (2, 3)]
