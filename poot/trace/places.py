"""Where arrays live, as the array API asks: the name of an array's device, and the way to another.

The layer above knows the devices and registers itself (`register_places`); a value of a trace lives on none yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from poot.errors import ArgumentError, BuilderError, DeviceError
from poot.trace.source import user_location

if TYPE_CHECKING:
    from poot.trace.array import Array

TRACED: Final = "traced"
"""What a value of a trace names as its device: it will live where its function runs."""


class Places(Protocol):
    """What the layer above knows of devices. They are given by name, or as what `poot.device` gives."""

    def default(self) -> str:
        """The name of the device where new arrays go."""
        ...

    def names(self) -> list[str]:
        """The names of the devices that open."""
        ...

    def scope(self, device: Any) -> AbstractContextManager[object]:
        """Make `device` the default of a block; DeviceError inside a traced function."""
        ...

    def home(self, array: Array) -> AbstractContextManager[object] | None:
        """A block whose default device is the one where a concrete array lives; None if that is the default already."""
        ...

    def check(self, arrays: Sequence[object], names: Sequence[str]) -> None:
        """DeviceMismatchError where the concrete ones among arrays live on several devices.

        It says what each is by `names` in the same order, the last of which stands for all others.
        """
        ...

    def move(self, array: Array, device: Any) -> Array:
        """The concrete array on `device`; itself if it is there."""
        ...

    def share(self, value: Any, device: Any, copy: bool | None) -> Array:
        """An array of another library's elements: shared for copy=False, ArgumentError where they cannot be."""
        ...


_places: Places | None = None


def register_places(found: Places) -> None:
    """Set what knows the devices."""
    global _places
    _places = found


def places() -> Places:
    """What knows the devices; BuilderError where nothing does."""
    if _places is None:
        raise BuilderError(message="no devices are known", where=user_location(), remedy="import poot.")
    return _places


def together(names: Sequence[str], *operands: object) -> None:
    """DeviceMismatchError for concrete arrays on several devices, also where an operation reads some on the host.

    `names` say what the operands are, the last one of all others.
    """
    if len([True for operand in operands if isinstance(operand, Placed)]) > 1 and _places is not None:
        _places.check(operands, names)


def at_home(array: Array) -> AbstractContextManager[object] | None:
    """A block whose new arrays go where a concrete array lives; None where they go there anyway."""
    return None if _places is None else _places.home(array)


class Placed:
    """The part of an array that speaks of devices."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """The name of the device where the array lives; "traced" for a value of a trace, which lives on none yet."""
        return TRACED

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on a device, itself if it is there; DeviceError for a value of a trace and another device."""
        no_stream(stream)
        if device != TRACED:
            raise DeviceError(
                device=device,
                message="values cannot move between devices inside a traced function",
                where=user_location(),
                remedy="move the arguments of its call, or its results.",
            )
        return self


def no_stream(stream: Any) -> None:
    """ArgumentError unless `stream` is None: work on a device is ordered by itself."""
    if stream is not None:
        raise ArgumentError(what="stream", actual=stream, expected="None", where=user_location())
