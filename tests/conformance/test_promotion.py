"""Promotion gives what JAX gives for every pair of operands, but for the departures that docs/dtypes.md names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import BY_NAME, DType, as_dtype, promote
from tests.unit.ops_support import run

RESULT: dict[str, str] = json.loads((Path(__file__).parents[1] / "data" / "jax_promotion.json").read_text("utf-8"))[
    "result"
]
PAIRS = [tuple(pair.split()) for pair in RESULT]
PYTHON: dict[str, Any] = {"True": True, "1": 1, "1.0": 1.0}
WEAK_NUMPY = {"np.float64": "float*", "np.int64": "int*"}  # the first departure: NumPy hands these out on its own
DTYPES = [str(np.dtype(dtype.dtype)) for dtype in BY_NAME.values()]


def jax_kind(text: str) -> DType | str:
    """A result of the table as a dtype, or a weak kind."""
    if not text.endswith("*"):
        return as_dtype(text)
    return "float*" if text.startswith("float") else "int*"


def without_departures(left: str, right: str) -> DType | str:
    """What JAX gives where `np.float64` and `np.int64` scalars are weak, as Python's are."""
    return jax_kind(RESULT[f"{WEAK_NUMPY.get(left, left)} {WEAK_NUMPY.get(right, right)}"])


def default(kind: DType | str) -> DType:
    """The second departure: results of weak operands alone are i32 and f32, whether 64 bits are enabled or not."""
    return BY_NAME["i32"] if kind == "int*" else BY_NAME["f32"] if kind == "float*" else as_dtype(kind)


def operand(name: str) -> Any:
    if name in PYTHON:
        return PYTHON[name]
    if name.startswith("np."):
        return np.dtype(name[3:]).type(1)
    return np.ones(2, as_dtype(name).dtype)


def test_the_table_has_every_pair() -> None:
    kinds = {left for left, _ in PAIRS}
    assert kinds == {right for _, right in PAIRS} and len(PAIRS) == len(kinds) ** 2
    assert set(DTYPES) | {"int*", "float*", *PYTHON, *WEAK_NUMPY} <= kinds


@pytest.mark.parametrize("left", [*DTYPES, "int*", "float*"])
def test_the_lattice_is_that_of_jax(left: str) -> None:
    for right in [*DTYPES, "int*", "float*"]:
        kinds: Any = [name if name.endswith("*") else as_dtype(name) for name in (left, right)]
        assert promote(kinds) == jax_kind(RESULT[f"{left} {right}"]), (left, right)


@pytest.mark.parametrize("left", sorted({left for left, _ in PAIRS if not left.endswith("*")}))
def test_result_type_of_operands(left: str) -> None:
    departures = set()
    for other, right in PAIRS:
        if other != left or right.endswith("*"):
            continue
        found = ops.result_type(operand(left), operand(right))
        assert found is default(without_departures(left, right)), (left, right)
        if found is not default(jax_kind(RESULT[f"{left} {right}"])):
            departures.add(right)
    assert left in WEAK_NUMPY or departures <= set(WEAK_NUMPY)


@pytest.mark.parametrize("left", DTYPES)
def test_operations_on_arrays_take_it(left: str) -> None:
    for right in [*DTYPES, "True", "1", "1.0", "np.float64", "np.int64", "np.float32", "np.bool"]:
        for pair in ((left, right), (right, left)):
            expected = default(without_departures(*pair))
            found = run(ops.add, *map(operand, pair))
            assert found.dtype == expected.dtype, pair


def test_weak_arguments_of_traced_functions() -> None:
    for left in DTYPES:
        for number, kind in ((1, "int*"), (1.0, "float*")):
            expected = default(jax_kind(RESULT[f"{left} {kind}"]))
            traced = poot.trace(lambda x, y: x + y, device="cpu")
            graph = traced.graph(np.ones(2, as_dtype(left).dtype), number)
            assert graph.outputs[0].spec.dtype is expected, (left, number)
