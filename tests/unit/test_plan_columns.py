"""Softmax over scores and columns beside them: what is taken apart, what is not, and that it means the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import ArraySpec, DType, f16, f32
from poot.plan.limits import CompileOptions
from poot.plan.passes import CANONICALISE, COLUMNS, CSE, DCE, FOLD, INLINE, Pass
from poot.plan.program import PassRecord
from poot.target import Target
from poot.trace.check import check_graph
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from tests.plan_support import compare

CPU = Target.parse("cpu")


def graph_of(function: Callable[..., Any], *specs: ArraySpec) -> Graph:
    return poot.trace(function).graph(*specs)


def names(graph: Graph) -> list[str]:
    return [equation.primitive for equation in graph.equations]


def run(each: Pass, graph: Graph) -> tuple[Graph, PassRecord]:
    result, record = each.run(graph, CPU, CompileOptions())
    check_graph(result)
    assert len(record.origins) == len(result.equations)
    return result, record


def joined(*parts: int) -> Callable[..., Any]:
    """A softmax over scores and columns before and after them."""

    def function(q: Any, k: Any, v: Any, x: Any) -> Any:
        columns = [x[:, sum(parts[:n]) : sum(parts[: n + 1])] for n in range(len(parts))]
        scores = ops.concat([*columns[:1], q @ k.T, *columns[1:]], axis=1)
        weights = ops.nn.softmax(ops.where(scores > 2.0, 2.0 * scores, scores))
        return weights[:, parts[0] : parts[0] + 7] @ v

    return function


JOINED = [(0, 1), (1, 0), (2, 3), (5, 0), (0, 9), (1, 6)]


@pytest.mark.parametrize("parts", JOINED, ids=str)
@pytest.mark.parametrize("dtype", [f16, f32])
def test_columns_beside_scores_are_taken_by_themselves(parts: tuple[int, int], dtype: DType) -> None:
    specs = [ArraySpec(dtype, shape) for shape in ((5, 4), (7, 4), (7, 3), (5, sum(parts)))]
    graph = graph_of(joined(*parts), *specs)
    for each in (INLINE, FOLD, CANONICALISE, CSE):
        graph, _ = run(each, graph)
    split, record = run(COLUMNS, graph)
    split, _ = run(DCE, split)
    assert record.notes and "concat" not in names(split) and 7 + sum(parts) not in widths(split)
    rng = np.random.default_rng(3)
    bindings: dict[int | str, Any] = {
        each.name: rng.standard_normal(each.spec.shape).astype(each.spec.dtype.dtype) for each in graph.inputs
    }
    compare(evaluate(split, bindings).output, evaluate(graph, bindings).output, exact=False)


def widths(graph: Graph) -> list[int]:
    return [value.shape[-1] for each in graph.equations for value in each.outputs if value.shape]


def whole_weights(q: Any, k: Any, v: Any, x: Any) -> Any:
    weights = ops.nn.softmax(ops.concat([q @ k.T, x], axis=1))
    return weights[:, :7] @ v, weights


def across(q: Any, k: Any, v: Any, x: Any) -> Any:
    return ops.nn.softmax(ops.concat([x[:, :1], q @ k.T, x[:, 1:]], axis=1))[:, 2:9] @ v


def no_contraction(q: Any, k: Any, v: Any, x: Any) -> Any:
    return ops.nn.softmax(ops.concat([q @ k.T, x], axis=1))[:, :7] + q[:, :1] + v[0, 0]


def two_of_them(q: Any, k: Any, v: Any, x: Any) -> Any:
    return ops.nn.softmax(ops.concat([q @ k.T, (q @ k.T) * x[:, :1]], axis=1))[:, :7] @ v


@pytest.mark.parametrize("function", [whole_weights, across, no_contraction, two_of_them])
def test_columns_that_are_read_otherwise_stay(function: Callable[..., Any]) -> None:
    graph = graph_of(function, f32[5, 4], f32[7, 4], f32[7, 3], f32[5, 2])
    split, record = run(COLUMNS, graph)
    assert names(split) == names(graph) and not record.notes


def test_strict_numerics_leave_columns_alone() -> None:
    graph = graph_of(joined(0, 1), f32[5, 4], f32[7, 4], f32[7, 3], f32[5, 1])
    split, _ = COLUMNS.run(graph, CPU, CompileOptions(numerics="strict"))
    assert names(split) == names(graph)
