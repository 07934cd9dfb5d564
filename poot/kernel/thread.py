"""One thread of a launch that runs as plain Python, and how the language's functions find it.

The functions of `language.py` are words of the kernel language: the parser knows them by identity and never calls them.
They run only here, for the one thread that `kernel.interpret(…, thread=5)` steps through in the user's own function.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from poot.dtypes import DType
from poot.errors import KernelError

Triple = tuple[int, int, int]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """The numbers of one thread; `index` counts from 0 over the whole grid, x first."""

    kernel: str
    index: Triple
    workgroup: Triple
    groups: Triple

    def number(self, kind: str, axis: int) -> int:
        """A number of the launch on one axis."""
        size = self.workgroup[axis]
        match kind:
            case "thread":
                return self.index[axis]
            case "local":
                return self.index[axis] % size
            case "group":
                return self.index[axis] // size
            case "group_size":
                return size
            case _:
                return self.groups[axis]

    def alone(self, what: str) -> KernelError:
        """The error of a construct that needs the other threads."""
        return KernelError(
            message=f"kernel {self.kernel}: {what} needs the other threads of the work-group",
            remedy="leave thread= out: the interpreter then runs all threads together.",
        )


_CURRENT: ContextVar[Thread | None] = ContextVar("poot_thread", default=None)


@contextmanager
def running(thread: Thread) -> Generator[None]:
    """Let the language's functions speak of `thread` inside the block; NumPy's warnings are off, as integers wrap."""
    token = _CURRENT.set(thread)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _CURRENT.reset(token)


def current(what: str) -> Thread:
    """The thread being run; KernelError where a word of the language is used outside a kernel."""
    thread = _CURRENT.get()
    if thread is None:
        raise KernelError(
            message=f"{what} means something only inside a kernel",
            remedy="decorate the function with @poot.kernel and launch it.",
        )
    return thread


class Elements:
    """An array as one thread sees it: whole indices only, none negative, and each inside its axis."""

    __slots__ = ("_array", "_name")

    def __init__(self, name: str, array: Array) -> None:
        self._name = name
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        return self._array[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._place(index)] = value

    def _place(self, index: Any) -> tuple[int, ...]:
        place = tuple(int(i) for i in index) if isinstance(index, tuple) else (int(index),)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if len(place) != self._array.ndim:
            raise IndexError(f"`{self._name}` has rank {self._array.ndim}, indexed with {len(place)}")
        for axis, (number, extent) in enumerate(zip(place, self._array.shape, strict=True)):
            if not 0 <= number < extent:
                raise IndexError(
                    f"index {number} is out of range for axis {axis} of `{self._name}`, whose extent is {extent}"
                )
        return place


def zeros(dtype: DType, shape: int | tuple[int, ...]) -> Elements:
    """Shared or private memory of the one thread."""
    return Elements("array", np.zeros(shape, dtype.dtype))
