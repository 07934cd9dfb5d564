"""Context variables that are set for a block, also where a Ctrl-C comes at its first or its last moment."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Scope(Generic[T]):
    """`with Scope(variable, value):`, once.

    The generator of a `contextmanager` would be left between setting the variable and its `try`; and one that a
    traceback keeps would be closed later, which sets the variable to what has long gone.
    """

    __slots__ = ("_before", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> T:
        self._before = self._variable.get()
        try:
            self._variable.set(self._value)
            return self._value
        except BaseException:
            self._variable.set(self._before)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._variable.set(self._before)
