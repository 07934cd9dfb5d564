"""Kernel text: readable, complete, and the same for kernels that mean the same."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

from poot.dtypes import bf16, bool_, f16, f32, f64, i32, i64, u8
from poot.errors import SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Const, If, Kernel
from poot.kernel.text import dump, dump_expr, kernel_hash


def everything(where: SourceLocation | None = None) -> Kernel:
    k = KernelBuilder("all", workgroup=(32, 2, 1), threads=(None, 8, 1))
    k.where = where
    x = k.buffer("x", f32, "read", (None, 4), align=16)
    y = k.buffer("y", f32, "write", (8,))
    n = k.buffer("n", i32, "readwrite", ())
    s = k.scalar("s", f64)
    tile = k.alloc("tile", f16, (4, 8), "shared")
    k.alloc("regs", i32, (2,), "private")
    i = k.index("thread", 0)
    half = k.let(k.cast(s, f32), "half")
    flag = k.let(k.op("not", k.op("lt", i, k.index("extent", 0, x))), "flag")
    k.store(tile, (k.i(0), k.index("local", 0)), k.const(1, f16), checked=True)
    k.barrier()
    total = k.collective("sum", half, "total")
    with k.for_(k.i(0), k.index("stride", 0, x), 2, hint="j") as j, k.if_(k.op("eq", j, k.i(-3))):
        k.continue_()
    with k.for_(k.i(3), k.i(0), -1, hint="u", unroll=True):
        k.assign(half, k.op("neg", half))
    with k.while_(flag):
        k.break_()
    old = k.atomic("compare_exchange", n, (), k.i(2), compare=k.i(1))
    with k.block() as then:
        k.store(y, (i,), k.op("mul", k.op("add", total, k.load(x, (i, k.i(0)), checked=True)), half))
    with k.block() as orelse, k.if_(k.op("gt", old, k.i(0))):
        k.return_()
    k.emit(If(flag, tuple(then), tuple(orelse)))
    k.assertion(k.op("select", flag, flag, k.const(True, bool_)), "it's so")
    return k.finish()


def test_every_statement_and_expression() -> None:
    assert dump(everything()) == (
        """\
@kernel(workgroup=(32, 2, 1), threads=(?, 8, 1), index=i32)
def all(x: In[f32, (?, 4), strides=(4, 1), align=16], y: Out[f32, (8), strides=(1)], n: InOut[i32, ()], s: f64):
    tile = shared(f16, (4, 8))
    regs = private(i32, (2))
    half: f32 = cast(s, f32)
    flag: bool = ~(thread_index("x") < x.shape[0])
    checked(tile)[0, local_index("x")] = f16(1.0)
    barrier()
    total: f32 = group_sum(half)
    for j in range(0, x.strides[0], 2):
        if j == -3:
            continue
    for u in unroll(range(3, 0, -1)):
        half = -half
    while flag:
        break
    old: i32 = atomic_compare_exchange(n[()], 1, 2)
    if flag:
        y[thread_index("x")] = (total + checked(x)[thread_index("x"), 0]) * half
    elif old > 0:
        return
    assert select(flag, flag, True), "it's so"
"""
    )


def test_locations_are_left_out_and_names_are_not() -> None:
    plain, placed = everything(), everything(SourceLocation("f.py", 3, 4, 9))
    assert plain == placed
    assert dump(plain) == dump(placed)
    assert kernel_hash(plain) == kernel_hash(placed)
    renamed = replace(plain, name="other")
    assert kernel_hash(renamed) != kernel_hash(plain)
    assert kernel_hash(renamed, named=False) == kernel_hash(plain, named=False)


def test_literals_are_exact() -> None:
    def text(value: float, dtype: type = f32) -> str:
        return dump_expr(Const(value, dtype), i32)  # type: ignore[arg-type]

    third = struct.unpack("<f", struct.pack("<f", 1 / 3))[0]
    assert text(third) == "f32(0.3333333432674408)"
    assert float(text(third)[4:-1]) == third
    assert (text(-0.0), text(0.0)) == ("f32(-0.0)", "f32(0.0)")
    assert (text(math.inf), text(-math.inf)) == ("f32(inf)", "f32(-inf)")
    assert text(math.nan) == "f32(nan:7ff8000000000000)"
    assert text(struct.unpack(">d", bytes.fromhex("7ff8000020000000"))[0]) == "f32(nan:7ff8000020000000)"
    assert text(0.5, bf16) == "bf16(0.5)"
    assert (text(3, i32), text(3, i64), text(3, u8)) == ("3", "i64(3)", "u8(3)")


def test_what_differs_in_meaning_differs_in_text() -> None:
    def one(**changes: object) -> Kernel:
        k = KernelBuilder("k", workgroup=(8, 1, 1))
        x = k.buffer("x", f32, "readwrite", (4,))
        checked = bool(changes.pop("checked", False))
        value = changes.pop("value", k.const(1, f32))
        k.store(x, (k.index("thread", 0),), value, checked=checked)  # type: ignore[arg-type]
        return replace(k.finish(), **changes)  # type: ignore[arg-type]

    k = KernelBuilder("k", workgroup=(8, 1, 1))
    variants = [
        one(),
        one(checked=True),
        one(value=k.const(-0.0, f32)),
        one(value=k.const(0.0, f32)),
        one(value=k.cast(k.const(1, f64), f32)),
        one(value=k.bitcast(k.const(1, i32), f32)),
        one(workgroup=(16, 1, 1)),
        one(threads=(8, 1, 1)),
        one(threads=(None, 1, 1)),
        one(index_dtype=i64),
    ]
    assert len({dump(kernel) for kernel in variants}) == len(variants)


def test_operands_keep_their_grouping() -> None:
    k = KernelBuilder("k", workgroup=(8, 1, 1))
    a, b, c = (k.scalar(name, i32) for name in "abc")

    def text(expr: object) -> str:
        return dump_expr(expr, i32)  # type: ignore[arg-type]

    assert text(k.op("sub", a, k.op("sub", b, c))) == "a - (b - c)"
    assert text(k.op("sub", k.op("sub", a, b), c)) == "(a - b) - c"
    assert text(k.op("neg", k.op("neg", a))) == "-(-a)"
    assert text(k.op("neg", k.i(3))) == "-(3)"
    assert text(k.op("min", k.op("add", a, b), c)) == "min(a + b, c)"
    assert text(k.op("shift_left", a, k.i(2))) == "a << 2"
