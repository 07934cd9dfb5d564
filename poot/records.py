"""Frozen dataclasses that are made by the thousand.

    @record
    class Point:
        x: int
        y: int = 0

is `@dataclass(frozen=True, slots=True)`, with an `__init__` that takes half the time: it sets slots by their
descriptors, where that of `dataclass` looks each name up by `object.__setattr__`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, /, *, eq: bool = True) -> type[T] | Callable[[type[T]], type[T]]:
    """A frozen dataclass with slots; fields have plain defaults, or none."""

    def make(cls: type[T]) -> type[T]:
        return _with_init(dataclass(frozen=True, slots=True, eq=eq)(cls))

    return make if cls is None else make(cls)


def _with_init(cls: type[T]) -> type[T]:
    """The class with an `__init__` of the same signature."""
    made: Any = cls
    names: dict[str, Any] = {"__name__": cls.__module__}
    parameters: list[str] = []
    lines: list[str] = []
    for number, each in enumerate(fields(made)):
        if each.default_factory is not MISSING or not each.init or each.kw_only:
            raise TypeError(
                f"{cls.__qualname__}.{each.name}: a record has positional fields, with plain defaults or none"
            )
        names[f"set{number}"] = getattr(cls, each.name).__set__
        lines.append(f"    set{number}(self, {each.name})")
        if each.default is MISSING:
            parameters.append(each.name)
        else:
            names[f"default{number}"] = each.default
            parameters.append(f"{each.name}=default{number}")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec(f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines), names)
    init = names["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = made.__init__.__annotations__
    made.__init__ = init
    return cls
