"""Bad uses of engines, weights, devices, targets and saved files: each is told with the user's line and a remedy."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import poot
from poot import StepInputs, StoredView, WeightMap, WeightStore, errors, f32, ops
from poot.errors import (
    AllocationError,
    ArgumentError,
    BuilderError,
    DeviceError,
    DeviceMismatchError,
    DeviceUnavailableError,
    EngineError,
    EvaluateError,
    FeatureError,
    GraphSyntaxError,
    LaunchError,
    PlacementError,
    PootError,
    SerialisationError,
    StateLost,
    TargetError,
    Unsupported,
    WeightError,
    WeightFileError,
    WeightsError,
)
from poot.plan.serial import load_program
from poot.trace.parse import parse_graph
from poot.trace.serial import load_graph

ROOT = Path(__file__).parents[2]
ONE = np.ones(4, np.float32)
CPU = poot.device("cpu")
X: Any = poot.asarray(ONE, device="cpu")


@poot.trace
def work(x: Any, w: Any, s: Any) -> Any:
    return x * w, s + x


@poot.kernel
def copied(a: poot.In[f32], c: poot.Out[f32]) -> None:
    i = poot.thread_index()
    if i < len(c):
        c[i] = a[i]


@poot.kernel(workgroup=64)
def roomy(a: poot.In[f32], c: poot.Out[f32]) -> None:
    few = poot.shared(f32, 4)
    many = poot.shared(f32, (1024, 1024))
    i = poot.local_index()
    many[i, 0] = a[i]
    few[0] = 1.0
    poot.barrier()
    c[i] = many[i, 0] + few[0]


@poot.kernel(workgroup=64)
def wide(a: poot.In[f32], c: poot.Out[f32]) -> None:
    flags = poot.shared(poot.u8, 8192)  # a word each in WGSL
    i = poot.local_index()
    flags[i] = poot.u8(1)
    poot.barrier()
    c[i] = a[i] + f32(flags[63 - i])


class Scene:
    """An engine with an exe and an entry, and what the bad uses need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = poot.Engine(poot.device("cpu"))
        specs = (f32[4],) * 3
        self.program = work.program(*specs, constants=("w",), states={"s": 1}, device="cpu")
        self.store = WeightStore.from_arrays({"w": ONE})
        self.exe = self.engine.load_weights(self.store)
        self.entry = self.engine.add_entry(self.exe, self.program)

    def step(self, **inputs: Any) -> Any:
        pushed = StepInputs()
        for name, array in inputs.items():
            pushed.push(name, array)
        return self.engine.step(self.exe, self.entry, pushed)

    def removed(self) -> Scene:
        self.engine.remove_entry(self.entry)
        return self

    def unloaded(self) -> Scene:
        self.engine.unload(self.exe)
        return self

    def lost(self) -> Scene:
        self.exe.lost["s"] = "step 3"
        return self

    def load(self, wanted: WeightMap | None = None, **arrays: Any) -> Any:
        return self.engine.load_weights(WeightStore.from_arrays(arrays), wanted, self.program)

    def read(self, name: str = "m.safetensors", data: bytes = b"") -> Any:
        (self.folder / name).write_bytes(data)
        return WeightStore.from_safetensors(self.folder / name)

    def read_header(self, header: bytes, data: bytes = bytes(4)) -> Any:
        return self.read(data=struct.pack("<Q", len(header)) + header + data)


def stale(scene: Scene) -> Any:
    first = scene.step(x=ONE)
    scene.step(x=ONE)
    return first.read()


def after_removal(scene: Scene) -> Any:
    result = scene.step(x=ONE)
    scene.removed()
    return result.read()


def elsewhere() -> Any:
    return poot.asarray(ONE, device="interpret")


def builder() -> poot.Builder:
    return poot.Builder(poot.TraceLimits.STANDARD)


def finished() -> poot.Builder:
    made = builder()
    made.finish(made.input("x", f32[4]))
    return made


def named_twice() -> None:
    made = builder()
    made.input("x", f32[2])
    made.constant("x", f32[2])


def staged(targets: tuple[int, ...], stages: tuple[int, ...]) -> Any:
    target = poot.Target.parse("cpu")
    placement = poot.DevicePlacement(tuple(map(poot.DeviceId, stages)))
    partition = poot.Partition(experts=poot.ExpertPlacement.ALL_RESIDENT, devices=placement)
    return poot.compile_staged(GRAPH, poot.TargetSet(tuple((poot.DeviceId(n), target) for n in targets)), partition)


def use_donated() -> Any:
    given = poot.asarray(ONE)
    poot.trace(lambda x: x + 1, donate="x")(given)
    return given + 1


GRAPH = poot.trace(lambda x: x * 2).graph(f32[4])
INPUT = GRAPH.inputs[0].value.id
WIDE = np.broadcast_to(np.float32(1), 1 << 50)
FOREIGN = builder().input("x", f32[4])
ENTRY = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
USES: dict[str, tuple[type[PootError], str, Callable[[Scene], Any]]] = {
    # engines
    "input missing": (EvaluateError, "input 'x': was not pushed", lambda s: s.step()),
    "input unknown": (EvaluateError, "input 'y': the program has no such input; it has x", lambda s: s.step(y=ONE)),
    "input twice": (EvaluateError, "input 'x': pushed twice", lambda s: StepInputs().push("x", ONE).push("x", ONE)),
    "input elsewhere": (DeviceMismatchError, "input 'x' on interpret, the eng", lambda s: s.step(x=elsewhere())),
    "state elsewhere": (
        DeviceMismatchError, "state 's' on inter", lambda s: s.exe.state.__setitem__("s", elsewhere())
    ),
    "state of a list": (EngineError, r"there is no state \[1\]", lambda s: s.exe.state[cast("Any", [1])]),
    "array past the memory": (AllocationError, "4503599627370496 bytes on the host", lambda s: poot.asarray(WIDE)),
    "input past the memory": (
        AllocationError, "allocate 4503599627370496 bytes on the host",
        lambda s: poot.trace(lambda x: x.sum())(WIDE),
    ),
    "state unknown": (EngineError, "there is no state 'z'; this exe has s", lambda s: s.exe.state["z"]),
    "state lost": (StateLost, "state 's' is undefined: step 3 failed", lambda s: s.lost().exe.state["s"]),
    "state lost, step": (StateLost, "state 's' is undefined: step 3", lambda s: s.lost().step(x=ONE)),
    "result overwritten": (EngineError, "the result of step 1 was overwritten by step 2", stale),
    "result of nothing": (EngineError, "the entry of this result was removed", after_removal),
    "entry removed": (EngineError, "this entry was removed", lambda s: s.removed().step(x=ONE)),
    "entry removed twice": (EngineError, "this entry was removed", lambda s: s.removed().removed()),
    "exe unloaded": (EngineError, "this exe was unloaded", lambda s: s.unloaded().step(x=ONE)),
    "exe unloaded, state": (EngineError, "this exe was unloaded", lambda s: s.unloaded().exe.state.reset()),
    "exe unloaded twice": (EngineError, "this exe was unloaded", lambda s: s.unloaded().unloaded()),
    "exe of another": (EngineError, "the exe belongs to another", lambda s: poot.Engine(CPU).unload(s.exe)),
    "entry of another": (
        EngineError, "the entry belongs to another exe", lambda s: s.engine.step(s.load(w=ONE), s.entry, StepInputs())
    ),
    "target of another": (
        EngineError, "the program was compiled for interpret",
        lambda s: s.engine.add_entry(s.exe, work.program(*(f32[4],) * 3, device="interpret")),
    ),
    "state declared otherwise": (
        EngineError, "state 's' is f32.2. in this program, but f32.4. in the exe",
        lambda s: s.engine.add_entry(
            s.exe, poot.trace(lambda x, s: (x, s + x)).program(f32[2], f32[2], states={"s": 1}, device="cpu")
        ),
    ),
    "engine pickled": (EngineError, "an engine holds device memory", lambda s: pickle.dumps(s.engine)),
    "engine copied": (EngineError, "an engine holds device memory", lambda s: copy.copy(s.engine)),
    "device pickled": (DeviceError, "a device cannot be pickled", lambda s: pickle.dumps(poot.device("cpu"))),
    # weights
    "weights missing": (WeightsError, r"missing from the store \(1\)", lambda s: s.load(v=ONE)),
    "weights unwanted": (WeightsError, r"wanted by nothing \(1\)", lambda s: s.load(w=ONE, v=ONE)),
    "weights of another dtype": (WeightsError, r"of another dtype \(1\)", lambda s: s.load(w=np.ones(4))),
    "weights of another shape": (WeightsError, r"of another shape \(1\)", lambda s: s.load(w=ONE[:2])),
    "weights badly viewed": (
        WeightsError, r"with a view that does not fit \(1\)",
        lambda s: s.load(WeightMap({"w": StoredView("w", (9,))}), w=ONE),
    ),
    "weights missing from the exe": (
        WeightsError, r"missing from the exe \(1\)",
        lambda s: s.engine.add_entry(s.engine.load_weights(WeightStore.from_arrays({"v": ONE})), s.program),
    ),
    "weight unknown": (WeightError, "the store has no such array; it has w", lambda s: s.store.spec("v")),
    "weight out of range": (WeightError, "index 9 is out of bounds", lambda s: StoredView("w", (9,)).of(s.store)),
    "weight of another width": (
        WeightError, "as f64", lambda s: StoredView("w", (), poot.f64).of(WeightStore.from_arrays({"w": ONE[:1]}))
    ),
    # files
    "file absent": (WeightFileError, "cannot be read", lambda s: WeightStore.from_safetensors(s.folder / "no")),
    "file of no name": (WeightFileError, "is no name of a file", lambda s: WeightStore.from_safetensors("\0")),
    "file not regular": (WeightFileError, "is no regular file", lambda s: WeightStore.from_safetensors("/dev/null")),
    "folder of none": (WeightFileError, "holds no .safetensors", lambda s: WeightStore.from_safetensors(s.folder)),
    "file empty": (WeightFileError, "has 0 bytes, and is truncated", lambda s: s.read()),
    "file of another format": (WeightFileError, "this is another format", lambda s: s.read(data=b"\xff" * 20)),
    "file cut short": (WeightFileError, "is truncated", lambda s: s.read(data=struct.pack("<Q", 80) + ENTRY)),
    "file cut shorter": (WeightFileError, "is truncated: its tensors", lambda s: s.read_header(ENTRY, b"")),
    "file too long": (WeightFileError, "has 4 bytes after its last", lambda s: s.read_header(ENTRY, bytes(8))),
    "file damaged": (WeightFileError, "the header is damaged", lambda s: s.read_header(b"{")),
    "file of lists": (WeightFileError, "is no JSON object", lambda s: s.read_header(b"[]")),
    "file of odd entries": (WeightFileError, "tensor 'w': its entry", lambda s: s.read_header(b'{"w":3}')),
    "index empty": (WeightFileError, "the index has no", lambda s: s.read("m.safetensors.index.json", b"{}")),
    "index of nowhere": (
        WeightFileError, "is no file beside it",
        lambda s: s.read("m.safetensors.index.json", b'{"weight_map":{"w":"../m"}}'),
    ),
    # graphs and programs
    "binding unknown": (EvaluateError, "has no such constant", lambda s: poot.evaluate(GRAPH, {"y": ONE})),
    "binding missing": (EvaluateError, "nothing is bound to 'x'", lambda s: poot.evaluate(GRAPH, {})),
    "binding twice": (EvaluateError, "is bound twice", lambda s: poot.evaluate(GRAPH, {"x": ONE, INPUT: ONE})),
    "program damaged": (SerialisationError, "it is not a saved", lambda s: load_program(b"x")),
    "graph damaged": (SerialisationError, "it is not a saved graph", lambda s: load_graph(b"x")),
    "graph text": (GraphSyntaxError, "line 1", lambda s: parse_graph("nothing")),
    "target saved": (SerialisationError, "it is not a saved target", lambda s: poot.Target.from_json("x")),
    "source of another": (Unsupported, "source in 'ptx'", lambda s: s.program.source("ptx")),
    "staged for two": (PlacementError, "a set of 2 targets is not", lambda s: staged((0, 1), (0,))),
    "placed on two": (PlacementError, "a placement over 2 devices", lambda s: staged((0,), (0, 1))),
    "placed elsewhere": (PlacementError, "device 1 has no target", lambda s: staged((0,), (1,))),
    "builder finished": (BuilderError, "has already finished", lambda s: finished().input("y", f32[2])),
    "name twice": (BuilderError, "is already used by", lambda s: named_twice()),
    "handle of another": (BuilderError, "belongs to another builder", lambda s: builder().finish(FOREIGN)),
    # devices, targets, names
    "device unknown": (DeviceUnavailableError, "there is no such backend", lambda s: poot.device("gpu")),
    "device unknown, trace": (
        DeviceUnavailableError, "there is no such backend", lambda s: poot.trace(lambda x: x, device="gpu")
    ),
    "device not there": (DeviceUnavailableError, "there is one cpu device", lambda s: poot.device("cpu:7")),
    "program of what is not here": (
        DeviceUnavailableError, "device cuda:999999 is not available",
        lambda s: poot.trace(lambda x: x * 2).program(f32[4], device="cuda:999999"),
    ),
    "device past all": (DeviceUnavailableError, "so many", lambda s: poot.device("cpu:" + "9" * 40)),
    "language": (ArgumentError, "'foo' is not valid", lambda s: poot.device("cuda", language="foo")),  # type: ignore[arg-type]
    "target unknown": (TargetError, "unknown target 'tpu': known are", lambda s: poot.Target.parse("tpu")),
    "target of no architecture": (TargetError, "unknown target 'cuda:sm_1'", lambda s: poot.Target.parse("cuda:sm_1")),
    "operation unknown": (FeatureError, "no operation ops.softmax yet", lambda s: ops.softmax(X)),
    "operation refused": (FeatureError, "no operation nonzero yet", lambda s: ops.nonzero(X)),
    "transformation": (FeatureError, "no `grad` yet", lambda s: poot.grad(lambda x: x)),
    "transformation of a function": (FeatureError, "no `vmap` yet", lambda s: work.vmap),
    "donated": (EngineError, "was donated to", lambda s: use_donated()),
    "launch": (LaunchError, "no value is given for `c`", lambda s: copied(ONE, threads=4)),
    "launch elsewhere": (DeviceMismatchError, "different devices", lambda s: copied(X, elsewhere(), threads=4)),
}  # fmt: skip


def raised(path: Path) -> Iterator[tuple[int, type[PootError], set[str | None]]]:
    """Every error of poot's that a module makes: the line, the class, and the words that it is made with."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kind = getattr(errors, name, None)
            if isinstance(kind, type) and issubclass(kind, PootError):
                yield node.lineno, kind, {word.arg for word in node.keywords}


def test_every_error_of_the_upper_layers_has_a_line_and_a_remedy() -> None:
    """Of the layers that users call; what is expected of a value is a remedy, too."""
    for path in (path for folder in ("api", "backends", "plan") for path in (ROOT / "poot" / folder).rglob("*.py")):
        for line, kind, words in raised(path):
            assert kind.about_a_call or "where" in words, f"{path}:{line}: no line"
            told = kind.default_remedy or "remedy" in words or "{expected}" in kind.template
            assert told, f"{path}:{line}: no remedy"


@pytest.mark.parametrize("use", USES)
def test_bad_uses_are_told_with_line_and_remedy(use: str, tmp_path: Path) -> None:
    kind, message, call = USES[use]
    scene = Scene(tmp_path)
    with pytest.raises(kind, match=message) as caught:
        call(scene)
    error = caught.value
    assert type(error) is kind or issubclass(kind, (BuilderError, WeightError))
    assert error.where is not None and error.where.file == __file__, error
    # What says what it expected needs no more.
    assert error.remedy.endswith((".", "?")) or isinstance(error, ArgumentError), error
    assert str(error).count("Remedy: ") == (1 if error.remedy else 0)
    assert len({line for line in str(error).split("\n") if line.startswith("  at ")}) == 1


def test_shared_arrays_that_are_too_large_are_shown_where_they_are_made() -> None:
    ones = np.ones(64, np.float32)
    for call in (lambda: roomy(ones, ones.copy(), groups=1), lambda: roomy.source("wgsl"), lambda: wide.source("wgsl")):
        with pytest.raises(Unsupported, match="bytes of shared memory is not supported") as caught:
            call()
        assert caught.value.where is not None
        assert re.search("many = |flags = ", caught.value.where.text)


def test_what_is_not_here_can_be_planned_for() -> None:
    with pytest.raises(DeviceUnavailableError) as caught:
        poot.trace(lambda x: x * 2).program(f32[4], device="cuda:999999")
    assert 'poot.compile(f.graph(…), poot.Target.parse("cuda:sm_90"))' in caught.value.remedy
    assert poot.compile(poot.trace(lambda x: x * 2).graph(f32[4]), poot.Target.parse("cuda:sm_90")).kernels


def test_a_compiled_kernel_is_shown_in_one_line() -> None:
    assert repr(copied.compile("wgpu")) == "<compiled kernel copied: wgsl for wgpu, work-groups of 256x1x1>"
