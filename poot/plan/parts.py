"""The launches of a loop's turn as parts of one kernel, and the choices between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from poot.dtypes import i32
from poot.kernel.ir import (
    Assign,
    Cast,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Stmt,
    Store,
    Var,
    operands,
    walk,
)
from poot.plan.cost import costs
from poot.plan.flat import FlatGrid
from poot.plan.program import Branch, Copy, Launch, Step
from poot.plan.schedules.common import power_of_two
from poot.plan.settled import copy_kernel

if TYPE_CHECKING:
    from poot.plan.assemble import Assembly

#: Work-group, threads, and the grid of work-groups.
Size = tuple[tuple[int, int, int], tuple[int | None, ...] | None, tuple[int, int, int]]
ONE: Size = ((1, 1, 1), (1, 1, 1), (1, 1, 1))


@dataclass(frozen=True, slots=True)
class Part:
    """A launch of the turn; `lets` are the locals of its kernel that never change."""

    launch: Launch
    kernel: Kernel
    cells: Mapping[str, int]
    lets: Mapping[str, Expr]

    @staticmethod
    def of(assembly: Assembly, step: Step) -> Part | None:
        """A step as a part; None for what has to stay a step."""
        if isinstance(step, Copy):
            step = _copy(assembly, step)
        if not isinstance(step, Launch) or step.kernel in assembly.foreign or any(b.offset for b in step.bindings):
            return None
        kernel = assembly.lowering.kernels[step.kernel]
        assigned: set[str] = set()
        for node in walk(kernel.body):
            match node:
                case Let() | If() | For() | Const() | Var() | Op() | Cast():
                    pass
                case Assign():
                    assigned.add(node.name)
                case Load() | Store() if not node.checked:
                    pass
                case Index() if node.kind in ("thread", "local", "group"):
                    pass
                case _:
                    return None
        threads = kernel.threads
        if kernel.index_dtype is not i32 or (threads is not None and None in threads):
            return None
        cells = {param.name: binding.slot for param, binding in zip(kernel.buffers, step.bindings, strict=True)}
        if len(set(cells.values())) != len(cells):
            return None
        lets = {n.name: n.value for n in walk(kernel.body) if isinstance(n, Let) and n.name not in assigned}
        return Part(step, kernel, cells, lets)

    @property
    def size(self) -> Size:
        return self.kernel.workgroup, self.kernel.threads, self.launch.groups

    @property
    def threads(self) -> int:
        if self.kernel.threads is not None:
            return prod(extent or 1 for extent in self.kernel.threads)
        return prod(self.kernel.workgroup) * prod(self.launch.groups)

    @property
    def is_line(self) -> bool:
        """Whether threads differ in their number along x alone."""
        indices = [node for node in walk(self.kernel.body) if isinstance(node, Index)]
        threads = self.kernel.threads
        line = threads is not None and threads[1:] == (1, 1) and all(i.kind == "thread" for i in indices)
        return self.threads == 1 or line

    @property
    def has_loops(self) -> bool:
        return any(isinstance(node, For) for node in walk(self.kernel.body))

    @property
    def work(self) -> int:
        """Nodes that a thread evaluates."""
        return _work(self.kernel.body)

    def resolve(self, expr: Expr) -> Expr:
        """An expression without the locals that only name something."""
        match expr:
            case Var() if expr.name in self.lets:
                return self.resolve(self.lets[expr.name])
            case Op():
                return replace(expr, args=tuple(map(self.resolve, expr.args)))
            case Cast():
                return replace(expr, arg=self.resolve(expr.arg))
            case _:
                return expr


@dataclass(frozen=True, slots=True)
class Choice:
    """A branch of the turn, by the cell of its predicate."""

    predicate: int
    blocks: tuple[tuple[Node, ...], tuple[Node, ...]]


Node = Part | Choice


def tree_of(assembly: Assembly, steps: Sequence[Step]) -> tuple[Node, ...] | None:
    """Steps as parts and choices between them; None where one has to stay a step."""
    found: list[Node] = []
    for step in steps:
        if isinstance(step, Branch):
            first, second = (tree_of(assembly, block) for block in step.blocks)
            if first is None or second is None:
                return None
            found.append(Choice(step.predicate, (first, second)))
        else:
            part = Part.of(assembly, step)
            if part is None:
                return None
            found.append(part)
    return tuple(found)


def parts_of(tree: Sequence[Node]) -> Iterator[Part]:
    """The parts of a turn in order, those of both sides of each choice."""
    for node in tree:
        if isinstance(node, Part):
            yield node
        else:
            for block in node.blocks:
                yield from parts_of(block)


def predicates_of(tree: Sequence[Node]) -> Iterator[int]:
    """The cells that choices depend on."""
    for node in tree:
        if isinstance(node, Choice):
            yield node.predicate
            for block in node.blocks:
                yield from predicates_of(block)


def flops_of(tree: Sequence[Node]) -> int:
    """What a turn counts, of each choice the side that has more."""
    total = 0
    for node in tree:
        total += node.launch.flops if isinstance(node, Part) else max(map(flops_of, node.blocks))
    return total


def _copy(assembly: Assembly, step: Copy) -> Launch:
    """A copy as the launch that a pointwise kernel of its size is."""
    spec = assembly.cells.slots[step.target].spec
    width = power_of_two(spec.size, costs(assembly.target).width(spec.dtype))
    grid = FlatGrid(spec.size, width, assembly.target.limit("grid"))
    return assembly.launch(copy_kernel(spec, grid), (step.source, step.target), grid.groups, (), None)


def _work(body: Sequence[Stmt]) -> int:
    total = 0
    for stmt in body:
        match stmt:
            case For():
                known = isinstance(stmt.start, Const) and isinstance(stmt.stop, Const)
                trips = (int(stmt.stop.value) - int(stmt.start.value)) // stmt.step + 1 if known else 1 << 16  # type: ignore[union-attr]
                total += max(trips, 1) * _work(stmt.body)
            case If():
                total += 1 + _work(stmt.then) + _work(stmt.orelse)
            case _:
                total += sum(1 + _nodes(expr) for expr in operands(stmt))
    return total


def _nodes(expr: Expr) -> int:
    return 1 + sum(map(_nodes, operands(expr)))
