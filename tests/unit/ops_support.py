"""Builds a small graph with `ops` and evaluates it with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import optree

from poot.dtypes import ArraySpec, as_dtype
from poot.trace import dispatch
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph, Literal
from poot.trace.limits import TraceLimits
from poot.trace.tracer import Tracer

LIMITS = TraceLimits.STANDARD


def spec_of(array: np.ndarray) -> ArraySpec:
    return ArraySpec(as_dtype(array.dtype), array.shape)


def build(function: Callable[..., Any], *arrays: Any) -> Graph:
    """The graph of a function of the arrays among its arguments."""
    builder = Builder(LIMITS, name="f")
    named = [
        builder.input(f"x{place}", spec_of(value)) if isinstance(value, np.ndarray) else value
        for place, value in enumerate(arrays)
    ]
    return builder.finish(function(*named))


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """What the oracle gives for the function."""
    graph = build(function, *arrays)
    bound = {f"x{place}": value for place, value in enumerate(arrays) if isinstance(value, np.ndarray)}
    return evaluate(graph, bound).output


def primitives(function: Callable[..., Any], *arrays: Any) -> list[str]:
    """The primitives that a function records."""
    return [equation.primitive for equation in build(function, *arrays).equations]


def check(function: Callable[..., Any], expected: Any, *arrays: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """The function's results have the dtypes, shapes and (nearly) the values expected."""
    actual = run(function, *arrays)
    if callable(expected):
        expected = expected(*arrays)
    expected_leaves, actual_leaves = optree.tree_leaves(expected), optree.tree_leaves(actual)
    assert len(expected_leaves) == len(actual_leaves)
    for one, other in zip(actual_leaves, expected_leaves, strict=True):
        other = np.asarray(other)
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=rtol, atol=atol)


class HostArray(Array):
    """A concrete array in NumPy's memory, for `eager`."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    @property
    def spec(self) -> ArraySpec:
        return spec_of(self.value)

    def _value(self, use: str) -> np.ndarray:
        return self.value


@contextmanager
def eager() -> Generator[None]:
    """Let the oracle compute operations on concrete arrays."""

    def compute(primitive: str, inputs: Any, params: Any, regions: Any) -> tuple[Array, ...]:
        builder = Builder(LIMITS)
        arrays = {f"x{n}": np.asarray(x) for n, x in enumerate(inputs) if not isinstance(x, Literal)}
        handles = [
            x if isinstance(x, Literal) else builder.input(f"x{n}", spec_of(arrays[f"x{n}"]))
            for n, x in enumerate(inputs)
        ]
        graph = builder.finish(builder.emit(primitive, handles, params, regions))
        return tuple(HostArray(result) for result in evaluate(graph, arrays).output)

    previous = dispatch._eager
    dispatch.register_eager(compute)
    try:
        yield
    finally:
        dispatch.register_eager(previous)


def tracer(spec: ArraySpec, name: str = "x") -> Tracer:
    """An input of a builder of its own."""
    found = Builder(LIMITS, name="f").input(name, spec)
    assert isinstance(found, Array)
    return found
