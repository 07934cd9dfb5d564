"""The engine: weights uploaded once, state that belongs to an exe, entries that record once and replay.

    engine = Engine(device)
    exe = engine.load_weights(store, weight_map)
    entry = engine.add_entry(exe, staged)
    out = engine.step(exe, entry, StepInputs().push("tokens", tokens)).read()

Every buffer of an entry stays where it is, so a recording never goes stale.  Whatever fails while something is being
added is rolled back; a failed step leaves state as it was before it, since new values go to buffers of their own and
the last launches of the step copy them over only if the fault record is clear.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from poot import forks
from poot.backends.ahead import compile_together
from poot.backends.binding import Elements, check_elements, expect, put
from poot.backends.commit import ENTRY_RECORD_BYTES, clear_record, commit_steps, finish_commit, guarded
from poot.backends.device import Buffer, BufferView, DeviceBackend, HostArray
from poot.backends.exe import EngineStats, Entry, Exe, StepInputs, StepResult, Unique
from poot.backends.executable import Executable, Run
from poot.backends.faults import decode
from poot.backends.progress import working
from poot.backends.prologue import Kept
from poot.backends.weights import Wanting, WeightMap, WeightStore, compare_weights, refuse, wanted_specs
from poot.dtypes import ArraySpec, as_dtype
from poot.errors import ArgumentTypeError, EngineError, EvaluateError
from poot.kernel.ir import FAULT_WORDS
from poot.plan.program import Program

_CLEAR = np.zeros(FAULT_WORDS, np.int32)

# What arguments are, and the call that has them right.
_EXE, _ENTRY = "what load_weights returned", "what add_entry returned"
_STORE = "make it one: poot.WeightStore.from_arrays(…) of arrays by name, from_safetensors(…) of files."
_MAP = 'make it one: poot.WeightMap({"w": "layer.weight"}).'
_PROGRAM = "make one: f.program(…, device=engine.device.name), or poot.compile(graph, engine.device.target)."
_STEP = 'write engine.step(exe, entry, StepInputs().push("name", array)).'


class HasProgram(Protocol):
    """What `compile_staged` returns."""

    @property
    def program(self) -> Program: ...


class HasBackend(Protocol):
    """What `poot.device` returns."""

    @property
    def backend(self) -> DeviceBackend: ...


class Engine(Unique):
    """Runs compiled programs on one device.  Safe to use from several threads; steps of one exe run one at a time."""

    def __init__(self, device: DeviceBackend | HasBackend) -> None:
        self.device = cast("DeviceBackend", getattr(device, "backend", device))
        if not hasattr(self.device, "replay"):
            raise ArgumentTypeError(
                what="Engine", actual=repr(device), expected="a device", remedy='pass poot.device("cpu").'
            )
        self.stats = EngineStats()
        self._exes: set[Exe] = set()
        self._numbers = itertools.count(1)
        self._lock = forks.lock()

    # --- memory ---

    def _allocate(self, nbytes: int, failed: contextlib.ExitStack) -> Buffer:
        buffer = self.device.allocate(nbytes)
        self.stats.add(self._lock, nbytes=nbytes)
        failed.callback(self._free, buffer, nbytes)
        return buffer

    def _free(self, buffer: Buffer, nbytes: int) -> None:
        self.stats.add(self._lock, nbytes=-nbytes)
        self.device.free(buffer)

    # --- weights and entries ---

    def load_weights(
        self,
        store: WeightStore,
        weight_map: WeightMap | None = None,
        wanting: Wanting | Sequence[Wanting] | None = None,
    ) -> Exe:
        """Upload every array of the map (all of the store, if none is given) once, whatever the number of its entries.

        Names that stand for the same stored view share one buffer; a device that works on the host's memory uses mapped
        files in place.  With `wanting` (graphs, programs or staged programs), constants that are missing, unwanted, of
        another shape or dtype are all listed in one WeightsError, before anything is written.
        """
        expect("load_weights: store", store, WeightStore, "a WeightStore", _STORE)
        chosen = WeightMap.identity(store) if weight_map is None else weight_map
        expect("load_weights: weight_map", chosen, WeightMap, "a WeightMap", _MAP)
        arrays = chosen.resolve(store, wanting)
        with contextlib.ExitStack() as failed:
            weights: dict[str, tuple[Buffer, ArraySpec]] = {}
            held: dict[int, tuple[Buffer, int]] = {}
            with working("loading", len(arrays), "weights") as work:
                for name, array in arrays.items():
                    if id(array) not in held:
                        held[id(array)] = self._upload(array, store.unchanging, failed)
                    spec = ArraySpec(as_dtype(array.dtype, f"weight {name!r}"), array.shape)
                    weights[name] = held[id(array)][0], spec
                    work.advance()
            failed.pop_all()
        exe = Exe(self, weights, list(held.values()))
        self._exes.add(exe)
        return exe

    def _upload(self, array: HostArray, unchanging: bool, failed: contextlib.ExitStack) -> tuple[Buffer, int]:
        """A buffer with the elements of an array, and how many bytes of the device it takes."""
        flags = array.flags
        if unchanging and flags.c_contiguous and flags.aligned and array.nbytes:
            shared = self.device.import_host(array)
            if shared is not None:
                return shared, 0
        buffer = self._allocate(array.nbytes, failed)
        self.device.write(BufferView(buffer), np.require(array, requirements=["C", "A"]).reshape(array.shape))
        return buffer, array.nbytes

    def add_entry(self, exe: Exe, staged: Program | HasProgram) -> Entry:
        """Compile, load and bind a program; nothing is kept if any part of that fails.

        WeightsError lists constants that the exe has no weight for, or one of another dtype or shape; EngineError for a
        state that another entry declared differently, or a program made for another target.
        """
        expect("add_entry: exe", exe, Exe, _EXE)
        program = getattr(staged, "program", staged)
        if not isinstance(program, Program):
            raise ArgumentTypeError(
                what="add_entry: program", actual=type(staged).__name__, expected="a program", remedy=_PROGRAM
            )
        with exe.changing("add_entry"):
            self._require_mine(exe)
            if program.target != self.device.target:
                raise EngineError(
                    message=f"the program was compiled for {program.target}, the engine's device is {self.device.name}",
                    remedy="compile it for engine.device.target.",
                )
            _check_weights(program, exe)
            _check_states(program, exe)
            compile_together(program, self.device.target)
            executable = Executable(program, self.device)
            with contextlib.ExitStack() as failed:
                states = self._new_states(program, exe, failed)
                kept = exe.keep(executable, lambda nbytes: self._allocate(nbytes, failed))
                buffers, views = self._bind(executable, exe, {**exe.states, **states}, kept, failed)
                commits = commit_steps(executable)
                run = Run(executable, views, guarded(commits, executable))
                failed.pop_all()
            exe.states.update(states)
            entry = Entry(next(self._numbers), exe, executable, run, buffers, commits)
            exe.entries[entry.number] = entry
            entry.share(kept)
            self.stats.add(self._lock, entries=1)
            return entry

    def _new_states(
        self, program: Program, exe: Exe, failed: contextlib.ExitStack
    ) -> dict[str, tuple[Buffer, ArraySpec]]:
        made: dict[str, tuple[Buffer, ArraySpec]] = {}
        for variable in program.graph.states:
            if variable.name not in exe.states:
                buffer = self._allocate(variable.spec.nbytes, failed)
                zeros = np.zeros(variable.spec.shape, variable.spec.dtype.dtype)
                self.device.write(BufferView(buffer), zeros)
                made[variable.name] = buffer, variable.spec
        return made

    def _bind(
        self,
        executable: Executable,
        exe: Exe,
        states: Mapping[str, tuple[Buffer, ArraySpec]],
        kept: Sequence[Kept],
        failed: contextlib.ExitStack,
    ) -> tuple[list[Buffer], list[BufferView | None]]:
        """A view for every position; the buffers that the entry owns are those of inputs, outputs and scratch."""
        owned: list[Buffer] = []
        views: list[BufferView | None] = []
        filled = iter(kept)

        def own(nbytes: int) -> BufferView:
            owned.append(self._allocate(nbytes, failed))
            return BufferView(owned[-1])

        for slot in executable.bound_slots():
            match slot.role:
                case "constant":
                    views.append(BufferView(exe.weights[slot.name][0]))
                case "state":
                    views.append(BufferView(states[slot.name][0]))
                case "kept":
                    views.append(BufferView(next(filled).buffer))
                case _:
                    views.append(own(slot.nbytes))
        views.append(own(executable.program.storage.arena_bytes))
        views.append(own(ENTRY_RECORD_BYTES))
        self.device.write(cast("BufferView", views[-1]), clear_record())
        return owned, views

    def remove_entry(self, entry: Entry) -> None:
        """Free what belongs to the entry alone; state stays with its exe.  EngineError if it was removed before."""
        expect("remove_entry", entry, Entry, _ENTRY)
        with entry.exe.changing("remove_entry"):
            self._require_mine(entry.exe)
            self._require_active(entry)
            del entry.exe.entries[entry.number]
            self._release(entry)

    def _release(self, entry: Entry) -> None:
        self.stats.add(self._lock, entries=-1)
        with contextlib.ExitStack() as frees:
            for buffer in entry.buffers:
                frees.callback(self._free, buffer, buffer.nbytes)
            for kept in entry.unshare():
                frees.callback(self._free, kept.buffer, kept.nbytes)
            entry.run.forget()  # whoever keeps the entry would keep a file mapped
            entry.buffers.clear()

    def unload(self, exe: Exe) -> None:
        """Free an exe's weights, states and entries.  EngineError if it was unloaded before."""
        expect("unload", exe, Exe, _EXE)
        with exe.changing("unload"):
            self._require_mine(exe)
            exe.loaded = False
            self._exes.discard(exe)
            with contextlib.ExitStack() as frees:  # every one of them, even where one raises
                for entry in exe.entries.values():
                    frees.callback(self._release, entry)
                for buffer, nbytes in (*exe.held, *((buffer, spec.nbytes) for buffer, spec in exe.states.values())):
                    frees.callback(self._free, buffer, nbytes)
                exe.held.clear()
                exe.entries.clear()
                exe.weights.clear()
                exe.states.clear()
                exe.lost.clear()

    # --- steps ---

    def step(
        self, exe: Exe, entry: Entry, inputs: StepInputs | None = None, sync: Callable[[], None] | None = None
    ) -> StepResult:
        """Run an entry once; every input is checked before anything is written.

        Arrays on the engine's device are copied there, others are uploaded; DeviceMismatchError for an array of poot's,
        or of another library's GPU, that lives elsewhere.  The first step records, later ones replay.

        `sync` is called before the launch: it may use other exes, and read this one; to change this one in the middle
        of its step is an EngineError.  A fault raises here, and state keeps the values that it had before the step.  A
        device that fails, or a Ctrl-C, in the middle of a step leaves every state as it was before the step or every
        state as after it; where not even that is certain, StateLost is raised whenever the state is used, until it is
        set or reset.  Donated states are lost with any step that fails or faults while it runs.
        """
        expect("step: exe", exe, Exe, _EXE, _STEP)
        expect("step: entry", entry, Entry, _ENTRY, _STEP)
        if inputs is not None:
            expect("step: inputs", inputs, StepInputs, "StepInputs", _STEP)
        if sync is not None:
            expect(
                "step: sync", sync, cast("type", Callable), "something to call", "pass a function without parameters."
            )
        exe.require_idle("step")
        self._require_bound(exe, entry)
        arrays = _check_inputs(entry.program, {} if inputs is None else inputs.arrays, self.device)
        with exe.lock:
            exe.doing, exe.readable = "a step", True
            self._require_bound(exe, entry)  # an input's own code may have used the exe, and another thread may have
            exe.require_states(variable.name for variable in entry.program.graph.states)
            entry.version += 1  # from here on the buffers of the last result are written to
            for slot, view in zip(entry.executable.bound_slots(), entry.run.views, strict=False):
                if slot.role == "input":
                    assert view is not None
                    put(self.device, view, arrays[slot.name], slot.nbytes)
            if sync is not None:
                sync()
            exe.readable = False
            self._run(entry)
            return StepResult(entry)

    def _require_bound(self, exe: Exe, entry: Entry) -> None:
        """EngineError for an entry that is not one of the exe's, or an exe that is not the engine's."""
        self._require_mine(exe)
        self._require_active(entry)
        if entry.exe is not exe:
            raise EngineError(
                message="the entry belongs to another exe", remedy="step it with the exe it was added to."
            )

    def _run(self, entry: Entry) -> None:
        run = entry.run
        fault = run.views[entry.executable.positions.fault]
        assert fault is not None
        if entry.unsettled:
            self.device.write(fault, clear_record())
            entry.unsettled = False
        elif entry.executable.may_fault:
            self.device.write(fault, _CLEAR)
        records, replays = run.records, run.replays
        try:
            run.run()
        except BaseException:
            self._abandon(entry, finish=True)
            raise
        self.stats.add(self._lock, steps=1, records=run.records - records, replays=run.replays - replays)
        if entry.executable.may_fault:
            words = np.empty(FAULT_WORDS, np.int32)
            try:
                self.device.read(fault, words)
            except BaseException:
                self._abandon(entry, finish=False)
                raise
            compiled = [loaded.compiled for loaded in entry.executable.kernels]
            error = decode(words, entry.program, compiled)
            if error is not None:
                self._lose(entry, entry.program.in_place)
                entry.version += 1
                raise error

    def _abandon(self, entry: Entry, *, finish: bool) -> None:
        """Nothing of a failed step may be read; its state is as before or as after it, or else it is lost.

        With `finish`, a commit that was cut short is completed.  Where that fails too, and where nothing says whether
        the step has committed, the state has to be set anew.
        """
        self._lose(entry, entry.program.in_place)
        lost = True
        try:
            if finish:
                finish_commit(entry.commits, entry.run)
                lost = False
        except Exception:
            lost = True
        finally:
            if lost:
                entry.unsettled = True
                self._lose(entry, (name for name, _ in entry.program.updates))
            entry.version += 1

    @staticmethod
    def _lose(entry: Entry, names: Iterable[str]) -> None:
        """Let states be undefined from an entry's step on."""
        entry.exe.lost.update((name, f"step {entry.version}") for name in names)

    def _require_mine(self, exe: Exe) -> None:
        exe.require_loaded()
        if exe.engine is not self:
            raise EngineError(message="the exe belongs to another engine", remedy="use the engine that loaded it.")

    @staticmethod
    def _require_active(entry: Entry) -> None:
        if not entry.active:
            raise EngineError(message="this entry was removed", remedy="add it again with add_entry.")


def _check_weights(program: Program, exe: Exe) -> None:
    given = {name: spec for name, (_, spec) in exe.weights.items()}
    refuse(compare_weights(wanted_specs(program), given, "exe"))


def _check_states(program: Program, exe: Exe) -> None:
    for variable in program.graph.states:
        known = exe.states.get(variable.name)
        if known is not None and known[1] != variable.spec:
            raise EngineError(
                message=f"state {variable.name!r} is {variable.spec} in this program, but {known[1]} in the exe",
                remedy="give the state another name, or declare it alike in every entry.",
            )


def _check_inputs(program: Program, arrays: Mapping[str, Any], device: DeviceBackend) -> dict[str, Elements]:
    wanted = {variable.name: variable.spec for variable in program.graph.inputs}
    for name in arrays:
        if name not in wanted:
            known = ", ".join(wanted) or "none"
            remedy = "push only these; StepInputs of another program are not its own."
            raise EvaluateError(
                what=f"input {name!r}", message=f"the program has no such input; it has {known}", remedy=remedy
            )
    missing: Sequence[str] = [name for name in wanted if name not in arrays]
    if missing:
        remedy = f"push every input of the program: StepInputs().push({missing[0]!r}, array), of {wanted[missing[0]]}."
        raise EvaluateError(what=f"input {missing[0]!r}", message="was not pushed", remedy=remedy)
    given = tuple(arrays.items())  # an input's own code may push another
    return {name: check_elements(f"input {name!r}", array, wanted[name], device) for name, array in given}
