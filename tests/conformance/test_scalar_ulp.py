"""Scalar operations on every device against exact values: a part of what tools/check_ulp.py sweeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poot.backends.device import open_device
from poot.dtypes import f32
from poot.kernel.expand.bounds import bound
from tools.check_ulp import REFERENCES, sweep

SHOWN = ("exp", "log", "tanh", "erf", "sin", "cos")
"""Operations whose error is promised to be at most 2 ULP on cpu and interpret."""

STRIDE = 101
PART = 49_999  # 85,900 patterns


@pytest.mark.fuzz
@pytest.mark.parametrize("contract", [False, True], ids=["plain", "contracted"])
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_stay_within_the_bound(
    device_name: str, name: str, contract: bool, cases: Callable[[int, int], int]
) -> None:
    stride = cases(PART, STRIDE)
    worst = sweep(open_device(device_name), name, stride, count=1 << 17, contract=contract)
    assert worst.error <= bound(name, f32), worst


@pytest.mark.parametrize("name", SHOWN)
def test_promised_bounds(name: str) -> None:
    assert bound(name, f32) <= 2
