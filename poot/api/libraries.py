"""Whose an object is: the user's, whose code is followed, or a library's; and how to look at it without running it."""

from __future__ import annotations

import functools
import sys
import sysconfig
import types
from typing import Any, cast

_LIBRARY_FOLDERS = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)
_PACKAGE = __name__.partition(".")[0]
_NOTHING: dict[str, Any] = {}


@functools.lru_cache(maxsize=1024)
def is_library_file(file: str) -> bool:
    """Whether a file is the standard library's or an installed package's."""
    return file.startswith(_LIBRARY_FOLDERS) or file.startswith("<frozen")


def is_poot(module: object) -> bool:
    """Whether a module's name is poot's or below it."""
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE


def is_library(function: types.FunctionType) -> bool:
    """Whether a function is poot's own, the standard library's, or an installed package's."""
    return is_poot(function.__module__) or is_library_file(function.__code__.co_filename)


def is_library_module(module: types.ModuleType) -> bool:
    """The same of a module."""
    space = module.__dict__  # and not its attributes, which a lazy module computes
    name, file = space.get("__name__"), space.get("__file__")
    if not isinstance(file, str):
        return isinstance(name, str) and name.partition(".")[0] in sys.stdlib_module_names
    return is_poot(name) or is_library_file(file)


def is_library_type(kind: type) -> bool:
    """The same of a class."""
    name: Any = kind.__module__
    if name == "builtins":
        return True
    module: Any = sys.modules.get(name) if type(name) is str else None
    return isinstance(module, types.ModuleType) and name != "__main__" and is_library_module(module)


def attributes(value: object) -> dict[str, Any]:
    """The instance's own attributes, without running any code of its class; nothing where there are none."""
    try:
        space: object = object.__getattribute__(value, "__dict__")
    except Exception:  # a class may define `__dict__` as it likes
        return _NOTHING
    return cast("dict[str, Any]", space) if isinstance(space, dict) else _NOTHING


def has(value: object, name: str) -> bool:
    """Whether an object follows a protocol: its class defines the name, or the object itself holds it.

    A `__getattr__` that answers to every name, or raises whatever it likes, is not asked.
    """
    try:
        return hasattr(type(value), name) or name in attributes(value)
    except Exception:  # nor is that of a metaclass trusted
        return False


def unwrap(value: object) -> object:
    """The user's function below a traced one or a kernel; anything else as it is."""
    if issubclass(type(value), (type, types.FunctionType)):  # `isinstance` would ask a proxy for its class
        return value
    return attributes(value).get("__poot_function__", value)
