"""What a turn leaves for the next: values that stay, swap, shift or are made of each other, in place or by copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import poot
from poot import ops
from poot.api.cache import RetraceWarning
from poot.errors import KernelFault
from poot.plan import rounds

pytestmark = pytest.mark.filterwarnings(f"ignore::{RetraceWarning.__module__}.{RetraceWarning.__name__}")

TURNS = 7
A, B = np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32)[::-1] * 2 + 1
N = np.array([3, -1, 4, 1, -5, 9], np.int32)

#: name -> (body of a scan, initial carry): all values stay small integers, so results are exact.
BODIES: dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], tuple[Any, ...]]] = {
    "unchanged": (lambda c, x: ((c[0], c[1] + x), c[0]), (A, B)),
    "swapped": (lambda c, x: ((c[1], c[0]), c[0] - c[1]), (A, B)),
    "in a circle": (lambda c, x: ((c[1], c[2], c[0]), None), (A, B, A + 1)),
    "shifted": (lambda c, x: ((c[1], c[2], c[0] + x), c[0]), (A, B, A + 1)),
    "swapped and changed": (lambda c, x: ((c[1] + x, c[0] - x), c[1]), (A, B)),
    "fibonacci": (lambda c, x: ((c[0] + c[1], c[0]), c[1]), (N, N + 1)),
    "the same twice": (lambda c, x: ((c[0] + x, c[0] + x), c[1]), (A, B)),
    "made of the first": (lambda c, x: ((c[0] + 1, c[0] + c[1]), x), (A, B)),
    "made of the new first": (lambda c, x: ((c[0] + 1, c[0] + 1 + c[1]), c[0] + 1), (A, B)),
    "rolled": (lambda c, x: ((ops.roll(c[0], 1) + x,), c[0]), (A,)),
    "reversed": (lambda c, x: ((ops.flip(c[0]),), ops.sum(c[0])), (A,)),
    "summed": (lambda c, x: ((c[0] * 0 + ops.sum(c[0]) % 7,), c[0][:2]), (A,)),
    "constant": (lambda c, x: ((ops.full(6, 2.0), c[0] + x), ops.zeros(3)), (A, B)),
    "kept operand": (lambda c, x: ((c[0] + x, ops.asarray(A)), c[1]), (A, B)),
    "bools": (lambda c, x: ((~c[0], c[0] & c[1]), c[0]), (A > 2, B > 3)),
    "bytes": (lambda c, x: ((c[0] + np.int8(3), c[0] - c[1]), c[0]), (N.astype(np.int8), N.astype(np.int8) * 2)),
    "numbers": (lambda c, x: ((c[0] + 1, c[1] * 2 + c[0]), c[0] * c[1]), (np.int32(3), np.int32(1))),
    "nothing": (lambda c, x: ((c[0], c[1] + 1), c[0]), (np.zeros((0, 3), np.float32), A)),
    "matrices": (lambda c, x: ((ops.transpose(c[0]) + 1,), c[0]), (np.arange(9, dtype=np.float32).reshape(3, 3),)),
    "by a matrix": (
        lambda c, x: (((ops.astype(ops.asarray(np.eye(6)[::-1]), poot.f32) @ c[0]) + x,), c[0]),
        (A,),
    ),
    "chosen": (
        lambda c, x: (ops.cond(x[0] > 2, lambda a, b: (b, a), lambda a, b: (a + 1, b), c[0], c[1]), c[0]),
        (A, B),
    ),
    "nested": (
        lambda c, x: ((ops.scan(lambda d, _: (d + x, d), c[0], length=3)[0], c[0]), c[1]),
        (A, B),
    ),
    "nested while": (
        lambda c, x: ((ops.while_loop(lambda d: ops.sum(d) < 40, lambda d: d + 1, c[0]) - x, c[0]), c[1]),
        (A, B),
    ),
}  # fmt: skip


def scanned(body: Any, *, reverse: bool) -> Any:
    return lambda carry, xs: ops.scan(body, carry, xs, reverse=reverse)


def unrolled(body: Any, *, reverse: bool) -> Any:
    """The same without a loop."""

    def function(carry: Any, xs: Any) -> Any:
        rows: list[Any] = [None] * TURNS
        for turn in reversed(range(TURNS)) if reverse else range(TURNS):
            carry, rows[turn] = body(carry, xs[turn])
        return carry, None if rows[0] is None else ops.stack(rows)

    return function


def same(found: Any, expected: Any, *arguments: Any) -> None:
    """Both functions give the same, the first one each time that it is called, the other one on the host."""
    twin = optree.tree_leaves(poot.trace(device="cpu")(expected)(*arguments))
    for _ in range(3):
        leaves = optree.tree_leaves(found(*arguments))
        assert len(leaves) == len(twin)
        for one, other in zip(leaves, twin, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", BODIES)
def test_a_scan_equals_its_turns_written_out(name: str, device_name: str) -> None:
    body, carry = BODIES[name]
    width = max(np.size(leaf) and np.shape(leaf)[-1] if np.ndim(leaf) else 1 for leaf in carry)
    xs = np.arange(TURNS * width, dtype=np.float32).reshape(TURNS, width) % 5
    reverse = len(name) % 2 == 0
    found = poot.trace(device=device_name)(scanned(body, reverse=reverse))
    same(found, unrolled(body, reverse=reverse), carry, xs)


@pytest.mark.parametrize("name", BODIES)
def test_a_while_loop_stops_after_its_turns(name: str, device_name: str) -> None:
    body, carry = BODIES[name]
    width = max(np.size(leaf) and np.shape(leaf)[-1] if np.ndim(leaf) else 1 for leaf in carry)
    x = np.arange(width, dtype=np.float32) % 5

    @poot.trace(device=device_name)
    def loop(carry: Any, x: Any, turns: Any) -> Any:
        state = ops.while_loop(lambda s: s[1] < turns, lambda s: (body(s[0], x)[0], s[1] + 1), (carry, 0))
        return state[0]

    for turns in (0, 1, TURNS):

        def written_out(carry: Any, x: Any, _: Any, turns: int = turns) -> Any:
            for _ in range(turns):
                carry, _ = body(carry, x)
            return carry

        same(loop, written_out, carry, x, np.int32(turns))


def test_turns_past_the_last_do_no_harm(device_name: str) -> None:
    """A body that would fault, or divide for ever, on what the condition excludes."""

    def total(x: Any) -> Any:
        return ops.while_loop(lambda s: s[0] < 40, lambda s: (s[0] + 1, s[1] + ops.take(x, s[0])), (0, 0.0))[1]

    def collatz(n: Any) -> Any:
        def halve(n: Any) -> Any:
            return ops.while_loop(lambda n: n % 2 == 0, lambda n: n // 2, n)

        return ops.while_loop(lambda s: s[0] > 1, lambda s: (halve(s[0] * 3 + 1), s[1] + 1), (halve(n), 0))

    x = np.arange(40, dtype=np.float32)
    assert float(np.asarray(poot.trace(device=device_name)(total)(x))) == x.sum()
    last, turns = poot.trace(device=device_name)(collatz)(np.int32(27))
    assert (int(last), int(turns)) == (1, 41)


def test_a_fault_in_a_turn_is_raised_and_the_next_call_is_right(device_name: str) -> None:
    @poot.trace(device=device_name)
    def total(x: Any, last: Any) -> Any:
        return ops.while_loop(lambda s: s[0] < last, lambda s: (s[0] + 1, s[1] + ops.take(x, s[0])), (0, 0.0))[1]

    x = np.arange(40, dtype=np.float32)
    for _ in range(2):
        with pytest.raises((KernelFault, IndexError)):
            np.asarray(total(x, np.int32(50)))
        assert float(np.asarray(total(x, np.int32(40)))) == x.sum()


def test_more_turns_and_threads_than_one_launch_has(device_name: str) -> None:
    """Every thread goes round by itself, and what is one number for all of them is right for those that begin late."""
    size = 3000 if device_name != "interpret" else 70

    @poot.trace(device=device_name)
    def until(x: Any, last: Any) -> Any:
        return ops.while_loop(lambda s: s[1] < last, lambda s: ((s[0] + s[1]) % 97, s[1] + 1), (x, 0))

    x = np.arange(size, dtype=np.int32)
    for last in (0, 1, 300, 1030) if device_name != "interpret" else (0, 40):
        expected = x
        for turn in range(last):
            expected = (expected + turn) % 97
        found, turns = until(x, np.int32(last))
        np.testing.assert_array_equal(np.asarray(found), expected)
        assert int(turns) == last


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_in_several_launches(device_name: str, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little work for a launch the turns are shared among some, each of which finds its own rows."""
    monkeypatch.setattr(rounds, "_THREAD_WORK", 400)

    def body(carry: Any, x: Any) -> Any:
        total, count = carry
        total = (total * 3 + x) % 1009
        return (total, count + 1), (total, count)

    rng = np.random.default_rng(0)
    start, xs = rng.integers(0, 1009, 10).astype(np.int32), rng.integers(0, 1009, (60, 10)).astype(np.int32)
    for length in (60, 59):
        traced = poot.trace(device=device_name)(scanned(body, reverse=reverse))
        (total, count), (rows, counts) = traced((start, np.int32(0)), xs[:length])
        report = str(traced.program((start, np.int32(0)), xs[:length]).report())
        assert device_name == "interpret" or report.count("turns_of") == 1 + (length == 59), report
        expected, turns = start, list(range(length))
        for turn, place in enumerate(reversed(turns) if reverse else turns):
            expected = (expected * 3 + xs[place]) % 1009
            np.testing.assert_array_equal(np.asarray(rows)[place], expected)
            assert int(np.asarray(counts)[place]) == turn
        np.testing.assert_array_equal(np.asarray(total), expected)
        assert int(count) == length


def test_what_a_turn_does_not_read_costs_nothing() -> None:
    spec = poot.f32[32, 32]
    loop = poot.trace(lambda c, w: ops.fori_loop(0, 10, lambda i, c: ops.tanh(c @ w), c))
    report = loop.program(spec, spec, device="cpu").report()
    assert report.work.launches == 10
