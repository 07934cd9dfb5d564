"""Encode sentences with an engine: the weights as they lie in a safetensors file, one recorded entry, any device.

    python examples/encode.py "A cat naps." "A kitten sleeps."
    python examples/encode.py --device opencl
    POOT_DEVICE=wgpu python examples/encode.py

Nothing in here knows of devices but one argument of `encode`.  The encoder is that of sentence_similarity.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console

import poot
from examples.sentence_similarity import SENTENCES, arrange, encoder, model_folder, pad, tokenize
from poot import bool_, i32


def stored_names(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    """Pair the name of each constant of the graph, a dotted path into the parameters, with its name in the file."""
    if isinstance(tree, str):
        yield path, tree
        return
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, branch in items:
        yield from stored_names(branch, f"{path}.{key}")


def encode(sentences: Sequence[str], device: str | None = None) -> np.ndarray:
    """Embed sentences as unit vectors.

    Args:
        sentences: One or more; what is past 256 tokens is cut off.
        device: A name as `poot.device` takes it; None is poot's choice, which POOT_DEVICE overrides.

    Returns:
        f32 [len(sentences), 384].
    """
    on = poot.device(device)
    tokens = tokenize(sentences)
    length = max(map(len, tokens))
    store = poot.WeightStore.from_safetensors(model_folder() / "model.safetensors")
    specs = arrange({name: store.spec(name) for name in store})
    names = poot.WeightMap(dict(stored_names(arrange({name: name for name in store}), "params")))

    graph = poot.trace(encoder).graph(specs, i32[1, length], bool_[1, length], constants=("params",))
    program = poot.compile(graph, on.target, poot.CompileOptions())
    engine = poot.Engine(on)
    exe = engine.load_weights(store, names, program)  # everything that did not fit would be listed here
    entry = engine.add_entry(exe, program)
    rows: list[np.ndarray] = []
    for sequence in tokens:
        ids, mask = pad([sequence], 1, length)
        step = engine.step(exe, entry, poot.StepInputs().push("ids", ids).push("mask", mask))
        rows.append(step.read()[0])
    engine.unload(exe)
    return np.stack(rows)


def main() -> None:
    """Print how alike the sentences are to the first one."""
    parser = argparse.ArgumentParser(description="Encode sentences on any device.")
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE")
    parser.add_argument("--device", help="cpu, interpret, opencl, wgpu, cuda … (default: poot's choice)")
    args = parser.parse_args()
    sentences = args.sentences or SENTENCES
    vectors = encode(sentences, args.device)
    console = Console(highlight=False)
    console.print(f"on {poot.device(args.device).name}:")
    for sentence, likeness in zip(sentences, vectors @ vectors[0], strict=True):
        console.print(f"{likeness:7.4f}  {sentence}")


if __name__ == "__main__":
    main()
