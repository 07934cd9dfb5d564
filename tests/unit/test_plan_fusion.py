"""Fusion: what becomes one kernel, what does not and why, and that the results stay right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.dtypes import ArraySpec, bf16, f16, f32, f64, i32, i64, u8
from poot.errors import KernelFault
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.program import Program
from poot.target import Target
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.graph import Graph
from tests.plan_support import INTERPRET, LIMITS, assert_same, run_program


def graph_of(function: Callable[..., Any], *specs: ArraySpec) -> Graph:
    b = Builder(LIMITS)
    return b.finish(function(*(b.input(f"a{n}", spec) for n, spec in enumerate(specs))))


def values(specs: tuple[ArraySpec, ...], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        f"a{n}": np.asarray(
            rng.standard_normal(spec.shape) if spec.dtype.is_float else rng.integers(0, 5, spec.shape)
        ).astype(spec.dtype.dtype)
        for n, spec in enumerate(specs)
    }


def fused(function: Callable[..., Any], *specs: ArraySpec, target: Target = INTERPRET, exact: bool = False) -> Program:
    return assert_same(graph_of(function, *specs), values(specs), target=target, exact=exact)


def kernels(program: Program) -> list[str]:
    return [program.kernels[launch.kernel].name for launch in program.launches]


# --- pointwise --------------------------------------------------------------------------------------------------------


def hundred(x: Any) -> Any:
    for step in range(50):
        x = x * (1.0 + step / 100) + 0.25
    return x


ONE_KERNEL: list[tuple[str, Callable[..., Any], tuple[ArraySpec, ...]]] = [
    ("gelu", lambda x: ops.nn.gelu(x), (f32[33, 65],)),
    ("a hundred operations", hundred, (f32[100],)),
    ("broadcast operands", lambda x, y, z: x * y + z[:, None], (f32[5, 7], f32[7], f32[5])),
    ("two results", lambda x, y: (ops.exp(x) + 1.0, ops.exp(x) * y), (f32[5, 7], f32[5, 7])),
    ("a result that is used", lambda x: (lambda y: (y, y * 2.0))(ops.exp(x)), (f32[5, 7],)),
    ("transposed", lambda x, y: x.T * 2.0 + y, (f32[5, 7], f32[7, 5])),
    ("through a reshape", lambda x, y: ops.reshape(ops.exp(x), (35,)) + y, (f32[5, 7], f32[35])),
    (
        "through reshape and transpose",
        lambda x: ops.reshape(ops.transpose(ops.exp(x), (0, 2, 1)), (2, 12)),
        (f32[2, 3, 4],),
    ),
    ("sliced", lambda x: x[1:, ::2] + x[:-1, 1::2], (f32[5, 8],)),
    ("reversed", lambda x: ops.flip(x, 1) - x, (f32[5, 7],)),
    ("rotary", lambda x: x * 2.0 + ops.concat([-x[:, 4:], x[:, :4]], axis=1), (f32[5, 8],)),
    ("padded", lambda x: ops.exp(ops.pad(x, ((1, 2), (0, 3)))), (f32[5, 7],)),
    ("scalars", lambda x, s: x * ops.exp(s), (f32[300], f32[()])),
    ("0-d", lambda x, y: ops.exp(x) + y, (f32[()], f32[()])),
    ("wide elements", lambda x: ops.exp(x) + x, (f64[70],)),
    ("halves", lambda x: x * x + 1.0, (bf16[70],)),
    ("gathered", lambda i, t: ops.nn.embedding(i, t) * 2.0, (i32[2, 5], f32[5, 7])),
]


@pytest.mark.parametrize(("function", "specs"), [case[1:] for case in ONE_KERNEL], ids=[case[0] for case in ONE_KERNEL])
def test_one_kernel(function: Callable[..., Any], specs: tuple[ArraySpec, ...]) -> None:
    program = fused(function, *specs)
    assert len(program.launches) == 1 and program.storage.arena_bytes == 0


def test_contiguous_axes_become_one_loop() -> None:
    (kernel,) = fused(lambda x, y: x * y + 1.0, f32[3, 4, 5], f32[3, 4, 5]).kernels
    assert kernel.threads == (60, 1, 1)
    (kernel,) = fused(lambda x, y: x * y + 1.0, f32[3, 4, 5], f32[5]).kernels
    assert kernel.threads == (5, 12, 1)


def test_a_dear_value_read_often_is_stored_once() -> None:
    program = fused(lambda x, t: ops.matmul(x, ops.exp(t)), f32[40, 30], f32[30, 20])
    assert kernels(program)[0] == "exp" and len(program.launches) == 2
    program = fused(lambda x, s: x * ops.exp(s)[:, None], f32[5, 7], f32[5])
    assert len(program.launches) == 1


def test_readers_that_depend_on_each_other_are_not_merged() -> None:
    def function(x: Any, w: Any) -> Any:
        y = ops.exp(x)
        return (y * 2.0) @ w + y, y - 1.0

    program = fused(function, f32[6, 6], f32[6, 6])
    assert len(program.launches) == 2


def test_bindings_are_limited() -> None:
    def function(*xs: Any) -> Any:
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    specs = (f32[70],) * 20
    target = Target("interpret", languages=("interpret",), limits=INTERPRET.replace_limits(buffers=6).limits)
    program = fused(function, *specs, target=target)
    assert len(program.launches) > 1 and all(len(launch.bindings) <= 5 for launch in program.launches)
    message = "buffers and the fault record are more than the 6 that the target binds"
    assert any(message in str(note) for note in program.passes[-1].declined)
    assert len(fused(function, *specs).launches) == 1


def test_grids_are_folded() -> None:
    target = INTERPRET.replace_limits(grid=4)
    for shape in ((500,), (5, 3), (3, 2, 3, 3)):
        program = fused(lambda x, y: ops.exp(x) + y, f32[shape], f32[shape[-1:]], target=target)
        assert all(max(launch.groups) <= 4 for launch in program.launches)
    program = fused(lambda x: ops.nn.softmax(x), f32[8, 70], target=target)
    assert all(max(launch.groups) <= 4 for launch in program.launches)


# --- reductions -------------------------------------------------------------------------------------------------------


def weighted(x: Any, g: Any, b: Any) -> Any:
    return ops.nn.layernorm(x, g, b)


def residual(x: Any, r: Any, g: Any, b: Any) -> Any:
    return ops.nn.gelu(ops.nn.layernorm(x + r, g, b))


ROWS: list[tuple[str, Callable[..., Any], tuple[ArraySpec, ...]]] = [
    ("softmax", lambda x: ops.nn.softmax(x), (f32[5, 200],)),
    ("softmax of short rows", lambda x: ops.nn.softmax(x), (f32[50, 5],)),
    ("softmax of columns", lambda x: ops.nn.softmax(x, axis=0), (f32[50, 70],)),
    ("softmax between", lambda x: ops.nn.softmax(x, axis=1), (f32[3, 50, 7],)),
    ("layernorm", weighted, (f32[3, 7, 96], f32[96], f32[96])),
    ("layernorm, residual, gelu", residual, (f32[20, 130], f32[20, 130], f32[130], f32[130])),
    ("rmsnorm", lambda x, g: ops.nn.rmsnorm(x, g), (f32[5, 70], f32[70])),
    ("norm in halves", lambda x, g: ops.nn.rmsnorm(x, g), (f16[5, 70], f16[70])),
    ("mean", lambda x: ops.mean(x * 2.0, axis=-1), (f32[5, 70],)),
    ("variance", lambda x: ops.var(x, axis=-1), (f32[5, 70],)),
    ("mean of columns", lambda x: ops.exp(ops.mean(x, axis=0)), (f32[50, 70],)),
    (
        "both ends",
        lambda x: (ops.max(x, axis=1), ops.min(x, axis=1), x - ops.max(x, axis=1, keepdims=True)),
        (f32[5, 70],),
    ),
    ("all axes", lambda x: ops.sum(x * x), (f32[5, 70],)),
    ("products", lambda x: ops.prod(x, axis=-1), (f32[5, 70],)),
    ("outer axes", lambda x: ops.sum(x, axis=(0, 2)), (f32[5, 7, 9],)),
    (
        "row and element",
        lambda x: (ops.sum(x, axis=1), ops.exp(x) / ops.sum(x * x, axis=1, keepdims=True)),
        (f32[9, 80],),
    ),
    ("bools", lambda x: (ops.any(x > 1.5, axis=1), ops.all(x > -2.0, axis=1)), (f32[9, 80],)),
    ("integers", lambda x: ops.sum(x, axis=1), (i64[9, 80],)),
]


@pytest.mark.parametrize(("function", "specs"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_rows(function: Callable[..., Any], specs: tuple[ArraySpec, ...]) -> None:
    program = fused(function, *specs)
    assert len(program.launches) == 1, program.report()


def test_dear_values_of_a_row_are_kept() -> None:
    (kernel,) = fused(lambda x: ops.nn.softmax(x), f32[5, 200]).kernels
    assert "row" in [getattr(stmt, "name", "") for stmt in kernel.body]
    small = INTERPRET.replace_limits(workgroup_storage=1 << 10)
    (kernel,) = fused(lambda x: ops.nn.softmax(x), f32[5, 200], target=small).kernels
    assert "row" not in [getattr(stmt, "name", "") for stmt in kernel.body]


def test_long_rows_are_reduced_in_two_stages() -> None:
    program = fused(lambda x: ops.sqrt(ops.sum(x * x)), f32[70_001])
    assert kernels(program) == ["mul_reduce_sum_sqrt_part", "mul_reduce_sum_sqrt_join"]
    assert program.launches[0].groups[0] > 8
    program = fused(lambda x: (ops.sum(x, axis=1), ops.max(x, axis=1)), f32[2, 70_000])
    assert len(program.launches) == 2
    program = fused(lambda x: ops.nn.softmax(x), f32[70_000])
    assert len(program.launches) > 3


# --- contractions -----------------------------------------------------------------------------------------------------


def heads(x: Any) -> Any:
    batch, length, width = x.shape
    return ops.transpose(ops.reshape(x, (batch, length, 4, width // 4)), (0, 2, 1, 3))


def attention(q: Any, k: Any, v: Any) -> Any:
    q, k, v = map(heads, (q, k, v))
    weights = ops.nn.softmax(q @ ops.transpose(k, (0, 1, 3, 2)) * 0.25)
    mixed = ops.transpose(weights @ v, (0, 2, 1, 3))
    return ops.reshape(mixed, (mixed.shape[0], mixed.shape[1], -1))


CONTRACTIONS: list[tuple[str, Callable[..., Any], tuple[ArraySpec, ...], int]] = [
    ("square", lambda x, y: x @ y, (f32[64, 64], f32[64, 64]), 1),
    ("odd", lambda x, y: x @ y, (f32[67, 129], f32[129, 70]), 1),
    ("narrow", lambda x, y: x @ y, (f32[67, 129], f32[129, 3]), 1),
    ("large columns", lambda x, y: x @ y, (f32[64, 300], f32[300, 130]), 2),
    ("transposed right", lambda x, y: x @ y.T, (f32[33, 40], f32[24, 40]), 2),
    ("transposed left", lambda x, y: x.T @ y, (f32[40, 33], f32[40, 24]), 1),
    ("transposed result", lambda x, y: (x @ y).T, (f32[40, 33], f32[33, 64]), 2),
    ("vector matrix", lambda x, y: x @ y, (f32[200], f32[200, 130]), 1),
    ("vector matrix, transposed", lambda x, y: x @ y.T, (f32[200], f32[130, 200]), 1),
    ("matrix vector", lambda x, y: x @ y, (f32[130, 200], f32[200]), 1),
    ("dot", lambda x, y: ops.sum(x * y), (f32[200], f32[200]), 1),
    ("batched", lambda x, y: x @ y, (f32[3, 20, 30], f32[3, 30, 40]), 1),
    ("shared right", lambda x, y: x @ y, (f32[3, 20, 30], f32[30, 40]), 1),
    ("linear, gelu", lambda x, w, b: ops.nn.gelu(ops.nn.linear(x, w, b)), (f32[3, 17, 40], f32[24, 40], f32[24]), 2),
    ("residual", lambda x, w, r: x @ w + r, (f32[17, 40], f32[40, 24], f32[17, 24]), 1),
    ("with itself", lambda x: x @ x.T, (f32[17, 40],), 2),
    ("attention", attention, (f32[2, 9, 64],) * 3, 4),
    ("integers", lambda x, y: x @ y, (i32[17, 40], i32[40, 24]), 1),
    ("bytes", lambda x, y: x @ y, (u8[17, 40], u8[40, 24]), 1),
    ("halves", lambda x, y: x @ y, (bf16[17, 40], bf16[40, 24]), 1),
    ("einsum", lambda x, y: ops.einsum("abc,cbd->da", x, y), (f32[5, 6, 7], f32[7, 6, 9]), 2),
    ("outer", lambda x, y: ops.einsum("a,b->ab", x, y), (f32[5], f32[70]), 1),
    ("one term", lambda x, y: x @ y, (f32[5, 1], f32[1, 70]), 1),
]


@pytest.mark.parametrize(
    ("function", "specs", "launches"), [case[1:] for case in CONTRACTIONS], ids=[case[0] for case in CONTRACTIONS]
)
def test_contractions(function: Callable[..., Any], specs: tuple[ArraySpec, ...], launches: int) -> None:
    program = fused(function, *specs)
    assert len(program.launches) <= launches, program.report()


def test_the_epilogue_writes_the_layout_that_is_asked_for() -> None:
    program = fused(attention, *((f32[2, 9, 64],) * 3))
    assert not any("transpose" in name or "reshape" in name for name in kernels(program))


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_outputs_that_are_other_values() -> None:
    def function(x: Any, y: Any) -> Any:
        z = ops.exp(x)
        return x, z, z, ops.reshape(z, (6,)), 3.0, y, ops.reshape(y, (3, 2))

    program = fused(function, f32[2, 3], f32[2, 3])
    assert len(set(program.outputs)) == 7


def test_nothing_is_launched_for_no_elements() -> None:
    program = fused(lambda x, y: (ops.exp(x), ops.sum(x, axis=0), x @ y), f32[0, 3], f32[3, 4])
    assert all(0 not in launch.groups for launch in program.launches)
    assert len(program.launches) == 1
    program = fused(lambda x: ops.exp(x), f32[0, 3])
    assert program.launches == () and program.equation_plans[0].fate == "fold"


def test_faults_are_reported() -> None:
    graph = graph_of(lambda t, i: ops.exp(ops.take(t, i, axis=0))[1:] * 2.0, f32[5, 7], i32[4])
    arrays = values((f32[5, 7], i32[4]))
    arrays["a1"] = np.array([9, 1, 2, 3], np.int32)
    with pytest.raises(KernelFault):
        run_program(plan(graph, INTERPRET), arrays)
    program = plan(graph, INTERPRET)
    launch = next(launch for launch in program.launches if "gather" in program.kernels[launch.kernel].name)
    first = program.planned.equations[launch.equations[0]]
    assert first.primitive == "gather" and launch.where is not None and launch.where.file == __file__


def test_equal_layers_share_kernels() -> None:
    def layers(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = ops.nn.gelu(ops.nn.linear(ops.nn.rmsnorm(x, w[0]), w)) + x
        return x

    program = fused(layers, f32[8, 64], f32[64, 64])
    assert len(program.launches) == 12 and len(program.kernels) <= 6, program.report()
    assert program.storage.arena_bytes < sum(s.nbytes for s in program.storage.slots if s.role == "scratch") / 2


def test_numerics_are_stated() -> None:
    assert fused(lambda x: x + 1, i32[3]).numerics == "exact"
    assert fused(lambda x: x[::-1], f32[3]).numerics == "exact"
    graph = graph_of(lambda x: x + 1.0, f32[3])
    assert plan(graph, INTERPRET).numerics == "reassociating" and plan(graph, INTERPRET).contract
    strict = plan(graph, INTERPRET, CompileOptions(numerics="strict"))
    assert strict.numerics == "unfused" and not strict.contract


def test_the_fate_of_every_equation_is_told() -> None:
    def function(x: Any) -> Any:
        ops.sin(x)
        y = ops.exp(x) * 1.0 + ops.exp(x)
        return ops.reshape(y, (6,)), ops.broadcast_to(y, (2, 2, 3)) * 2.0

    program = fused(function, f32[2, 3])
    fates = {
        (equation.primitive, plan.fate)
        for equation, plan in zip(program.graph.equations, program.equation_plans, strict=True)
    }
    assert {("sin", "dead"), ("exp", "fold"), ("exp", "kernel"), ("broadcast", "view"), ("reshape", "alias")} <= fates
    text = str(program.report())
    assert "2 launches of 2 kernels" in text and "exp_add 1x1x1" in text


def test_source_is_rendered_on_demand() -> None:
    program = plan(graph_of(lambda x: ops.exp(x), f32[3]), Target.parse("cpu"))
    assert "define void @" in program.source("native")
    with pytest.raises(Exception, match="source in 'wgsl' is not supported by cpu"):
        program.source("wgsl")
