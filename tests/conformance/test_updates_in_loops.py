"""Large arrays that a loop carries and changes in part: what it gives, and that no turn copies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot import f32, i32, ops
from poot.errors import IndexFault
from poot.plan.program import Branch, Copy, Loop, Program, Step

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

TRACE: Any = poot.trace
ROWS, WIDTH, TURNS = 96, 24, 5
CACHE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) % 7
OTHER = CACHE[::-1] * 2 + 1
XS = np.arange(TURNS * WIDTH, dtype=np.float32).reshape(TURNS, WIDTH) % 5 - 2
Carry = tuple[Any, ...]


def put(c: Any, i: Any, x: Any) -> Any:
    return ops.dynamic_update_slice(c, x[None], (i, 0))


def attend(c: Any, x: Any) -> Any:
    return (c @ x)[:6]


#: name -> (body of a scan over a turn's number and row, initial carry, whether all is done in place)
BODIES: dict[str, tuple[Callable[[Carry, Any], tuple[Carry, Any]], Carry, bool]] = {
    "a row": (lambda c, ix: ((put(c[0], ix[0], ix[1]),), None), (CACHE,), True),
    "at": (lambda c, ix: ((c[0].at[ix[0] * 3].set(ix[1]),), None), (CACHE,), True),
    "from the end": (lambda c, ix: ((c[0].at[-1 - ix[0]].set(ix[1]),), c[0][0]), (CACHE,), True),
    "added": (lambda c, ix: ((c[0].at[ix[0]].add(ix[1]),), None), (CACHE,), True),
    "the greater": (lambda c, ix: ((c[0].at[ix[0]].max(ix[1]),), None), (CACHE,), True),
    "a place twice": (
        lambda c, ix: ((c[0].at[ops.stack([ix[0], ix[0]])].set(ops.stack([ix[1], ix[1] + 1])),), None),
        (CACHE,),
        True,
    ),
    "a column": (lambda c, ix: ((c[0].at[:, ix[0]].set(ops.full(ROWS, 3.0)),), None), (CACHE,), True),
    "one element": (lambda c, ix: ((c[0].at[ix[0], ix[0]].set(ix[1][2]),), None), (CACHE,), True),
    "a row of a layer": (
        lambda c, ix: ((c[0].reshape(2, 4, 12, WIDTH).at[1, :, ix[0]].set(ix[1]).reshape(ROWS, WIDTH),), None),
        (CACHE,),
        False,
    ),
    "past the end": (lambda c, ix: ((put(c[0], ix[0] * 40, ix[1]),), None), (CACHE,), True),
    "read before": (lambda c, ix: ((put(c[0], ix[0], ix[1] + c[0][2]),), attend(c[0], ix[1])), (CACHE,), True),
    "read after": (lambda c, ix: ((d := put(c[0], ix[0], ix[1]),), attend(d, ix[1])), (CACHE,), True),
    "read before and after": (
        lambda c, ix: ((d := put(c[0], ix[0], ix[1]),), (attend(c[0], ix[1]), attend(d, ix[1]))),
        (CACHE,),
        True,
    ),
    "both in one sum": (lambda c, ix: ((d := put(c[0], ix[0], ix[1]),), ops.sum(c[0] - d, axis=0)), (CACHE,), False),
    "the row itself changed": (lambda c, ix: ((put(c[0], ix[0], c[0][ix[0]] * 2 + 1),), None), (CACHE,), True),
    "moved within": (lambda c, ix: ((ops.dynamic_update_slice(c[0], c[0][1:9], (ix[0], 0)),), None), (CACHE,), True),
    "moved by one": (lambda c, ix: ((ops.dynamic_update_slice(c[0], c[0][:9], (1, 0)),), None), (CACHE,), True),
    "a transposed row": (lambda c, ix: ((put(c[0], ix[0], c[0].T[ix[0]][:WIDTH]),), None), (CACHE,), True),
    "two": (
        lambda c, ix: ((put(c[0], ix[0], ix[1]), c[1].at[ix[0]].set(c[0][ix[0] + 1])), attend(c[1], ix[1])),
        (CACHE, OTHER),
        True,
    ),
    "the same array twice": (
        lambda c, ix: ((put(c[0], ix[0], ix[1]), put(c[1], ix[0] + 1, ix[1] * 2)), attend(c[0], ix[1])),
        (CACHE, CACHE),
        True,
    ),
    "one result twice": (lambda c, ix: ((d := put(c[0], ix[0], ix[1]), d), None), (CACHE, OTHER), False),
    "swapped": (lambda c, ix: ((c[1], put(c[0], ix[0], ix[1])), None), (CACHE, OTHER), False),
    "crossed": (lambda c, ix: ((put(c[1], 0, c[0][0]), put(c[0], 1, c[1][1])), None), (CACHE, OTHER), False),
    "one old, one new": (lambda c, ix: ((put(c[0], ix[0], ix[1]), c[0]), None), (CACHE, OTHER), False),
    "kept of every turn": (lambda c, ix: ((d := put(c[0], ix[0], ix[1]),), d), (CACHE,), True),
    "one after another": (
        lambda c, ix: ((put(put(c[0], ix[0], ix[1]), ix[0] + 1, ix[1] + 1).at[3].set(c[0][5]),), None),
        (CACHE,),
        True,
    ),
    "constant places that overlap": (
        lambda c, ix: ((ops.dynamic_update_slice(put(c[0], 0, ix[1]), ops.full((2, 5), 9.0), (0, 1)),), None),
        (CACHE,),
        True,
    ),
    "in a loop inside": (
        lambda c, ix: (
            (ops.scan(lambda d, j: (put(d, j + ix[0], ix[1]), ops.sum(d)), c[0], ops.arange(3, dtype=i32))[0],),
            attend(c[0], ix[1]),
        ),
        (CACHE,),
        True,
    ),
    "in a while loop inside": (
        lambda c, ix: (
            ops.while_loop(lambda s: s[1] < ix[0], lambda s: (put(s[0], s[1], ix[1]), s[1] + 1), (c[0], ix[0] - 2))[:1],
            None,
        ),
        (CACHE,),
        True,
    ),
    "before a loop inside": (
        lambda c, ix: (
            (ops.scan(lambda d, j: (d.at[j].add(ix[1]), None), put(c[0], ix[0], ix[1]), ops.arange(3, dtype=i32))[0],),
            None,
        ),
        (CACHE,),
        True,
    ),
    "chosen": (
        lambda c, ix: (
            (ops.cond(ix[0] % 2 == 0, lambda d: put(d, ix[0], ix[1]), lambda d: d.at[3].set(ix[1]), c[0]),),
            None,
        ),
        (CACHE,),
        False,
    ),
}  # fmt: skip


def scanned(name: str, carry: Carry, xs: Any) -> Any:
    result = ops.scan(BODIES[name][0], carry, (ops.arange(TURNS, dtype=i32), xs))
    return (*result, carry, carry[0][1])  # what was given is as it was


def unrolled(name: str, carry: Carry, xs: Any) -> Any:
    rows: list[Any] = []
    start = carry
    for turn in range(TURNS):
        carry, row = BODIES[name][0](carry, (ops.asarray(turn, dtype=i32), xs[turn]))
        rows.append(row)
    stacked = optree.tree_map(lambda *each: ops.stack(list(each)), *rows) if rows[0] is not None else None
    return carry, stacked, start, start[0][1]


def same(found: Any, expected: Any) -> None:
    pairs = zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def copied(program: Program) -> list[int]:
    """The bytes of what turns of loops copy."""

    def within(steps: tuple[Step, ...], inside: bool) -> Iterator[int]:
        for step in steps:
            match step:
                case Copy() if inside:
                    yield program.storage.slots[step.source].nbytes
                case Loop():
                    yield from within((*step.condition, *step.body), True)
                case Branch():
                    yield from within((*step.blocks[0], *step.blocks[1]), inside)
                case _:
                    pass

    return list(within(program.steps, False))


@pytest.mark.parametrize("name", BODIES)
def test_scan(name: str, device_name: str) -> None:
    carry = BODIES[name][1]
    expected = TRACE(lambda carry, xs: unrolled(name, carry, xs)).evaluate(carry, XS)
    same(TRACE(lambda carry, xs: scanned(name, carry, xs), device=device_name)(carry, XS), expected)


@pytest.mark.parametrize("name", [name for name in BODIES if BODIES[name][2]])
def test_no_turn_copies(name: str) -> None:
    carry = tuple(f32[ROWS, WIDTH] for _ in BODIES[name][1])
    program = TRACE(lambda carry, xs: scanned(name, carry, xs)).program(carry, f32[TURNS, WIDTH], device="cpu")
    assert CACHE.nbytes not in copied(program)


def test_what_a_turn_writes_is_what_changes() -> None:
    def run(cache: Any, xs: Any) -> Any:
        return ops.scan(lambda c, ix: (put(c, ix[0], ix[1]), None), cache, (ops.arange(TURNS, dtype=i32), xs))[0]

    program = TRACE(run).program(f32[4096, 64], f32[TURNS, 64], device="cpu")
    whole = 4096 * 64 * 4  # the copy of what was given, before the loop
    assert program.report().work.bytes_written < whole + TURNS * 1024


# --- loops of other kinds ---------------------------------------------------------------------------------------------


def until(cache: Any, n: Any) -> Any:
    """A while loop that may have no turn at all."""

    def body(s: Any) -> Any:
        return put(s[0], s[1], ops.sum(s[0], axis=0) % 5), s[1] + 1

    final, turns = ops.while_loop(lambda s: s[1] < n, body, (cache, ops.asarray(0, dtype=i32)))
    return final, turns, cache, cache[0]


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_while_loop(turns: int, device_name: str) -> None:
    n = np.int32(turns)
    expected = TRACE(until).evaluate(CACHE, n)
    same(TRACE(until, device=device_name)(CACHE, n), expected)


def test_no_turn_of_a_while_loop_copies() -> None:
    program = TRACE(until).program(f32[ROWS, WIDTH], i32[()], device="cpu")
    assert CACHE.nbytes not in copied(program)


def test_what_was_given_stays(device_name: str) -> None:
    """The caller's array, and an earlier result that goes in again, are as they were."""

    def run(cache: Any, xs: Any) -> Any:
        return ops.scan(lambda c, ix: (put(c, ix[0], ix[1]), None), cache, (ops.arange(TURNS, dtype=i32), xs))[0]

    function = TRACE(run, device=device_name)
    given = poot.asarray(CACHE, device=device_name)
    first = function(given, XS)
    second = function(first, XS + 1)
    third = function(first, XS + 2)
    np.testing.assert_array_equal(np.asarray(given), CACHE)
    for found, rows in ((first, XS), (second, XS + 1), (third, XS + 2)):
        np.testing.assert_array_equal(np.asarray(found)[:TURNS], rows)
        np.testing.assert_array_equal(np.asarray(found)[TURNS:], CACHE[TURNS:])


def test_what_is_donated(device_name: str) -> None:
    def run(cache: Any, xs: Any) -> Any:
        return ops.scan(lambda c, ix: (c.at[ix[0]].add(ix[1]), None), cache, (ops.arange(TURNS, dtype=i32), xs))[0]

    function = TRACE(run, device=device_name, donate="cache")
    cache = poot.asarray(CACHE, device=device_name)
    for _ in range(3):
        cache = function(cache, XS)
    np.testing.assert_array_equal(np.asarray(cache)[:TURNS], CACHE[:TURNS] + 3 * XS)
    np.testing.assert_array_equal(np.asarray(cache)[TURNS:], CACHE[TURNS:])


def test_an_index_out_of_range_is_a_fault_still(device_name: str) -> None:
    def run(cache: Any, i: Any) -> Any:
        return ops.scan(lambda c, j: (c.at[i + j].set(1.0), None), cache, ops.arange(TURNS, dtype=i32))[0]

    function = TRACE(run, device=device_name)
    with pytest.raises(IndexFault, match="index 96 is out of range"):
        np.asarray(function(CACHE, np.int32(ROWS - 2)))
    np.testing.assert_array_equal(np.asarray(function(CACHE, np.int32(0)))[TURNS:], CACHE[TURNS:])


def test_half_floats_are_rounded_once(device_name: str) -> None:
    """Where updates of one element are summed in a wider dtype, the whole array is made anew."""
    cache = np.full((ROWS, WIDTH), 256.0, np.float16)
    updates = np.full((9, WIDTH), 0.125, np.float16)

    def run(cache: Any, updates: Any) -> Any:
        where = ops.zeros(9, i32)
        return ops.scan(lambda c, _: (c.at[where].add(updates), None), cache, length=2)[0]

    expected = TRACE(run).evaluate(cache, updates)
    same(TRACE(run, device=device_name)(cache, updates), expected)


@pytest.mark.parametrize("layout", ["layers, heads, places", "layers, places, heads"])
def test_a_decode_step_over_several_layers_copies_no_cache(layout: str) -> None:
    """Keys and values of all layers in one array each, updated at an int, a slice and a traced place."""
    heads = layout.endswith("places")

    def body(c: Any, ix: Any) -> Any:
        keys, values = c
        turn, x = ix
        for layer in range(2):
            at = (layer, slice(None), turn) if heads else (layer, turn)
            keys, values = keys.at[at].set(x * 2), values.at[at].add(x)
            x = x + ops.sum(keys[layer] * values[layer], axis=(0, 1))[: x.shape[-1]] % 3
        return (keys, values), x

    def run(keys: Any, values: Any, xs: Any) -> Any:
        return ops.scan(body, (keys, values), (ops.arange(TURNS, dtype=i32), xs))

    shape = (2, 4, 64, 16) if heads else (2, 64, 4, 16)
    program = TRACE(run).program(f32[shape], f32[shape], f32[TURNS, 16], device="cpu")
    assert not [nbytes for nbytes in copied(program) if nbytes > 1024]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, spec).astype(np.float32) for spec in (shape, shape, (TURNS, 16))]
    same(TRACE(run)(*arrays), TRACE(run).evaluate(*arrays))
