"""Arrays of other libraries on the host, as NumPy's over the same memory."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import numpy as np

from poot.errors import ExchangeError, PootError
from poot.probe import has
from poot.trace.array import Array
from poot.trace.source import user_location

_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__", "__cuda_array_interface__")


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, NumPy included; NumPy's scalars are none."""
    return not isinstance(value, (Array, np.generic)) and any(has(value, name) for name in _PROTOCOLS)


def host_array(value: Any, what: str) -> np.ndarray[Any, Any] | None:
    """A NumPy array of another library's host array, without a copy where it allows, or None for other objects.

    ExchangeError, which quotes it, where its library refuses to give the elements.
    """
    refusal: Exception | None = None
    if has(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # whatever the other library raises
            refusal = error
    if has(value, "__array_interface__") or has(value, "__array__"):
        try:
            return np.asarray(value)
        except Exception as error:
            refuse(value, what, refusal or error)
    if refusal is not None:
        refuse(value, what, refusal)
    return None


def refuse(value: Any, what: str, error: Exception) -> NoReturn:
    """Raise ExchangeError for another library's array whose own code, or whose facts, raised `error`."""
    if isinstance(error, PootError):
        raise error.at(user_location())
    kind = cast("type[object]", type(value))
    message = f"the {kind.__name__} of {kind.__module__.partition('.')[0]} does not give its elements"
    raise ExchangeError(what=what, message=f"{message}: {said(error)}", where=user_location()) from error


def said(error: Exception) -> str:
    """What an error of other code says, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
