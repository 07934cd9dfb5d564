"""Graphs as text that is read by people and parses back to an equal graph.

    graph block {
        constant %1 w: f32[64]
        input %0 x: f32[8,64]
        state %2 "total time": f32[8]

        %3: f32[8,64] = mul %0 0.5:f32
        %4: f32[8] = reduce_sum %3 [axes=(1,)]
        %5: f32[8] = cond %6 %4 !fault
            graph then {
                input %0 a: f32[8]

                return (%0,)
            }
            graph else { … }

        update "total time" = %4
        return {"mean": %4, "rest": (none, Pair(x=%5, y=-0.0:f32))}
    }

The grammar, in which white space is free but for strings:

    graph    ::= "graph" name "{" variable* equation* update* "return" tree "}"
    variable ::= ("constant" | "input" | "state") id name ":" spec
    equation ::= (id ":" spec)* or "()", "=" name atom* params? effect* graph*     results are set apart by commas
    params   ::= "[" name "=" value ("," name "=" value)* "]"
    effect   ::= "!" name
    value    ::= "none" | "true" | "false" | number | string | dtype | spec | "(" (value ",")* ")"
    update   ::= "update" name "=" atom
    tree     ::= atom | "none" | "(" … ")" | "[" … "]" | "{" key ":" tree … "}" | name "(" field "=" tree … ")"
    atom     ::= id | (number | "true" | "false") ":" dtype
    spec     ::= dtype "[" extents "]"
    id       ::= "%" digits
    name     ::= letters, digits, "_" and ".", not beginning with a digit or dot; anything else as a JSON string

A float is written as Python's `repr`, which gives its exact value; a NaN other than the usual quiet one shows its
float64 bits, `nan(0x7ff8000000000001)`.  A line depends on nothing but its own node, so that texts compare well.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator

from poot.dtypes import DType
from poot.trace.graph import Atom, Equation, Graph, Literal, ParamValue, Tree, Value
from poot.trace.parse import is_plain_name, parse_graph

__all__ = ["abridged", "format_graph", "parse_graph"]

_INDENT = "    "
_SHOWN = 60


def format_graph(graph: Graph) -> str:
    """The text of a graph, without a line end at its end."""
    return "\n".join(_graph(graph, ""))


def abridged(text: str) -> str:
    """A text as a prompt shows it: of one that is longer than a screen the beginning."""
    lines = text.split("\n")
    more = len(lines) - _SHOWN
    return text if more <= 0 else "\n".join([*lines[:_SHOWN], f"… {more} lines more, which print shows"])


def _graph(graph: Graph, indent: str) -> Iterator[str]:
    inner = indent + _INDENT
    yield f"{indent}graph {_name(graph.name)} {{"
    groups = (("constant", graph.constants), ("input", graph.inputs), ("state", graph.states))
    for kind, variables in groups:
        for variable in variables:
            yield f"{inner}{kind} %{variable.value.id} {_name(variable.name)}: {variable.spec}"
    if graph.variables:
        yield ""
    for equation in graph.equations:
        yield from _equation(equation, inner)
    if graph.equations:
        yield ""
    for name, atom in graph.updates:
        yield f"{inner}update {_name(name)} = {_atom(atom)}"
    yield f"{inner}return {_tree(graph.tree, iter(graph.outputs))}"
    yield f"{indent}}}"


def _equation(equation: Equation, indent: str) -> Iterator[str]:
    results = ", ".join(f"%{value.id}: {value.spec}" for value in equation.outputs) or "()"
    parts = [results, "=", _name(equation.primitive), *map(_atom, equation.inputs)]
    if equation.params:
        items = ", ".join(f"{_name(name)}={_value(value)}" for name, value in equation.params.items())
        parts.append(f"[{items}]")
    parts += [f"!{_name(effect)}" for effect in sorted(equation.effects)]
    yield indent + " ".join(parts)
    for region in equation.regions:
        yield from _graph(region, indent + _INDENT)


def _atom(atom: Atom) -> str:
    if isinstance(atom, Value):
        return f"%{atom.id}"
    return f"{_literal(atom)}:{atom.dtype}"


def _literal(atom: Literal) -> str:
    if atom.dtype.is_float:
        return _float(float(atom.value))
    return _value(bool(atom.value)) if atom.dtype.kind == "bool" else str(int(atom.value))


def _float(value: float) -> str:
    if not math.isnan(value):
        return repr(value)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return "nan" if bits == 0x7FF8 << 48 else f"nan({bits:#018x})"


def _value(value: ParamValue) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ("," if len(value) == 1 else "") + ")"
    return value.name if isinstance(value, DType) else str(value)


def _tree(tree: Tree, outputs: Iterator[Atom]) -> str:
    if tree.kind == "leaf":
        return _atom(next(outputs))
    if tree.kind == "none":
        return "none"
    children = [_tree(child, outputs) for child in tree.children]
    match tree.kind:
        case "tuple":
            return "(" + ", ".join(children) + ("," if len(children) == 1 else "") + ")"
        case "list":
            return "[" + ", ".join(children) + "]"
        case "dict":
            pairs = [f"{_value(key)}: {child}" for key, child in zip(tree.keys, children, strict=True)]
            return "{" + ", ".join(pairs) + "}"
        case _:
            fields = [f"{_name(str(key))}={child}" for key, child in zip(tree.keys, children, strict=True)]
            return f"{_name(tree.name)}({', '.join(fields)})"


def _name(name: str) -> str:
    return name if is_plain_name(name) else json.dumps(name)
