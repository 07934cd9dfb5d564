"""A user function for every entry of the primitive table, those registered by others included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import bind
from poot.trace.ops.promotion import cast, common_dtype, strong
from poot.trace.primitives import Primitive, table


def primitive_function(name: str) -> Callable[..., Any] | None:
    """`ops.<name>` of a primitive that `ops` has no function for; None where there is no such primitive.

    Operands are arrays and numbers; those of a MAP are promoted to one dtype. Parameters are keywords. The result is an
    array, or a tuple where the primitive has several.
    """
    entry = next((entry for entry in table() if str(name) == entry.name), None)
    return None if entry is None else _function(entry)


def _function(entry: Primitive) -> Callable[..., Any]:
    def apply(*operands: ArrayLike, **params: Any) -> Array | tuple[Array, ...]:
        if entry.kind == "map" and operands:
            dtype = common_dtype(*operands, what=f"operand of {entry.name}")
            inputs = [cast(operand, dtype) for operand in operands]
        else:
            inputs = [strong(operand) for operand in operands]
        results = bind(entry.name, inputs, **params)
        return results[0] if len(results) == 1 else results

    apply.__name__ = apply.__qualname__ = entry.name
    apply.__doc__ = entry.doc
    return apply
