"""The report of a program as text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from poot.plan.program import Branch, Copy, Launch, Loop, Program, Step

if TYPE_CHECKING:
    from poot.plan.report import Report, Work

_MOST_LINES = 200


def lines(program: Program, report: Report) -> Iterator[str]:
    """The text, line by line."""
    yield f"program {report.program} for {report.target}, numerics {report.numerics}"
    yield from _head(program, report)
    fates = ", ".join(f"{count} {fate}" for fate, count in report.fates)
    yield f"  equations: {fates or 'none'}"
    if program.prologue:
        yield "prologue"
        yield from _cut(list(_step_lines(program, program.prologue, "  ")))
    yield "steps"
    yield from _cut(list(_step_lines(program, program.steps, "  ")))
    yield "passes"
    for record in report.passes:
        yield f"  {record.name}: {record.equations_before} -> {record.equations_after} equations"
        yield from (f"    {note}" for note in record.notes)
        declined = [each for each in report.declined if each.by == record.name]
        yield from _cut([f"    declined: {d.what}: {d.reason}" + (f" ({d.line})" if d.line else "") for d in declined])


def _head(program: Program, report: Report) -> Iterator[str]:
    work, turn, storage = report.work, report.per_turn, report.storage
    launches, copies = len(report.launches), _copies(program.steps)
    run = "" if (work.launches, work.copies) == (launches, copies) else f"; a step runs {_runs(work)}"
    yield f"  {launches} launches of {report.kernels} kernels, {copies} copies{run}"
    yield f"  {_moves(work)}, {_bytes(storage.output_bytes)} of it outputs"
    if turn != type(turn)():
        yield f"  per turn of loops of unknown length: {_runs(turn)}, {_moves(turn)}"
    if report.uncounted:
        yield f"  flops of kernels written by hand are not counted: {', '.join(report.uncounted)}"
    yield (
        f"  scratch: {_bytes(storage.scratch_bytes)} of values in {_bytes(storage.arena_bytes)}"
        f" ({storage.ratio:.2f} times the {_bytes(storage.liveness_bound)} live at once)"
    )
    if program.prologue:
        kept, size = len(program.storage.kept), _bytes(storage.kept_bytes)
        yield f"  once, from constants: {len(program.prologue)} launches fill {kept} slots, {size} kept between steps"


def _runs(work: Work) -> str:
    return f"{work.launches} launches and {work.copies} copies"


def _moves(work: Work) -> str:
    return f"{flops_text(work.flops)}, {_bytes(work.bytes_read)} read and {_bytes(work.bytes_written)} written at most"


def _cut(found: Sequence[str]) -> Iterator[str]:
    yield from found[:_MOST_LINES]
    if len(found) > _MOST_LINES:
        yield f"{found[0][: len(found[0]) - len(found[0].lstrip())]}and {len(found) - _MOST_LINES} more"


def _step_lines(program: Program, steps: Sequence[Step], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Launch():
                kernel = program.kernels[step.kernel]
                groups = "x".join(map(str, step.groups))
                size = "x".join(map(str, kernel.workgroup))
                bindings = ", ".join(_slot(program, binding.slot) for binding in step.bindings)
                counted = f" ({flops_text(step.flops)})" if step.flops > 0 else ""
                yield f"{indent}{kernel.name} {groups} groups of {size}{counted}: {bindings}"
            case Copy():
                yield f"{indent}copy {_slot(program, step.source)} to {_slot(program, step.target)}"
            case Branch():
                yield f"{indent}if {_slot(program, step.predicate)}"
                yield from _step_lines(program, step.blocks[1], indent + "  ")
                yield f"{indent}else"
                yield from _step_lines(program, step.blocks[0], indent + "  ")
            case Loop():
                yield from _loop_lines(program, step, indent)


def _loop_lines(program: Program, loop: Loop, indent: str) -> Iterator[str]:
    way = _way(program, loop)
    if loop.trip_count >= 0:
        yield f"{indent}{loop.trip_count} times, {way}"
    else:
        yield f"{indent}while {_slot(program, loop.predicate)}, {way}"
        if loop.condition:
            yield f"{indent}    made by"
            yield from _step_lines(program, loop.condition, indent + "    ")
    yield from _step_lines(program, loop.body, indent + "  ")


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


def _copies(steps: Iterable[Step]) -> int:
    return sum(isinstance(step, Copy) for step in _steps(steps))


def _steps(steps: Iterable[Step]) -> Iterator[Step]:
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


def _slot(program: Program, number: int) -> str:
    slot = program.storage.slots[number]
    name = slot.name or f"{slot.role} {number}"
    return f"{name} {slot.spec}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def flops_text(count: int) -> str:
    """A number of floating-point operations."""
    for unit, size in (("TFLOP", 10**12), ("GFLOP", 10**9), ("MFLOP", 10**6), ("kFLOP", 1000)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} FLOP"
