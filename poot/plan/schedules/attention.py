"""Streaming attention: one thread a query, which goes along the keys block by block.

For each block of keys a thread computes its scores, then the maximum so far; what it has summed before is scaled to the
new maximum, and the powers of the block and the values that they weight are added.  Only a block of scores exists at a
time, in private memory.  Threads of a work-group read the same key or value together, so that on lanes it is one scalar
for a whole vector of queries, in whatever layout keys and values lie.

Keys that the mask leaves to no query of a work-group (`masks.py`) are not visited.  Two things make that exact.  Where
masked scores are finite, a work-group visits what it left out if a row turns out to have no score far enough above
them.  And since a weight of zero times an infinite value or NaN is NaN, a first kernel finds such values in each block
of keys, and blocks that are left out add what it found: zero or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from poot.dtypes import bool_
from poot.kernel.ir import Expr, Var
from poot.plan.elements import Elements
from poot.plan.groups import Group, Power, Shifts
from poot.plan.indexing import Affine, Axis, Indices, expand, flatten, of_axis, whole
from poot.plan.masks import Span, gap
from poot.plan.schedules.common import (
    Context,
    GroupPlan,
    Loop,
    Setup,
    bind_together,
    extent,
    make_grid,
    power_of_two,
    setup,
    start,
    stored,
)
from poot.plan.schedules.points import TOGETHER, Points, plus, tiled, together
from poot.plan.schedules.streams import Stream
from poot.trace.graph import Value


def lower_attention(context: Context, group: Group) -> GroupPlan:
    """The kernels of a group with attention."""
    plan = Stream(context, group)
    if plan.span is None:
        return GroupPlan((_stream(plan),))
    return GroupPlan((_spoilt(plan), _stream(plan)), (plan.spoilt,))


def _number(axes: Sequence[Axis]) -> Affine:
    return flatten(whole(axes), [axis.extent for axis in axes])


def _flat(loops: Sequence[Loop]) -> list[Axis]:
    return [axis for loop in loops for axis in loop]


def _spoilt(plan: Stream) -> Setup:
    """One thread a block and column of the values."""
    block = Axis("block", plan.blocks)
    loops = [*((axis,) for axis in plan.value_batch), (block,), *plan.columns]
    width = power_of_two(extent(loops[-1]), plan.context.costs.width(plan.accumulator))
    grid = make_grid(plan.context, plan.group, loops, width, whole=False)
    elements = start(plan.context, plan.group, grid, "_values", plan.index_dtype)
    k = elements.k
    with grid.bind(k):
        for axis in _flat([*plan.batch, *plan.rows]):
            if axis not in plan.value_batch:  # the element is the same whatever its value, which its index may name
                k.bind((axis,), k.i(0))
        number = k.local(of_axis(block))
        first = k.let(k.op("mul", number, k.i(plan.block)), "first")
        last = k.let(k.op("min", k.op("add", first, k.i(plan.block)), k.i(plan.length)), "last")
        found = k.variable(k.const(0, plan.accumulator), "found")
        with k.for_(first, last, hint="key") as key:
            bind_together(k, plan.keys, key)
            element = k.cast(elements.read(plan.value.atom, plan.value.index), plan.accumulator)
            nan = k.const(math.nan, plan.accumulator)
            k.assign(found, k.op("select", k.op("is_finite", element), found, nan))
        buffer = elements.temporary(0, plan.spoilt, "write")
        place = (k.expr(_number(plan.value_batch)), number, k.expr(_number(_flat(plan.columns))))
        k.store(buffer, place, found)
    return setup(elements, grid.groups)


# --- the kernel -------------------------------------------------------------------------------------------------------


def _stream(plan: Stream) -> Setup:
    """Work-groups of queries; along x the queries, so that consecutive groups share keys and values."""
    width = power_of_two(plan.row_count, plan.context.costs.stream_lanes)
    tile = Axis("tile", -(-plan.row_count // width))
    grid = make_grid(plan.context, plan.group, [*plan.batch, (tile,)], width, whole=True)
    elements = start(plan.context, plan.group, grid, "", plan.index_dtype)
    kernel = _Kernel(plan, elements, width)
    with grid.bind(elements.k):
        kernel.emit(tile)
    return setup(elements, grid.groups)


class _Kernel:
    """The kernel in the making: arrays of one thread, and its running maximum and sum."""

    def __init__(self, plan: Stream, elements: Elements, width: int) -> None:
        k, costs = elements.k, plan.context.costs
        self.plan = plan
        self.elements = elements
        self.k = k
        self.query = k.alloc("query", plan.product_dtype, (plan.depth,), "private")
        self.scores = k.alloc("scores", plan.dtype, (plan.block,), "private")
        self.sums = k.alloc("sums", plan.accumulator, (plan.column_count,), "private")
        self.width = width
        self.most = min(costs.stream_tile * costs.stream_lanes // width, TOGETHER)
        self.top: Var
        self.total: Var

    def emit(self, tile: Axis) -> None:
        """Everything that a thread does."""
        k, plan = self.k, self.plan
        first = k.let(k.op("mul", k.expr(of_axis(tile)), k.i(self.width)), "first")
        number = k.let(k.op("add", first, k.index("local", 0)), "row")
        exact = plan.row_count % self.width == 0
        row = number if exact else k.let(k.op("min", number, k.i(plan.row_count - 1)), "row")
        bind_together(k, plan.rows, row)
        self._load_query()
        self.top = k.variable(k.const(-math.inf, plan.dtype), "top")
        self.total = k.variable(k.const(0, plan.dtype), "total")
        self._ahead()
        self._visit()
        if exact:
            self._finish()
        else:
            with k.if_(k.op("lt", number, k.i(plan.row_count))):
                self._finish()

    def _load_query(self) -> None:
        k, plan = self.k, self.plan

        def tile(first: Expr, count: int) -> None:
            at = Points(k, plan.inner, first, count)
            self._read_ahead(plan.attention.inner, at)
            found = [self.elements.read(plan.query.atom, at(plan.query.index, n)) for n in range(count)]
            for n, element in enumerate(found):
                k.store(self.query, (plus(k, first, n),), k.cast(element, plan.product_dtype))

        tiled(k, plan.depth, together(plan.inner), tile)
        with k.for_(k.i(0), k.i(plan.column_count), hint="c") as place:
            k.store(self.sums, (place,), k.const(0, plan.accumulator))

    def _read_ahead(self, axes: Sequence[Axis], at: Points) -> None:
        """Read what lies along some axes and no others, neighbours one after another."""
        streamed = self.plan.attention
        others = [axis for axis in (*streamed.keys, *streamed.inner, *streamed.columns) if axis not in axes]
        for value, places in self._known():
            for index in places:
                if streamed.uses(axes, index) and not streamed.uses(others, index):
                    for n in range(at.count):
                        self.elements.read(value, at(index, n))

    def _known(self) -> list[tuple[Value, Sequence[Indices]]]:
        """The values that the kernel reads from memory wherever it is, with the places."""
        group = self.plan.group
        found = ((value, group.places.get(value.id)) for value in group.reads.values())
        return [(value, places) for value, places in found if places and value.id not in group.conditional]

    def _ahead(self) -> None:
        """Read what has one value a query before the loops."""
        streamed = self.plan.attention
        moving = (*streamed.keys, *streamed.inner, *streamed.columns)
        for value, places in self._known():
            for index in places:
                if not streamed.uses(moving, index):
                    self.elements.read(value, index)

    # --- along the keys ---

    def _visit(self) -> None:
        """Every block of keys that some query of the work-group may attend to."""
        k, plan = self.k, self.plan
        whole, rest = divmod(plan.length, plan.block)
        if plan.span is None:
            with k.for_(k.i(0), k.i(whole), hint="block") as block:
                self._block(k.let(k.op("mul", block, k.i(plan.block)), "first"), plan.block)
            if rest:
                self._block(k.i(whole * plan.block), rest)
            return
        low, high = self._limits(plan.span)
        with k.for_(k.i(0), k.i(3), hint="part") as part:
            middle, left = k.op("eq", part, k.i(0)), k.op("eq", part, k.i(1))
            first = k.let(k.op("select", middle, low, k.op("select", left, k.i(0), high)), "first")
            last = k.let(k.op("select", middle, high, k.op("select", left, low, k.i(plan.blocks))), "last")
            visited = k.let(self._needed(plan.span, middle), "visited")
            end = k.let(k.op("min", k.op("select", visited, last, first), k.i(whole)), "end")
            with k.for_(first, end, hint="block") as block:
                self._block(k.let(k.op("mul", block, k.i(plan.block)), "first"), plan.block)
            if rest:
                inside = k.op("and", k.op("le", first, k.i(whole)), k.op("lt", k.i(whole), last))
                with k.if_(k.op("and", visited, inside)):
                    self._block(k.i(whole * plan.block), rest)
            self._spoil(k.let(k.op("select", visited, last, first), "left"), last)

    def _limits(self, found: Span) -> tuple[Expr, Expr]:
        """The blocks that matter to some query of the work-group: the first one, and the one after the last."""
        k, plan = self.k, self.plan
        low: Expr = k.i(0)
        for form in found.low:
            low = k.op("max", low, k.local(form))
        high: Expr = k.i(plan.length)
        for form in found.high:
            high = k.op("min", high, k.local(form))
        if found.low:
            low = k.collective("min", k.let(low), "low")
            low = k.op("max", k.op("min", low, k.i(plan.length)), k.i(0))
        if found.high:
            high = k.collective("max", k.let(high), "high")
        first = k.let(k.op("floor_div", low, k.i(plan.block)), "low")
        after = k.op("floor_div", k.op("add", high, k.i(plan.block - 1)), k.i(plan.block))
        return first, k.let(k.op("min", k.op("max", after, first), k.i(plan.blocks)), "high")

    def _needed(self, found: Span, middle: Expr) -> Expr:
        """Whether the blocks of a part are visited: those in the middle, and others where masked scores might count."""
        k, plan = self.k, self.plan
        if found.fill == -math.inf:
            return middle
        fill = k.const(found.fill, plan.dtype)
        near = k.op("not", k.op("gt", k.op("sub", self.top, fill), k.const(gap(plan.dtype), plan.dtype)))
        return k.op("or", middle, k.collective("any", k.let(near), "near"))

    def _spoil(self, first: Expr, last: Expr) -> None:
        """Add what blocks that are not visited contribute: zero times their values."""
        k, plan = self.k, self.plan
        buffer = self.elements.temporary(0, plan.spoilt, "read")
        batch = k.expr(_number(plan.value_batch))
        with k.for_(first, last, hint="block") as block, k.for_(k.i(0), k.i(plan.column_count), hint="c") as place:
            found = k.load(buffer, (batch, block, place))
            k.store(self.sums, (place,), k.op("add", k.load(self.sums, (place,)), found))

    def _block(self, first: Expr, count: int) -> None:
        """The scores of a block, their maximum, their powers, and the values weighted by them."""
        k, plan = self.k, self.plan
        tiled(k, count, self.most, lambda at, n: self._products(first, at, n))
        before = k.let(self.top, "before")
        tiled(k, count, self._scores_together(), lambda at, n: self._scores(first, at, n))
        base = self._shift()
        scale = k.let(k.op("exp", k.op("sub", before, base)), "scale")
        k.assign(self.total, k.op("mul", self.total, scale))
        with k.for_(k.i(0), k.i(count), hint="j") as place:
            power = k.let(k.op("exp", k.op("sub", k.load(self.scores, (place,)), base)), "power")
            k.store(self.scores, (place,), power)
            k.assign(self.total, k.op("add", self.total, power))
        scale = k.cast(scale, plan.accumulator)
        tiled(k, plan.column_count, self.most, lambda at, n: self._values(first, count, scale, at, n))

    def _bind_key(self, first: Expr, place: Expr) -> None:
        bind_together(self.k, self.plan.keys, self.k.variable(self.k.op("add", first, place), "key"))

    def _products(self, first: Expr, at: Expr, count: int) -> None:
        """Products of the query with some keys."""
        k, plan = self.k, self.plan
        dtype = plan.product_dtype
        begin = k.let(k.op("add", first, at), "key")
        numbers = [k.let(k.op("add", begin, k.i(n)), "key") if n else begin for n in range(count)]
        sums = [k.variable(k.const(0, dtype), "sum") for _ in numbers]
        with k.for_(k.i(0), k.i(plan.depth), hint="k") as place:
            bind_together(k, plan.inner, place)
            a = k.let(k.load(self.query, (place,)), "a")
            for number, total in zip(numbers, sums, strict=True):
                with k.forgetting():
                    bind_together(k, plan.keys, number)
                    b = k.let(k.cast(self.elements.read(plan.key.atom, plan.key.index), dtype), "b")
                    k.assign(total, k.op("add", total, k.op("mul", a, b)))
        for n, total in enumerate(sums):
            k.store(self.scores, (k.op("add", at, k.i(n)),), k.cast(total, plan.dtype))

    def _scores_together(self) -> int:
        """Scores that are computed at a time: several where something else has an element for each, side by side."""
        streamed = self.plan.attention
        last = self.plan.keys[-1][-1]
        beside = any(
            flatten(index, value.shape).coefficient(last) == 1 and value.dtype is not bool_
            for value, places in self._known()
            for index in places
            if streamed.is_score(index) and streamed.uses([axis for loop in self.plan.rows for axis in loop], index)
        )
        return together(self.plan.keys) if beside else 1

    def _scores(self, first: Expr, place: Expr, count: int) -> None:
        """The scores at some keys, from the products that stand in their places."""
        k, plan = self.k, self.plan
        at = Points(k, plan.keys, k.variable(k.op("add", first, place), "key"), count)
        places = [plus(k, place, n) for n in range(count)]
        for n, own in enumerate(places):
            product = k.variable(k.cast(k.load(self.scores, (own,)), plan.products.dtype), "product")
            self._put(plan.products, at, n, product)
        self._read_ahead(plan.attention.keys, at)
        score = plan.attention.score
        (index,) = plan.group.places[score.id] or [()]
        for n, own in enumerate(places):
            element = k.let(k.cast(self.elements.read(score, at(index, n)), plan.dtype), "score")
            k.store(self.scores, (own,), element)
            k.assign(self.top, k.op("max", self.top, element))

    def _put(self, value: Value, at: Points, n: int, element: Expr) -> None:
        """Let a value have an element at its place, for the rest of the block."""
        (index,) = self.plan.group.places[value.id] or [()]
        self.k.remember((value.id, tuple(map(expand, at(index, n)))), element)

    def _shift(self) -> Expr:
        """What is subtracted from scores: the maximum, or 0 as long as that is -inf."""
        k = self.k
        none = k.op("eq", self.top, k.const(-math.inf, self.plan.dtype))
        return k.let(k.op("select", none, k.const(0, self.plan.dtype), self.top), "base")

    def _values(self, first: Expr, count: int, scale: Expr, at: Expr, columns: int) -> None:
        """Some columns of the values, weighted by the powers of a block."""
        k, plan = self.k, self.plan
        numbers = [k.let(k.op("add", at, k.i(n)), "c") if n else at for n in range(columns)]
        sums = [k.variable(k.op("mul", k.load(self.sums, (number,)), scale), "sum") for number in numbers]
        with k.for_(k.i(0), k.i(count), hint="j") as place:
            self._bind_key(first, place)
            a = k.let(k.cast(k.load(self.scores, (place,)), plan.accumulator), "a")
            for number, total in zip(numbers, sums, strict=True):
                with k.forgetting():
                    bind_together(k, plan.columns, number)
                    b = k.let(k.cast(self.elements.read(plan.value.atom, plan.value.index), plan.accumulator), "b")
                    k.assign(total, k.op("add", total, k.op("mul", a, b)))
        for number, total in zip(numbers, sums, strict=True):
            k.store(self.sums, (number,), total)

    # --- after them ---

    def _finish(self) -> None:
        """Row values from the maximum and the sums, then every column of the result."""
        k, plan, elements = self.k, self.plan, self.elements
        streamed = plan.attention
        for number, shifts in streamed.maxima:
            (value,) = plan.equation(number).outputs
            elements.resident[value.id] = k.variable(k.cast(self._shifted(shifts), value.dtype), "v")
        for number, power in streamed.sums:
            (value,) = plan.equation(number).outputs
            total = k.op("mul", self.total, self._power(power))
            elements.resident[value.id] = k.variable(k.cast(total, value.dtype), "v")
        weight = k.let(k.cast(self._power(streamed.weights), plan.accumulator), "weight")

        def tile(first: Expr, count: int) -> None:
            at = Points(k, plan.columns, first, count)
            for n in range(count):
                total = k.op("mul", k.load(self.sums, (plus(k, first, n),)), weight)
                self._put(plan.result, at, n, k.variable(k.cast(total, plan.result.dtype), "dot"))
            self._read_ahead(streamed.columns, at)
            outputs = [(value, at(index, n)) for value, index in stored(plan.group) for n in range(count)]
            made = [elements.read(value, index) for value, index in outputs]
            for (value, index), element in zip(outputs, made, strict=True):
                elements.store(value, index, element)

        tiled(k, plan.column_count, together(plan.columns), tile)

    def _power(self, power: Power) -> Expr:
        """What sums of powers, taken relative to the maximum, are to be multiplied with."""
        k, dtype = self.k, self.plan.dtype
        result: Expr = k.op("exp", self._shifted(power.shifts))
        for name, atom, index in power.factors:
            result = k.op(name, result, k.cast(self.elements.read(atom, index), dtype))
        return k.let(result, "weight")

    def _shifted(self, shifts: Shifts) -> Expr:
        """The maximum, less row values."""
        k = self.k
        exponent: Expr = self.top
        for atom, index in reversed(shifts):
            exponent = k.op("sub", exponent, k.cast(self.elements.read(atom, index), self.plan.dtype))
        return exponent
