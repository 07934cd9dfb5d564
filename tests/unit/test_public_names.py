"""What `from poot import *` brings."""

from __future__ import annotations

import builtins

import poot


def test_every_public_name_is_there_and_hides_no_builtin() -> None:
    assert len(set(poot.__all__)) == len(poot.__all__)
    assert all(hasattr(poot, name) for name in poot.__all__)
    assert not set(poot.__all__) & set(dir(builtins))
    assert callable(poot.compile)


def test_completion_shows_the_public_names_alone() -> None:
    shown = {name for name in dir(poot) if not name.startswith("_")}
    assert shown == {*poot.__all__, "compile"} - {"__version__"}
