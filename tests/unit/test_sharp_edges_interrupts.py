"""Ctrl-C in a launch, in a compile and between any two lines of poot leaves everything usable."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.backends.cpu.allocator import Allocator

ROOT = Path(__file__).resolve().parents[2]

PRELUDE = """
import os, signal, threading
import numpy as np, poot
from poot import ops
from tests.unit.threads_support import main_thread_runs, once

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(call, file):
    try:
        with once(lambda: main_thread_runs(file), interrupt):
            call()
    except KeyboardInterrupt:
        return
    raise AssertionError("nothing interrupted it")
"""

LAUNCH = """
# The product would take days: a test that ends has interrupted it.
@poot.trace
def product(x, turns):
    return ops.fori_loop(0, turns, lambda turn, x: (x @ x * (1 / len(x))) @ x * (1 / len(x)), x)

@poot.kernel
def spin(n: poot.i32, out: poot.InOut[poot.f32]):
    i = poot.thread_index()
    if i < len(out):
        value = out[i]
        for k in range(n):
            value = value * 0.5 + 0.5
        out[i] = value

small, large = np.ones((64, 64), np.float32), np.ones((3000, 3000), np.float32)
assert float(product(small, 9)[0, 0]) == 1.0
interrupted(lambda: product(large, 1 << 30), "cpu/pool.py")
assert float(product(small, 9)[0, 0]) == 1.0
assert float(product(np.ones((512, 512), np.float32), 9)[3, 4]) == 1.0

array = np.zeros(1 << 23, np.float32)
interrupted(lambda: spin(1 << 16, array, threads=array.size), "cpu/pool.py")
assert (array == 0.0).any()  # it was not run to its end
array[:] = 1.0
spin(3, array, threads=array.size)
assert (array == 1.0).all()
"""

COMPILE = """
# Its code takes LLVM longer than any test may: one that ends has interrupted the call before.
@poot.trace(limits=poot.TraceLimits.STANDARD)
def many(x, turns=1500):
    for turn in range(turns):
        x = ops.sin(x) * float(turn) + x.sum()
    return x

for number, file in enumerate(("api/recording.py", "plan/compile.py")):
    interrupted(lambda: many(np.ones(3 + number, np.float32)), file)
    found = []
    thread = threading.Thread(target=lambda: found.append(few(np.ones(3 + number, np.float32))))
    few = poot.trace(lambda x: ops.sin(x) * 2.0 + x.sum())
    thread.start()
    thread.join(240)
    assert found and np.allclose(found[0], np.sin(np.float32(1)) * 2 + 3 + number)
"""


@pytest.mark.parametrize("program", [LAUNCH, COMPILE], ids=["launch", "compile"])
def test_ctrl_c_leaves_everything_usable(program: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POOT_CACHE_DIR": str(tmp_path / "cache")}
    script = tmp_path / "script.py"
    script.write_text(PRELUDE + program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


POOT = str(Path(poot.__file__).parent) + os.sep
#: Where an interrupt would hit the very lines that clean up after one: a few in some ten thousand.
CLEANING = ("__exit__", "__del__", "close", "free", "_give_back", "pop_all")


class InterruptAt:
    """A trace function that raises KeyboardInterrupt at the n-th line of poot's code."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.place = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.line if frame.f_code.co_filename.startswith(POOT) else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_code.co_name not in CLEANING:
            self.left -= 1
            # A `with` line is reached once more on leaving, before the lock is free, where Python looks for no signal.
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno) if self.left <= 0 else ""
            if self.left <= 0 and not self.place and not text.lstrip().startswith("with "):
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.line


def in_thread(work: Any) -> list[Any]:
    """What `work` gives in another thread, in a list; an empty one if it never ends."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(240)
    return found


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
def test_an_interrupt_between_any_two_lines_leaves_nobody_waiting() -> None:
    x = np.ones(4, np.float32)

    def make(number: int) -> Any:
        return poot.trace(lambda x: ops.tanh(x) * 2.0 + number)

    number, step, hit = 1, 1, 0
    while True:
        function = make(number)
        tracer = InterruptAt(number)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            function(x)
        except KeyboardInterrupt:
            hit += 1
        finally:
            sys.settrace(before)
        if not tracer.place:
            break
        found = in_thread(lambda function=function: np.asarray(function(x)))
        assert found, f"an interrupt at {tracer.place} left others waiting"
        assert np.allclose(found[0], np.tanh(1.0) * 2 + number), tracer.place
        step = max(step, number // 6)
        number += step
    assert hit > 15
    for thread in threading.enumerate():  # what interrupted calls left is not compiled beside another test, that counts
        if thread.name.startswith("poot-compile"):
            thread.join()


@pytest.mark.parametrize("left", ["free", "oldest"])
def test_memory_that_a_ctrl_c_left_in_one_list_alone(left: str) -> None:
    allocator = Allocator(cache_bytes=1 << 20)
    for _ in range(2):
        allocator.free(allocator.allocate(100_000))
        assert allocator.statistics().cached_bytes > 0  # which settles it
        (extent,) = allocator._oldest
        if left == "free":
            del allocator._oldest[extent]
        else:
            allocator._free.clear()
        blocks = [allocator.allocate(100_000) for _ in range(3)]
        for block in blocks:
            allocator.free(block)
        allocator.trim()
        assert not allocator._oldest
