"""What a program will do, as data and as text: launches, kernels, bytes, flops, storage and its reuse, declines.

    print(program.report())
    program.report().work.flops
    json.dumps(program.report().to_dict())

**Flops** are those that the equations of the planned graph ask for, not what a kernel happens to execute: 2 for each
product that a contraction sums (a multiplication and an addition), n - 1 for a reduction of n elements, 1 for each
element of an arithmetic operation (add, sub, mul, div, floor_div, rem, max, min, recip), and 1 as well for each element
of an elementary function, though it takes many (exp, expm1, log, log1p, sin, cos, tanh, erf, pow, atan2, sqrt, rsqrt).
Only floats count; moves, casts, comparisons, selections, signs and rounding to whole numbers do not.  Attention counts
every pair of query and key, also those that a mask lets its kernel leave out.  An equation that several kernels compute
counts in each.  Kernels that the planner did not make are not counted: `flops` is None.

**Bytes** are the most that launches and copies read and write: each buffer once a launch, and only the part of it that
the indices can reach, such as one slice a turn.  What caches save, and what a kernel reads twice, is left out.

**Loops** of known length count with all their turns; of loops whose length only their condition tells, one turn counts,
and it does so in `per_turn`, not in `work` (where a kernel makes several turns at a time, its bytes are of all those).
Of a branch, the side that has more counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from typing_extensions import override

from poot.errors import SourceLocation, printable
from poot.plan.program import Branch, Copy, Launch, Loop, Numerics, Program, Role, Step, slots_of
from poot.plan.report_text import lines
from poot.plan.touched import touched


@dataclass(frozen=True, slots=True)
class Work:
    """Numbers of launches and copies, the bytes that both move, and the flops of the launches that are counted."""

    launches: int = 0
    copies: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    flops: int = 0

    def plus(self, other: Work, times: int = 1) -> Work:
        """The sum with another one's multiple."""
        return self._with(other, lambda ours, theirs: ours + times * theirs)

    def most(self, other: Work) -> Work:
        """The greater of each number."""
        return self._with(other, max)

    def _with(self, other: Work, combine: Callable[[int, int], int]) -> Work:
        names = [each.name for each in fields(self)]
        return Work(*(combine(getattr(self, name), getattr(other, name)) for name in names))


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """One launch: its kernel by name, the operations that it computes, and what it moves and computes at a time.

    `operations` are primitives of the planned graph (`scan` and the like for what is inside), `line` the user's.
    `groups` is the grid in work-groups, `workgroup` the threads of one.  A step runs it `times` times, or, with
    `per_turn`, each turn of a loop of unknown length does; `conditional` launches stand inside a branch.
    """

    kernel: str
    operations: tuple[str, ...]
    line: str | None = field(compare=False)
    groups: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    bytes_read: int
    bytes_written: int
    flops: int | None
    times: int = 1
    per_turn: bool = False
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class StorageReport:
    """Bytes of a program's memory.

    `scratch_bytes` is what the scratch values would take without reuse, `arena_bytes` what they take where they are
    placed, `liveness_bound` the most that is live at once; `ratio` is arena to bound, `reuse` scratch to arena.
    """

    scratch_bytes: int
    arena_bytes: int
    liveness_bound: int
    output_bytes: int
    constant_bytes: int
    kept_bytes: int

    @property
    def ratio(self) -> float:
        return self.arena_bytes / self.liveness_bound if self.liveness_bound else 1.0

    @property
    def reuse(self) -> float:
        return self.scratch_bytes / self.arena_bytes if self.arena_bytes else 1.0


@dataclass(frozen=True, slots=True)
class PassReport:
    """What a pass did."""

    name: str
    equations_before: int
    equations_after: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeclineReport:
    """What a pass left as it was, why, and the user's line, where one is known."""

    by: str
    what: str
    reason: str
    line: str | None = field(compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A program in numbers; how they are counted is said above.  Printed it is a text for people.

    `work` is that of one step, `per_turn` that of one turn of the loops of unknown length in it, `once` that of the
    prologue.  `uncounted` names the kernels whose flops are not known; `fates` says of how many equations what became.
    """

    program: str
    target: str
    numerics: Numerics
    kernels: int
    work: Work
    per_turn: Work
    once: Work
    uncounted: tuple[str, ...]
    launches: tuple[LaunchReport, ...]
    prologue: tuple[LaunchReport, ...]
    storage: StorageReport
    fates: tuple[tuple[str, int], ...]
    passes: tuple[PassReport, ...]
    declined: tuple[DeclineReport, ...]
    _text: str = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as dictionaries, lists, strings and numbers: `json.dumps` takes them."""
        found = asdict(self)
        del found["_text"]
        found["storage"] |= {"ratio": self.storage.ratio, "reuse": self.storage.reuse}
        found["fates"] = dict(self.fates)
        return json.loads(json.dumps(found))

    @override
    def __str__(self) -> str:
        return self._text

    @override
    def __repr__(self) -> str:
        return self._text


def report(program: Program) -> Report:
    """Count what a program will do."""
    count = _Count(program)
    launches = count.launches(program.steps)
    prologue = count.launches(program.prologue)
    work, per_turn = count.work(program.steps)
    once, _ = count.work(program.prologue)
    names = (each.kernel for each in (*launches, *prologue) if each.flops is None)
    fates = Counter(plan.fate for plan in program.equation_plans)
    made = Report(
        program.graph.name,
        str(program.target),
        program.numerics,
        len(program.kernels),
        work,
        per_turn,
        once,
        tuple(dict.fromkeys(names)),
        tuple(launches),
        tuple(prologue),
        _storage(program),
        tuple(sorted(fates.items())),
        tuple(PassReport(r.name, r.equations_before, r.equations_after, r.notes) for r in program.passes),
        tuple(
            DeclineReport(r.name, each.what, each.reason, _line(each.where))
            for r in program.passes
            for each in r.declined
        ),
        "",
    )
    return replace(made, _text=printable("\n".join(lines(program, made))))


def _line(where: SourceLocation | None) -> str | None:
    return None if where is None else f"{where.file}:{where.line}"


def _storage(program: Program) -> StorageReport:
    storage = program.storage
    used = slots_of((*program.steps, *program.prologue))

    def role(name: Role) -> int:
        named = (slot.nbytes for number, slot in enumerate(storage.slots) if slot.role == name and number in used)
        return sum(named)

    arena, bound = storage.arena_bytes, storage.liveness_bound
    return StorageReport(role("scratch"), arena, bound, role("output"), role("constant"), role("kept"))


_Key = tuple[int, tuple[int, int, int]]


@dataclass(slots=True)
class _Count:
    """Counts the launches of one program; `_moved` has the bytes read and written by a kernel and grid."""

    program: Program
    _moved: dict[_Key, tuple[int, int]] = field(default_factory=dict[_Key, "tuple[int, int]"])

    def launches(
        self, steps: Sequence[Step], times: int = 1, per_turn: bool = False, conditional: bool = False
    ) -> list[LaunchReport]:
        """Every launch in program order."""
        found: list[LaunchReport] = []
        for step in steps:
            match step:
                case Launch():
                    found.append(self._launch(step, times, per_turn, conditional))
                case Branch():
                    for block in step.blocks:
                        found += self.launches(block, times, per_turn, True)
                case Loop(trip_count=-1):
                    found += self.launches((*step.condition, *step.body), times, True, conditional)
                case Loop():
                    found += self.launches(step.body, times * step.trip_count, per_turn, conditional)
                case Copy():
                    pass
        return found

    def _launch(self, launch: Launch, times: int, per_turn: bool, conditional: bool) -> LaunchReport:
        kernel = self.program.kernels[launch.kernel]
        equations = self.program.planned.equations
        read, written = self._bytes(launch)
        return LaunchReport(
            kernel.name,
            tuple(dict.fromkeys(equations[number].primitive for number in sorted(launch.equations))),
            _line(launch.where),
            launch.groups,
            kernel.workgroup,
            read,
            written,
            None if launch.flops < 0 else launch.flops,
            times,
            per_turn,
            conditional,
        )

    def _bytes(self, launch: Launch) -> tuple[int, int]:
        key = launch.kernel, launch.groups
        if key not in self._moved:
            kernel = self.program.kernels[launch.kernel]
            elements = touched(kernel, launch.groups)
            sizes = [(param.access, elements[param.name] * param.dtype.itemsize) for param in kernel.buffers]
            read = sum(size for access, size in sizes if access != "write")
            self._moved[key] = read, sum(size for access, size in sizes if access != "read")
        return self._moved[key]

    def work(self, steps: Sequence[Step]) -> tuple[Work, Work]:
        """What a step has, and apart from that what a turn of its loops of unknown length has."""
        known = unknown = Work()
        for step in steps:
            match step:
                case Launch():
                    known = known.plus(Work(1, 0, *self._bytes(step), max(step.flops, 0)))
                case Copy():
                    size = self.program.storage.slots[step.source].nbytes
                    known = known.plus(Work(0, 1, size, size))
                case Branch():
                    (first, inside), (second, within) = map(self.work, step.blocks)
                    known, unknown = known.plus(first.most(second)), unknown.plus(inside.most(within))
                case Loop(trip_count=-1):
                    for each in self.work((*step.condition, *step.body)):
                        unknown = unknown.plus(each)
                case Loop():
                    turn, inside = self.work(step.body)
                    known, unknown = known.plus(turn, step.trip_count), unknown.plus(inside, step.trip_count)
        return known, unknown
