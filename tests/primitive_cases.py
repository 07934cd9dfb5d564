"""Generated cases of the primitives: every example of an entry with every dtype, and values with specials.

for case in cases(lookup("add")):
    graph = case_graph(case)
    arrays = draw(operands(case))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from poot.dtypes import ArraySpec, DType
from poot.trace.builder import Builder
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits
from poot.trace.primitives import Example, Primitive, table
from poot.trace.rounding import round_once


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """An entry, one of its examples, and the dtypes of the operands."""

    primitive: Primitive
    example: Example
    dtypes: tuple[DType, ...]

    def __repr__(self) -> str:
        return f"{self.primitive.name}({', '.join(map(str, self.specs))}; {self.example.params})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec(dtype, shape) for dtype, shape in zip(self.dtypes, self.example.shapes, strict=True))

    @property
    def bounds(self) -> tuple[tuple[float, float] | None, ...]:
        missing = len(self.example.shapes) - len(self.example.bounds)
        return self.example.bounds + (None,) * missing


def cases(primitive: Primitive) -> list[Case]:
    """Every example with every dtype of the entry; examples that fix all dtypes once."""
    found: dict[tuple[int, tuple[DType, ...]], Case] = {}
    for dtype in primitive.dtypes:
        for number, example in enumerate(primitive.examples):
            fixed = example.dtypes + (None,) * (len(example.shapes) - len(example.dtypes))
            dtypes = tuple(own or dtype for own in fixed)
            found.setdefault((number, dtypes), Case(primitive, example, dtypes))
    return list(found.values())


def by_dtype(primitives: Sequence[Primitive] | None = None) -> Iterator[tuple[str, list[Case]]]:
    """The cases of every entry in groups by the dtypes of their operands, with an id such as "add-f32"."""
    for primitive in table() if primitives is None else primitives:
        groups: dict[str, list[Case]] = {}
        for case in cases(primitive):
            first = case.dtypes[0].name if case.dtypes else str(case.example.params.get("dtype", ""))
            groups.setdefault(f"{primitive.name}-{first}", []).append(case)
        yield from groups.items()


def case_graph(case: Case) -> Graph:
    """A graph of the one equation, with inputs a0, a1 … and a tuple of results."""
    builder = Builder(TraceLimits.STANDARD, name=case.primitive.name)
    handles = [builder.input(f"a{number}", spec) for number, spec in enumerate(case.specs)]
    return builder.finish(builder.emit(case.primitive.name, handles, case.example.params))


# --- values -----------------------------------------------------------------------------------------------------------

_TIES = (1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40)
_FLOATS = (*_TIES, 0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.5, 10.0, 100.0, math.pi, 1 / 3, 88.0, 1e-3, 4097.0, math.inf)
_INTS = (0, 1, 2, 3, 5, 7, 8, 10, 31, 32, 63, 64, 100)
_LEAST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149, "f64": 2.0**-1074}


def special_numbers(dtype: DType) -> list[Any]:
    """Numbers on which implementations differ: ends of the range, powers of two, ties, subnormals, NaN."""
    if dtype.kind == "bool":
        return [False, True]
    low, high = dtype.min, dtype.max
    if dtype.is_integer:
        near = [*_INTS, *(low + n for n in range(3)), *(high - n for n in range(3))]
        near += [1 << n for n in range(0, dtype.bits, 5)]
        # Half-way between two numbers of f32, f16 and bf16, and a little more, which float64 cannot hold.
        ties = [(top, top - places) for top in (14, 30, 62) for places in (8, 11, 24) if top > places]
        near += [(1 << top) + (1 << half) + 1 for top, half in ties]
        return sorted({n for number in near for n in (number, -number) if low <= n <= high})
    found = [*_FLOATS, float(high), _LEAST[dtype.name], 3 * _LEAST[dtype.name]]
    return [*found, *(-x for x in found), math.nan]


def special_values(dtype: DType) -> np.ndarray:
    """The special numbers as an array of the dtype."""
    numbers = special_numbers(dtype)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return round_once(np.array(numbers, np.float64), dtype)
    return np.array(numbers, dtype.dtype)


def elements(dtype: DType, bounds: tuple[float, float] | None = None) -> st.SearchStrategy[int]:
    """Bit patterns of one element: specials, small numbers, and any pattern at all."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if dtype.kind == "bool":
        return st.integers(0, 1)
    if bounds is not None:
        low, high = (int(bound) for bound in bounds)
        return st.integers(max(low, int(dtype.min)), min(high, int(dtype.max))).map(lambda n: n % (1 << dtype.bits))
    pool = sorted(set(special_values(dtype).view(unsigned).tolist()))
    small = np.arange(-20 if dtype.min < 0 else 0, 21).astype(np.float64) / (4 if dtype.is_float else 1)
    modest = small.astype(dtype.dtype).view(unsigned).tolist()
    return st.one_of(st.sampled_from(pool), st.sampled_from(modest), st.integers(0, (1 << dtype.bits) - 1))


def values(spec: ArraySpec, bounds: tuple[float, float] | None = None) -> st.SearchStrategy[np.ndarray]:
    """Arrays of a spec, their elements drawn by `elements`."""
    dtype = spec.dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = hnp.arrays(unsigned, spec.shape, elements=elements(dtype, bounds), fill=st.nothing())
    return bits.map(
        lambda array: array.view(dtype.dtype) if array.ndim else array.reshape(1).view(dtype.dtype).reshape(())
    )


def operands(case: Case) -> st.SearchStrategy[tuple[np.ndarray, ...]]:
    """An array for every operand of a case."""
    return st.tuples(*(values(spec, bound) for spec, bound in zip(case.specs, case.bounds, strict=True)))


def sample(case: Case, rng: np.random.Generator, few: bool = False) -> list[np.ndarray]:
    """An array for every operand of a case, a third of its elements specials, a third small, a third any pattern.

    With `few`, all elements of an operand come from three specials, so that ties, and rows of zeros alone, are common.
    """
    return [sample_array(spec, bounds, rng, few) for spec, bounds in zip(case.specs, case.bounds, strict=True)]


def _few(pool: np.ndarray, dtype: DType, rng: np.random.Generator) -> np.ndarray:
    zeros = pool[special_values(dtype) == 0]
    return rng.choice(zeros, 2) if rng.integers(3) == 0 else rng.choice(pool, 3)


def sample_array(
    spec: ArraySpec, bounds: tuple[float, float] | None, rng: np.random.Generator, few: bool
) -> np.ndarray:
    dtype, unsigned = spec.dtype, np.dtype(f"u{spec.dtype.itemsize}")
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, spec.shape)).astype(np.bool_)
    if bounds is not None:
        low, high = max(bounds[0], dtype.min), min(bounds[1], dtype.max)
        return np.asarray(rng.integers(int(low), int(high), spec.shape, endpoint=True)).astype(dtype.dtype)
    pool = special_values(dtype).view(unsigned)
    special = rng.choice(_few(pool, dtype, rng) if few else pool, spec.shape)
    modest = np.asarray(rng.integers(-20 if dtype.min < 0 else 0, 21, spec.shape) / (4 if dtype.is_float else 1))
    small = np.ascontiguousarray(modest.astype(dtype.dtype)).reshape(-1).view(unsigned).reshape(spec.shape)
    wild = rng.integers(0, 1 << dtype.bits, spec.shape, dtype=unsigned)
    kind = np.zeros(spec.shape) if few else rng.integers(0, 3, spec.shape)
    bits = np.asarray(np.where(kind == 0, special, np.where(kind == 1, small, wild)), unsigned)
    return np.ascontiguousarray(bits).reshape(-1).view(dtype.dtype).reshape(spec.shape)
