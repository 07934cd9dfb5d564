"""Groups have an order: what merging makes of two reads nothing that it computes itself."""

from __future__ import annotations

import numpy as np
import pytest

from poot.dtypes import i32, i64
from poot.plan.fuse import fuse
from poot.plan.groups import Group
from poot.plan.limits import CompileOptions
from poot.plan.order import ordered
from poot.plan.passes import PASSES
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.graph import Equation, Graph, Params, Value
from tests.plan_support import INTERPRET, LIMITS, assert_same
from tests.random_check import Case


def passed(graph: Graph) -> Graph:
    """A graph as fusion gets it."""
    for each in PASSES:
        graph, _ = each.run(graph, INTERPRET, CompileOptions())
    return graph


def test_a_value_that_both_of_two_merged_kernels_compute_is_not_read() -> None:
    b = Builder(LIMITS)
    x = b.input("a0", i64[6, 10])
    c = ops.astype(x, i32)
    graph = b.finish((ops.max(ops.sign(c), axis=1), ops.min(c ^ 3, axis=1), ops.sort(c, axis=1)))
    groups = fuse(passed(graph), INTERPRET).groups
    assert any(len(group.outputs) == 2 and group.kind == "reduce" for group in groups)
    for group in groups:
        assert not group.reads.keys() & {v.id for each in group.members.values() for v in each.outputs}
    assert_same(graph, {"a0": np.random.default_rng(0).integers(0, 5, (6, 10))})


@pytest.mark.parametrize("seed", [*range(10), 1292])
def test_groups_read_what_comes_before_them(seed: int) -> None:
    graph = passed(Case.of("exact", seed).graph)
    made: set[int] = set()
    fusion = fuse(graph, INTERPRET)
    stored = {value.id for group in fusion.groups for value in group.outputs}
    for group in fusion.groups:
        for identity in group.reads:
            while identity in fusion.aliases:
                identity = fusion.aliases[identity].id
            assert identity in made or identity not in stored
        made |= {value.id for value in group.outputs}


def test_groups_that_wait_for_each_other_are_no_endless_loop() -> None:
    first, second = Value(1, i32[4]), Value(2, i32[4])
    groups = [Group(0, "map"), Group(1, "map")]
    for group, stored, read in zip(groups, (first, second), (second, first), strict=True):
        group.members[group.number] = Equation("neg", (read,), Params({}), (stored,))
        group.outputs[stored], group.reads[read.id] = (), read
    with pytest.raises(AssertionError, match="waits for itself"):
        ordered(groups, {})
