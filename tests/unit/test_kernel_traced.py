"""Kernels on tracers: equations of the graph, values in and values out."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import numpy as np
import pytest

import poot
from poot import f32, f64, i32, ops
from poot.api.devices import Device
from poot.api.kernels import kernel
from poot.errors import KernelFault, LaunchError, SerialisationError, ShapeError
from poot.kernel.codec import decode, encode
from poot.kernel.language import (
    Const,
    In,
    In2,
    InOut,
    Out,
    Out2,
    group_index,
    group_sum,
    local_index,
    thread_index,
)
from poot.plan.kernel_call import kernel_of
from poot.trace.serial import dump_graph, load_graph

T = TypeVar("T")


@kernel
def axpy(alpha: T, a: In[T], c: InOut[T], double: Out[T], times: Const[int] = 2):
    i = thread_index()
    if i < len(c):
        c[i] += a[i] * alpha
        double[i] = c[i] * times


@kernel(workgroup=32)
def totals(x: In2[f32], y: Out[f32]):
    total = 0.0
    for k in range(local_index(), x.shape[1], 32):
        total += x[group_index(), k]
    total = group_sum(total)
    if local_index() == 0:
        y[group_index()] = total


@kernel
def past(x: In[f32], y: Out[f32], by: int):
    i = thread_index()
    y[i] = x[i + by]


@kernel
def some(y: Out2[f32]):
    y[thread_index(), 1] = 1


@poot.trace
def block(a: Any, b: Any, alpha: Any) -> Any:
    c, double = axpy(alpha, a * 2, b, f32[8], threads=8)
    return c + double, totals(ops.reshape(c, (2, 4)), f32[2], groups=2)


def test_a_kernel_is_an_equation_of_the_graph(device: Device) -> None:
    a, b = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    with poot.device(device):
        both, sums = block(a, b, 3.0)
    c = b + a * 2 * 3
    np.testing.assert_array_equal(both, c * 3)
    np.testing.assert_array_equal(sums, c.reshape(2, 4).sum(1))
    assert b.sum() == 8  # nothing has changed in place
    oracle = block.evaluate(a, b, 3.0)
    np.testing.assert_array_equal(oracle[0], both)
    np.testing.assert_array_equal(oracle[1], sums)


def test_the_graph_is_plain_data() -> None:
    a = np.ones(8, np.float32)
    graph = block.graph(a, a, 1.0)
    names = [equation.primitive for equation in graph.equations]
    assert names.count("kernel_call") == 2
    first = next(equation for equation in graph.equations if equation.primitive == "kernel_call")
    assert [value.spec for value in first.outputs] == [f32[8], f32[8]]
    assert first.effects == {"fault"}
    assert load_graph(dump_graph(graph)) == graph
    found = kernel_of(first.params)
    assert found.name == "axpy" and found.where is not None
    text = encode(found)
    assert decode(text) is found
    again = decode(text.replace('"axpy"', '"other"'))
    assert again.where is None and again.body == found.body
    for damaged in ("{}", "[", '{"Kernel":[]}', '{"Var":["x",{"dtype":"f32"}]}', "1.5"):
        with pytest.raises(SerialisationError, match="kernel: it is"):
            decode(damaged)


def test_calls_with_specs_on_concrete_arrays(device: Device) -> None:
    a, b = np.ones(8, np.float32), np.ones(8, np.float32)
    with poot.device(device):
        c, double = axpy(2, a, b, f32[8], threads=8, times=4)
        alone = some(f32[3, 2], threads=3)
    assert (np.asarray(c) == 3).all() and (np.asarray(double) == 12).all() and (b == 1).all()
    np.testing.assert_array_equal(alone, [[0, 1], [0, 1], [0, 1]])  # what is not written is 0


def test_scalars_of_a_trace() -> None:
    @poot.trace
    def f(a: Any, alpha: Any) -> Any:
        return axpy(alpha, a, a, i32[8], threads=8)[0], axpy(ops.sum(a), a, a, i32[8], threads=8)[0]

    first, second = f(np.ones(8, np.int32), 5)
    assert first[0] == 6 and second[0] == 9


def test_faults(device: Device) -> None:
    @poot.trace
    def f(x: Any) -> Any:
        return past(x * 2, f32[8], 3, threads=8)

    x = np.ones(8, np.float32)
    text = r"kernel past: index 8 of x is outside axis 0 of extent 8\n  at .*test_kernel_traced"
    with poot.device(device):
        y = f(x)
    with pytest.raises(KernelFault, match=text):
        np.asarray(y)
    with pytest.raises(KernelFault, match=text):
        f.evaluate(x)
    assert (np.asarray(f(np.ones(11, np.float32))) == 2).all()


REFUSED = [
    (lambda x: past(x, x, 1, threads=8), ("the output `y` is given f32[8], where nothing is changed in place\n…\n"
     "  Remedy: pass the spec of the result, f32[8]; the call returns it.")),
    (lambda x: past(f32[8], f32[8], 1, threads=8), ("`x` is read, and is given the spec f32[8]\n…\n"
     "  Remedy: pass its value.")),
    (lambda x: past(x, f64[8], 1, threads=8), ("`y` is f64, where Out[f32] needs f32\n…\n"
     "  Remedy: convert it: y.astype(np.dtype(f32)); nothing is cast silently.")),
    (lambda x: past(x, f32[2, 4], 1, threads=8), ("`y` has rank 2 and the shape (2, 4), where Out[f32] needs rank 1\n"
     "…\n  Remedy: reshape it, or declare Out2[f32].")),
    (lambda x: past(x, f32[8], x, threads=8), ("`by` is f32[8], where a scalar of i32 is needed\n…\n"
     "  Remedy: cast it: i32(x).")),
    (lambda x: past(x, f32[8], 1), ("neither threads= nor groups= is given\n…\n"
     "  Remedy: give one: threads=n starts n threads, groups=n whole work-groups.")),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        poot.trace(call)(np.ones(8, np.float32))
    lines = [line for line in str(caught.value).split("\n") if not line.startswith("    ")]
    told = "\n".join("…" if line.startswith("  at ") else line for line in lines)
    assert re.sub(r"^kernel \w+: ", "", told) == text


def test_the_spec_to_pass_has_the_shape_of_the_array_that_was_given() -> None:
    with pytest.raises(LaunchError, match=re.escape("the result, f32[3,5]; the call returns it")):
        poot.trace(lambda: some(np.zeros((3, 5), np.float32), threads=(5, 3)))()
    poot.trace(lambda: some(f32[3, 5], threads=(5, 3)))()


@pytest.mark.parametrize("wrap", [np.asarray, poot.asarray])
def test_under_eager_too_nothing_changes_in_place(wrap: Any) -> None:
    a, c = wrap(np.arange(4, dtype=np.float32)), wrap(np.ones(4, np.float32))

    @poot.trace
    def call(a: Any, c: Any) -> Any:
        changed, double = axpy(2.0, a, c, f32[4], threads=4)
        return changed * 1.0, double

    traced = call(a, c)
    with poot.eager():
        eager = call(a, c)
    for one, other in zip(traced, eager, strict=True):
        assert np.asarray(one).tolist() == np.asarray(other).tolist()
    assert np.asarray(traced[0]).tolist() == [1, 3, 5, 7]
    assert np.asarray(c).tolist() == [1] * 4


def test_the_primitive_checks_its_operands() -> None:
    equation = next(e for e in block.graph(f32[8], f32[8], 1.0).equations if e.primitive == "kernel_call")
    from poot.trace.primitives import lookup

    with pytest.raises(ShapeError, match="kernel_call: `a` of axpy"):
        lookup("kernel_call").type_rule((f32[()], f32[9], f32[8]), equation.params, ())
