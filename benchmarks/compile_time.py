"""The first call of a 12-layer transformer stack, layers unrolled: in a new process, and again with a warm disk cache.

    python -m benchmarks.compile_time [--jax PYTHON]
    python -m benchmarks.compile_time --write         writes benchmarks/results/compile-time-cpu.md too

Every figure comes from a process of its own that builds the weights, imports the library and opens the device, and then
times its first call: tracing, planning, compiling, and one run. JAX compiles the same function, written in jax.numpy,
in this Python or in the one given, with its own disk cache off.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import conditions, parser, show_table

LAYERS, LENGTH, THREADS = 12, 64, 2
WIDTHS = (384, 768)
TOLERANCE = 2e-4

Params = dict[str, Any]


def make_params(width: int) -> list[Params]:
    """Random float32 weights of every layer, scaled so that activations keep their size."""
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    def layer() -> Params:
        square = {name: matrix(width, width) for name in ("q", "k", "v", "o")}
        rows = {f"{name}_bias": np.zeros(width, np.float32) for name in ("q", "k", "v", "o", "down")}
        scales = {name: np.ones(width, np.float32) for name in ("norm1", "norm2")}
        wide = {"up": matrix(width, 4 * width), "up_bias": np.zeros(4 * width, np.float32)}
        return {**square, **rows, **scales, **wide, "down": matrix(4 * width, width)}

    return [layer() for _ in range(LAYERS)]


def make_input(width: int) -> Any:
    """The activations that enter the stack, f32 [1, LENGTH, width]."""
    return np.random.default_rng(1).standard_normal((1, LENGTH, width)).astype(np.float32)


def stack(np_like: Any, softmax: Callable[[Any], Any], gelu: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The stack as a function of its layers' weights and x, written once over an array namespace."""

    def norm(scale: Any, x: Any) -> Any:
        centred = x - np_like.mean(x, axis=-1, keepdims=True)
        variance = np_like.mean(centred * centred, axis=-1, keepdims=True)
        return centred / np_like.sqrt(variance + 1e-5) * scale

    def attend(p: Params, x: Any) -> Any:
        batch, length, width = x.shape
        heads = width // 64

        def split(name: str) -> Any:
            flat = x @ p[name] + p[f"{name}_bias"]
            return np_like.permute_dims(np_like.reshape(flat, (batch, length, heads, 64)), (0, 2, 1, 3))

        q, k, v = split("q"), split("k"), split("v")
        weights = softmax(q @ np_like.permute_dims(k, (0, 1, 3, 2)) * 0.125)
        mixed = np_like.reshape(np_like.permute_dims(weights @ v, (0, 2, 1, 3)), (batch, length, width))
        return mixed @ p["o"] + p["o_bias"]

    def run(layers: Any, x: Any) -> Any:
        for p in layers:
            x = x + attend(p, norm(p["norm1"], x))
            hidden = gelu(norm(p["norm2"], x) @ p["up"] + p["up_bias"])
            x = x + hidden @ p["down"] + p["down_bias"]
        return x

    return run


# --- one process ------------------------------------------------------------------------------------------------------


def poot_call() -> Callable[[Any, Any], Any]:
    """The stack in poot."""
    import poot
    from poot import ops

    poot.device("cpu")
    return poot.trace(stack(ops, ops.nn.softmax, ops.nn.gelu))


def jax_call() -> Callable[[Any, Any], Any]:
    """The stack in JAX."""
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")
    jax.config.update("jax_platforms", "cpu")
    jax.devices()
    return jax.jit(stack(jnp, jax.nn.softmax, lambda x: jax.nn.gelu(x, approximate=False)))


def measure(library: str, width: int) -> None:
    """Print the seconds of the first and the second call, and the result's file, as JSON."""
    params, x = make_params(width), make_input(width)
    call = {"poot": poot_call, "jax": jax_call}[library]()
    seconds: list[float] = []
    result: Any = None
    for _ in range(2):
        start = time.perf_counter()
        result = np.asarray(call(params, x))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"first": seconds[0], "second": seconds[1], "row": result[0, 0].tolist()}))


# --- all of them ------------------------------------------------------------------------------------------------------


def spawn(python: str, library: str, width: int, cache: str) -> Mapping[str, Any]:
    """What `measure` prints in a new process."""
    threads = str(THREADS)
    flags = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={threads}"
    settings = {"POOT_CACHE_DIR": cache, "POOT_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "XLA_FLAGS": flags}
    command = [python, str(Path(__file__).resolve()), "--measure", library, str(width)]
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        command, env={**os.environ, **settings, "PYTHONPATH": root}, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(width: int, jax: str | None, repeats: int) -> list[list[str]]:
    """The rows of one width: medians over `repeats` processes of each kind, taken in turn."""
    times: dict[str, list[float]] = {}
    results: dict[str, Any] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            runs = {"poot, cold": (sys.executable, "poot"), "poot, warm disk cache": (sys.executable, "poot")}
            if jax is not None:
                runs["JAX"] = (jax, "jax")
            for name, (python, library) in runs.items():
                found = spawn(python, library, width, cache)
                times.setdefault(name, []).append(found["first"])
                results[name] = np.array(found["row"])
    for name, result in results.items():
        difference = float(np.abs(result - results["poot, cold"]).max())
        assert difference < TOLERANCE, f"{name} differs by {difference}"
    cold = statistics.median(times["poot, cold"])
    return [
        [str(width), name, f"{statistics.median(found):.2f}", f"{statistics.median(found) / cold:.2f}"]
        for name, found in times.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table."""
    made = parser("compile_time", __doc__)
    made.add_argument("--jax", metavar="PYTHON", default=sys.executable if importlib.util.find_spec("jax") else None)
    made.add_argument("--repeats", type=int, default=3, help="processes of each kind (default %(default)s)")
    made.add_argument("--measure", nargs=2, metavar=("LIBRARY", "WIDTH"), help="in this process, for the others")
    options = made.parse_args(arguments)
    if options.measure:
        measure(options.measure[0], int(options.measure[1]))
        return
    rows = [row for width in WIDTHS for row in compare(width, options.jax, options.repeats)]
    note = (
        f"{LAYERS} layers unrolled, {LENGTH} tokens, float32, weights as arguments; seconds of the first call in a new "
        f"process, median of {options.repeats}. {conditions(THREADS, ['poot', 'numpy', 'llvmlite', 'jax'])}"
    )
    header = ("width", "library", "seconds", "time relative to poot, cold")
    title = "First call of a 12-layer transformer stack on the CPU"
    show_table("compile-time-cpu", title, note, header, rows, write=options.write)


if __name__ == "__main__":
    main()
