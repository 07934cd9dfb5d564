"""What a target lacks is refused with the user's line and a remedy, wherever it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Target, TraceLimits, ops
from poot.errors import PootError, Unsupported, UnsupportedDTypeError

WIDE = {"f64": 'f64="f32"', "i64": 'i64="i32"', "u64": 'i64="i32"'}
NEAREST = {"f64": "f32", "i64": "i32", "u64": "u32", "f16": "f32", "bf16": "f32"}
LARGE = 1 << 12


def poor(target: Target) -> Target:
    """A target without the dtypes that devices lack, whose buffers are small."""
    return replace(
        target.replace_limits(binding_bytes=LARGE), dtypes=frozenset({poot.f32, poot.i32, poot.u32, poot.bool_})
    )


TARGETS = [poor(Target.parse(name)) for name in ("wgpu", "opencl", "cuda:sm_80", "cpu", "interpret")]


def remedy_of(use: Callable[[], Any], kind: type[PootError] = Unsupported) -> str:
    """The remedy of what is refused, with a line of this file."""
    with pytest.raises(kind) as caught:
        use()
    assert caught.value.where is not None and caught.value.where.file == __file__, str(caught.value)
    assert "\n  Remedy: " in str(caught.value)
    return str(caught.value).partition("\n  Remedy: ")[2]


def variable(kind: str, spec: Any) -> poot.Graph:
    b = Builder(TraceLimits.STANDARD)
    x = getattr(b, kind)("x", spec)
    return b.finish(ops.sum(x.astype(poot.f32)), updates={"x": x} if kind == "state" else {})


# --- graphs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", NEAREST)
@pytest.mark.parametrize("kind", ["input", "constant", "state"])
def test_variables_of_a_builder(kind: str, name: str, target: Target) -> None:
    dtype = getattr(poot, name)
    remedy = remedy_of(lambda: poot.compile(variable(kind, dtype[4]), target))
    assert remedy.startswith(f"make it {NEAREST[name]}, or ")
    wanted = f"convert it with {WIDE[name]} in @poot.trace or poot.device" if name in WIDE else "cast it before"
    assert wanted in remedy
    large = remedy_of(lambda: poot.compile(variable(kind, poot.f32[LARGE]), target))
    assert large.startswith("split it into parts")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", NEAREST)
def test_equations(name: str, target: Target) -> None:
    dtype = getattr(poot, name)
    f = poot.trace(lambda x: ops.sum(x.astype(dtype) * 2).astype(poot.f32))
    graph = f.graph(poot.f32[4])
    assert remedy_of(lambda: poot.compile(graph, target)).startswith(f"cast to a dtype that it has: {NEAREST[name]}, ")
    g = poot.trace(lambda x: x[:, None] + x)
    assert remedy_of(lambda: poot.compile(g.graph(poot.f32[LARGE // 8]), target)).startswith("split it into parts")
    arguments = poot.trace(lambda x: ops.sum(x))
    assert remedy_of(lambda: poot.compile(arguments.graph(dtype[4]), target)).startswith(f"make it {NEAREST[name]}")


# --- a device ---------------------------------------------------------------------------------------------------------


@contextmanager
def poor_device() -> Generator[None]:
    """The interpreter as a device that lacks them."""
    backend = poot.device("interpret").backend
    target = backend.target
    backend.target = poor(target)
    try:
        with poot.device("interpret"):
            yield
    finally:
        backend.target = target


@poot.kernel
def widened(x: poot.In[poot.f32], y: poot.Out[poot.f64]) -> None:
    i = poot.thread_index()
    if i < len(y):
        y[i] = poot.f64(x[i])


@poot.kernel
def widened_within(x: poot.In[poot.f32], y: poot.Out[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(y):
        y[i] = poot.f32(poot.i64(x[i]) + 1)


@poot.kernel
def copied(x: poot.In[poot.f32], y: poot.Out[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(y):
        y[i] = x[i]


ONES = np.ones(4, np.float32)
MANY = np.ones(LARGE, np.float32)
#: What is refused, and how the remedy begins; x is an array of f32 on the device.
USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "zeros": (lambda x: ops.zeros(3, dtype=poot.f64), "cast to a dtype that it has: f32"),
    "ones of 16 bits": (lambda x: ops.ones(3, dtype=poot.bf16), "cast to a dtype that it has: f32"),
    "arange": (lambda x: ops.arange(3, dtype=poot.i64), "cast to a dtype that it has: i32"),
    "linspace": (lambda x: ops.linspace(0, 1, 3, dtype=poot.f64), "cast to a dtype that it has: f32"),
    "eye": (lambda x: ops.eye(3, dtype=poot.f16), "cast to a dtype that it has: f32"),
    "ops.asarray": (lambda x: ops.asarray(np.ones(3)), "cast to a dtype that it has: f32"),
    "astype": (lambda x: x.astype(poot.f64), "cast to a dtype that it has: f32"),
    "sum at a dtype": (lambda x: x.sum(dtype=poot.f64), "cast to a dtype that it has: f32"),
    "operator": (lambda x: x + np.ones(4), "cast to a dtype that it has: f32"),
    "integers": (lambda x: x + np.ones(4, np.int64), "cast to a dtype that it has: i32"),
    "index": (lambda x: x[np.array([0, 1])], "cast to a dtype that it has: i32"),
    "large zeros": (lambda x: ops.zeros(LARGE), "split it into parts"),
    "large operand": (lambda x: x[0] + MANY, "split it into parts"),
    "large argument": (lambda x: poot.trace(lambda y: ops.sum(y))(MANY), "split it into parts"),
    "large value": (lambda x: poot.trace(lambda y: y[:, None] + ops.arange(1024))(x), "split it into parts"),
    "traced inside": (lambda x: poot.trace(lambda y: y.astype(poot.f16) * 2)(x), "cast to a dtype that it has: f32"),
    "large kernel argument": (lambda x: copied(MANY, ONES.copy(), threads=4), "split it into parts"),
}
BY_DTYPE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "poot.asarray": (lambda x: poot.asarray(np.ones(3)), r'.*such as poot.f32 .*poot.device(…, f64="f32")'),
    "poot.asarray at a dtype": (
        lambda x: poot.asarray(2.5, dtype=poot.f64),
        "pass dtype= with a dtype that the device",
    ),
    "argument": (lambda x: poot.trace(lambda y: y)(np.ones(3)), 'convert them with f64="f32" in @poot.trace or poot.d'),
    "integers": (lambda x: poot.trace(lambda y: y)(np.arange(3)), 'convert them with i64="i32" in @poot.trace or poot'),
    "half": (lambda x: poot.trace(lambda y: y)(np.ones(3, np.float16)), "cast them to a dtype that the device has"),
    "to_device": (lambda x: poot.asarray(np.ones(3), device="cpu").to_device("interpret"), "cast it first"),
    "brought": (lambda x: poot.asarray(poot.asarray(np.ones(3), device="cpu"), device="interpret"), "cast it first"),
}


@pytest.mark.parametrize("kind", USES)
def test_on_a_device(kind: str) -> None:
    use, remedy = USES[kind]
    with poor_device():
        x = poot.asarray(ONES)
        found = remedy_of(lambda: use(x))
    assert found.startswith(remedy), found


@pytest.mark.parametrize("kind", BY_DTYPE)
def test_arrays_that_a_device_cannot_hold(kind: str) -> None:
    use, remedy = BY_DTYPE[kind]
    with poor_device():
        found = remedy_of(lambda: use(None), UnsupportedDTypeError)
    assert remedy.removeprefix(".*").split(" .*")[0] in found, found
    assert all(part in found for part in remedy.removeprefix(".*").split(" .*")), found


def test_kernels() -> None:
    y = np.ones(4)
    with poor_device():
        assert remedy_of(lambda: widened(ONES, y, threads=4)).startswith("use f32 in place of f64, or launch it on")
        assert remedy_of(lambda: widened_within(ONES, ONES.copy(), threads=4)).startswith("use i32 in place of i64")
    for target in TARGETS:
        assert remedy_of(lambda: widened.compile(target)).startswith("use f32 in place of f64")  # noqa: B023


def test_what_is_brought_to_a_device_is_converted_where_it_asks_for_that() -> None:
    there = poot.asarray(np.arange(3.0), device="cpu")
    with poor_device():
        found = poot.asarray(there, device=poot.device("interpret", f64="f32"))
        assert found.dtype is poot.f32 and found.device == "interpret"
        assert poot.asarray(there, poot.f32, device="interpret").dtype is poot.f32
    assert poot.asarray(there, device=poot.device("cpu", f64="f32")) is there


def test_a_kernel_never_reads_past_what_a_buffer_holds(device_name: str) -> None:
    device = poot.device(device_name)
    backend = device.backend
    target = backend.target
    backend.target = target.replace_limits(binding_bytes=4 * 64)
    context = poot.Context(device)
    try:
        copied(np.ones(64, np.float32), y := np.zeros(64, np.float32), threads=64, device=device)
        assert y.all()
        with pytest.raises(
            Unsupported, match=r"`x` of kernel copied is not .*: f32\[65\] takes 260 bytes, and its buff"
        ):
            copied(np.ones(65, np.float32), y, threads=64, device=device)
        buffers = [poot.KernelBuffer.read_only(np.ones(65, np.float32)), poot.KernelBuffer.write(poot.f32, 4)]
        compiled = copied.compile(backend.target, workgroup=(64, 1, 1))
        with pytest.raises(Unsupported, match=r"f32\[65\] takes 260 bytes"):
            context.dispatch("copied", compiled, workgroup=(64, 1, 1), threads=(4, 1, 1), buffers=buffers)
    finally:
        backend.target = target


# --- the stack --------------------------------------------------------------------------------------------------------


@poot.kernel
def remembering(x: poot.InOut[poot.f32], n: int, size: poot.Const[int]) -> None:
    cells = poot.private(poot.f32, size)
    i = poot.thread_index()
    for k in range(size):
        cells[k] = x[i] + poot.f32(k)
    x[i] = cells[n]


def test_private_arrays_past_the_stack_of_a_processor_are_refused() -> None:
    """OpenCL drivers keep those of a whole work-group on the stack of a thread, and would end the process."""
    target = poot.device("opencl").target
    limit = target.limit("workgroup_private")
    x = np.zeros(2, np.float32)
    remembering(x, 7, size=limit // 4 // 64, threads=2, workgroup=64, device="opencl")
    assert (x == 7).all()
    for size, workgroup in ((limit // 4 // 64 + 1, 64), (limit // 4 + 1, 1), (limit, 256)):
        with pytest.raises(Unsupported, match=r"bytes of private arrays in a work-group .* the limit is ") as caught:
            remembering(x, 7, size=size, threads=2, workgroup=workgroup, device="opencl")
        where = caught.value.where
        assert where is not None and where.text.strip() == "cells = poot.private(poot.f32, size)"
        assert "smaller private arrays" in caught.value.remedy
    assert (x == 7).all()
