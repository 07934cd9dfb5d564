"""The lanes of one chunk of a launch, and masks over them.

Every launch number lives on an array axis of its own: threads, or groups and the threads in them, from z to x; axes of
one element are dropped.  A value is a NumPy array that broadcasts over these axes, so that what is the same for a row,
a group or all lanes is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

#: True: all lanes; False: none; else a bool array that broadcasts over the lanes.
Mask: TypeAlias = "bool | Array"


@dataclass(frozen=True, slots=True)
class Space:
    """The array axes of one chunk: a name, the first number and the count of each; `dims` finds an axis by its name."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    shape: tuple[int, ...]
    fixed: dict[str, int]

    @staticmethod
    def of(axes: dict[str, tuple[int, int]]) -> Space:
        """From name -> (start, count), outermost first."""
        kept = {name: axis for name, axis in axes.items() if axis[1] != 1}
        return Space(
            tuple(kept),
            tuple(start for start, _ in kept.values()),
            tuple(count for _, count in kept.values()),
            {name: start for name, (start, count) in axes.items() if count == 1},
        )

    @property
    def lanes(self) -> int:
        return math.prod(self.shape)

    def steps(self, name: str, step: int = 1) -> tuple[int, tuple[int, ...]]:
        """First number and step on every axis of the launch number `name`, times `step`."""
        if name in self.fixed:
            return self.fixed[name] * step, (0,) * len(self.shape)
        dim = self.names.index(name)
        return self.starts[dim] * step, tuple(step if d == dim else 0 for d in range(len(self.shape)))

    def linear(self, names: tuple[str, ...], scale: int) -> tuple[int, ...]:
        """Steps of the row-major number of a lane over the named axes, counted from 0, times `scale`."""
        steps = [0] * len(self.shape)
        for dim in reversed(range(len(self.shape))):
            if self.names[dim] in names:
                steps[dim] = scale
                scale *= self.shape[dim]
        return tuple(steps)

    def ramp(self, offset: int, steps: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """`offset` plus the steps, as an array that has one element on the axes without a step."""
        result: Array = np.full((1,) * len(steps), offset, np.int64)
        for dim, step in enumerate(steps):
            if step:
                part: Array = np.arange(self.shape[dim], dtype=np.int64) * step
                result = result + part.reshape((-1,) + (1,) * (len(steps) - dim - 1))
        return result.astype(dtype)


# --- masks ----------------------------------------------------------------------------------------------------------


def truth(array: Array) -> Mask:
    """A condition as a mask."""
    if array.ndim == 0 or array.size == 1:
        return bool(array.item())
    if array.all():
        return True
    return array if array.any() else False


def both(a: Mask, b: Mask) -> Mask:
    """Lanes of both masks."""
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    return _reduced(np.logical_and(a, b))


def either(a: Mask, b: Mask) -> Mask:
    """Lanes of one mask or the other."""
    if a is True or b is True:
        return True
    if a is False or b is False:
        return b if a is False else a
    joined = np.logical_or(a, b)
    return True if joined.all() else joined


def without(a: Mask, b: Mask) -> Mask:
    """Lanes of the first mask that are not of the second."""
    if a is False or b is True:
        return False
    if b is False:
        return a
    rest = np.logical_not(b)
    return _reduced(rest if a is True else np.logical_and(a, rest))


def _reduced(mask: Array) -> Mask:
    return mask if mask.any() else False
