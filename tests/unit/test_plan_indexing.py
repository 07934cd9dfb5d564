"""Index forms: exact division, axes that split on demand, and loops that collapse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poot.dtypes import i32
from poot.kernel.ir import Var
from poot.plan.indexing import (
    ZERO,
    Affine,
    Axis,
    Space,
    bounds,
    combine,
    dense,
    expand,
    flatten,
    of_axis,
    whole,
)
from poot.plan.schedules.common import collapse


def value(form: Affine, at: dict[Axis, int]) -> int:
    """A form's value where loop axes have the given values; split axes have those of their parts."""
    total = form.const
    for axis, factor in expand(form).terms:
        if axis.source is None:
            total += factor * at[axis]
        else:
            inner = value(axis.source.of, at)
            total += factor * (inner % axis.source.by if axis.source.remainder else inner // axis.source.by)
    return total


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 4), (5, 7)])
@pytest.mark.parametrize("by", [1, 2, 3, 4, 5, 6, 8, 12, 24, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_division_is_exact(shape: tuple[int, ...], by: int, reverse: bool) -> None:
    space, axes = Space(), tuple(Axis(f"d{n}", extent) for n, extent in enumerate(shape))
    form = flatten(whole(axes), shape)
    if reverse:
        form = combine([(form, -1)], int(np.prod(shape)) - 1)
    quotient, remainder = space.divide(form, by)
    leaves = [leaf for axis in axes for leaf in axis.leaves()]
    for numbers in itertools.product(*(range(leaf.extent) for leaf in leaves)):
        at = dict(zip(leaves, numbers, strict=True))
        assert value(quotient, at) == value(form, at) // by
        assert value(remainder, at) == value(form, at) % by


def test_a_reshape_and_its_inverse_cancel() -> None:
    space, axis = Space(), Axis("d", 24)
    high, low = space.divide(of_axis(axis), 6)
    assert axis.parts is not None and not any(a.source for form in (high, low) for a in form.axes)
    assert flatten((high, low), (4, 6)) == expand(of_axis(axis))


def test_what_does_not_come_out_even_is_shared() -> None:
    space, axis = Space(), Axis("d", 10)
    first, second = space.divide(of_axis(axis), 3), space.divide(of_axis(axis), 3)
    assert first == second and axis.parts is None
    assert bounds(first[0]) == (0, 3) and bounds(first[1]) == (0, 2)


def test_nothing_is_known_of_opaque_values() -> None:
    space = Space()
    form = space.opaque(Var("i", i32))
    assert bounds(form) is None and form == space.opaque(Var("i", i32))
    quotient, remainder = space.divide(combine([(form, 8)], 5), 4)
    assert remainder == Affine(1) and quotient == combine([(form, 2)], 1)


def test_dense_forms() -> None:
    a, b = Axis("a", 3), Axis("b", 4)
    assert dense(flatten(whole((a, b)), (3, 4)), 12) == (a, b)
    assert dense(flatten(whole((b, a)), (4, 3)), 12) == (b, a)
    assert dense(of_axis(b), 4) == (b,)
    assert dense(combine([(of_axis(b), 1)], 1), 4) is None
    assert dense(combine([(of_axis(b), 2)]), 8) is None
    assert dense(ZERO, 1) == ()


def test_loops_collapse_where_every_access_is_even() -> None:
    a, b, c = Axis("a", 3), Axis("b", 4), Axis("c", 5)
    flat = flatten(whole((a, b, c)), (3, 4, 5))
    assert collapse((a, b, c), [flat], set()) == [(a, b, c)]
    assert collapse((a, b, c), [flat, of_axis(c)], set()) == [(a, b), (c,)]
    assert collapse((a, b, c), [flat, combine([(of_axis(b), 5), (of_axis(c), 1)])], set()) == [(a,), (b, c)]
    assert collapse((a, b, c), [flat], {b}) == [(a,), (b,), (c,)]
