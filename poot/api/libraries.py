"""Whose an object is: the user's, whose code is followed, or a library's; and how to look at it without running it."""

from __future__ import annotations

import builtins
import functools
import sys
import sysconfig
import types
from typing import Any

from poot.probe import attributes

_LIBRARY_FOLDERS = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)
_PACKAGE = __name__.partition(".")[0]


@functools.lru_cache(maxsize=1024)
def is_library_file(file: str) -> bool:
    """Whether a file is the standard library's or an installed package's."""
    return file.startswith(_LIBRARY_FOLDERS) or file.startswith("<frozen")


def is_poot(module: object) -> bool:
    """Whether a module's name is poot's or below it."""
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE


def is_library(function: types.FunctionType) -> bool:
    """Whether a function is poot's own, the standard library's, or an installed package's."""
    return is_library_code(function.__code__, function.__module__)


def is_library_code(code: types.CodeType, module: object) -> bool:
    """The same of code that runs in a module of this name, among them what the standard library makes of text."""
    made = isinstance(module, str) and module.startswith("namedtuple_")
    return made or is_poot(module) or is_library_file(code.co_filename)


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
    if name == "builtins":  # which a class also gets whose code runs in a namespace without `__name__`
        return vars(builtins).get(kind.__name__) is kind or type(vars(kind).get("__module__")) is not str
    module: Any = sys.modules.get(name) if type(name) is str else None
    return isinstance(module, types.ModuleType) and name != "__main__" and is_library_module(module)


def unwrap(value: object) -> object:
    """The user's function below a traced one or a kernel; anything else as it is, as are methods of instances."""
    if issubclass(type(value), (type, types.FunctionType)):  # `isinstance` would ask a proxy for its class
        return value
    space = attributes(value)
    return value if space.get("_owner") is not None else space.get("__poot_function__", value)


def is_bound(value: object) -> bool:
    """Whether a value is a traced method of an instance."""
    space = attributes(value)
    return "__poot_function__" in space and space.get("_owner") is not None
