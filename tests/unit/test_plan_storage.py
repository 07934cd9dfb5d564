"""Storage: slots that live at the same time never overlap, and the arena is little larger than what is live at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import poot
from benchmarks.compile_time import make_input, make_params, stack
from poot import f32, ops
from poot.plan.program import Copy, Slot, Storage
from poot.plan.storage import plan_storage
from tests.lines import lines_of


def storage_of(lives: list[tuple[int, int, int]]) -> Storage:
    """The storage of slots of so many elements, each used at a first and at a last step."""
    slots = [Slot("scratch", f32[size]) for size, _, _ in lives]
    slots.append(Slot("output", f32[1]))
    last = max((end for _, _, end in lives), default=0)
    uses: list[list[int]] = [[] for _ in range(last + 1)]
    for number, (_, begin, end) in enumerate(lives):
        uses[begin].append(number)
        uses[end].append(number)
    steps: list[Copy] = []
    for step in uses:  # as many copies a step as it has uses: lifetimes are stretched, their order is kept
        steps += [Copy(number, len(lives)) for number in step] or [Copy(len(lives), len(lives))]
    return plan_storage(slots, tuple(steps))


def spans(lives: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """First and last copy that uses each slot, in the order of `storage_of`."""
    last = max(end for _, _, end in lives)
    found: dict[int, list[int]] = {}
    clock = 0
    for step in range(last + 1):
        used = [n for n, (_, begin, _) in enumerate(lives) if begin == step]
        used = sorted([*used, *(n for n, (_, _, end) in enumerate(lives) if end == step)])
        clock += 1 if not used else 0
        for number in used:
            clock += 1
            found.setdefault(number, []).append(clock)
    return [(min(found[n]), max(found[n])) for n in range(len(lives))]


def random_lives(seed: int, count: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 16, 100, 1000, 5000], count)
    first = rng.integers(0, count, count)
    lengths = rng.choice([0, 1, 2, 3, 10, 40], count)
    return [(int(s), int(a), int(a + d)) for s, a, d in zip(sizes, first, lengths, strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_slots_that_live_together_lie_apart(seed: int) -> None:
    lives = random_lives(seed, 40)
    storage = storage_of(lives)
    times = spans(lives)
    for a in range(len(lives)):
        for b in range(a):
            together = times[a][0] <= times[b][1] and times[b][0] <= times[a][1]
            one, two = storage.slots[a], storage.slots[b]
            apart = one.offset + one.nbytes <= two.offset or two.offset + two.nbytes <= one.offset
            assert apart or not together
    assert all(s.offset % 64 == 0 and s.offset + s.nbytes <= storage.arena_bytes for s in storage.slots[:-1])
    assert storage.liveness_bound <= storage.arena_bytes <= 1.5 * storage.liveness_bound


def test_nothing_to_place() -> None:
    assert storage_of([]).arena_bytes == storage_of([]).liveness_bound == 0
    assert storage_of([(0, 0, 1)]).arena_bytes == 0


def test_work_grows_with_the_slots() -> None:
    small, large = (lines_of(partial(storage_of, random_lives(1, count))) for count in (1000, 5000))
    assert large < 5 * 4 * small


@pytest.mark.parametrize("width", [128, 384])
@pytest.mark.parametrize("constants", [(), ("layers",)])
def test_a_stack_of_layers_needs_little_more_than_what_is_live(width: int, constants: tuple[str, ...]) -> None:
    run: Callable[..., Any] = stack(ops, ops.nn.softmax, ops.nn.gelu)
    program = poot.trace(run).program(make_params(width), make_input(width), device="cpu", constants=constants)
    numbers = program.report().storage
    assert numbers.arena_bytes <= 1.2 * numbers.liveness_bound
    assert f"{numbers.arena_bytes / numbers.liveness_bound:.2f} times the" in str(program.report())
