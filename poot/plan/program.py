"""Programs: what a graph becomes for one target, as plain data.

A `Program` holds deduplicated kernels, the steps that run them, a storage plan, and a record of what became of every
equation.  Nothing in it refers to a device: backends load it, and `interpret` runs it in NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from typing_extensions import override

from poot.dtypes import ArraySpec
from poot.errors import SourceLocation, printable
from poot.kernel.ir import Kernel
from poot.records import record
from poot.target import Language, Target
from poot.trace.graph import Equation, Graph

if TYPE_CHECKING:
    from poot.plan.report import Report

Numerics = Literal["exact", "unfused", "reassociating", "narrowing"]
Role = Literal["constant", "input", "state", "output", "scratch", "kept"]


# --- storage --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """One buffer of a program: where a value lives while a step runs.

    `constant`, `input` and `state` slots are bound by name; `output` slots are fresh for each jit-style call, and
    stable for a recorded entry; `scratch` slots are byte ranges of one arena, placed by `offset` and reused over time.
    `kept` slots are filled by the prologue and only read by steps.  A `state` slot holds the value before the step;
    what replaces it stands in `Program.updates`.
    """

    role: Role
    spec: ArraySpec
    name: str = ""
    offset: int = -1

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes


@dataclass(frozen=True, slots=True)
class Storage:
    """The slots of a program and its arena.

    `liveness_bound` is the most bytes of scratch that are live at one step: no placement could take less.
    `prologue_bytes` is the size of the arena that the prologue has while it runs.
    """

    slots: tuple[Slot, ...]
    arena_bytes: int
    liveness_bound: int
    prologue_bytes: int = 0

    @property
    def kept(self) -> tuple[int, ...]:
        """The slots that the prologue fills."""
        return tuple(number for number, slot in enumerate(self.slots) if slot.role == "kept")


# --- steps ----------------------------------------------------------------------------------------------------------


@record
class Binding:
    """A buffer argument: a slot, and the first element used within it."""

    slot: int
    offset: int = 0


@record
class Launch:
    """One kernel on a grid of whole work-groups.

    `bindings` follow the kernel's buffer parameters; planner kernels bake extents and have no run-time scalars.
    `equations` are the indices of the planned graph's equations that it computes, one that can fault first.  Where that
    is in a region, `inside` leads there from the equation in the planned graph: a region and an equation's number in
    it, for each level.  `where` is the line that faults name.  `flops` are the floating-point operations that its
    equations ask for (`poot.plan.work`), or -1 where the planner did not make the kernel.
    """

    kernel: int
    bindings: tuple[Binding, ...]
    groups: tuple[int, int, int]
    equations: tuple[int, ...] = ()
    where: SourceLocation | None = field(default=None, compare=False)
    flops: int = 0
    inside: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the whole of one slot to another of the same size."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Run one block by the value of a bool 0-d slot: block 0 where it is false, else block 1."""

    predicate: int
    blocks: tuple[tuple[Step, ...], tuple[Step, ...]]


@dataclass(frozen=True, slots=True)
class Loop:
    """Run `condition`, read the bool slot `predicate`, and while it is true run `body`; at most `trip_count` turns if
    one is known, in which case there is no condition and no read-back.

    `counter` is an i32 0-d slot that the executor sets to the number of the turn before each, or -1.  `settles` says
    that once the predicate is false, more turns (body, then condition) change nothing that is read afterwards: so
    devices that are slow to answer need not look at it before each.
    """

    condition: tuple[Step, ...]
    predicate: int
    body: tuple[Step, ...]
    trip_count: int = -1
    counter: int = -1
    settles: bool = False


Step: TypeAlias = Launch | Copy | Branch | Loop


# --- the program ----------------------------------------------------------------------------------------------------

Fate = Literal["kernel", "alias", "view", "fold", "dead", "control", "prologue"]


@record
class EquationPlan:
    """What became of an equation: the launch that computes it, by its place in `Program.launches`, or why a step needs
    none.

    `launch` is the last of several, for control flow the first, and -1 where there is none.
    """

    fate: Fate
    launch: int = -1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Removed:
    """An equation that a pass left out, by its number before the pass."""

    equation: int
    fate: Fate
    note: str = ""


@dataclass(frozen=True, slots=True)
class Declined:
    """What a pass left as it was, why, and the user's line, where one is known."""

    what: str
    reason: str
    where: SourceLocation | None = field(default=None, compare=False)

    @override
    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did and declined, with sizes before and after.

    `origins` gives for each equation after the pass the number of the one before it that it stems from.
    """

    name: str
    equations_before: int
    equations_after: int
    notes: tuple[str, ...] = ()
    declined: tuple[Declined, ...] = ()
    origins: tuple[int, ...] = ()
    removed: tuple[Removed, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Program:
    """A planned graph.  `graph` is as the caller gave it, `planned` as the passes left it.

    `prologue` are launches and copies that depend on constants alone: they fill the kept slots once, and again whenever
    a constant is bound to other contents.  `equation_plans` has one entry an equation of `graph`.  `outputs` are the
    slots of the graph's outputs in order; `updates` pairs a state's name with the slot that holds its next value (which
    a step commits only if the fault record is clear).  `contract` allows a*b+c to become fma.
    """

    graph: Graph
    planned: Graph
    target: Target
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    storage: Storage
    outputs: tuple[int, ...]
    updates: tuple[tuple[str, int], ...]
    equation_plans: tuple[EquationPlan, ...]
    numerics: Numerics
    contract: bool
    passes: tuple[PassRecord, ...] = ()
    max_artifact_bytes: int = 512 << 20
    prologue: tuple[Launch | Copy, ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch of a step, in program order, those inside branches and loops included."""
        return tuple(launches_of(self.steps))

    def faulting(self, launch: Launch) -> Equation | None:
        """The equation that a launch's faults are of; None where it computes none."""
        if not launch.equations:
            return None
        equation = self.planned.equations[launch.equations[0]]
        for region, number in launch.inside:
            equation = equation.regions[region].equations[number]
        return equation

    @override
    def __repr__(self) -> str:
        kernels, launches = len(self.kernels), len(self.launches)
        return printable(
            f"<Program of {self.graph.name} for {self.target}: {launches} launches of {kernels} kernels; "
            "`print(program.report())` says more>"
        )

    @property
    def in_place(self) -> tuple[str, ...]:
        """The donated states, whose next values are made where the old ones lie."""
        return tuple(name for name, slot in self.updates if self.storage.slots[slot].role == "state")

    def report(self) -> Report:
        """What the program will do: launches, kernels, bytes, flops, storage and its reuse, what was declined and why.

        Printed it is a text for people; its fields, and `to_dict()`, are the same as data.
        """
        from poot.plan.report import report  # it reads these classes

        return report(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, which `load_program` reads; the users' lines are left out."""
        from poot.plan.serial import dump_program  # it needs these classes

        Path(path).write_bytes(dump_program(self))

    def source(self, language: Language) -> str:
        """Every kernel in a language of the target, rendered now; Unsupported for any other language."""
        from poot.plan.source import source  # it reads these classes

        return source(self, language)


def launches_of(steps: Sequence[Step]) -> list[Launch]:
    """The launches of steps in program order, those inside branches and loops included."""
    found: list[Launch] = []
    for step in steps:
        match step:
            case Launch():
                found.append(step)
            case Branch():
                for block in step.blocks:
                    found += launches_of(block)
            case Loop():
                found += launches_of(step.condition) + launches_of(step.body)
            case Copy():
                pass
    return found


def slots_of(steps: Sequence[Step]) -> set[int]:
    """The slots that steps use; what a kernel changes where it lies has another that none does."""
    found: set[int] = set()
    for step in steps:
        match step:
            case Launch():
                found.update(binding.slot for binding in step.bindings)
            case Copy():
                found.update((step.source, step.target))
            case Branch():
                found.update((step.predicate, *(slot for block in step.blocks for slot in slots_of(block))))
            case Loop():
                found.update((step.predicate, step.counter), slots_of((*step.condition, *step.body)))
    return found
