"""One row of the comparison: a piece of work, what it must at least move or compute, and who does it how."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import PAUSE_SECONDS

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Threads of everybody. `set_threads` tells the libraries before they are imported."""

SAMPLE_SECONDS = 0.02
"""Calls that are shorter are timed in groups that last about this long."""

Run = Callable[[], Any]


def set_threads() -> None:
    """Give each library the same number of threads; must run before any of them is imported."""
    for name in ("POOT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(THREADS)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # numba's OpenMP layer brings a second OpenMP into the process, beside which PyTorch is ten times as slow.
    os.environ["NUMBA_THREADING_LAYER"] = "workqueue"


@dataclass(frozen=True, slots=True)
class Row:
    """A piece of work.

    Attributes:
        name: As the table shows it, and as --rows selects it.
        work: What is computed, in words.
        make: Gives the candidates by the library's name; "poot" is one. Each returns what np.asarray takes.
        tolerance: How far a candidate's result may be from poot's, relative to the largest magnitude in it.
        nbytes: Bytes that have to pass between memory and processor: each operand read once, each result written once.
        streams: In how many arrays of like size those bytes come in, and in how many they go out.
        flops: Multiplications and additions that the definition asks for.
    """

    name: str
    work: str
    make: Callable[[], dict[str, Run]]
    tolerance: float = 1e-4
    nbytes: int = 0
    streams: tuple[int, int] = (1, 1)
    flops: int = 0


def chosen(rows: Sequence[Row], wanted: Sequence[str] | None, parser: argparse.ArgumentParser) -> list[Row]:
    """The rows that --rows asks for, all of them without it; ends the program where it asks for none."""
    found = [row for row in rows if wanted is None or row.name.startswith(tuple(wanted))]
    if not found:
        parser.error(f"no row begins with {' or '.join(wanted or ())}; there are {', '.join(row.name for row in rows)}")
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """The median time of each candidate in seconds."""

    row: Row
    seconds: Mapping[str, float]

    def ratio(self, name: str) -> float:
        """How many times as long as poot that candidate took."""
        return self.seconds[name] / self.seconds["poot"]

    def rate(self) -> str:
        """What poot reached: bandwidth or arithmetic, whichever the row counts."""
        seconds = self.seconds["poot"]
        if self.row.flops:
            return f"{self.row.flops / seconds / 1e9:.0f} GFLOP/s"
        return f"{self.row.nbytes / seconds / 1e9:.1f} GB/s" if self.row.nbytes else "-"


def check(row: Row, candidates: Mapping[str, Run]) -> dict[str, Run]:
    """The candidates that run; ValueError where a result is not poot's.

    A library that fails on its own is left out, and said to be.  Candidates that only measure a limit return None.
    """
    ours = np.asarray(candidates["poot"]()).astype(np.float64)
    scale = float(np.abs(ours).max())
    running = dict(candidates)
    for name, run in candidates.items():
        try:
            result = run()
        except Exception as error:
            if name == "poot":
                raise
            print(f"{row.name}: {name} is left out: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            del running[name]
            continue
        if name == "poot" or result is None:
            continue
        difference = float(np.abs(_host(result).astype(np.float64) - ours).max())
        if not difference <= row.tolerance * scale:
            raise ValueError(f"{row.name}: {name} differs from poot by {difference:.3g} of at most {scale:.3g}")
    return running


def _host(result: Any) -> np.ndarray:
    # torch does not give bfloat16 to NumPy.
    return np.asarray(result.float() if str(getattr(result, "dtype", "")) == "torch.bfloat16" else result)


def _group(run: Run) -> int:
    run()
    start = time.perf_counter()
    run()
    return max(1, min(2000, int(SAMPLE_SECONDS / max(time.perf_counter() - start, 1e-7))))


def measure(row: Row, candidates: Mapping[str, Run], repeats: int) -> Measured:
    """Time all candidates alternately, each sample after one call that is not counted."""
    groups = {name: _group(run) for name, run in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            time.sleep(PAUSE_SECONDS)
            run()
            start = time.perf_counter()
            for _ in range(groups[name]):
                run()
            times[name].append((time.perf_counter() - start) / groups[name])
    return Measured(row, {name: statistics.median(values) for name, values in times.items()})
