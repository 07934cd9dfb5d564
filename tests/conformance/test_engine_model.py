"""Random lives of an engine, against a model of it in NumPy: in whatever order things are done, values are its.

Two exes, entries of five programs that share states, results that are read late, values that are refused, faults and
failures of the device in the middle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore, f32, i32
from poot.api.devices import Device
from poot.errors import DTypeError, EngineError, EvaluateError, IndexFault, ShapeError, StateLost
from tests.faulty_device import Failure, FaultyDevice, InjectedError

N = 8
Values = np.ndarray[Any, Any]
States = dict[str, Values]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A program and its meaning: (weight, index, states) to the output and the new states; IndexError for a fault."""

    build: Callable[[Builder], poot.Graph]
    mean: Callable[[Values, Values, Values, States], tuple[Values, States]]
    states: tuple[str, ...]
    donate: tuple[str, ...] = ()


def _sum(b: Builder) -> poot.Graph:
    total = b.state("total", f32[N]) + b.constant("w", f32[N]) * b.input("x", f32[N])
    return b.finish(total, updates={"total": total})


def _row(b: Builder) -> poot.Graph:
    count = b.state("count", f32[N]) + 1.0
    row = (b.constant("w", f32[N]) + count)[b.input("i", i32[2])]
    return b.finish(row, updates={"count": count})


def _exchange(b: Builder) -> poot.Graph:
    total, count = b.state("total", f32[N]), b.state("count", f32[N])
    return b.finish(total - count, updates={"total": count, "count": total})


def _keep(b: Builder) -> poot.Graph:
    x, last = b.input("x", f32[N]), b.state("last", f32[N])
    return b.finish(last * 2.0, updates={"last": x})


def _grow(b: Builder) -> poot.Graph:
    row, last = b.state("count", f32[N])[b.input("i", i32[2])], b.state("last", f32[N])
    return b.finish(row, updates={"last": last + 1.0})


def _at(values: Values, index: Values) -> Values:
    if (index >= N).any() or (index < -N).any():
        raise IndexError
    return values[index]


KINDS = {
    "sum": Kind(_sum, lambda w, x, i, s: (s["total"] + w * x, {"total": s["total"] + w * x}), ("total",)),
    "row": Kind(_row, lambda w, x, i, s: (_at(w + s["count"] + 1, i), {"count": s["count"] + 1}), ("count",)),
    "exchange": Kind(
        _exchange,
        lambda w, x, i, s: (s["total"] - s["count"], {"total": s["count"], "count": s["total"]}),
        ("total", "count"),
    ),
    "keep": Kind(_keep, lambda w, x, i, s: (s["last"] * 2, {"last": x}), ("last",)),
    "grow": Kind(_grow, lambda w, x, i, s: (_at(s["count"], i), {"last": s["last"] + 1}), ("count", "last"), ("last",)),
}


@functools.cache
def program(kind: str, name: str) -> poot.Program:
    limits = poot.CompileOptions(donate=frozenset(KINDS[kind].donate))
    return poot.compile(KINDS[kind].build(Builder(TraceLimits.STANDARD)), poot.device(name).target, limits)


@dataclasses.dataclass
class Held:
    """An exe and what the model says of it."""

    exe: Any
    weight: Values
    states: States = dataclasses.field(default_factory=dict[str, Values])
    lost: set[str] = dataclasses.field(default_factory=set[str])
    entries: list[Any] = dataclasses.field(default_factory=list[Any])


@dataclasses.dataclass
class Bound:
    """An entry, its kind and the result that can still be read of it, with what it must be."""

    entry: Any
    kind: str
    result: Any = None
    wanted: Values | None = None
    old: list[Any] = dataclasses.field(default_factory=list[Any])

    def begin(self) -> None:
        """A step ends what the one before it gave, even if it fails."""
        self.old = [*self.old[-2:], *([] if self.result is None else [self.result])]
        self.result = self.wanted = None


small = st.integers(-4, 4)
vectors = st.lists(small, min_size=N, max_size=N).map(lambda found: np.array(found, np.float32))
places = st.integers(-N, N - 1)
indices = st.tuples(places | st.sampled_from((N, -N - 1)), places).map(lambda found: np.array(found, np.int32))
number = st.integers(0, 7)


class Lives(RuleBasedStateMachine):
    device: Device

    @initialize()
    def begin(self) -> None:
        self.faulty = FaultyDevice(self.device)
        self.engine = Engine(self.faulty)
        self.exes: list[Held] = []
        self.gone: list[tuple[Any, Any]] = []
        self.load(np.arange(N, dtype=np.float32))
        for kind in KINDS:
            self.add(0, kind)

    def held(self, number: int) -> Held:
        return self.exes[number % len(self.exes)]

    @property
    def has_exe(self) -> bool:
        return bool(self.exes)

    @property
    def has_entry(self) -> bool:
        return any(held.entries for held in self.exes)

    def bound(self, number: int) -> tuple[Held, Bound]:
        every = [(held, bound) for held in self.exes for bound in held.entries]
        return every[number % len(every)]

    @precondition(lambda self: len(self.exes) < 2)
    @rule(weight=vectors)
    def load(self, weight: Values) -> None:
        self.exes.append(Held(self.engine.load_weights(WeightStore.from_arrays({"w": weight})), weight))

    @precondition(lambda self: self.has_exe)
    @rule(number=number, kind=st.sampled_from(sorted(KINDS)))
    def add(self, number: int, kind: str) -> None:
        held = self.held(number)
        if len(held.entries) < 2 * len(KINDS):
            held.entries.append(Bound(self.engine.add_entry(held.exe, program(kind, self.device.name)), kind))
            for name in KINDS[kind].states:
                held.states.setdefault(name, np.zeros(N, np.float32))

    @precondition(lambda self: self.has_entry)
    @rule(number=number)
    def remove(self, number: int) -> None:
        held, bound = self.bound(number)
        self.engine.remove_entry(bound.entry)
        held.entries.remove(bound)
        self.gone.append((held.exe, bound.entry))

    @precondition(lambda self: self.has_exe)
    @rule(number=number)
    def unload(self, number: int) -> None:
        held = self.held(number)
        self.engine.unload(held.exe)
        self.exes.remove(held)
        self.gone += [(held.exe, bound.entry) for bound in held.entries]

    @precondition(lambda self: self.gone)
    @rule(number=number)
    def use_what_is_gone(self, number: int) -> None:
        exe, entry = self.gone[number % len(self.gone)]
        with pytest.raises(EngineError):
            self.engine.step(exe, entry, StepInputs())
        with pytest.raises(EngineError):
            self.engine.remove_entry(entry)

    def inputs(self, kind: str, x: Values, i: Values, ours: bool) -> StepInputs:
        given = {"x": x, "i": i}
        pushed = StepInputs()
        for variable in program(kind, self.device.name).graph.inputs:
            array = given[variable.name]
            pushed.push(variable.name, poot.asarray(array, device=self.device) if ours else array)
        return pushed

    @precondition(lambda self: self.has_entry)
    @rule(number=number, x=vectors, i=indices, ours=st.booleans())
    def step(self, number: int, x: Values, i: Values, ours: bool) -> None:
        held, bound = self.bound(number)
        kind = KINDS[bound.kind]
        inputs = self.inputs(bound.kind, x, i, ours)
        if held.lost & set(kind.states):
            with pytest.raises(StateLost):
                self.engine.step(held.exe, bound.entry, inputs)
            return
        bound.begin()
        try:
            wanted, states = kind.mean(held.weight, x, i, held.states)
        except IndexError:
            with pytest.raises(IndexFault):
                self.engine.step(held.exe, bound.entry, inputs)
            held.lost |= set(kind.donate)
            return
        bound.result, bound.wanted = self.engine.step(held.exe, bound.entry, inputs), wanted
        held.states.update(states)

    @precondition(lambda self: self.has_entry)
    @rule(number=number, x=vectors, call=st.sampled_from(("replay", "write", "copy", "read")), ours=st.booleans())
    def fail(self, number: int, x: Values, call: str, ours: bool) -> None:
        """A device that fails in a step leaves every state as before or as after it, or says that it is lost."""
        held, bound = self.bound(number)
        kind, i = KINDS[bound.kind], np.array([1, 2], np.int32)
        if held.lost & set(kind.states):
            return
        inputs = self.inputs(bound.kind, x, i, ours)
        wanted, states = kind.mean(held.weight, x, i, held.states)
        bound.begin()
        self.faulty.arm(Failure(call, 0))
        with contextlib.suppress(InjectedError):
            bound.result, bound.wanted = self.engine.step(held.exe, bound.entry, inputs), wanted
        self.faulty.arm(None)
        after = {**held.states, **states}
        lost = set(held.exe.lost)
        assert lost <= held.lost | set(kind.states)
        found = {name: held.exe.state[name] for name in held.states.keys() - lost}
        assert any(all((found[name] == model[name]).all() for name in found) for model in (held.states, after))
        if bound.result is not None:
            assert all((found[name] == after[name]).all() for name in found)
        held.states.update(found)
        held.lost = lost

    @precondition(lambda self: self.has_entry)
    @rule(number=number)
    def push_what_does_not_fit(self, number: int) -> None:
        held, bound = self.bound(number)
        kind = KINDS[bound.kind]
        if held.lost & set(kind.states):
            return
        for wrong in (np.zeros(N + 1, np.float32), np.zeros(N, np.float64), np.zeros(2, np.int64)):
            inputs = StepInputs().push("x", wrong) if bound.kind in ("sum", "keep") else StepInputs().push("i", wrong)
            with pytest.raises((DTypeError, ShapeError, EvaluateError)):
                self.engine.step(held.exe, bound.entry, inputs)

    @precondition(lambda self: self.has_entry)
    @rule(number=number, value=vectors, ours=st.booleans(), which=number)
    def set(self, number: int, value: Values, ours: bool, which: int) -> None:
        held, _ = self.bound(number)
        name = sorted(held.states)[which % len(held.states)]
        held.exe.state[name] = poot.asarray(value, device=self.device) if ours else value
        held.states[name] = value
        held.lost.discard(name)

    @precondition(lambda self: self.has_entry)
    @rule(number=number, which=st.none() | number)
    def reset(self, number: int, which: int | None) -> None:
        held, _ = self.bound(number)
        names = sorted(held.states) if which is None else [sorted(held.states)[which % len(held.states)]]
        held.exe.state.reset(None if which is None else names[0])
        held.states.update((name, np.zeros(N, np.float32)) for name in names)
        held.lost -= set(names)

    @invariant()
    def what_is_there_is_the_model(self) -> None:
        for bound in (bound for held in getattr(self, "exes", ()) for bound in held.entries):
            if bound.result is not None:
                assert (bound.result.read() == bound.wanted).all()
            for old in bound.old:
                with pytest.raises(EngineError, match="was overwritten"):
                    old.read()
        for held in getattr(self, "exes", ()):
            assert set(held.exe.state) == set(held.states) and set(held.exe.lost) == held.lost
            for name, value in held.states.items():
                if name in held.lost:
                    with pytest.raises(StateLost):
                        held.exe.state[name]
                else:
                    assert (held.exe.state[name] == value).all()
        if hasattr(self, "exes"):
            assert self.engine.stats.entries == sum(len(held.entries) for held in self.exes)

    def teardown(self) -> None:
        for held in self.exes:
            self.engine.unload(held.exe)
        assert self.engine.stats.allocated_bytes == 0 and self.engine.stats.entries == 0


def test_random_lives(device: Device) -> None:
    machine = type("LivesOf" + device.name, (Lives,), {"device": device})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=30))
