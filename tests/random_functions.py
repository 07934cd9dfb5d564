"""Random kernel functions, as source text: every integer dtype at its edges, dyadic floats, nested flow, guarded and
faulting accesses, helpers, unrolled loops, private and shared arrays, barriers, collectives and atomics.

`Function(seed, dtypes)` writes one; threads write elements of their own alone, or add to bins, so that any order of
threads gives the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from poot.dtypes import DType, f32, i32

SIZE = 29
BINS = 4
HELPERS = """
def pick(a, b):
    if a > b:
        return a - b
    if a == b:
        return a
    return b

def both(a, b):
    return b, a

def count(a, limit):
    turns = 0
    while turns < limit and turns < 5:
        turns += 1
        if a == limit:
            break
    return turns
"""
BINARY = ("+", "+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
ORDERS = ("<", "<=", ">", ">=", "==", "!=")
FLOATS = ("0.0", "-0.0", "0.25", "1.0", "-1.5", "3.0", "64.0", "math.inf", "math.nan")


class Function:
    """One kernel function: `text`, its launch `options`, and fresh `arguments()`."""

    def __init__(self, seed: int, dtypes: Sequence[DType]) -> None:
        self.seed = seed
        self.r = r = random.Random(seed)
        self.d, self.e = r.choice(dtypes), r.choice(dtypes)
        self.together = r.random() < 0.35
        self.workgroup = r.choice([4, 16, 24, 32])
        self.threads = 2 * self.workgroup if self.together else r.choice([1, 5, 33, 64])
        self.names: dict[str, list[str]] = {"d": ["v0", "v1"], "e": ["w0"], "i": ["i", "t0", "t1"], "f": ["u0", "u1"]}
        self.kinds = {"d": self.d, "e": self.e, "i": i32, "f": f32}
        self.lines: list[str] = []
        self.written_out: list[str] = []
        self.loops = self.number = 0
        self.budget = r.randint(4, 12)
        self.text = self.write()

    # --- expressions ---

    def literal(self, kind: str) -> str:
        dtype = self.kinds[kind]
        if kind == "f":
            return f"f32({self.r.choice(FLOATS)})"
        low, high = int(dtype.min), int(dtype.max)
        edges = [low, low + 1, high, high - 1, dtype.bits - 1, dtype.bits, 0, 1, 2, 3, 7, 100, -1, -2, -7]
        return f"{dtype}({self.r.choice([edge for edge in edges if low <= edge <= high])})"

    def index(self, depth: int) -> str:
        return f"({self.value('i', depth)}) % {SIZE}"

    def load(self, kind: str, depth: int) -> str:
        array = {"d": "a", "e": "b", "i": "n", "f": "x"}[kind]
        pick = self.r.random()
        if pick < 0.7:
            return f"{array}[{self.index(depth)}]"
        place = self.r.choice(self.names["i"])
        if pick < 0.95:
            return f"({array}[{place}] if 0 <= {place} < len({array}) else {self.literal(kind)})"
        return f"{array}[{place}]"

    def value(self, kind: str, depth: int = 2) -> str:
        r, below = self.r, depth - 1
        pick = r.random()
        if depth <= 0 or pick < 0.2:
            return r.choice(self.names[kind]) if r.random() < 0.6 else self.literal(kind)
        if pick < 0.32:
            return self.load(kind, below)
        if pick < 0.42:
            source = r.choice([other for other in self.kinds if other != kind])
            return f"{self.kinds[kind]}({self.value(source, below)})"
        if pick < 0.5:
            return f"({self.value(kind, below)} if {self.condition(below)} else {self.value(kind, below)})"
        a, b = self.value(kind, below), self.value(kind, below)
        if pick < 0.56:
            return r.choice([f"min({a}, {b})", f"max({a}, {b})", f"pick({a}, {b})"])
        if kind == "f":
            if pick < 0.66:
                return r.choice([f"abs({a})", f"-{a}", f"math.floor({a})", f"math.trunc({a})", f"math.sqrt({a})"])
            return f"({a} {r.choice('+-*/')} {b})"
        if pick < 0.66:
            return r.choice([f"abs({a})", f"-{a}", f"~{a}", f"popcount({a})", f"clz({a})", f"{a} ** 2"])
        if kind == "d" and pick < 0.7:
            return r.choice(["own[i]", f"mem[{self.value('i', below)} & 3]"])
        sign = r.choice(BINARY)
        if kind == "i" and sign in ("//", "%", "<<", ">>") and any(name in b for name in self.written_out):
            b = f"i32({b})"  # two constants of Python's are refused where it raises
        return f"({a} {sign} {b})"

    def condition(self, depth: int = 1) -> str:
        r, kind = self.r, self.r.choice("deif")
        a, b = self.value(kind, depth), self.value(kind, depth)
        plain = f"{a} {r.choice(ORDERS)} {b}"
        pick = r.random()
        if pick < 0.15:
            plain = f"{a} {r.choice(ORDERS[:2])} {self.value(kind, 0)} {r.choice(ORDERS[:2])} {b}"
        elif pick < 0.25:
            place = r.choice(self.names["i"])
            plain = f"0 <= {place} < len(a) and a[{place}] {r.choice(ORDERS)} {self.literal('d')}"
        elif pick < 0.35:
            plain = f"i >= {r.randrange(SIZE)} or n[i % {SIZE}] {r.choice(ORDERS)} {self.literal('i')}"
        elif pick < 0.42:
            plain = r.choice(["flag", "not flag"])
        if depth > 0 and r.random() < 0.25:
            return f"(({plain}) {r.choice(['and', 'or'])} {self.condition(0)})"
        return f"(not ({plain}))" if r.random() < 0.1 else f"({plain})"

    # --- statements ---

    def emit(self, indent: str, line: str) -> None:
        self.lines.append(indent + line)

    def block(self, indent: str, depth: int) -> None:
        before = len(self.lines)
        for _ in range(self.r.randint(1, 3)):
            self.statement(indent, depth)
        if len(self.lines) == before:
            self.emit(indent, "pass")

    def statement(self, indent: str, depth: int) -> None:
        r = self.r
        self.budget -= 1
        if self.budget < 0:
            return
        pick = r.random()
        if pick < 0.4 or not depth:
            self.assign(indent)
        elif pick < 0.5:
            self.memory(indent)
        elif pick < 0.68:
            self.emit(indent, f"if {self.condition()}:")
            self.block(indent + "    ", depth - 1)
            if r.random() < 0.3:
                self.emit(indent, f"elif {self.condition()}:")
                self.block(indent + "    ", depth - 1)
            if r.random() < 0.5:
                self.emit(indent, "else:")
                self.block(indent + "    ", depth - 1)
        elif pick < 0.9:
            self.loop(indent, depth)
        elif self.loops and pick < 0.96:
            self.emit(indent, f"if {self.condition()}:")
            self.emit(indent + "    ", r.choice(["break", "continue"]))
        elif not self.together:
            self.emit(indent, f"if {self.condition()}:")
            self.emit(indent + "    ", "return")

    def assign(self, indent: str) -> None:
        r = self.r
        kind = r.choice("ddeiif")
        name = r.choice([name for name in self.names[kind] if name[0] not in "ik"])
        pick = r.random()
        if pick < 0.15:
            self.emit(indent, f"flag = {self.condition()}")
        elif pick < 0.25:
            a, b = {"d": ("v0", "v1"), "f": ("u0", "u1")}.get(kind, ("t0", "t1"))
            self.emit(indent, r.choice([f"{a}, {b} = {b}, {a}", f"{a}, {b} = both({a}, {b})"]))
        elif pick < 0.5:
            op = r.choice("+-*/") if kind == "f" else r.choice(BINARY)
            self.emit(indent, f"{name} {op}= {self.value(kind, 1)}")
        elif pick < 0.58 and kind == "i":
            self.emit(indent, f"{name} = count({self.value('i', 1)}, {self.value('i', 0)})")
        else:
            self.emit(indent, f"{name} = {self.value(kind)}")

    def memory(self, indent: str) -> None:
        r = self.r
        choices = [
            f"own[i] = {self.value('d')}",
            f"mem[{self.value('i', 1)} & 3] = {self.value('d', 1)}",
            f"atomic_add(bins, {self.value('i', 1)} % {BINS}, {self.value('i', 1)})",
            f"res[i] = {self.value('f', 1)}",
            f"flags[i] = {self.condition()}",
        ]
        if self.d.bits == 32:
            op = r.choice(["add", "min", "max", "and", "or", "xor", "exchange"])
            choices.append(f"v0 = atomic_{op}(own, i, {self.value('d', 1)})")
        if r.random() < 0.1:
            choices = [f"own[{r.choice(['i + len(own)', '-1 - i'])}] = {self.value('d', 0)}", "assert t0 != 3"]
        self.emit(indent, r.choice(choices))

    def loop(self, indent: str, depth: int) -> None:
        r = self.r
        self.number += 1
        name = f"k{self.number}"
        inner = indent + "    "
        kind = r.random()
        if kind < 0.2:
            self.written_out.append(name)
            self.emit(indent, f"for {name} in unroll(range({r.choice(['3', '1, 7, 3', '2, -2, -2'])})):")
            self.inside(inner, name, depth, 0)
        elif kind < 0.7:
            ranges = ["t0 & 7", "-2, 7, 3", "9, i, -2", "t1 & 3, (t0 & 7) + 3", f"({self.value('i', 1)}) % 6, -1, -1"]
            self.emit(indent, f"for {name} in range({r.choice(ranges)}):")
            self.inside(inner, name, depth, self.loops + 1)
        else:
            self.emit(indent, f"{name} = 0")
            self.emit(indent, f"while {name} < {r.randint(1, 6)} and {self.condition(0)}:")
            self.emit(inner, f"{name} += 1")
            self.inside(inner, name, depth, self.loops + 1)

    def inside(self, indent: str, name: str, depth: int, loops: int) -> None:
        self.names["i"].append(name)
        before, self.loops = self.loops, loops
        self.block(indent, depth - 1)
        self.loops = before
        self.names["i"].remove(name)

    def cooperate(self, indent: str) -> None:
        """Something that the threads of a group do together."""
        r = self.r
        kind = r.choice("dei")
        target = r.choice([name for name in self.names[kind] if name[0] not in "ik"])
        match r.randrange(4):
            case 0:
                op = r.choice(["sum", "max", "min", "scan"])
                self.emit(indent, f"{target} = group_{op}({self.value(kind, 1)})")
            case 1:
                self.emit(indent, f"flag = group_{r.choice(['any', 'all'])}({self.condition()})")
            case 2:
                self.emit(indent, f"u0 = group_{r.choice(['sum', 'max', 'min', 'scan'])}(f32(t0 & 63) * 0.25)")
            case _:
                self.emit(indent, f"tile[local_index()] = {self.value('d', 1)}")
                self.emit(indent, "barrier()")
                self.emit(indent, f"v1 = tile[({self.value('i', 1)}) % {self.workgroup}]")
                self.emit(indent, "barrier()")

    # --- whole functions ---

    def write(self) -> str:
        r, indent = self.r, "    "
        self.emit(indent, "i = thread_index()")
        self.emit(indent, f"v0, v1, w0 = a[i % {SIZE}], {self.literal('d')}, b[i % {SIZE}]")
        self.emit(indent, f"t0, t1, u0, u1 = n[i % {SIZE}], s, x[i % {SIZE}], f32(i) * 0.5")
        self.emit(indent, "flag = i > 2")
        self.emit(indent, f"mem = private({self.d}, 4)")
        self.emit(indent, "mem[0], mem[1], mem[2], mem[3] = v0, v1, v0, v1")
        if self.together:
            self.emit(indent, f"tile = shared({self.d}, {self.workgroup})")
        while self.budget > 0:
            self.statement(indent, 3)
            if self.together and r.random() < 0.5:
                inner = indent
                if r.random() < 0.25:
                    self.number += 1
                    self.emit(indent, f"for k{self.number} in range(s & 3):")
                    inner += "    "
                self.cooperate(inner)
        self.emit(indent, "own[i] = own[i] ^ v0 ^ v1 ^ mem[i & 3]")
        self.emit(indent, f"ends[i], out[i], res[i] = w0, t0 * 3 + t1 + {self.i32('flag')}, u0 - u1")
        head = (
            "a: In[D], b: In[E], n: In[i32], x: In[f32], own: InOut[D], ends: Out[E], out: Out[i32], res: InOut[f32],"
        )
        head += " flags: InOut[bool_], bins: InOut[i32], s: i32"
        start = f"from poot.dtypes import i16, u16, u64\nD, E = {self.d}, {self.e}\n{HELPERS}"
        options = f"(workgroup={self.workgroup})" if self.together else ""
        return f"{start}\n@kernel{options}\ndef k({head}):\n" + "\n".join(self.lines) + "\n"

    @staticmethod
    def i32(condition: str) -> str:
        return f"i32({condition})"

    @property
    def options(self) -> dict[str, int]:
        """How to launch it."""
        return {"groups": self.threads // self.workgroup} if self.together else {"threads": self.threads}

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same for every call."""
        rng = np.random.default_rng(self.seed)
        made: list[Any] = []
        for dtype in (self.d, self.e):
            low, high = int(dtype.min), int(dtype.max)
            small = rng.integers(max(low, -9), 10, SIZE).astype(dtype.dtype)
            wild = rng.integers(low, high, SIZE, dtype.dtype, endpoint=True)
            edges = rng.choice(np.array([low, high, 0, 1], dtype.dtype), SIZE)
            made.append(np.choose(rng.integers(0, 3, SIZE), [small, wild, edges]).astype(dtype.dtype))
        made.append(rng.integers(-20, 40, SIZE).astype(np.int32))
        made.append((rng.integers(-32, 33, SIZE) / 8).astype(np.float32))
        made.append(rng.integers(0, 20, self.threads).astype(self.d.dtype))
        made.append(np.zeros(self.threads, self.e.dtype))
        made += [np.zeros(self.threads, np.int32), np.zeros(self.threads, np.float32)]
        made += [np.zeros(self.threads, np.bool_), np.zeros(BINS, np.int32), int(rng.integers(-3, 12))]
        return made
