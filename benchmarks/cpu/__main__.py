"""Compare poot on the CPU with every library of NumPy, JAX, numba, PyTorch and onnxruntime that is installed.

    python -m benchmarks.cpu                        all rows
    python -m benchmarks.cpu --write                writes benchmarks/results/cpu.md and cpu.svg too
    python -m benchmarks.cpu --rows softmax matmul  the rows whose names begin so
    python -m benchmarks.cpu --list                 the names

Everybody has the same threads, and gets its inputs as its own arrays beforehand; every call returns a fresh result.
Results are compared before anything is timed, and candidates of a row are timed alternately. The libraries are the
extra `peers`: pip install -e '.[peers]'.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from benchmarks.cpu.row import THREADS, Measured, check, chosen, measure, set_threads

set_threads()

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: E402

from benchmarks.cpu import call_rows, encoder_rows, memory_rows, product_rows  # noqa: E402
from benchmarks.cpu.floors import floor  # noqa: E402
from benchmarks.cpu.peers import PACKAGES  # noqa: E402
from benchmarks.harness import RESULTS, conditions, parser, show_table  # noqa: E402

COLUMNS = ("NumPy", "JAX", "numba", "torch", "torch.compile", "onnxruntime", "floor")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


def table(results: Sequence[Measured]) -> tuple[tuple[str, ...], list[list[str]]]:
    """The head and the rows: poot's time and rate, then what each library took, and how many times poot's that is."""
    shown = [name for name in COLUMNS if any(name in result.seconds for result in results)]
    rows = [
        [
            result.row.work,
            _milliseconds(result.seconds["poot"]),
            result.rate(),
            *(
                f"{_milliseconds(result.seconds[name])} ({result.ratio(name):.2f})" if name in result.seconds else "-"
                for name in shown
            ),
        ]
        for result in results
    ]
    return ("work", "poot", "reached", *shown), rows


def plot(results: Sequence[Measured]) -> bool:
    """Draw the ratios as results/cpu.svg, where matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 0.42 * len(results) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    for name, marker in zip(COLUMNS, "osD^v*|", strict=True):
        found = [(result.ratio(name), -at) for at, result in enumerate(results) if name in result.seconds]
        if found:
            axes.plot(*zip(*found, strict=True), marker, label=name, markersize=7, linestyle="none")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yticks([-at for at in range(len(results))], [result.row.work for result in results], fontsize=8)
    axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["1/2", "poot", "2", "4", "8", "16"])
    axes.set_xlabel("time relative to poot; right of the line is slower than poot")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(RESULTS / "cpu.svg", metadata={"Date": None})
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table and the plot."""
    made = parser("cpu", __doc__, rows=True)
    made.add_argument("--repeats", type=int, default=9, help="samples of each candidate (default %(default)s)")
    made.add_argument("--list", action="store_true", help="list the rows and stop")
    options = made.parse_args(arguments)
    rows = [*memory_rows.rows(), *product_rows.rows(), *call_rows.rows(), *encoder_rows.rows()]
    if options.list:
        print("\n".join(f"{row.name:28} {row.work}" for row in rows))
        return
    rows = chosen(rows, options.rows, made)
    results: list[Measured] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=len(rows))
        for row in rows:
            progress.update(task, description=row.name)
            candidates = check(row, row.make())
            if (least := floor(row)) is not None:
                candidates["floor"] = least
            results.append(measure(row, candidates, options.repeats))
            progress.advance(task)
            del candidates
            gc.collect()
    head, body = table(results)
    note = (
        f"Median of {options.repeats} samples, taken alternately; in brackets the time relative to poot's, so that "
        "more than 1 is slower than poot. Results were compared first. The floor is the row's bytes moved, or its "
        f"multiplications and additions done, and nothing else. {conditions(THREADS, PACKAGES)}"
    )
    show_table("cpu", "poot on the CPU beside its peers", note, head, body, write=options.write)
    if options.write and not plot(results):
        print("matplotlib is not installed: no plot was drawn", file=sys.stderr)


if __name__ == "__main__":
    main()
