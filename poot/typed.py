"""Exact checks of values against the annotations of dataclass fields, for data that comes from outside.

check = checker(tuple[int, ...])
check((1, 2))       # True
check((1, True))    # False: a bool is no int here, nor an int a float
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from poot.dtypes import DType

Check = Callable[[object], bool]


@cache
def checker(annotation: Any) -> Check:
    """Whether a value has exactly an annotated type: scalars, tuples, literals, unions, dtypes and dataclasses."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return _tuple(arguments)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if annotation is DType:
        return lambda value: isinstance(value, DType)
    if annotation in (bool, int, float, str, type(None)) or is_dataclass(annotation):
        return lambda value: type(value) is annotation
    raise TypeError(f"no check for {annotation!r}")


def _tuple(arguments: tuple[Any, ...]) -> Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        every = checker(arguments[0])
        return lambda value: type(value) is tuple and all(map(every, cast("tuple[object, ...]", value)))
    checks = tuple(map(checker, arguments))

    def check(value: object) -> bool:
        if type(value) is not tuple:
            return False
        items = cast("tuple[object, ...]", value)
        return len(items) == len(checks) and all(each(item) for each, item in zip(checks, items, strict=True))

    return check


def _literal(arguments: tuple[Any, ...]) -> Check:
    return lambda value: any(type(value) is type(known) and value == known for known in arguments)


def _union(arguments: tuple[Any, ...]) -> Check:
    plain = frozenset(each for each in arguments if isinstance(each, type) and get_origin(each) is None)
    others = tuple(checker(each) for each in arguments if each not in plain)
    return lambda value: type(value) in plain or any(check(value) for check in others)


@cache
def field_checks(kind: type) -> Mapping[str, Check]:
    """The checks of a dataclass's fields by name, those of source locations left out."""
    hints = get_type_hints(kind)
    return {item.name: checker(hints[item.name]) for item in fields(cast("Any", kind)) if item.name != "where"}
