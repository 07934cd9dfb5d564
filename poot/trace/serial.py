"""Saved graphs: a versioned container that names the primitives it relies on.

The container is JSON: format, version, the text of the graph, its SHA-256, and for every primitive used a hash of what
its entry promised when the graph was saved.  A graph whose primitives are unknown here, or mean something else, is
refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from poot.errors import PootError, SerialisationError
from poot.saved import container
from poot.trace.graph import Graph
from poot.trace.primitives import Primitive, lookup
from poot.trace.text import format_graph, parse_graph

FORMAT = "poot graph"
VERSION = 1


def signature(primitive: Primitive) -> str:
    """A hash of an entry's contract: name, kind, operand dtypes, and the line that states its meaning."""
    parts = (primitive.name, primitive.kind, *(dtype.name for dtype in primitive.dtypes), primitive.doc)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def primitives_used(graph: Graph) -> dict[str, str]:
    """The signature of every primitive of a graph and its regions, by name in sorted order."""
    names: set[str] = set()
    pending = [graph]
    while pending:
        for equation in pending.pop().equations:
            names.add(equation.primitive)
            pending += equation.regions
    return {name: signature(lookup(name)) for name in sorted(names)}


def check_primitives(saved: object, what: str) -> None:
    """SerialisationError unless every primitive of a saved table is known here with the same signature."""
    if not isinstance(saved, dict):
        raise SerialisationError(what=what, message="it has no table of primitives")
    for name, expected in cast("dict[str, Any]", saved).items():
        try:
            found = signature(lookup(name))
        except PootError:
            raise SerialisationError(
                what=what,
                message=f"the primitive {name!r} is not known",
                remedy="register it before loading, or load with the version of poot that saved it.",
            ) from None
        if found != expected:
            raise SerialisationError(
                what=what,
                message=f"the primitive {name!r} means something else here",
                remedy="load it with the version of poot that saved it, or build the graph again.",
            )


def dump_graph(graph: Graph) -> bytes:
    """A graph as bytes; the users' lines are left out."""
    text = format_graph(graph)
    container = {
        "format": FORMAT,
        "version": VERSION,
        "primitives": primitives_used(graph),
        "sha256": _digest(text),
        "graph": text,
    }
    return json.dumps(container, indent=1).encode()


def load_graph(data: bytes, what: str = "graph") -> Graph:
    """The graph that `dump_graph` saved; SerialisationError if it is damaged, of another version, or unknown here."""
    saved = container(data, FORMAT, VERSION, ("primitives", "sha256", "graph"), what)
    text = saved["graph"]
    if not isinstance(text, str) or _digest(text) != saved["sha256"]:
        raise SerialisationError(what=what, message="it is damaged")
    check_primitives(saved["primitives"], what)
    try:
        graph = parse_graph(text)
    except PootError as error:
        raise SerialisationError(what=what, message=f"it is damaged: {error.summary}") from error
    if primitives_used(graph).keys() != saved["primitives"].keys():
        raise SerialisationError(what=what, message="its table of primitives names others than it uses")
    return graph


def _digest(text: str) -> str:
    """The SHA-256 of a text in UTF-8; halves of UTF-16 pairs, which JSON may hold, count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
