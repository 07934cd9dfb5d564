"""Environment variables: which there are, and numbers and switches read and checked in one way."""

from __future__ import annotations

import os
from typing import Final

from poot.errors import ArgumentError

#: All that poot reads; docs/devices.md says what each means.
KNOWN: Final = (
    "POOT_DEVICE",
    "POOT_OPENCL_DEVICE",
    "POOT_WGPU_ADAPTER",
    "POOT_NUM_THREADS",
    "POOT_CACHE_BYTES",
    "POOT_CACHE_DIR",
    "POOT_DISK_CACHE_BYTES",
    "POOT_EAGER",
    "POOT_PROGRESS",
)

#: More bytes than any machine has.
_MOST_BYTES: Final = (1 << 63) - 1
_OFF: Final = ("0", "false", "no", "off")
_ON: Final = ("1", "true", "yes", "on")


#: What has chosen among devices: these variables are read once.
_settled: dict[str, str] = {}


def selector(variable: str) -> str:
    """The part of a name that a variable chooses devices by, "" for all: as it was when that first found any."""
    return _settled.get(variable, os.environ.get(variable, ""))


def settle(variable: str, text: str) -> None:
    """The devices that a selector finds have their numbers from now on."""
    _settled.setdefault(variable, text)


def whole_number(variable: str, default: int | None, expected: str, low: int, high: int) -> int | None:
    """The number that a variable holds, the default where it is unset or empty; ArgumentError outside low to high."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    # Python refuses to read numbers of thousands of digits; leading zeros count for nothing.
    digits = text.lstrip("0")
    number = int(digits or "0") if text.isascii() and text.isdigit() and len(digits) <= 20 else -1
    if not low <= number <= high:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ArgumentError(
            what=variable, actual=shown, expected=expected, remedy=f"set {variable} to such a number, or unset it."
        )
    return number


def byte_count(variable: str, default: int | None) -> int | None:
    """The number of bytes that a variable holds, or the default."""
    return whole_number(variable, default, "a number of bytes, 0 or more", 0, _MOST_BYTES)


def switch(variable: str, default: bool) -> bool:
    """Whether a variable says 1 or 0, true or false, yes or no, on or off; ArgumentError for anything else."""
    text = os.environ.get(variable, "").strip().lower()
    if not text:
        return default
    if text not in _ON and text not in _OFF:
        raise ArgumentError(
            what=variable, actual=text, expected="1 or 0", remedy=f"set {variable} to 1 or 0, or unset it."
        )
    return text in _ON
