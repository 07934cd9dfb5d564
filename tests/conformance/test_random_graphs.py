"""Random graphs over the whole table on every device, fused and strict, against the oracle.

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
from tests.random_check import Case, check
from tests.random_graphs import primitives, random_bindings

BLOCKS = 8
COUNT = 2000
FAMILIES = ("exact", "float")

#: Graphs that were wrong once, reduced, each with the family whose arrays showed it.
FOUND: dict[str, tuple[Any, str]] = {
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
        case = Case.of(family, seed, sorted(device.target.dtypes, key=lambda dtype: dtype.name), size)
        for mode in ("fused", "strict") if full > 1 else (("fused", "strict")[block % 2],):
            failure = check(case, device, mode)
            assert failure is None, (family, seed, mode, failure)


@pytest.mark.fuzz
def test_every_primitive_occurs_often(cases: Callable[[int, int], int]) -> None:
    """In the graphs of --full at least 50 times."""
    count = cases(30, COUNT)
    found: Counter[str] = Counter()
    for family in FAMILIES:
        for seed in range(count):
            primitives(Case.of(family, seed).graph, found)
    least = {entry.name: found[entry.name] for entry in table()}
    assert min(least.values()) >= cases(5, 50), sorted(least.items(), key=lambda item: item[1])[:5]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, device: Any) -> None:
    family, text = FOUND[name]
    graph = parse_graph(text)
    if {variable.spec.dtype for variable in graph.variables} <= device.target.dtypes:
        for seed in range(3):
            case = Case(family, graph, random_bindings(graph, np.random.default_rng(seed), family))
            for mode in ("fused", "strict"):
                assert check(case, device, mode) is None
