"""Runs ONNX models with `ops`: what an importer would do, as far as the node cases need it.

ONNX lets shapes, axes and sizes be inputs of a model, where poot has static arguments.  Those inputs (`static` of an
operator), and whatever they are computed from, are taken from the case's data when the graph is built; everything else
is an input of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from poot.dtypes import ArraySpec, DType, as_dtype
from poot.trace import ops
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.dispatch import tracing
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits

Value = Any
"""An array of the graph being built, a NumPy array of known values, or None for an input left out."""


@dataclass(frozen=True, slots=True)
class Operator:
    """How one ONNX operator is written with `ops`; `static` are the inputs whose values it needs."""

    function: Callable[..., Any]
    static: frozenset[int]


OPERATORS: dict[str, Operator] = {}
"""By name, those of other domains as "domain.name"."""

#: Their results are known from shapes and attributes alone.
KNOWN = ("Shape", "Size", "Constant")


def operator(*names: str, static: Sequence[int] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the meaning of operators: a function of a Node and its inputs, to one output or a tuple of them."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = Operator(function, frozenset(static))
        return function

    return add


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """A node with its attributes decoded, and what its subgraphs see around them."""

    proto: onnx.NodeProto
    version: int
    outer: Mapping[str, Value] = field(default_factory=dict)
    attributes: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.attributes = {}
        for attribute in self.proto.attribute:
            value = helper.get_attribute_value(attribute)
            if isinstance(value, bytes):
                value = value.decode()
            elif isinstance(value, onnx.TensorProto):
                value = numpy_helper.to_array(value)
            elif isinstance(value, (list, tuple)):
                value = [item.decode() if isinstance(item, bytes) else item for item in value]
            self.attributes[attribute.name] = value

    @property
    def kind(self) -> str:
        return key(self.proto)

    @property
    def outputs(self) -> int:
        """How many outputs are wanted, those left out in between included."""
        return len(self.proto.output)

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def has(self, name: str) -> bool:
        return name in self.attributes

    def call(self, name: str, *inputs: Value) -> tuple[Value, ...]:
        """The outputs of a subgraph among the attributes."""
        graph = self.attributes[name]
        names = [item.name for item in graph.input]
        return run(graph, dict(zip(names, inputs, strict=True)), self.version, self.outer)


def key(proto: onnx.NodeProto) -> str:
    return proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"


def array_of(value: Any) -> np.ndarray:
    """A case's input or output as an array; dtypes that NumPy has no type for come as protocol buffers."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def dtype_of(elem_type: int) -> DType:
    """The dtype that an ONNX number of a type names."""
    return as_dtype(helper.tensor_dtype_to_np_dtype(elem_type))


def static_ints(value: Value) -> list[int] | None:
    """A list of ints of known values; None for an input left out."""
    if value is None:
        return None
    assert isinstance(value, np.ndarray), "an input that has to be static depends on values"
    return [int(item) for item in value.reshape(-1)]


# --- graphs -----------------------------------------------------------------------------------------------------------


def run(graph: Any, inputs: Mapping[str, Value], version: int, outer: Mapping[str, Value]) -> tuple[Value, ...]:
    """The outputs of a graph for values of its inputs."""
    values: dict[str, Value] = {"": None, **outer, **inputs}
    for tensor in graph.initializer:
        values.setdefault(tensor.name, numpy_helper.to_array(tensor))
    for proto in graph.node:
        node = Node(proto, version, values)
        arguments = [values[name] for name in proto.input]
        results = apply(node, arguments)
        values.update(zip(proto.output, results, strict=False))
    return tuple(values[item.name] for item in graph.output)


def apply(node: Node, arguments: Sequence[Value]) -> tuple[Value, ...]:
    """The outputs of one node; known where all of its inputs are."""
    meaning = OPERATORS[node.kind]
    if node.kind in KNOWN or not arguments or any(isinstance(value, Array) for value in arguments):
        return _tuple(meaning.function(node, *arguments))
    # Every input is known, and so is the result: what shapes and the like are computed from.
    builder = Builder(TraceLimits.STANDARD)
    session = Session(builder)
    handles = [
        value if value is None or place in meaning.static else session.input(f"x{place}", value)
        for place, value in enumerate(arguments)
    ]
    with tracing(builder, session.capture):
        graph = builder.finish(tuple(map(ops.asarray, _tuple(meaning.function(node, *handles)))))
    return tuple(evaluate(graph, session.bindings).output)


def _tuple(results: Any) -> tuple[Value, ...]:
    return results if isinstance(results, tuple) else (results,)


def needed_statically(graph: Any) -> set[str]:
    """The names whose values are needed while the graph is built."""
    makers = {name: proto for proto in graph.node for name in proto.output if name}
    found: set[str] = set()
    pending = [
        name
        for proto in graph.node
        if key(proto) in OPERATORS
        for place, name in enumerate(proto.input)
        if place in OPERATORS[key(proto)].static
    ]
    while pending:
        name = pending.pop()
        if not name or name in found:
            continue
        found.add(name)
        if name in makers and key(makers[name]) not in KNOWN:
            pending += makers[name].input
    for proto in graph.node:
        # A condition on shapes chooses a branch when the graph is built: the branches' shapes may differ.
        if key(proto) == "If" and (sources := _sources(proto.input[0], makers)) <= found:
            found |= sources | {proto.input[0]}
    return found


def _sources(name: str, makers: Mapping[str, Any]) -> set[str]:
    """The inputs of the graph that a value is computed from."""
    if name not in makers:
        return {name} if name else set()
    if key(makers[name]) in KNOWN:
        return set()
    return set().union(*(_sources(item, makers) for item in makers[name].input))


# --- building ---------------------------------------------------------------------------------------------------------


class Session:
    """The inputs of a graph that is being built, and the arrays bound to them."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.bindings: dict[str, np.ndarray] = {}

    def input(self, name: str, value: Any) -> Any:
        array = np.asarray(value)
        self.bindings[name] = array
        return self.builder.input(name, ArraySpec(as_dtype(array.dtype), array.shape))

    def capture(self, array: Any) -> Any:
        """Arrays that the adapter makes (weights of a resampling, a window …) are bound as inputs too."""
        return self.input(f"made_{len(self.bindings)}", array)


def record(model: Any, data: Sequence[Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of a model, and what is bound to its inputs."""
    builder = Builder(TraceLimits.STANDARD, name=model.graph.name)
    session = Session(builder)
    static = needed_statically(model.graph)
    version = max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), default=0)
    values: dict[str, Value] = {}
    for item, value in zip(model.graph.input, data, strict=True):
        array = array_of(value)
        values[item.name] = array if item.name in static else session.input(f"x_{item.name}", array)
    with tracing(builder, session.capture):
        outputs = run(model.graph, values, version, {})
        return builder.finish(tuple(ops.asarray(value) for value in outputs)), session.bindings
