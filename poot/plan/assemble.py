"""Assembly: the steps of a program, from the groups of its graph and of the regions inside.

Every value that is stored gets a cell, which becomes a slot.  The caller of `run` says which cells hold the inputs of a
graph and which are to hold its outputs; kernels write the latter directly where they can, copies fill the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from poot.dtypes import i32, i64
from poot.errors import SourceLocation, Unsupported, retyped
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.plan.control import lower_single
from poot.plan.flat import FlatGrid
from poot.plan.fuse import Fusion, fuse
from poot.plan.groups import Group
from poot.plan.legal import Legality
from poot.plan.lower import Lowering
from poot.plan.program import Binding, Copy, Declined, EquationPlan, Launch, Slot, Step
from poot.plan.prologue import Constants, accesses, constant_setups
from poot.plan.schedules.common import GroupPlan, power_of_two, where
from poot.plan.storage import Cells
from poot.plan.updates import Carried
from poot.plan.within import PLANNED, Path, Within
from poot.plan.work import flops
from poot.target import Target
from poot.trace.graph import Atom, Graph, Literal, Value
from poot.trace.primitives import HostControl, is_movement, lookup


@dataclass(slots=True)
class Assembly:
    """What the blocks of one program share."""

    target: Target
    lowering: Lowering
    legality: Legality
    cells: Cells = field(default_factory=Cells)
    declined: list[Declined] = field(default_factory=list[Declined])
    constants: Constants = field(default_factory=Constants)
    #: Cells that no turn of the loops around changes: what reads such alone is computed before the loop.
    fixed: set[int] = field(default_factory=set[int])
    #: The numbers of kernels that the planner did not make: nothing is known of their stores.
    foreign: set[int] = field(default_factory=set[int])
    #: The numbers of kernels that change a few elements of a buffer, in each turn of a loop others.
    updating: set[int] = field(default_factory=set[int])
    streaming: bool = True

    def row_of(self, size: int) -> FlatGrid:
        """A grid for one thread an element."""
        width = power_of_two(size, min(64, self.target.limit("workgroup_invocations")))
        return FlatGrid(size, width, self.target.limit("grid"))

    def launch(
        self,
        kernel: Kernel,
        cells: Sequence[int],
        groups: tuple[int, int, int],
        equations: tuple[int, ...],
        line: SourceLocation | None,
        flops: int = 0,
        inside: Path = (),
    ) -> Launch:
        """One launch; Unsupported where the target cannot run it."""
        self.legality.require(kernel, [self.cells.slots[cell] for cell in cells], groups, equations, line)
        bindings = tuple(Binding(cell) for cell in cells)
        return Launch(self.lowering.number(kernel), bindings, groups, equations, line, flops, inside)


@dataclass(slots=True)
class Block:
    """The steps of one graph: the whole program, or a region inside an equation.

    `cells` maps value ids to cells, `within` says where the equations stand.
    `carried` are the values that may be changed where they lie.
    """

    assembly: Assembly
    graph: Graph
    cells: dict[int, int]
    within: Within = PLANNED
    carried: Carried | None = None
    steps: list[Step] = field(default_factory=list[Step])
    fusion: Fusion = field(init=False)
    plans: list[EquationPlan] = field(init=False)

    def run(self, outputs: Sequence[Atom], targets: Sequence[int]) -> tuple[Step, ...]:
        """The steps that leave each output in its target cell."""
        with self._refusing():
            self.fusion = fuse(
                self.graph,
                self.assembly.target,
                self.assembly.lowering.space,
                streaming=self.assembly.streaming,
                carried=self.carried,
            )
        self.plans = [EquationPlan("dead") for _ in self.graph.equations]
        claimed = self._claim(outputs, targets)
        for group in self.fusion.groups:
            self._group(group)
        self._aliases()
        for position, (atom, target) in enumerate(zip(outputs, targets, strict=True)):
            if position not in claimed:
                self.fill(atom, target, self.steps)
        return tuple(self.steps)

    @contextmanager
    def _refusing(self) -> Generator[None]:
        """Let a refusal of what is inside a region say so; what slices operands is a part of the region's equation."""
        try:
            yield
        except Unsupported as error:
            if self.within.outer < 0 or "region" in error.fields:
                raise
            number = re.match(r"equation (\d+)", error.fields["what"])
            owner = self.assembly.legality.graph.equations[self.within.outer]
            name = "" if number is None else self.within.named(int(number[1]))
            if number is None or not name:
                what = f"equation {self.within.outer} ({owner.primitive})"
            else:
                what = f"{name}{error.fields['what'][number.end() :]}{self.within.words}"
            fields = {**error.fields, "what": what, "region": self.within.words}
            raise retyped(error, Unsupported, fields).at(owner.where) from None

    # --- cells ---

    def base(self, value: Value) -> Value:
        """The value whose storage a value has."""
        while value.id in self.fusion.aliases:
            value = self.fusion.aliases[value.id]
        return value

    def cell(self, value: Value) -> int:
        """The cell of a stored value, made at first use."""
        value = self.base(value)
        if value.id not in self.cells:
            self.cells[value.id] = self.assembly.cells.new("scratch", value.spec)
        return self.cells[value.id]

    def _claim(self, outputs: Sequence[Atom], targets: Sequence[int]) -> set[int]:
        """Let kernels write outputs directly: the first output that needs a value claims it."""
        made = {value.id for group in self.fusion.groups for value in group.outputs}
        claimed: set[int] = set()
        for position, (atom, target) in enumerate(zip(outputs, targets, strict=True)):
            if not isinstance(atom, Value):
                continue
            base = self.base(atom)
            if base.id in made and base.id not in self.cells:
                self.cells[base.id] = target
                claimed.add(position)
        return claimed

    def fill(self, atom: Atom, target: int, steps: list[Step]) -> None:
        """Put a literal, or a value that lives elsewhere, into a cell."""
        if atom.spec.size == 0:
            return
        if isinstance(atom, Value):
            if self.cell(atom) != target:
                steps.append(Copy(self.cell(atom), target))
            return
        kernel = fill_kernel(atom)
        steps.append(self.assembly.launch(kernel, (target,), (1, 1, 1), (), None))

    # --- groups ---

    def _group(self, group: Group) -> None:
        members = sorted(group.members, key=lambda number: ("fault" not in group.members[number].effects, number))
        if group.kind == "single":
            (number,) = group.members
            control = isinstance(lookup(group.members[number].primitive).lower, HostControl)
            with self._refusing():
                self.steps += lower_single(self, number, group)
            self.plans[number] = EquationPlan("control" if control else "kernel")
            return
        constants = self._constants(group)
        with self._refusing():
            plan = self.assembly.lowering.lower(group, constants | self._among(group, self.assembly.fixed))
        line = where(group.members[number] for number in members)
        values = {value.id: value for value in (*group.outputs, *group.reads.values())}
        work = _Work(self, group, plan, values, self.within.numbers(members), line)
        inside = self.within.inside(members[0])
        once = work.prologue(constants)
        if group.kind == "update":
            equation = group.members[group.update]
            self.fill(equation.inputs[0], self.cell(equation.outputs[0]), self.steps)
            self.assembly.updating.update(self.assembly.lowering.number(setup.kernel) for setup in plan.setups)
        for place, setup in enumerate(plan.setups):
            if place not in once:
                cells = [work.cell(argument) for argument in setup.arguments]
                self.steps.append(
                    self.assembly.launch(
                        setup.kernel, cells, setup.groups, work.equations, line, work.flops(place), inside
                    )
                )
        whole = len(once) == len(plan.setups)
        for number, equation in group.members.items():
            moved = is_movement(equation.primitive) and equation.outputs[0] not in group.outputs
            if self.plans[number].fate == "dead":
                fate = "view" if moved else "prologue" if whole else "kernel"
                self.plans[number] = EquationPlan(fate)

    def _constants(self, group: Group) -> frozenset[int]:
        """The ids of the values that a group reads which stay the same from step to step."""
        return self._among(group, self.assembly.constants.cells)

    def _among(self, group: Group, known: Collection[int]) -> frozenset[int]:
        return frozenset(value.id for value in group.reads.values() if self.cells.get(self.base(value).id) in known)

    def _aliases(self) -> None:
        for number, equation in enumerate(self.graph.equations):
            if self.plans[number].fate == "dead" and equation.outputs:
                if equation.outputs[0].id in self.fusion.aliases:
                    self.plans[number] = EquationPlan("alias", note="the same memory in another shape")
                elif not any(value.spec.size for value in equation.outputs):
                    self.plans[number] = EquationPlan("fold", note="no elements")
        found = [(number, " stands alone", reason) for number, reason in self.fusion.declined.items()]
        found += [(number, ": no attention is streamed", reason) for number, reason in self.fusion.unstreamed.items()]
        for number, ending, reason in sorted(found):
            equation = self.graph.equations[number]
            name = self.within.named(number) or "a turn's slice"
            what = f"{name} ({equation.primitive}){self.within.words}{ending}"
            self.assembly.declined.append(Declined(what, reason, equation.where))


@dataclass(slots=True)
class _Work:
    """The cells of one group's launches, and those of its launches that run once."""

    block: Block
    group: Group
    plan: GroupPlan
    values: Mapping[int, Value]
    equations: tuple[int, ...]
    line: SourceLocation | None
    temporaries: dict[int, int] = field(default_factory=dict[int, int])

    def cell(self, argument: int) -> int:
        """The cell of a value, or of a temporary, made at first use."""
        if argument >= 0:
            return self.block.cell(self.values[argument])
        if argument not in self.temporaries:
            spec = self.plan.temporaries[-1 - argument]
            self.temporaries[argument] = self.block.assembly.cells.new("scratch", spec)
        return self.temporaries[argument]

    def flops(self, place: int) -> int:
        """What counts for the launch at a place of the plan."""
        return flops(self.group.members.values()) if self.plan.is_main(place) else 0

    def prologue(self, constants: frozenset[int]) -> set[int]:
        """Move the launches that depend on constants alone to the prologue; their places."""
        if self.group.faults or not (constants or not self.group.reads):
            return set()
        fresh = {value.id for value in self.group.outputs if value.id not in self.block.cells}
        moved: set[int] = set()
        for place in constant_setups(self.plan, constants, fresh):
            if not self._once(place):
                break  # later ones may need it
            moved.add(place)
        return moved

    def _once(self, place: int) -> bool:
        setup = self.plan.setups[place]
        assembly, known = self.block.assembly, self.block.assembly.constants
        reads, writes = accesses(setup)
        sources = [self.cell(argument) for argument in reads]
        if not known.cells.issuperset(sources) or known.can_fault(setup.kernel):
            return False
        specs = [self.plan.temporaries[-1 - a] if a < 0 else self.values[a].spec for a in writes]
        key = assembly.lowering.number(setup.kernel), setup.groups, tuple(sources)
        cells = known.made.get(key)
        if cells is None:
            slots = assembly.cells.slots
            if not known.affords([slots[cell] for cell in set(sources)], [Slot("kept", spec) for spec in specs]):
                return False
            cells = known.made[key] = tuple(assembly.cells.new("kept", spec) for spec in specs)
            known.cells.update(cells)
            self._place(writes, cells)
            bound = [self.cell(argument) for argument in setup.arguments]
            known.steps.append(
                assembly.launch(setup.kernel, bound, setup.groups, self.equations, self.line, self.flops(place))
            )
        self._place(writes, cells)
        return True

    def _place(self, writes: Sequence[int], cells: Sequence[int]) -> None:
        for argument, cell in zip(writes, cells, strict=True):
            if argument < 0:
                self.temporaries[argument] = cell
            else:
                self.block.cells[argument] = cell


def fill_kernel(literal: Literal, size: int = 1) -> Kernel:
    """A kernel that stores a literal into every element of a flat buffer."""
    width = power_of_two(size, 64)
    index = i32 if size < 1 << 31 else i64
    k = KernelBuilder("fill", workgroup=(width, 1, 1), threads=(size, 1, 1), index_dtype=index)
    out = k.buffer("out0", literal.dtype, "write", (size,))
    k.store(out, (k.index("thread", 0),), k.const(literal.value, literal.dtype))
    return k.finish()
