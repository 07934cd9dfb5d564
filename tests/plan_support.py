"""Runs programs in NumPy: every slot an array, every launch through the interpreter, to test the planner by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from poot.errors import KernelFault
from poot.kernel.interpret import Interpreter
from poot.kernel.interpret.launch import BufferView
from poot.kernel.pipeline import prepare
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.plan.program import Branch, Copy, Launch, Loop, Program, Step, slots_of
from poot.target import Target
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits
from poot.trace.tree import unflatten
from tests.closeness import COMPOSED

LIMITS = TraceLimits.STANDARD
INTERPRET = Target.parse("interpret")

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Machine:
    """The memory of one program: the arena as bytes full of a pattern, other slots as arrays of their own."""

    def __init__(self, program: Program, bindings: Arrays) -> None:
        self.program = program
        self.arena = np.full(program.storage.arena_bytes, 0xA5, np.uint8)
        self.memory: list[np.ndarray[Any, Any]] = []
        for slot in program.storage.slots:
            size = slot.spec.size
            if slot.role == "scratch":
                assert slot.offset % 64 == 0
                piece = self.arena[slot.offset : slot.offset + slot.nbytes]
                self.memory.append(piece.view(slot.spec.dtype.dtype))
            elif slot.role in ("output", "kept"):
                self.memory.append(np.full(slot.nbytes, 0xA5, np.uint8).view(slot.spec.dtype.dtype))
            else:
                bound = np.ascontiguousarray(bindings[slot.name]).reshape(-1)
                assert bound.size == size and bound.dtype == slot.spec.dtype.dtype
                self.memory.append(bound.copy())
        self.kernels = [Interpreter(prepare(kernel, program.target)) for kernel in program.kernels]

    def prologue(self) -> None:
        """Fill the kept slots; the prologue has an arena of its own, which is gone afterwards."""
        storage, steps = self.program.storage, self.memory
        arena = np.full(storage.prologue_bytes, 0xA5, np.uint8)
        self.memory = list(steps)
        for number in slots_of(self.program.prologue):
            slot = storage.slots[number]
            if slot.role == "scratch":
                assert slot.offset + slot.nbytes <= len(arena)
                piece = arena[slot.offset : slot.offset + slot.nbytes]
                self.memory[number] = piece.view(slot.spec.dtype.dtype)
        self.run(self.program.prologue)
        self.memory = steps

    def run(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Launch():
                    views = [BufferView(self.memory[b.slot], b.offset) for b in step.bindings]
                    self.kernels[step.kernel].run(views, groups=step.groups)
                case Copy():
                    self.memory[step.target][:] = self.memory[step.source]
                case Branch():
                    self.run(step.blocks[int(bool(self.memory[step.predicate][0]))])
                case Loop():
                    turn = 0
                    while step.trip_count < 0 or turn < step.trip_count:
                        if step.counter >= 0:
                            self.memory[step.counter][0] = turn
                        if step.trip_count < 0:
                            self.run(step.condition)
                            if not self.memory[step.predicate][0]:
                                break
                        self.run(step.body)
                        turn += 1

    def value(self, slot: int) -> np.ndarray[Any, Any]:
        spec = self.program.storage.slots[slot].spec
        return self.memory[slot].reshape(spec.shape).copy()


def run_program(program: Program, bindings: Arrays) -> tuple[Any, dict[str, Any]]:
    """The output pytree and the next states."""
    machine = Machine(program, bindings)
    machine.prologue()
    machine.run(program.steps)
    outputs = [machine.value(slot) for slot in program.outputs]
    states = {variable.name: np.asarray(bindings[variable.name]) for variable in program.graph.states}
    states |= {name: machine.value(slot) for name, slot in program.updates}
    return unflatten(program.graph.tree, outputs), states


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bit patterns of an array, every NaN made the same."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "b" or array.dtype.kind in "iu":
        return array
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        quiet = np.where(np.isnan(array.astype(np.float64)), np.array(np.nan).astype(array.dtype), array)
    return np.ascontiguousarray(quiet.astype(array.dtype)).reshape(-1).view(unsigned).reshape(array.shape)


def assert_same(graph: Graph, bindings: Arrays, *, target: Target = INTERPRET, exact: bool = True) -> Program:
    """Plan a graph, run it, and compare with the oracle: bit for bit, or closely."""
    program = plan(graph, target, CompileOptions())
    expected = evaluate(graph, bindings)
    outputs, states = run_program(program, bindings)
    compare(outputs, expected.output, exact)
    for name, value in expected.state.items():
        compare(states[name], value, exact)
    return program


def compare(actual: Any, expected: Any, exact: bool) -> None:
    if expected is None:
        assert actual is None
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            compare(mine, theirs, exact)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            compare(actual[key], expected[key], exact)
    else:
        actual, expected = np.asarray(actual), np.asarray(expected)
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if exact or actual.dtype.kind in "iub":
            np.testing.assert_array_equal(bits(actual), bits(expected))
        else:
            tolerance = COMPOSED[actual.dtype.name]
            wide = [array.astype(np.float64) for array in (actual, expected)]
            scale = np.nanmax(np.abs(np.where(np.isfinite(wide[1]), wide[1], 0.0)), initial=1.0)
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance * scale)


__all__ = ["INTERPRET", "LIMITS", "KernelFault", "Machine", "assert_same", "compare", "run_program"]
