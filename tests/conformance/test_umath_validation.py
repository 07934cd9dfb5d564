"""NumPy's own validation sets of float32 functions, on the oracle and on every device.

The files (umath-validation-set-*.csv in NumPy's tests) give an input, the correctly rounded output and the error that
NumPy allows, in units in the last place.  They hold subnormals, infinities, NaNs and arguments that are hard to reduce.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import poot
from poot import ops
from poot.kernel.expand.bounds import ULP
from tests.closeness import flushed, may_be

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

DATA: Final = Path(np.__file__).parent / "_core" / "tests" / "data"
SETS: Final = {path.stem.rpartition("-")[2]: path for path in DATA.glob("umath-validation-set-*.csv")}
FUNCTIONS: Final = (
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log",
    "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip

#: Functions that are primitives keep the bound of docs/numerics.md too; the outputs are rounded, which may add half.
STATED: Final = {
    "cos": "cos",
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "sin": "sin",
    "tanh": "tanh",
}


def rows(name: str) -> tuple[Any, Any, int]:
    """Inputs, outputs, and the greatest error allowed."""
    with SETS[name].open() as file:
        found = [row for row in csv.reader(file) if row and row[0] == "np.float32"]
    inputs, outputs = (np.array([int(row[column], 16) for row in found], np.uint32) for column in (1, 2))
    return inputs.view(np.float32), outputs.view(np.float32), min(int(row[3]) for row in found)


def distance(a: Any, b: Any) -> Any:
    """How many float32 numbers lie between; 0 of two NaNs, and more than any bound of one."""
    first, second = (bits(x) for x in (a, b))
    apart = np.abs(first - second)
    return np.where(np.isnan(a) & np.isnan(b), 0, np.where(np.isnan(a) | np.isnan(b), 1 << 40, apart))


def bits(x: Any) -> Any:
    """Integers in the order of the floats, both zeros being 0."""
    whole = np.ascontiguousarray(x).view(np.int32).astype(np.int64)
    return np.where(whole < 0, -(whole & 0x7FFFFFFF), whole)


def test_every_set_is_known() -> None:
    assert sorted(SETS) == sorted(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_oracle(name: str) -> None:
    inputs, outputs, allowed = rows(name)
    function = getattr(ops, name)
    actual = poot.trace(lambda x: function(x)).evaluate(inputs)
    assert distance(actual, outputs).max() <= allowed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_devices(name: str, device_name: str) -> None:
    inputs, outputs, allowed = rows(name)
    assert len(inputs) > 100
    function = getattr(ops, name)
    device = poot.device(device_name)
    actual = np.asarray(poot.trace(lambda x: function(x), device=device)(inputs))
    if name in STATED:
        allowed = min(allowed, int(ULP[STATED[name]]) + 1)
    others = poot.trace(lambda x: function(x)).evaluate(flushed(inputs))
    apart = np.where(may_be(device.target, actual, [outputs, others]), 0, distance(actual, outputs))
    worst = int(np.argmax(apart))
    assert apart[worst] <= allowed, (inputs[worst], actual[worst], outputs[worst])
