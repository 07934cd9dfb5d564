# ruff: noqa: T201 (a command: it tells on the terminal how far it is)
"""Runs many random graphs over several processes, keeps what came of each, and goes on where it stopped.

    python -m tests.random_run --family exact --seeds 0:2000 --devices interpret,cpu --modes fused,strict,apart \\
        --workers 16 --seconds 540 --out results.jsonl

Each line of the file is one graph: the primitives in it, how much of it is bounded, and what failed, with the graph
reduced as far as it could be.  `--seconds` ends the run early; the same command goes on later, and prints the summary
of all that the file holds.  A process that dies or hangs counts as a failure of the graph that it was at.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import poot
from poot.trace.primitives import table
from tests.random_check import Case, check, reduced, shared_dtypes, tightness
from tests.random_graphs import primitives

CHUNK = 8
HANGS_AFTER = 240.0

Key = tuple[str, int]
Line = dict[str, Any]


# --- a worker ---------------------------------------------------------------------------------------------------------


def work(family: str, seeds: Sequence[int], runs: Sequence[str], out: Path) -> None:
    """Check graphs, and add a line to the file for each."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for seed in seeds:
        try:
            made = one(family, seed, runs)
        except Exception:  # a graph that cannot be made, evaluated or bounded
            made = lost(family, seed, runs, traceback.format_exc(limit=-6))
        line = json.dumps(made) + "\n"
        # One write to a file that is open for appending: lines of several processes do not mix.
        handle = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)


def one(family: Any, seed: int, runs: Sequence[str]) -> Line:
    """The line of one graph; `runs` are devices with modes, such as "cpu fused"."""
    start = time.monotonic()
    devices = {run.split()[0]: poot.device(run.split()[0]) for run in runs}
    case = Case.of(family, seed, shared_dtypes(*devices.values()))
    found: Counter[str] = Counter()
    primitives(case.graph, found)
    failures: list[dict[str, Any]] = []
    wanted: dict[str, Any] = {}
    for run in runs:
        name, mode = run.split()
        if mode not in wanted:
            wanted[mode] = case.wanted(mode)  # type: ignore[arg-type]
        device = devices[name]
        failure = check(case, device, mode, wanted[mode])  # type: ignore[arg-type]
        if failure is not None:
            small, why = reduced(case, device, mode, failure)  # type: ignore[arg-type]
            with np.printoptions(threshold=40, linewidth=110):
                arrays = {variable: repr(array) for variable, array in small.arrays.items()}
            text = {"graph": str(small.graph), "arrays": arrays, "reduced": why.message}
            failures.append({"run": run, "message": failure.message[:2000], **text})
    tight = tightness([bound for bounds in wanted.values() for bound in bounds])
    return {
        "family": family,
        "seed": seed,
        "runs": list(runs),
        "equations": sum(found.values()),
        "primitives": dict(found),
        "tightness": tight,
        "failures": failures,
        "seconds": round(time.monotonic() - start, 3),
    }


def lost(family: str, seed: int, runs: Sequence[str], why: str) -> Line:
    """The line of a graph that came to nothing."""
    failure = {"run": "?", "message": why, "graph": "", "arrays": {}, "reduced": ""}
    line = {"family": family, "seed": seed, "runs": list(runs), "equations": 0, "primitives": {}}
    return {**line, "tightness": [0, 0, 0], "failures": [failure], "seconds": 0}


# --- all workers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Worker:
    process: subprocess.Popen[bytes]
    seeds: list[int]
    seen: float = field(default_factory=time.monotonic)


class Runner:
    """Keeps as many workers busy as asked for."""

    def __init__(self, family: str, runs: Sequence[str], out: Path, workers: int) -> None:
        self.family, self.runs, self.out, self.count = family, tuple(runs), out, workers
        self.workers: list[Worker] = []
        self.done = {key[1] for key, line in read(out).items() if key[0] == family and set(runs) <= set(line["runs"])}

    def run(self, seeds: Sequence[int], seconds: float) -> None:
        todo = [seed for seed in seeds if seed not in self.done]
        chunks = [todo[at : at + CHUNK] for at in range(0, len(todo), CHUNK)]
        end, told = time.monotonic() + seconds, 0.0
        print(f"{self.family}: {len(todo)} of {len(seeds)} graphs to do, on {', '.join(self.runs)}", flush=True)
        try:
            while (chunks or self.workers) and time.monotonic() < end:
                while chunks and len(self.workers) < self.count:
                    self.start(chunks.pop(0))
                time.sleep(0.5)
                self.look(chunks)
                if time.monotonic() > told + 15:
                    told = time.monotonic()
                    left = sum(map(len, chunks)) + sum(len(worker.seeds) for worker in self.workers)
                    print(f"{self.family}: {left} left, {end - told:.0f} s left", flush=True)
        finally:
            for worker in self.workers:
                worker.process.kill()
                worker.process.wait()

    def start(self, seeds: list[int]) -> None:
        command = [sys.executable, "-m", "tests.random_run", "--family", self.family, "--out", str(self.out)]
        command += ["--runs", ",".join(self.runs), "--work", ",".join(map(str, seeds))]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.workers.append(Worker(subprocess.Popen(command, env=environment), list(seeds)))

    def look(self, chunks: list[list[int]]) -> None:
        """Take note of what is done, and of workers that ended or hang."""
        done = {seed for family, seed in read(self.out) if family == self.family}
        for worker in list(self.workers):
            left = [seed for seed in worker.seeds if seed not in done]
            if len(left) < len(worker.seeds):
                worker.seeds, worker.seen = left, time.monotonic()
            hangs = time.monotonic() > worker.seen + HANGS_AFTER
            if hangs:
                worker.process.kill()
                worker.process.wait()
            if worker.process.poll() is None:
                continue
            self.workers.remove(worker)
            if left:
                why = "hangs" if hangs else f"the process ended with {worker.process.returncode}"
                with self.out.open("a") as file:
                    file.write(json.dumps(lost(self.family, left[0], self.runs, why)) + "\n")
                if left[1:]:
                    chunks.insert(0, left[1:])


def read(path: Path) -> dict[Key, Line]:
    """The latest line of each graph."""
    if not path.exists():
        return {}
    lines: dict[Key, Line] = {}
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:  # cut off by the end of a run
            continue
        lines[line["family"], line["seed"]] = line
    return lines


def summary(lines: dict[Key, Line], failures: int = 20) -> str:
    """Counts of graphs, runs and primitives, and the failures with their reduced graphs."""
    parts: list[str] = []
    total: Counter[str] = Counter()
    for family in sorted({family for family, _ in lines}):
        mine = [line for (name, _), line in lines.items() if name == family]
        runs = Counter(run for line in mine for run in line["runs"])
        bad = Counter(failure["run"] for line in mine for failure in line["failures"])
        wild, tight, count = (sum(line["tightness"][n] for line in mine) for n in range(3))
        for line in mine:
            total.update(line["primitives"])
        parts.append(
            f"{family}: {len(mine)} graphs of {sum(line['equations'] for line in mine) / max(len(mine), 1):.0f} "
            f"equations; {dict(runs)}; failures {dict(bad)}; {sum(line['seconds'] for line in mine):.0f} s of work"
        )
        if family == "float" and count:
            known = f"{wild / count:.1%} may be anything, {tight / count:.1%} are known to a tenth"
            parts.append(f"  of {count} floats {known}")
    counts = sorted((total[entry.name], entry.name) for entry in table())
    parts.append("equations of each primitive: " + ", ".join(f"{name} {count}" for count, name in counts))
    failed = [line for line in lines.values() if line["failures"]]
    parts.append(f"failing: {[(line['family'], line['seed']) for line in failed]}")
    for line in failed[:failures]:
        for failure in line["failures"][:1]:
            parts.append(f"--- {line['family']} {line['seed']} {failure['run']}\n{failure['message']}")
            parts += [failure["graph"], *(f"{name} = {text}" for name, text in failure["arrays"].items())]
            parts.append(failure["reduced"])
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="exact,float", help="exact, float, or both with a comma")
    parser.add_argument("--seeds", default="0:2000", help="first:end")
    parser.add_argument("--devices", default="interpret,cpu")
    parser.add_argument("--modes", default="fused,strict,apart")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=Path("random-graphs.jsonl"))
    parser.add_argument("--again", action="store_true", help="only the graphs that failed")
    parser.add_argument("--runs", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.family, [int(seed) for seed in options.work.split(",")], options.runs.split(","), options.out)
        return 0
    first, end = map(int, options.seeds.split(":"))
    runs = [f"{device} {mode}" for device in options.devices.split(",") for mode in options.modes.split(",")]
    stop = time.monotonic() + options.seconds
    for family in options.family.split(","):
        seeds = list(range(first, end))
        if options.again:
            failed = {key[1] for key, line in read(options.out).items() if key[0] == family and line["failures"]}
            seeds = [seed for seed in seeds if seed in failed]
        runner = Runner(family, runs, options.out, options.workers)
        if options.again:
            runner.done.clear()
        runner.run(seeds, stop - time.monotonic())
    text = summary(read(options.out))
    options.out.with_suffix(".txt").write_text(text + "\n")
    print(text)
    return 1 if any(line["failures"] for line in read(options.out).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
