"""Every kind of captured state is followed, or listed by `explain`: a call means what the plain function would do."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import poot
from tests.unit.captured_kinds import FOLLOWED, FROZEN

X = np.arange(1, 4, dtype=np.float32)


@pytest.fixture(autouse=True)
def captured_module() -> Iterator[types.ModuleType]:
    """A module of the user's, and one inside it, that functions import while they run."""
    outer, inner = types.ModuleType("captured_module"), types.ModuleType("captured_module.inner")
    outer.__dict__.update(k=2.0, inner=inner)
    inner.__dict__["k"] = 2.0
    sys.modules.update({outer.__name__: outer, inner.__name__: inner})
    yield outer
    del sys.modules[outer.__name__], sys.modules[inner.__name__]


def program(text: str, module: types.ModuleType) -> dict[str, Any]:
    space: dict[str, Any] = module.__dict__
    space.update(np=np, captured_module=module)
    exec(text, space)
    return space


def agree(traced: Any, plain: Any) -> None:
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(traced(X)), np.asarray(plain(X)), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")  # all kinds trace from one line
@pytest.mark.parametrize("kind", FOLLOWED)
def test_a_change_is_seen(kind: str, captured_module: types.ModuleType) -> None:
    space = program(FOLLOWED[kind], captured_module)
    plain, traced = space["f"], poot.trace(space["f"])
    agree(traced, plain)
    before = plain(X)
    space["change"]()
    assert not np.array_equal(before, plain(X))
    agree(traced, plain)
    outer = poot.trace(lambda x: traced(x) * 1)
    agree(outer, plain)


@pytest.mark.parametrize("kind", FROZEN)
def test_what_is_frozen_is_listed(kind: str, captured_module: types.ModuleType) -> None:
    text, listed = FROZEN[kind]
    space = program(text, captured_module)
    traced = poot.trace(space["f"])
    agree(traced, space["f"])
    assert listed in traced.explain(X).frozen
    assert f"frozen: {listed}" in str(traced.explain(X))


@pytest.mark.parametrize("kind", FOLLOWED)
def test_what_is_followed_is_not_listed_as_code_without_a_name(kind: str, captured_module: types.ModuleType) -> None:
    traced = poot.trace(program(FOLLOWED[kind], captured_module)["f"])
    assert not [what for what in traced.explain(X).frozen if "no name leads to it" in what]
