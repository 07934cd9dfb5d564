"""Kernels as compact text, and back: plain data that a graph can keep in an equation.

Users' lines are left out of the text; a kernel that this process encoded comes back with its own.
"""

from __future__ import annotations

import json
import struct
import threading
from collections import OrderedDict
from dataclasses import fields
from typing import Any, cast

from poot.dtypes import BY_NAME, DType
from poot.errors import PootError, SerialisationError
from poot.kernel import ir
from poot.kernel.check import check
from poot.kernel.ir import Kernel

_CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(ir.Const, ir.Var, ir.Load, ir.Op, ir.Cast, ir.Index, ir.Collective),
        *(ir.Let, ir.Assign, ir.Store, ir.Atomic, ir.If, ir.For, ir.While, ir.Break, ir.Continue, ir.Return),
        *(ir.Barrier, ir.Assert, ir.Alloc, ir.BufferParam, ir.ScalarParam, ir.Kernel),
    )
}
_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(item.name for item in fields(each) if item.name != "where") for name, each in _CLASSES.items()
}
_KEPT = 1024
_known: OrderedDict[str, Kernel] = OrderedDict()
_lock = threading.Lock()


def encode(kernel: Kernel) -> str:
    """The kernel as text; equal kernels give equal text."""
    text = json.dumps(_plain(kernel), separators=(",", ":"))
    with _lock:
        _known[text] = kernel
        _known.move_to_end(text)
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return text


def decode(text: str) -> Kernel:
    """The kernel that `encode` wrote; SerialisationError where the text is none."""
    with _lock:
        found = _known.get(text)
    if found is not None:
        return found
    try:
        kernel = _built(json.loads(text))
        if isinstance(kernel, Kernel):
            check(kernel)
            return kernel
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error, PootError) as error:
        raise SerialisationError(what="kernel", message=f"it is damaged: {error}") from error
    raise SerialisationError(what="kernel", message="it is no kernel")


def _plain(value: object) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return {"float": struct.pack("<d", value).hex()}
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    name = type(value).__name__
    return {name: [_plain(getattr(value, field)) for field in _FIELDS[name]]}


def _built(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_built(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        if isinstance(value, float):
            raise ValueError("a float in decimal digits")
        return value
    ((name, inner),) = cast("dict[str, Any]", value).items()
    if name == "float":
        return struct.unpack("<d", bytes.fromhex(inner))[0]
    if name == "dtype":
        return BY_NAME[inner]
    return _CLASSES[name](**dict(zip(_FIELDS[name], map(_built, inner), strict=True)))
