"""Saved programs that were changed and signed anew: each is refused with a typed error, or is whole and safe to run."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import numpy as np
import pytest

from poot.errors import PootError, SerialisationError
from poot.kernel.pipeline import prepare
from poot.kernel.render.llvm_lanes import render
from poot.plan.program import Launch, Program, Slot, Storage
from poot.plan.serial import dump_program, load_program
from poot.typed import checker, field_checks
from tests.plan_support import run_program
from tests.unit.test_plan_serial import arrays, program

#: How often a program is changed, always in the same ways.
ROUNDS = 240

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 70, -(1 << 70), 0.5, "", "x", "a\nb", "read"),
    *([], [1], [[]], {}, {"dtype": "f64"}, {"dtype": "f99"}, {"float": "0000000000000000"}, {"float": "0"}),
    *({"Var": ["i", {"dtype": "i32"}]}, {"Const": [1, {"dtype": "i32"}]}, {"Const": [True, {"dtype": "i32"}]}),
    *({"Index": ["stride", 0, "x", {"dtype": "i32"}]}, {"Index": ["thread", 0, "x", {"dtype": "i32"}]}),
    *({"Slot": ["scratch", {"ArraySpec": [{"dtype": "f32"}, [1]]}, "", 0]}, {"Kernel": []}, {"Copy": [0, 1]}),
)


def paths_of(value: Any, path: Path, found: list[Path]) -> None:
    found.append(path)
    if isinstance(value, dict):
        for key in value:
            paths_of(value[key], (*path, key), found)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            paths_of(item, (*path, place), found)


class Tamperer:
    """Changes one or two places of a saved program's body."""

    def __init__(self, saved: bytes) -> None:
        self.container = json.loads(saved)
        body = json.loads(self.container["program"])
        self.paths: list[Path] = []
        paths_of({name: body[name] for name in body if name not in ("graph", "planned", "target")}, (), self.paths)
        self.paths = [path for path in self.paths if path]

    def change(self, rng: random.Random) -> bytes:
        body = json.loads(self.container["program"])
        for _ in range(rng.choice((1, 1, 1, 2))):
            try:
                self._once(body, rng)
            except (KeyError, IndexError, TypeError):
                continue  # the first change has taken the place away
        text = json.dumps(body)
        signed = {"program": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        return json.dumps(self.container | signed).encode()

    def _once(self, body: Any, rng: random.Random) -> None:
        path = rng.choice(self.paths)
        holder = self._at(body, path[:-1])
        old, mode = holder[path[-1]], rng.randrange(6)
        if mode < 3:
            holder[path[-1]] = rng.choice(VALUES)
        elif mode == 3 and type(old) is int:
            holder[path[-1]] = old + rng.choice((-5, -1, 1, 5))
        elif mode == 4 and isinstance(holder, list):
            if rng.random() < 0.5:
                holder.insert(path[-1], old)
            else:
                holder.pop(path[-1])
        else:
            holder[path[-1]] = json.loads(json.dumps(self._at(body, rng.choice(self.paths))))

    @staticmethod
    def _at(body: Any, path: Path) -> Any:
        for key in path:
            body = body[key]
        return body


def use(loaded: Program) -> None:
    """Everything that a program is for; the errors that it may raise are poot's own."""
    dump_program(loaded)
    loaded.report()
    aligned = all(slot.offset % 64 == 0 for slot in loaded.storage.slots if slot.role == "scratch")
    try:
        for kernel in loaded.kernels:
            render(prepare(kernel, loaded.target), contract=False)
        if aligned:
            with np.errstate(all="ignore"):
                run_program(loaded, arrays())
    except PootError:
        pass


@pytest.mark.parametrize("part", range(4))
def test_changed_programs_are_refused_or_run(part: int) -> None:
    tamperer = Tamperer(dump_program(program()))
    refused = 0
    for number in range(part * ROUNDS // 4, (part + 1) * ROUNDS // 4):
        try:
            loaded = load_program(tamperer.change(random.Random(number)))
        except SerialisationError:
            refused += 1
        else:
            use(loaded)
    assert refused > ROUNDS // 8


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, 3, (True, 3.0, "3", None)),
        (bool, True, (1, 0, None)),
        (float, 0.5, (1, True)),
        (tuple[int, ...], (1, 2), ([1, 2], (1, True), (1, None), 1)),
        (tuple[int, int, int], (1, 2, 3), ((1, 2), (1, 2, 3, 4), (1, 2, "3"))),
        (int | None, None, (False, 0.0)),
        (tuple[int, int] | None, (1, 2), ((1,), 0)),
        (Slot, Slot("scratch", program().storage.slots[0].spec), ("scratch", None)),
    ],
)
def test_checks_are_exact(annotation: Any, good: object, bad: tuple[object, ...]) -> None:
    check = checker(annotation)
    assert check(good)
    assert not any(check(value) for value in bad)


def test_every_field_has_a_check() -> None:
    assert field_checks(Launch).keys() == {"kernel", "bindings", "groups", "equations", "flops", "inside"}
    assert field_checks(Storage).keys() == {"slots", "arena_bytes", "liveness_bound", "prologue_bytes"}
    assert field_checks(Slot)["role"]("kept") and not field_checks(Slot)["role"]("other")
