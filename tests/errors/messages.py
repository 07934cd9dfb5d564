"""What tests of messages compare."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from poot.errors import PootError


def message(function: Callable[[], Any], error: type[PootError]) -> str:
    """The message without the lines that name the place, which must be the file of the function."""
    with pytest.raises(error) as caught:
        function()
    lines = str(caught.value).split("\n")
    places = [line for line in lines if line.startswith("  at ")]
    assert places, "no place in: " + str(caught.value)
    assert re.match(rf"  at {re.escape(function.__code__.co_filename)}:\d+:\d+ in ", places[0])
    return "\n".join(line for line in lines if not line.startswith(("  at ", "    ")))
