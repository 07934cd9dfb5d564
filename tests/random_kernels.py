"""Random kernels: nested flow, exits, integer edges, dyadic floats, accesses in and out of bounds, assertions, atomics.

`RandomKernel(seed, racy=False)` lets threads write elements of their own alone, so that any order of threads gives the
same; racy ones mean the same only to runs in lockstep.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from poot.dtypes import DType, bool_, f32, i32, u8
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Const, Expr, If, Kernel, Var

EDGES = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, -1, -2, 100, 2**31 - 1, -(2**31))
BINARY = ("add", "add", "add", "sub", "mul", "floor_div", "rem", "min", "max", "and", "or", "xor")
SHIFTS = ("shift_left", "shift_right")
ORDERS = ("lt", "le", "gt", "ge", "eq", "ne")


class RandomKernel:
    """One kernel with its launch: `kernel`, `values()`, `groups`, `threads`, `bound` (the run-time thread counts)."""

    def __init__(self, seed: int, *, racy: bool) -> None:
        self.seed, self.racy = seed, racy
        self.r = r = random.Random(seed)
        self.n = r.choice([1, 7, 40, 100])
        rows = r.choice([1, 1, 3])
        size = r.choice([1, 8, 32])
        self.bound = [self.n] if r.random() < 0.5 else []
        self.k = k = KernelBuilder("f", workgroup=(size, 1, 1), threads=(None if self.bound else self.n, rows, 1))
        self.groups = (-(-self.n // size), rows, 1)
        self.threads = (self.n, rows, 1)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, DType] = {"a": i32, "b": i32, "c": f32, "d": u8, "mine": i32, "own": f32}
        for name, dtype in self.dtypes.items():
            self._buffer(name, dtype, rows)
        self.s = k.scalar("s", i32)
        self.ints: list[Expr] = []
        self.floats: list[Expr] = []
        self.flags: list[Expr] = []
        self.changing: list[Var] = []
        self.depth = self.loops = 0
        self.budget = r.randint(4, 26)
        while self.budget > 0:
            self.stmt()
        for value in self.ints[:4]:
            self.put("mine", k.cast(value, i32))
        self.kernel: Kernel = k.finish()

    def _buffer(self, name: str, dtype: DType, rows: int) -> None:
        r = self.r
        if name in ("mine", "own"):
            shape: tuple[int, ...] = (self.n * rows, 2)
        else:
            shape = tuple(r.choice([3, 5, 16, self.n, self.n + 3]) for _ in range(r.choice([1, 1, 2])))
        self.shapes[name] = shape
        baked = tuple(None if r.random() < 0.5 else extent for extent in shape)
        strides = tuple(None for _ in shape) if r.random() < 0.3 else None
        read_only = name == "a" or not (self.racy or name in ("mine", "own"))
        self.k.buffer(name, dtype, "read" if read_only else "readwrite", baked, strides)

    def values(self) -> dict[str, Any]:
        """Fresh arguments, the same for every call."""
        rng = np.random.default_rng(self.seed)
        made: dict[str, Any] = {"s": int(rng.integers(-3, 20))}
        for name, dtype in self.dtypes.items():
            shape = self.shapes[name]
            if dtype is f32:
                made[name] = (rng.integers(-8, 8, shape) / 4).astype(np.float32)
            else:
                made[name] = rng.integers(0, 20, shape).astype(dtype.dtype)
        return made

    # --- expressions ---

    def const(self) -> Expr:
        return self.k.i(self.r.choice([*EDGES, self.r.randint(-50, 50)]))

    def extent(self) -> Expr:
        name = self.r.choice(list(self.shapes))
        return self.k.index("extent", self.r.randrange(len(self.shapes[name])), name)

    def leaf(self) -> Expr:
        k, r = self.k, self.r
        makers: list[Callable[[], Expr]] = [
            self.const,
            lambda: k.index("thread", 0),
            lambda: k.index("thread", 0),
            lambda: k.index("thread", 1),
            lambda: k.index("local", 0),
            lambda: k.index("group", 0),
            lambda: self.s,
            self.extent,
        ]
        if self.ints and r.random() < 0.4:
            return r.choice(self.ints)
        return r.choice(makers)()

    def integer(self, depth: int = 0) -> Expr:
        k, r, below = self.k, self.r, depth + 1
        pick = r.random()
        if depth > 3 or pick < 0.35:
            return self.leaf()
        if pick < 0.40:
            return self.load(r.choice(["a", "b"]), below)
        if pick < 0.43:
            return k.cast(self.load("d", below), i32)
        if pick < 0.46:
            return k.cast(self.real(below), i32)
        if pick < 0.50:
            return k.op("select", self.condition(below), self.integer(below), self.integer(below))
        if pick < 0.58:
            return k.op(r.choice(["neg", "abs", "not", "popcount", "clz"]), self.integer(below))
        a, b = self.integer(below), self.const() if r.random() < 0.5 else self.integer(below)
        if r.random() < 0.1:
            a, b = b, a
        return k.op(r.choice(SHIFTS if pick < 0.63 else BINARY), a, b)

    def condition(self, depth: int = 0) -> Expr:
        k, r, below = self.k, self.r, depth + 1
        pick = r.random()
        if self.flags and r.random() < 0.2:
            return r.choice(self.flags)
        if pick < 0.15 and depth < 4:
            return k.op(r.choice(["and", "or"]), self.condition(below), self.condition(below))
        if pick < 0.2 and depth < 4:
            return k.op("not", self.condition(below))
        if pick < 0.25:
            return k.op(r.choice(ORDERS), self.real(below), self.real(below))
        right = r.choice([self.const, self.extent, lambda: self.integer(below + 1)])
        return k.op(r.choice(ORDERS), self.integer(below), right())

    def real(self, depth: int = 0) -> Expr:
        k, r, below = self.k, self.r, depth + 1
        pick = r.random()
        if depth > 3 or pick < 0.3:
            if self.floats and r.random() < 0.6:
                return r.choice(self.floats)
            return k.const(r.choice([0.0, -0.0, 1.0, 2.0, -1.5, 0.25, float("inf"), 3.0]), f32)
        if pick < 0.45:
            return self.load("c", below)
        if pick < 0.55:
            return k.cast(self.integer(below), f32)
        if pick < 0.6:
            return k.op("select", self.condition(below), self.real(below), self.real(below))
        if pick < 0.7:
            return k.op(r.choice(["neg", "abs", "floor", "trunc"]), self.real(below))
        return k.op(r.choice(["add", "sub", "mul", "div", "min", "max"]), self.real(below), self.real(below))

    def load(self, name: str, depth: int) -> Expr:
        return self.k.load(name, [self.integer(depth + 1) for _ in self.shapes[name]], checked=True)

    def own(self) -> list[Expr]:
        """An element of this thread alone, now and then one out of bounds."""
        k = self.k
        row = k.op("add", k.index("thread", 0), k.op("mul", k.index("thread", 1), k.i(self.n)))
        return [row, k.i(self.r.choice([0, 1, 0, 1, 0, 1, 2, -1]))]

    def put(self, name: str, value: Expr) -> None:
        self.k.store(name, self.own(), value, checked=True)

    # --- statements ---

    def block(self, unrolled: bool) -> None:
        kinds: tuple[list[Any], ...] = (self.ints, self.floats, self.flags, self.changing)
        marks = [len(kind) for kind in kinds]
        self.depth += 1
        for _ in range(self.r.randint(1, 4)):
            if self.budget > 0:
                self.stmt(unrolled)
        self.depth -= 1
        for kind, mark in zip(kinds, marks, strict=True):
            del kind[mark:]

    def stmt(self, unrolled: bool = False) -> None:
        k, r = self.k, self.r
        self.budget -= 1
        pick = r.random()
        if pick < 0.34:
            self.declare()
        elif pick < 0.47 and self.changing:
            self.assign(r.choice(self.changing))
        elif pick < 0.6:
            self.write()
        elif pick < 0.75 and self.depth < 4:
            condition = self.condition()
            with k.block() as then:
                self.block(unrolled)
            with k.block() as orelse:
                if r.random() < 0.4:
                    self.block(unrolled)
            k.emit(If(condition, tuple(then), tuple(orelse)))
        elif pick < 0.85 and self.depth < 3:
            self.counted()
        elif pick < 0.9 and self.depth < 3:
            self.repeated()
        elif pick < 0.93 and self.loops and not unrolled:
            with k.if_(self.condition()):
                (k.break_ if r.random() < 0.5 else k.continue_)()
        elif pick < 0.95:
            with k.if_(self.condition()):
                k.return_()
        elif pick < 0.97:
            k.assertion(self.condition(), "m")
        else:
            self.change()

    def declare(self) -> None:
        pick = self.r.random()
        if pick < 0.65:
            var, kind = self.k.let(self.integer(), "i"), self.ints
        elif pick < 0.85:
            var, kind = self.k.let(self.real(), "x"), self.floats
        else:
            literal = self.k.const(pick < 0.9, bool_)
            var, kind = self.k.let(literal if pick < 0.95 else self.condition(), "flag"), self.flags
        kind.append(var)
        if self.r.random() < 0.4 or kind is self.flags:
            self.changing.append(var)

    def assign(self, var: Var) -> None:
        k, r = self.k, self.r
        if var.dtype is bool_:
            k.assign(var, k.const(r.random() < 0.5, bool_) if r.random() < 0.4 else self.condition())
        elif r.random() < 0.5:
            k.assign(var, k.op("add", var, self.const() if var.dtype is i32 else self.real(1)))
        else:
            k.assign(var, self.integer() if var.dtype is i32 else self.real())

    def write(self) -> None:
        k, r = self.k, self.r
        if not self.racy or r.random() < 0.3:
            if r.random() < 0.5:
                self.put("mine", self.integer())
            else:
                self.put("own", self.real())
            return
        name = r.choice(["b", "c", "d"])
        value = {"b": self.integer, "c": self.real, "d": lambda: k.cast(self.integer(), u8)}[name]()
        k.store(name, [self.integer(1) for _ in self.shapes[name]], value, checked=True)

    def change(self) -> None:
        place = [self.integer(1) for _ in self.shapes["b"]] if self.racy else self.own()
        op = self.r.choice(["add", "max", "exchange", "xor"])
        self.ints.append(self.k.atomic(op, "b" if self.racy else "mine", place, self.integer(1), checked=True))

    def counted(self) -> None:
        k, r = self.k, self.r
        unrolled = r.random() < 0.3
        low: Expr = k.i(r.randint(-2, 3))
        high: Expr = k.i(r.randint(0, 6))
        if not unrolled and r.random() < 0.5:
            low = k.op("max", self.integer(2), k.i(-5)) if r.random() < 0.3 else k.i(0)
            high = k.op("min", self.integer(2), k.i(9))
        step = r.choice([1, 1, 2, 3, -1])
        if step < 0:
            low, high = high if isinstance(high, Const) else k.op("min", high, k.i(7)), k.op("max", low, k.i(-5))
            high = k.i(r.randint(-3, 1)) if unrolled else high
        with k.for_(low, high, step, unroll=unrolled and isinstance(low, Const)) as var:
            self.inside(var, unrolled)

    def repeated(self) -> None:
        k, r = self.k, self.r
        var = k.let(k.i(r.randint(0, 3)), "w")
        limit = k.op("min", self.integer(2), k.i(r.randint(1, 8)))
        with k.while_(k.op("and", k.op("lt", var, limit), k.op("lt", var, k.i(9)))):
            k.assign(var, k.op("add", var, k.i(r.choice([1, 1, 2]))))
            self.inside(var, False)

    def inside(self, var: Var, unrolled: bool) -> None:
        self.ints.append(var)
        self.loops += not unrolled
        self.block(unrolled)
        self.loops -= not unrolled
        self.ints.pop()
