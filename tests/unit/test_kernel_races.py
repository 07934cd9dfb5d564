"""Watched runs: planted races, missing barriers and uninitialised reads are found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.dtypes import f32, i32
from poot.errors import KernelError, SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.interpret import bind, run
from poot.kernel.ir import Expr, Kernel
from tests.unit.test_kernel_interpret import transpose


def watched(kernel: Kernel, values: dict[str, Any], groups: tuple[int, int, int]) -> None:
    check(kernel)
    run(kernel, bind(kernel, values), groups=groups, checks=True)


def cooperative(body: Callable[[KernelBuilder, Expr, str], None], groups: int = 2) -> None:
    """Run a body that has its local number and a shared array of 8, in work-groups of 8; lines count from 1."""
    k = KernelBuilder("team", workgroup=(8, 1, 1))
    k.buffer("x", i32, "readwrite", (16,))
    tile = k.alloc("tile", i32, (8,), "shared")
    body(k, k.index("local", 0), tile)
    watched(k.finish(), {"x": np.arange(100, 116, dtype=np.int32)}, (groups, 1, 1))


def at(k: KernelBuilder, line: int) -> None:
    k.where = SourceLocation("team.py", line)


def failure(body: Callable[[KernelBuilder, Expr, str], None]) -> str:
    with pytest.raises(KernelError) as caught:
        cooperative(body)
    return str(caught.value)


def rotate(k: KernelBuilder, lane: Expr, tile: str, *, barriers: int) -> None:
    thread = k.index("thread", 0)
    at(k, 3)
    k.store(tile, (lane,), k.load("x", (thread,)))
    if barriers > 0:
        k.barrier()
    at(k, 5)
    after = k.let(k.load(tile, (k.op("rem", k.op("add", lane, k.i(1)), k.i(8)),)), "after")
    if barriers > 1:
        k.barrier()
    at(k, 7)
    k.store(tile, (lane,), after)
    k.store("x", (thread,), k.load(tile, (lane,)))


def test_a_missing_barrier_between_a_write_and_a_read() -> None:
    assert failure(lambda k, lane, tile: rotate(k, lane, tile, barriers=0)) == (
        "kernel team: race on `tile`: thread (0, 0, 0) reads an element that thread (1, 0, 0) wrote at team.py:3, "
        "with no barrier between them\n  at team.py:5\n  Remedy: put barrier() between them, or use atomics."
    )


def test_a_missing_barrier_between_a_read_and_a_write() -> None:
    assert failure(lambda k, lane, tile: rotate(k, lane, tile, barriers=1)) == (
        "kernel team: race on `tile`: thread (0, 0, 0) writes an element that thread (7, 0, 0) read at team.py:5, "
        "with no barrier between them\n  at team.py:7\n  Remedy: put barrier() between them, or use atomics."
    )


def test_barriers_order_the_threads_of_a_group() -> None:
    cooperative(lambda k, lane, tile: rotate(k, lane, tile, barriers=2))
    rng = np.random.default_rng(1)
    values = {"x": rng.random((12, 8), np.float32), "y": np.zeros((8, 12), np.float32)}
    watched(transpose(), values, (2, 3, 1))


def test_threads_that_write_one_element() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        at(k, 4)
        k.store(tile, (k.op("floor_div", lane, k.i(2)),), lane)

    assert failure(body) == (
        "kernel team: race on `tile`: thread (0, 0, 0) writes an element that another thread wrote at team.py:4, "
        "with no barrier between them\n  at team.py:4\n  Remedy: put barrier() between them, or use atomics."
    )


def test_threads_that_write_the_same_value() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        k.store(tile, (k.op("floor_div", lane, k.i(2)),), k.i(5))
        k.store("x", (k.i(0),), k.i(1))

    cooperative(body)


def test_barriers_do_not_order_groups() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        thread = k.index("thread", 0)
        at(k, 2)
        k.store("x", (thread,), thread)
        k.barrier()
        at(k, 4)
        k.store("x", (thread,), k.load("x", (k.op("rem", k.op("add", thread, k.i(8)), k.i(16)),)))

    assert failure(body) == (
        "kernel team: race on `x`: thread (0, 0, 0) reads an element that thread (8, 0, 0) wrote at team.py:2, "
        "and work-groups are in no order\n  at team.py:4\n  Remedy: let each group have elements of its own, launch a "
        "second kernel for what comes after, or use atomics."
    )


def test_independent_threads_race_on_a_buffer() -> None:
    k = KernelBuilder("shift", workgroup=(8, 1, 1), threads=(15, 1, 1))
    x = k.buffer("x", f32, "readwrite", (16,))
    i = k.index("thread", 0)
    at(k, 2)
    k.store(x, (i,), k.load(x, (k.op("add", i, k.i(1)),)))
    with pytest.raises(
        KernelError, match=r"thread \(1, 0, 0\) writes an element that thread \(0, 0, 0\) read at team.py"
    ):
        watched(k.finish(), {"x": np.arange(16, dtype=np.float32)}, (2, 1, 1))


def test_own_elements_are_nobody_elses_business() -> None:
    k = KernelBuilder("own", workgroup=(8, 1, 1), threads=(16, 1, 1))
    x = k.buffer("x", f32, "readwrite", (16,))
    y = k.buffer("y", f32, "read", (16,))
    i = k.index("thread", 0)
    with k.for_(k.i(0), k.i(3)):
        k.store(x, (i,), k.op("add", k.load(x, (i,)), k.load(y, (k.i(3),))))
    watched(k.finish(), {"x": np.zeros(16, np.float32), "y": np.ones(16, np.float32)}, (2, 1, 1))


def test_atomics_do_not_race_with_atomics() -> None:
    def counting(read: bool) -> Callable[[KernelBuilder, Expr, str], None]:
        def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
            at(k, 2)
            k.atomic("add", "x", (k.i(0),), lane)
            k.atomic("max", "x", (k.i(0),), lane)
            at(k, 4)
            if read:
                k.store("x", (k.op("add", k.index("thread", 0), k.i(1)),), k.load("x", (k.i(0),)), checked=True)

        return body

    cooperative(counting(False))
    assert "thread (0, 0, 0) reads an element that another thread wrote at team.py:2" in failure(counting(True))


def test_an_atomic_races_with_a_store() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        with k.if_(k.op("eq", lane, k.i(0))):
            k.store(tile, (k.i(0),), k.i(0))
        k.atomic("add", tile, (k.i(0),), k.i(1))

    assert "thread (1, 0, 0) changes an element that thread (0, 0, 0) wrote" in failure(body)


def test_shared_arrays_start_undefined() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        with k.if_(k.op("lt", lane, k.i(5))):
            k.store(tile, (lane,), lane)
        k.barrier()
        at(k, 6)
        k.store("x", (k.index("thread", 0),), k.load(tile, (lane,)))

    assert failure(body) == (
        "kernel team: thread (5, 0, 0) reads an element of `tile` that nothing has written\n  at team.py:6\n"
        "  Remedy: write it first, and put barrier() between, or use atomics."
    )


def test_private_arrays_start_undefined() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        mine = k.alloc("mine", i32, (4,), "private")
        with k.for_(k.i(0), lane) as j, k.if_(k.op("lt", j, k.i(4))):
            k.store(mine, (j,), j)
        with k.if_(k.op("ge", lane, k.i(3))):
            at(k, 6)
            k.store("x", (k.index("thread", 0),), k.load(mine, (k.i(3),)))

    assert "thread (3, 0, 0) reads an element of `mine` that nothing has written\n  at team.py:6" in failure(body)


def test_only_active_lanes_count() -> None:
    def body(k: KernelBuilder, lane: Expr, tile: str) -> None:
        k.store(tile, (lane,), lane)
        k.barrier()
        with k.if_(k.op("eq", lane, k.i(0))):
            with k.for_(k.i(1), k.i(8)) as j:
                k.store(tile, (k.i(0),), k.op("add", k.load(tile, (k.i(0),)), k.load(tile, (j,))))
            k.store("x", (k.index("thread", 0),), k.load(tile, (k.i(0),)))

    cooperative(body)
