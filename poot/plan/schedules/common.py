"""What schedules share: their context and result, loops collapsed from axes, and grids of work-groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod

from poot.dtypes import ArraySpec, DType, i32, i64
from poot.errors import SourceLocation, Unsupported
from poot.kernel.ir import Expr, Kernel
from poot.plan import cost
from poot.plan.elements import Elements, Inside
from poot.plan.emitter import Emitter
from poot.plan.groups import Group
from poot.plan.indexing import Affine, Axis, Indices, Quotient, Space, expand, flatten, loops_of
from poot.plan.legal import SMALLER
from poot.target import Target
from poot.trace.graph import Equation, Value
from poot.trace.primitives import is_movement

Loop = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """One kernel launch of a group: `arguments` are value ids, or -1 - n for temporary n."""

    kernel: Kernel
    groups: tuple[int, int, int]
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The launches of a group, in order, and the temporaries between them.

    `main` is the place of the one that does most of the work, and to which the group's flops are counted.
    """

    setups: tuple[Setup, ...]
    temporaries: tuple[ArraySpec, ...] = ()
    main: int = -1

    def is_main(self, place: int) -> bool:
        """Whether the launch at a place counts for the group."""
        return place == self.main % len(self.setups)


@dataclass(frozen=True, slots=True)
class Context:
    """What a schedule works with.

    `constants` are the ids of read values that stay the same from step to step: what reads such alone runs once.
    """

    target: Target
    costs: cost.Costs
    space: Space
    constants: frozenset[int] = frozenset()

    def refuse(self, group: Group, message: str) -> Unsupported:
        """The error for a group that the target cannot run, naming its last equation and the user's line."""
        number = max(group.members)
        equation = group.members[number]
        return Unsupported(
            what=f"equation {number} ({equation.primitive})",
            target=self.target,
            message=message,
            where=equation.where,
            remedy=SMALLER,
        )


# --- groups as schedules see them -------------------------------------------------------------------------------------


def kernel_name(group: Group) -> str:
    """A name made of the group's primitives, the same for equal groups."""
    if group.kind == "attention":
        return "attention"
    names: dict[str, None] = {}
    for number in sorted(group.members):
        primitive = group.members[number].primitive
        if not is_movement(primitive):
            names[primitive] = None
    if not names:
        names[group.members[max(group.members)].primitive] = None
    return "_".join(names)[:60].rstrip("_")


def inside(group: Group) -> Inside:
    """The group's members by the values they make."""
    producers = {value.id: group.members[n] for n in sorted(group.members) for value in group.members[n].outputs}
    return Inside(producers, frozenset(group.imperative), group.products)


def stored(group: Group) -> list[tuple[Value, Indices]]:
    """The values that a group stores, in the order of their ids."""
    return sorted(group.outputs.items(), key=lambda item: item[0].id)


def accesses(group: Group) -> list[Affine]:
    """The flat forms at which buffers are read and written, where they are known."""
    forms = [flatten(index, value.shape) for value, index in group.outputs.items()]
    for value in group.reads.values():
        forms += [flatten(index, value.shape) for index in group.places.get(value.id) or () if value.shape]
    return forms


def pinned(group: Group, forms: Iterable[Affine]) -> set[Axis]:
    """Axes whose own values are used, so that they cannot be merged into longer loops."""
    found = {axis for index in group.pinned for form in index for axis in expand(form).axes}
    for form in forms:
        for axis in form.axes:
            if isinstance(axis.source, Quotient):
                found |= set(loops_of(axis.source.of))
    return found


def collapse(axes: Sequence[Axis], forms: Sequence[Affine], fixed: set[Axis]) -> list[Loop]:
    """Merge axes that every access goes through evenly into longer loops; outermost first."""
    loops: list[list[Axis]] = []
    for axis in axes:
        if loops:
            before = loops[-1][-1]
            free = axis not in fixed and before not in fixed
            if free and all(form.coefficient(before) == form.coefficient(axis) * axis.extent for form in forms):
                loops[-1].append(axis)
                continue
        loops.append([axis])
    return [tuple(loop) for loop in loops]


def extent(loop: Loop) -> int:
    """The turns of a loop."""
    return prod(axis.extent for axis in loop)


def by_stride(axes: Iterable[Axis], form: Affine) -> list[Axis]:
    """Axes in the order of their strides in an access, largest first."""
    return sorted(axes, key=lambda axis: -abs(form.coefficient(axis)))


def index_dtype(group: Group, temporaries: Iterable[int] = ()) -> DType:
    """i32, or i64 where a buffer or the loops have 2^31 elements or more."""
    sizes = [value.spec.size for value in (*group.outputs, *group.reads.values())]
    largest = max([*sizes, *temporaries, group.rows * max(group.length, 1)])
    return i64 if largest >= 1 << 31 else i32


def widest(group: Group) -> DType:
    """The widest dtype among a group's buffers."""
    return max((value.dtype for value in (*group.outputs, *group.reads.values())), key=lambda dtype: dtype.bits)


def power_of_two(least: int, most: int) -> int:
    """The least power of two that is at least `least`, but no more than `most`."""
    width = 1
    while width < min(least, most):
        width *= 2
    return width


# --- grids ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """Loops spread over threads or over work-groups.

    The last loop goes along x, the one before along y, all others together along z.  With `whole` each turn is a whole
    work-group, else a thread.  A grid longer than the target allows counts all turns by one number instead (`flat`).
    """

    loops: tuple[Loop, ...]
    width: int
    whole: bool
    flat: bool
    counts: tuple[int, int, int]

    @property
    def workgroup(self) -> tuple[int, int, int]:
        return (self.width, 1, 1)

    @property
    def groups(self) -> tuple[int, int, int]:
        x, y, z = self.counts
        return (x, y, z) if self.whole else (-(-x // self.width), y, z)

    @property
    def threads(self) -> tuple[int, int, int] | None:
        return None if self.whole else self.counts

    def bind(self, k: Emitter) -> AbstractContextManager[None]:
        """Give every loop its value; statements belong inside the context that is returned."""
        kind = "group" if self.whole else "thread"
        x, y, z = (k.index(kind, axis) for axis in range(3))
        if self.flat:
            number = k.let(k.op("add", k.op("mul", y, k.i(self.counts[0])), x), "n")
            bind_together(k, self.loops, number)
            total = prod(extent(loop) for loop in self.loops)
            covered = self.counts[0] * self.counts[1] == total
            return nullcontext() if covered else k.if_(k.op("lt", number, k.i(total)))
        outer, last = self.loops[:-2], self.loops[-2:]
        for loop, value in zip(reversed(last), (x, y), strict=False):
            k.bind(loop, value)
        bind_together(k, outer, z)
        return nullcontext()


def bind_together(k: Emitter, loops: Sequence[Loop], number: Expr) -> None:
    """Let one number count through several loops, the last one fastest."""
    if len(loops) == 1:
        k.bind(loops[0], number)
        return
    for place in reversed(range(len(loops))):
        turns = extent(loops[place])
        if place == 0:
            k.bind(loops[place], number)
            break
        k.bind(loops[place], k.variable(k.op("rem", number, k.i(turns)), "i"))
        number = k.variable(k.op("floor_div", number, k.i(turns)), "n")


def make_grid(context: Context, group: Group, loops: Sequence[Loop], width: int, *, whole: bool) -> Grid:
    """The grid for some loops; Unsupported where no grid of the target is large enough."""
    counts = [extent(loop) for loop in reversed(loops[-2:])] + [1, 1]
    x, y = counts[:2]
    z = prod(extent(loop) for loop in loops[:-2])
    limit = context.target.limit("grid")
    step = 1 if whole else width
    if max(-(-x // step), y, z) <= limit:
        return Grid(tuple(loops), width, whole, False, (x, y, z))
    turns = -(-x * y * z // step)
    sheets = -(-turns // limit)
    if sheets > limit:
        raise context.refuse(group, f"{turns} work-groups are more than its grids hold, {limit} by {limit}")
    per_sheet = -(-turns // sheets)
    return Grid(tuple(loops), width, whole, True, (per_sheet * step, sheets, 1))


def start(
    context: Context, group: Group, grid: Grid, suffix: str = "", dtype: DType | None = None, name: str = ""
) -> Elements:
    """A kernel's builder over a grid, with its loops still to be bound."""
    k = Emitter(
        (name or kernel_name(group)) + suffix,
        context.space,
        workgroup=grid.workgroup,
        threads=grid.threads,
        index_dtype=dtype or index_dtype(group),
    )
    return Elements(k, inside(group))


def setup(elements: Elements, groups: tuple[int, int, int]) -> Setup:
    """The launch of a kernel that is complete."""
    return Setup(elements.k.finish(), groups, tuple(elements.arguments))


def where(equations: Iterable[Equation]) -> SourceLocation | None:
    """The line that a launch names: of an equation that can fault, else of the last one that has a line."""
    found: SourceLocation | None = None
    for equation in equations:
        if equation.where is not None:
            found = equation.where
            if "fault" in equation.effects:
                break
    return found
