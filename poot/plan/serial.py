"""Saved programs: versioned JSON, refused where anything in it is not known here, and safe to load from strangers.

    program.save("block.poot")
    program = load_program("block.poot")

The container holds the graph (with the signatures of its primitives), and the target, kernels, steps and storage as
plain data: each dataclass as its name and fields, each float by its bits.  Nothing in it is executed to read it.  A
loaded program is verified (`verify`), so that a kernel can touch nothing outside the buffers that its launches bind.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from poot.dtypes import BY_NAME, ArraySpec, DType
from poot.errors import ArgumentError, PootError, SerialisationError
from poot.kernel import ir
from poot.plan import program as parts
from poot.plan.program import Program
from poot.plan.typed import field_checks
from poot.plan.verify import verify
from poot.target import Target
from poot.trace.graph import Graph

FORMAT = "poot program"
VERSION = 4

_IR = (
    *(ir.Const, ir.Var, ir.Load, ir.Op, ir.Cast, ir.Index, ir.Collective),
    *(ir.Let, ir.Assign, ir.Store, ir.Atomic, ir.If, ir.For, ir.While, ir.Break, ir.Continue, ir.Return),
    *(ir.Barrier, ir.Assert, ir.Alloc, ir.BufferParam, ir.ScalarParam, ir.Kernel),
)
_PROGRAM = (
    *(ArraySpec, parts.Slot, parts.Storage, parts.Binding, parts.Launch, parts.Copy, parts.Branch, parts.Loop),
    *(parts.Removed, parts.EquationPlan, parts.Declined, parts.PassRecord),
)
_CLASSES: dict[str, Any] = {each.__name__: each for each in (*_IR, *_PROGRAM)}
_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(item.name for item in fields(each) if item.name != "where") for name, each in _CLASSES.items()
}
#: A program's own fields that are plain data.
_PLAIN = (
    *("kernels", "steps", "storage", "outputs", "updates", "equation_plans", "numerics", "contract"),
    *("passes", "prologue"),
)


# --- values -----------------------------------------------------------------------------------------------------------


def _encode(value: object) -> Any:
    if isinstance(value, float):
        return {"float": struct.pack("<d", value).hex()}
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return [_encode(item) for item in cast("tuple[object, ...]", value)]
    name = type(value).__name__
    if name in _CLASSES:
        return {name: [_encode(getattr(value, field)) for field in _FIELDS[name]]}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        if isinstance(value, float):
            raise ValueError("a float in decimal digits")
        return value
    ((name, inner),) = cast("dict[str, Any]", value).items()
    if name == "float":
        if not isinstance(inner, str) or len(inner) != 16:
            raise ValueError("a float that has no 8 bytes")
        return struct.unpack("<d", bytes.fromhex(inner))[0]
    if name == "dtype":
        return BY_NAME[inner]
    values = dict(zip(_FIELDS[name], map(_decode, inner), strict=True))
    for field, check in field_checks(_CLASSES[name]).items():
        if not check(values[field]):
            raise ValueError(f"{name}.{field} is {values[field]!r:.100}")
    return _CLASSES[name](**values)


# --- programs ---------------------------------------------------------------------------------------------------------


def dump_program(program: Program) -> bytes:
    """A program as bytes; the users' lines are left out."""
    body = {
        "graph": program.graph.to_bytes().decode(),
        "planned": program.planned.to_bytes().decode(),
        "target": program.target.to_json(),
        **{name: _encode(getattr(program, name)) for name in _PLAIN},
    }
    text = json.dumps(body, separators=(",", ":"))
    digest = _digest(text)
    return json.dumps({"format": FORMAT, "version": VERSION, "sha256": digest, "program": text}).encode()


def load_program(source: str | os.PathLike[str] | bytes) -> Program:
    """The program in a file that `Program.save` wrote, or in its bytes.

    SerialisationError where it is damaged, of another version, uses primitives that are unknown here, or does not
    verify.  Accesses of a kernel that cannot be proven to stay inside its buffers are checked when it runs.
    """
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
    except ValueError:  # a NUL, or half of a pair of UTF-16
        raise ArgumentError(what="load_program", actual=source, expected="the name of a file") from None
    body = _open(data)
    graph = Graph.from_bytes(_text(body, "graph"), "program's graph")
    planned = Graph.from_bytes(_text(body, "planned"), "program's planned graph")
    target = Target.from_json(_text(body, "target").decode())
    try:
        plain = {name: _decode(body[name]) for name in _PLAIN}
        for name in _PLAIN:
            if not field_checks(Program)[name](plain[name]):
                raise ValueError(f"{name} is of the wrong type")
        loaded = Program(graph=graph, planned=planned, target=target, **plain)
        kernels = verify(loaded)
    except (PootError, TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise SerialisationError(what="program", message=f"it is damaged: {error}") from error
    return replace(loaded, kernels=kernels)


def _open(data: bytes) -> dict[str, Any]:
    try:
        container: Any = json.loads(data)
        if container["format"] != FORMAT:
            raise SerialisationError(what="program", message="it is not a saved program")
        version = container["version"]
        text = container["program"]
        digest = container["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SerialisationError(what="program", message="it is not a saved program") from None
    if version != VERSION:
        raise SerialisationError(
            what="program", message=f"it has version {version!r}, and this poot reads version {VERSION}"
        )
    if not isinstance(text, str) or _digest(text) != digest:
        raise SerialisationError(what="program", message="it is damaged")
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise SerialisationError(what="program", message="it is damaged")
    return cast("dict[str, Any]", body)


def _text(body: dict[str, Any], name: str) -> bytes:
    value = body.get(name)
    if not isinstance(value, str):
        raise SerialisationError(what="program", message=f"it has no {name}")
    try:
        return value.encode()
    except UnicodeEncodeError:  # half of a pair of UTF-16
        raise SerialisationError(what="program", message=f"its {name} is damaged") from None


def _digest(text: str) -> str:
    """The SHA-256 of a text; halves of UTF-16 pairs, which JSON may hold, count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
