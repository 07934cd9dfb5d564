"""Branches and loops inside the native runtime: their order, resumption after a time slice, and how they end early."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.backends.cpu.control import Decision, flatten
from poot.backends.cpu.jit import LoadedObject, compile_object, load_object
from poot.backends.cpu.launches import Control, Launch, LaunchList
from poot.backends.cpu.pool import Pool
from poot.backends.cpu.runtime_ir import Kind, Operation
from poot.backends.device import BranchSpec, ControlledStep, CopySpec, LoopSpec
from poot.errors import DeviceError
from tests.unit.threads_support import main_thread_runs, once

# note: log[log[0] + 1] = code + counter, and log[0] grows by 1; below: flag = (counter < limit).
KERNELS = """
define void @note(ptr %args, i64 %begin, i64 %end) {
  %log = load ptr, ptr %args
  %at.code = getelementptr i64, ptr %args, i64 1
  %code = load i64, ptr %at.code
  %at.counter = getelementptr i64, ptr %args, i64 2
  %counter = load ptr, ptr %at.counter
  %turn = load i32, ptr %counter
  %wide = sext i32 %turn to i64
  %word = add i64 %code, %wide
  %old = load i64, ptr %log
  %new = add i64 %old, 1
  store i64 %new, ptr %log
  %place = getelementptr i64, ptr %log, i64 %new
  store i64 %word, ptr %place
  ret void
}
define void @below(ptr %args, i64 %begin, i64 %end) {
  %flag = load ptr, ptr %args
  %at.limit = getelementptr i64, ptr %args, i64 1
  %limit = load i64, ptr %at.limit
  %at.counter = getelementptr i64, ptr %args, i64 2
  %counter = load ptr, ptr %at.counter
  %turn = load i32, ptr %counter
  %wide = sext i32 %turn to i64
  %less = icmp slt i64 %wide, %limit
  %byte = zext i1 %less to i8
  store i8 %byte, ptr %flag
  ret void
}
"""


@pytest.fixture(scope="module")
def code() -> LoadedObject:
    return load_object(compile_object(KERNELS, what="test kernels"), ["note", "below"])


@pytest.fixture(params=["futex", "threads"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


class Machine:
    """Words for loops to work on, and the list of a small program."""

    def __init__(self, code: LoadedObject) -> None:
        self.code = code
        self.log = np.zeros(100_000, np.int64)
        self.outer, self.inner = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.flag = np.zeros(1, np.bool_)

    def note(self, number: int, counter: np.ndarray[Any, Any], *, quick: bool = True) -> Launch:
        arguments = (self.log.ctypes.data, number, counter.ctypes.data)
        return Launch(self.code.address("note"), arguments, 1, 1, inline=True, quick=quick)

    def below(self, limit: int, counter: np.ndarray[Any, Any]) -> Launch:
        arguments = (self.flag.ctypes.data, limit, counter.ctypes.data)
        return Launch(self.code.address("below"), arguments, 1, 1, inline=True, quick=True)

    def nested(self, *, quick: bool) -> LaunchList:
        """for o in range(5): note(100 + o); o < 2 ? note(200 + o) : for i in range(3): note(300 + i); note(400 + o)."""
        outer, inner = self.outer.ctypes.data, self.inner.ctypes.data
        return LaunchList(
            [
                Control(Operation.START, 10),
                self.note(100, self.outer, quick=quick),
                self.below(2, self.outer),
                Control(Operation.TEST, 6, (self.flag.ctypes.data,)),
                self.note(200, self.outer, quick=quick),
                Control(Operation.JUMP, 9),
                Control(Operation.START, 8),
                self.note(300, self.inner, quick=quick),
                Control(Operation.TURN, 7, (inner, 0), 3),
                self.note(400, self.outer, quick=quick),
                Control(Operation.TURN, 1, (outer, 0), 5),
            ]
        )


EXPECTED = [
    number for turn in range(5) for number in (100 + turn, *([200 + turn] if turn < 2 else [300, 301, 302]), 400 + turn)
]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("slice_ticks", [None, 0])
def test_branches_and_loops_run_in_order(code: LoadedObject, kind: Kind, quick: bool, slice_ticks: int | None) -> None:
    """With slices of no length a run comes back to Python after every launch that is not quick."""
    with Pool(2, kind=kind, slice_ticks=slice_ticks) as pool:
        machine = Machine(code)
        launches = machine.nested(quick=quick)
        for _ in range(3):
            machine.log[:] = 0
            pool.call(launches)
            assert machine.log[1 : 1 + machine.log[0]].tolist() == EXPECTED


def test_a_long_loop_comes_back_now_and_then(code: LoadedObject) -> None:
    with Pool(1, slice_ticks=0) as pool:
        machine = Machine(code)
        turn = Control(Operation.TURN, 1, (machine.outer.ctypes.data, 0), 50_000)
        launches = LaunchList([Control(Operation.START, 2), machine.note(0, machine.outer), turn])
        pool.call(launches)
        assert np.array_equal(machine.log[1:50_001], np.arange(50_000))
        assert machine.log[0] == 50_000


def endless(machine: Machine) -> LaunchList:
    machine.flag[:] = True
    return LaunchList(
        [
            Control(Operation.START, 3),
            Control(Operation.TEST, 4, (machine.flag.ctypes.data,)),
            machine.below(1 << 40, machine.outer),
            Control(Operation.TURN, 1, (machine.outer.ctypes.data, 0), 1 << 62),
        ]
    )


def test_an_endless_loop_is_cancelled(code: LoadedObject) -> None:
    with Pool(1) as pool:
        machine = Machine(code)
        with pytest.raises(DeviceError, match="cancelled"), once(lambda: machine.outer[0] > 1000, pool.cancel):
            pool.call(endless(machine))


def test_ctrl_c_ends_an_endless_loop_and_the_function_is_usable() -> None:
    @poot.trace(device="cpu")
    def count(start: Any, last: Any) -> Any:
        return ops.while_loop(lambda n: n != last, lambda n: n + 2, start)

    assert int(count(np.int32(0), np.int32(100))) == 100
    interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    with pytest.raises(KeyboardInterrupt), once(lambda: main_thread_runs("cpu/pool.py"), interrupt):
        count(np.int32(0), np.int32(101))
    assert int(count(np.int32(0), np.int32(64))) == 64


def test_steps_become_one_list() -> None:
    def copy(number: int) -> CopySpec:
        return CopySpec(number, 0, 4)

    steps: tuple[ControlledStep, ...] = (
        LoopSpec((copy(1),), (7, 4), (BranchSpec((8, 0), ((copy(2),), ())),)),
        LoopSpec((), None, (copy(3),), 5, (9, 8)),
        LoopSpec((), None, (copy(4),), 0),
    )
    assert flatten(steps) == [
        Decision(Operation.START, 6),
        copy(1),
        Decision(Operation.TEST, 7, ((7, 4),)),
        Decision(Operation.TEST, 5, ((8, 0),)),
        Decision(Operation.JUMP, 6),
        copy(2),
        Decision(Operation.TURN, 1, (0, 0), 1 << 62),
        Decision(Operation.START, 9),
        copy(3),
        Decision(Operation.TURN, 8, ((9, 8), 0), 5),
    ]
