"""What an engine holds: exes with their weights and state, entries, and the results of steps."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from typing_extensions import override

from poot import forks
from poot.backends.binding import Elements, check_elements, put
from poot.backends.device import Buffer, BufferView, HostArray, RecordedStep
from poot.backends.executable import Executable, Run
from poot.backends.loss import require_working
from poot.backends.prologue import Kept, KeptKey
from poot.dtypes import ArraySpec
from poot.errors import ArgumentTypeError, EngineError, EvaluateError, StateLost
from poot.plan.program import Program

if TYPE_CHECKING:
    from poot.backends.executor import Engine


@dataclass(slots=True)
class EngineStats:
    """Counters of an engine: entries compiled, segments recorded and replayed, steps run, device bytes held."""

    entries: int = 0
    records: int = 0
    replays: int = 0
    steps: int = 0
    allocated_bytes: int = 0

    def add(
        self,
        lock: threading.RLock,
        entries: int = 0,
        records: int = 0,
        replays: int = 0,
        steps: int = 0,
        nbytes: int = 0,
    ) -> None:
        """Count; several exes may be in use at once.

        Nothing is called under the lock, so that no handler of a signal can count between the two halves of a sum.
        """
        with lock:
            self.entries += entries
            self.records += records
            self.replays += replays
            self.steps += steps
            self.allocated_bytes += nbytes


class StepInputs:
    """The inputs of one step, by name."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def push(self, name: str, array: Any) -> StepInputs:
        """Add one input, a NumPy array or one of the engine's device; EvaluateError if it was pushed before.

        Returns itself, so that calls chain.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(what="push: name", actual=type(name).__name__, expected="a str")
        if name in self._arrays:
            raise EvaluateError(
                what=f"input {name!r}", message="pushed twice", remedy="push it once, to new StepInputs for each step."
            )
        self._arrays[name] = array
        return self

    @property
    def arrays(self) -> Mapping[str, Any]:
        return self._arrays


class Unique:
    """What stands for memory of a device: with a copy of it, both would give that back."""

    def __reduce__(self) -> NoReturn:
        raise EngineError(
            message="an engine holds device memory and cannot be pickled or copied",
            remedy="make another one, with poot.Engine(device), and load the weights there.",
        )


class StateView(Unique, Mapping[str, HostArray]):
    """The state of an exe by name: `exe.state[name]` reads a copy, assignment sets, `reset` returns to zeros.

    A mapping whose values are read from the device one by one; it equals the state of the same exe alone.
    DeviceMismatchError for an array of poot's, to be assigned, that lives on another device.
    """

    def __init__(self, exe: Exe) -> None:
        self._exe = exe

    def __getitem__(self, name: str) -> HostArray:
        within = self._exe.require_readable("reading a state")
        with self._exe.lock:
            if not within:
                self._exe.doing, self._exe.readable = "reading a state", True
            buffer, spec = self._find(name)
            self._exe.require_states([name])
            out = np.empty(spec.shape, spec.dtype.dtype)
            self._exe.engine.device.read(BufferView(buffer), out)
            return out

    def __setitem__(self, name: str, value: Any) -> None:
        array = self._checked(name, value)  # may run the value's own code, which may use the exe
        with self._exe.changing("setting a state"):
            self._find(name)
            self._set({name: array}, "an assignment")

    def _checked(self, name: str, value: Any) -> Elements:
        return check_elements(f"state {name!r}", value, self._find(name)[1], self._exe.engine.device)

    def __iter__(self) -> Iterator[str]:
        with self._exe.lock:
            return iter(tuple(self._exe.states))

    def __len__(self) -> int:
        return len(self._exe.states)

    @override
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._exe.states

    @override
    def get(self, name: str, default: Any = None) -> Any:
        """A copy of a state, or `default` where the exe has none of that name."""
        if name not in self:
            return default
        return self[name]

    @override
    def __eq__(self, other: object) -> bool:  # a mapping would compare its arrays, which have no truth value
        return isinstance(other, StateView) and other._exe is self._exe

    @override
    def __hash__(self) -> int:
        return hash(self._exe)

    def reset(self, name: str | None = None) -> None:
        """Set one state, or every one at once, to zeros: no step sees some of them set and others not."""
        with self._exe.changing("resetting state"):
            self._exe.require_loaded()
            specs = {each: self._find(each)[1] for each in (self._exe.states if name is None else [name])}
            self._set({each: np.zeros(spec.shape, spec.dtype.dtype) for each, spec in specs.items()}, "a reset")

    def _set(self, arrays: Mapping[str, Elements], what: str) -> None:
        """Write states, which are undefined until all of each is there; the caller holds the lock."""
        lost = self._exe.lost
        for name in arrays:
            lost.setdefault(name, what)
        for name, array in arrays.items():
            buffer, spec = self._exe.states[name]
            put(self._exe.engine.device, BufferView(buffer), array, spec.nbytes)
            del lost[name]

    def _find(self, name: str) -> tuple[Buffer, ArraySpec]:
        self._exe.require_loaded()
        found = self._exe.states.get(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if found is None:
            known = ", ".join(sorted(self._exe.states)) or "none"
            raise EngineError(
                message=f"there is no state {name!r}; this exe has {known}",
                remedy="name one of these; an entry brings the states of its program (states= of `.program`).",
            )
        return found


class Exe(Unique):
    """Weights on a device, and the state that the entries over them share."""

    def __init__(
        self, engine: Engine, weights: dict[str, tuple[Buffer, ArraySpec]], held: list[tuple[Buffer, int]]
    ) -> None:
        self.engine = engine
        self.weights = weights
        #: The buffers of the weights, each once, and how many bytes of the device they take.
        self.held = held
        #: What prologues made of the weights, by recipe and weights; entries share it.
        self.kept: dict[KeptKey, Kept] = {}
        self.states: dict[str, tuple[Buffer, ArraySpec]] = {}
        #: States whose values are undefined, and what left them so.
        self.lost: dict[str, str] = {}
        self.entries: dict[int, Entry] = {}
        self.loaded = True
        #: Held by a step, so that state changes one step at a time.
        self.lock = threading.RLock()
        #: What the thread that holds the lock is at, and whether code that it runs meanwhile may read.
        self.doing = ""
        self.readable = True
        _exes.add(self)

    @override
    def __repr__(self) -> str:
        counts = f"{len(self.weights)} weights, {len(self.states)} states and {len(self.entries)} entries"
        return f"<Exe of {counts} on {self.engine.device.name}>" if self.loaded else "<Exe that was unloaded>"

    @property
    def state(self) -> StateView:
        return StateView(self)

    def require_loaded(self) -> None:
        """EngineError after `unload`."""
        if not self.loaded:
            raise EngineError(message="this exe was unloaded", remedy="load the weights again with load_weights.")

    def require_idle(self, what: str) -> None:
        """EngineError in code that runs in the middle of another call on the exe, in the thread of that."""
        if forks.is_mine(self.lock):
            raise EngineError(
                message=f"{what} in the middle of {self.doing} of the same exe",
                remedy="let a hook, finalizer or signal handler note what to do, and do it after that call.",
            )

    @contextlib.contextmanager
    def changing(self, what: str) -> Generator[None]:
        """Hold the exe for a call that changes it; EngineError in the middle of another one of this thread."""
        self.require_idle(what)
        with self.lock:
            self.doing, self.readable = what, False
            yield

    def require_readable(self, what: str) -> bool:
        """EngineError while this thread is changing the exe; otherwise whether it is in the middle of another call."""
        within = forks.is_mine(self.lock)
        if within and not self.readable:
            self.require_idle(what)
        return within

    def keep(self, executable: Executable, allocate: Callable[[int], Buffer]) -> list[Kept]:
        """What a program's prologue makes of the weights, in the order of its slots; what no entry has yet is filled.

        EngineError for a program whose prologue reads inputs.
        """
        prologue, slots = executable.prologue, executable.program.storage.slots
        found: dict[KeptKey, Kept] = {}
        kept: list[Kept] = []
        wanted: dict[int, Buffer] = {}
        views: dict[int, BufferView] = {}
        for recipe in () if prologue is None else prologue.recipes:
            for source in recipe.sources:
                if slots[source].role != "constant":
                    raise EngineError(
                        message=f"the program takes input {slots[source].name!r} for the same at every step",
                        remedy="compile it without naming the input in CompileOptions.stable.",
                    )
                views[source] = BufferView(self.weights[slots[source].name][0])
            key = recipe.key, tuple(id(views[source].buffer) for source in recipe.sources)
            known = found.get(key) or self.kept.get(key)
            if known is None:
                nbytes = slots[recipe.slot].nbytes
                known = Kept(key, allocate(nbytes), nbytes)
                wanted[recipe.slot] = known.buffer
            else:
                views[recipe.slot] = BufferView(known.buffer)
            found[key] = known
            kept.append(known)
        if prologue is not None and wanted:
            prologue.fill(wanted, views)
        return kept

    def require_states(self, names: Iterable[str]) -> None:
        """StateLost where one of the states is undefined; on a device that can set none any more, its own error.

        The caller holds the lock: what another thread is setting is undefined until it has.
        """
        for name in names if self.lost else ():
            if name in self.lost:
                require_working(self.engine.device)
                raise StateLost(name=name, what=self.lost[name])


_exes: weakref.WeakSet[Exe] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child: what a step of another thread was writing is undefined, and nobody will finish it."""
    for exe in list(_exes):
        if exe.lock.acquire(blocking=False):
            exe.lock.release()
        else:
            exe.lock = threading.RLock()
            exe.lost.update(dict.fromkeys(exe.states, "a step that another thread was at when the process forked"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Entry(Unique):
    """One program bound to an exe: its buffers, and its recording once it has been stepped."""

    def __init__(
        self,
        number: int,
        exe: Exe,
        executable: Executable,
        run: Run,
        buffers: list[Buffer],
        commits: Sequence[RecordedStep],
    ) -> None:
        self.number = number
        self.exe = exe
        self.executable = executable
        self.run = run
        self.buffers = buffers
        self.commits = commits
        #: What its prologue made, which other entries may share.
        self.kept: list[Kept] = []
        self.version = 0
        #: Whether the words after its fault record say nothing, since completing a commit has failed.
        self.unsettled = False

    def share(self, kept: list[Kept]) -> None:
        """Be one of the users of what a prologue made."""
        self.kept = kept
        for each in kept:
            self.exe.kept[each.key] = each
            each.users += 1

    def unshare(self) -> list[Kept]:
        """Stop being one; what nobody else uses."""
        unused: list[Kept] = []
        for each in self.kept:
            each.users -= 1
            if each.users == 0:
                del self.exe.kept[each.key]
                unused.append(each)
        self.kept = []
        return unused

    @property
    def program(self) -> Program:
        return self.executable.program

    @property
    def active(self) -> bool:
        return self.number in self.exe.entries


class StepResult(Unique):
    """The outputs of a step, until the entry's next step overwrites them."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._version = entry.version

    def read(self, borrow: bool = False) -> Any:
        """The output pytree in NumPy.

        Copies, unless `borrow` asks for read-only arrays: views of device memory where the host can address it, which
        change with the entry's next step.  EngineError if a later step has already overwritten the result.
        """
        entry, exe = self._entry, self._entry.exe
        within = exe.require_readable("reading a result")
        with exe.lock:
            if not within:
                exe.doing, exe.readable = "reading a result", True
            if not (exe.loaded and entry.active):
                raise EngineError(message="the entry of this result was removed", remedy="read results before that.")
            if entry.version != self._version:
                raise EngineError(
                    message=f"the result of step {self._version} was overwritten by step {entry.version} of its entry",
                    remedy="call read() before the next step.",
                )
            leaves = [self._leaf(slot, borrow) for slot in entry.program.outputs]
        return entry.program.graph.tree.unflatten(leaves)

    def _leaf(self, slot: int, borrow: bool) -> HostArray:
        entry = self._entry
        device = entry.executable.device
        spec = entry.program.storage.slots[slot].spec
        position, offset = entry.executable.locate(slot)
        view = entry.run.views[position]
        assert view is not None
        view = BufferView(view.buffer, view.offset + offset)
        if borrow:
            memory = device.host_view(view, spec.nbytes)
            if memory is not None:
                array = memory.view(spec.dtype.dtype).reshape(spec.shape)
                array.flags.writeable = False
                return array
        out = np.empty(spec.shape, spec.dtype.dtype)
        device.read(view, out)
        out.flags.writeable = not borrow
        return out
