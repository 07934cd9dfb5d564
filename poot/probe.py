"""Looking at objects of any class without running its code: a `__getattr__` may answer to every name, or raise."""

from __future__ import annotations

from typing import Any, cast

_NOTHING: dict[str, Any] = {}


def attributes(value: object) -> dict[str, Any]:
    """The instance's own attributes, without running any code of its class; nothing where there are none."""
    try:
        space: object = object.__getattribute__(value, "__dict__")
    except Exception:  # a class may define `__dict__` as it likes
        return _NOTHING
    return cast("dict[str, Any]", space) if isinstance(space, dict) else _NOTHING


def has(value: object, name: str) -> bool:
    """Whether an object follows a protocol: its class defines the name, or the object itself holds it."""
    try:
        return hasattr(type(value), name) or name in attributes(value)
    except Exception:  # nor is the `__getattr__` of a metaclass trusted
        return False
