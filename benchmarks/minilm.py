"""The sentence encoder at batch 1 and 32, 64 tokens, beside PyTorch eager on the same two threads.

poot runs twice: with its weights held by the function, as PyTorch holds its own, and passed as arguments at each call.

    python -m benchmarks.minilm
    python -m benchmarks.minilm --write    writes benchmarks/results/minilm-cpu.md too

PyTorch is optional; without it there are poot's own times alone. Outputs are compared before anything is timed.
"""

from __future__ import annotations

import os

THREADS = 2
os.environ.setdefault("POOT_NUM_THREADS", str(THREADS))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))

import functools  # noqa: E402 - thread counts must be set first
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import optree  # noqa: E402

import poot  # noqa: E402
from benchmarks.cpu.encoder_rows import torch_encoder  # noqa: E402
from benchmarks.cpu.peers import torch as peer  # noqa: E402
from benchmarks.harness import conditions, medians, parser, show_table  # noqa: E402
from examples.sentence_similarity import LAYERS, encode, encoder, load_params  # noqa: E402

LENGTH = 64
TOLERANCE = 2e-5


def with_torch(params: Any, torch: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The encoder in PyTorch eager, on NumPy arrays."""
    run = torch_encoder(params, torch)
    return lambda ids, mask: run(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table."""
    options = parser("minilm", __doc__).parse_args(arguments)
    params = load_params()
    weights = optree.tree_map(poot.asarray, params)
    holding = poot.trace(lambda ids, mask: encoder(weights, ids, mask))
    torch = peer()
    peers = {"PyTorch eager": with_torch(params, torch)} if torch else {}
    rng = np.random.default_rng(0)
    rows: list[list[str]] = []
    assert len(params["layers"]) == LAYERS
    for batch in (1, 32):
        ids = rng.integers(1000, 30000, (batch, LENGTH), dtype=np.int32)
        mask = np.arange(LENGTH)[None, :] < rng.integers(LENGTH // 2, LENGTH + 1, (batch, 1))
        ours = np.asarray(encode(params, ids, mask))
        for name, run in peers.items():
            difference = float(np.abs(run(ids, mask) - ours).max())
            assert difference < TOLERANCE, f"{name} differs by {difference}"
        everybody = {
            "poot": lambda ids, mask: np.asarray(holding(ids, mask)),
            "poot, weights passed": lambda ids, mask: np.asarray(encode(params, ids, mask)),
            **peers,
        }
        candidates = {name: functools.partial(run, ids, mask) for name, run in everybody.items()}
        times = medians(candidates)
        for name, elapsed in times.items():
            ratio = f"{elapsed / times['poot']:.2f}"
            rows.append([str(batch), name, f"{elapsed:.1f}", f"{batch / elapsed * 1e3:.0f}", ratio])
    note = (
        f"all-MiniLM-L6-v2, float32, {LENGTH} tokens, jit-style calls on NumPy arrays; median of 7 interleaved runs. "
        f"Outputs agree within {TOLERANCE}. {conditions(THREADS, ['poot', 'numpy', 'llvmlite', 'torch'])}"
    )
    header = ("batch", "library", "milliseconds", "sentences a second", "time relative to poot")
    show_table("minilm-cpu", "Sentence encoder on the CPU", note, header, rows, write=options.write)


if __name__ == "__main__":
    main()
