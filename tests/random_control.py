"""Makers of `random_steps` with regions: conditions and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poot.dtypes import ArraySpec, bool_, i32
from poot.trace.graph import Literal, Params

if TYPE_CHECKING:
    from tests.random_graphs import Generator, Known


def _any(g: Generator) -> Known:
    known = g.pick(lambda known: True)
    assert known is not None
    return known


def _bounded_like(inner: Generator, known: Known) -> Known:
    """A value of a region that may take the place of one of its inputs in the next turn."""
    found = inner.pick(
        lambda other: (
            other.spec == known.spec
            and (not known.dtype.is_float or inner.family == "any" or other.rounded <= known.rounded)
            and (
                inner.family != "exact"
                or not known.dtype.is_float
                or (other.grain <= known.grain and other.most << (known.grain - other.grain) <= known.most)
            )
        )
    )
    assert found is not None
    return found


def _region(g: Generator, name: str, operands: Sequence[Known], results: Sequence[int]) -> Any:
    inner, inputs = g.inner(name, operands)
    for _ in range(int(g.rng.integers(1, 4))):
        inner.step()
    outputs = tuple(_bounded_like(inner, inputs[number]).handle for number in results)
    return inner.builder.finish(outputs)


def _inputs_of(g: Generator, count: int) -> list[Known]:
    return [_any(g) for _ in range(count)]


def _cond(g: Generator) -> bool:
    flag = g.pick(lambda known: known.dtype is bool_ and known.shape == ())
    if g.depth > 1 or flag is None:
        return False
    operands = _inputs_of(g, int(g.rng.integers(1, 4)))
    results = range(len(operands))
    regions = [_region(g, name, operands, results) for name in ("when_false", "when_true")]
    handles = [flag.handle, *(known.handle for known in operands)]
    for known, handle in zip(operands, g.builder.emit("cond", handles, Params(), regions), strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _while_loop(g: Generator) -> bool:
    if g.depth > 1:
        return False
    counter = g.know(g.emit("iota", (), dtype=i32, shape=(1,), axis=0))
    counter = g.know(g.emit("reshape", (counter,), shape=()))
    operands = [counter, *_inputs_of(g, int(g.rng.integers(1, 3)))]
    condition, inputs = g.inner("condition", operands)
    limit = Literal(int(g.rng.integers(0, 4)), i32)
    regions = [condition.builder.finish((condition.emit("lt", (inputs[0], limit)),))]
    body, inputs = g.inner("body", operands)
    step = body.emit("add", (inputs[0], Literal(1, i32)))
    for _ in range(2):
        body.step()
    regions.append(body.builder.finish((step, *(_bounded_like(body, known).handle for known in inputs[1:]))))
    params = Params(condition_consts=0, body_consts=0)
    handles = g.builder.emit("while_loop", [known.handle for known in operands], params, regions)
    for known, handle in zip(operands, handles, strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


def _scan(g: Generator) -> bool:
    xs = g.pick(lambda known: len(known.shape) > 0 and known.shape[0] <= 12)
    if xs is None or g.depth > 1:
        return False
    carry = _inputs_of(g, 2)
    inner, inputs = g.inner("body", carry)
    x = inner.builder.input("x", ArraySpec(xs.dtype, xs.shape[1:]))
    element = inner.know(x, xs.most, xs.grain, xs.rounded)
    for _ in range(3):
        inner.step()
    results = (*(_bounded_like(inner, known).handle for known in inputs), _bounded_like(inner, element).handle)
    params = Params(consts=0, carry=2, length=xs.shape[0], reverse=bool(g.rng.integers(2)))
    operands = [*(known.handle for known in carry), xs.handle]
    handles = g.builder.emit("scan", operands, params, (inner.builder.finish(results),))
    for known, handle in zip((*carry, xs), handles, strict=True):
        g.know(handle, known.most, known.grain, known.rounded)
    return True


CONTROL: dict[str, Any] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
