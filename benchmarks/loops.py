"""Loops beside jax.lax: small steps, where what counts is what a turn costs besides its work, and larger ones.

    python -m benchmarks.loops [--device NAME] [--turns N]
    python -m benchmarks.loops --write                       writes benchmarks/results/loops-<device>.md too

JAX is compared where it is installed, on the CPU, in the same run with alternating
repetitions; results are checked against each other.  A call returns fresh arrays.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import poot
from benchmarks.harness import conditions, medians, parser, show_table
from poot import ops

THREADS = 2


@dataclass(frozen=True, slots=True)
class Library:
    """What the two libraries call the same things.

    Functions take what they need of it before they are traced: poot compares at each call what a function captures, and
    an object takes longer than a function.
    """

    np: Any
    scan: Callable[..., Any]
    while_loop: Callable[..., Any]
    cond: Callable[..., Any]


Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A loop of `turns` turns, written once for both libraries."""

    name: str
    turns: int
    make: Callable[[Library], Function]
    arrays: tuple[Any, ...]


HALF, ONE, NEARLY = np.float32(0.5), np.float32(1), np.float32(0.99)
FACTOR, ADDEND = np.uint32(1664525), np.uint32(1013904223)
FIRST, NEXT = np.int32(0), np.int32(1)


def _decay(lib: Library) -> Function:
    scan = lib.scan

    def body(carry: Any, x: Any) -> Any:
        new = carry * HALF + x
        return new, new

    return lambda start, xs: scan(body, start, xs)[1]


def _generator(lib: Library) -> Function:
    scan = lib.scan
    return lambda seed, turns: scan(lambda seed, _: (seed * FACTOR + ADDEND, None), seed, turns)[0]


def _until(lib: Library) -> Function:
    while_loop = lib.while_loop

    def going(state: Any) -> Any:
        return state[1] < state[2]

    def body(state: Any) -> Any:
        return state[0] * NEARLY + ONE, state[1] + NEXT, state[2]

    return lambda x, last: while_loop(going, body, (x, FIRST, last))[0]


def _recurrent(lib: Library) -> Function:
    scan, tanh = lib.scan, lib.np.tanh
    return lambda weights, h, xs: scan(lambda h, x: (tanh(weights @ h + x), None), h, xs)[0]


def _branching(lib: Library) -> Function:
    scan, cond = lib.scan, lib.cond

    def body(x: Any, y: Any) -> Any:
        return cond(y[0] > 0, lambda x: x * HALF + y, lambda x: x - y, x), None

    return lambda x, ys: scan(body, x, ys)[0]


def _large(lib: Library) -> Function:
    scan, tanh = lib.scan, lib.np.tanh
    return lambda x, turns: scan(lambda x, _: (x * HALF + tanh(x), None), x, turns)[0]


def rows(turns: int) -> list[Row]:
    """Every row; `turns` for those with small steps."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    none = np.zeros(turns, np.int8)
    few = max(turns // 10, 1)
    return [
        Row("scan, 8 floats, each step kept", turns, _decay, (normal(8), normal(turns, 8))),
        Row("scan, one integer", turns, _generator, (np.uint32(7), none)),
        Row("while_loop, 8 floats", turns, _until, (normal(8), np.int32(turns))),
        Row("scan with a cond, 8 floats", turns, _branching, (normal(8), normal(turns, 8))),
        Row("scan, tanh(W @ h + x), 64 wide", few, _recurrent, (normal(64, 64) / 8, normal(64), normal(few, 64))),
        Row("scan, 0.5 x + tanh(x), 65,536 floats", few, _large, (normal(1 << 16), none[:few])),
    ]


def candidates(row: Row, device: str) -> Mapping[str, Callable[[], Any]]:
    """How each library runs a row."""
    function: Any = row.make(Library(ops, ops.scan, ops.while_loop, ops.cond))
    mine = poot.trace(device=device)(function)
    arrays = [poot.asarray(array, device=device) for array in row.arrays]
    found: dict[str, Callable[[], Any]] = {"poot": lambda: np.asarray(mine(*arrays))}
    if device == "cpu" and importlib.util.find_spec("jax"):
        jax: Any = importlib.import_module("jax")
        theirs = jax.jit(row.make(Library(jax.numpy, jax.lax.scan, jax.lax.while_loop, jax.lax.cond)))
        own = [jax.device_put(array) for array in row.arrays]
        found["JAX"] = lambda: np.asarray(theirs(*own))
        np.testing.assert_allclose(found["poot"](), found["JAX"](), rtol=1e-4, atol=1e-4)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table."""
    made = parser("loops", __doc__)
    made.add_argument("--device", default="cpu")
    made.add_argument("--turns", type=int, default=10_000, help="of loops with small steps (default %(default)s)")
    options = made.parse_args(arguments)
    os.environ.setdefault("POOT_NUM_THREADS", str(THREADS))  # read when the device is opened
    lines: list[list[str]] = []
    for row in rows(options.turns):
        times = medians(candidates(row, options.device))
        mine = times["poot"]
        peer = times.get("JAX")
        turn = [f"{1e6 * each / row.turns:,.0f}" if each is not None else "" for each in (mine, peer)]
        ratio = f"{peer / mine:.2f}" if peer else ""
        lines.append([row.name, f"{row.turns:,}", *turn, ratio])
        print(*lines[-1], sep="  ", flush=True)
    note = conditions(THREADS, ("poot", "numpy", "llvmlite", "jax")) + (
        " Medians of 7 alternating repetitions of jit-style calls, divided by the number of turns."
    )
    header = ("loop", "turns", "poot, ns a turn", "JAX, ns a turn", "speed, JAX = 1")
    name = f"loops-{options.device.replace(':', '-')}"
    show_table(name, f"Loops on {options.device}", note, header, lines, write=options.write)


if __name__ == "__main__":
    main()
