"""The simplifier: branches, unrolling, dead and copied locals, and what must stay."""

from __future__ import annotations

import pytest

from poot.dtypes import bool_, f16, f32, i32
from poot.errors import CompileError, SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr, For, If, Op, Store, Var, fault_sites, walk
from poot.kernel.pipeline import prepare
from poot.kernel.simplify import simplify
from tests.unit.test_kernel_simplify import checked, lines


def test_decided_branches_and_empty_blocks() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("ge", i, k.i(0))):
            k.store("out", (k.i(0),), k.i(1))
        with k.if_(k.op("lt", k.index("local", 0), k.i(0))):
            k.store("out", (k.i(0),), k.i(2))
        with k.if_(k.op("eq", i, k.i(4))):
            k.let(k.op("add", i, k.i(2)))
        with k.for_(k.i(0), i):
            k.let(k.op("add", i, k.i(2)))
        with k.for_(k.i(3), k.i(3)):
            k.store("out", (k.i(0),), k.i(3))
        with k.for_(k.i(7), k.i(9), 5) as once:
            k.store("out", (k.i(0),), once)
        k.assertion(k.op("lt", k.index("local", 0), k.i(8)), "always")

    assert lines(body) == ["out[0] = 1", "out[0] = 7"]


def test_code_after_a_return_goes() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.block() as then:
            k.return_()
            k.store("out", (k.i(0),), k.i(1))
        with k.block() as orelse:
            k.return_()
        k.emit(If(k.op("lt", i, k.i(3)), tuple(then), tuple(orelse)))
        k.store("out", (k.i(0),), k.i(2))

    assert lines(body) == ['if thread_index("x") < 3:', "    return", "else:", "    return"]


def test_a_known_value_of_a_branch() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        with k.if_(k.op("eq", i, k.i(5))):
            k.store("out", (i,), k.op("mul", i, k.i(3)))

    assert lines(body, threads=9)[1] in ("    out[5] = 15", '    out[thread_index("x")] = 15')


def test_unrolling_renames_and_folds() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        total = k.let(k.i(0), "total")
        with k.for_(k.i(0), k.i(3), unroll=True, hint="u") as u, k.for_(u, k.i(2), unroll=True, hint="v") as v:
            part = k.let(k.op("add", k.load("ids", (v,)), k.op("mul", u, i)), "part")
            k.assign(total, k.op("add", total, k.op("mul", part, part)))
        k.store("out", (k.i(0),), total)

    assert lines(body) == [
        "total: i32 = 0",
        "part: i32 = ids[0]",
        "total = part * part",
        "part_u1: i32 = ids[1]",
        "total = total + (part_u1 * part_u1)",
        'part_u2: i32 = part_u1 + thread_index("x")',
        "total = total + (part_u2 * part_u2)",
        "out[0] = total",
    ]


def test_a_copy_of_a_loop_does_not_mix_up_its_locals() -> None:
    """A local of the first copy has the name that the source gives every copy."""

    def body(k: KernelBuilder, i: Expr) -> None:
        last = k.let(k.i(0), "last")
        with k.for_(k.i(0), k.i(3), unroll=True):
            one = k.let(k.load("ids", (k.op("rem", last, k.i(4)),), checked=False), "one")
            k.assign(last, k.op("add", one, k.op("mul", last, k.i(2))))
            k.store("out", (k.op("add", k.i(1), k.op("add", k.i(2), last)),), one)

    text = lines(body)
    assert [line for line in text if line.startswith("last")] == [
        "last: i32 = 0",
        "last = one",
        "last = one_u1 + (last * 2)",
        "last = one_u2 + (last * 2)",
    ]
    assert text[-1] == "out[last + 3] = one_u2"


def test_dead_locals_go_and_faults_stay() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        a = k.let(k.op("add", i, k.i(1)), "a")
        b = k.let(k.op("mul", a, a), "b")
        with k.for_(k.i(0), k.i(5)):
            k.assign(b, k.op("add", b, k.i(1)))
        k.let(k.load("ids", (i,), checked=True), "kept")
        k.let(k.load("ids", (i,), checked=False), "gone")
        k.atomic("add", "out", (k.i(0),), k.i(1))

    assert lines(body) == ['kept: i32 = checked(ids)[thread_index("x")]', "atomic_add(out[0], 1)"]


def test_constants_and_copies_are_passed_on() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        two = k.let(k.i(2), "two")
        n = k.let(Var("n", i32), "m")
        changing = k.let(n, "changing")
        copy = k.let(changing, "copy")
        k.assign(changing, k.op("add", changing, two))
        k.store("out", (k.i(0),), k.op("add", copy, k.op("mul", changing, k.op("add", two, two))))

    assert lines(body) == [
        "changing: i32 = n",
        "copy: i32 = changing",
        "changing = changing + 2",
        "out[0] = copy + (changing * 4)",
    ]


def test_nothing_is_shared_between_branches() -> None:
    """What a local was given in one branch is no more known after it."""

    def body(k: KernelBuilder, i: Expr) -> None:
        p = k.let(k.i(0), "p")
        with k.if_(k.op("gt", Var("n", i32), k.i(3))):
            k.assign(p, k.i(7))
        k.store("x", (p, k.i(0)), k.const(1, f32), checked=True)

    assert checked(body, extents=(8, 1)) == 0
    assert checked(body, extents=(7, 1)) == 1
    assert "x[p, 0]" in "\n".join(lines(body, extents=(8, 1)))


def test_a_flag_that_one_branch_alone_knows() -> None:
    def body(k: KernelBuilder, i: Expr) -> None:
        flag = k.let(k.const(False, bool_), "flag")
        with k.block() as then:
            k.assign(flag, k.op("lt", k.load("ids", (k.i(0),)), k.i(3)))
        with k.block() as orelse:
            k.assign(flag, k.const(True, bool_))
        k.emit(If(k.op("lt", i, Var("n", i32)), tuple(then), tuple(orelse)))
        k.store("out", (k.i(0),), k.cast(flag, i32))

    assert lines(body)[-1] == "out[0] = cast(flag, i32)"


def test_prepared_kernels_keep_locations_of_faults() -> None:
    k = KernelBuilder("k", workgroup=(8, 1, 1))
    k.buffer("x", f16, "readwrite", (None,))
    k.where = SourceLocation("f.py", 3)
    i = k.index("thread", 0)
    k.store("x", (i,), k.op("exp", k.load("x", (i,), checked=True)), checked=True)
    sites = fault_sites(prepare(k.finish()))
    assert [(site.buffer, site.where) for site in sites] == [("x", k.where), ("x", k.where)]


def test_expressions_may_be_nested_too_deeply() -> None:
    k = KernelBuilder("k", workgroup=(8, 1, 1), threads=(8, 1, 1))
    k.buffer("x", f32, "write", (8,))
    value: Expr = k.const(1.5, f32)
    for _ in range(3000):
        value = k.op("neg", k.op("sqrt", value))
    k.store("x", (k.i(0),), value)
    with pytest.raises(CompileError, match="nested too deeply"):
        prepare(k.finish())


@pytest.mark.parametrize("count", [120])
def test_large_kernels_are_simplified_in_one_walk(count: int) -> None:
    """Deep chains of operations do not make the walk exponential."""
    k = KernelBuilder("k", workgroup=(8, 1, 1), threads=(8, 1, 1))
    k.buffer("x", f32, "readwrite", (8,))
    i = k.index("thread", 0)
    value: Expr = k.load("x", (i,))
    index: Expr = i
    for number in range(count):
        value = k.op("add", k.const(1.5, f32), k.op("mul", k.const(number, f32), value))
        index = k.op("rem", k.op("add", k.i(3), index), k.i(8))
    k.store("x", (index,), value, checked=True)
    simple = simplify(k.finish())
    assert not fault_sites(simple)
    assert sum(isinstance(node, Op) for node in walk(simple.body)) <= 4 * count
    assert not any(isinstance(node, (For, If)) for node in walk(simple.body))
    assert isinstance(simple.body[-1], Store)
