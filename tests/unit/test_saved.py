"""Saved programs and their parts, changed in structure: what is loaded is whole; what is unknown is refused by name."""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import Target, f32, i32, ops
from poot.backends.executor import Engine
from poot.errors import AllocationError, PootError, SerialisationError
from poot.kernel.ir import Const, For, While, walk
from poot.kernel.pipeline import prepare
from poot.kernel.render.llvm_lanes import render
from poot.plan.program import Loop, Program, Step
from poot.plan.serial import VERSION, dump_program, load_program
from poot.saved import DEPTH, Damage, read_json
from tests.plan_support import run_program

TRACE: Any = poot.trace
INTERPRET = Target.parse("interpret")
#: How often each program is changed, always in the same ways.
ROUNDS = 60

Place = tuple[str | int, ...]
Pairs = dict[str, Any]


@poot.kernel(workgroup=32)
def shifted(x: poot.In[f32], y: poot.Out[f32]) -> None:
    i = poot.thread_index()
    if i < x.shape[0]:
        y[i] = x[i] + 1.0


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (lambda x: ops.nn.softmax(x * 2.0), (f32[4, 9],)),
    "loops": (lambda x: ops.while_loop(lambda c: ops.sum(c) < 9.0, lambda c: ops.sort(c) + 1.0, x), (f32[6],)),
    "choice": (lambda p, x: ops.cond(p[0] > 0, lambda y: ops.sort(y), lambda y: y * 2.0, x), (i32[1], f32[7])),
    "indices": (lambda x, i: (x[i], x.at[i].add(1.0)), (f32[7], i32[3])),
    "kernel": (lambda x: shifted(x * 2.0, f32[40], threads=40), (f32[40],)),
}


@functools.cache
def saved(name: str) -> bytes:
    function, specs = FUNCTIONS[name]
    return dump_program(poot.compile(TRACE(function).graph(*specs), INTERPRET))


def opened(data: bytes) -> dict[str, Any]:
    """A saved program with everything in it that is text of JSON opened."""
    container = json.loads(data)
    body = container["program"] = json.loads(container["program"])
    body["target"] = json.loads(body["target"])
    body["graph"], body["planned"] = json.loads(body["graph"]), json.loads(body["planned"])
    return container


def text_of(value: Any) -> str:
    """JSON in which a key that begins with a NUL is written without it, so that it may stand there twice."""
    return json.dumps(value).replace('"\\u0000', '"')


def closed(container: Any) -> bytes:
    """The bytes of an opened program, every digest right."""
    if isinstance(container, dict) and isinstance(body := container.get("program"), dict):
        for name in ("graph", "planned"):
            if isinstance(graph := body.get(name), dict):
                if isinstance(graph.get("graph"), str):
                    graph["sha256"] = hashlib.sha256(graph["graph"].encode()).hexdigest()
                body[name] = text_of(graph)
        if isinstance(body.get("target"), dict):
            body["target"] = text_of(body["target"])
        text = container["program"] = text_of(body)
        container["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text_of(container).encode()


# --- random changes ---------------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 1 << 31, 1 << 61, 1 << 63, 1 << 70, -(1 << 70), 10**4000, 0.5, 3.0),
    *(float("nan"), float("inf"), "", "x", "\ud800", "a\0b", [], [[]], {}, {"x": 1}, {"dtype": "f99"}),
    *({"float": "0000000000000000"}, {"Const": [1, {"dtype": "i32"}]}, {"Copy": [0, 1]}, {"Launch": []}),
)


def places(value: Any, here: Place, found: list[Place]) -> list[Place]:
    found.append(here)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        places(item, (*here, key), found)
    return found


def at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def change(container: Any, rng: random.Random) -> None:
    """One change of structure: a key or item gone, added, twice, of another type, or nested deeply."""
    every = [place for place in places(container, (), []) if place]
    top = [place for place in every if len(place) <= 3]
    place = rng.choice(top if rng.random() < 0.2 else every)
    holder, key = at(container, place[:-1]), place[-1]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("extra", "where", "version", "Var", ""))] = rng.choice(VALUES)
        case 2 if isinstance(holder, dict):
            holder["\0" + str(key)] = rng.choice((holder[key], 1))
        case 3:
            deep: Any = holder[key]
            for _ in range(rng.choice((1, 3, 60, 250))):
                deep = rng.choice(([deep], {"Op": ["neg", [deep], {"dtype": "i32"}]}))
            holder[key] = deep
        case 4 if isinstance(holder, list):
            holder.insert(int(key), rng.choice(VALUES))
        case 5:
            holder[key] = json.loads(json.dumps(at(container, rng.choice(every))))
        case _:
            holder[key] = rng.choice(VALUES)


def may_take_long(steps: tuple[Step, ...], kernels: tuple[Any, ...]) -> bool:
    """Whether a changed program counts far, or goes round for as long as a changed condition says."""
    nodes = [node for kernel in kernels for node in walk(kernel.body)]
    far = any(isinstance(node, Const) and abs(float(node.value)) > 1e5 for node in nodes)
    return far or any(isinstance(node, (For, While)) for node in nodes) or any(isinstance(each, Loop) for each in steps)


def use(loaded: Program, original: Program) -> None:
    """What a loaded program is for; the errors that it may raise are poot's own."""
    assert load_program(dump_program(loaded)) == loaded
    loaded.report()
    unchanged = (loaded.steps, loaded.kernels) == (original.steps, original.kernels)
    graph = loaded.graph
    arrays = {v.name: np.ones(v.spec.shape, v.spec.dtype.dtype) for v in graph.variables if v.spec.size < 1000}
    aligned = all(slot.offset % 64 == 0 for slot in loaded.storage.slots if slot.role == "scratch")
    small = sum(slot.nbytes for slot in loaded.storage.slots) + loaded.storage.arena_bytes < 1 << 24
    if len(arrays) < len(graph.variables) or not (aligned and small):
        return
    try:
        for kernel in loaded.kernels:
            render(prepare(kernel, loaded.target), contract=False)
        if loaded.target == original.target and (unchanged or not may_take_long(loaded.steps, loaded.kernels)):
            with np.errstate(all="ignore"):
                run_program(loaded, arrays)
    except PootError:
        pass


@pytest.mark.parametrize("name", FUNCTIONS)
def test_changed_programs_are_whole_or_refused(name: str) -> None:
    original = load_program(saved(name))
    refused = 0
    for number in range(ROUNDS):
        container, rng = opened(saved(name)), random.Random(number)
        change(container, rng)
        try:
            loaded = load_program(closed(container))
        except SerialisationError:
            refused += 1
        else:
            use(loaded, original)
    assert refused > ROUNDS // 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unsigned_changes_are_found(name: str) -> None:
    data, original = saved(name), load_program(saved(name))
    for number in range(ROUNDS):
        rng = random.Random(number)
        place = rng.randrange(len(data))
        changed = data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + rng.choice((1, 1, 2)) :]
        try:
            assert load_program(changed) == original
        except SerialisationError:
            pass


# --- what is unknown is refused by name -------------------------------------------------------------------------------


def refusal(name: str, edit: Callable[[dict[str, Any]], object]) -> str:
    container = opened(saved(name))
    edit(container)
    with pytest.raises(SerialisationError) as caught:
        load_program(closed(container))
    return str(caught.value).partition("\n")[0]


@pytest.mark.parametrize(
    "version", [float(VERSION), 1.0, True, str(VERSION), None, VERSION - 1, VERSION + 1, [VERSION], 10**30]
)
def test_a_version_is_the_integer_that_is_known(version: Any) -> None:
    for part, known in (("program", VERSION), ("graph", 1), ("target", 1)):

        def edit(container: dict[str, Any], part: str = part) -> None:
            (container if part == "program" else container["program"][part])["version"] = version

        if version == known and type(version) is int:
            continue
        what = part if part == "program" else f"program's {part}"
        expected = f"{what}: it has version {version!r}, and this poot reads version {known}"
        assert refusal("rows", edit) == expected


def test_keys_that_are_unknown() -> None:
    def unknown(what: str) -> str:
        return f"{what}: it has the key 'more', which this poot does not know"

    assert refusal("rows", lambda c: c.update(more=1)) == unknown("program")
    assert refusal("rows", lambda c: c["program"].update(more=1)) == unknown("program")
    assert refusal("rows", lambda c: c["program"]["target"].update(more=1)) == unknown("program's target")
    assert refusal("rows", lambda c: c["program"]["graph"].update(more=1)) == unknown("program's graph")
    assert refusal("rows", lambda c: c["program"]["steps"].insert(1, {"more": 1})) == (
        "program: it is damaged: steps[1]: it has the key 'more', which this poot does not know"
    )
    assert refusal("rows", lambda c: c["program"]["steps"][0].update(more=1)) == (
        "program: it is damaged: steps[0]: it has the keys ['Launch', 'more'], expected one"
    )


def test_keys_that_are_missing_or_there_twice() -> None:
    assert refusal("rows", lambda c: c["program"].pop("storage")) == "program: it has no storage"
    assert refusal("rows", lambda c: c["program"]["target"].pop("limits")) == "program's target: it has no limits"
    assert refusal("rows", lambda c: c["program"].update({"\0storage": 1})) == (
        "program: it is damaged: the key 'storage' stands there twice"
    )


def put(value: Any, *place: str | int) -> Callable[[dict[str, Any]], None]:
    def edit(container: dict[str, Any]) -> None:
        at(container["program"], place[:-1])[place[-1]] = value

    return edit


LAUNCH: Place = ("steps", 0, "Launch")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put(1.5, *LAUNCH, 2, 1), "steps[0].groups[1]: a float in decimal digits, expected its bits"),
        (put(True, *LAUNCH, 2, 1), "steps[0].groups[1]: it is True, expected int"),
        (put([1, 1], *LAUNCH, 2), "steps[0].groups: it is (1, 1), expected tuple[int, int, int]"),
        (put(7, *LAUNCH, 1, 1), "steps[0].bindings[1]: it is 7, expected Binding"),
        (put("1", *LAUNCH, 1, 0, "Binding", 1), "steps[0].bindings[0].offset: it is '1', expected int"),
        (put([], *LAUNCH), "steps[0]: [] are no fields of Launch, which has "),
        (put("fast", "numerics"), "numerics: it is 'fast', expected Literal['exact', 'unfused', 'reassociating', "),
        (put(1, "contract"), "contract: it is 1, expected bool"),
        (put(["a"], "updates"), "updates[0]: it is 'a', expected tuple[str, int]"),
        (put({"dtype": "f99"}, "outputs"), "outputs: 'f99' is no dtype that this poot knows"),
        (put({"float": "00"}, "outputs"), "outputs: '00' are no 8 bytes of a float"),
        (put(-1, "target", "limits", "grid"), "limits.grid: it is -1, expected an integer, 0 or more"),
        (put("f99", "target", "dtypes", 0), "dtypes[0]: 'f99' is no name that this poot knows"),
        (put({}, "target", "limits"), "limits: it has no workgroup_invocations"),
        (put(None, "target", "arch"), "arch: it is None, expected a text"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(edit: Callable[[dict[str, Any]], object], message: str) -> None:
    assert message in refusal("rows", edit)


def test_what_json_does_not_have() -> None:
    for text, message in (
        ('{"a": 1, "a": 2}', "the key 'a' stands there twice"),
        ("[NaN]", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("[" * (DEPTH + 1) + "]" * (DEPTH + 1), "it is nested too deeply"),
        ("[" * 100_000, "it is nested too deeply"),
    ):
        with pytest.raises(Damage) as caught:
            read_json(text)
        assert str(caught.value) == message
    assert read_json("[" * DEPTH + "]" * DEPTH)


# --- what is loaded can be run ----------------------------------------------------------------------------------------


def test_kernels_nested_as_deeply_as_may_be_run_below_many_calls() -> None:
    def deepen(container: dict[str, Any]) -> None:
        (kernel,) = container["program"]["kernels"]
        for place in places(kernel, (), []):
            if place and place[-1] == "Store":
                value = at(kernel, place)[2]
                for _ in range(56):
                    value = {"Op": ["neg", [value], {"dtype": "f32"}]}
                at(kernel, place)[2] = value

    container = opened(dump_program(poot.compile(TRACE(lambda x: x * 2.0).graph(f32[7]), INTERPRET)))
    deepen(container)
    loaded = load_program(closed(container))
    x = np.arange(7, dtype=np.float32)

    def below(calls: int) -> Any:
        return below(calls - 1) if calls else run_program(loaded, {"x": x})[0]

    np.testing.assert_array_equal(below(300), x * 2.0)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_memory_that_no_machine_has_is_refused_by_type(device: str) -> None:
    engine = Engine(poot.device(device))
    program = poot.compile(
        TRACE(lambda x: ops.nn.softmax(ops.nn.softmax(x, 0), 1)).graph(f32[9, 9]), engine.device.target
    )
    container = opened(dump_program(program))
    container["program"]["storage"]["Storage"][1] = 1 << 61
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    with pytest.raises(AllocationError):
        engine.add_entry(exe, load_program(closed(container)))
