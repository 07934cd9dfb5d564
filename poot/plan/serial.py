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
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from poot.dtypes import ArraySpec
from poot.errors import ArgumentError, PootError, SerialisationError
from poot.kernel.codec import CLASSES
from poot.plan import program as parts
from poot.plan.program import Program
from poot.plan.verify import verify
from poot.saved import Codec, Damage, container, read_json, require_fields, require_keys, shown
from poot.target import Target
from poot.trace.graph import Graph

FORMAT = "poot program"
VERSION = 5

_CODEC = Codec(
    (
        *CLASSES,
        *(ArraySpec, parts.Slot, parts.Storage, parts.Binding, parts.Launch, parts.Copy, parts.Branch, parts.Loop),
        *(parts.Removed, parts.EquationPlan, parts.Declined, parts.PassRecord),
    )
)
#: A program's own fields that are plain data.
_PLAIN = (
    *("kernels", "steps", "storage", "outputs", "updates", "equation_plans", "numerics", "contract"),
    *("passes", "prologue"),
)


# --- programs ---------------------------------------------------------------------------------------------------------


def dump_program(program: Program) -> bytes:
    """A program as bytes; the users' lines are left out."""
    body = {
        "graph": program.graph.to_bytes().decode(),
        "planned": program.planned.to_bytes().decode(),
        "target": program.target.to_json(),
        **{name: _CODEC.encode(getattr(program, name)) for name in _PLAIN},
    }
    text = json.dumps(body, separators=(",", ":"))
    digest = _digest(text)
    return json.dumps({"format": FORMAT, "version": VERSION, "sha256": digest, "program": text}).encode()


def load_program(source: str | os.PathLike[str] | bytes) -> Program:
    """The program in a file that `Program.save` wrote, or in its bytes.

    SerialisationError where it is damaged, of another version, has anything that is unknown here (a key, a class, a
    primitive), or does not verify; the message names the file and the path of what is wrong.  Accesses of a kernel that
    cannot be proven to stay inside its buffers are checked when it runs.
    """
    if isinstance(source, bytes):
        return _load(source)
    try:
        data = Path(source).read_bytes()
    except ValueError:  # a NUL, or half of a pair of UTF-16
        raise ArgumentError(what="load_program", actual=source, expected="the name of a file") from None
    try:
        return _load(data)
    except SerialisationError as error:
        fields = error.fields | {"what": f"program {os.fspath(source)!r}"}
        raise SerialisationError(where=error.where, remedy=error.remedy, **fields) from error.__cause__


def _load(data: bytes) -> Program:
    body = _open(data)
    graph, planned = (_graph(body, name) for name in ("graph", "planned"))
    target = Target.from_json(_text(body, "target").decode(), "program's target")
    try:
        plain: dict[str, Any] = {}
        for name in _PLAIN:
            try:
                plain[name] = _CODEC.decode(body[name])
            except Damage as damage:
                raise damage.below(name) from None
        require_fields(Program, plain)
        loaded = Program(graph=graph, planned=planned, target=target, **plain)
        kernels = verify(loaded)
    except SerialisationError as error:
        raise _damaged(error.fields["message"]) from error
    except PootError as error:
        raise _damaged(error.summary) from error
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise _damaged(str(error)) from error
    return replace(loaded, kernels=kernels)


def _damaged(message: str) -> SerialisationError:
    return SerialisationError(what="program", message=f"it is damaged: {message}")


def _open(data: bytes) -> dict[str, Any]:
    saved = container(data, FORMAT, VERSION, ("sha256", "program"), "program")
    text = saved["program"]
    if not isinstance(text, str) or _digest(text) != saved["sha256"]:
        raise SerialisationError(what="program", message="it is damaged")
    try:
        body: Any = read_json(text)
    except ValueError as error:
        raise _damaged(str(error)) from error
    if not isinstance(body, dict):
        raise _damaged("it is no object")
    return require_keys(cast("dict[str, Any]", body), ("graph", "planned", "target", *_PLAIN), "program")


def _graph(body: dict[str, Any], name: str) -> Graph:
    return Graph.from_bytes(_text(body, name), f"program's {name}")


def _text(body: dict[str, Any], name: str) -> bytes:
    value = body[name]
    if not isinstance(value, str):
        raise _damaged(f"{name}: it is {shown(value)}, expected a text")
    try:
        return value.encode()
    except UnicodeEncodeError:  # half of a pair of UTF-16
        raise _damaged(f"{name}: it is no UTF-8") from None


def _digest(text: str) -> str:
    """The SHA-256 of a text; halves of UTF-16 pairs, which JSON may hold, count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
