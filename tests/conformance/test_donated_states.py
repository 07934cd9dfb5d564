"""States that a program may change where they lie: what steps give, that they copy nothing, when states are lost."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, i32, ops
from poot.backends.device import open_device
from poot.errors import ArgumentError, ArgumentTypeError, IndexFault, StateLost
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.program import Copy
from poot.target import Target
from tests.conformance.test_updates_in_loops import BODIES, CACHE, OTHER, ROWS, TURNS, WIDTH, XS, same
from tests.faulty_device import Failure, FaultyDevice, InjectedError

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

TRACE: Any = poot.trace


class Stepping:
    """An engine with one entry of a function of states and inputs; `states` are the first values."""

    def __init__(self, program: Any, device: Any, states: dict[str, Any]) -> None:
        self.program = program
        self.engine = poot.Engine(device)
        self.exe = self.engine.load_weights(poot.WeightStore.from_arrays({}))
        self.entry = self.engine.add_entry(self.exe, program)
        self.set(states)

    def set(self, states: dict[str, Any]) -> None:
        for name, value in states.items():
            self.exe.state[name] = value

    def step(self, **inputs: Any) -> Any:
        pushed = poot.StepInputs()
        for name, array in inputs.items():
            pushed.push(name, array)
        return self.engine.step(self.exe, self.entry, pushed).read()

    def values(self) -> dict[str, Any]:
        return {variable.name: np.asarray(self.exe.state[variable.name]) for variable in self.program.graph.states}


def twins(function: Any, device: str, specs: Any, states: dict[str, Any], **options: Any) -> list[Stepping]:
    """The function's steps with the argument `c` donated, and without."""
    programs = [
        TRACE(function, donate=donate).program(*specs, states={"c": 1}, device=device, **options)
        for donate in (("c",), ())
    ]
    assert set(programs[0].in_place) == {variable.name for variable in programs[0].graph.states}
    assert programs[1].in_place == ()
    return [Stepping(program, open_device(device), states) for program in programs]


def stepped(name: str) -> Any:
    def step(c: Any, i: Any, x: Any) -> Any:
        carry, row = BODIES[name][0](c, (i, x))
        return (row, c[0][1]), carry

    return step


@pytest.mark.parametrize("name", BODIES)
def test_steps(name: str, device_name: str) -> None:
    carry = BODIES[name][1]
    specs = (tuple(f32[ROWS, WIDTH] for _ in carry), i32[()], f32[WIDTH])
    states = {f"c.{number}": array for number, array in enumerate(carry)}
    donated, plain = twins(stepped(name), device_name, specs, states)
    for turn in range(TURNS):
        inputs = {"i": np.int32(turn), "x": XS[turn]}
        same(donated.step(**inputs), plain.step(**inputs))
        same(donated.values(), plain.values())


@pytest.mark.parametrize("name", [name for name in BODIES if BODIES[name][2]])
def test_no_step_copies(name: str) -> None:
    specs = (tuple(f32[ROWS, WIDTH] for _ in BODIES[name][1]), i32[()], f32[WIDTH])
    program = TRACE(stepped(name), donate="c").program(*specs, states={"c": 1}, device="cpu")
    large = [step for step in program.steps if isinstance(step, Copy)]
    assert name == "kept of every turn" or not any(
        program.storage.slots[step.source].nbytes == CACHE.nbytes for step in large
    )


#: What a step may return beside the next values of two states, of their old and new contents.
RESULTS: dict[str, Any] = {
    "nothing": lambda old, new: None,
    "the old": lambda old, new: old[0],
    "the new": lambda old, new: new[0],
    "both": lambda old, new: (old, new),
    "views": lambda old, new: (old[0].T, new[1].reshape(-1), old[1][3], new[0][:2]),
    "the new twice": lambda old, new: (new[0], new[0]),
    "sums of all": lambda old, new: (ops.sum(old[0]) + ops.sum(new[0]), ops.sum(old[1]) - ops.sum(new[1])),
    "a mix": lambda old, new: old[0] * 2 + new[1],
}
NEXT: dict[str, Any] = {
    "updates": lambda c, i, x: (c[0].at[i].set(x), ops.dynamic_update_slice(c[1], x[None], (i + 1, 0))),
    "maps": lambda c, i, x: (c[0] + x, c[1] * 2 - x),
    "exchanged": lambda c, i, x: (c[1], c[0]),
    "exchanged and changed": lambda c, i, x: (c[1].at[i].set(x), c[0] + 1),
    "one for both": lambda c, i, x: ((d := c[0].at[i].add(x)), d),
    "as they were": lambda c, i, x: (c[0], c[1]),
    "reversed": lambda c, i, x: (c[0][::-1], c[1].at[i].set(c[0][i])),
    "from each other": lambda c, i, x: (c[0].at[i].set(c[1][i]), c[1].at[i].set(c[0][i + 1])),
    "new": lambda c, i, x: (ops.zeros((ROWS, WIDTH)), ops.broadcast_to(x, (ROWS, WIDTH))),
    "sums": lambda c, i, x: (c[0] + ops.sum(c[1], axis=0), c[1].at[i].set(ops.max(c[0], axis=0))),
}


@pytest.mark.parametrize(("after", "result"), list(itertools.product(NEXT, RESULTS)))
def test_what_else_is_wanted(after: str, result: str, device_name: str) -> None:
    def step(c: Any, i: Any, x: Any) -> Any:
        new = NEXT[after](c, i, x)
        return RESULTS[result](c, new), new

    spec = f32[ROWS, WIDTH]
    donated, plain = twins(step, device_name, ((spec, spec), i32[()], f32[WIDTH]), {"c.0": CACHE, "c.1": OTHER})
    for turn in range(3):
        inputs = {"i": np.int32(turn), "x": XS[turn]}
        same(donated.step(**inputs), plain.step(**inputs))
        same(donated.values(), plain.values())


def test_a_donated_state_beside_one_that_is_not(device_name: str) -> None:
    def step(a: Any, b: Any, i: Any) -> Any:
        return a[i] + b[i], {"a": b.at[i].add(1.0), "b": a + b}

    def program(donate: Any) -> Any:
        states = {"a": "1.a", "b": "1.b"}
        spec = f32[ROWS, WIDTH]
        return TRACE(step, donate=donate).program(spec, spec, i32[()], states=states, device=device_name)

    device, first = open_device(device_name), {"a": CACHE, "b": OTHER}
    runs = [Stepping(program(donate), device, first) for donate in ((), "a", "b", ("a", "b"))]
    for turn in range(4):
        expected = runs[0].step(i=np.int32(turn))
        for run in runs[1:]:
            same(run.step(i=np.int32(turn)), expected)
            same(run.values(), runs[0].values())


def test_a_cache_takes_no_memory_and_no_copy() -> None:
    def step(c: Any, i: Any, x: Any) -> Any:
        new = ops.dynamic_update_slice(c, x[None], (i, 0))
        return ops.nn.softmax(new @ x), new

    program = TRACE(step, donate="c").program(f32[4096, 64], i32[()], f32[64], states={"c": 1}, device="cpu")
    report = program.report()
    assert report.work.copies == 0 and report.work.bytes_written < 4096 * 64
    assert report.storage.scratch_bytes < 4096 * 64 and "c" in program.in_place


# --- what fails -------------------------------------------------------------------------------------------------------


def faulting(c: Any, i: Any, x: Any) -> Any:
    return c[i], c.at[0].set(x)


def test_a_fault_loses_what_was_donated(device_name: str) -> None:
    specs = (f32[ROWS, WIDTH], i32[()], f32[WIDTH])
    donated, plain = twins(faulting, device_name, specs, {"c": CACHE})
    for run in (donated, plain):
        with pytest.raises(IndexFault):
            run.step(i=np.int32(ROWS), x=XS[1])
    same(plain.values(), {"c": CACHE})
    with pytest.raises(StateLost, match=r"step 1"):
        donated.values()
    with pytest.raises(StateLost):
        donated.step(i=np.int32(0), x=XS[1])
    donated.set({"c": CACHE})
    same(donated.step(i=np.int32(3), x=XS[1]), CACHE[3])
    same(donated.values()["c"][0], XS[1])


@pytest.mark.parametrize("call", ["record", "replay"])
def test_a_device_that_fails_loses_what_was_donated(call: str, device_name: str) -> None:
    def step(c: Any, i: Any, x: Any) -> Any:
        return ops.sum(c), ops.dynamic_update_slice(c, x[None], (i, 0))

    device: Any = FaultyDevice(poot.device(device_name))
    program = TRACE(step, donate="c").program(
        f32[ROWS, WIDTH], i32[()], f32[WIDTH], states={"c": 1}, device=device_name
    )
    run = Stepping(program, device, {"c": CACHE})
    if call == "replay":
        run.step(i=np.int32(0), x=CACHE[0])
    device.arm(Failure(call, 0, "after"))
    with pytest.raises(InjectedError):
        run.step(i=np.int32(1), x=XS[1])
    with pytest.raises(StateLost):
        run.values()
    run.set({"c": OTHER})
    same(run.step(i=np.int32(1), x=XS[1]), np.sum(OTHER))


def test_names_that_are_no_states() -> None:
    graph = TRACE(lambda c, x: (x, c + x)).graph(f32[3], f32[3], states={"c": 1})
    target = Target.parse("cpu")
    with pytest.raises(ArgumentError, match="names of states of the graph"):
        plan(graph, target, CompileOptions(donate=frozenset({"x"})))
    with pytest.raises(ArgumentTypeError, match="donate"):
        plan(graph, target, CompileOptions(donate=["c"]))  # type: ignore[arg-type]


def test_a_saved_program_keeps_what_is_donated(device_name: str, tmp_path: Path) -> None:
    specs = (f32[ROWS, WIDTH], i32[()], f32[WIDTH])
    program = TRACE(faulting, donate="c").program(*specs, states={"c": 1}, device=device_name)
    program.save(tmp_path / "step.poot")
    loaded = poot.load_program(tmp_path / "step.poot")
    assert loaded.in_place == ("c",)
    run = Stepping(loaded, open_device(device_name), {"c": CACHE})
    same(run.step(i=np.int32(2), x=XS[2]), CACHE[2])
    same(run.values()["c"][0], XS[2])
