"""Barriers in uniform branches and loops on every device: what follows them runs once a thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from poot.dtypes import i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr, Var
from tests.device_runs import agree

WIDTH = 16


class Group:
    """A kernel of one work-group in the making: `n` is uniform, `total` a number of each thread's."""

    def __init__(self) -> None:
        self.k = k = KernelBuilder("group", workgroup=(WIDTH, 1, 1))
        self.n = k.scalar("n", i32)
        self.counts, self.out = k.buffer("counts", i32, "readwrite", (4,)), k.buffer("out", i32, "write", (2 * WIDTH,))
        self.tile = k.alloc("tile", i32, (WIDTH,), "shared")
        self.lane = k.index("local", 0)
        self.total: Var = k.let(k.i(0), "total")

    def meet(self, slot: int) -> None:
        """Read what another thread wrote, and count who was here."""
        k = self.k
        k.store(self.tile, (self.lane,), k.op("add", self.lane, k.i(slot)))
        k.barrier()
        other = k.let(k.load(self.tile, (k.op("sub", k.i(WIDTH - 1), self.lane),)), "other")
        k.barrier()
        k.assign(self.total, k.op("add", self.total, other))
        self.count(slot, k.i(1))

    def count(self, slot: int, by: Expr) -> None:
        self.k.atomic("add", self.counts, (self.k.i(slot),), by)

    def above(self, bound: int) -> Expr:
        return self.k.op("gt", self.n, self.k.i(bound))


def branch(g: Group) -> None:
    with g.k.if_(g.above(2)):
        g.meet(0)


def one_way_or_the_other(g: Group) -> None:
    with g.k.if_(g.above(2)):
        g.meet(0)
    with g.k.if_(g.k.op("not", g.above(2))):
        g.meet(1)


def nested(g: Group) -> None:
    with g.k.if_(g.above(2)):
        with g.k.if_(g.above(4)):
            g.meet(0)
        with g.k.for_(g.k.i(0), g.k.i(3)) as turn:
            g.count(1, turn)


def branch_in_a_loop(g: Group) -> None:
    with g.k.for_(g.k.i(0), g.n) as turn:
        with g.k.if_(g.k.op("eq", g.k.op("rem", turn, g.k.i(2)), g.k.i(0))):
            g.meet(0)
        with g.k.for_(g.k.i(0), g.k.i(3)) as inner:
            g.count(1, inner)


def loop_left_early(g: Group) -> None:
    with g.k.for_(g.k.i(0), g.k.i(9)) as turn:
        g.meet(0)
        with g.k.if_(g.k.op("ge", turn, g.n)):
            g.k.break_()
        g.count(1, turn)


def turns_left_out(g: Group) -> None:
    with g.k.for_(g.k.i(0), g.k.i(9)) as turn:
        with g.k.if_(g.k.op("ge", turn, g.n)):
            g.k.continue_()
        g.meet(0)
        g.count(1, turn)


def loops_around_a_branch(g: Group) -> None:
    with g.k.for_(g.k.i(0), g.n):
        g.meet(0)
    branch(g)
    with g.k.for_(g.k.i(0), g.n):
        g.meet(1)


def return_of_all(g: Group) -> None:
    with g.k.if_(g.above(2)):
        g.meet(0)
        with g.k.if_(g.above(6)):
            g.k.return_()
    g.meet(1)


def return_of_some(g: Group) -> None:
    branch(g)
    with g.k.if_(g.k.op("gt", g.lane, g.k.i(2))):
        g.k.return_()


KINDS = [
    *(branch, one_way_or_the_other, nested, branch_in_a_loop, loop_left_early, turns_left_out),
    *(loops_around_a_branch, return_of_all, return_of_some),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_follows_runs_once(device_name: str, kind: Callable[[Group], None]) -> None:
    for n in (0, 3, 8):
        g = Group()
        kind(g)
        with g.k.for_(g.k.i(0), g.k.op("add", g.lane, g.k.i(2))) as turn:
            g.count(3, turn)
            g.k.assign(g.total, g.k.op("add", g.total, turn))
        g.k.store(g.out, (g.k.index("thread", 0),), g.total)
        values = {"n": n, "counts": np.zeros(4, np.int32), "out": np.zeros(2 * WIDTH, np.int32)}
        agree(device_name, g.k.finish(), values, groups=(2, 1, 1))
