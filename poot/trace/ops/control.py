"""Control flow that depends on values: cond, while_loop and scan.

While tracing, each records one equation whose branches or bodies are regions: they are traced once, however often they
run.  On concrete arrays outside a trace they are Python's own `if`, `while` and `for`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from poot.dtypes import ArraySpec, bool_, i32
from poot.errors import ArgumentError, ArgumentTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, python_number
from poot.trace.dispatch import Operand, active, joined, lift
from poot.trace.graph import Literal, Params
from poot.trace.ops import creation, manipulation
from poot.trace.ops.axes import flag, shown, static_int
from poot.trace.ops.axes import operands as operands_of
from poot.trace.ops.maps import truth
from poot.trace.ops.promotion import cast, dtype_of, shape_of, spec_of, strong
from poot.trace.ops.regions import Region, common_specs, conformed, of_trace, same_structure
from poot.trace.places import together
from poot.trace.source import user_location
from poot.trace.tracer import Tracer
from poot.trace.tree import Flat, flatten

T = TypeVar("T")

_BEFORE = "as before the step"


def cond(predicate: ArrayLike, when_true: Callable[..., T], when_false: Callable[..., T], /, *operands: Any) -> T:
    """The results of `when_true(*operands)` where a 0-d predicate is true (not zero), else of `when_false(*operands)`.

    Both give pytrees of one structure, with leaves of equal shapes and dtypes; a Python number takes the dtype of the
    other branch's leaf.  A predicate that is a Python number chooses at once.
    """
    _check_callable(when_true, "cond: when_true")
    _check_callable(when_false, "cond: when_false")
    if isinstance(predicate, (bool, int, float, np.generic)):
        return (when_true if predicate else when_false)(*operands)
    together(("the predicate", "an operand"), predicate, *flatten(operands).leaves)
    with joined(predicate, *flatten(operands).leaves):
        flag, context = _flag(predicate, "cond: predicate"), active()
        if context is None:
            return (when_true if flag else when_false)(*operands)
        regions = [Region(context, name) for name in ("when_false", "when_true")]
        no, yes = regions[0].record(when_false, *operands), regions[1].record(when_true, *operands)
        same_structure(yes, no, "cond: results of when_true", "as when_false gives")
        specs = common_specs(no, yes, "cond: results")
        results = [
            region.conform(flat, specs, f"cond: results of {region.builder.name}", "as the other branch gives")
            for region, flat in zip(regions, (no, yes), strict=True)
        ]
        captures = {(id(x.builder), x.id): x for region in regions for x in region.builder.captures}
        graphs = [
            region.finish(found, tuple(captures.values())) for region, found in zip(regions, results, strict=True)
        ]
        operand = (_atom(flag), *captures.values())
        return yes.rebuild(context.builder.emit("cond", operand, Params(), graphs, user_location()))


def while_loop(condition: Callable[[T], Any], body: Callable[[T], T], init: T, /) -> T:
    """`init` after `body` has been applied to it while `condition` of it is true.

    Args:
        condition: Gives a 0-d truth value.
        body: Gives a pytree of the structure, shapes and dtypes of its argument.
        init: A pytree of arrays and numbers; numbers count as i32, f32 or bool arrays.
    """
    _check_callable(condition, "while_loop: condition")
    _check_callable(body, "while_loop: body")
    start = flatten(init, "while_loop: init")
    with joined(*start.leaves):
        context, operands = active(), [strong(leaf) for leaf in start.leaves]
        specs = [ArraySpec(dtype_of(operand), operand.shape) for operand in operands]
        if context is None:
            carry: T = start.rebuild([lift(operand) for operand in operands])
            while _flag(condition(carry), "while_loop: condition"):
                carry = start.rebuild(_carried(flatten(body(carry)), start, specs, "while_loop: body"))
            return carry
        test, step = Region(context, "condition"), Region(context, "body")
        flag = test.record(
            lambda: _flag(condition(start.rebuild(test.inputs(specs, "carry"))), "while_loop: condition")
        )
        carried = step.record(lambda: body(start.rebuild(step.inputs(specs, "carry"))))
        same_structure(carried, start, "while_loop: body", _BEFORE)
        regions = (
            test.finish(test.conform(flag, [ArraySpec(bool_, ())], "while_loop: condition", "")),
            step.finish(step.conform(carried, specs, "while_loop: body", _BEFORE)),
        )
        consts = test.builder.captures, step.builder.captures
        params = Params(condition_consts=len(consts[0]), body_consts=len(consts[1]))
        inputs = (*consts[0], *consts[1], *map(_atom, operands))
        return start.rebuild(context.builder.emit("while_loop", inputs, params, regions, user_location()))


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = body(carry, x)` for each element x of xs along the first axis: the last carry, and the stacked ys.

    Args:
        body: Gives the next carry, a pytree of the structure, shapes and dtypes of `init`, and a pytree y.
        init: A pytree of arrays and numbers; numbers count as i32, f32 or bool arrays.
        xs: A pytree of arrays of equal first extents, or None, with `length`.
        length: The number of steps; that of xs where there are any.
        reverse: Go from the last element to the first; each y stands where its x does.
    """
    _check_callable(body, "scan: body")
    start, items = flatten(init, "scan: init"), flatten(xs, "scan: xs")
    steps, reverse = _length(items, length), flag(reverse, "scan: reverse")
    with joined(*start.leaves, *items.leaves):
        context, init_values = active(), [strong(leaf) for leaf in start.leaves]
        rows = [lift(strong(leaf)) for leaf in items.leaves]
        specs = [ArraySpec(dtype_of(value), value.shape) for value in init_values]
        if context is None:
            values = [lift(value) for value in init_values]
            return _loop(body, start, values, items.rebuild, rows, range(steps)[:: -1 if reverse else 1])
        region = Region(context, "body")
        carry_in = region.inputs(specs, "carry")
        slices = region.inputs([ArraySpec(row.dtype, row.shape[1:]) for row in rows], "x")
        parts: list[Flat] = []

        def step() -> None:
            parts.extend(flatten(part) for part in _pair(body(start.rebuild(carry_in), items.rebuild(slices))))

        region.record(step)
        carry, ys = parts
        same_structure(carry, start, "scan: carry", _BEFORE)
        results = [
            *region.conform(carry, specs, "scan: carry", _BEFORE),
            *region.conform(ys, [spec_of(leaf) for leaf in ys.leaves], "scan: y", ""),
        ]
        graph, consts = region.finish(results), region.builder.captures
        params = Params(consts=len(consts), carry=len(specs), length=steps, reverse=reverse)
        operands = (*consts, *map(_atom, init_values), *map(_atom, rows))
        found = context.builder.emit("scan", operands, params, (graph,), user_location())
        return start.rebuild(found[: len(specs)]), ys.rebuild(found[len(specs) :])


def _check_callable(function: object, what: str) -> None:
    if not callable(function):
        raise ArgumentTypeError(what=what, actual=shown(function), expected="a function", where=user_location())


def _loop(
    body: Callable[[Any, Any], Any],
    start: Flat,
    values: Sequence[Array],
    rebuild: Callable[[Sequence[Array]], Any],
    rows: Sequence[Array],
    steps: Sequence[int],
) -> tuple[Any, Any]:
    """The steps of scan on concrete arrays."""
    specs = [value.spec for value in values]
    if not steps:  # one step on zeros tells the ys' specs
        zeros = [creation.zeros(row.shape[1:], row.dtype) for row in rows]
        ys = flatten(_pair(body(start.rebuild(values), rebuild(zeros)))[1])
        empty = [creation.zeros((0, *spec.shape), spec.dtype) for spec in map(spec_of, ys.leaves)]
        return start.rebuild(values), ys.rebuild(empty)
    found: dict[int, Flat] = {}
    carry = start.rebuild(values)
    for step in steps:
        carry, y = _pair(body(carry, rebuild([row[step] for row in rows])))
        carry = start.rebuild(_carried(flatten(carry), start, specs, "scan: carry"))
        found[step] = flatten(y)
    ordered = [found[step] for step in range(len(steps))]
    columns = zip(*(flat.leaves for flat in ordered), strict=True)
    return carry, ordered[0].rebuild([manipulation.stack(column) for column in columns])


def _carried(flat: Flat, start: Flat, specs: Sequence[ArraySpec], what: str) -> list[Array]:
    """The values that a step on concrete arrays hands on; they keep their structure, shapes and dtypes."""
    same_structure(flat, start, what, _BEFORE)
    return [
        lift(conformed(leaf, spec, f"{what}{f' {path}' if path else ''}", _BEFORE))
        for leaf, path, spec in zip(flat.leaves, flat.paths, specs, strict=True)
    ]


def _flag(value: Any, what: str) -> Array:
    """A 0-d truth value."""
    if shape_of(value) != ():
        raise ShapeError(
            what=what,
            actual=shape_of(value),
            expected="()",
            where=user_location(),
            remedy="reduce it with ops.any or ops.all, or choose by element with ops.where.",
        )
    return lift(truth(value))


def _pair(result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(result) == 2:  # pyright: ignore[reportUnknownArgumentType]
        return result  # pyright: ignore[reportUnknownVariableType]
    raise ArgumentTypeError(
        what="scan: result of the body",
        actual=type(result).__name__,  # pyright: ignore[reportUnknownArgumentType]
        expected="a tuple (carry, y)",
        where=user_location(),
    )


def fori_loop(lower: ArrayLike, upper: ArrayLike, body: Callable[[Any, T], T], init: T, /) -> T:
    """`init` after `value = body(i, value)` for i from lower up to, not including, upper; i is an i32.

    Bounds that are Python ints make a scan; others, 0-d integer arrays, a loop that ends at run time.  `body` gives a
    pytree of the structure, shapes and dtypes of its second argument.
    """
    _check_callable(body, "fori_loop: body")
    first, last = python_number(lower), python_number(upper)
    if isinstance(first, int) and isinstance(last, int):
        steps = creation.arange(first, max(first, last), dtype=i32)
        return scan(lambda value, i: (body(i, value), None), init, steps)[0]
    for bound, name in ((lower, "lower"), (upper, "upper")):
        if shape_of(bound) != () or not dtype_of(bound, f"fori_loop: {name}").is_integer:
            actual = f"{dtype_of(bound)}{list(shape_of(bound))}"
            raise ArgumentTypeError(
                what=f"fori_loop: {name}", actual=actual, expected="a 0-d integer", where=user_location()
            )
    with joined(lower, upper, *flatten(init).leaves):
        end = lift(cast(upper, i32))

        def step(carry: tuple[Any, T]) -> tuple[Any, T]:
            return carry[0] + 1, body(*carry)

        return while_loop(lambda carry: carry[0] < end, step, (lift(cast(lower, i32)), init))[1]


def switch(index: ArrayLike, branches: Sequence[Callable[..., T]], /, *operands: Any) -> T:
    """The results of `branches[index](*operands)`; an index below 0 counts as 0, one past the end as the last.

    All branches give pytrees of one structure, with leaves of equal shapes and dtypes, as those of `cond` do.
    """
    branches = operands_of(branches, "switch: branches")
    for branch in branches:
        _check_callable(branch, "switch: branches")
    if not branches:
        raise ArgumentError(what="switch: branches", actual=(), expected="at least one", where=user_location())
    number = python_number(index)
    if isinstance(number, int):
        return branches[min(max(number, 0), len(branches) - 1)](*operands)
    if shape_of(index) != () or not dtype_of(index, "switch: index").is_integer:
        actual = f"{dtype_of(index)}{list(shape_of(index))}"
        raise ArgumentTypeError(what="switch: index", actual=actual, expected="a 0-d integer", where=user_location())

    def choose(first: int, last: int, *values: Any) -> T:
        if first == last:
            return branches[first](*values)
        middle = (first + last) // 2
        low, high = functools.partial(choose, first, middle), functools.partial(choose, middle + 1, last)
        return cond(index <= middle, low, high, *values)  # type: ignore[operator]

    return choose(0, len(branches) - 1, *operands)


def _length(items: Flat, length: int | None) -> int:
    extents: dict[int, str] = {}
    for leaf, path in zip(items.leaves, items.paths, strict=True):
        shape = shape_of(leaf)
        if not shape:
            raise ShapeError(
                what=f"scan: xs{f' {path}' if path else ''}",
                actual=shape,
                expected="at least one axis",
                where=user_location(),
            )
        extents.setdefault(shape[0], path)
    if length is not None:
        steps = static_int(length, "scan: length")
        extents.setdefault(steps, "length")
    if not extents:
        raise ArgumentError(
            what="scan", actual="no xs and no length", expected="arrays as xs, or length=", where=user_location()
        )
    if len(extents) != 1:
        raise ArgumentError(
            what="scan: length",
            actual=tuple(extents),
            expected="one first extent of all xs, or length= without xs",
            where=user_location(),
        )
    (steps,) = extents
    if not 0 <= steps <= i32.max:
        raise ArgumentError(what="scan: length", actual=steps, expected=f"0 to {i32.max}", where=user_location())
    return steps


def _atom(operand: Operand) -> Tracer | Literal:
    """An operand as a value of the trace, or a literal."""
    if isinstance(operand, Literal):
        return operand
    return of_trace(lift(operand))
