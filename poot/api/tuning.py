"""Autotuning: alternatives to a schedule are measured on scratch data, checked, and the winner is remembered on disk.

Every alternative has to give what the oracle gives for the same random operands, within what another order of summation
may change; where the oracle would take long, it has to give what the cost model's own schedule gives, on a sample of
elements.  One that does not, or does not compile, is left out and named in the program's report.  Of the others the
quickest is taken, if it is clearly quicker than the cost model's choice.

Winners lie in the artifact cache (`POOT_CACHE_DIR`), under a key of all that decides: the target, the processor and its
threads, poot's version, and the kernels of the cost model's choice.  A file that is damaged, or names kernels that this
version does not make, is as good as none.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from poot.backends import cache
from poot.backends.device import Buffer, BufferView, DeviceBackend, LaunchSpec, Recording
from poot.backends.progress import Work, working
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ArraySpec
from poot.errors import PootError
from poot.kernel.text import kernel_hash
from poot.plan.program import Declined
from poot.plan.rewire import can_fault
from poot.plan.schedules.common import GroupPlan
from poot.plan.tune import Task, Tuned
from poot.trace.evaluate import evaluate

Array = np.ndarray[Any, Any]

#: Combined elements up to which the oracle computes what is expected.
_ORACLE_WORK = 1 << 31
#: Elements that are compared where it does not.
_SAMPLE = 1 << 16
#: Scratch bytes beyond which a group is not tuned.
_MOST_BYTES = 2 << 30
#: Seconds of one measurement, and how much quicker than the cost model's choice a winner has to be.
_MEASURE = 0.02
_CLEARLY = 0.95
#: An alternative whose first run takes so many times as long as the best one so far is not measured further.
_HOPELESS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """An alternative that gave the right results: its recording, and the seconds of a run."""

    name: str
    plan: GroupPlan
    recording: Recording
    seconds: float


class _Wrong(Exception):
    """Why an alternative is left out."""


class Autotuner:
    """A tuner that measures on one device."""

    def __init__(self, device: DeviceBackend) -> None:
        self._device = device

    def choose(self, task: Task) -> Tuned:
        """The quickest right plan, as the disk remembers it or as it is measured now."""
        key = self._key(task)
        known = _remembered(key, task)
        if known is not None:
            return known
        plans = {"": task.default}
        faults = any(can_fault(setup.kernel) for setup in task.default.setups)
        if faults or task.work == 0 or self._bytes(task) > _MOST_BYTES:
            return Tuned(task.default)
        declined: list[Declined] = []
        seen = {_hashes(task.default)}
        for name, make in task.others.items():
            try:
                plan = make()
            except PootError as error:
                declined.append(Declined(f"{task.name}, {name}", _first_line(error)))
                continue
            if _hashes(plan) not in seen:
                seen.add(_hashes(plan))
                plans[name] = plan
        if len(plans) == 1:
            return Tuned(task.default)
        with working(f"autotuning {task.name}", len(plans), "schedules") as work, contextlib.ExitStack() as done:
            name, gain = _Bench(self._device, task, done, declined).run(plans, work)
        _remember(key, name, plans[name])
        return Tuned(plans[name], _note(task, name, gain, len(plans)), tuple(declined))

    def _key(self, task: Task) -> str:
        threads = getattr(getattr(self._device, "pool", None), "threads", 0)
        parts = [importlib.metadata.version("poot"), task.target.fingerprint, str(threads), str(task.contract)]
        return cache.artifact_key("autotune-1", *parts, *_hashes(task.default), *sorted(task.others))

    @staticmethod
    def _bytes(task: Task) -> int:
        return sum(spec.nbytes for spec in (*task.specs.values(), *task.default.temporaries))


def _hashes(plan: GroupPlan) -> tuple[str, ...]:
    """What a plan's launches are, whatever its values are called."""
    numbers: dict[int, int] = {}
    found: list[str] = []
    for setup in plan.setups:
        arguments = [numbers.setdefault(a, len(numbers)) for a in setup.arguments]
        found.append(f"{kernel_hash(setup.kernel)} {setup.groups} {arguments}")
    return tuple(found)


def _note(task: Task, name: str, gain: float, count: int) -> str:
    if not name:
        return f"{task.name}: the cost model's choice is the best of {count}"
    return f"{task.name}: {name}, {gain:.2f} times as fast as the cost model's choice, the best of {count}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


# --- what is remembered -----------------------------------------------------------------------------------------------


def _remember(key: str, name: str, plan: GroupPlan) -> None:
    cache.store(key, json.dumps({"winner": name, "launches": _hashes(plan)}).encode())


def _remembered(key: str, task: Task) -> Tuned | None:
    """The winner on disk, made again; None where there is none that this version can make."""
    body = cache.load(key)
    if body is None:
        return None
    try:
        stored: Any = json.loads(body)
        name, launches = stored["winner"], tuple(stored["launches"])
        plan = task.others[name]() if name else task.default
    except (ValueError, KeyError, TypeError, RecursionError, PootError):
        return None
    if _hashes(plan) != launches:
        return None
    return Tuned(plan, f"{task.name}: {name}, as measured before" if name else "")


# --- measuring --------------------------------------------------------------------------------------------------------


class _Bench:
    """Scratch memory on a device, and what the plans of a task are expected to make of it."""

    def __init__(self, device: DeviceBackend, task: Task, done: contextlib.ExitStack, declined: list[Declined]) -> None:
        self._device = device
        self._task = task
        self._done = done
        self._declined = declined
        rng = np.random.default_rng(0)
        self._inputs = {number: _random(task.specs[number], rng) for number in task.reads}
        self._buffers = {number: self._allocate(task.specs[number].nbytes) for number in (*task.reads, *task.writes)}
        for number, array in self._inputs.items():
            device.write(BufferView(self._buffers[number]), array)
        self._expected: dict[int, Array] | None = None
        if task.work <= _ORACLE_WORK:
            bindings: dict[int | str, Any] = dict(
                zip((v.name for v in task.graph.inputs), self._inputs.values(), strict=True)
            )
            with np.errstate(all="ignore"):
                results = cast("Sequence[Any]", evaluate(task.graph, bindings).output)
            self._expected = dict(zip(task.writes, map(np.asarray, results), strict=True))

    def _allocate(self, nbytes: int) -> Buffer:
        buffer = self._device.allocate(nbytes)
        self._done.callback(self._device.free, buffer)
        return buffer

    def run(self, plans: Mapping[str, GroupPlan], work: Work) -> tuple[str, float]:
        """The name of the winner, and how many times as fast as the default it is."""
        ready: list[_Ready] = []
        best = float("inf")
        for name, plan in plans.items():
            work.advance()
            try:
                made = self._ready(name, plan, best)
            except (PootError, _Wrong) as error:
                what = name or "the cost model's choice, and so nothing is tuned"
                self._declined.append(Declined(f"{self._task.name}, {what}", _first_line(error)))
                if not name:
                    return "", 1.0
                continue
            ready.append(made)
            best = min(best, made.seconds)
        finalists = sorted(ready[1:], key=lambda each: each.seconds)[:2]
        times: dict[str, list[float]] = {each.name: [] for each in (ready[0], *finalists)}
        for _ in range(3):  # in turns, so that a slow moment of the machine falls on all of them
            for each in (ready[0], *finalists):
                times[each.name].append(self._seconds(each.recording, each.seconds))
        medians = {name: statistics.median(values) for name, values in times.items()}
        winner = min(medians, key=lambda name: medians[name])
        gain = medians[""] / medians[winner]
        return (winner, gain) if gain * _CLEARLY > 1 else ("", 1.0)

    def _ready(self, name: str, plan: GroupPlan, best: float) -> _Ready:
        views, specs = self._launches(plan)
        for number in self._task.writes:  # whatever a plan forgets to write is not what it should be
            garbage = np.full(self._task.specs[number].nbytes, 0xA5, np.uint8)
            self._device.write(BufferView(self._buffers[number]), garbage)
        recording = self._device.record(specs, views, (), ())
        self._check()
        start = time.perf_counter()
        self._device.replay(recording, ())
        self._device.synchronize()
        once = time.perf_counter() - start
        seconds = once if once > _HOPELESS * best + 1e-3 else self._seconds(recording, once)
        return _Ready(name, plan, recording, seconds)

    def _launches(self, plan: GroupPlan) -> tuple[list[BufferView | None], list[LaunchSpec]]:
        places: dict[int, int] = {}
        views: list[BufferView | None] = []
        specs: list[LaunchSpec] = []
        for setup in plan.setups:
            for argument in setup.arguments:
                if argument not in places:
                    places[argument] = len(views)
                    known = self._buffers.get(argument)
                    temporary = plan.temporaries[-1 - argument].nbytes if argument < 0 else 0
                    views.append(BufferView(known if known is not None else self._allocate(temporary)))
            compiled = compile_kernel(setup.kernel, self._device.target, contract=self._task.contract)
            buffers = tuple((places[argument], 0) for argument in setup.arguments)
            specs.append(LaunchSpec(self._device.load(compiled), buffers, setup.groups))
        return views, specs

    def _seconds(self, recording: Recording, once: float) -> float:
        repeats = int(min(max(_MEASURE / max(once, 1e-7), 3), 100))
        return self._device.elapsed(recording, (), repeats)

    # --- checking ---

    def _check(self) -> None:
        """_Wrong where the results are not those that are expected."""
        found: dict[int, Array] = {}
        for number in self._task.writes:
            spec = self._task.specs[number]
            found[number] = np.empty(spec.shape, spec.dtype.dtype)
            self._device.read(BufferView(self._buffers[number]), found[number])
        if self._expected is None:  # the first plan is the default
            self._expected = found
            return
        for number, array in found.items():
            if not _close(array, self._expected[number], self._task):
                raise _Wrong("its results are wrong")


def _random(spec: ArraySpec, rng: np.random.Generator) -> Array:
    """Operands of moderate size, so that nothing overflows that would not anyhow."""
    if spec.dtype.is_float:
        return rng.standard_normal(spec.shape, np.float32).astype(spec.dtype.dtype)
    return rng.integers(0, 2 if spec.dtype.kind == "bool" else 4, spec.shape).astype(spec.dtype.dtype)


def _close(found: Array, expected: Array, task: Task) -> bool:
    """Whether results agree: exactly, or as sums in another order do."""
    flat, wanted = found.reshape(-1), expected.reshape(-1)
    if task.work > _ORACLE_WORK and flat.size > _SAMPLE:
        places = np.random.default_rng(1).integers(0, flat.size, _SAMPLE)
        flat, wanted = flat[places], wanted[places]
    if not np.issubdtype(found.dtype, np.inexact) and found.dtype.kind in "biu":
        return bool(np.array_equal(flat, wanted))
    length = task.work / max(sum(task.specs[number].size for number in task.writes), 1)
    mine, theirs = flat.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True):
        return False
    scale = float(np.max(np.abs(theirs[finite]), initial=1.0))
    epsilon = {2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}[found.dtype.itemsize]
    bound = epsilon * scale * (16 + 4 * length**0.5)
    return bool(np.max(np.abs(mine[finite] - theirs[finite]), initial=0.0) <= bound)
