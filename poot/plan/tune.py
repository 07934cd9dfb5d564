"""Alternatives to the schedules that the cost model picks, for a tuner that can measure them.

The planner runs nothing.  With `CompileOptions.tuner` it hands the tuner each kind of group once: what the group
computes, the schedule that the cost model picks, and others, which follow from other figures than the model's.  What
the tuner gives back is used instead.  No alternative changes what a program's numerics class promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

from poot.dtypes import ArraySpec
from poot.plan.cost import Costs
from poot.plan.groups import Group
from poot.plan.program import Declined
from poot.plan.schedules.common import GroupPlan
from poot.target import Target
from poot.trace.graph import Graph, Tree, Variable

Make = Callable[[], GroupPlan]


@dataclass(frozen=True, slots=True)
class Task:
    """One group to tune.

    `graph` computes what the group does; its inputs and outputs are `reads` and `writes`, in the order of the value ids
    that the arguments of a plan name.  `default` is the cost model's schedule; `others` make the alternatives, each
    under a name that stays the same from compile to compile.  `work` counts the elements that are combined.
    """

    name: str
    graph: Graph
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    specs: Mapping[int, ArraySpec]
    default: GroupPlan
    others: Mapping[str, Make]
    target: Target
    contract: bool
    work: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuner's answer: the plan to use, what to tell of it, and which alternatives were turned down and why."""

    plan: GroupPlan
    note: str = ""
    declined: tuple[Declined, ...] = ()


class Tuner(Protocol):
    """Whoever measures alternatives."""

    def choose(self, task: Task) -> Tuned:
        """The plan to use for a group: the task's default, or one of the others."""
        ...


def task_of(group: Group, default: GroupPlan, others: Mapping[str, Make], target: Target, *, contract: bool) -> Task:
    """A group as a task."""
    reads = tuple(group.reads)
    equations = tuple(group.members[number] for number in sorted(group.members))
    graph = Graph(
        (),
        tuple(Variable(f"x{number}", value) for number, value in enumerate(group.reads.values())),
        (),
        equations,
        tuple(group.outputs),
        Tree("tuple", (Tree(),) * len(group.outputs)),
        name="group",
    )
    specs = {value.id: value.spec for value in (*group.reads.values(), *group.outputs)}
    work = sum(value.spec.size for value in group.outputs) * max(group.length, 1)
    name = "_".join(dict.fromkeys(equation.primitive for equation in equations))[:60]
    writes = tuple(value.id for value in group.outputs)
    return Task(name, graph, reads, writes, specs, default, others, target, contract, work)


def alternatives(figures: Costs, kind: str, most: int) -> dict[str, Costs]:
    """Figures that other schedules of a kind of group follow from, by name; `most` is the largest work-group."""
    found: dict[str, Costs] = {}

    def add(name: str, **changes: int) -> None:
        changed = replace(figures, **changes)
        if changed != figures:
            found[name] = changed

    widths = [width for width in (32, 64, 128, 256, 512) if width <= most and width <= 4 * figures.lanes]
    match kind:
        case "map":
            for width in widths:
                add(f"width {width}", lanes=width)
        case "reduce":
            for width, cache in product(widths, (figures.row_cache, 0)):
                add(f"width {width}, {cache} bytes of a row kept", row_lanes=width, row_cache=cache)
        case "contract":
            for rows, lanes in product((2, 4, 6, 8, 12), (32, 64, 128)):
                if lanes > most:
                    continue
                if figures.sums:  # the schedule finds rows for so many vectors of sums
                    add(f"tiles of {2 * rows} vectors, {lanes} lanes", sums=2 * rows, tile_lanes=lanes)
                else:
                    add(f"tiles of {rows} by {lanes}", tile_rows=rows, tile_lanes=lanes)
            if figures.slabs:
                add("no slabs", slabs=False)
            for width in widths:
                add(f"dots of {width}", row_lanes=width)
        case "attention":
            for lanes, block, tile in product((16, 32, 64, 128), (16, 32, 64), (4, 8, 16)):
                if lanes <= most:
                    add(
                        f"{lanes} queries, {block} keys, tiles of {tile}",
                        stream_lanes=lanes,
                        stream_block=block,
                        stream_tile=tile,
                    )
        case _:
            pass
    return found
