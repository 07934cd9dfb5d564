"""Autotuning: what is measured is checked, winners are remembered, and nothing else about a program changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot import CompileLimits, CompileOptions, ops
from poot.api import tuning
from poot.api.tuning import Autotuner
from poot.backends import cache
from poot.kernel.ir import Const, Load, Op, Store
from poot.plan.cost import costs
from poot.plan.schedules.common import GroupPlan
from poot.plan.tune import Task, Tuned, alternatives

TRACE: Any = poot.trace

X = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32)


def layer(x: Any, w: Any) -> Any:
    return ops.nn.softmax(ops.tanh(x @ w) + 1.0), ops.sum(x * x, axis=0)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "_MEASURE", 1e-4)


@dataclass
class Watching:
    """A tuner that keeps its tasks and answers, and may add an alternative of its own to each."""

    tuner: Autotuner
    plant: Callable[[Task], dict[str, Callable[[], GroupPlan]]] = lambda task: {}
    tasks: list[Task] = field(default_factory=list[Task])
    answers: list[Tuned] = field(default_factory=list[Tuned])

    def choose(self, task: Task) -> Tuned:
        self.tasks.append(replace(task, others={**self.plant(task), **task.others}))
        self.answers.append(self.tuner.choose(self.tasks[-1]))
        return self.answers[-1]


def compiled(tuner: Any, device: poot.Device, numerics: Any = "fused") -> poot.Program:
    graph = poot.trace(layer).graph(X, W)
    options = CompileOptions(CompileLimits.STANDARD, numerics=numerics, tuner=tuner)
    return poot.compile(graph, device.target, options)


def test_a_tuned_function_gives_the_same_and_says_what_was_tuned(device_name: str) -> None:
    def function(x: Any) -> Any:
        return ops.nn.softmax(x * 2.0)

    plain, tuned = poot.trace(device=device_name)(function), poot.trace(device=device_name, autotune=True)(function)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(tuned(X)), np.asarray(plain(X)), rtol=2e-5, atol=1e-6)
    program = tuned.program(X)
    (record,) = [each for each in program.passes if each.name == "autotune"]
    assert program.numerics == plain.program(X).numerics == "reassociating"
    assert not any("wrong" in str(each) for each in record.declined)
    assert not any(each.name == "autotune" for each in plain.program(X).passes)


# --- checks -----------------------------------------------------------------------------------------------------------


def off_by_one(task: Task) -> dict[str, Callable[[], GroupPlan]]:
    """The default plan, but its last kernel adds to what it stores."""

    def make() -> GroupPlan:
        *first, last = task.default.setups
        body = tuple(
            replace(s, value=Op("add", (s.value, Const(1 / 128, s.value.dtype)), s.value.dtype))
            if isinstance(s, Store)
            else s
            for s in last.kernel.body
        )
        assert body != last.kernel.body or not any(isinstance(s, Store) for s in body)
        return replace(task.default, setups=(*first, replace(last, kernel=replace(last.kernel, body=body))))

    return {"off by one": make}


def half_done(task: Task) -> dict[str, Callable[[], GroupPlan]]:
    """The default plan, but its last kernel leaves work-groups out: quick, and right where it has been."""
    *first, last = task.default.setups
    groups = (1, 1, 1)
    return {"half done": lambda: replace(task.default, setups=(*first, replace(last, groups=groups)))}


@pytest.mark.parametrize("oracle", [True, False])
def test_a_wrong_alternative_is_turned_down(device: poot.Device, oracle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not oracle:
        monkeypatch.setattr(tuning, "_ORACLE_WORK", 1)
    watching = Watching(Autotuner(device.backend), half_done)
    program = compiled(watching, device)
    wrong = [task for task in watching.tasks if task.default.setups[-1].groups != (1, 1, 1)]
    assert wrong
    for task, answer in zip(watching.tasks, watching.answers, strict=True):
        if task in wrong:
            assert any("half done" in str(each) and "wrong" in str(each) for each in answer.declined), answer
            assert answer.plan != task.others["half done"]()
    assert "half done" in str(program.report())


def test_an_error_in_the_second_digit_is_seen() -> None:
    device = poot.device("cpu")
    graph = poot.trace(lambda x: ops.tanh(x) * 2.0).graph(X)
    watching = Watching(Autotuner(device.backend), off_by_one)
    poot.compile(graph, device.target, CompileOptions(tuner=watching))
    assert any("off by one" in str(each) and "wrong" in str(each) for each in watching.answers[0].declined)


def test_an_alternative_that_does_not_compile_is_left_out() -> None:
    device = poot.device("cpu")

    def broken(task: Task) -> dict[str, Callable[[], GroupPlan]]:
        (setup, *_) = task.default.setups
        kernel = replace(setup.kernel, body=(*setup.kernel.body, Store("nowhere", (), Load("x", (), poot.f32))))
        return {"broken": lambda: GroupPlan((replace(setup, kernel=kernel),))}

    watching = Watching(Autotuner(device.backend), broken)
    compiled(watching, device)
    assert any("broken" in str(each) for answer in watching.answers for each in answer.declined)


@pytest.mark.parametrize("numerics", ["fused", "strict"])
def test_the_numerics_class_stays(numerics: Any) -> None:
    device = poot.device("cpu")
    assert compiled(Autotuner(device.backend), device, numerics).numerics == compiled(None, device, numerics).numerics


def test_integers_are_compared_bit_for_bit_and_what_can_fault_is_left_alone() -> None:
    device = poot.device("cpu")
    watching = Watching(Autotuner(device.backend))
    x, places = np.arange(600, dtype=np.int32).reshape(20, 30), np.arange(5, dtype=np.int32)
    graph = poot.trace(lambda x, i: (ops.sum(x * 3, axis=1), ops.take(x, i, axis=0) + 1)).graph(x, places)
    poot.compile(graph, device.target, CompileOptions(tuner=watching))
    assert watching.tasks
    assert not any("gather" in task.name for task in watching.tasks)
    assert not any(answer.declined for answer in watching.answers)


# --- what is remembered -----------------------------------------------------------------------------------------------


def winning(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the last alternative win each time; the list grows by one number a measurement."""
    runs: list[int] = []

    def run(self: Any, plans: dict[str, GroupPlan], progress: Any) -> tuple[str, float]:
        runs.append(len(plans))
        return list(plans)[-1], 2.0

    monkeypatch.setattr(tuning._Bench, "run", run)
    return runs


SECOND = """
import numpy as np, poot
from poot import CompileOptions
from poot.api import tuning
from tests.unit.test_autotune import W, X, layer

def run(*_):
    raise AssertionError("measured again")

tuning._Bench.run = run
device = poot.device("cpu")
graph = poot.trace(layer).graph(X, W)
program = poot.compile(graph, device.target, CompileOptions(tuner=tuning.Autotuner(device.backend)))
print([record for record in program.passes if record.name == "autotune"][0].notes)
print([kernel.workgroup for kernel in program.kernels])
"""


def test_a_second_process_takes_the_winner_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    device = poot.device("cpu")
    runs = winning(monkeypatch)
    program = compiled(Autotuner(device.backend), device)
    assert runs
    assert program.kernels != compiled(None, device).kernels
    found = subprocess.run(
        [sys.executable, "-c", SECOND], env=os.environ, capture_output=True, text=True, check=False, timeout=600
    )
    assert found.returncode == 0, found.stderr
    notes, kernels = found.stdout.splitlines()
    assert "as measured before" in notes
    assert kernels == str([kernel.workgroup for kernel in program.kernels])


@pytest.mark.parametrize("damage", [b"", b"rubbish", b'{"winner": 3}', b'{"winner": "no such", "launches": []}', b"[]"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_damaged_store_is_as_good_as_none(
    damage: bytes, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = poot.device("cpu")
    runs = winning(monkeypatch)
    first = compiled(Autotuner(device.backend), device)
    measured = len(runs)
    assert compiled(Autotuner(device.backend), device).kernels == first.kernels
    assert len(runs) == measured
    for path in [path for path in tmp_path.glob("??/*") if b'"winner"' in path.read_bytes()]:
        if whole:
            path.write_bytes(damage)
        else:
            cache.store(path.name, damage)  # its hash is right, its contents are not
    assert compiled(Autotuner(device.backend), device).kernels == first.kernels
    assert len(runs) == 2 * measured


def test_a_winner_whose_kernels_are_others_now_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    device = poot.device("cpu")
    runs = winning(monkeypatch)
    compiled(Autotuner(device.backend), device)
    measured = len(runs)
    hashes = tuning._hashes
    stored = tuning._remembered

    def remembered(key: str, task: Task) -> Tuned | None:
        with monkeypatch.context() as other:
            other.setattr(tuning, "_hashes", lambda plan: (*hashes(plan), "of another version"))
            return stored(key, task)

    monkeypatch.setattr(tuning, "_remembered", remembered)
    compiled(Autotuner(device.backend), device)
    assert len(runs) == 2 * measured


def test_names_of_alternatives_differ_from_the_default() -> None:
    for name in ("cpu", "cuda:sm_90", "wgpu"):
        figures = costs(poot.Target.parse(name))
        for kind in ("map", "reduce", "contract", "attention"):
            found = alternatives(figures, kind, 256)
            assert found and figures not in found.values()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2, x + 1),
        lambda x: (ops.mean(x, axis=1), ops.max(x, axis=1)),
        lambda x: ops.nn.softmax(x)[:, :4] + x[0, 0],
        lambda x: {"a": x + 1, "b": ops.nn.softmax(x + 1)},
    ],
)
def test_kernels_of_several_results_are_tuned(function: Any) -> None:
    x = np.random.default_rng(0).standard_normal((64, 128), dtype=np.float32)
    found = TRACE(function, autotune=True, device="cpu")(x)
    wanted = TRACE(function).evaluate(x)
    for one, other in zip(optree.tree_leaves(found), optree.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("m", "k", "n"), [(128, 128, 192), (256, 64, 192), (64, 128, 96)])
def test_tiles_of_few_sums_are_possible(m: int, k: int, n: int) -> None:
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    assert (np.asarray(TRACE(lambda a, b: a @ b, autotune=True, device="cpu")(a, b)) == k).all()
