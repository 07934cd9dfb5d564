"""What docstrings promise of dtypes holds, and nothing public is without one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import DTypeError

MODULES: dict[str, ModuleType] = {
    "poot": poot, "ops": ops, "ops.nn": ops.nn, "ops.linalg": ops.linalg, "ops.random": ops.random
}  # fmt: skip
#: What says something of arrays: a dtype, a shape, or an error.
TOLD = re.compile(
    r"\b(dtypes?|b?f16|f32|f64|i8|i32|u32|i64|u64|bools?|floats?|integers?|shapes?|ax[ei]s|extents?|elements?|keys?|rows?)"
    r"\b|\w(Error|Fault)\b|\[.*\]",
    re.IGNORECASE,
)
SILENT = {"devices", "unroll", "rope_scale", "gelu"}  # which take no arrays, or say it further down
FLOATS = "Floats keep their dtype, integers and bools give f32."


def public() -> Iterator[tuple[str, Any, str]]:
    """Every public function and class: its name, itself, and its docstring on one line."""
    for module_name, module in MODULES.items():
        for name in getattr(module, "__all__", dir(module)):
            found = getattr(module, name)
            if not name.startswith("_") and callable(found):
                yield f"{module_name}.{name}", found, " ".join((inspect.getdoc(found) or "").split())


def test_everything_public_says_what_it_is() -> None:
    for name, found, text in public():
        assert len(text) >= 20, name
        if not inspect.isclass(found) and name.rpartition(".")[2] not in SILENT:
            assert TOLD.search(text), f"{name}: {text}"


def sample(dtype: Any, shape: tuple[int, ...] = (2, 2)) -> Any:
    return poot.asarray(np.full(shape, 1), dtype=dtype)


def arguments(function: Any) -> int:
    """How many arrays a function has to be given."""
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def told(sentence: str) -> list[Any]:
    return [pytest.param(found, id=name) for name, found, text in public() if sentence in text]


@pytest.mark.parametrize("function", told(FLOATS))
def test_functions_of_floats(function: Any) -> None:
    for dtype, expected in (
        *((dtype, dtype) for dtype in (poot.f16, poot.bf16, poot.f32, poot.f64)),
        *((dtype, poot.f32) for dtype in (poot.bool_, poot.i8, poot.u32, poot.i64)),
    ):
        operands = [sample(dtype) for _ in range(arguments(function))]
        found = poot.evaluate(poot.trace(lambda *xs: function(*xs)).graph(*operands), dict(enumerate(operands))).output
        assert poot.dtypes.as_dtype(found.dtype) is expected, dtype


@pytest.mark.parametrize("function", told("Bools, of any") + told("Bools, of operands") + told("Bools of x's shape"))
def test_functions_that_give_bools(function: Any) -> None:
    for dtype in (poot.f16, poot.f32, poot.bool_, poot.i8, poot.u32):
        found = function(*[sample(dtype) for _ in range(arguments(function))])
        assert found.dtype is poot.bool_ and found.shape == (2, 2)


@pytest.mark.parametrize("function", told("In x's dtype; DTypeError for bools."))
def test_functions_of_numbers(function: Any) -> None:
    for dtype in (poot.f16, poot.f32, poot.i8, poot.u32):
        assert function(sample(dtype)).dtype is dtype
    with pytest.raises(DTypeError):
        function(sample(poot.bool_))


@pytest.mark.parametrize("function", told("The operands promote and broadcast together"))
def test_functions_of_two(function: Any) -> None:
    found = function(sample(poot.f16, (2, 1)), sample(poot.f32, (3,)))
    assert found.dtype is poot.f32 and found.shape == (2, 3)
