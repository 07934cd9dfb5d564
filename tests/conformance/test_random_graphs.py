"""Random graphs over the whole table on every device, fused, strict and kept apart, against the oracle.

Here a few graphs run; with --full 2,000 of each family.  `python -m tests.random_run` runs the same graphs over many
processes and goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.trace.parse import parse_graph
from poot.trace.primitives import table
from tests.random_check import Case, Mode, check, shared_dtypes
from tests.random_graphs import primitives, random_bindings

BLOCKS = 8
COUNT = 2000
FAMILIES = ("exact", "float")
MODES: tuple[Mode, ...] = ("fused", "strict", "apart")

#: Graphs that were wrong once, reduced, each with the family whose arrays showed it.
FOUND: dict[str, tuple[Any, str]] = {
    "a division by a sign": (
        "exact",
        """graph g {
    input %0 x: i64[33]
    input %1 y: i64[33]
    input %2 z: i16[12]

    %3: i64[33] = sign %1
    %4: i64[33] = floor_div %0 %3
    %5: i16[12] = sign %2
    %6: i16[12] = rem %2 %5

    return (%4, %6)
}
""",
    ),
    "NaN of a product, in a function that compares it": (
        "float",
        """graph g {
    input %0 x: f32[40]

    %1: f32[40] = mul %0 %0
    %2: f32[40] = exp %1
    %3: f32[40] = mul %0 0.5:f32
    %4: f32[40] = expm1 %3

    return (%2, %4)
}
""",
    ),
    "an operand read at a remainder of the reduced axis": (
        "exact",
        """graph g {
    input %0 x: i32[2,42]

    %1: i32[3,28] = reshape %0 [shape=(3, 28)]
    %2: i32[3,28] = dynamic_update_slice %1 %1 5:i32 7:i32
    %3: i32[28] = reduce_prod %2 [axes=(0,)]
    %4: i32[28] = and %3 %3

    return (%4,)
}
""",
    ),
    "an operand of a contraction at a quotient of the contracted axis": (
        "exact",
        """graph g {
    input %0 x: f32[5,3]

    %1: f32[15] = reshape %0 [shape=(15,)]
    %2: f32[5] = slice %1 [limit=(5,), start=(0,), step=(1,)]
    %3: f32[3] = dot_general %2 %0 [accumulate=f32, batch=((), ()), contract=((0,), (0,)), dtype=f32]

    return (%3,)
}
""",
    ),
    "panels of an operand at a quotient of the batch axis": (
        "exact",
        """graph g {
    input %0 x: f32[2,10]
    input %1 y: f32[3,5,2]

    %2: f32[2,9] = slice %0 [limit=(2, 9), start=(0, 0), step=(1, 1)]
    %3: f32[3,2,3] = reshape %2 [shape=(3, 2, 3)]
    %4: f32[3,5,3] = dot_general %1 %3 [accumulate=f32, batch=((0,), (0,)), contract=((2,), (1,)), dtype=f32]

    return (%4,)
}
""",
    ),
    "a contraction that sums in f32 for an f64 result": (
        "float",
        """graph g {
    input %0 x: f16[5,3]

    %1: f64[5] = dot_general %0 %0 [accumulate=f32, batch=((0,), (0,)), contract=((1,), (1,)), dtype=f64]
    %2: f64[5] = expm1 %1

    return (%2,)
}
""",
    ),
    "the sign of a difference that is 0": (
        "exact",
        """graph g {
    input %0 x: f32[5]

    %1: f32[5] = sub %0 %0
    %2: f32[5] = neg %1

    return (%2,)
}
""",
    ),
    "quotients of f64": (
        "float",
        """graph g {
    input %0 x: f64[3,70]

    %1: f64[3,70] = div %0 3.0:f64
    %2: f64[3,70] = div %0 0.1:f64
    %3: f64[3,70] = div %0 -1.25:f64
    %4: f64[3,70] = sqrt %0

    return (%1, %2, %3, %4)
}
""",
    ),
    "a count of bits in 64, compared": (
        "exact",
        """graph g {
    input %0 x: i64[2,3,4]

    %1: i64[2,3,4] = and %0 3:i64
    %2: i64[2,3,4] = popcount %1
    %3: i64[2,3,4] = sign %2

    return (%3,)
}
""",
    ),
    "whether a sum of f64 is finite": (
        "exact",
        """graph g {
    input %0 x: f64[130]

    %1: f64[130] = reduce_sum %0 [axes=()]
    %2: bool[130] = is_finite %1

    return (%2,)
}
""",
    ),
}


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_device_equals_the_oracle(family: Any, block: int, device: Any, cases: Callable[[int, int], int]) -> None:
    """In the quick suite one graph of 30 equations a block, fewer where compilers are slow; with --full 250 of 100."""
    full = cases(1, COUNT // BLOCKS)
    for number in range(full):
        seed = full * block + number
        size = 100 if full > 1 else 30 if device.name in ("cpu", "interpret") else 10
        case = Case.of(family, seed, shared_dtypes(device), size)
        for mode in MODES if full > 1 else (MODES[block % len(MODES)],):
            failure = check(case, device, mode)
            assert failure is None, (family, seed, mode, failure)


@pytest.mark.fuzz
def test_every_primitive_occurs_often(cases: Callable[[int, int], int]) -> None:
    """In the graphs of --full at least 50 times; no more graphs are made than it takes to see that."""
    wanted, found = cases(5, 50), Counter[str]()
    for seed in range(cases(30, COUNT)):
        for family in FAMILIES:
            primitives(Case.of(family, seed).graph, found)
        if all(found[entry.name] >= wanted for entry in table()):
            return
    pytest.fail(f"of each primitive: {sorted((found[entry.name], entry.name) for entry in table())[:5]} …")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, device: Any) -> None:
    family, text = FOUND[name]
    graph = parse_graph(text)
    if {variable.spec.dtype for variable in graph.variables} <= device.target.dtypes:
        for seed in range(3):
            case = Case(family, graph, random_bindings(graph, np.random.default_rng(seed), family))
            for mode in MODES:
                assert check(case, device, mode) is None
