"""Random functions of the language: parsed and interpreted they compute what they compute as plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.errors.kernel_source import module

THREADS = 12
HELPERS = """
def pick(a, b):
    if a > b:
        return a - b
    if a == b:
        return 7
    return b

def both(a, b):
    return b + 1, a
"""


class Writer:
    """Writes one function; every value stays small, so that Python's integers and i32 agree."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = ["v0", "v1", "v2"]
        self.loops = 0
        self.count = 0

    def value(self, depth: int = 2) -> str:
        choose = self.random
        if depth == 0 or choose.random() < 0.2:
            return choose.choice([*self.names, "i", str(choose.randrange(-9, 10))])
        a, b = self.value(depth - 1), self.value(depth - 1)
        return choose.choice(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * {choose.randrange(-3, 4)})",
                f"({a} // {choose.randrange(1, 5)})",
                f"({a} % {choose.randrange(1, 9)})",
                f"({a} if {self.condition(depth - 1)} else {b})",
                f"x[({a}) % len(x)]",
                f"min({a}, {b}, i)",
                f"pick({a}, i)",
                f"pick({a} + i, {b})",
                f"abs({a})",
            ]
        )

    def condition(self, depth: int = 1) -> str:
        choose = self.random
        a, b = self.value(depth), self.value(depth)
        plain = choose.choice([f"{a} < {b}", f"i <= {b}", f"{a} != {b}", f"{a} <= i < {b}", f"not i == {b}"])
        if depth == 0 or choose.random() < 0.5:
            return f"({plain})"
        guarded = f"(0 <= {choose.choice(self.names)} + i < len(x) and x[{self.names[0]} % len(x)] > {a})"
        return choose.choice([f"({plain} and {self.condition(0)})", f"({plain} or {self.condition(0)})", guarded])

    def block(self, indent: str, depth: int) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self.statement(indent, depth)

    def statement(self, indent: str, depth: int) -> None:
        choose = self.random
        kind = choose.randrange(9 if depth else 4)
        name = choose.choice(self.names)
        match kind:
            case 0 | 1:
                self.lines.append(f"{indent}{name} = {self.value()} % 97")
            case 2:
                self.lines.append(f"{indent}{name} += {self.value(1)} % 13")
            case 3:
                a, b = choose.sample(self.names, 2)
                self.lines.append(indent + choose.choice([f"{a}, {b} = {b}, {a} % 31", f"{a}, {b} = both({b}, {a})"]))
            case 4 | 5:
                self.lines.append(f"{indent}if {self.condition()}:")
                self.block(indent + "    ", depth - 1)
                if choose.random() < 0.4:
                    self.lines.append(f"{indent}elif {self.condition()}:")
                    self.block(indent + "    ", depth - 1)
                if choose.random() < 0.6:
                    self.lines.append(f"{indent}else:")
                    self.block(indent + "    ", depth - 1)
            case 6:
                self.loop(
                    indent,
                    depth,
                    f"for k{self.count} in range({choose.choice(['i % 4', '3', '-2, 7, 3', '5, i, -2'])}):",
                )
            case 7:
                unrolled = choose.randrange(1, 4)
                self.count += 1
                self.lines.append(f"{indent}for k{self.count} in unroll(range({unrolled})):")
                self.lines.append(f"{indent}    {name} += k{self.count}")
                self.loops, before = 0, self.loops
                self.block(indent + "    ", 0)
                self.loops = before
            case _:
                self.count += 1
                turns = f"n{self.count}"
                self.lines.append(f"{indent}{turns} = 0")
                self.loop(indent, depth, f"while {turns} < 4 and {self.condition(0)}:", f"{turns} += 1")

    def loop(self, indent: str, depth: int, head: str, first: str = "") -> None:
        self.count += 1
        self.lines.append(indent + head)
        if first:
            self.lines.append(f"{indent}    {first}")
        self.loops += 1
        self.block(indent + "    ", depth - 1)
        if self.random.random() < 0.5:
            self.lines.append(f"{indent}    if {self.condition(0)}:")
            self.lines.append(f"{indent}        {self.random.choice(['break', 'continue'])}")
            self.block(indent + "    ", depth - 1)
        self.loops -= 1

    def text(self) -> str:
        self.block("    ", 3)
        self.block("    ", 3)
        head = "@kernel\ndef k(x: In[i32], y: Out[i32]):\n    i = thread_index()\n    v0, v1, v2 = i, 3, x[i] % 5\n"
        return HELPERS + head + "\n".join(self.lines) + "\n    y[i] = v0 + 100 * v1 + 10000 * v2\n"


@pytest.mark.fuzz
def test_random_functions(cases: Callable[[int, int], int]) -> None:
    x = np.random.default_rng(1).integers(-20, 20, THREADS).astype(np.int32)
    for seed in range(cases(25, 2000)):
        text = Writer(seed).text()
        made = module(text)["k"]
        y, wanted = np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32)
        made(x, y, threads=THREADS, device="interpret")
        for thread in range(THREADS):
            made.interpret(x, wanted, threads=THREADS, thread=thread)
        np.testing.assert_array_equal(y, wanted, err_msg=f"seed {seed}\n{text}")
