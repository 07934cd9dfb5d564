"""What counts as tracing anew from one line, and what is said of it."""

from __future__ import annotations

import pytest

from poot.api.cache import MissWatch, RetraceWarning


def test_misses_count_by_device() -> None:
    """One that takes the place of a lost device is another, and functions compile again for it."""

    class Device:
        pass

    watch, last = MissWatch(), Device()

    def missed(device: object, parts: dict[str, int]) -> None:
        watch.miss("f", 1, device, parts)

    for _ in range(20):
        missed(Device(), {})  # whose place in memory the next one takes
    for n in range(7):
        missed(last, {"x": n, "y": n})
    with pytest.warns(RetraceWarning, match="because 'x', 'y' keep changing"):
        missed(last, {"x": 8, "y": 8})
    with pytest.warns(RetraceWarning, match="because its captures keep changing"):
        for _ in range(8):
            missed(watch, {})
