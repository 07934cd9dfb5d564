"""Exact messages of kernels that do not check, and of what a target cannot do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poot.dtypes import DType, bool_, f16, f32, f64, i8, i32, i64
from poot.errors import CompileError, KernelCheckError, PootError, SourceLocation, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import (
    TRUE,
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    BufferParam,
    Cast,
    Collective,
    Const,
    Continue,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Return,
    ScalarParam,
    Stmt,
    Store,
    Var,
    While,
)
from poot.kernel.simplify import simplify
from poot.target import Target
from tests.messages import without_line

X = BufferParam("x", f32, "read", (None, 4), (4, 1))
Y = BufferParam("y", f32, "write", (8,), (1,))
N = BufferParam("n", i32, "readwrite", (8,), (1,))
S = ScalarParam("s", f32)
ZERO, ONE = Const(0, i32), Const(1, i32)
HALF = Const(0.5, f32)
LOCAL = Index("local", 0)
VARIES = Op("lt", (LOCAL, ONE), bool_)
SHARES = Op("lt", (Index("group", 0), ONE), bool_)


def kernel(*body: Stmt, params: tuple[Param, ...] = (X, Y, N, S), **fields: object) -> Kernel:
    return Kernel("k", params, body, **{"workgroup": (8, 1, 1)} | fields)  # type: ignore[arg-type]


def let(value: Expr) -> Kernel:
    return kernel(Let("a", value))


def message(made: Kernel, run: Callable[[Kernel], object] = check) -> str:
    with pytest.raises(PootError) as caught:
        run(made)
    assert isinstance(caught.value, KernelCheckError)
    text = str(caught.value)
    assert text.startswith("kernel k: ")
    return text.removeprefix("kernel k: ").replace("\n  Remedy: ", " | ")


def test_names() -> None:
    assert message(let(Var("b", f32))) == "`b` is used before it has a value"
    assert message(let(Var("x", f32))) == "`x` is an array, used as a value"
    inner = If(SHARES, (Let("a", HALF),), ())
    late = "`a` is used where not every path has given it a value | give it a value before the branch or loop."
    assert message(kernel(inner, Store("y", (ZERO,), Var("a", f32)))) == late
    assert message(kernel(For("i", ZERO, ONE, 1, ()), Let("a", Var("i", i32)))) == late.replace("`a`", "`i`")
    assert message(kernel(Let("a", HALF), Let("a", HALF))) == "`a` is declared twice"
    assert message(kernel(inner, Let("a", HALF))) == "`a` is declared twice"
    assert message(kernel(Let("x", HALF))) == "`x` is declared twice"
    assert message(kernel(Let("1a", HALF))) == "'1a' is no name"
    assert message(kernel(Let("a", HALF), Store("y", (ZERO,), Var("a", i32)))) == "`a` is f32, used as i32"


def test_assignments() -> None:
    fixed = "`{}` is a parameter or loop variable and cannot be assigned | use a new name."
    assert message(kernel(Assign("s", HALF))) == fixed.format("s")
    assert message(kernel(For("i", ZERO, ONE, 1, (Assign("i", ZERO),)))) == fixed.format("i")
    assert message(kernel(Assign("a", HALF))) == "`a` is used before it has a value"
    assert (
        message(kernel(Let("a", HALF), Assign("a", ZERO)))
        == "value assigned to `a` is i32, expected f32 | cast it to f32."
    )


def test_accesses() -> None:
    assert message(let(Load("q", (ZERO,), f32))) == "`q` is no array of this kernel"
    assert message(let(Load("x", (ZERO,), f32))) == "`x` has rank 2, indexed with 1"
    assert message(let(Load("x", (ZERO, HALF), f32))) == "index 1 of `x` is f32, expected i32 | cast it to i32."
    assert message(let(Load("x", (ZERO, ZERO), i32))) == "`x` holds f32, read as i32"
    assert message(let(Load("y", (ZERO,), f32))) == "`y` is an output and cannot be read | declare it InOut."
    assert (
        message(kernel(Store("x", (ZERO, ZERO), HALF)))
        == "`x` is an input and cannot be written | declare it Out or InOut."
    )
    assert message(kernel(Store("y", (ZERO,), ZERO))) == "value stored to `y` is i32, expected f32 | cast it to f32."


def test_atomics() -> None:
    def atomic(op: str, buffer: str, value: Expr, compare: Expr | None = None) -> Kernel:
        array = Alloc("p", i32, (8,), "private")
        return kernel(array, Atomic(op, buffer, (ZERO,), value, compare))  # type: ignore[arg-type]

    assert message(atomic("add", "p", ONE)) == "atomic operation on `p`, which is private to its thread"
    refused = "atomic operation on `y`, which is an output | declare it InOut: an atomic reads and writes."
    assert message(atomic("add", "y", HALF)) == refused
    halves = BufferParam("h", f32, "readwrite", (8,), (1,))
    assert (
        message(kernel(Atomic("min", "h", (ZERO,), HALF), params=(halves,)))
        == "atomic min on f32, expected one of i32, u32, i64, u64 | declare the array as i32, and keep "
        "the bits of floats that are not negative, which are in the same order: `poot.atomic_min(h, i, "
        "poot.bitcast(value, i32))`."
    )
    narrow = BufferParam("h", i8, "readwrite", (8,), (1,))
    assert (
        message(kernel(Atomic("add", "h", (ZERO,), Const(1, i8)), params=(narrow,)))
        == "atomic add on i8, expected one of i32, u32, i64, u64, f32, f64 | declare the array as one of them."
    )
    assert message(atomic("compare_exchange", "n", ONE)) == "atomic compare_exchange without a value to compare"
    assert message(atomic("add", "n", ONE, ONE)) == "atomic add with a value to compare"
    assert message(atomic("add", "n", HALF)) == "value of an atomic on `n` is f32, expected i32 | cast it to i32."


def test_expressions() -> None:
    assert message(let(Const(2**31, i32))) == "the literal 2147483648 is no i32"
    assert message(let(Const(1, bool_))) == "the literal 1 is no bool"
    assert message(let(Const(1.5, i32))) == "the literal 1.5 is no i32"
    assert message(let(Const(0.1, f32))) == "the literal 0.1 is no f32"
    assert message(let(Const(1, f32))) == "the literal 1 is no f32"
    assert (
        message(let(Op("add", (ZERO, HALF), f32)))
        == "operands of add: f32, expected i32 | cast the operands to one dtype."
    )
    assert message(let(Op("add", (ZERO,), i32))) == "add: number of operands: 1, expected 2"
    assert message(let(Op("add", (ZERO, ONE), f32))) == "result of add is f32, expected i32 | cast it to i32."
    assert message(let(Op("spin", (ZERO,), i32))).startswith("scalar operation: spin, expected one of neg, abs, ")
    assert message(let(Op("bitcast", (HALF,), f16))) == "bitcast of f32 to f16, expected a dtype of 32 bits"
    assert message(let(Op("bitcast", (Const(1, i8),), bool_))) == "bitcast of i8 to bool, expected a number"
    assert (
        message(let(Op("neg", (Collective("sum", HALF, f32),), f32)))
        == "group_sum inside a larger expression | give its result a name on a line of its own."
    )
    assert message(let(Collective("any", HALF, f32))) == "group_any of f32, expected bool"
    assert message(let(Collective("scan", TRUE, bool_))) == "group_scan of bool, expected a number"
    assert message(let(Collective("sum", HALF, i32))) == "result of group_sum is i32, expected f32 | cast it to f32."


def test_numbers_of_the_launch_and_of_buffers() -> None:
    assert message(let(Index("thread", 0, "", i64))) == "thread number of i64, expected i32"
    assert message(let(Index("thread", 3))) == "axis 3 of a thread number, expected 0, 1 or 2"
    assert message(let(Index("threads", 0))) == "the number of threads, in a kernel that is launched by groups"
    assert message(let(Index("extent", 2, "x"))) == "axis 2 of `x`, which has rank 2"
    assert message(let(Index("stride", 0, "s"))) == "stride of `s`, which is no buffer parameter"


def test_flow() -> None:
    assert message(kernel(If(ONE, ()))) == "condition of `if` is i32, expected bool | cast it to bool."
    assert message(kernel(While(ONE, ()))) == "condition of `while` is i32, expected bool | cast it to bool."
    assert message(kernel(Assert(ONE, "m"))) == "condition of `assert` is i32, expected bool | cast it to bool."
    assert message(kernel(Break())) == "break outside a loop"
    assert message(kernel(If(SHARES, (Continue(),)))) == "continue outside a loop"
    assert message(kernel(For("i", ZERO, ONE, 0, ()))) == "the step of a range is 0, expected a i32 other than 0"
    assert message(kernel(For("i", HALF, HALF, 1, ()))) == "a range counts in f32, expected an integer dtype"
    assert (
        message(kernel(For("i", ZERO, Const(1, i64), 1, ())))
        == "the end of a range is i64, expected i32 | cast it to i32."
    )
    assert (
        message(kernel(For("i", ZERO, ONE, 1, (If(SHARES, (Break(),)),), True)))
        == "break or continue in a loop that is to be unrolled | use an ordinary range, or an `if` around the rest."
    )


def test_arrays() -> None:
    private = Alloc("p", f32, (4,), "private")
    assert message(kernel(If(SHARES, (private,)))) == "`p` is allocated inside a branch or loop | allocate it before."
    assert message(kernel(Alloc("p", f32, (4, 0), "shared"))) == "`p` has the shape (4, 0), expected positive extents"


def test_signatures() -> None:
    assert message(kernel(index_dtype=i8)) == "the index dtype is i8, expected i32 or i64"
    assert message(kernel(workgroup=(8, 0, 1))) == "the work-group is (8, 0, 1), expected three positive sizes"
    assert message(kernel(threads=(8, -1, 1))) == "threads are (8, -1, 1), expected three sizes that are not negative"
    assert message(kernel(params=(X, X))) == "`x` is declared twice"
    assert message(kernel(params=(BufferParam("b", f32, "read", (4,), ()),))) == "`b` has 1 extents and 0 strides"
    assert (
        message(kernel(params=(BufferParam("b", f32, "read", (2**31,), (1,)),)))
        == "an extent of `b` is 2147483648, which i32 indices cannot hold"
    )


DIVERGED = "{} where threads of a work-group may have gone different ways, by "
BRANCH = (
    "the condition of the `if` around it, which varies within the group | move the {} out of this `if`: let all "
    "threads reach it, and keep the rest below the `if`."
)
LOOP = (
    "the loop around it, which threads may leave after different numbers of turns | let every thread of the group make "
    "as many turns, with an `if` around what only some do, or move the {} out of the loop."
)
LEFT = (
    "the `return`, which only some threads of the group take | in place of the `return`, put what follows it into an "
    "`if`, and leave the {} outside."
)
SUM = Let("total", Collective("sum", HALF, f32))


@pytest.mark.parametrize(("stmt", "name"), [(Barrier(), "barrier"), (SUM, "group_sum")], ids=["barrier", "sum"])
def test_barriers_and_collectives_need_uniform_flow(stmt: Stmt, name: str) -> None:
    branch, loop, left = ((DIVERGED + cause).format(name, name) for cause in (BRANCH, LOOP, LEFT))
    leaving = For("i", ZERO, Index("extent", 0, "x"), 1, (If(VARIES, (Break(),)), stmt))
    assert message(kernel(If(VARIES, (stmt,)))) == branch
    assert message(kernel(If(VARIES, (Return(),)), stmt)) == left
    assert message(kernel(leaving)) == loop
    assert message(kernel(For("i", ZERO, LOCAL, 1, (stmt,)))) == loop
    changed = (Let("a", ZERO), If(VARIES, (Assign("a", ONE),)), If(Op("lt", (Var("a", i32), ONE), bool_), (stmt,)))
    assert message(kernel(*changed)) == branch
    loaded = Op("lt", (Load("n", (LOCAL,), i32), ONE), bool_)
    assert message(kernel(While(loaded, (stmt,)))) == loop


@pytest.mark.parametrize("stmt", [Barrier(), SUM], ids=["barrier", "sum"])
def test_uniform_flow_is_accepted(stmt: Stmt) -> None:
    check(kernel(If(SHARES, (stmt,))))
    check(kernel(If(SHARES, (Return(),)), stmt))
    check(kernel(For("i", ZERO, Index("extent", 0, "x"), 1, (If(SHARES, (Continue(),)), stmt))))
    check(kernel(If(VARIES, (Store("y", (LOCAL,), HALF),)), stmt))
    check(kernel(If(VARIES, (stmt,)), workgroup=(1, 1, 1)))


def test_whole_groups() -> None:
    assert (
        message(kernel(Barrier(), threads=(12, 1, 1)))
        == "12 threads on axis 0 are no multiple of the work-group's 8, but the kernel has barriers, collectives or "
        "shared arrays | launch it with groups=, or with a multiple."
    )
    check(kernel(Barrier(), threads=(16, 5, 1)))
    check(kernel(Barrier(), threads=(None, 5, 1)))
    check(kernel(Store("y", (ZERO,), HALF), threads=(12, 1, 1)))


def test_the_users_line() -> None:
    where = SourceLocation("kernel.py", 7, 4, 8)
    made = kernel(If(SHARES, (Store("y", (Op("add", (ZERO, HALF), i32, where),), HALF),)))
    assert message(made) == "operands of add: f32, expected i32\n  at kernel.py:7:5 | cast the operands to one dtype."
    outer = kernel(If(SHARES, (Break(),), (), where))
    assert "at kernel.py:7:5" in message(outer)


def unsupported(made: Kernel, target: Target) -> str:
    with pytest.raises(Unsupported) as caught:
        check(made, target)
    return without_line(caught.value)


def test_targets() -> None:
    wgpu = Target.parse("wgpu")

    def lacks(dtype: DType, use: str) -> str:
        other = {f64: f32, i64: i32}[dtype]
        remedy = f"use {other} in place of {dtype}, or launch it on another device, such as cpu."
        return f"kernel k: dtype {dtype} is not supported by wgpu: {use}\n  Remedy: {remedy}"

    assert unsupported(kernel(params=(ScalarParam("s", f64),)), wgpu) == lacks(f64, "`s` has it")
    assert unsupported(kernel(Let("a", Cast(ZERO, i64))), wgpu) == lacks(i64, "it is used here")
    large = kernel(workgroup=(32, 32, 1))
    assert unsupported(large, wgpu) == (
        "kernel k: 1024 threads in a work-group is not supported by wgpu: the limit is 256\n"
        "  Remedy: choose a smaller workgroup=."
    )
    check(large, Target.parse("cpu:x86_64"))
    arrays = kernel(Alloc("t", f32, (64, 64), "shared"), SUM)
    assert unsupported(arrays, wgpu) == (
        "kernel k: 16416 bytes of shared memory is not supported by wgpu: the limit is 16384\n"
        "  Remedy: use smaller shared arrays."
    )
    buffers = tuple(BufferParam(f"b{number}", f32, "read", (4,), (1,)) for number in range(8))
    check(kernel(params=buffers), wgpu)
    assert unsupported(kernel(Let("a", Load("b0", (LOCAL,), f32)), params=buffers), wgpu) == (
        "kernel k: 9 buffers, the fault record included is not supported by wgpu: the limit is 8\n"
        "  Remedy: pass fewer arrays."
    )


def test_unrolling() -> None:
    assert message(kernel(For("i", ZERO, Index("extent", 0, "x"), 1, (), True)), simplify) == (
        "a loop that is to be unrolled has bounds that are not constant | use constants or Const parameters in its "
        "range, or do not unroll it."
    )
    inner = For("j", ZERO, Const(1000, i32), 1, (Store("y", (Var("j", i32),), HALF),), True)
    with pytest.raises(CompileError) as caught:
        simplify(kernel(For("i", ZERO, Const(1000, i32), 1, (inner,), True)))
    assert without_line(caught.value) == (
        "kernel k did not compile for any target: unrolling gives more than 65536 statements\n"
        "  Remedy: unroll a shorter loop, or fewer loops inside one another."
    )


def test_what_the_builder_makes_checks() -> None:
    k = KernelBuilder("k", workgroup=(8, 1, 1), threads=(8, 1, 1))
    x = k.buffer("x", f16, "read", (8,))
    y = k.buffer("y", f16, "write", (8,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("exp", k.load(x, (i,))))
    check(k.finish())
