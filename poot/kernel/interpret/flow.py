"""Locals and control flow over the lanes of a chunk.

Lanes that a branch, loop, break, continue or return leaves out are switched off in `frame.mask`; a condition that all
active lanes share is an ordinary branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from poot.kernel.interpret.affine import Value, as_array
from poot.kernel.interpret.frame import Frame, Turns
from poot.kernel.interpret.space import Array, Mask, both, either, truth, without
from poot.kernel.ir import Assert, Return, Stmt, walk

Evaluate: TypeAlias = Callable[[Frame], Value]
Execute: TypeAlias = Callable[[Frame], None]


def let(name: str, value: Evaluate) -> Execute:
    """Declare a local."""

    def run(f: Frame) -> None:
        f.env[name] = value(f)

    return run


def assign(name: str, value: Evaluate) -> Execute:
    """Change a local where lanes are active."""

    def run(f: Frame) -> None:
        new = value(f)
        if f.mask is not True:
            new = np.where(f.mask, as_array(new), as_array(f.env[name]))
        f.env[name] = new

    return run


def assert_(condition: Evaluate, index: Evaluate | None, stmt: Assert, site: int) -> Execute:
    """A failed assertion is a fault, of the first lane that fails; the lanes go on."""

    def run(f: Frame) -> None:
        failed = without(f.mask, truth(as_array(condition(f))))
        if failed is False:
            return
        at = 0
        if index is not None:
            values, lanes = np.broadcast_arrays(as_array(index(f)), failed)
            at = int(values.flat[int(lanes.argmax())])
        f.faults.claim(site, stmt.axis, at, stmt.extent)

    return run


def branch(condition: Evaluate, then: Execute, orelse: Execute) -> Execute:
    """Run one block, the other, or each for its lanes."""

    def run(f: Frame) -> None:
        outer = f.mask
        chosen = truth(as_array(condition(f)))
        taken, rest = both(outer, chosen), without(outer, chosen)
        if rest is False:
            then(f)
        elif taken is False:
            orelse(f)
        else:
            f.mask = taken
            then(f)
            after = f.mask
            f.mask = rest
            orelse(f)
            f.mask = outer if after is taken and f.mask is rest else either(after, f.mask)

    return run


def leaves(body: tuple[Stmt, ...]) -> bool:
    """Whether lanes can return from inside a loop."""
    return any(isinstance(node, Return) for node in walk(body))


def break_(f: Frame) -> None:
    """The active lanes leave the innermost loop."""
    f.turns.broken = either(f.turns.broken, f.mask)
    f.mask = False


def continue_(f: Frame) -> None:
    """The active lanes wait for the next turn of the innermost loop."""
    f.turns.continued = either(f.turns.continued, f.mask)
    f.mask = False


def return_(f: Frame) -> None:
    """The active lanes are done."""
    f.mask = False


def barrier(f: Frame) -> None:
    """All lanes run each statement together, so that nothing is left to wait for; watched runs count barriers."""
    if f.watch is not None:
        f.watch.barrier(f.mask)


def _turn(f: Frame, body: Execute, turns: Turns) -> Mask:
    """Run the body once for the active lanes; returns those that go on."""
    body(f)
    active = either(f.mask, turns.continued)
    turns.continued = False
    return active


def uniform_turns(
    f: Frame, name: str, number: Callable[[int], Array], values: range, body: Execute, leaves: bool
) -> None:
    """A counted loop whose bounds all lanes share."""
    entry, outer = f.mask, f.turns
    turns = f.turns = Turns()
    for value in values:
        f.env[name] = number(value)
        f.mask = _turn(f, body, turns)
        if f.mask is False:
            break
    f.turns = outer
    f.mask = either(f.mask, turns.broken) if leaves else entry


def varying_turns(f: Frame, name: str, start: Array, stop: Array, step: int, body: Execute, leaves: bool) -> None:
    """A counted loop that each lane runs for its own bounds."""
    counts = _counts(start, stop, step)

    def more(f: Frame, turn: int) -> Mask:
        active = truth(counts > np.uint64(turn))
        if active is not False:
            f.env[name] = start + np.uint64(step * turn % (1 << 64)).astype(start.dtype)
        return active

    _masked_turns(f, more, body, leaves)


def _counts(start: Array, stop: Array, step: int) -> Array:
    """Turns of `range(start, stop, step)`, without overflow."""
    low, high = (start, stop) if step > 0 else (stop, start)
    distance = high.astype(np.uint64) - low.astype(np.uint64) - np.uint64(1)
    return np.where(low < high, distance // np.uint64(abs(step)) + np.uint64(1), np.uint64(0))


def while_(condition: Evaluate, body: Execute, leaves: bool) -> Execute:
    """A loop that each lane runs while its condition holds."""

    def more(f: Frame, turn: int) -> Mask:
        return truth(as_array(condition(f)))

    return lambda f: _masked_turns(f, more, body, leaves)


def _masked_turns(f: Frame, more: Callable[[Frame, int], Mask], body: Execute, leaves: bool) -> None:
    """Turns that lanes leave one by one, when `more` says so."""
    entry, outer = f.mask, f.turns
    turns = f.turns = Turns()
    finished: Mask = False
    turn = 0
    while f.mask is not False:
        going = more(f, turn)
        finished = either(finished, without(f.mask, going))
        f.mask = both(f.mask, going)
        if f.mask is not False:
            f.mask = _turn(f, body, turns)
        turn += 1
    f.turns = outer
    f.mask = either(finished, turns.broken) if leaves else entry
