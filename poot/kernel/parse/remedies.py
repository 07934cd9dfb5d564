"""What to write instead, where values of two dtypes meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from poot.dtypes import DType, f32
from poot.kernel.parse.values import NONE, Array, Value

if TYPE_CHECKING:
    from poot.kernel.parse.scope import Local


def casts(env: Mapping[str, Local], wanted: DType, nodes: Sequence[ast.AST], *, changes: bool = False) -> str:
    """The casts to write; or how a variable among them is to begin, which alone helps where it `changes`."""
    written = "write " + " and ".join(f"`{wanted}({ast.unparse(node)})`" for node in nodes)
    begin = next((text for node in nodes if (text := beginning(env, node, wanted))), "")
    if changes and begin:
        return f"{begin}."
    return f"{written}, or {begin}." if begin and "…" not in begin else f"{written}."


def beginning(env: Mapping[str, Local], node: ast.AST, wanted: DType) -> str:
    """How a variable of the function, given further values, is to begin, to have a dtype; "" for anything else."""
    local = env.get(node.id) if isinstance(node, ast.Name) else None
    if local is None or not local.variable or not isinstance(node, ast.Name):
        return ""
    first = re.fullmatch(rf"\s*{re.escape(node.id)}\s*=\s*(-?\d+)\s*(#.*)?", local.where.text)
    value = f"{wanted}(…)" if first is None else f"{first[1]}.0" if wanted is f32 else f"{wanted}({first[1]})"
    return f"begin with `{node.id} = {value}` in line {local.where.line}"


def truth(value: object) -> str:
    """What to write for a number that meets a bool."""
    cast = "cast the bool, such as `i32(x > 0)`, to count with it"
    return f"write `{bool(value)}`, or {cast}." if value in (0, 1) else f"{cast}."


def instead(value: Value) -> str:
    """What to write for a value that is no number."""
    if value == NONE:
        return "let the function return a number on every way through it."
    return "index it: a[i]." if isinstance(value, Array) else "use a number, or an element of an array."
