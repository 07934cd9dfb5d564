"""Kernels as compact text, and back: plain data that a graph can keep in an equation.

Users' lines are left out of the text; a kernel that this process encoded comes back with its own.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from poot import forks
from poot.errors import PootError, SerialisationError
from poot.kernel import ir
from poot.kernel.check import check
from poot.kernel.ir import Kernel
from poot.saved import Codec, read_json

#: The classes of kernel IR.
CLASSES: tuple[Any, ...] = (
    *(ir.Const, ir.Var, ir.Load, ir.Op, ir.Cast, ir.Index, ir.Collective),
    *(ir.Let, ir.Assign, ir.Store, ir.Atomic, ir.If, ir.For, ir.While, ir.Break, ir.Continue, ir.Return),
    *(ir.Barrier, ir.Assert, ir.Alloc, ir.BufferParam, ir.ScalarParam, ir.Kernel),
)
_CODEC = Codec(CLASSES)
_KEPT = 1024
_known: OrderedDict[str, Kernel] = OrderedDict()
_lock = forks.lock()


def encode(kernel: Kernel) -> str:
    """The kernel as text; equal kernels give equal text."""
    text = json.dumps(_CODEC.encode(kernel), separators=(",", ":"))
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
        kernel = _CODEC.decode(read_json(text))
        if isinstance(kernel, Kernel):
            check(kernel)
            return kernel
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, PootError) as error:
        raise SerialisationError(what="kernel", message=f"it is damaged: {getattr(error, 'summary', error)}") from error
    raise SerialisationError(what="kernel", message="it is no kernel")
