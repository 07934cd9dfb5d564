"""Every primitive that can change its first operand in place, as the whole body of a loop, against the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot import f32, i32, ops
from poot.plan import updates
from poot.trace.builder import Builder
from poot.trace.graph import Graph, Params
from poot.trace.limits import TraceLimits
from poot.trace.primitives import Pull, table
from tests.closeness import PRODUCTS, modest
from tests.plan_support import assert_same, run_program
from tests.primitive_cases import Case, by_dtype, sample

UPDATES = [each for each in table() if isinstance(each.lower, Pull) and each.lower.update is not None]
GROUPS = dict(by_dtype(UPDATES))


def looped(case: Case, length: int) -> Graph:
    """A scan of some turns whose body is the one equation, its first operand carried."""
    builder = Builder(TraceLimits.STANDARD, name=case.primitive.name)
    first, *others = [builder.input(f"a{number}", spec) for number, spec in enumerate(case.specs)]
    region = builder.region("body")
    consts = [region.input(f"c{number}", handle.spec) for number, handle in enumerate(others)]
    carried = region.input("x", first.spec)
    (result,) = region.emit(case.primitive.name, [carried, *consts], case.example.params)
    counts = Params(consts=len(others), carry=1, length=length, reverse=False)
    return builder.finish(builder.emit("scan", [*others, first], counts, regions=(region.finish((result,)),)))


def test_which_primitives_they_are() -> None:
    assert [each.name for each in UPDATES] == [
        "dynamic_update_slice",
        *("scatter", "scatter_add", "scatter_mul", "scatter_max", "scatter_min"),
    ]


@pytest.mark.parametrize("name", GROUPS)
def test_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_LARGE", 0)
    monkeypatch.setattr(updates, "_FEW", 0)
    number = list(GROUPS).index(name)
    rng = np.random.default_rng(number)
    for case in GROUPS[name][number % 3 :: 3]:
        arrays = sample(case, rng)
        if case.primitive.name in PRODUCTS:
            arrays = [modest(array) for array in arrays]
        bindings: dict[str, Any] = {f"a{number}": array for number, array in enumerate(arrays)}
        assert_same(looped(case, 2), bindings, exact=case.primitive.numerics.exact)


# --- bodies of several updates and reads ------------------------------------------------------------------------------

ROWS, WIDTH = 6, 3


def set_rows(row: Any) -> Callable[[Any, Any], Any]:
    return lambda j, c: c.at[j].set(row)


def body_of(draw: random.Random) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A body over two carried arrays: versions of them are updated and read in any order, then two are handed on."""
    plan = [
        (draw.randrange(6), draw.random(), draw.random(), draw.randrange(ROWS)) for _ in range(draw.randrange(2, 7))
    ]
    last = [draw.random() for _ in range(2)]

    def body(carry: Any, turn: Any) -> tuple[Any, Any]:
        versions, read = list(carry), [ops.zeros(WIDTH, f32)]
        for kind, which, other, place in plan:
            x = versions[int(which * len(versions))]
            y = versions[int(other * len(versions))]
            row = read[int(other * len(read))]
            match kind:
                case 0:
                    versions.append(ops.dynamic_update_slice(x, (row + 1)[None] % 5, (turn, 0)))
                case 1:
                    versions.append(x.at[(turn + place) % ROWS].set(y[place]))
                case 2:
                    versions.append(x.at[ops.stack([turn, turn * 0 + place])].add(y[:2]))
                case 3:
                    versions.append(ops.dynamic_update_slice(x, y[1:3], (turn + place - 3, 0)))
                case 4:
                    read.append(ops.sum(x, axis=0) % 7)
                case _:
                    versions.append(ops.fori_loop(0, 2, set_rows(y[place]), x))
        return tuple(versions[int(each * len(versions))] for each in last), (read[-1], versions[-1][0])

    return body


@pytest.mark.parametrize("seed", range(60))
def test_random_bodies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_LARGE", 0)
    monkeypatch.setattr(updates, "_FEW", 0)
    body = body_of(random.Random(seed))
    carry = tuple(np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) % n for n in (5, 7))
    function: Any = poot.trace(lambda carry: (ops.scan(body, carry, ops.arange(3, dtype=i32)), carry))
    expected = optree.tree_leaves(function.evaluate(carry))
    program = function.program(tuple(f32[ROWS, WIDTH] for _ in carry), device="interpret")
    bindings = {variable.name: array for variable, array in zip(program.graph.inputs, carry, strict=True)}
    found = optree.tree_leaves(run_program(program, bindings)[0])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))
