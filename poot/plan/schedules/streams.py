"""Attention by its axes: what streaming attention reads, at which indices, and the loops that it goes through."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import cast

from poot.dtypes import ArraySpec, DType, f32, i32, i64
from poot.plan.elements import probe
from poot.plan.emitter import Emitter
from poot.plan.groups import Attention, Group
from poot.plan.indexing import Axis, Indices, flatten, loops_of
from poot.plan.masks import Span, span
from poot.plan.schedules.common import Context, Loop, accesses, by_stride, collapse, extent, pinned
from poot.trace.graph import Atom, Equation, Value
from poot.trace.primitives import Pull, lookup


@dataclass(frozen=True, slots=True)
class Side:
    """An operand of a contraction: what is read, at which index, and the shape and index of what lies in memory."""

    atom: Atom
    index: Indices
    shape: tuple[int, ...]
    place: Indices

    @property
    def axes(self) -> set[Axis]:
        return {axis for form in self.place for axis in loops_of(form)}


def _side(context: Context, group: Group, atom: Atom, index: Indices) -> Side:
    makers = {value.id: equation for equation in group.members.values() for value in equation.outputs}
    inner, at = atom, index
    while isinstance(inner, Value) and (equation := makers.get(inner.id)) is not None:
        rule = lookup(equation.primitive).lower
        if not isinstance(rule, Pull):
            break
        found = probe(Emitter("probe", context.space, probing=True), equation, rule, at)
        if not found.view:
            break
        inner, at = equation.inputs[found.reads[0].operand], found.reads[0].index
    return Side(atom, index, inner.shape, at)


@dataclass(slots=True)
class Stream:
    """Attention by its axes: a work-group takes `width` queries, which are `rows`, at one point of `batch`."""

    context: Context
    group: Group
    attention: Attention = field(init=False)
    query: Side = field(init=False)
    key: Side = field(init=False)
    value: Side = field(init=False)
    batch: list[Loop] = field(init=False)
    rows: list[Loop] = field(init=False)
    keys: list[Loop] = field(init=False)
    inner: list[Loop] = field(init=False)
    columns: list[Loop] = field(init=False)
    span: Span | None = field(init=False)

    def __post_init__(self) -> None:
        group, streamed = self.group, self.group.attention
        assert streamed is not None
        self.attention = streamed
        sides = [
            _side(self.context, group, atom, index)
            for number in (streamed.products, group.contraction)
            for atom, index in zip(group.members[number].inputs, group.operands[number], strict=True)
        ]
        self.query, self.key = sides[streamed.query], sides[1 - streamed.query]
        self.value = sides[2 + streamed.value]
        forms = accesses(group)
        fixed = pinned(group, forms)
        shared = self.key.axes | self.value.axes
        columns = {leaf for axis in streamed.columns for leaf in axis.leaves()}
        outer = [axis for axis in group.parallel_leaves() if axis not in columns]
        order = by_stride([axis for axis in outer if axis not in shared], flatten(self.query.place, self.query.shape))
        self.rows = collapse(order, forms, fixed)
        self.batch = collapse([axis for axis in outer if axis in shared], forms, fixed)
        self.keys, self.inner, self.columns = (
            collapse([leaf for axis in axes for leaf in axis.leaves()], forms, fixed)
            for axes in (streamed.keys, streamed.inner, streamed.columns)
        )
        # An element that faults is read whatever the mask says.
        self.span = span(self.context.space, group) if self.blocks > 1 and not group.faults else None

    def equation(self, number: int) -> Equation:
        return self.group.members[number]

    @property
    def products(self) -> Value:
        return self.equation(self.attention.products).outputs[0]

    @property
    def result(self) -> Value:
        return self.equation(self.group.contraction).outputs[0]

    @property
    def dtype(self) -> DType:
        """The dtype of scores and powers."""
        return max((self.attention.score.dtype, self.accumulator, f32), key=lambda dtype: dtype.bits)

    @property
    def accumulator(self) -> DType:
        """The dtype in which weighted values are summed."""
        return cast("DType", self.equation(self.group.contraction).params["accumulate"])

    @property
    def product_dtype(self) -> DType:
        """The dtype in which products of queries and keys are summed."""
        return cast("DType", self.equation(self.attention.products).params["accumulate"])

    @property
    def index_dtype(self) -> DType:
        sizes = [value.spec.size for value in (*self.group.outputs, *self.group.reads.values())]
        return i64 if max(sizes) >= 1 << 31 else i32

    @property
    def row_count(self) -> int:
        return prod(map(extent, self.rows))

    @property
    def length(self) -> int:
        return prod(map(extent, self.keys))

    @property
    def depth(self) -> int:
        return prod(map(extent, self.inner))

    @property
    def column_count(self) -> int:
        return prod(map(extent, self.columns))

    @property
    def block(self) -> int:
        """Keys of a block: fewer than the target's where all blocks are alike then, which halves the kernel."""
        costs, length = self.context.costs, self.length
        even = range(costs.stream_block, costs.stream_block // 2, -costs.stream_tile)
        return next((size for size in even if length % size == 0), min(costs.stream_block, length))

    @property
    def blocks(self) -> int:
        """Blocks of keys, the last one of which may be shorter."""
        return -(-self.length // self.block)

    # --- values that are not finite ---

    @property
    def value_batch(self) -> list[Axis]:
        return [axis for loop in self.batch for axis in loop if axis in self.value.axes]

    @property
    def spoilt(self) -> ArraySpec:
        """[batch, block, column]: NaN where a value of the block is infinite or NaN, else 0."""
        batch = prod(axis.extent for axis in self.value_batch)
        return ArraySpec(self.accumulator, (batch, self.blocks, self.column_count))
