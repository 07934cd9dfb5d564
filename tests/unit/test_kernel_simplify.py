"""The simplifier: what is folded, proven in bounds, unrolled and dropped, and what must stay."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32
from poot.errors import CompileError, SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.fold import fold_cast, fold_op
from poot.kernel.ir import Atomic, Cast, Const, Expr, For, If, Load, Op, Store, Var, fault_sites, walk
from poot.kernel.pipeline import prepare
from poot.kernel.simplify import simplify
from poot.kernel.text import dump, dump_expr

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


# --- folding --------------------------------------------------------------------------------------------------------


def folded(name: str, *args: Expr, dtype: DType | None = None) -> str:
    return dump_expr(fold_op(Op(name, args, dtype or args[-1].dtype)), i32)


I, J, U, F, B = Var("i", i32), Var("j", i32), Var("u", u32), Var("f", f32), Var("b", bool_)


def c(value: float, dtype: DType = i32) -> Const:
    return Const(value if dtype is not f32 else float(value), dtype)


def test_integer_identities() -> None:
    assert folded("add", I, c(0)) == "i"
    assert folded("add", c(3), I) == "i + 3"
    assert folded("add", Op("add", (I, c(3)), i32), c(4)) == "i + 7"
    assert folded("sub", Op("add", (I, c(3)), i32), c(4)) == "i - 1"
    assert folded("add", Op("sub", (I, c(3)), i32), c(3)) == "i"
    assert folded("add", Op("add", (I, c(2**31 - 1)), i32), c(1)) == "i + -2147483648"
    assert folded("mul", Op("mul", (I, c(2**16)), i32), c(2**16)) == "0"
    assert folded("mul", I, c(1)) == "i"
    assert folded("mul", I, c(0)) == "0"
    assert folded("sub", I, I) == "0"
    assert folded("xor", I, I) == "0"
    assert folded("min", I, I) == "i"
    assert folded("floor_div", I, c(1)) == "i"
    assert folded("floor_div", I, c(0)) == "0"
    assert folded("rem", I, c(1)) == "0"
    assert folded("floor_div", c(0), I) == "0"
    assert folded("and", I, c(-1)) == "i"
    assert folded("and", U, Const(2**32 - 1, u32)) == "u"
    assert folded("or", I, c(0)) == "i"
    assert folded("shift_left", I, c(0)) == "i"
    assert folded("neg", Op("neg", (I,), i32)) == "i"
    assert folded("abs", Op("neg", (I,), i32)) == "abs(i)"
    assert folded("lt", I, I, dtype=bool_) == "False"
    assert folded("le", I, I, dtype=bool_) == "True"


def test_constants_wrap_as_they_would() -> None:
    low = -(2**31)
    assert folded("add", c(2**31 - 1), c(1)) == str(low)
    assert folded("floor_div", c(low), c(-1)) == str(low)
    assert folded("rem", c(low), c(-1)) == "0"
    assert folded("floor_div", c(-7), c(2)) == "-4"
    assert folded("rem", c(7), c(-3)) == "-2"
    assert folded("shift_left", c(1), c(32)) == "0"
    assert folded("shift_right", c(-5), c(99)) == "-1"
    assert folded("neg", Const(1, u8)) == "u8(255)"
    assert folded("mul", Const(100, i8), Const(3, i8)) == "i8(44)"


def test_float_identities_keep_signed_zeros_and_nan() -> None:
    assert folded("add", F, c(-0.0, f32)) == "f"
    assert folded("add", F, c(0.0, f32)) == "f + f32(0.0)"
    assert folded("sub", F, c(0.0, f32)) == "f"
    assert folded("sub", F, c(-0.0, f32)) == "f - f32(-0.0)"
    assert folded("mul", F, c(1.0, f32)) == "f"
    assert folded("mul", F, c(0.0, f32)) == "f * f32(0.0)"
    assert folded("sub", F, F) == "f - f"
    assert folded("div", F, F) == "f / f"
    assert folded("eq", F, F, dtype=bool_) == "f == f"
    assert folded("max", F, F) == "f"
    assert folded("div", F, c(4.0, f32)) == "f * f32(0.25)"
    assert folded("div", F, c(3.0, f32)) == "f / f32(3.0)"
    assert folded("div", F, c(2.0**-127, f32)) == "f * f32(1.7014118346046923e+38)"
    assert folded("div", F, c(2.0**127, f32)) == "f / f32(1.7014118346046923e+38)"
    assert folded("div", c(0.0, f32), c(0.0, f32)) == "f32(0.0) / f32(0.0)"
    assert folded("div", c(1.0, f32), c(3.0, f32)) == "f32(0.3333333432674408)"
    assert folded("mul", c(-0.0, f32), c(2.0, f32)) == "f32(-0.0)"
    assert folded("add", c(math.inf, f32), c(1.0, f32)) == "f32(inf)"
    half = Const(1 + 2**-10, f16)
    assert folded("mul", half, half) == "f16(1.001953125)"


def test_conditions() -> None:
    assert folded("and", B, c(True, bool_)) == "b"
    assert folded("and", B, c(False, bool_)) == "False"
    assert folded("or", c(False, bool_), B) == "b"
    assert folded("eq", B, c(False, bool_)) == "~b"
    less = Op("lt", (I, J), bool_)
    assert folded("not", less) == "i >= j"
    assert folded("not", Op("not", (B,), bool_)) == "b"
    assert folded("not", Op("lt", (F, F), bool_)) == "~(f < f)"
    assert folded("not", Op("eq", (F, F), bool_), dtype=bool_) == "f != f"
    assert folded("select", c(True, bool_), I, J) == "i"
    assert folded("select", B, I, I) == "i"


def test_an_operand_that_may_fault_stays() -> None:
    fault = Load("x", (I,), i32, True)
    assert folded("mul", fault, c(0)) == "checked(x)[i] * 0"
    assert folded("sub", fault, fault) == "checked(x)[i] - checked(x)[i]"
    assert folded("select", c(True, bool_), I, fault) == "select(True, i, checked(x)[i])"
    assert folded("mul", Load("x", (I,), i32, False), c(0)) == "0"


def test_casts() -> None:
    def cast(expr: Expr, dtype: DType) -> str:
        return dump_expr(fold_cast(Cast(expr, dtype)), i32)

    assert cast(I, i32) == "i"
    assert cast(c(300), u8) == "u8(44)"
    assert cast(Const(-1.5, f32), u8) == "u8(0)"
    assert cast(Const(1e300, f64), f32) == "f32(inf)"
    assert cast(Const(math.nan, f32), f16) == "cast(f32(nan:7ff8000000000000), f16)"
    assert cast(Cast(I, i64), i32) == "i"
    assert cast(Cast(I, f32), i32) == "cast(cast(i, f32), i32)"
    assert cast(Cast(I, f64), i32) == "i"
    assert cast(Cast(Var("h", bf16), f32), bf16) == "h"
    assert cast(Cast(F, bf16), f32) == "cast(cast(f, bf16), f32)"
    assert cast(Cast(B, i32), bool_) == "b"


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


# --- flow -----------------------------------------------------------------------------------------------------------


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
