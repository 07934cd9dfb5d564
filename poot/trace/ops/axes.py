"""Axis, shape and permutation arguments, checked the same way everywhere."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from poot.errors import ArgumentError, ArgumentTypeError
from poot.trace.array import Axis
from poot.trace.source import user_location


def static_int(value: Any, what: str) -> int:
    """A Python int from any integer; ConcretizationError for a tracer, ArgumentTypeError for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise ArgumentTypeError(what=what, actual="bool", expected="an int", where=user_location())
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError) or type(error) is not TypeError:
            raise
        raise ArgumentTypeError(
            what=what, actual=type(value).__name__, expected="an int", where=user_location()
        ) from None


def static_ints(value: Any, what: str) -> tuple[int, ...]:
    """A tuple of Python ints from an int or a sequence of them."""
    if isinstance(value, (tuple, list)):
        return tuple(static_int(item, what) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return (static_int(value, what),)


def shape_argument(value: Any, what: str = "shape") -> tuple[int, ...]:
    """A shape from an int or a sequence of ints; ArgumentError for a negative extent."""
    shape = static_ints(value, what)
    if any(extent < 0 for extent in shape):
        raise ArgumentError(what=what, actual=shape, expected="non-negative extents", where=user_location())
    return shape


def one_axis(axis: Any, rank: int, what: str) -> int:
    """An axis counted from 0; ArgumentError where it is outside [-rank, rank)."""
    found = static_int(axis, f"{what}: axis")
    if not -rank <= found < rank:
        expected = f"an axis from {-rank} to {rank - 1}" if rank else "no axis, since the array is 0-d"
        raise ArgumentError(what=f"{what}: axis", actual=found, expected=expected, where=user_location())
    return found % rank


def many_axes(axis: Any, rank: int, what: str) -> tuple[int, ...]:
    """Distinct axes counted from 0, in the order given; every axis for None."""
    if axis is None:
        return tuple(range(rank))
    found = tuple(one_axis(item, rank, what) for item in static_ints(axis, f"{what}: axis"))
    if len(set(found)) != len(found):
        raise ArgumentError(what=f"{what}: axis", actual=axis, expected="distinct axes", where=user_location())
    return found


def sorted_axes(axis: Axis, rank: int, what: str) -> tuple[int, ...]:
    """Distinct axes in ascending order."""
    return tuple(sorted(many_axes(axis, rank, what)))


def permutation(axes: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """A permutation of range(rank)."""
    found = many_axes(axes, rank, what)
    if len(found) != rank:
        raise ArgumentError(
            what=f"{what}: axes", actual=tuple(axes), expected=f"each of {rank} axes once", where=user_location()
        )
    return found
