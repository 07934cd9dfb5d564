"""Every function of the array API standard that `ops` has, against array-api-strict on random inputs.

A case is a function of a namespace and of arrays made by `make`, called once with array-api-strict and once with poot;
results agree in shape, in value, and in dtype but for the departures that docs/array-api.md lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import FeatureError
from poot.trace.ops.namespace import API_VERSION, REFUSED, REFUSED_LINALG
from tests.array_api_cases import CASES, LINALG_2024, NAMES_2024, OTHERWISE, Case
from tests.closeness import COMPOSED

PAGE = (Path(__file__).parents[2] / "docs" / "array-api.md").read_text("utf-8")
DTYPES = {
    "bool": ["bool"],
    "int": ["int8", "int16", "int32", "int64"],
    "uint": ["uint8", "uint16", "uint32", "uint64"],
    "float": ["float32", "float64"],
}
SHAPES = [(), (1,), (5,), (2, 3), (3, 1, 4), (0, 3)]


@pytest.fixture(autouse=True)
def _standard() -> Iterator[None]:
    """The version of the standard that `ops` follows."""
    strict.set_array_api_strict_flags(api_version=API_VERSION)
    yield
    strict.reset_array_api_strict_flags()


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], case: Case) -> np.ndarray:
    """Random elements in the range of the case; a few specials among floats where it takes them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    low, high = case.low, case.high
    if kind in "iu":
        limits = np.iinfo(dtype)
        first = max(int(np.ceil(low)), int(limits.min), 0 if kind == "u" else -(1 << 31))
        found = rng.integers(first, max(min(int(high), int(limits.max)), first) + 1, shape)
        return np.asarray(found, dtype)
    found = np.asarray(rng.uniform(low, high, shape), dtype)
    if case.specials and found.size > 3:
        found = found.copy()
        found.reshape(-1)[:3] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0], 3)
    return found


def flatten(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flatten(part)]
    return [result]


def agrees(expected: Any, found: Any, case: Case, what: str) -> None:
    """Equal shapes and values, and dtypes but for the listed departures."""
    right, ours = np.asarray(expected), np.asarray(found)
    assert ours.shape == right.shape, what
    wanted = right.dtype
    if ours.dtype != wanted:
        departs = case.departs and (wanted.name, ours.dtype.name) in DEPARTURES
        assert departs, f"{what}: {ours.dtype} for {wanted}"
    if right.dtype.kind in "biu":
        np.testing.assert_array_equal(ours, right.astype(ours.dtype), what)
    else:
        bound = COMPOSED[ours.dtype.name]
        with np.errstate(all="ignore"):
            right = right.astype(ours.dtype)
        np.testing.assert_allclose(ours, right, rtol=bound * case.slack, atol=bound * case.slack, err_msg=what)


DEPARTURES = {("int64", "int32"), ("uint64", "uint32"), ("float64", "float32")}
"""The standard's default dtypes, which here are of 32 bits."""


@pytest.mark.fuzz
@pytest.mark.parametrize("name", sorted(CASES))
def test_function(name: str, cases: Callable[[int, int], int]) -> None:
    case = CASES[name]
    rng = np.random.default_rng(seed_of(name))
    tried = 0
    for kind in case.kinds:
        for place, shape in enumerate(case.shapes or SHAPES):
            # Each shape takes another dtype of the kind; with --full, all of them.
            dtypes, first = DTYPES[kind], place + seed_of(name)
            for dtype in [dtypes[(first + turn) % len(dtypes)] for turn in range(cases(1, len(dtypes)))]:
                arrays = [values(rng, dtype, one, case) for one in case.operands(shape)]
                if case.prepare is not None:
                    arrays = case.prepare(rng, arrays)
                with np.errstate(all="ignore"):
                    theirs = [strict.asarray(x) for x in arrays]
                    expected = flatten(case.call(strict, *theirs))
                ours = [poot.asarray(x, device="cpu") for x in arrays]
                found = flatten(case.call(ours[0].__array_namespace__() if ours else ops, *ours))
                assert len(found) == len(expected)
                for one, other in zip(expected, found, strict=True):
                    agrees(one, other, case, f"{name} of {dtype}{list(shape)}")
                tried += 1
    assert tried


@pytest.mark.parametrize("name", sorted(CASES))
def test_function_traced(name: str) -> None:
    """The same inside a traced function, by the oracle: float32 or the kind's first dtype, on one shape."""
    case = CASES[name]
    rng = np.random.default_rng(seed_of(name))
    dtype = "float32" if "float" in case.kinds else DTYPES[case.kinds[0]][-1]
    shape = (case.shapes or [(2, 3)])[-1]
    arrays = [values(rng, dtype, one, case) for one in case.operands(shape)]
    if case.prepare is not None:
        arrays = case.prepare(rng, arrays)
    with np.errstate(all="ignore"):
        expected = flatten(case.call(strict, *map(strict.asarray, arrays)))
    traced = poot.trace(lambda *xs: flatten(case.call(xs[0].__array_namespace__(), *xs)), device="cpu")
    found = traced.evaluate(*arrays)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        agrees(one, other, case, f"{name} of {dtype}{list(shape)}, traced")


def seed_of(name: str) -> int:
    """A seed that does not change between runs."""
    return sum(ord(letter) * 31**place for place, letter in enumerate(name)) % (1 << 32)


def public(name: str) -> Callable[..., Any] | None:
    module, _, short = name.rpartition(".")
    space: Any = ops.linalg if module else ops
    return getattr(space, short) if short in space.__all__ else None


def test_every_function_that_is_there_has_a_case() -> None:
    listed = {*NAMES_2024, *(f"linalg.{name}" for name in LINALG_2024)}
    assert {name for name in NAMES_2024 if name != "__array_namespace_info__"} <= set(strict.__all__)
    assert set(LINALG_2024) == set(strict.linalg.__all__)
    present = {name for name in listed if public(name) is not None}
    assert present - OTHERWISE == {name.partition(":")[0] for name in CASES}
    assert len(present) >= 110


@pytest.mark.parametrize("name", [*NAMES_2024, *(f"linalg.{name}" for name in LINALG_2024)])
def test_what_is_missing_refuses_by_name(name: str) -> None:
    if public(name) is not None:
        return
    space, short = (ops.linalg, name.partition(".")[2]) if "." in name else (ops, name)
    assert short in (REFUSED_LINALG if "." in name else REFUSED)
    with pytest.raises(FeatureError, match=rf"ops\.{re.escape(name)}\b") as caught:
        getattr(space, short)
    assert "Remedy" in str(caught.value)


def test_the_page_lists_what_there_is() -> None:
    def listed(title: str) -> set[str]:
        section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
        return set(re.findall(r"`([\w.]+)`", section))

    names = {*NAMES_2024, *(f"linalg.{name}" for name in LINALG_2024)}
    present = {name for name in names if public(name) is not None}
    assert listed("Functions that are present") == present
    assert listed("Names that refuse") == names - present | {"complex64", "complex128", "fft"}
    assert f"{len(present)} functions" in PAGE
