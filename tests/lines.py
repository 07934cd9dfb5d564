"""How many lines of Python something runs: a measure of its work that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(work: Callable[[], object]) -> int:
    """The lines of Python that `work` runs, counted anew each time they are reached."""
    count = 0

    def local(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda *_: local)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
