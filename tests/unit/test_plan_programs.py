"""Whole programs: storage, states, conditions and loops, and random graphs, run step by step against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot.dtypes import ArraySpec, bool_, f32, i32
from poot.errors import IndexFault, KernelFault
from poot.kernel.build import KernelBuilder
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.lower import KernelPlan
from poot.plan.program import Binding, Branch, Copy, Launch, Loop, Slot, Step
from poot.plan.schedules.common import Setup
from poot.plan.storage import plan_storage
from poot.target import Target
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.evaluate import evaluate
from poot.trace.graph import Equation, Graph, Literal
from poot.trace.primitives import Launches, Primitive, register, unregister
from tests.plan_support import INTERPRET, LIMITS, assert_same, compare, run_program
from tests.primitive_cases import Case, by_dtype, case_graph, sample
from tests.random_graphs import random_bindings, random_graph

# --- storage ----------------------------------------------------------------------------------------------------------


def launch(*slots: int) -> Launch:
    return Launch(0, tuple(Binding(slot) for slot in slots), (1, 1, 1))


def scratch(*sizes: int) -> list[Slot]:
    return [Slot("scratch", ArraySpec(f32, (size // 4,))) for size in sizes]


def overlaps(slots: tuple[Slot, ...], a: int, b: int) -> bool:
    first, second = slots[a], slots[b]
    return first.offset < second.offset + second.nbytes and second.offset < first.offset + first.nbytes


def test_slots_are_reused_after_their_last_use() -> None:
    steps: tuple[Step, ...] = (launch(0, 1), launch(1, 2), launch(2, 3))
    storage = plan_storage(scratch(256, 256, 256, 256), steps, frozenset())
    assert storage.arena_bytes == storage.liveness_bound == 512
    assert not any(overlaps(storage.slots, a, a + 1) for a in range(3))


def test_offsets_are_aligned_and_gaps_fit_best() -> None:
    steps: tuple[Step, ...] = (launch(0, 1, 2, 3), launch(0, 2), launch(0, 2, 4))
    storage = plan_storage(scratch(1000, 100, 1000, 300, 90), steps, frozenset())
    assert all(slot.offset % 64 == 0 for slot in storage.slots)
    assert storage.arena_bytes == storage.liveness_bound == 1024 * 2 + 128 + 320


def test_kept_slots_live_to_the_end() -> None:
    steps: tuple[Step, ...] = (launch(0), launch(1), launch(2))
    assert plan_storage(scratch(64, 64, 64), steps, frozenset()).arena_bytes == 64
    assert plan_storage(scratch(64, 64, 64), steps, frozenset({0})).arena_bytes == 128


def test_what_a_loop_reads_lives_until_it_ends() -> None:
    loop = Loop((), -1, (launch(0, 1), launch(2)), 5)
    storage = plan_storage(scratch(64, 64, 64), (launch(0), loop), frozenset())
    assert not overlaps(storage.slots, 0, 1) and not overlaps(storage.slots, 0, 2)
    assert overlaps(storage.slots, 1, 2)


def test_what_leaves_a_loop_lives_from_its_begin() -> None:
    loop = Loop((), -1, (launch(0), launch(1)), 5)
    storage = plan_storage(scratch(64, 64), (loop, launch(1)), frozenset())
    assert not overlaps(storage.slots, 0, 1)
    inner = Loop((), -1, (launch(0), loop), 5)
    storage = plan_storage(scratch(64, 64), (inner, launch(1)), frozenset())
    assert not overlaps(storage.slots, 0, 1)


def test_branches_may_share() -> None:
    branch = Branch(0, ((launch(1),), (launch(2),)))
    storage = plan_storage(scratch(4, 64, 64), (launch(0), branch), frozenset())
    assert overlaps(storage.slots, 1, 2) and storage.arena_bytes == 64


# --- states -----------------------------------------------------------------------------------------------------------


def test_states_change_together() -> None:
    b = Builder(LIMITS)
    x, s, t, u = b.input("x", f32[4]), b.state("s", f32[4]), b.state("t", f32[4]), b.state("u", f32[4])
    total = s + x
    g = b.finish((total, s), updates={"s": t, "t": s, "u": total})
    rng = np.random.default_rng(0)
    program = assert_same(g, {name: rng.standard_normal(4).astype(np.float32) for name in "xstu"}, exact=True)
    states = {slot.name: number for number, slot in enumerate(program.storage.slots) if slot.role == "state"}
    assert all(cell not in states.values() for _, cell in program.updates)
    assert dict(program.updates)["u"] == program.outputs[0]
    assert u.spec == f32[4]


def test_a_state_takes_a_literal_or_an_input() -> None:
    b = Builder(LIMITS)
    x, s, t = b.input("x", f32[()]), b.state("s", f32[()]), b.state("t", f32[()])
    g = b.finish(s + t, updates={"s": Literal(2.5, f32), "t": x})
    assert_same(g, {"x": np.float32(3), "s": np.float32(4), "t": np.float32(5)})


# --- conditions and loops ---------------------------------------------------------------------------------------------


def loop_graph() -> Graph:
    b = Builder(LIMITS)
    n, x = b.input("n", i32[()]), b.input("x", f32[5])
    condition = b.region("condition")
    limit, i, _ = (condition.input(name, spec) for name, spec in (("limit", i32[()]), ("i", i32[()]), ("v", f32[5])))
    condition = condition.finish(i < limit)
    body = b.region("body")
    i, v = body.input("i", i32[()]), body.input("v", f32[5])
    body = body.finish((i + 1, v * 0.5 + ops.sum(v)))
    params = {"condition_consts": 1, "body_consts": 0}
    zero = Literal(0, i32)
    outputs = b.emit("while_loop", (n, zero, x), params, regions=(condition, body))
    return b.finish((*outputs, outputs[1] * 2.0))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_while(count: int) -> None:
    arrays = {"n": np.int32(count), "x": np.arange(5, dtype=np.float32)}
    program = assert_same(loop_graph(), arrays, exact=False)
    loop = next(step for step in program.steps if isinstance(step, Loop))
    assert loop.trip_count == -1 and not loop.condition  # the body makes the next one
    assert "control" in {fate.fate for fate in program.equation_plans}
    assert "while" in str(program.report())


@pytest.mark.parametrize("flag", [False, True])
def test_cond(flag: bool) -> None:
    b = Builder(LIMITS)
    p, x = b.input("p", bool_[()]), b.input("x", f32[5])
    regions = []
    for number in range(2):
        region = b.region()
        v = region.input("v", f32[5])
        regions.append(region.finish((ops.exp(v) if number else v, v, Literal(1.0, f32))))
    g = b.finish(b.emit("cond", (p, x), regions=regions))
    program = assert_same(g, {"p": np.bool_(flag), "x": np.arange(5, dtype=np.float32)}, exact=False)
    branch = next(step for step in program.steps if isinstance(step, Branch))
    assert len(branch.blocks) == 2 and "else" in str(program.report())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_scan(length: int, reverse: bool) -> None:
    b = Builder(LIMITS)
    c, x, y = b.input("c", f32[3]), b.input("x", f32[length, 3]), b.input("y", i32[length])
    body = b.region()
    carry, row, step = (body.input(n, s) for n, s in (("carry", f32[3]), ("row", f32[3]), ("step", i32[()])))
    body = body.finish((carry * 0.5 + row, carry - row, step * 2))
    params = {"consts": 0, "carry": 1, "length": length, "reverse": reverse}
    g = b.finish(b.emit("scan", (c, x, y), params, regions=(body,)))
    rng = np.random.default_rng(0)
    arrays = {
        "c": rng.integers(-4, 4, 3).astype(np.float32),
        "x": rng.integers(-4, 4, (length, 3)).astype(np.float32),
        "y": np.arange(length, dtype=np.int32),
    }
    program = assert_same(g, arrays)
    loops = [step for step in program.steps if isinstance(step, Loop)]
    assert [loop.trip_count for loop in loops] == ([length] if length else [])


# --- primitives that bring kernels ------------------------------------------------------------------------------------


def _double(equation: Equation) -> KernelPlan:
    (x,), (y,) = equation.inputs, equation.outputs
    size = x.spec.size
    setups: list[Setup] = []
    for arguments in ((0, -1), (-1, 1)):
        k = KernelBuilder("half_of_double", workgroup=(64, 1, 1), threads=(size, 1, 1))
        source, target = k.buffer("a", f32, "read", (size,)), k.buffer("b", f32, "write", (size,))
        i = k.index("thread", 0)
        k.store(target, (i,), k.op("mul", k.load(source, (i,)), k.const(2.0, f32)))
        setups.append(Setup(k.finish(), (-(-size // 64), 1, 1), arguments))
    return KernelPlan(tuple(setups), (y.spec,))


@pytest.fixture
def quadruple() -> Any:
    register(
        Primitive(
            "test_quadruple",
            "kernel",
            "made for a test",
            lambda specs, params, regions: (specs[0],),
            lambda call, x: x * 4.0,
            Launches(_double),
            (f32,),
        )
    )
    yield
    unregister("test_quadruple")


def test_a_primitive_with_kernels_of_its_own(quadruple: None) -> None:
    b = Builder(LIMITS)
    x = b.input("x", f32[70])
    (y,) = b.emit("test_quadruple", (x + 1.0,))
    (z,) = b.emit("test_quadruple", (y,))
    program = assert_same(b.finish((z, y - 1.0)), {"x": np.arange(70, dtype=np.float32)})
    names = [program.kernels[launch.kernel].name for launch in program.launches]
    assert names.count("half_of_double") == 4 and names.count("add") == 1


# --- everything -------------------------------------------------------------------------------------------------------

PRIMITIVES = {name: cases for name, cases in by_dtype() if cases}
QUICK = [name for name in PRIMITIVES if name.endswith(("-f32", "-i32", "-bool", "-bf16", "-"))]


def bindings(case: Case, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Values with specials, but for sums, whose terms are small multiples of a quarter."""
    arrays = sample(case, rng)
    if case.primitive.kind in ("reduce", "contract", "scan"):
        modest = [rng.integers(-8, 8, spec.shape) / 4 for spec in case.specs]
        arrays = [
            np.asarray(small).astype(spec.dtype.dtype) if spec.dtype.is_float else array
            for small, spec, array in zip(modest, case.specs, arrays, strict=True)
        ]
    return {f"a{number}": array for number, array in enumerate(arrays)}


def check_cases(name: str) -> None:
    rng = np.random.default_rng(0)
    for case in PRIMITIVES[name]:
        graph, arrays = case_graph(case), bindings(case, rng)
        try:
            evaluate(graph, arrays)
        except IndexFault:
            with pytest.raises(KernelFault):
                run_program(plan(graph, INTERPRET), arrays)
            continue
        assert_same(graph, arrays, exact=case.primitive.numerics.exact)


@pytest.mark.parametrize("name", QUICK)
def test_every_primitive(name: str) -> None:
    check_cases(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRIMITIVES.keys() - set(QUICK)))
def test_every_primitive_for_other_dtypes(name: str) -> None:
    check_cases(name)


def check_random(family: Any, seed: int, target: Target = INTERPRET, numerics: Any = "fused") -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, family, equations=25)
    arrays = random_bindings(graph, rng, family)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, arrays)
    outputs, states = run_program(plan(graph, target, CompileOptions(numerics=numerics)), arrays)
    compare(outputs, expected.output, family == "exact")
    compare(states, expected.state, family == "exact")


@pytest.mark.parametrize("family", ["exact", "float"])
@pytest.mark.parametrize("block", range(5))
@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs(family: Any, block: int, request: pytest.FixtureRequest) -> None:
    """With --full 400 graphs a block, 2,000 a family; here 8."""
    count = 400 if request.config.getoption("--full") else 8
    for seed in range(count):
        check_random(family, 10_000 * block + seed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs_on_a_small_target(seed: int) -> None:
    """Few buffers, small grids and little shared memory."""
    small = INTERPRET.replace_limits(buffers=12, grid=64, workgroup_storage=2048)
    check_random("exact", 500 + seed, small, "strict")


def test_copies_are_of_whole_slots_of_one_size() -> None:
    b = Builder(LIMITS)
    x = b.input("x", f32[2, 3])
    program = assert_same(b.finish((ops.reshape(x, (6,)), x)), {"x": np.ones((2, 3), np.float32)})
    copies = [step for step in program.steps if isinstance(step, Copy)]
    slots = program.storage.slots
    assert len(copies) == 2 and all(slots[copy.source].nbytes == slots[copy.target].nbytes for copy in copies)


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_plans_name_launches_that_are_there(target: str) -> None:
    """Also where a loop becomes one launch, or its turns copies alone."""

    def step(a: Any, b: Any, c: Any) -> Any:
        circle = ops.fori_loop(0, 3, lambda i, each: (each[1], each[2], each[0]), (a, b, c))
        rounds = ops.fori_loop(0, 5, lambda i, x: ops.nn.softmax(x @ x), a)
        return ops.nn.softmax(circle[0] @ rounds) @ b

    made = poot.trace(step).program(*(f32[8, 8],) * 3, device=target)
    assert max(plan.launch for plan in made.equation_plans) == len(made.launches) - 1
    for equation, each in zip(made.graph.equations, made.equation_plans, strict=True):
        assert each.launch < 0 or each.fate in ("kernel", "view", "control"), equation
