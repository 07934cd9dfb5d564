"""The random graphs that other tests rely on keep their promises."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from poot.dtypes import DType
from poot.trace.evaluate import evaluate
from poot.trace.primitives import oracle, table
from poot.trace.rounding import round_once
from tests.random_graphs import primitives, random_bindings, random_graph


def test_every_primitive_occurs() -> None:
    for family in ("any", "float"):
        found: Counter[str] = Counter()
        for seed in range(80):
            primitives(random_graph(np.random.default_rng(seed), family, 40), found)
        assert {entry.name for entry in table()} <= found.keys(), family


def test_graphs_have_effects_states_and_regions() -> None:
    graphs = [random_graph(np.random.default_rng(seed)) for seed in range(40)]
    assert any(equation.effects for graph in graphs for equation in graph.equations)
    assert any(equation.regions for graph in graphs for equation in graph.equations)
    assert any(graph.updates for graph in graphs)
    assert any(graph.constants for graph in graphs)


def test_the_same_seed_gives_the_same_graph() -> None:
    first, second = (random_graph(np.random.default_rng(5), "float", 30) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("family", ["any", "exact", "float"])
def test_graphs_evaluate(family: Any, cases: Any) -> None:
    for seed in range(cases(30, 1000)):
        rng = np.random.default_rng([seed, 1])
        graph = random_graph(rng, family, 30)
        evaluate(graph, random_bindings(graph, rng, family))


def test_nothing_is_rounded_in_the_exact_family(monkeypatch: pytest.MonkeyPatch, cases: Any) -> None:
    def exactly(x: np.ndarray, dtype: DType) -> np.ndarray:
        result = round_once(x, dtype)
        wide = result.astype(np.float64)
        assert np.all((wide == x) | (np.isnan(wide) & np.isnan(x))), (x, dtype)
        return result

    monkeypatch.setattr(oracle, "round_once", exactly)
    for seed in range(cases(60, 2000)):
        rng = np.random.default_rng([seed, 2])
        graph = random_graph(rng, "exact", 40)
        evaluate(graph, random_bindings(graph, rng, "exact"))
