"""Proof that a piece of poot is not in play: its functions raise while the test runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import FunctionType

import pytest


def refused(*args: object, **kwargs: object) -> object:
    raise AssertionError("a function of a refused module was called")


def refused_iterator(*args: object, **kwargs: object) -> Iterator[object]:
    raise AssertionError("a function of a refused module was called")
    yield


def _functions(module_name: str) -> Iterator[FunctionType]:
    module = sys.modules[module_name]
    owners = [module, *(c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module_name)]
    for owner in owners:
        for member in vars(owner).values():
            function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
            if inspect.isfunction(function) and function.__module__ == module_name and not function.__closure__:
                yield function


def _with_submodules(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    yield module_name
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module_name}."):
        importlib.import_module(found.name)
        yield found.name


def refuse(monkeypatch: pytest.MonkeyPatch, *module_names: str) -> int:
    """Make every function and method defined in the modules, and in their submodules, raise AssertionError.

    Their code is exchanged, so that references which other modules hold raise too; a generator function's raises as
    soon as it is iterated.

    Returns:
        How many functions now raise.
    """
    wanted = [found for name in module_names for found in _with_submodules(name)]
    functions = {id(function): function for name in wanted for function in _functions(name)}
    for function in functions.values():
        stand_in = refused_iterator if inspect.isgeneratorfunction(function) else refused
        monkeypatch.setattr(function, "__code__", stand_in.__code__)
    return len(functions)
