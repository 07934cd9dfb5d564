"""Random kernels without races: nested flow, exits, private and shared arrays, collectives, atomics, faults."""

from __future__ import annotations

import random

import numpy as np

from poot.dtypes import DType, bool_, f32, i32, i64, u32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr, If, Kernel, Var

WORKGROUPS = [(8, 1, 1), (32, 1, 1), (64, 1, 1), (5, 3, 1), (4, 2, 2), (48, 1, 1), (1, 16, 1), (100, 1, 1), (1, 1, 1)]
INTEGER_OPS = ["add", "sub", "mul", "and", "or", "xor", "min", "max", "floor_div", "rem", "shift_left", "shift_right"]
FLOAT_OPS = ["add", "sub", "mul", "min", "max"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


class Generator:
    """One random kernel; `together` lets it have barriers, collectives and shared arrays."""

    def __init__(self, seed: int) -> None:
        self.r = r = random.Random(seed)
        self.workgroup = r.choice(WORKGROUPS)
        self.together = r.random() < 0.4
        self.plain = r.random() < 0.5
        self.index = r.choice([i32, i32, i64])
        self.groups = (r.randint(1, 3), r.randint(1, 2), r.randint(1, 2) if self.workgroup[2] > 1 else 1)
        full = tuple(g * w for g, w in zip(self.groups, self.workgroup, strict=True))
        self.threads: tuple[int, ...] | None = None
        threads: tuple[int | None, int | None, int | None] | None = None
        if r.random() < 0.7 and not self.together:
            self.threads = tuple(max(1, f - r.randint(0, w - 1)) for f, w in zip(full, self.workgroup, strict=True))
            tx, ty, tz = self.threads
            threads = (tx, ty, tz) if r.random() < 0.5 else (None, ty, None)
        self.size = int(np.prod(full))
        self.full = full
        k = self.k = KernelBuilder("fuzz", workgroup=self.workgroup, threads=threads, index_dtype=self.index)
        n = self.size
        self.extent = n if r.random() < 0.5 else None
        k.buffer("a", i32, "read", (self.extent,))
        k.buffer("b", f32, "read", (n,))
        k.buffer("flags", bool_, "read", (n,))
        k.buffer("own", i32, "readwrite", (n,))
        k.buffer("counter", i32, "readwrite", (4,))
        self.outputs: list[tuple[str, DType]] = []
        self.scalar = k.scalar("s", i32)
        self.vars: list[tuple[Var, bool]] = []
        self.depth = 0
        self.loops: list[str] = []
        self.diverged = False
        self.budget = 40

    # --- expressions ---

    def i(self, value: int) -> Expr:
        return self.k.i(value)

    def place(self) -> Expr:
        """This thread's linear number in the grid."""
        k = self.k
        x, y, z = (k.index("thread", a) for a in range(3))
        return k.op("add", k.op("mul", k.op("add", k.op("mul", z, self.i(self.full[1])), y), self.i(self.full[0])), x)

    def inside(self, value: Expr) -> Expr:
        """An index within the buffers, from any integer."""
        return self.k.op("rem", self.k.cast(value, self.index), self.i(self.size))

    def expr(self, dtype: DType, depth: int = 0, uniform: bool = False) -> Expr:
        r, k = self.r, self.k
        known = [v for v, same in self.vars if v.dtype is dtype and (same or not uniform)]
        if known and r.random() < 0.35:
            return r.choice(known)
        if depth > 3 or r.random() < 0.2:
            return self.leaf(dtype, uniform)
        if dtype is bool_:
            if r.random() < 0.3:
                return k.op(r.choice(["and", "or", "xor"]), *(self.expr(bool_, depth + 1, uniform) for _ in "ab"))
            of = r.choice([i32, f32, u32])
            return k.op(r.choice(COMPARISONS), *(self.expr(of, depth + 1, uniform) for _ in "ab"))
        pick = r.random()
        if pick < 0.1:
            return k.op(
                "select", self.expr(bool_, depth + 1, uniform), *(self.expr(dtype, depth + 1, uniform) for _ in "ab")
            )
        if pick < 0.2:
            source = r.choice([d for d in (i32, u32, f32, bool_) if d is not dtype])
            return k.cast(self.expr(source, depth + 1, uniform), dtype)
        if pick < 0.3:
            return self.load(dtype, depth, uniform)
        if dtype is f32:
            if r.random() < 0.2:
                return k.op(r.choice(["neg", "abs", "floor", "sqrt", "round"]), self.expr(f32, depth + 1, uniform))
            return k.op(r.choice(FLOAT_OPS), *(self.expr(f32, depth + 1, uniform) for _ in "ab"))
        if r.random() < 0.1:
            return k.op(r.choice(["neg", "not", "popcount", "clz", "abs"]), self.expr(dtype, depth + 1, uniform))
        right = (
            self.expr(dtype, depth + 1, uniform) if r.random() < 0.6 else k.const(r.choice([0, 1, 2, 3, 8, 32]), dtype)
        )
        return k.op(r.choice(INTEGER_OPS), self.expr(dtype, depth + 1, uniform), right)

    def leaf(self, dtype: DType, uniform: bool) -> Expr:
        r, k = self.r, self.k
        if dtype is bool_:
            return k.const(r.random() < 0.5, bool_)
        if dtype is f32:
            return k.const(r.choice([0.0, -0.0, 1.0, -2.5, 0.75, 3.0, 1e30, float("inf"), float("nan")]), f32)
        if r.random() < 0.4:
            return k.const(r.choice([0, 1, 2, 5, 31, 100]), dtype)
        if r.random() < 0.3:
            return k.cast(self.scalar, dtype)
        kind, axis = r.choice(["group", "thread", "local", "group_size", "num_groups"]), r.randint(0, 2)
        if uniform and kind in ("thread", "local"):
            kind = "group"
        if self.plain and kind in ("local", "group"):
            axis = r.randint(1, 2)
        return k.cast(k.index(kind, axis), dtype)

    def load(self, dtype: DType, depth: int, uniform: bool) -> Expr:
        r, k = self.r, self.k
        buffer = r.choice(["a", "b", "flags"])
        place = self.place() if r.random() < 0.4 and not uniform else self.expr(i32, depth + 1, uniform)
        if r.random() < 0.25:
            index, checked = k.cast(place, self.index), True
        else:
            index, checked = self.inside(place), r.random() < 0.3
        return k.cast(k.load(buffer, (index,), checked=checked), dtype)

    # --- statements ---

    def new(self, value: Expr, same: bool = False) -> Var:
        var = self.k.let(value, "v")
        self.vars.append((var, same))
        return var

    def block(self, uniform: bool) -> None:
        """Statements of a nested block: locals made inside are forgotten."""
        kept = list(self.vars)
        self.depth += 1
        for _ in range(self.r.randint(1, 4)):
            self.statement(uniform)
        self.depth -= 1
        self.vars = kept

    def statement(self, uniform: bool) -> None:
        """One statement; `uniform` says that all threads of a group are here together."""
        r, k = self.r, self.k
        self.budget -= 1
        if self.budget < 0:
            return
        pick = r.random()
        if pick < 0.25:
            same = r.random() < 0.3
            self.new(self.expr(r.choice([i32, f32, u32, bool_]), 0, same), same and uniform)
        elif pick < 0.42:
            self.assign(uniform)
        elif pick < 0.5:
            self.own()
        elif pick < 0.68 and self.depth < 3:
            self.branch(uniform)
        elif pick < 0.84 and self.depth < 3:
            self.loop(uniform)
        elif pick < 0.9:
            self.leave(uniform)
        elif self.together and uniform and not self.diverged and pick < 0.97:
            self.cooperate()
        else:
            k.atomic("add", "counter", (self.i(r.randint(0, 3)),), self.expr(i32), checked=r.random() < 0.3)

    def assign(self, uniform: bool) -> None:
        r, k = self.r, self.k
        fixed = set(self.loops)
        choices = [(v, same) for v, same in self.vars if v.name not in fixed and (not same or uniform)]
        if not choices:
            return
        var, same = r.choice(choices)
        if same:
            # Marked as the same for the group: keep it so.
            k.assign(var, self.expr(var.dtype, 1, True))
        else:
            k.assign(var, self.expr(var.dtype, 1))

    def own(self) -> None:
        r, k = self.r, self.k
        place = self.place()
        if r.random() < 0.5:
            k.store("own", (place,), self.expr(i32, 1), checked=r.random() < 0.3)
        else:
            self.new(k.load("own", (place,), checked=r.random() < 0.3))

    def branch(self, uniform: bool) -> None:
        r, k = self.r, self.k
        same = r.random() < 0.4
        condition = self.expr(bool_, 1, same)
        inner = uniform and same
        with k.block() as then:
            self.block(inner)
        with k.block() as orelse:
            if r.random() < 0.5:
                self.block(inner)
        k.emit(If(condition, tuple(then), tuple(orelse)))

    def loop(self, uniform: bool) -> None:
        r, k = self.r, self.k
        same = r.random() < 0.5
        small = k.op("and", self.expr(i32, 1, same), k.const(7, i32))
        kind = r.random()
        step = r.choice([1, 1, 2, -1, 3])
        if kind < 0.35:
            start, stop = (k.const(0, i32), small) if step > 0 else (small, k.const(-1, i32))
        elif kind < 0.6:
            start, stop = small, k.op("and", self.expr(i32, 1, same), k.const(15, i32))
        else:
            self.while_(uniform, same, small)
            return
        if r.random() < 0.2:
            # Threads step through a range together.
            step = r.choice([1, 2, 16, 32])
            start = k.cast(k.index(r.choice(["thread", "local"]), 0), i32)
            stop, same = k.op("and", self.expr(i32, 1, True), k.const(127, i32)), False
        diverged = self.diverged
        with k.for_(start, stop, step) as var:
            self.loops.append(var.name)
            kept = list(self.vars)
            self.vars.append((var, same and uniform))
            self.looping(uniform and same)
            self.vars = kept
            self.loops.pop()
        self.diverged = self.diverged or diverged

    def looping(self, uniform: bool) -> None:
        """The body of a loop: breaks that not all take make it divergent, so none of it is done together."""
        together = self.together
        self.together = self.together and uniform and self.r.random() < 0.5
        self.exits = not self.together
        self.block(uniform and self.together)
        self.together = together

    def while_(self, uniform: bool, same: bool, small: Expr) -> None:
        k = self.k
        count = k.let(k.const(0, i32), "count")
        with k.while_(k.op("lt", count, small)):
            k.assign(count, k.op("add", count, k.const(1, i32)))
            self.loops.append(count.name)
            self.looping(False)
            self.loops.pop()

    def leave(self, uniform: bool) -> None:
        r, k = self.r, self.k
        if self.together:
            return
        pick = r.random()
        with k.if_(self.expr(bool_, 1, r.random() < 0.3)):
            if self.loops and pick < 0.4:
                k.break_()
            elif self.loops and pick < 0.8:
                k.continue_()
            elif pick > 0.9:
                k.return_()

    def cooperate(self) -> None:
        r, k = self.r, self.k
        pick = r.random()
        if pick < 0.5:
            of = r.choice([i32, u32])
            op = r.choice(["sum", "max", "min", "scan"])
            self.vars.append((k.collective(op, self.expr(of, 1), "c"), op != "scan"))
        elif pick < 0.7:
            self.vars.append((k.collective(r.choice(["any", "all"]), self.expr(bool_, 1), "c"), True))
        else:
            self.exchange()

    def exchange(self) -> None:
        """Each thread writes its cell of a shared array and reads another's."""
        k = self.k
        name, count = self.shared
        x, y, z = (k.index("local", a) for a in range(3))
        wx, wy, _ = self.workgroup
        local = k.op("add", k.op("mul", k.op("add", k.op("mul", z, self.i(wy)), y), self.i(wx)), x)
        k.store(name, (local,), self.expr(i32, 1))
        k.barrier()
        other = k.op("rem", k.cast(self.expr(i32, 1), self.index), self.i(count))
        self.new(k.load(name, (other,)))
        k.barrier()

    # --- whole kernels ---

    def kernel(self) -> Kernel:
        k, r = self.k, self.r
        count = int(np.prod(self.workgroup))
        if self.together:
            self.shared = k.alloc("shared", i32, (count,), "shared"), count
        private = k.alloc("private", i32, (4,), "private")
        for slot in range(4):
            k.store(private, (self.i(slot),), k.const(slot, i32))
        if self.together or r.random() < 0.5:
            self.body(private)
        else:
            self.guarded(private)
        return k.finish()

    def guarded(self, private: str) -> None:
        """The body under a guard on the thread number, in one of the forms that people write."""
        k, r = self.k, self.r
        x = k.let(k.index("thread", 0), "x")
        bound = r.choice([self.i(r.randint(0, self.full[0] + 2)), k.cast(self.scalar, self.index)])
        low = self.i(r.randint(-1, 3))
        conditions = [k.op("lt", x, bound), k.op("ge", bound, x), k.op("gt", x, low), k.op("le", low, x)]
        conditions += [k.op("lt", k.index("thread", 1), self.i(1)), k.op("ne", x, self.i(2))]
        condition = r.choice(conditions)
        for _ in range(r.randint(0, 2)):
            condition = k.op("and", condition, r.choice(conditions))
        if r.random() < 0.5:
            with k.if_(condition):
                self.body(private)
        else:
            with k.if_(k.op("not", condition) if r.random() < 0.5 else k.op("gt", x, bound)):
                k.return_()
            self.body(private)

    def body(self, private: str) -> None:
        k, r = self.k, self.r
        for _ in range(r.randint(3, 9)):
            self.statement(True)
            if r.random() < 0.3:
                slot = k.op("and", self.expr(self.index if self.index is i32 else i32, 1), k.const(3, i32))
                at = k.cast(slot, self.index)
                if r.random() < 0.5:
                    k.store(private, (at,), self.expr(i32, 1), checked=r.random() < 0.3)
                else:
                    self.new(k.load(private, (at,)))
        for var, _ in list(self.vars)[:6]:
            name = k.buffer(f"out_{var.name}", var.dtype, "write", (self.size,))
            self.outputs.append((name, var.dtype))
            k.store(name, (self.place(),), var, checked=r.random() < 0.2)

    def arguments(self) -> dict[str, object]:
        rng = np.random.default_rng(self.r.randint(0, 1 << 30))
        n = self.size
        values: dict[str, object] = {
            "a": rng.integers(-20, 100, n, np.int32),
            "b": rng.choice(np.array([0.0, -0.0, 1.5, -3.25, 7.0, np.inf, np.nan, 100.0], np.float32), n),
            "flags": rng.random(n) < 0.5,
            "own": rng.integers(-5, 5, n, np.int32),
            "counter": np.zeros(4, np.int32),
            "s": np.int32(rng.integers(-3, 9)),
        }
        for name, dtype in self.outputs:
            values[name] = np.zeros(n, dtype.dtype)
        return values
