"""Assembly: the steps of a program, from the groups of its graph and of the regions inside.

Every value that is stored gets a cell, which becomes a slot.  The caller of `run` says which cells hold the inputs of a
graph and which are to hold its outputs; kernels write the latter directly where they can, copies fill the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from poot.dtypes import i32, i64
from poot.errors import SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.plan.control import lower_single
from poot.plan.fuse import Fusion, fuse
from poot.plan.groups import Group
from poot.plan.lower import Lowering
from poot.plan.program import Binding, Copy, EquationPlan, Launch, Step
from poot.plan.schedules.common import power_of_two, where
from poot.plan.storage import Cells
from poot.target import Target
from poot.trace.graph import Atom, Graph, Literal, Value
from poot.trace.primitives import HostControl, Pull, lookup


@dataclass(slots=True)
class Assembly:
    """What the blocks of one program share."""

    target: Target
    lowering: Lowering
    cells: Cells = field(default_factory=Cells)
    launches: int = 0
    declined: list[str] = field(default_factory=list[str])

    def launch(
        self,
        kernel: Kernel,
        cells: Sequence[int],
        groups: tuple[int, int, int],
        equations: tuple[int, ...],
        line: SourceLocation | None,
    ) -> Launch:
        """One launch, numbered in program order."""
        self.launches += 1
        bindings = tuple(Binding(cell) for cell in cells)
        return Launch(self.lowering.number(kernel), bindings, groups, equations, line)


@dataclass(slots=True)
class Block:
    """The steps of one graph: the whole program, or a region inside an equation.

    `cells` maps value ids to cells; `wanted` maps outputs by position to the cell that is to hold each.
    """

    assembly: Assembly
    graph: Graph
    cells: dict[int, int]
    outer: int = -1
    steps: list[Step] = field(default_factory=list[Step])
    fusion: Fusion = field(init=False)
    plans: list[EquationPlan] = field(init=False)

    def run(self, outputs: Sequence[Atom], targets: Sequence[int]) -> tuple[Step, ...]:
        """The steps that leave each output in its target cell."""
        self.fusion = fuse(self.graph, self.assembly.target, self.assembly.lowering.space)
        self.plans = [EquationPlan("dead") for _ in self.graph.equations]
        claimed = self._claim(outputs, targets)
        for group in self.fusion.groups:
            self._group(group)
        self._aliases()
        for position, (atom, target) in enumerate(zip(outputs, targets, strict=True)):
            if position not in claimed:
                self.fill(atom, target, self.steps)
        return tuple(self.steps)

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

    def numbers(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Equations of the planned graph that a launch names: its own, or the one that the region belongs to."""
        return tuple(numbers) if self.outer < 0 else (self.outer,)

    def _group(self, group: Group) -> None:
        first = self.assembly.launches
        members = sorted(group.members, key=lambda number: ("fault" not in group.members[number].effects, number))
        if group.kind == "single":
            (number,) = group.members
            control = isinstance(lookup(group.members[number].primitive).lower, HostControl)
            self.steps += lower_single(self, number, group)
            self.plans[number] = EquationPlan("control" if control else "kernel", first)
            return
        plan = self.assembly.lowering.lower(group)
        temporaries = [self.assembly.cells.new("scratch", spec) for spec in plan.temporaries]
        values: Mapping[int, Value] = {value.id: value for value in (*group.outputs, *group.reads.values())}
        line = where(group.members[number] for number in members)
        for setup in plan.setups:
            cells = [temporaries[-1 - a] if a < 0 else self.cell(values[a]) for a in setup.arguments]
            launch = self.assembly.launch(setup.kernel, cells, setup.groups, self.numbers(members), line)
            self.steps.append(launch)
        last = self.assembly.launches - 1
        for number, equation in group.members.items():
            rule = lookup(equation.primitive).lower
            moved = isinstance(rule, Pull) and rule.movement and equation.outputs[0] not in group.outputs
            if self.plans[number].fate == "dead":
                self.plans[number] = EquationPlan("view" if moved else "kernel", last)

    def _aliases(self) -> None:
        for number, equation in enumerate(self.graph.equations):
            if self.plans[number].fate == "dead" and equation.outputs:
                if equation.outputs[0].id in self.fusion.aliases:
                    self.plans[number] = EquationPlan("alias", note="the same memory in another shape")
                elif not any(value.spec.size for value in equation.outputs):
                    self.plans[number] = EquationPlan("fold", note="no elements")
        for number, reason in sorted(self.fusion.declined.items()):
            equation = self.graph.equations[number]
            self.assembly.declined.append(f"equation {number} ({equation.primitive}) stands alone: {reason}")


def fill_kernel(literal: Literal, size: int = 1) -> Kernel:
    """A kernel that stores a literal into every element of a flat buffer."""
    width = power_of_two(size, 64)
    index = i32 if size < 1 << 31 else i64
    k = KernelBuilder("fill", workgroup=(width, 1, 1), threads=(size, 1, 1), index_dtype=index)
    out = k.buffer("out0", literal.dtype, "write", (size,))
    k.store(out, (k.index("thread", 0),), k.const(literal.value, literal.dtype))
    return k.finish()
