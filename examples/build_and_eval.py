"""Build a graph by hand, print it, and evaluate it with the oracle, watching every equation.

python examples/build_and_eval.py
"""

from __future__ import annotations

import numpy as np

import poot
from poot import f32, ops


def main(n: int = 8) -> np.ndarray:
    """RMS norm of one row of n numbers; returns what the oracle computed."""
    limits = poot.TraceLimits(
        max_tokens=1, max_values=1 << 10, max_eqns=1 << 10, max_literal_bytes=1 << 12, max_owned_bytes=1 << 20
    )
    b = poot.Builder(limits)
    x = b.constant("x", f32[1, 1, n])
    w = b.constant("w", f32[n])
    graph = b.finish(ops.nn.rmsnorm(x, w, 1e-6))
    print(graph)

    def watch(equation: object, operands: object, results: object) -> None:
        name = getattr(equation, "primitive", "?")
        shapes = [getattr(result, "shape", ()) for result in results]  # type: ignore[attr-defined]
        print(f"  {name:<12} -> {shapes}")

    rng = np.random.default_rng(0)
    values = rng.standard_normal((1, 1, n)).astype(np.float32)
    weight = np.ones(n, np.float32)
    evaluation = poot.evaluate(graph, {x.id: values, w.id: weight}, poot.EvalOptions(observer=watch))
    expected = values / np.sqrt(np.mean(values.astype(np.float64) ** 2) + 1e-6)
    print("largest difference from NumPy:", np.abs(evaluation.output - expected).max())
    return evaluation.output


if __name__ == "__main__":
    main()
