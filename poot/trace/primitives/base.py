"""What a primitive is: one entry of the table.

An entry states everything about its operation: the type rule, the oracle rule, the lowering rule, the numerics class
and example arguments from which tests, reference pages and user functions are generated.  `register` adds one; nothing
else has to be touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from poot.dtypes import ALL, ArraySpec, DType
from poot.errors import ArgumentError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.records import record
from poot.trace.graph import Equation, Graph, Params

Kind = Literal["map", "reduce", "scan", "view", "index", "contract", "random", "control", "kernel"]
Array: TypeAlias = np.ndarray[Any, Any]

#: The type rule: operand specs, parameters and regions to result specs; raises ShapeError, DTypeError or ArgumentError.
TypeRule: TypeAlias = Callable[[tuple[ArraySpec, ...], Params, tuple[Graph, ...]], tuple[ArraySpec, ...]]
#: Evaluates a region in the oracle.
RunRegion: TypeAlias = Callable[[Graph, Sequence[Array]], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class OracleCall:
    """What an oracle rule gets besides its operands.

    Float operands arrive as float64 (the values of their own dtype, exactly); a float result is returned in float64
    and the evaluator rounds it once to the dtype of the type rule.  Integers and bools arrive and return in their
    dtype, and a result that already has the dtype of the type rule is taken as it is.  In an entry with `stored=True`
    floats too arrive in their own dtype: for rules that move or reinterpret elements and must keep every bit.
    """

    params: Params
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    regions: tuple[Graph, ...]
    run: RunRegion


OracleRule: TypeAlias = Callable[..., "Array | tuple[Array, ...]"]  # (call: OracleCall, *operands)


# --- lowering: how an equation becomes kernel IR --------------------------------------------------------------------

#: Reads one element of an operand: one index expression an axis to the element's value.
Reader: TypeAlias = Callable[[Sequence[Expr]], Expr]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A MAP: `body(k, operands, params, result dtype)` gives the result element from the operand elements.

    A 0-d operand among shaped ones is spread over all elements.  A body may emit statements through the builder.
    """

    body: Callable[[KernelBuilder, tuple[Expr, ...], Params, DType], Expr]


@record
class PullContext:
    """What a `Pull` body works with: the builder, one reader an operand, and the equation with its specs.

    `readers` are given indices that the rule has proven in bounds.  `checked_readers` accept any index: one out of
    range reads 0 and records a fault that names the equation's line; only rules with the effect "fault" use them.
    """

    k: KernelBuilder
    readers: tuple[Reader, ...]
    checked_readers: tuple[Reader, ...]
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    params: Params


#: Writes one element of a result: its index, and the element.
Writer: TypeAlias = Callable[[Sequence[Expr], Expr], None]


@dataclass(frozen=True, slots=True)
class Update:
    """How a result is made in the memory of the first operand, of which few elements change.

    `points(operand specs, params)` is the shape of a grid no two points of which change the same element, or None where
    there is no such grid.  `body(context, point, write)` changes the elements of one point, one after another.  It
    reads the first operand nowhere but at those, and `context.readers[0]` gives them as they are by then.
    """

    points: Callable[[tuple[ArraySpec, ...], Params], tuple[int, ...] | None]
    body: Callable[[PullContext, tuple[Expr, ...], Writer], None]


@dataclass(frozen=True, slots=True)
class Pull:
    """Each output element is computed from its index: `body(context, index)` gives one expression an output.

    `movement` says that every output element is a copy of at most one operand element, or a constant, so that the
    planner may fold the rule into the index expressions of whoever reads the result.  A body may emit statements
    (loops, conditions) through the builder; it reads operands through the readers of its context alone, each at indices
    of the builder's index dtype, and only where control flow has made them in bounds.  `update` is another way to the
    result, for loops that carry it.
    """

    body: Callable[[PullContext, tuple[Expr, ...]], tuple[Expr, ...]]
    movement: bool = False
    update: Update | None = None


@dataclass(frozen=True, slots=True)
class Reduction:
    """A REDUCE over `params["axes"]`: an associative `combine` with its `identity` in the accumulator's dtype.

    `accumulator(dtype)` is the dtype of the running value (f32 for f16 and bf16), `collective` the group operation that
    combines the lanes.
    """

    combine: Callable[[KernelBuilder, Expr, Expr], Expr]
    identity: Callable[[DType], bool | int | float]
    collective: Literal["sum", "max", "min", "any", "all"] | None
    accumulator: Callable[[DType], DType]


@dataclass(frozen=True, slots=True)
class Contraction:
    """dot_general: the planner has schedules of its own for it, read from the equation's parameters."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Rewritten before planning into other primitives: `body(emit, equation)` emits them and returns the results.

    `emit(primitive, inputs, **params)` appends an equation and returns its outputs.
    """

    body: Callable[[Callable[..., Any], Equation], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class HostControl:
    """A CONTROL primitive whose regions become programs of their own; the executor drives them (`form` says how)."""

    form: Literal["cond", "while", "scan"]


@dataclass(frozen=True, slots=True)
class Launches:
    """The rule builds whole kernels itself: `body(equation)` gives a `KernelPlan` (see plan/lower.py)."""

    body: Callable[[Equation], Any]


Lowering: TypeAlias = Elementwise | Pull | Reduction | Contraction | Inline | HostControl | Launches


# --- the entry ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numerics:
    """How far a device may be from the oracle.

    `exact` results agree bit for bit on every device.  Others agree within `ulps` units in the last place of the result
    dtype, or, for sums of n terms (`depth` gives n from the specs), within eps * n of the sum of magnitudes; products
    of n factors whose partial products stay within the range, within eps * n of their magnitude.  Integer and bool
    results are exact in every entry.
    """

    exact: bool = True
    ulps: float = 0.0
    depth: Callable[[tuple[ArraySpec, ...], Params], int] | None = None


EXACT = Numerics()


@dataclass(frozen=True, slots=True)
class Example:
    """Operand shapes and parameters that are valid together; the tests fill in values of every dtype of the entry.

    `bounds` gives, per operand, an inclusive range of values (or None), for indices and the like; `dtypes` fixes an
    operand's dtype where it is not the entry's (or None).
    """

    shapes: tuple[tuple[int, ...], ...]
    params: Params = field(default_factory=Params)
    bounds: tuple[tuple[float, float] | None, ...] = ()
    dtypes: tuple[DType | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Primitive:
    """One entry of the table; see the module's docstring.

    `dtypes` are what the operands may have, as far as an example does not fix them.  `effects` are what every equation
    has, or a function of its parameters ("fault": it can raise at run time, and a pass must keep it).
    """

    name: str
    kind: Kind
    doc: str
    type_rule: TypeRule
    oracle: OracleRule
    lower: Lowering
    dtypes: tuple[DType, ...] = ALL
    numerics: Numerics = EXACT
    examples: tuple[Example, ...] = ()
    effects: frozenset[str] | Callable[[Params], frozenset[str]] = frozenset()
    stored: bool = False
    vjp: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None


@dataclass(slots=True)
class Typing:
    """What type rules say, remembered for one graph: layer after layer applies the same primitive to the same specs."""

    _known: dict[object, tuple[tuple[ArraySpec, ...], frozenset[str]]] = field(
        default_factory=dict[object, "tuple[tuple[ArraySpec, ...], frozenset[str]]"]
    )

    def __call__(
        self, primitive: Primitive, specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]
    ) -> tuple[tuple[ArraySpec, ...], frozenset[str]]:
        """The specs of the results of an equation, and its effects; the errors of the primitive's type rule."""
        key = primitive.name, specs, params
        try:
            known = None if regions else self._known.get(key)
        except TypeError:  # parameters that are no plain data
            return primitive.type_rule(specs, params, regions), effects_of(primitive, params, regions)
        if known is not None:
            return known
        found = primitive.type_rule(specs, params, regions), effects_of(primitive, params, regions)
        if not regions:
            self._known[key] = found
        return found


def effects_of(primitive: Primitive, params: Params, regions: Sequence[Graph]) -> frozenset[str]:
    """The effects of an equation: its entry's, and those of every equation in its regions."""
    own = primitive.effects(params) if callable(primitive.effects) else primitive.effects
    return own.union(*(equation.effects for region in regions for equation in region.equations))


_TABLE: dict[str, Primitive] = {}


def register(primitive: Primitive) -> Primitive:
    """Add an entry; ArgumentError if the name is taken."""
    if primitive.name in _TABLE:
        raise ArgumentError(what="primitive", actual=primitive.name, expected="a new name")
    _TABLE[primitive.name] = primitive
    return primitive


def unregister(name: str) -> None:
    """Take an entry out again."""
    del _TABLE[name]


def lookup(name: str) -> Primitive:
    """The entry called `name`; ArgumentError if there is none."""
    if name not in _TABLE:
        raise ArgumentError(what="primitive", actual=name, expected="one of " + ", ".join(sorted(_TABLE)))
    return _TABLE[name]


def is_movement(name: str) -> bool:
    """Whether the results of a primitive are copies of elements, which readers may fold into their indices."""
    rule = lookup(name).lower
    return isinstance(rule, Pull) and rule.movement


def table() -> tuple[Primitive, ...]:
    """Every entry, in the order of registration."""
    return tuple(_TABLE.values())
