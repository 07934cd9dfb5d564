"""Attention on the CPU in lengths, masks and dtypes beside NumPy, JAX and PyTorch, with the memory that poot takes.

    python -m benchmarks.attention_cpu                    all rows
    python -m benchmarks.attention_cpu --write            writes benchmarks/results/attention-cpu.md too
    python -m benchmarks.attention_cpu --rows full gqa    the rows whose names begin so

Everybody has the same threads and is given arrays of its own; results are compared before anything is timed. poot, JAX
and NumPy run plain operations, PyTorch its own function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.cpu.row import THREADS, Measured, Row, Run, check, chosen, measure, set_threads

set_threads()

import ml_dtypes  # noqa: E402 - thread counts must be set first
import numpy as np  # noqa: E402

import poot  # noqa: E402
from benchmarks.cpu.peers import PACKAGES, with_jax, with_torch  # noqa: E402
from benchmarks.harness import conditions, parser, show_table  # noqa: E402
from poot import ops  # noqa: E402

Shape = tuple[int, int, int, int, int]  # heads, heads of keys, queries, keys, dimensions
Mask = Callable[[Any, Any], Any]

MASKS: dict[str, Mask | None] = {
    "full": None,
    "causal": lambda i, j: i >= j,
    "window": lambda i, j: (i >= j) & (i - j < 256),
}


def _arrays(shape: Shape, dtype: Any) -> list[np.ndarray[Any, Any]]:
    heads, shared, queries, keys, depth = shape
    rng = np.random.default_rng(0)
    shapes = (heads, queries, depth), (shared, keys, depth), (shared, keys, depth)
    return [rng.standard_normal(each, dtype=np.float32).astype(dtype) for each in shapes]


def _attend(library: Any, softmax: Callable[[Any], Any], shape: Shape, mask: Mask | None) -> Callable[..., Any]:
    """Attention in the plain operations of a library that follows NumPy."""
    heads, shared, queries, keys, depth = shape

    def run(q: Any, k: Any, v: Any) -> Any:
        q = q.reshape(shared, heads // shared, queries, depth)
        scores = q @ k[:, None].swapaxes(-1, -2) if library is not ops else q @ k[:, None].mT
        scores = scores * depth**-0.5
        if mask is not None:
            i, j = library.arange(queries)[:, None] + keys - queries, library.arange(keys)[None, :]
            scores = library.where(mask(i, j), scores, -library.inf)
        return (softmax(scores) @ v[:, None]).reshape(heads, queries, depth)

    return run


def _numpy_softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _torch(shape: Shape, mask: Mask | None) -> Callable[[Any], Callable[..., Any]]:
    heads, shared, queries, keys, _ = shape

    def make(torch: Any) -> Callable[..., Any]:
        grouped = {"enable_gqa": True} if heads != shared else {}
        if mask is None or mask is MASKS["causal"]:
            grouped["is_causal"] = mask is not None
        else:
            i, j = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)[None, :]
            grouped["attn_mask"] = mask(i, j)
        run = torch.nn.functional.scaled_dot_product_attention
        return lambda q, k, v: run(q[None], k[None], v[None], **grouped)[0]

    return make


def _candidates(shape: Shape, mask: Mask | None, dtype: Any, *, numpy: bool) -> dict[str, Run]:
    given = _arrays(shape, dtype)
    ours = poot.trace(_attend(ops, ops.nn.softmax, shape, mask))
    arrays = [poot.asarray(array, device="cpu") for array in given]
    plain = _attend(np, _numpy_softmax, shape, mask)
    return {
        "poot": lambda: np.asarray(ours(*arrays)),
        **({"NumPy": lambda: plain(*given)} if numpy else {}),
        **with_jax(lambda jax, jnp: _attend(jnp, jax.nn.softmax, shape, mask), given),
        **with_torch(_torch(shape, mask), given, compiled=False),
    }


def _row(name: str, shape: Shape, mask: str, dtype: Any = np.float32, *, numpy: bool = False) -> Row:
    heads, shared, queries, keys, depth = shape
    work = f"{mask}, {heads} heads{f' over {shared}' if shared != heads else ''}, {queries} by {keys}, {depth}"
    kept = np.ones((queries, keys), bool)
    rule = MASKS[mask]
    if rule is not None:
        kept = rule(np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None, :])
    narrow = np.dtype(dtype).itemsize < 4
    return Row(
        name,
        f"{work}, {np.dtype(dtype).name}",
        functools.partial(_candidates, shape, rule, dtype, numpy=numpy),
        tolerance=3e-2 if narrow else 1e-4,
        flops=4 * heads * int(kept.sum()) * depth,
    )


def rows() -> list[Row]:
    """Every row; `flops` counts what the mask leaves."""
    return [
        _row("full", (8, 8, 1024, 1024, 64), "full", numpy=True),
        _row("causal", (8, 8, 1024, 1024, 64), "causal", numpy=True),
        _row("wide", (8, 8, 1024, 1024, 128), "causal"),
        _row("long", (2, 2, 4096, 4096, 64), "causal"),
        _row("gqa", (16, 4, 512, 512, 64), "causal"),
        _row("window", (4, 4, 2048, 2048, 64), "window"),
        _row("short", (32, 32, 128, 128, 64), "causal"),
        _row("bf16", (8, 8, 1024, 1024, 64), "causal", ml_dtypes.bfloat16),
    ]


def scratch(length: int) -> int:
    """Bytes between the kernels of causal attention, 8 heads of 64."""
    shape = (8, 8, length, length, 64)
    run = poot.trace(_attend(ops, ops.nn.softmax, shape, MASKS["causal"]))
    program = run.program(*[poot.f32[8, length, 64]] * 3, device="cpu")
    return program.report().storage.arena_bytes


def _line(result: Measured) -> list[str]:
    times = [
        f"{result.seconds[name] * 1e3:.3g} ms ({result.ratio(name):.2f})" if name in result.seconds else "-"
        for name in ("NumPy", "JAX", "torch")
    ]
    return [result.row.work, f"{result.seconds['poot'] * 1e3:.3g} ms", result.rate(), *times]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table."""
    made = parser("attention_cpu", __doc__, rows=True)
    options = made.parse_args(arguments)
    results: list[Measured] = []
    for row in chosen(rows(), options.rows, made):
        candidates = row.make()
        check(row, candidates)
        results.append(measure(row, candidates, 7))
    head = ("work", "poot", "reached", "NumPy", "JAX", "torch")
    body = [_line(result) for result in results]
    memory = ", ".join(f"{length} tokens {scratch(length) / 1024:.0f} KiB" for length in (1024, 4096, 16384))
    note = (
        "Median of 7 samples, taken alternately; in brackets the time relative to poot's, so that more than 1 is "
        "slower. Rates count what the mask leaves. Results were compared first. Memory between poot's kernels, causal, "
        f"8 heads of 64: {memory}. {conditions(THREADS, PACKAGES)}"
    )
    show_table("attention-cpu", "Attention on the CPU", note, head, body, write=options.write)


if __name__ == "__main__":
    main()
