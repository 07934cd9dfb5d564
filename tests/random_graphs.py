"""Random graphs over the whole table of primitives, with regions, effects and states, and arrays to bind to them.

    graph = random_graph(np.random.default_rng(7), "exact", equations=40)
    output = evaluate(graph, random_bindings(graph, rng, "exact")).output

Families:

- "exact": integers, bools, and floats that are NaN, infinite or multiples of a power of two within the precision of
  their dtype, so that every order of summation and every contraction gives the same bits.
- "float": any operation, but none that jumps (comparisons, rounding, casts to integers) on a float that was rounded.
- "any": no restriction, and literals such as NaN with a payload: for printing, parsing and saving.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from poot.dtypes import ALL, INTEGERS, ArraySpec, DType, bf16, bool_, f16, f32, f64
from poot.trace.builder import Builder
from poot.trace.graph import Graph, Tree, Value
from poot.trace.graph import Literal as Number
from poot.trace.limits import TraceLimits
from poot.trace.literals import literal
from poot.trace.tracer import Tracer
from tests import random_steps

Family = Literal["exact", "float", "any"]
SHAPES = ((), (1,), (7,), (3, 5), (5, 3), (4, 1, 9), (2, 3, 4), (0, 3), (33,), (12,), (3, 70), (130,))
NAMES = ("x", "params.layer.0.w", "two words", 'quo"te', "naïve", "α→β", "", "\n", "graph", "nan", "0", "\ud800")
PRECISION = {bf16: 8, f16: 11, f32: 24, f64: 53}
MAX_SIZE = 1 << 12

Pair = namedtuple("Pair", ("first", "second"))


@dataclass(frozen=True, slots=True)
class Known:
    """A value, and for floats what is known of it: |value| <= most * 2**-grain, a multiple of 2**-grain, or rounded."""

    handle: Tracer
    most: int = 0
    grain: int = 0
    rounded: bool = False

    @property
    def spec(self) -> ArraySpec:
        return self.handle.spec

    @property
    def dtype(self) -> DType:
        return self.handle.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.handle.shape


class Generator:
    """Makes equations at random on one builder; regions have generators of their own."""

    def __init__(self, rng: np.random.Generator, family: Family, builder: Builder, dtypes: Sequence[DType]) -> None:
        self.rng = rng
        self.family = family
        self.builder = builder
        self.dtypes = tuple(dtypes)
        self.values: list[Known] = []
        self.depth = 0

    # --- choices ---

    def choose(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def pick(self, wanted: Callable[[Known], bool]) -> Known | None:
        found = [known for known in self.values if wanted(known)]
        # Late values are preferred, so that graphs are deep.
        return None if not found else found[max(int(self.rng.integers(len(found))), int(self.rng.integers(len(found))))]

    def fresh(self, spec: ArraySpec) -> Known:
        """A new input of a spec, in the top graph any kind of variable."""
        count = self.builder._values.__len__()  # pyright: ignore[reportPrivateUsage]
        kinds = ("input",) if self.builder.outer is not None else ("input", "input", "constant", "state")
        name = f"{self.choose(NAMES)}{count}"
        return self.know(getattr(self.builder, self.choose(kinds))(name, spec), 16, 2)

    def know(self, handle: Tracer, most: int = 0, grain: int = 0, rounded: bool = False) -> Known:
        known = Known(handle, most, grain, rounded)
        self.values.append(known)
        return known

    def number(self, dtype: DType) -> tuple[Number, int, int]:
        """A literal with what is known of it."""
        if dtype.kind == "bool":
            return Number(bool(self.rng.integers(2)), dtype), 0, 0
        if dtype.is_integer:
            low, high = (-9, 9) if dtype.kind == "int" else (0, 9)
            return Number(int(self.choose((*range(low, high), dtype.max, dtype.min))), dtype), 0, 0
        if self.family == "exact":
            return Number(int(self.rng.integers(-8, 9)) / 4, dtype), 8, 2
        if self.family == "any":
            (payload,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000 | int(self.rng.integers(1 << 40))))
            return literal(self.choose((math.nan, payload, -0.0, 0.0, math.inf, -math.inf, 0.1, 1e30)), dtype), 0, 0
        return literal(self.choose((0.5, -1.25, 3.0, 0.1, -0.0)), dtype), 0, 0

    # --- equations ---

    def emit(self, primitive: str, inputs: Sequence[Known | Number], **params: Any) -> Tracer:
        return self.builder.emit(primitive, [i.handle if isinstance(i, Known) else i for i in inputs], params)[0]

    def fits(self, dtype: DType, most: int) -> bool:
        """Whether multiples of a grain up to `most` of them are numbers of the dtype."""
        return self.family != "exact" or not dtype.is_float or most <= 1 << PRECISION[dtype]

    def jumps_allowed(self, known: Known) -> bool:
        return self.family != "float" or not known.rounded

    def some(self, dtypes: Sequence[DType]) -> list[DType]:
        """Those of these dtypes that the graph may have."""
        return [dtype for dtype in dtypes if dtype in self.dtypes]

    def small(self, shape: Sequence[int]) -> bool:
        return math.prod(shape) <= MAX_SIZE

    def step(self) -> None:
        """One more equation, if a maker drawn at random finds operands."""
        random_steps.make(self)

    def inner(self, name: str, operands: Sequence[Known]) -> tuple[Generator, list[Known]]:
        """A generator for a region that takes the operands."""
        inner = Generator(self.rng, self.family, self.builder.region(name), self.dtypes)
        inner.depth = self.depth + 1
        inputs = [
            replace(known, handle=inner.builder.input(f"in{number}", known.spec))
            for number, known in enumerate(operands)
        ]
        inner.values += inputs
        return inner, inputs


def random_graph(
    rng: np.random.Generator, family: Family = "any", equations: int = 20, dtypes: Sequence[DType] | None = None
) -> Graph:
    """A graph of about as many equations, with a pytree of outputs."""
    wanted = tuple(dtypes or ALL)
    generator = Generator(rng, family, Builder(TraceLimits.STANDARD, name=_graph_name(rng)), wanted)
    for _ in range(3):
        generator.fresh(ArraySpec(generator.choose(wanted), generator.choose(SHAPES)))
    for _ in range(equations):
        generator.step()
    return generator.builder.finish(_outputs(generator), _updates(generator))


def whole(graph: Graph) -> Graph:
    """The graph with a tuple of outputs that needs every equation: its outputs, and every value that nothing uses."""
    used = {atom.id for equation in graph.equations for atom in equation.inputs if isinstance(atom, Value)}
    used |= {atom.id for _, atom in graph.updates if isinstance(atom, Value)}
    kept = dict.fromkeys(atom for atom in graph.outputs if isinstance(atom, Value))
    kept |= dict.fromkeys(v for equation in graph.equations for v in equation.outputs if v.id not in used)
    return replace(graph, outputs=tuple(kept), tree=Tree("tuple", (Tree(),) * len(kept)))


def primitives(graph: Graph, found: Counter[str]) -> None:
    """Count the equations of a graph, those of its regions included, by primitive."""
    for equation in graph.equations:
        found[equation.primitive] += 1
        for region in equation.regions:
            primitives(region, found)


def _graph_name(rng: np.random.Generator) -> str:
    return NAMES[int(rng.integers(len(NAMES)))]


def _outputs(generator: Generator) -> Any:
    handles = [generator.choose(generator.values).handle for _ in range(4)] + [generator.values[-1].handle]
    a, b, c, d, e = handles
    shapes = (
        (a, b, c, d, e),
        e,
        {"b": a, "a": [b, None], 3: {"": e}},
        Pair(Pair(a, e), (b,)),
        [(), {}, None, e, generator.number(generator.choose(generator.dtypes))[0]],
    )
    return generator.choose(shapes)


def _updates(generator: Generator) -> dict[str, Tracer]:
    updates: dict[str, Tracer] = {}
    for variable in generator.builder._variables["state"]:  # pyright: ignore[reportPrivateUsage]
        found = generator.pick(lambda known, spec=variable.spec: known.spec == spec)
        if found is not None and generator.rng.integers(3):
            updates[variable.name] = found.handle
    return updates


def random_bindings(graph: Graph, rng: np.random.Generator, family: Family = "any") -> dict[str, np.ndarray]:
    """An array for every variable of a graph, of values that its family admits."""
    return {variable.name: random_array(variable.spec, rng, family) for variable in graph.variables}


def random_array(spec: ArraySpec, rng: np.random.Generator, family: Family) -> np.ndarray:
    """Values of a family: sixteenths up to 4, normal floats, or anything; integers of any size."""
    dtype = spec.dtype
    if dtype is bool_:
        return np.asarray(rng.integers(0, 2, spec.shape)).astype(np.bool_)
    if dtype in INTEGERS:
        near = rng.integers(-9 if dtype.kind == "int" else 0, 10, spec.shape)
        wild = rng.integers(dtype.min, dtype.max, spec.shape, dtype=dtype.dtype, endpoint=True)
        return np.asarray(np.where(rng.integers(0, 3, spec.shape) > 0, near.astype(dtype.dtype), wild), dtype.dtype)
    exact = family == "exact"
    values = np.asarray(rng.integers(-16, 17, spec.shape) / 4 if exact else rng.normal(size=spec.shape))
    # One array in three has specials.
    share = 4 if family == "any" else 8 if rng.integers(3) == 0 else 0
    if share:
        specials = rng.choice([math.nan, -0.0, math.inf, -math.inf, 0.0], spec.shape)
        values = np.where(rng.integers(0, share, spec.shape) > 0, values, specials)
    return np.asarray(values).astype(dtype.dtype)
