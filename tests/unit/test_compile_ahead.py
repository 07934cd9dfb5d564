"""Kernels are compiled beside the planner, and nothing else changes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.backends import ahead, toolchain
from poot.backends.ahead import compile_together, compiling_ahead
from poot.errors import CompileError
from poot.kernel.ir import Kernel
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.target import Target

CPU = poot.device("cpu").target


def two_kernels(scale: float) -> Any:
    return lambda x: ops.sum(ops.exp(x * scale), axis=0) + ops.cumsum(x, axis=1)[:, -1]


def test_the_planner_tells_of_every_kernel() -> None:
    told: list[Kernel] = []
    graph = poot.trace(two_kernels(0.5)).graph(f32[64, 64])
    program = plan(graph, CPU, CompileOptions(ahead=told.append))
    assert tuple(told) == program.kernels and len(told) > 1


def test_loops_are_not_compiled_ahead() -> None:
    told: list[Kernel] = []
    graph = poot.trace(lambda x: ops.scan(lambda c, _: (c * 0.5, None), x, None, length=3)[0]).graph(f32[8])
    plan(graph, CPU, CompileOptions(ahead=told.append))
    assert not told


def test_calls_find_them_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    where: set[str] = set()
    original = toolchain.compile_kernel

    def noted(*args: Any, **options: Any) -> Any:
        where.add(threading.current_thread().name.partition("_")[0])
        return original(*args, **options)

    monkeypatch.setattr(ahead, "compile_kernel", noted)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    f = poot.trace(two_kernels(0.123))
    before = toolchain.compile_count()
    found = np.asarray(f(x))
    kernels = len(f.program(f32[64, 64], device="cpu").kernels)
    assert toolchain.compile_count() - before == kernels
    np.testing.assert_allclose(found, f.evaluate(x), rtol=1e-5, atol=1e-4)
    assert where <= {"poot-compile", threading.current_thread().name}


def test_errors_are_told_by_whoever_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = poot.trace(lambda x: x * 3.0).graph(f32[3])

    def broken(*_: Any, **__: Any) -> Any:
        raise CompileError(what="kernel", target=CPU, message="not today")

    monkeypatch.setattr(ahead, "compile_kernel", broken)
    with compiling_ahead(CPU, contract=True) as compiler:
        assert compiler is not None
        assert plan(graph, CPU, CompileOptions(ahead=compiler.begin)).kernels
        compiler.help()


def test_other_compilers_are_left_alone() -> None:
    with compiling_ahead(Target.parse("cuda:sm_90"), contract=True) as compiler:
        assert compiler is None


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_as_many_compile_as_a_pool_has_threads(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_NUM_THREADS", threads)
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    scale = 0.5 + int(threads)
    graph = poot.trace(lambda x: [ops.sum(ops.exp(x * (scale + n)), axis=0) for n in range(6)]).graph(f32[64, 64])
    program = plan(graph, CPU, CompileOptions())
    names: set[str] = set()
    original = toolchain.compile_kernel

    def noted(*args: Any, **options: Any) -> Any:
        names.add(threading.current_thread().name)
        return original(*args, **options)

    monkeypatch.setattr(ahead, "compile_kernel", noted)
    before = toolchain.compile_count()
    compile_together(program, CPU)
    for kernel in program.kernels:
        toolchain.compile_kernel(kernel, CPU, contract=program.contract)
    assert toolchain.compile_count() - before == len(program.kernels)
    assert len(names) <= int(threads)


def test_what_has_not_begun_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_NUM_THREADS", "1")
    program = plan(poot.trace(two_kernels(0.77)).graph(f32[64, 64]), CPU, CompileOptions())
    before = toolchain.compile_count()
    with compiling_ahead(CPU, contract=True) as compiler:
        assert compiler is not None
        for kernel in program.kernels:
            compiler.begin(kernel)
    compiler.help()
    assert toolchain.compile_count() == before
