"""Builder: makes a graph equation by equation, within limits; and regions, the closed graphs inside an equation.

    b = Builder(limits)
    x = b.input("x", f32[8]); s = b.state("total", f32[8])
    (y,) = b.emit("add", (x, s))
    graph = b.finish({"y": y}, updates={"total": y})

Every call either succeeds or raises a BuilderError and leaves the builder as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from poot.dtypes import ArraySpec, as_dtype, bool_, f32, i32
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    BuilderArgumentError,
    BuilderDTypeError,
    BuilderError,
    BuilderOverflowError,
    BuilderShapeError,
    BuilderTypeError,
    BuilderUnsupportedDTypeError,
    DTypeError,
    DuplicateNameError,
    FinishedBuilderError,
    ForeignHandleError,
    OverflowArgumentError,
    PootError,
    ShapeError,
    SourceLocation,
    UnsupportedDTypeError,
    retyped,
)
from poot.trace.array import Array
from poot.trace.check import check_graph
from poot.trace.graph import Atom, Equation, Graph, Literal, Params, Value, Variable
from poot.trace.limits import TraceLimits, Usage
from poot.trace.literals import literal
from poot.trace.params import params_bytes, plain_params
from poot.trace.primitives import Typing, lookup
from poot.trace.source import user_location
from poot.trace.tracer import Tracer
from poot.trace.tree import flatten

#: What `emit` and `finish` take: handles, values of this builder, literals, and NumPy scalars, which carry a dtype.
Operand: TypeAlias = "Array | Value | Literal | np.generic[Any] | np.bool_"

_KINDS = {"constant": "a constant", "input": "an input", "state": "a state"}


class Builder:
    """Makes one graph.  `limits` has no default; `name` is the graph's name.

    Handles (`Tracer`) belong to the builder that made them; only a region's builder accepts those of the builders
    around it, and adds an input for each (see `region`).
    """

    __slots__ = (
        "_captured",
        "_equations",
        "_names",
        "_typing",
        "_usage",
        "_values",
        "_variables",
        "finished",
        "limits",
        "name",
        "outer",
    )

    def __init__(self, limits: TraceLimits, *, name: str = "graph") -> None:
        if not isinstance(limits, TraceLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuilderTypeError(what="Builder", actual=type(limits).__name__, expected="TraceLimits")
        self.limits = limits
        self.name = name
        self.outer: Builder | None = None
        self.finished = False
        self._usage = Usage()
        self._typing = Typing()
        self._names: dict[str, str] = {}
        self._values: list[Value] = []
        self._variables: dict[str, list[Variable]] = {kind: [] for kind in _KINDS}
        self._equations: list[Equation] = []
        self._captured: dict[tuple[int, int], tuple[Tracer, Tracer]] = {}

    # --- variables ---

    def constant(self, name: str, spec: ArraySpec) -> Tracer:
        """A named array that the caller binds, or weights do, once for many steps."""
        return self._variable("constant", name, spec)

    def input(self, name: str, spec: ArraySpec) -> Tracer:
        """A named array that every step is given anew."""
        return self._variable("input", name, spec)

    def state(self, name: str, spec: ArraySpec) -> Tracer:
        """A named array that lives between steps; `finish(updates=…)` says how a step changes it."""
        return self._variable("state", name, spec)

    def _variable(self, kind: str, name: str, spec: ArraySpec) -> Tracer:
        self._check_open()
        if self.outer is not None and kind != "input":
            raise BuilderArgumentError(what="region", actual=f"{kind} {name!r}", expected="inputs only")
        if type(name) is not str:
            raise BuilderTypeError(what=f"name of {_KINDS[kind]}", actual=type(name).__name__, expected="str")
        if not isinstance(spec, ArraySpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuilderTypeError(
                what=f"{kind} {name!r}", actual=type(spec).__name__, expected="a spec such as f32[8, 64]"
            )
        if name in self._names:
            raise DuplicateNameError(name=name, kind=self._names[name])
        self._reserve(Usage(values=1, owned_bytes=len(name.encode(errors="surrogatepass"))))
        value = self._new_value(spec)
        self._names[name] = _KINDS[kind]
        self._variables[kind].append(Variable(name, value, user_location()))
        return Tracer(self, value, name)

    def own(self, nbytes: int) -> None:
        """Count host storage that is kept with this builder, such as a copy of a captured array; LimitError past it."""
        self._check_open()
        if type(nbytes) is not int or nbytes < 0:
            raise BuilderArgumentError(what="own: nbytes", actual=nbytes, expected="an int of at least 0")
        self._reserve(Usage(owned_bytes=nbytes))

    # --- equations ---

    def emit(
        self,
        primitive: str,
        inputs: Sequence[Operand],
        params: Mapping[str, Any] | None = None,
        regions: Sequence[Graph] = (),
        where: SourceLocation | None = None,
    ) -> tuple[Tracer, ...]:
        """Append one equation and return its results.

        Inputs are handles or values of this builder, Literals, or NumPy scalars.  Raises BuilderError: of the
        primitive's type rule, a foreign handle, a finished builder, a limit; `where` is the user's line that it names.
        """
        self._check_open(where)
        try:
            _expect("primitive", primitive, str, "a name")
            _expect(f"{primitive}: inputs", inputs, (tuple, list), "a tuple or list")
            _expect(f"{primitive}: params", params or {}, Mapping, "a mapping")
            for region in regions:
                _expect(f"{primitive}: regions", region, Graph, "finished graphs")
            entry = lookup(primitive)
            operands = [self._accept(item, f"operand {number}") for number, item in enumerate(inputs, 1)]
            plain = plain_params(primitive, params or {})
            closed = tuple(regions)
            specs = tuple([operand.spec for operand in operands])
            results, effects = self._typing(entry, specs, plain, closed)
            self._reserve(_equation_usage(len(results), operands, plain, closed))
            atoms = tuple(self._atom(operand) for operand in operands)
        except PootError as error:
            raise as_builder_error(error).at(where) from error.__cause__
        outputs = tuple(self._new_value(spec) for spec in results)
        self._equations.append(Equation(primitive, atoms, plain, outputs, closed, effects, where))
        return tuple(Tracer(self, value) for value in outputs)

    def _accept(self, item: object, what: str) -> Value | Literal | Tracer:
        """A value of this builder, a literal, or the handle of a builder around this one."""
        if isinstance(item, Tracer):
            if item.builder is self:
                return item.value
            if self._encloses(item.builder):
                return item
            raise ForeignHandleError(what=f"{what}, {item!r},")
        if isinstance(item, Value):
            if 0 <= item.id < len(self._values) and self._values[item.id] == item:
                return item
            raise ForeignHandleError(what=f"{what}, %{item.id}: {item.spec},")
        if isinstance(item, Literal):
            return literal(item.value, item.dtype)
        if isinstance(item, np.generic):
            scalar = np.asarray(cast("Any", item))
            return literal(scalar.item(), as_dtype(scalar.dtype, what))
        raise ArgumentTypeError(
            what=what,
            actual=type(item).__name__,
            expected="a handle of this builder, a Literal, or a NumPy scalar",
            remedy=_REMEDIES.get(type(item), ""),
        )

    def _encloses(self, builder: Builder) -> bool:
        outer = self.outer
        while outer is not None and outer is not builder:
            outer = outer.outer
        return outer is not None

    def _atom(self, operand: Value | Literal | Tracer) -> Atom:
        return self.capture(operand).value if isinstance(operand, Tracer) else operand

    # --- regions ---

    def region(self, name: str = "region") -> Builder:
        """A builder for a region: a closed graph with inputs only, for `emit(regions=…)`.

        A handle of a builder around it that is used inside becomes a further input; `captures` lists the handles, which
        the equation then passes as operands after those of the explicit inputs.  The region shares the limits of this
        builder: it starts from what this one has used, and counts when an equation takes it.
        """
        self._check_open()
        inner = Builder(self.limits, name=name)
        inner.outer = self
        inner._usage = self._usage.plus(Usage())
        return inner

    def capture(self, handle: Tracer) -> Tracer:
        """The input of this region that stands for a handle of a builder around it, made at its first use."""
        if self.outer is None or not self._encloses(handle.builder):
            raise ForeignHandleError(what=repr(handle))
        if handle.builder is not self.outer:
            handle = self.outer.capture(handle)
        key = id(handle.builder), handle.id
        if key not in self._captured:
            number = len(self._captured)
            while f"captured{number}" in self._names:
                number += 1
            self._captured[key] = handle, self.input(f"captured{number}", handle.spec)
        return self._captured[key][1]

    @property
    def captures(self) -> tuple[Tracer, ...]:
        """The handles of the builder around this region that were used in it, in the order of their first use."""
        return tuple(outer for outer, _ in self._captured.values())

    # --- finishing ---

    def finish(
        self,
        outputs: Any,
        updates: Mapping[str, Operand] | None = None,
        *,
        captures: Sequence[Tracer] | None = None,
    ) -> Graph:
        """The graph, type-checked; ids are those of the handles.  The builder takes no further calls.

        `outputs` is a pytree of handles, values, literals, NumPy scalars or Python numbers (bool, i32, f32); `updates`
        maps names of states to their next values.  For a region, `captures` gives the order of the captured inputs and
        may name more handles, so that two regions of one equation take the same operands.
        """
        self._check_open()
        try:
            _expect("updates", updates or {}, Mapping, "a mapping from names of states")
            flat = flatten(outputs, "outputs")
            operands = [
                self._accept(_number(leaf), f"output {path or number!s}")
                for number, (leaf, path) in enumerate(zip(flat.leaves, flat.paths, strict=True))
            ]
            changed = self._updates(updates or {})
            literals = [item for item in (*operands, *changed.values()) if isinstance(item, Literal)]
            self._reserve(Usage(literal_bytes=sum(item.dtype.itemsize for item in literals)))
            atoms = tuple(self._atom(item) for item in operands)
            graph = Graph(
                tuple(self._variables["constant"]),
                self._ordered_inputs(captures),
                tuple(self._variables["state"]),
                tuple(self._equations),
                atoms,
                flat.tree,
                tuple((name, self._atom(item)) for name, item in changed.items()),
                self.name,
            )
        except PootError as error:
            raise as_builder_error(error) from error.__cause__
        check_graph(graph)
        self.finished = True
        return graph

    def _updates(self, updates: Mapping[str, object]) -> dict[str, Value | Literal | Tracer]:
        states = {variable.name: variable.spec for variable in self._variables["state"]}
        for name in updates:
            if name not in states:
                known = ", ".join(map(repr, states)) or "none"
                raise ArgumentError(what="update", actual=name, expected=f"the name of a state ({known})")
        found: dict[str, Value | Literal | Tracer] = {}
        for name, spec in states.items():
            if name in updates:
                found[name] = item = self._accept(updates[name], f"update of state {name!r}")
                if item.spec.dtype is not spec.dtype:
                    raise DTypeError(what=f"update of state {name!r}", actual=item.spec.dtype, expected=spec.dtype)
                if item.spec.shape != spec.shape:
                    raise ShapeError(what=f"update of state {name!r}", actual=item.spec.shape, expected=spec.shape)
        return found

    def _ordered_inputs(self, captures: Sequence[Tracer] | None) -> tuple[Variable, ...]:
        if captures is None:
            return tuple(self._variables["input"])
        order = [self.capture(handle).id for handle in captures]
        captured = {inner.id for _, inner in self._captured.values()}
        if missing := captured.difference(order):
            handles = ", ".join(repr(outer) for outer, inner in self._captured.values() if inner.id in missing)
            raise ArgumentError(what="captures", actual=tuple(captures), expected=f"also {handles}")
        inputs = {variable.value.id: variable for variable in self._variables["input"]}
        explicit = [variable for key, variable in inputs.items() if key not in captured]
        return (*explicit, *(inputs[key] for key in order))

    # --- bookkeeping ---

    def _check_open(self, where: SourceLocation | None = None) -> None:
        if self.finished:
            raise FinishedBuilderError(where=where)

    def _reserve(self, usage: Usage) -> None:
        total = self._usage.plus(usage)
        total.check(self.limits)
        self._usage = total

    def _new_value(self, spec: ArraySpec) -> Value:
        value = Value(len(self._values), spec)
        self._values.append(value)
        return value


def _number(leaf: object) -> object:
    """A Python number as the literal that it is on every device."""
    if type(leaf) is bool:
        return literal(leaf, bool_)
    if type(leaf) is int:
        return literal(leaf, i32)
    return literal(leaf, f32) if type(leaf) is float else leaf


def _expect(what: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kinds):
        raise ArgumentTypeError(what=what, actual=type(value).__name__, expected=expected)


_REMEDIES: dict[type, str] = {
    **dict.fromkeys((bool, int, float), "give Python numbers a dtype: Literal(2.0, f32)."),
    np.ndarray: "make it a constant, w = builder.constant(name, spec), and bind it when the graph runs.",
}


def _equation_usage(
    results: int, operands: Sequence[Value | Literal | Tracer], params: Params, regions: tuple[Graph, ...]
) -> Usage:
    literals = sum([item.dtype.itemsize for item in operands if isinstance(item, Literal)])
    usage = Usage(results, 1, literals, params_bytes(params) if params else 0)
    for region in regions:
        usage = usage.plus(graph_usage(region))
    return usage


def graph_usage(graph: Graph) -> Usage:
    """What a graph counts for, its regions included."""
    usage = Usage(graph.value_count, len(graph.equations))
    for variable in graph.variables:
        usage.owned_bytes += len(variable.name.encode(errors="surrogatepass"))
    atoms: list[Atom] = [*graph.outputs, *(atom for _, atom in graph.updates)]
    for equation in graph.equations:
        atoms += equation.inputs
        usage.owned_bytes += params_bytes(equation.params)
        for region in equation.regions:
            usage = usage.plus(graph_usage(region))
    usage.literal_bytes += sum(atom.dtype.itemsize for atom in atoms if isinstance(atom, Literal))
    return usage


_BUILDER_ERRORS: tuple[tuple[type[PootError], type[BuilderError]], ...] = (
    (DTypeError, BuilderDTypeError),
    (ShapeError, BuilderShapeError),
    (ArgumentError, BuilderArgumentError),
    (ArgumentTypeError, BuilderTypeError),
    (OverflowArgumentError, BuilderOverflowError),
    (UnsupportedDTypeError, BuilderUnsupportedDTypeError),
)


def as_builder_error(error: PootError) -> PootError:
    """The same error as a BuilderError, where it is one of the plain argument errors."""
    if isinstance(error, BuilderError):
        return error
    for plain, typed in _BUILDER_ERRORS:
        if isinstance(error, plain):
            return retyped(error, typed)
    return error
