"""What `from poot import *` brings."""

from __future__ import annotations

import builtins
import importlib

import pytest

import poot
from poot import errors, ops


def test_every_public_name_is_there_and_hides_no_builtin() -> None:
    assert len(set(poot.__all__)) == len(poot.__all__)
    assert all(hasattr(poot, name) for name in poot.__all__)
    assert not set(poot.__all__) & set(dir(builtins))
    assert callable(poot.compile)


def test_completion_shows_the_public_names_alone() -> None:
    shown = {name for name in dir(poot) if not name.startswith("_")}
    assert shown == {*poot.__all__, "compile"} - {"__version__"}


@pytest.mark.parametrize("name", sorted(errors.TRANSFORMATIONS))
def test_transformations_that_are_missing_refuse_by_name(name: str) -> None:
    for thing in (poot, poot.trace(lambda x: x)):
        with pytest.raises(errors.FeatureError, match=f"poot has no `{name}` yet"):
            getattr(thing, name)


@pytest.mark.parametrize(("name", "remedy"), [("array", "poot.asarray"), ("jit", "poot.trace"), ("zeros", "ops.zeros")])
def test_names_of_other_libraries_say_where_they_are(name: str, remedy: str) -> None:
    with pytest.raises(errors.FeatureError, match=f"write `{remedy}`") as caught:
        getattr(poot, name)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
    assert not hasattr(poot, name)


def test_every_operation_is_known_and_nothing_else() -> None:
    for name in set(ops.__all__) - set(poot.__all__):
        with pytest.raises(AttributeError, match=f"`ops.{name}`|no attribute '__"):
            getattr(poot, name)
    with pytest.raises(AttributeError, match="module 'poot' has no attribute 'nothing_like_it'"):
        poot.nothing_like_it  # type: ignore[attr-defined]
    assert importlib.import_module("poot.backends") is poot.backends  # type: ignore[attr-defined]
