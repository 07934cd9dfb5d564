"""Attention: what becomes one streaming kernel, what does not and why, and that results and memory are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import ArraySpec, f32
from poot.kernel.ir import Load, Store, walk
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.program import Program
from poot.plan.verify import verify
from poot.target import Target
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from tests.attention_cases import CASES, before, causal, normal, plain, stream_anything
from tests.plan_support import INTERPRET, compare, run_program

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

INF = float("inf")
LONG = (f32[2, 256, 16],) * 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_anything(monkeypatch)


def graph_of(function: Callable[..., Any], *arguments: Any) -> Graph:
    return poot.trace(function).program(*arguments, device="interpret").graph


def kernels(program: Program) -> list[str]:
    return [program.kernels[launch.kernel].name for launch in program.launches]


def bound(graph: Graph, function: Callable[..., Any], arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    named = dict(zip(function.__code__.co_varnames, arrays, strict=False))
    return {variable.name: named[variable.name] for variable in graph.inputs}


def check(function: Callable[..., Any], arrays: Any) -> Program:
    """Plan, run in the interpreter, compare with the oracle."""
    graph = graph_of(function, *arrays)
    program = plan(graph, INTERPRET)
    values = bound(graph, function, arrays)
    with np.errstate(all="ignore"):
        actual, _ = run_program(program, values)
        compare(actual, evaluate(graph, {**values}).output, exact=False)
    return program


# --- what is streamed -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", CASES)
def test_it_is_one_kernel_and_right(name: str) -> None:
    program = check(*CASES[name])
    found = kernels(program)
    assert found.count("attention") == (2 if name == "two layers" else 1)
    assert not any("reduce" in kernel for kernel in found)
    assert not any(isinstance(n, (Load, Store)) and n.checked for k in verify(program) for n in walk(k.body))


BOUNDED = [
    "deferred, causal",
    "deferred, no key",
    "deferred, sinks",
    "causal",
    "everything",
    "finite window",
    "no key",
    "repeated heads",
    "scaled after the mask",
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", BOUNDED)
def test_masked_keys_are_not_visited(name: str) -> None:
    program = check(*CASES[name])
    assert "attention_values" in kernels(program)


def test_the_figures_of_the_targets() -> None:
    program = check(causal, (normal(2, 300, 12), normal(2, 300, 12), normal(2, 300, 12)))
    assert kernels(program) == ["attention_values", "attention"]
    assert program.numerics == "reassociating"


SPECIAL = ["plain", "causal", "added mask", "padding", "no key", "no key, finite", "no key, zeros", "everything"]
SPECIAL += ["deferred, causal", "deferred, no key", "deferred, reciprocal", "deferred, sinks"]
SPECIAL += ["sink column", "sink columns first", "sink column, shifted twice", "sink column, no key"]
SPECIAL += ["finite window", "tril of bools", "by logsumexp", "scaled after the mask", "causal, f16", "grouped, bf16"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("operand", range(3))
def test_infinities_and_nans_are_where_the_oracle_has_them(name: str, operand: int) -> None:
    function, arrays = CASES[name]
    rng = np.random.default_rng(operand)
    spoilt = [array.copy() for array in arrays]
    for value in (INF, -INF, np.nan)[: operand + 1]:
        place = tuple(int(rng.integers(extent)) for extent in spoilt[operand].shape)
        spoilt[operand][place] = value
    check(function, spoilt)


MASKS: dict[str, Callable[[Any, Any, int], Any]] = {
    "upper": lambda i, j, n: j <= i + n,
    "strict": lambda i, j, n: j < i + n,
    "lower": lambda i, j, n: i - n <= j,
    "not": lambda i, j, n: ~(i + n < j),
    "both": lambda i, j, n: (j <= i + n) & (j > i - 2 * n),
    "neither": lambda i, j, n: ~((j > i + n) | (j < i - n)),
    "either": lambda i, j, n: (j <= i + n) | (j == 0),
    "backwards": lambda i, j, n: j + i <= 20 + n,
    "blocks": lambda i, j, n: j // 4 == i // 4,
    "strided": lambda i, j, n: 2 * j <= i + n,
    "constant": lambda i, j, n: j < 5 + abs(n),
    "wide": lambda i, j, n: j.astype(poot.i64) <= i.astype(poot.i64) + n,
    "by zero": lambda i, j, n: ops.where(j <= i + n, 1, 0) != 0,
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fill", [-INF, -1e9, -40.0, 3.0])
@pytest.mark.parametrize("name", MASKS)
def test_masks_of_all_kinds(name: str, fill: float) -> None:
    rng = np.random.default_rng(len(name))
    queries, keys, n = int(rng.integers(9, 40)), int(rng.integers(9, 40)), int(rng.integers(-6, 9))

    def function(q: Any, k: Any, v: Any) -> Any:
        kept = MASKS[name](ops.arange(queries)[:, None], ops.arange(keys)[None, :], n)
        return ops.nn.softmax(ops.where(kept, q @ k.mT * 4.0, fill)) @ v

    program = check(function, (normal(2, queries, 4), normal(2, keys, 4), normal(2, keys, 5)))
    assert kernels(program)[-1] == "attention"


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_is_linear_in_the_length() -> None:
    def arena(length: int) -> int:
        def function(q: Any, k: Any, v: Any) -> Any:
            return ops.nn.softmax(ops.where(before(length, length), q @ k.mT, -INF)) @ v

        program = poot.trace(function).program(*[f32[8, length, 64]] * 3, device="interpret")
        assert kernels(program) == ["attention_values", "attention"]
        return program.report().storage.arena_bytes

    assert arena(16384) <= 2 * arena(8192) < 8 * 16384 * 64 * 4 // 4


# --- what is not ------------------------------------------------------------------------------------------------------


def both(q: Any, k: Any, v: Any) -> Any:
    weights = ops.nn.softmax(q @ k.mT)
    return weights, weights @ v


def reused(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT
    return ops.nn.softmax(scores) @ v, ops.sum(scores)


def dropped(q: Any, k: Any, v: Any, kept: Any) -> Any:
    return (ops.nn.softmax(q @ k.mT) * kept) @ v


def rectified(q: Any, k: Any, v: Any) -> Any:
    powers = ops.exp(q @ k.mT)
    weights = ops.maximum(powers / ops.sum(powers, axis=-1, keepdims=True) - 0.01, 0.0)
    return weights @ v


def squared(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT
    powers = ops.exp(scores)
    return (powers / ops.sum(powers * powers, axis=-1, keepdims=True)) @ v


def partial(q: Any, k: Any, v: Any) -> Any:
    powers = ops.exp(q @ k.mT)
    return powers @ v, ops.sum(powers, axis=-1)


def weighted_sums(q: Any, k: Any, v: Any, kept: Any) -> Any:
    powers = ops.exp(q @ k.mT)
    return (powers @ v) / ops.sum(powers * kept, axis=-1, keepdims=True)


def seen_column(q: Any, k: Any, v: Any, sinks: Any) -> Any:
    weights = ops.nn.softmax(ops.concat([q @ k.mT, ops.broadcast_to(sinks, (2, 256, 1))], axis=-1))
    return weights[..., :256] @ v, weights[..., 255:]


def queries_share_keys(q: Any, k: Any, v: Any) -> Any:
    return ops.nn.softmax(q @ k.mT, axis=-2) @ v


DECLINED: list[tuple[Callable[..., Any], tuple[ArraySpec, ...], str]] = [
    (both, LONG, "its scores or weights are results"),
    (reused, LONG, "read elsewhere, by reduce_sum"),
    (partial, LONG, "the sums of its weights are not read by its kernel"),
    (weighted_sums, (*LONG, f32[2, 256, 256]), "its sums are not of powers of its scores"),
    (dropped, (*LONG, f32[2, 256, 256]), "a mul by what is no row value"),
    (rectified, LONG, "made by max, not exp"),
    (squared, LONG, "not of powers of its scores"),
    (seen_column, (*LONG, f32[1]), "its reduce_sum goes along 257 elements, and 256 are contracted"),
    (queries_share_keys, LONG, "not along the axes that are contracted"),
    (plain, (f32[640, 64, 16],) * 3, "64 queries and 64 keys are too few"),
    (plain, (f32[2, 4, 16], f32[2, 256, 16], f32[2, 256, 16]), "4 queries and 256 keys are too few"),
    (plain, (f32[1, 32, 16], f32[1, 256, 16], f32[1, 256, 16]), "do not keep the device busy"),
    (plain, (f32[2, 256, 1024], f32[2, 256, 1024], f32[2, 256, 16]), "rows of 1024 are longer"),
]


@pytest.mark.parametrize(("function", "specs", "reason"), DECLINED, ids=[each[2] for each in DECLINED])
def test_what_is_declined_says_why(function: Callable[..., Any], specs: tuple[ArraySpec, ...], reason: str) -> None:
    program = poot.trace(function).program(*specs, device="interpret")
    assert "attention" not in kernels(program)
    assert any(reason in str(note) for note in unstreamed(program)), program.report()


def unstreamed(program: Program) -> list[str]:
    return [each.reason for each in program.report().declined if "no attention is streamed" in each.what]


def test_strict_numerics_stream_nothing() -> None:
    graph = graph_of(plain, *LONG)
    assert "attention" in kernels(plan(graph, INTERPRET))
    program = plan(graph, INTERPRET, CompileOptions(numerics="strict"))
    assert "attention" not in kernels(program)
    assert unstreamed(program) == ['numerics="strict" keeps the weights as they are divided and rounded']


def test_few_keys_stream_where_that_saves_launches() -> None:
    assert kernels(check(plain, (normal(3, 30, 8), normal(3, 20, 8), normal(3, 20, 8)))) == ["attention"]


def test_targets_without_arrays_of_a_thread_stream_nothing() -> None:
    graph = graph_of(plain, *[f32[64, 1024, 16]] * 3)
    gpu = Target.parse("cuda:sm_90")
    program = plan(graph, replace(gpu, languages=("triton",)))
    assert "attention" not in kernels(program) and unstreamed(program) == ["a thread of Triton has no arrays"]
    assert "attention" in kernels(plan(graph, gpu))


@pytest.mark.parametrize("length", [1024, 2048, 8192])
def test_few_queries_stream_on_a_gpu_once_scores_are_large(length: int) -> None:
    graph = graph_of(plain, *[f32[4, length, 16]] * 3)
    assert ("attention" in kernels(plan(graph, Target.parse("wgpu")))) == (length == 8192)


def test_a_deep_mask_is_computed_in_each_kernel_that_reads_it() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        kept = before(256, 256)
        for _ in range(4):
            q = ops.nn.softmax(ops.where(kept, q @ k.mT, -INF)) @ v
        return q

    program = poot.trace(function).program(*LONG, device="interpret")
    assert set(kernels(program)) == {"attention", "attention_values"}
    assert program.report().storage.scratch_bytes < 4 * 2 * 256 * 16 * 4 * 2
