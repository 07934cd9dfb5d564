"""What `poot.trace` makes of callables that are no plain functions: partials, methods and traced functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, cast

from poot import forks
from poot.api.arguments import Signature
from poot.api.libraries import is_bound, unwrap
from poot.errors import ArgumentTypeError
from poot.probe import attributes


def plain_function(wrapped: object) -> tuple[FunctionType, object]:
    """The function below a callable, and the instance that it is bound to or None; ArgumentTypeError for others."""
    owner = getattr(wrapped, "__self__", None)
    inner = unwrap(wrapped.__func__ if isinstance(wrapped, MethodType) else wrapped)
    if is_bound(inner):
        inner = attributes(inner)["__poot_function__"]
    function = _of_partial(cast("functools.partial[Any]", inner)) if isinstance(inner, functools.partial) else inner
    if not isinstance(function, FunctionType):
        raise ArgumentTypeError(
            what="@poot.trace",
            actual=type(wrapped).__name__,
            expected="a Python function, lambda or method, or a partial of one",
        )
    return function, owner


def _of_partial(partial: functools.partial[Any]) -> object:
    """A partial as a function that captures it: its arguments are guarded as any captured value is."""
    inner = unwrap(cast("object", partial.func))
    if not isinstance(inner, FunctionType):
        return partial

    def call(*args: Any, **kwargs: Any) -> Any:
        return partial(*args, **kwargs)

    # As code of the user's file it is looked into, and equal partials of one function share traces.
    code = call.__code__.replace(co_filename=inner.__code__.co_filename, co_name=inner.__code__.co_name)
    function: Any = FunctionType(code, inner.__globals__, inner.__name__, None, call.__closure__)
    functools.update_wrapper(function, inner)
    del function.__wrapped__
    function.__signature__ = inspect.signature(partial)
    return function


#: Held while names are added to those that are known.
_learning = forks.lock()


@dataclass(slots=True)
class Shared:
    """What a traced method and its bound forms have in common.

    `names` are those that the reachable code is known to read, `misses` the key parts of the latest traces.
    """

    method: Signature | None = None
    names: frozenset[str] = frozenset()
    misses: list[dict[str, Hashable]] = field(default_factory=list[dict[str, Hashable]])

    def learn(self, names: frozenset[str]) -> None:
        """Know of further names; none that another thread has found is forgotten."""
        with _learning:
            self.names |= names
