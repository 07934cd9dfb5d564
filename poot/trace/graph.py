"""Graphs of primitive tensor operations: frozen, in SSA form, with static shapes.

    graph    ::= Graph(constants, inputs, states, equations, outputs, tree, updates)
    equation ::= Equation(primitive, inputs, params, outputs, regions, effects)
    atom     ::= Value(id, spec) | Literal(value, dtype)

Value ids are dense and numbered in the order in which the builder made the values (a trace may meet a new input after
its first equations); every value is defined before its use.  A region is a closed Graph with inputs only: what it needs
from outside is an operand of its equation.
Constants are bound by the caller or from weights, inputs are per-step slots, states live with an exe and change by
`updates`.  `tree` is the output pytree as plain data; its leaves are `outputs` in order.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from typing_extensions import override

from poot.dtypes import ArraySpec, DType
from poot.errors import ArgumentError, SourceLocation
from poot.records import record

ParamValue: TypeAlias = "bool | int | float | str | DType | ArraySpec | tuple[ParamValue, ...] | None"


class Params(Mapping[str, ParamValue]):
    """The static parameters of an equation: an immutable, hashable mapping of plain data, sorted by name."""

    __slots__ = ("_hash", "_items", "_key")

    def __init__(self, values: Mapping[str, ParamValue] | None = None, /, **named: ParamValue) -> None:
        merged = {**(values or {}), **named}
        self._items: dict[str, ParamValue] = dict(sorted(merged.items()))
        self._key = tuple([(name, _exact(value)) for name, value in self._items.items()])
        self._hash: int | None = None

    @override
    def __getitem__(self, name: str) -> ParamValue:
        return self._items[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    @override
    def __len__(self) -> int:
        return len(self._items)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and self._key == other._key

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key)
        return self._hash

    @override
    def __repr__(self) -> str:
        return "Params(" + ", ".join(f"{name}={value!r}" for name, value in self._items.items()) + ")"


def _exact(value: ParamValue) -> object:
    """A key under which 1, 1.0 and True differ, as do 0.0 and -0.0, while NaN equals itself."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, tuple):
        kinds = set(map(type, value))
        return ("ints", value) if kinds <= {int} else tuple(map(_exact, value))
    return type(value).__name__, value


@record
class Value:
    """One array of a graph."""

    id: int
    spec: ArraySpec

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape


@record(eq=False)
class Literal:
    """A 0-d constant written into the graph; equal only with the same bits."""

    value: bool | int | float
    dtype: DType

    @property
    def spec(self) -> ArraySpec:
        return ArraySpec(self.dtype, ())

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[DType, object]:
        return self.dtype, _exact(float(self.value) if self.dtype.is_float else int(self.value))


Atom: TypeAlias = Value | Literal


@record
class Equation:
    """One application of a primitive.  `where` is the user's line; equality ignores it."""

    primitive: str
    inputs: tuple[Atom, ...]
    params: Params
    outputs: tuple[Value, ...]
    regions: tuple[Graph, ...] = ()
    effects: frozenset[str] = frozenset()
    where: SourceLocation | None = field(default=None, compare=False, repr=False)


@record
class Variable:
    """A named constant, input or state.  `where` is the user's line; equality ignores it."""

    name: str
    value: Value
    where: SourceLocation | None = field(default=None, compare=False, repr=False)

    @property
    def spec(self) -> ArraySpec:
        return self.value.spec


@dataclass(frozen=True, slots=True)
class Tree:
    """A pytree's structure as plain data.

    `kind` is leaf, none, tuple, list, dict or namedtuple; `keys` are a dict's sorted keys or a namedtuple's fields;
    `name` is a namedtuple's class name.
    """

    kind: str = "leaf"
    children: tuple[Tree, ...] = ()
    keys: tuple[str | int, ...] = ()
    name: str = ""

    @property
    def leaves(self) -> int:
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """A pytree of built-in containers and namedtuples; ArgumentError if the number of leaves differs."""
        if len(leaves) != self.leaves:
            raise ArgumentError(what="number of leaves", actual=len(leaves), expected=str(self.leaves))
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return None
        children = [child._build(leaves) for child in self.children]
        match self.kind:
            case "tuple":
                return tuple(children)
            case "list":
                return children
            case "dict":
                return dict(zip(self.keys, children, strict=True))
            case _:
                return _namedtuple(self.name, self.keys)(*children)


@lru_cache(maxsize=256)
def _namedtuple(name: str, fields: tuple[str | int, ...]) -> type[Any]:
    # A field or class name that Python's factory refuses (a keyword of a later version) is renamed by position.
    typename = name if name.isidentifier() else "Node"
    return namedtuple(typename, [str(field) for field in fields], rename=True)  # type: ignore[misc]


@dataclass(frozen=True, slots=True, repr=False)
class Graph:
    """A program of primitives.  Made by a Builder or by a pass, and always type-checked (`check.check_graph`)."""

    constants: tuple[Variable, ...]
    inputs: tuple[Variable, ...]
    states: tuple[Variable, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]
    tree: Tree = field(default_factory=Tree)
    updates: tuple[tuple[str, Atom], ...] = ()
    name: str = "graph"

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self.constants + self.inputs + self.states

    @property
    def value_count(self) -> int:
        return len(self.variables) + sum(len(equation.outputs) for equation in self.equations)

    @override
    def __str__(self) -> str:
        from poot.trace.text import format_graph  # the printer needs these classes

        return format_graph(self)

    @override
    def __repr__(self) -> str:
        from poot.trace.text import abridged

        return abridged(str(self))

    def to_bytes(self) -> bytes:
        """The graph saved: versioned, with the signatures of its primitives; the users' lines are left out."""
        from poot.trace.serial import dump_graph  # it needs these classes

        return dump_graph(self)

    @staticmethod
    def from_bytes(data: bytes, what: str = "graph") -> Graph:
        """The graph that `to_bytes` saved; SerialisationError if it is damaged, of another version, or unknown here."""
        from poot.trace.serial import load_graph  # it needs these classes

        return load_graph(data, what)
