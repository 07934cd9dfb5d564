"""Plans in which every equation has kernels of its own: what fusion must not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from poot.plan import fuse


@contextmanager
def apart() -> Iterator[None]:
    """Let the planner put no two equations into one kernel; it still folds, removes, legalises and places storage."""
    join = fuse.Sweep._join

    def alone(self: Any, group: Any, number: int, equation: Any, *, output: bool = False) -> str:
        return "kept apart" if group.members else join(self, group, number, equation, output=output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse.Sweep, "_join", alone)
        patch.setattr(fuse.Sweep, "_beside", lambda *_: False)
        patch.setattr(fuse, "merge_groups", lambda _: None)
        patch.setattr(fuse.Streams, "take", lambda *_: None)
        yield
