"""Axis, shape and permutation arguments, checked the same way everywhere."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from poot.dtypes import ADDRESSABLE, bool_, too_many
from poot.errors import ArgumentError, ArgumentTypeError
from poot.trace.array import Axis, is_array, python_number
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
    """A shape from an int or a sequence of ints; ArgumentError for a negative extent, or for more than memory has."""
    shape = static_ints(value, what)
    if any(extent < 0 for extent in shape):
        raise ArgumentError(what=what, actual=shape, expected="non-negative extents", where=user_location())
    if too_many(shape):
        raise ArgumentError(what=what, actual=shape, expected=ADDRESSABLE, where=user_location())
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
            what=f"{what}: axes", actual=axes, expected=f"each of {rank} axes once", where=user_location()
        )
    return found


def size_argument(value: Any, what: str) -> int:
    """A static int of at least 0."""
    found = static_int(value, what)
    if found < 0:
        raise ArgumentError(what=what, actual=found, expected="0 or more", where=user_location())
    return found


def flag(value: Any, what: str) -> bool:
    """A static bool: a bool or an int, or a 0-d array whose value is known."""
    if value is True or value is False:
        return value
    if isinstance(value, (int, np.bool_, np.integer)) or (is_array(value) and value.shape == ()):
        return bool(cast("Any", value))
    raise ArgumentTypeError(what=what, actual=shown(value), expected="True or False", where=user_location())


def choice(value: Any, what: str, *options: str) -> str:
    """One of a few words; ArgumentError that lists them."""
    if isinstance(value, str) and value in options:
        return value
    *first, last = (f'"{option}"' for option in options)
    raise ArgumentError(
        what=what, actual=shown(value) if is_array(value) else value, expected=f"{', '.join(first)} or {last}",
        where=user_location(),
    )  # fmt: skip


def number(value: Any, what: str) -> int | float:
    """A static number from Python, NumPy or a 0-d array whose value is known; NaN is one, a bool is not."""
    if type(value) is float or type(value) is int:
        return value
    found = python_number(value)
    if is_array(found) and found.shape == () and found.dtype != bool_:
        found = found.item()
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return found
    raise ArgumentTypeError(what=what, actual=shown(value), expected="a number", where=user_location())


def scalar(value: Any, what: str) -> Any:
    """A number, or a 0-d array, which may be traced."""
    if isinstance(value, (int, float, np.number)) or (is_array(value) and value.shape == ()):
        return value  # pyright: ignore[reportUnknownVariableType]
    raise ArgumentTypeError(what=what, actual=shown(value), expected="a number", where=user_location())


def operands(value: Any, what: str) -> Sequence[Any]:
    """A list or tuple, or the elements of an array along its first axis."""
    if isinstance(value, (list, tuple)):
        return value  # pyright: ignore[reportUnknownVariableType]
    if is_array(value) and value.shape:
        return list(value)
    raise ArgumentTypeError(what=what, actual=shown(value), expected="a list or tuple", where=user_location())


def shown(value: object) -> str:
    """What a message calls an argument of a wrong kind."""
    if is_array(value):
        return f"an array {value.dtype}{list(value.shape)}"
    if value is None or isinstance(value, (str, bytes, int, float)):
        return f"{value!r:.60}"
    return type(value).__name__
