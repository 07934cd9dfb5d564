"""Trace a function, run the planner's passes one at a time, and see what becomes of the graph.

python examples/trace_and_fuse.py
"""

from __future__ import annotations

import numpy as np

import poot
from poot import f32, ops
from poot.plan.passes import PASSES


@poot.trace
def block(x: poot.Array, w: poot.Array) -> poot.Array:
    """A small pointwise chain around a reduction, with something to clean up in it."""
    same = ops.exp(x * 0.5)
    again = ops.exp(x * 0.5)  # computed twice: one goes
    unused = ops.sin(x)  # noqa: F841 - dead: it goes too
    return ops.nn.rmsnorm(same + again, w, 1e-6)


def main() -> poot.Program:
    """Print the graph after every pass, then the program for the CPU."""
    target = poot.Target.parse("cpu")
    options = poot.CompileOptions(poot.CompileLimits.STANDARD)
    graph = block.graph(f32[64, 256], f32[256])
    print(graph, "\n")
    for each in PASSES:
        graph, record = each.run(graph, target, options)
        print(f"{record.name}: {record.equations_before} -> {record.equations_after} equations")
        for note in record.notes:
            print("   ", note)

    program = block.program(f32[64, 256], f32[256], device="cpu")
    print(f"\n{program.report()}")
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    w = np.ones(256, np.float32)
    print("largest difference from the oracle:", np.abs(np.asarray(block(x, w)) - block.evaluate(x, w)).max())
    return program


if __name__ == "__main__":
    main()
