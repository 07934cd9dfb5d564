"""What a program will do, as text: launches, kernels, bytes, storage and its reuse, and what was declined.

print(program.report())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poot.plan.program import Branch, Copy, Launch, Loop, Program, Step

_MOST_LINES = 200


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of a program: `scratch_bytes` is what the scratch slots would take without reuse, `kept_bytes` what its
    prologue fills once.
    """

    launches: int
    kernels: int
    copies: int
    bytes_bound: int
    scratch_bytes: int
    arena_bytes: int
    liveness_bound: int
    output_bytes: int
    constant_bytes: int
    kept_bytes: int = 0


def totals(program: Program) -> Totals:
    """Count what a program has; `bytes_bound` is the size of each launch's buffers, all launches together."""
    slots = program.storage.slots

    def role(name: str) -> int:
        return sum(slot.nbytes for slot in slots if slot.role == name)

    steps = list(_steps(program.steps))
    launches = [step for step in steps if isinstance(step, Launch)]
    bound = sum(slots[number].nbytes for step in launches for number in {binding.slot for binding in step.bindings})
    return Totals(
        len(launches),
        len(program.kernels),
        sum(isinstance(step, Copy) for step in steps),
        bound,
        role("scratch"),
        program.storage.arena_bytes,
        program.storage.liveness_bound,
        role("output"),
        role("constant"),
        role("kept"),
    )


def report(program: Program) -> str:
    """A program as text, for people."""
    return "\n".join(_lines(program))


def _lines(program: Program) -> Iterator[str]:
    numbers = totals(program)
    yield f"program {program.graph.name} for {program.target}, numerics {program.numerics}"
    yield f"  {numbers.launches} launches of {numbers.kernels} kernels, {numbers.copies} copies"
    yield f"  {_bytes(numbers.bytes_bound)} read and written at most, {_bytes(numbers.output_bytes)} of it outputs"
    arena, bound = numbers.arena_bytes, numbers.liveness_bound
    yield (
        f"  scratch: {_bytes(numbers.scratch_bytes)} of values in {_bytes(arena)}"
        f" ({arena / bound if bound else 1:.2f} times the {_bytes(bound)} live at once)"
    )
    if program.prologue:
        kept, size = len(program.storage.kept), _bytes(numbers.kept_bytes)
        yield f"  once, from constants: {len(program.prologue)} launches fill {kept} slots, {size} kept between steps"
    fates = Counter(plan.fate for plan in program.equation_plans)
    yield "  equations: " + (", ".join(f"{count} {fate}" for fate, count in sorted(fates.items())) or "none")
    if program.prologue:
        yield "prologue"
        once = list(_step_lines(program, program.prologue, "  "))
        yield from once[:_MOST_LINES]
        if len(once) > _MOST_LINES:
            yield f"  and {len(once) - _MOST_LINES} more"
    yield "steps"
    lines = list(_step_lines(program, program.steps, "  "))
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  and {len(lines) - _MOST_LINES} more"
    yield "passes"
    for record in program.passes:
        yield f"  {record.name}: {record.equations_before} -> {record.equations_after} equations"
        yield from (f"    {note}" for note in record.notes)
        yield from (f"    declined: {note}" for note in record.declined[:_MOST_LINES])


def _step_lines(program: Program, steps: Sequence[Step], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Launch():
                kernel = program.kernels[step.kernel]
                groups = "x".join(map(str, step.groups))
                size = "x".join(map(str, kernel.workgroup))
                bindings = ", ".join(_slot(program, binding.slot) for binding in step.bindings)
                yield f"{indent}{kernel.name} {groups} groups of {size}: {bindings}"
            case Copy():
                yield f"{indent}copy {_slot(program, step.source)} to {_slot(program, step.target)}"
            case Branch():
                yield f"{indent}if {_slot(program, step.predicate)}"
                yield from _step_lines(program, step.blocks[1], indent + "  ")
                yield f"{indent}else"
                yield from _step_lines(program, step.blocks[0], indent + "  ")
            case Loop():
                way = _way(program, step)
                if step.trip_count >= 0:
                    yield f"{indent}{step.trip_count} times, {way}"
                else:
                    yield f"{indent}while {_slot(program, step.predicate)}, {way}"
                    if step.condition:
                        yield f"{indent}    made by"
                        yield from _step_lines(program, step.condition, indent + "    ")
                yield from _step_lines(program, step.body, indent + "  ")


def _way(program: Program, loop: Loop) -> str:
    """How a loop runs."""
    match program.target.backend:
        case "cpu":
            return "decided in native code"
        case "interpret":
            return "decided by the host"
        case _ if loop.trip_count < 0:
            when = "now and then: turns past the last change nothing" if loop.settles else "before each turn"
            return f"read back {when}"
        case _:
            asks = any(
                isinstance(step, Branch) or (isinstance(step, Loop) and step.trip_count < 0)
                for step in _steps(loop.body)
            )
            return "with conditions that are read back" if asks else "enqueued without waiting"


def _slot(program: Program, number: int) -> str:
    slot = program.storage.slots[number]
    name = slot.name or f"{slot.role} {number}"
    return f"{name} {slot.spec}"


def _steps(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        match step:
            case Branch():
                for block in step.blocks:
                    yield from _steps(block)
            case Loop():
                yield from _steps(step.condition)
                yield from _steps(step.body)
            case _:
                pass


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
