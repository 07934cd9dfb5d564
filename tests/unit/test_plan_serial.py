"""Saved programs: what is loaded is what was saved, and what is damaged or does not keep to its buffers is refused."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poot.dtypes import f16, f32, i32
from poot.errors import SerialisationError
from poot.kernel.ir import Load, Store, walk
from poot.plan.compile import compile as plan
from poot.plan.program import Binding, Copy, Launch, Loop, Program, Removed, Slot
from poot.plan.serial import dump_program, load_program
from poot.target import Target
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.graph import Literal
from tests.plan_support import INTERPRET, LIMITS, compare, run_program
from tests.random_graphs import random_bindings, random_graph


def program(target: Target = INTERPRET) -> Program:
    """Rows, a contraction with panels, a state, and a literal NaN."""
    b = Builder(LIMITS)
    x, w, s = b.input("x", f32[9, 40]), b.constant("w", f32[24, 40]), b.state("s", f32[9, 24])
    y = ops.nn.softmax(ops.matmul(x, w.T) + s)
    z = b.emit("add", (y, Literal(math.nan, f32)))[0]
    return plan(b.finish((y, z, 1.5), updates={"s": y * 0.5}), target)


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"x": (9, 40), "w": (24, 40), "s": (9, 24)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_program_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    saved = program(Target.parse("cpu"))
    saved.save(tmp_path / "block.poot")
    loaded = load_program(tmp_path / "block.poot")
    assert loaded == saved and loaded.report() == saved.report()
    assert dump_program(loaded) == dump_program(saved)


def test_a_file_that_is_refused_is_named(tmp_path: Path) -> None:
    path = tmp_path / "block.poot"
    for data, message in ((b"{}", "it is not a saved program"), (dump_program(program())[:-1], "not a saved program")):
        path.write_bytes(data)
        for source in (path, str(path)):
            with pytest.raises(SerialisationError, match=message) as caught:
                load_program(source)
            assert str(caught.value).startswith(f"program {str(path)!r}: ")
    path.write_bytes(dump_program(replace(program(), outputs=(99,) * 3)))
    with pytest.raises(SerialisationError, match=r"block\.poot': it is damaged: there is no slot 99"):
        load_program(path)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, "any", equations=20)
    bindings = random_bindings(graph, rng, "any")
    saved = plan(graph, INTERPRET)
    loaded = load_program(dump_program(saved))
    assert replace(loaded, kernels=()) == replace(saved, kernels=())
    compare(run_program(loaded, bindings)[0], run_program(saved, bindings)[0], exact=True)


# --- what is refused --------------------------------------------------------------------------------------------------


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A saved program with a change in its body, and a digest that fits."""
    container = json.loads(dump_program(program()))
    body = json.loads(container["program"])
    change(body)
    text = json.dumps(body)
    return json.dumps(container | {"program": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "program: it is not a saved program"),
        (b"\x80\x04N.", "program: it is not a saved program"),
        (b"[1, 2]", "program: it is not a saved program"),
        (b'{"format": "poot graph"}', "program: it is not a saved program"),
        (b"[" * 100_000, "program: it is not a saved program"),
    ],
)
def test_other_files(data: bytes, message: str) -> None:
    with pytest.raises(SerialisationError, match=message):
        load_program(data)


def test_other_versions_and_damage() -> None:
    container = json.loads(dump_program(program()))
    with pytest.raises(SerialisationError, match=r"it has version 99, and this poot reads version \d"):
        load_program(json.dumps(container | {"version": 99}).encode())
    with pytest.raises(SerialisationError, match="it is damaged"):
        load_program(json.dumps(container | {"program": container["program"][:-5]}).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernels", []),
        ("steps", [{"Launch": [0, [], [1, 1, 1], []]}]),
        ("steps", [{"Launch": [99, [], [1, 1, 1], []]}]),
        ("steps", [{"Execute": ["rm"]}]),
        ("steps", [{"Path": ["/"]}]),
        ("steps", [[1, 2]]),
        ("storage", None),
        ("outputs", [0, 1, 2]),
        ("outputs", []),
        ("updates", []),
        ("equation_plans", []),
        ("contract", 0.5),
        ("graph", "x"),
        ("target", "{}"),
    ],
)
def test_bodies_that_do_not_fit(name: str, value: Any) -> None:
    with pytest.raises(SerialisationError):
        load_program(changed(lambda body: body.__setitem__(name, value)))


def tampered(change: Callable[[Program], Program]) -> None:
    with pytest.raises(SerialisationError):
        load_program(dump_program(change(program())))


def launch_of(p: Program) -> tuple[int, Launch]:
    return next((number, step) for number, step in enumerate(p.steps) if isinstance(step, Launch))


def with_launch(p: Program, **changes: Any) -> Program:
    number, launch = launch_of(p)
    return replace(p, steps=(*p.steps[:number], replace(launch, **changes), *p.steps[number + 1 :]))


def with_slot(p: Program, number: int, slot: Slot) -> Program:
    slots = p.storage.slots
    return replace(p, storage=replace(p.storage, slots=(*slots[:number], slot, *slots[number + 1 :])))


def test_steps_keep_to_their_slots() -> None:
    _, launch = launch_of(program())
    first = launch.bindings[0]
    tampered(lambda p: with_launch(p, bindings=(Binding(first.slot, 1 << 20), *launch.bindings[1:])))
    tampered(lambda p: with_launch(p, bindings=(Binding(first.slot, -1), *launch.bindings[1:])))
    tampered(lambda p: with_launch(p, bindings=(Binding(-1), *launch.bindings[1:])))
    tampered(lambda p: with_launch(p, bindings=launch.bindings[1:]))
    tampered(lambda p: with_launch(p, groups=(1 << 40, 1, 1)))
    tampered(lambda p: with_launch(p, groups=(0, 1, 1)))
    tampered(lambda p: with_launch(p, equations=(1000,)))
    tampered(lambda p: with_launch(p, inside=((0, 0),)))
    tampered(lambda p: with_launch(p, equations=(), inside=((0, 0),)))
    tampered(lambda p: replace(p, steps=(*p.steps, Copy(p.outputs[0], p.outputs[2]))))
    tampered(lambda p: replace(p, steps=(*p.steps, Copy(p.outputs[0], 0))))


@pytest.mark.parametrize("inside", [((1, 0),), ((0, 99),), ((0, -1),), ((-1, 0),), ((0, 0), (0, 0))])
def test_regions_that_are_not_there(inside: tuple[tuple[int, int], ...]) -> None:
    b = Builder(LIMITS)
    x, i = b.input("x", f32[9]), b.input("i", i32[4])
    made = plan(b.finish(ops.scan(lambda c, k: (c + x[k], None), 0.0, i)[0]), INTERPRET)
    (loop,) = (step for step in made.steps if isinstance(step, Loop))
    launch = next(step for step in loop.body if isinstance(step, Launch))
    equation = made.faulting(launch)
    assert launch.inside and equation is not None and equation.primitive == "gather"
    assert made.faulting(Launch(0, (), (1, 1, 1))) is None
    changed = replace(loop, body=tuple(replace(s, inside=inside) if s is launch else s for s in loop.body))
    steps = tuple(changed if step is loop else step for step in made.steps)
    assert load_program(dump_program(made)) == made
    with pytest.raises(SerialisationError, match="there is no"):
        load_program(dump_program(replace(made, steps=steps)))


@pytest.mark.parametrize("number", [-2, 1 << 31, 1 << 70])
def test_every_number_has_a_range(number: int) -> None:
    made, loop = program(), Loop((), -1, (), 3)
    plans, passes, kernel = made.equation_plans, made.passes, made.kernels[0]
    assert load_program(dump_program(replace(made, steps=(*made.steps, loop))))
    tampered(lambda p: replace(p, equation_plans=(replace(plans[0], launch=number), *plans[1:])))
    tampered(lambda p: replace(p, steps=(*p.steps, replace(loop, trip_count=number))))
    tampered(lambda p: replace(p, kernels=(replace(kernel, threads=(64, 1, number)), *p.kernels[1:])))
    for changes in (
        {"equations_before": number},
        {"equations_after": number},
        {"origins": (number, *passes[0].origins[1:])},
        {"origins": (*passes[0].origins, 0)},
        {"removed": (Removed(number, "dead"),)},
    ):
        tampered(lambda p, changes=changes: replace(p, passes=(replace(passes[0], **changes), *passes[1:])))
    slots = made.storage.slots
    bound = next(n for n, slot in enumerate(slots) if slot.role != "scratch")
    tampered(lambda p: with_slot(p, bound, replace(slots[bound], offset=number)))
    if number < 0:
        tampered(lambda p: with_launch(p, flops=number))


def test_slots_keep_to_the_arena_and_the_graph() -> None:
    slots = program().storage.slots
    number = next(n for n, slot in enumerate(slots) if slot.role == "scratch")
    tampered(lambda p: with_slot(p, number, replace(slots[number], offset=1 << 30)))
    tampered(lambda p: with_slot(p, number, replace(slots[number], offset=-64)))
    tampered(lambda p: with_slot(p, number, replace(slots[number], spec=f16[1])))
    tampered(lambda p: with_slot(p, 0, replace(slots[0], name="other")))
    tampered(lambda p: with_slot(p, 0, replace(slots[0], spec=f32[1])))
    tampered(lambda p: replace(p, storage=replace(p.storage, arena_bytes=0)))


def test_accesses_that_cannot_be_proven_are_checked() -> None:
    b = Builder(LIMITS)
    x, w = b.input("x", f32[40, 300]), b.constant("w", f32[128, 300])
    for p in (program(), plan(b.finish(ops.matmul(x, w.T)), INTERPRET)):
        loaded = load_program(dump_program(p))
        assert not any(isinstance(n, (Load, Store)) and n.checked for k in loaded.kernels for n in walk(k.body))
    (launch,) = p.prologue
    assert isinstance(launch, Launch) and p.kernels[launch.kernel].threads is None
    across, blocks, depth = launch.groups
    assert blocks > 1
    wider = replace(launch, groups=(across, blocks + 5, depth))
    loaded = load_program(dump_program(replace(p, prologue=(wider,))))
    stores = [n for n in walk(loaded.kernels[launch.kernel].body) if isinstance(n, Store)]
    assert stores and all(n.checked for n in stores)


# --- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "language", "text"),
    [
        ("cpu", "native", "define void @"),
        ("interpret", "interpret", "@kernel("),
        ("wgpu", "wgsl", "@compute"),
        ("opencl", "opencl", "__kernel"),
        ("cuda:sm_90", "ptx", "target triple"),
        ("cuda:sm_90", "triton", "@triton.jit"),
        ("hip:gfx942", "amdgcn", "amdgpu_kernel"),
    ],
)
def test_sources_of_every_language(target: str, language: Any, text: str) -> None:
    b = Builder(LIMITS)
    made = plan(b.finish(ops.nn.gelu(b.input("x", f32[7, 96]) + 1.0)), Target.parse(target))
    assert text in made.source(language)
    assert load_program(dump_program(made)).source(language) == made.source(language)
