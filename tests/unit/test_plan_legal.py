"""Legality on targets made small: what they cannot do at once is split, what they cannot do at all is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import bf16, f16, f32, f64, i32, i64, ops
from poot.dtypes import ALL, ArraySpec
from poot.errors import Unsupported
from poot.kernel.check_target import check_target
from poot.plan.compile import compile as plan
from poot.plan.flat import FlatGrid
from poot.plan.program import Program
from poot.target import Target
from poot.trace.builder import Builder
from poot.trace.graph import Graph
from tests.plan_support import INTERPRET, LIMITS, assert_same


def small(**limits: int) -> Target:
    return INTERPRET.replace_limits(**limits)


def graph_of(function: Callable[..., Any], *specs: ArraySpec) -> Graph:
    b = Builder(LIMITS)
    return b.finish(function(*(b.input(f"x{n}", spec) for n, spec in enumerate(specs))))


def arrays(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        variable.name: rng.standard_normal(variable.spec.shape).astype(variable.spec.dtype.dtype)
        for variable in graph.variables
    }


def same(graph: Graph, target: Target, *, exact: bool = True) -> Program:
    """The program for a small target gives what the oracle gives, and keeps to the limits."""
    program = assert_same(graph, arrays(graph), target=target, exact=exact)
    for kernel in program.kernels:
        check_target(kernel, target)
    for launch in program.launches:
        assert max(launch.groups) <= target.limit("grid")
        assert len(launch.bindings) < target.limit("buffers")
    return program


def refused(graph: Graph, target: Target, message: str) -> None:
    """Refused with the equation, its line, the target, and what is missing."""
    with pytest.raises(Unsupported) as caught:
        plan(graph, target)
    text = str(caught.value)
    assert message in text and f"is not supported by {target}: " in text and text.startswith(("equation ", "'")), text
    assert "test_plan_legal.py" in text and "\n  Remedy: " in text, text


# --- what is split ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 7, 12, 13, 40])
@pytest.mark.parametrize("buffers", [4, 8])
def test_a_concat_of_more_arrays_than_buffers(count: int, buffers: int) -> None:
    graph = graph_of(lambda *xs: ops.concat(xs, axis=1), *(f32[2, 1 + n % 3] for n in range(count)))
    same(graph, small(buffers=buffers))


def test_a_fusion_that_would_bind_too_many_buffers() -> None:
    def total(*xs: Any) -> Any:
        found = xs[0]
        for x in xs[1:]:
            found = found * 0.5 + x
        return found

    program = same(graph_of(total, *[f32[33]] * 13), small(buffers=8), exact=False)
    assert len(program.launches) > 1


@pytest.mark.parametrize("limit", [3, 7, 200])
def test_grids_are_folded(limit: int) -> None:
    graph = graph_of(lambda x: ops.exp(x) + 1.0, f32[64 * limit * limit - 5])
    (launch,) = same(graph, small(grid=limit), exact=False).launches
    assert max(launch.groups) == limit


def test_loops_fold_grids_too() -> None:
    b = Builder(LIMITS)
    x = b.input("x", f32[1000])
    carry, stacked = ops.scan(lambda c, _: (c * 0.5, c.reshape((10, 100)).T), x, None, length=3)
    graph = b.finish((carry, stacked))
    program = same(graph, small(grid=8))
    assert any(launch.groups[1] > 1 for launch in program.launches)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 640, 641, 1000, 6400])
@pytest.mark.parametrize("limit", [1 << 31, 100, 10])
def test_a_row_of_threads_has_each_number_once(size: int, limit: int) -> None:
    grid = FlatGrid(size, 64, limit)
    columns, rows, _ = grid.threads
    assert max(grid.groups) <= limit and columns * rows >= size
    assert columns * rows - size < columns and (rows == 1 or columns % 64 == 0)
    assert grid.groups[0] == -(-columns // 64) and grid.groups[1] == rows


@pytest.mark.parametrize("threads", [1, 2, 16, 32])
def test_work_groups_shrink(threads: int) -> None:
    rows = graph_of(lambda x: x / ops.sum(ops.exp(x), axis=1, keepdims=True), f32[5, 300])
    product = graph_of(lambda x, y: ops.matmul(x, y), f32[7, 40], f32[40, 50])
    for graph in (rows, product):
        same(graph, small(workgroup_invocations=threads), exact=False)


@pytest.mark.parametrize("storage", [64, 256, 1024])
def test_rows_do_with_little_shared_memory(storage: int) -> None:
    same(graph_of(lambda x: ops.nn.softmax(x), f32[5, 300]), small(workgroup_storage=storage), exact=False)


# --- what is refused --------------------------------------------------------------------------------------------------


def lacking(*dtypes: Any) -> Target:
    return Target("small", languages=("interpret",), dtypes=frozenset(ALL) - set(dtypes), limits=INTERPRET.limits)


@pytest.mark.parametrize("dtype", [f64, i64, f16, bf16], ids=str)
def test_a_dtype_that_is_missing(dtype: Any) -> None:
    refused(graph_of(lambda x: ops.astype(x, dtype) + 1, i32[3]), lacking(dtype), f"it has no {dtype}")
    refused(graph_of(lambda x: x, dtype[3]), lacking(dtype), f"it has no {dtype}")


def test_a_dtype_that_is_missing_inside_a_loop() -> None:
    b = Builder(LIMITS)
    carry, _ = ops.scan(
        lambda c, _: (ops.astype(ops.astype(c, f64) * 2.0, f32), None), b.input("x", f32[3]), None, length=2
    )
    refused(b.finish(carry), lacking(f64), "it has no f64")


def halved(x: Any) -> Any:
    """A loop that returns what it started from in each turn, which no kernel of its body makes."""
    return ops.scan(lambda c, _: (c * 0.5, c), x, None, length=3)


@pytest.mark.parametrize("what", ["input", "intermediate", "output", "stacked", "stacked inside"])
def test_a_buffer_that_is_too_large(what: str) -> None:
    target = small(binding_bytes=4096)
    graphs: dict[str, Graph] = {
        "input": graph_of(lambda x: ops.sum(x), f32[2000]),
        "intermediate": graph_of(lambda x: ops.sort(ops.broadcast_to(x[:, None], (200, 10)) * 2.0)[:, 0], f32[200]),
        "output": graph_of(lambda x: x[:, None] + x[None, :], f32[50]),
        "stacked": graph_of(halved, f32[1000]),
        "stacked inside": graph_of(lambda x: ops.scan(lambda c, _: (c, halved(c)[1]), x, None, length=2)[0], f32[1000]),
    }
    refused(graphs[what], target, "bytes, and its buffers hold 4096")


def test_a_large_value_that_is_never_stored_is_no_trouble() -> None:
    graph = graph_of(lambda x: ops.sum(x[:, None] * x[None, :], axis=1), f32[64])
    same(graph, small(binding_bytes=4096), exact=False)


def test_a_scatter_of_more_arrays_than_buffers() -> None:
    graph = graph_of(lambda x, i, y: x.at[i].set(y), f32[8], i32[3], f32[3])
    refused(graph, small(buffers=3), "buffers")


def test_grids_that_even_folded_are_too_short() -> None:
    refused(graph_of(lambda x: ops.exp(x), f32[1 << 12]), small(grid=5), "work-groups are more than its grids hold")


@poot.kernel(workgroup=32)
def totals(x: poot.In2[f32], y: poot.Out[f32]) -> None:
    total = 0.0
    for k in range(poot.local_index(), x.shape[1], 32):
        total += x[poot.group_index(), k]
    total = poot.group_sum(total)
    if poot.local_index() == 0:
        y[poot.group_index()] = total


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"workgroup_invocations": 16}, "32 threads in a work-group, and the limit is 16"),
        ({"workgroup_storage": 64}, "128 bytes of shared memory, and the limit is 64"),
        ({"buffers": 1}, "3 buffers, the fault record included, and the limit is 1"),
        ({"grid": 4}, "5x1x1 work-groups are more than its grids hold"),
    ],
)
def test_a_kernel_of_the_user_past_the_limits(limits: dict[str, int], message: str) -> None:
    graph = poot.trace(lambda x: totals(x, f32[5], groups=5)).graph(f32[5, 40])
    refused(graph, small(**limits), message)
