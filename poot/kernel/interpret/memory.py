"""Buffers, shared and private arrays: loads, stores and atomics of all lanes at once.

Every array is flat storage with extents and element strides; that of a shared or private array also steps with the
group or lane.  An access whose indices step evenly is a strided view of the storage; any other gathers or scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from poot.errors import KernelFault, SourceLocation
from poot.kernel.interpret.affine import Affine, Value, as_array
from poot.kernel.interpret.space import Array, Mask, Space, both, truth, without

if TYPE_CHECKING:
    from poot.kernel.interpret.frame import Frame


class Strided(NamedTuple):
    """Elements that step evenly along the axes, inside the array for every lane."""

    offset: int
    steps: tuple[int, ...]


class Scattered(NamedTuple):
    """The element of every lane, and the lanes that may touch theirs; the others name element 0."""

    flat: Array
    allowed: Mask


_UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or atomic of the kernel; `site` is its number in fault records, None where unchecked.

    `given` evaluates the indices that were wider than the index dtype.
    """

    buffer: str
    site: int | None
    where: SourceLocation | None
    given: tuple[Callable[[Frame], Value] | None, ...]


class Memory:
    """One array over the lanes of a space; `offset` and `steps` say where the first element of each lane's array is."""

    def __init__(
        self,
        storage: Array,
        extents: tuple[int, ...],
        strides: tuple[int, ...],
        space: Space,
        offset: int = 0,
        steps: tuple[int, ...] | None = None,
    ) -> None:
        self.storage = storage
        self.extents = extents
        self.strides = strides
        self.space = space
        self.offset = offset
        self.steps: tuple[int, ...] = (0,) * len(space.shape) if steps is None else steps
        self.spread = any(self.steps)
        self.raw = storage.view(np.uint8)
        self.dtype = storage.dtype
        self.zero = storage.dtype.type(0)

    # --- where an access goes ---

    def locate(self, frame: Frame, indices: Sequence[Value], access: Access) -> Strided | Scattered:
        """The elements that the lanes name."""
        offset = self.offset
        steps: tuple[int, ...] | None = self.steps if self.spread else None
        for index, extent, stride in zip(indices, self.extents, self.strides, strict=True):
            if isinstance(index, Affine):
                if index.low < 0 or index.high >= extent:
                    return self.elements(frame, indices, access)
                offset += index.offset * stride
                part = index.steps if stride == 1 else tuple([step * stride for step in index.steps])
                steps = part if steps is None else tuple([a + b for a, b in zip(steps, part, strict=True)])
            else:
                if index.ndim or not 0 <= (number := int(index)) < extent:
                    return self.elements(frame, indices, access)
                offset += number * stride
        return Strided(offset, self.steps if steps is None else steps)

    def elements(self, frame: Frame, indices: Sequence[Value], access: Access) -> Scattered:
        """The elements of indices of any form, after the bounds check."""
        arrays = [as_array(index) for index in indices]
        allowed = frame.mask if access.site is None else self.check(frame, arrays, access)
        flat: Array = self.space.ramp(self.offset, self.steps, np.dtype(np.int64))
        for array, stride in zip(arrays, self.strides, strict=True):
            flat = flat + array.astype(np.int64) * np.int64(stride)
        if allowed is not True:
            flat = np.where(allowed, flat, np.int64(0))
        if allowed is not False and (flat.min() < 0 or flat.max() >= self.storage.size):
            raise KernelFault(
                kernel=frame.faults.kernel.name,
                message=f"an unchecked access of `{access.buffer}` is outside its memory",
                where=access.where,
                remedy="guard the access, or leave it checked.",
            )
        return Scattered(flat, allowed)

    def check(self, frame: Frame, arrays: Sequence[Array], access: Access) -> Mask:
        """The active lanes inside every extent; the first of the others is the fault."""
        outside = [
            array.view(_UNSIGNED[array.dtype.itemsize]) >= _UNSIGNED[array.dtype.itemsize].type(extent)
            for array, extent in zip(arrays, self.extents, strict=True)
        ]
        anywhere = outside[0]
        for axis in outside[1:]:
            anywhere = np.logical_or(anywhere, axis)
        bad = both(frame.mask, truth(anywhere))
        if bad is False:
            return frame.mask
        lane = int(np.broadcast_to(bad, self.space.shape).argmax())
        at = [bool(np.broadcast_to(axis, self.space.shape).flat[lane]) for axis in outside].index(True)
        wide = access.given[at]
        named = arrays[at] if wide is None else as_array(wide(frame))
        index = int(np.broadcast_to(named, self.space.shape).flat[lane])
        assert access.site is not None
        frame.faults.claim(access.site, at, index, self.extents[at])
        return without(frame.mask, bad)

    def view(self, place: Strided) -> Array:
        """The elements, as an array over the axes with one element where nothing steps."""
        offset, steps = place
        size = self.dtype.itemsize
        shape = tuple([count if step else 1 for step, count in zip(steps, self.space.shape, strict=True)])
        return np.ndarray(shape, self.dtype, self.raw, offset * size, tuple([step * size for step in steps]))

    # --- loads ---

    def load(self, frame: Frame, indices: Sequence[Value], access: Access) -> Array:
        """The elements at the indices; 0 where the check fails."""
        place = self.locate(frame, indices, access)
        if isinstance(place, Strided):
            return self.view(place).copy() if any(place.steps) else self.storage[place.offset]
        if place.allowed is False:
            return self.zero
        loaded = self.storage.take(place.flat, mode="clip")
        return loaded if place.allowed is frame.mask else np.where(place.allowed, loaded, self.zero)

    # --- stores ---

    def store(self, frame: Frame, indices: Sequence[Value], value: Value, access: Access) -> None:
        """Write the lanes' values; of lanes that name one element the last wins."""
        place = self.locate(frame, indices, access)
        array = as_array(value)
        if isinstance(place, Scattered):
            self.scatter(place.flat, array, place.allowed)
            return
        mask = frame.mask
        if mask is True and array.ndim:
            array = _last(array, place.steps)
        if not _injective(place.steps, self.space.shape) or (mask is not True and 0 in place.steps):
            self.scatter(self.flat(place), array, mask)
        elif mask is True:
            self.view(place)[...] = array
        else:
            np.copyto(self.view(place), array, where=mask)

    def flat(self, place: Strided) -> Array:
        return self.space.ramp(place.offset, place.steps, np.dtype(np.int64))

    def scatter(self, flat: Array, value: Array, allowed: Mask) -> None:
        if allowed is False:
            return
        if allowed is True:
            shape = np.broadcast_shapes(flat.shape, value.shape)
            self.storage[np.broadcast_to(flat, shape)] = value
            return
        where, values, chosen = np.broadcast_arrays(flat, value, allowed)
        self.storage[where[chosen]] = values[chosen]

    # --- atomics ---

    def atomic(
        self,
        frame: Frame,
        indices: Sequence[Value],
        values: Sequence[Value],
        update: Update,
        access: Access,
    ) -> Array:
        """Apply `update` once a lane, in the order of lanes; returns what each found."""
        place = self.locate(frame, indices, access)
        flat, allowed = (self.flat(place), frame.mask) if isinstance(place, Strided) else place
        shape = self.space.shape
        old = np.zeros(shape, self.dtype)
        if allowed is False:
            return old
        chosen = np.broadcast_to(np.asarray(allowed), shape).ravel()
        flat = np.broadcast_to(flat, shape).ravel()[chosen]
        operands = [np.broadcast_to(as_array(value), shape).ravel()[chosen] for value in values]
        old.reshape(-1)[chosen] = update(self.storage, flat, *operands)
        return old


#: Changes the elements `flat` of the storage one after another, given the operands of each; returns the old values.
Update = Callable[..., Array]


def _last(array: Array, steps: Sequence[int]) -> Array:
    """The values of the last lanes along axes without a step, on which all lanes name one element."""
    for dim, step in enumerate(steps):
        if not step and array.shape[dim] > 1:
            array = array.take([-1], axis=dim)
    return array


def _injective(steps: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether no two lanes along the stepping axes name one element."""
    reach = 0
    for step, count in sorted((abs(step), count) for step, count in zip(steps, shape, strict=True) if step):
        if step <= reach:
            return False
        reach += step * (count - 1)
    return True
