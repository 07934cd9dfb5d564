"""The simplifier: what is proven in bounds, and quotients and remainders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poot.dtypes import f32, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import Atomic, Expr, fault_sites, walk
from poot.kernel.pipeline import prepare
from poot.kernel.simplify import simplify
from poot.kernel.text import dump
from tests.unit.native_fuzz import Generator

Body = Callable[[KernelBuilder, Expr], None]


def build(body: Body, *, threads: int | None = None, extents: tuple[int | None, ...] = (None, None)) -> KernelBuilder:
    """A kernel over `x` (f32, written), `ids` (i32, read) and `out` (i32, written), and thread x."""
    k = KernelBuilder("k", workgroup=(8, 1, 1), threads=(threads, 1, 1))
    k.buffer("x", f32, "readwrite", extents)
    k.buffer("ids", i32, "read", (None,))
    k.buffer("out", i32, "readwrite", (None,))
    k.scalar("n", i32)
    body(k, k.index("thread", 0))
    check(k.finish())
    return k


def lines(body: Body, **fields: object) -> list[str]:
    """The simplified body of a kernel."""
    simple = simplify(build(body, **fields).finish())  # type: ignore[arg-type]
    check(simple)
    return [line.removeprefix("    ") for line in dump(simple).splitlines()[2:]]


def checked(body: Body, **fields: object) -> int:
    """How many accesses stay checked."""
    return len(fault_sites(simplify(build(body, **fields).finish())))  # type: ignore[arg-type]


# --- ranges ---------------------------------------------------------------------------------------------------------


def test_thread_bounds_prove_baked_extents() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        k.store("x", (i, k.i(3)), k.const(1, f32), checked=True)

    assert checked(body, threads=10, extents=(10, 4)) == 0
    assert checked(body, threads=11, extents=(10, 4)) == 1
    assert checked(body, threads=10, extents=(10, 3)) == 1
    assert checked(body, extents=(10, 4)) == 1


def test_a_guard_proves_a_run_time_extent() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("lt", i, k.index("extent", 0, "x"))):
            with k.for_(k.i(0), k.index("extent", 1, "x")) as j:
                k.store("x", (i, j), k.const(1, f32), checked=True)
            k.store("x", (i, i), k.const(1, f32), checked=True)
        k.store("x", (i, k.i(0)), k.const(1, f32), checked=True)

    assert checked(body) == 2


def test_an_early_return_proves_the_rest() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("ge", i, k.index("extent", 0, "out"))):
            k.return_()
        k.store("out", (i,), k.i(1), checked=True)

    assert checked(body) == 0


def test_stencils_are_proven_only_without_wrapping() -> None:
    def stencil(k: KernelBuilder, i: Expr) -> None:
        n = k.index("extent", 0, "out")
        inner = k.op("and", k.op("gt", i, k.i(0)), k.op("lt", i, k.op("sub", n, k.i(1))))
        with k.if_(inner):
            for offset in (-1, 0, 1):
                k.store("out", (k.op("add", i, k.i(offset)),), k.i(1), checked=True)

    def wraps(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("lt", k.op("add", i, k.i(7)), k.index("extent", 0, "out"))):
            k.store("out", (k.op("add", i, k.i(7)),), k.i(1), checked=True)

    assert checked(stencil) == 0
    assert checked(wraps) == 1


def test_guards_on_loaded_indices() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("lt", i, k.index("extent", 0, "ids"))):
            at = k.let(k.load("ids", (i,), checked=True), "at")
            inside = k.let(k.op("and", k.op("ge", at, k.i(0)), k.op("lt", at, k.index("extent", 0, "out"))), "inside")
            with k.if_(inside):
                k.store("out", (at,), k.i(1), checked=True)
            k.store("out", (at,), k.i(1), checked=True)

    assert checked(body) == 1


def test_a_fact_about_an_old_value_does_not_hold_for_the_new_one() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        at = k.let(i, "at")
        k.assign(at, k.op("rem", at, k.i(5)))
        with k.if_(k.op("lt", at, k.index("extent", 0, "out"))):
            k.store("out", (at,), k.i(1), checked=True)
            k.assign(at, k.op("add", at, k.i(1)))
            k.store("out", (at,), k.i(1), checked=True)

    assert checked(body) == 1


def test_counting_while_loops() -> None:
    def counting(start: int, by: int) -> Body:
        def body(k: KernelBuilder, i: Expr) -> None:
            p = k.let(k.i(start), "p")
            with k.while_(k.op("lt", p, k.index("extent", 0, "out"))):
                k.store("out", (p,), k.i(1), checked=True)
                k.assign(p, k.op("add", p, k.i(by)))

        return body

    assert checked(counting(0, 1)) == 0
    assert checked(counting(-1, 1)) == 1
    assert checked(counting(0, -1)) == 1
    assert checked(counting(0, 2)) == 1  # past the greatest integer it would wrap to a negative one


def test_countdown() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        p = k.let(k.index("extent", 0, "out"), "p")
        with k.while_(k.op("gt", p, k.i(0))):
            k.assign(p, k.op("sub", p, k.i(1)))
            k.store("out", (p,), k.i(1), checked=True)

    assert checked(body) == 1  # the upper bound would need an invariant between two locals


def test_strided_loops_with_constant_bounds() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.for_(k.i(0), k.i(96), 32) as base:
            at = k.op("add", base, k.op("rem", i, k.i(32)))
            k.store("x", (at, k.i(0)), k.const(1, f32), checked=True)
        with k.for_(k.i(95), k.i(-1), -5) as down:
            k.store("x", (down, k.i(0)), k.const(1, f32), checked=True)

    assert checked(body, extents=(96, 4)) == 0
    assert checked(body, extents=(95, 4)) == 2


def test_clamped_indices() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        at = k.load("ids", (k.i(0),), checked=False)
        clamped = k.op("min", k.op("max", at, k.i(0)), k.i(9))
        k.store("x", (clamped, k.i(0)), k.const(1, f32), checked=True)
        k.store("x", (k.op("and", at, k.i(7)), k.i(0)), k.const(1, f32), checked=True)
        k.store("x", (k.op("rem", at, k.i(10)), k.i(0)), k.const(1, f32), checked=True)
        k.store("x", (k.op("abs", at), k.i(0)), k.const(1, f32), checked=True)

    assert checked(body, extents=(10, 4)) == 1


def test_min_with_a_run_time_extent() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        n = k.index("extent", 0, "out")
        with k.if_(k.op("gt", n, k.i(0))):
            k.store("out", (k.op("min", i, k.op("sub", n, k.i(1))),), k.i(1), checked=True)
        k.store("out", (k.op("min", i, k.op("sub", n, k.i(1))),), k.i(1), checked=True)

    assert checked(body) == 1


def test_private_arrays_and_atomics() -> None:
    k = KernelBuilder("k", workgroup=(8, 1, 1), threads=(8, 1, 1))
    k.buffer("n", i32, "readwrite", (8,))
    p = k.alloc("p", f32, (4,), "private")
    i = k.index("thread", 0)
    with k.for_(k.i(0), k.i(4)) as j:
        k.store(p, (j,), k.const(1, f32), checked=True)
    k.atomic("add", "n", (i,), k.i(1), checked=True)
    k.atomic("add", "n", (k.op("add", i, k.i(1)),), k.i(1), checked=True)
    assert [type(node) for node in walk(simplify(k.finish()).body) if getattr(node, "checked", False)] == [Atomic]


# --- quotients and remainders ---------------------------------------------------------------------------------------


def test_rows_and_columns() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        row, column = k.let(k.op("floor_div", i, k.i(12)), "row"), k.let(k.op("rem", i, k.i(12)), "column")
        flat = k.let(k.op("add", k.op("mul", row, k.i(12)), column), "flat")
        k.store("out", (flat,), k.op("floor_div", flat, k.i(4)), checked=False)
        k.store("out", (k.op("floor_div", k.op("floor_div", i, k.i(4)), k.i(3)),), k.i(0), checked=False)
        k.store("out", (k.op("rem", k.op("rem", i, k.i(12)), k.i(4)),), k.i(0), checked=False)
        k.store("out", (k.op("floor_div", column, k.i(12)),), k.op("rem", column, k.i(16)), checked=False)

    assert lines(body, threads=1000) == [
        'row: i32 = thread_index("x") // 12',
        'column: i32 = thread_index("x") % 12',
        'out[thread_index("x")] = thread_index("x") // 4',
        "out[row] = 0",
        'out[thread_index("x") % 4] = 0',
        "out[0] = column",
    ]


def test_quotients_of_sums() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.for_(k.i(0), k.i(8)) as j:
            flat = k.op("add", k.op("mul", i, k.i(8)), j)
            k.store("out", (k.op("floor_div", flat, k.i(8)),), k.op("rem", flat, k.i(8)), checked=False)
            k.store("out", (k.op("floor_div", flat, k.i(16)),), k.i(0), checked=False)

    assert lines(body, threads=1000) == [
        "for i in range(0, 8, 1):",
        '    out[thread_index("x")] = i',
        '    out[((thread_index("x") * 8) + i) // 16] = 0',
    ]
    # without a bound the product may wrap, and the quotient stays
    assert "// 8" in lines(body)[1]


def test_negative_numbers_keep_floor() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.for_(k.i(-8), k.i(0)) as j:
            k.store("out", (k.i(0),), k.op("floor_div", j, k.i(8)), checked=False)
            k.store("out", (k.i(0),), k.op("rem", j, k.i(8)), checked=False)

    assert lines(body) == ["for i in range(-8, 0, 1):", "    out[0] = -1", "    out[0] = i + 8"]


@pytest.mark.parametrize("seed", [7, 19, 31, 52, 58, 70, 94, 97, 145, 202, 210])
def test_kernels_of_work_groups_stay_well_typed(seed: int) -> None:
    """A local that holds a thread number at another dtype does not stand in for it."""
    check(prepare(Generator(seed).kernel()))
