"""What the benchmarks share: medians of interleaved repetitions, the machine's description, and tables on disk."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"

PAUSE_SECONDS = 0.05
"""Between candidates, for threads that keep waiting for work actively, onnxruntime's and OpenMP's, to go to sleep."""


def parser(name: str, text: str | None, *, written: bool = True, rows: bool = False) -> argparse.ArgumentParser:
    """Of a benchmark's arguments: --write where its table is `written`, with `rows` to choose from --rows in its place.

    Whatever else it is told, a benchmark writes nothing without --write.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if written:
        either = made.add_mutually_exclusive_group()
        either.add_argument("--write", action="store_true", help="keep the table in benchmarks/results/")
        if rows:
            either.add_argument("--rows", nargs="+", metavar="NAME", help="only the rows whose names begin so")
    return made


def medians(candidates: Mapping[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """The median time of each candidate in milliseconds.

    Repetitions are interleaved, so that a slow moment of the machine falls on all of them alike.  Before each there is
    a pause, in which the threads of the one before stop waiting for work, and a call that does not count.
    """
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            time.sleep(PAUSE_SECONDS)
            run()
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def processor() -> str:
    """The model of the CPU, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions(packages: Sequence[str]) -> str:
    """Name and version of each package that is installed, and of Python."""
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def conditions(threads: int, packages: Sequence[str]) -> str:
    """One paragraph: the date, the machine and the versions that the figures were made with."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{today}; {processor()}, {cores} cores, {threads} threads for everybody; {versions(packages)}."


def show_table(
    name: str, title: str, note: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, write: bool
) -> None:
    """Print a table, and with `write` keep it as results/<name>.md."""
    lines = [f"# {title}", "", note, "", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    text = "\n".join(lines) + "\n"
    print(text)
    if write:
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
