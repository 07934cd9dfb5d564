"""The vocabulary of docs/kernels.md against the parser, the table of operations and the checker."""

from __future__ import annotations

import builtins
import math
import re
from pathlib import Path
from typing import Any

import pytest

from poot.dtypes import BY_NAME, FLOATS, INTEGERS, NUMBERS, DType, bool_
from poot.errors import KernelError
from poot.kernel import language, ops
from poot.kernel.check import atomic_dtypes
from poot.kernel.parse import calls
from poot.kernel.parse.intrinsics import ATOMICS, COLLECTIVES
from poot.kernel.parse.scope import BUILTINS
from tests.errors.kernel_source import build, launch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
WORDS = {"floats": FLOATS, "integers": INTEGERS, "numbers": NUMBERS, "bool": (bool_,)}

CALLABLE = {*calls.ROWS, *calls.PYTHON}


def rows() -> dict[str, str]:
    """What each name of the page's tables takes."""
    section = PAGE.read_text("utf-8").split("## Vocabulary\n")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, takes, _ = (cell.strip() for cell in line.strip("|").split("|"))
            for name in re.findall(r"`([^`]+)`", names):
                assert name not in found
                found[name] = takes
    return found


def dtypes(takes: str) -> set[DType]:
    return {dtype for word in takes.split(", ") for dtype in WORDS.get(word, ()) or (BY_NAME[word],)}


def function(name: str) -> Any:
    owner = math if name.startswith("math.") else language if hasattr(language, name) else builtins
    return getattr(owner, name.removeprefix("math."))


def test_every_word_is_on_the_page_and_no_other() -> None:
    words = {name for name in language.WORDS if name not in BY_NAME}
    maths = {f"math.{known}" for known in vars(math) if known[0] != "_" and getattr(math, known) in CALLABLE}
    assert set(rows()) == words | maths | set(BUILTINS)


@pytest.mark.parametrize("name", sorted(rows()))
def test_dtypes_of_a_row(name: str) -> None:
    known, takes = function(name), rows()[name]
    row = calls.ROWS.get(known) or {"min": "min", "max": "max", "abs": "abs", "pow": "pow", "divmod": "rem"}.get(name)
    if row is not None:
        assert dtypes(takes) == set(ops.lookup(row).dtypes)
    elif known in ATOMICS:
        assert dtypes(takes) == set(atomic_dtypes(ATOMICS[known]))
    elif known in COLLECTIVES:
        assert dtypes(takes) == ({bool_} if name in ("group_any", "group_all") else set(NUMBERS))


@pytest.mark.parametrize(
    "body, before",
    [
        (
            "y[i] = f(x[i])",
            "def f(v):\n    for j in range(3):\n        return v\n    return v",
        ),
        ("for j in unroll(range(3)):\n    if i > j:\n        break", ""),
    ],
)
def test_what_the_page_says_is_left_out(body: str, before: str) -> None:
    with pytest.raises(KernelError):
        launch(build(body, before))
