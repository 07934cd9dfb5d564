"""Kernels for the golden files of the GPU renderers: one for each thing that a renderer has to write."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32
from poot.errors import SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr, If, Kernel, Var
from poot.kernel.pipeline import prepare


class Written(KernelBuilder):
    """A builder whose statements seem to come from lines of a user's file, given one by one."""

    def at(self, text: str) -> None:
        """What follows comes from a new line of this text."""
        self.lines: list[str] = [*getattr(self, "lines", []), text + "\n"]
        file = f"<golden {self.name}>"
        linecache.cache[file] = (1, None, self.lines, file)
        self.where = SourceLocation(file, len(self.lines))

    @contextmanager
    def for_(self, start: Expr, stop: Expr, step: int = 1, *, hint: str = "i", unroll: bool = False) -> Generator[Var]:
        where = self.where
        with super().for_(start, stop, step, hint=hint, unroll=unroll) as var:
            yield var
            self.where = where

    @contextmanager
    def while_(self, condition: Expr) -> Generator[None]:
        where = self.where
        with super().while_(condition):
            yield
            self.where = where

    @contextmanager
    def if_(self, condition: Expr) -> Generator[None]:
        where = self.where
        with super().if_(condition):
            yield
            self.where = where


@dataclass(frozen=True)
class Case:
    """A kernel; `triton` says whether Triton can express it."""

    make: Callable[[], Kernel]
    triton: bool = True


CASES: dict[str, Case] = {}


def case(*, triton: bool = True) -> Callable[[Callable[[], KernelBuilder]], Callable[[], KernelBuilder]]:
    def add(make: Callable[[], KernelBuilder]) -> Callable[[], KernelBuilder]:
        CASES[make.__name__] = Case(lambda: prepare(make().finish()), triton)
        return make

    return add


def start(name: str, *, size: int = 128, threads: int | str | None = "groups") -> Written:
    bound = None if threads == "groups" else (threads, 1, 1)
    return Written(name, workgroup=(size, 1, 1), threads=bound)  # type: ignore[arg-type]


def ends(k: Written, condition: Expr) -> None:
    with k.if_(condition):
        k.return_()


@case()
def saxpy() -> KernelBuilder:
    k = start("saxpy", threads=None)
    x, y = k.buffer("x", f32, "read", (None,), align=16), k.buffer("y", f32, "readwrite", (None,), align=16)
    a, i = k.scalar("a", f32), k.index("thread", 0)
    k.at("y[i] = a * x[i] + y[i]")
    k.store(y, (i,), k.op("add", k.op("mul", a, k.load(x, (i,))), k.load(y, (i,))))
    return k


@case()
def baked_map() -> KernelBuilder:
    k = start("baked_map", threads=4096)
    x, y = k.buffer("x", f32, "read", (64, 64)), k.buffer("y", f32, "write", (64, 64))
    i = k.index("thread", 0)
    row, column = k.let(k.op("floor_div", i, k.i(64)), "row"), k.let(k.op("rem", i, k.i(64)), "column")
    k.at("y[row, column] = max(x[column, row], 0)")
    k.store(y, (row, column), k.op("max", k.load(x, (column, row)), k.const(0.0, f32)))
    return k


@case()
def halves() -> KernelBuilder:
    k = start("halves", threads=1000)
    x, y, z = (
        k.buffer(n, d, a, (1000,)) for n, d, a in (("x", bf16, "read"), ("y", f16, "write"), ("z", bf16, "write"))
    )  # type: ignore[arg-type]
    i = k.index("thread", 0)
    k.at("v = x[i] * x[i]")
    v = k.let(k.op("mul", k.load(x, (i,)), k.load(x, (i,))), "v")
    k.at("y[i] = f16(v)")
    k.store(y, (i,), k.cast(v, f16))
    k.at("z[i] = v + 1")
    k.store(z, (i,), k.op("add", v, k.const(1.0, bf16)))
    return k


@case()
def integers() -> KernelBuilder:
    k = start("integers", threads=None)
    x, y = k.buffer("x", i32, "read", (None,)), k.buffer("y", i32, "write", (None,))
    i = k.index("thread", 0)
    a, b = k.let(k.load(x, (i,)), "a"), k.scalar("b", i32)
    k.at("y[i] = (a // b) ^ (a % 7) + (a << b)")
    total = k.op("add", k.op("rem", a, k.i(7)), k.op("shift_left", a, b))
    k.store(y, (i,), k.op("xor", k.op("floor_div", a, b), total))
    return k


@case()
def narrow_integers() -> KernelBuilder:
    k = start("narrow_integers", threads=300)
    x, y = k.buffer("x", i8, "read", (300,)), k.buffer("y", u8, "write", (300,))
    i = k.index("thread", 0)
    a = k.let(k.load(x, (i,)), "a")
    k.at("y[i] = u8(popcount(a) + clz(a)) >> 1")
    count = k.op("add", k.op("popcount", a), k.op("clz", a))
    k.store(y, (i,), k.op("shift_right", k.cast(count, u8), k.const(1, u8)))
    return k


@case()
def casts() -> KernelBuilder:
    k = start("casts", threads=256)
    x = k.buffer("x", f64, "read", (256,))
    i = k.index("thread", 0)
    a = k.let(k.load(x, (i,)), "a")
    targets: tuple[DType, ...] = (bool_, i8, i64, u32, f16, bf16, f32)
    for to in targets:
        k.at(f"to_{to}[i] = {to}(a)")
        k.store(k.buffer(f"to_{to}", to, "write", (256,)), (i,), k.cast(a, to))
    return k


@case()
def rounding() -> KernelBuilder:
    k = start("rounding", threads=256)
    x = k.buffer("x", f32, "read", (256,))
    i = k.index("thread", 0)
    a = k.let(k.load(x, (i,)), "a")
    for name in ("floor", "ceil", "trunc", "round", "sqrt", "neg", "abs"):
        k.at(f"{name}[i] = {name}(a)")
        k.store(k.buffer(f"y_{name}", f32, "write", (256,)), (i,), k.op(name, a))
    k.at("least[i] = min(a, 1 / a)")
    k.store(k.buffer("least", f32, "write", (256,)), (i,), k.op("min", a, k.op("div", k.const(1.0, f32), a)))
    return k


@case()
def branches() -> KernelBuilder:
    k = start("branches", threads=None)
    x, y = k.buffer("x", f32, "read", (None,)), k.buffer("y", f32, "write", (None,))
    i = k.index("thread", 0)
    v = k.let(k.load(x, (i,)), "v")
    k.at("if v < 0:")
    where = k.where
    with k.block() as then:
        k.at("v = -v")
        k.assign(v, k.op("neg", v))
    with k.block() as orelse:
        k.at("v = v + 1")
        k.assign(v, k.op("add", v, k.const(1.0, f32)))
    k.where = where
    k.emit(If(k.op("lt", v, k.const(0.0, f32)), tuple(then), tuple(orelse), where))
    k.at("y[i] = v")
    k.store(y, (i,), v)
    return k


@case()
def uniform_branch() -> KernelBuilder:
    k = start("uniform_branch", threads=1024)
    y, n, i = k.buffer("y", i32, "write", (1024,)), k.scalar("n", i32), k.index("thread", 0)
    k.at("total = 0")
    total = k.let(k.i(0), "total")
    k.at("if n > 3:")
    with k.if_(k.op("gt", n, k.i(3))):
        k.at("total = n * 2")
        k.assign(total, k.op("mul", n, k.i(2)))
    k.at("y[i] = total")
    k.store(y, (i,), total)
    return k


@case()
def early_return() -> KernelBuilder:
    k = start("early_return", threads=None)
    y, n, i = k.buffer("y", i32, "write", (None,)), k.scalar("n", i32), k.index("thread", 0)
    k.at("if i % n == 0: return")
    ends(k, k.op("eq", k.op("rem", i, n), k.i(0)))
    k.at("y[i] = i")
    k.store(y, (i,), k.cast(i, i32))
    return k


@case()
def mandelbrot() -> KernelBuilder:
    k = start("mandelbrot", threads=None)
    y, i = k.buffer("y", i32, "write", (None,)), k.index("thread", 0)
    k.at("c = i / 1024 - 1.5")
    c = k.let(k.op("sub", k.op("mul", k.cast(i, f32), k.const(1 / 1024, f32)), k.const(1.5, f32)), "c")
    z, count = k.let(k.const(0.0, f32), "z"), k.let(k.i(0), "count")
    k.at("while z * z < 4 and count < 100:")
    inside = k.op("lt", k.op("mul", z, z), k.const(4.0, f32))
    with k.while_(k.op("and", inside, k.op("lt", count, k.i(100)))):
        k.at("z = z * z + c")
        k.assign(z, k.op("add", k.op("mul", z, z), c))
        k.at("count += 1")
        k.assign(count, k.op("add", count, k.i(1)))
    k.at("y[i] = count")
    k.store(y, (i,), count)
    return k


@case()
def loop_with_exits() -> KernelBuilder:
    k = start("loop_with_exits", threads=None)
    x, y = k.buffer("x", i32, "read", (None,)), k.buffer("y", i32, "write", (None,))
    i, total = k.index("thread", 0), None
    k.at("total = 0")
    total = k.let(k.i(0), "total")
    k.at("for j in range(0, n, 3):")
    with k.for_(k.i(0), k.scalar("n", i32), 3, hint="j") as j:
        v = k.let(k.load(x, (j,)), "v")
        k.at("if v < 0: continue")
        with k.if_(k.op("lt", v, k.i(0))):
            k.continue_()
        k.at("if v > i: break")
        with k.if_(k.op("gt", v, i)):
            k.break_()
        k.at("total += v")
        k.assign(total, k.op("add", total, v))
    k.at("y[i] = total")
    k.store(y, (i,), total)
    return k


@case()
def row_softmax() -> KernelBuilder:
    k = start("row_softmax", size=256)
    x, y = k.buffer("x", f32, "read", (64, 1024), align=16), k.buffer("y", f32, "write", (64, 1024), align=16)
    row, lane = k.index("group", 0), k.index("local", 0)
    top = k.let(k.const(float("-inf"), f32), "top")
    k.at("for k0 in range(0, 1024, 256): top = max(top, x[row, k0 + lane])")
    with k.for_(k.i(0), k.i(1024), 256, hint="k0") as k0:
        k.assign(top, k.op("max", top, k.load(x, (row, k.op("add", k0, lane)))))
    k.at("top = group_max(top)")
    whole = k.collective("max", top, "whole")
    total = k.let(k.const(0.0, f32), "total")
    k.at("for k0 in range(0, 1024, 256): total += exp(x[row, k0 + lane] - top)")
    with k.for_(k.i(0), k.i(1024), 256, hint="k0") as k0:
        shifted = k.op("sub", k.load(x, (row, k.op("add", k0, lane))), whole)
        k.assign(total, k.op("add", total, k.op("exp", shifted)))
    k.at("total = group_sum(total)")
    divisor = k.collective("sum", total, "divisor")
    k.at("for k0 in range(0, 1024, 256): y[row, k0 + lane] = exp(x[row, k0 + lane] - top) / total")
    with k.for_(k.i(0), k.i(1024), 256, hint="k0") as k0:
        place = k.op("add", k0, lane)
        k.store(y, (row, place), k.op("div", k.op("exp", k.op("sub", k.load(x, (row, place)), whole)), divisor))
    return k


@case()
def scan() -> KernelBuilder:
    k = start("scan", size=96)
    x, y = k.buffer("x", i32, "read", (96,)), k.buffer("y", i32, "write", (96,))
    i = k.index("local", 0)
    k.at("y[i] = group_scan(x[i])")
    k.store(y, (i,), k.collective("scan", k.load(x, (i,)), "running"))
    k.at("some = group_any(x[i] < 0)")
    some = k.collective("any", k.op("lt", k.load(x, (i,)), k.i(0)), "some")
    with k.if_(some):
        k.at("y[0] = -1")
        k.store(y, (k.i(0),), k.i(-1))
    return k


@case()
def checked_gather() -> KernelBuilder:
    k = start("checked_gather", threads=None)
    x, at = k.buffer("x", f32, "read", (None, None)), k.buffer("at", i32, "read", (None, 2))
    y, i = k.buffer("y", f32, "write", (None,)), k.index("thread", 0)
    k.at("y[i] = x[at[i, 0], at[i, 1]]")
    first, second = k.let(k.load(at, (i, k.i(0)), checked=True)), k.let(k.load(at, (i, k.i(1)), checked=True))
    k.store(y, (i,), k.load(x, (first, second), checked=True), checked=True)
    k.at("assert at[i, 0] < 1000, 'small'")
    k.assertion(k.op("lt", first, k.i(1000)), "small")
    return k


@case()
def histogram() -> KernelBuilder:
    k = start("histogram", threads=None)
    x, bins = k.buffer("x", u8, "read", (None,)), k.buffer("bins", i32, "readwrite", (256,))
    last, i = k.buffer("last", f32, "readwrite", (1,)), k.index("thread", 0)
    k.at("atomic_add(bins, x[i], 1)")
    k.atomic("add", bins, (k.cast(k.load(x, (i,)), i32),), k.i(1))
    k.at("old = atomic_exchange(last, 0, 1.5)")
    k.atomic("exchange", last, (k.i(0),), k.const(1.5, f32))
    return k


@case()
def grid_3d() -> KernelBuilder:
    k = Written("grid_3d", workgroup=(8, 4, 2), threads=(None, None, 20))
    y = k.buffer("y", f32, "write", (20, None, None), (None, None, None))
    place = tuple(k.index("thread", axis) for axis in (2, 1, 0))
    k.at("y[z, y, x] = x + y")
    k.store(y, place, k.cast(k.op("add", place[1], place[2]), f32))
    return k


@case()
def wide_indices() -> KernelBuilder:
    k = Written("wide_indices", workgroup=(256, 1, 1), threads=(None, 1, 1), index_dtype=i64)
    x, y = k.buffer("x", f32, "read", (None,)), k.buffer("y", f32, "write", (None,))
    i = k.index("thread", 0)
    k.at("y[i] = x[2 * i]")
    k.store(y, (i,), k.load(x, (k.op("mul", i, k.i(2)),)))
    return k


@case()
def private_registers() -> KernelBuilder:
    k = start("private_registers", threads=256)
    x, y, i = k.buffer("x", f32, "read", (4, 256)), k.buffer("y", f32, "write", (256,)), k.index("thread", 0)
    k.at("acc = private(f32, 4)")
    acc = k.alloc("acc", f32, (4,), "private")
    for part in range(4):
        k.at(f"acc[{part}] = x[{part}, i]")
        k.store(acc, (k.i(part),), k.load(x, (k.i(part), i)))
    k.at("y[i] = acc[0] + acc[3]")
    k.store(y, (i,), k.op("add", k.load(acc, (k.i(0),)), k.load(acc, (k.i(3),))))
    return k


@case(triton=False)
def tile_transpose() -> KernelBuilder:
    k = Written("tile_transpose", workgroup=(16, 16, 1))
    x, y = k.buffer("x", f32, "read", (64, 64)), k.buffer("y", f32, "write", (64, 64))
    k.at("tile = shared(f32, (16, 17))")
    tile = k.alloc("tile", f32, (16, 17), "shared")
    lx, ly, gx, gy = (k.index(kind, axis) for kind in ("local", "group") for axis in (0, 1))  # type: ignore[arg-type]

    def place(group: Expr, local: Expr) -> Expr:
        return k.op("add", k.op("mul", group, k.i(16)), local)

    k.at("tile[ly, lx] = x[gy * 16 + ly, gx * 16 + lx]")
    k.store(tile, (ly, lx), k.load(x, (place(gy, ly), place(gx, lx))))
    k.at("barrier()")
    k.barrier()
    k.at("y[gx * 16 + ly, gy * 16 + lx] = tile[lx, ly]")
    k.store(y, (place(gx, ly), place(gy, lx)), k.load(tile, (lx, ly)))
    return k


@case(triton=False)
def private_memory() -> KernelBuilder:
    k = start("private_memory", threads=256)
    y, n, i = k.buffer("y", i32, "write", (256,)), k.scalar("n", i32), k.index("thread", 0)
    acc = k.alloc("acc", i32, (8,), "private")
    k.at("for j in range(8): acc[j] = j * i")
    with k.for_(k.i(0), k.i(8), hint="j") as j:
        k.store(acc, (j,), k.op("mul", j, i))
    k.at("y[i] = acc[n]")
    k.store(y, (i,), k.load(acc, (n,), checked=True))
    return k


@case(triton=False)
def large_shared() -> KernelBuilder:
    k = start("large_shared", size=256)
    y, i = k.buffer("y", f32, "write", (256,)), k.index("local", 0)
    a, b = k.alloc("a", f32, (16384,), "shared"), k.alloc("b", i32, (3,), "shared")
    k.at("a[i * 64] = i")
    k.store(a, (k.op("mul", i, k.i(64)),), k.cast(i, f32))
    k.at("atomic_add(b, 1, 1)")
    k.atomic("add", b, (k.i(1),), k.i(1))
    k.at("barrier()")
    k.barrier()
    k.at("y[i] = a[64]")
    k.store(y, (i,), k.load(a, (k.i(64),)))
    return k
