"""What the makers of random graphs know of floats: bounds on multiples of a power of two."""

from __future__ import annotations


def grid_of(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int, int]:
    """Two (most, grain) on the finer of the two grains."""
    grain = max(a[1], b[1])
    return a[0] << (grain - a[1]), b[0] << (grain - b[1]), grain
