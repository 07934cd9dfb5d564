"""Forks while other threads are at work: the child computes, whatever they held, and never waits for them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, forks, ops
from poot.errors import StateLost

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


@pytest.fixture(autouse=True)
def _threads_and_forks() -> Iterator[None]:
    with warnings.catch_warnings():  # 3.12 says that a process with threads forks, which is the point here
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(work: Callable[[], bool]) -> bool:
    """Whether work is done and right in a forked child, which has some minutes."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            import faulthandler

            faulthandler.dump_traceback_later(240, exit=True)
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


class Holding:
    """A thread that is inside a context until it is let go."""

    def __init__(self, lock: Any) -> None:
        self._entered, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(lock,))

    def _hold(self, lock: Any) -> None:
        with lock:
            self._entered.set()
            self._leave.wait(600)

    def __enter__(self) -> Holding:
        self._thread.start()
        assert self._entered.wait(300)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self._thread.join()

    def let_go(self) -> None:
        self._leave.set()


def test_a_lock_is_free_in_a_child() -> None:
    lock = forks.lock()

    def work() -> bool:
        found: list[int] = []

        def take() -> None:
            with lock:
                found.append(1)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        take()
        for thread in threads:
            thread.join(200)
        return len(found) == 5

    with Holding(lock):
        assert in_child(work)
    with lock:
        pass


def test_a_lock_of_the_thread_that_forks_is_its_own_in_the_child() -> None:
    """It frees it there as here, and may take it again meanwhile, as other threads may afterwards."""
    lock = forks.lock()

    def taken_by_another() -> bool:
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join(200)
        return found == [True]

    with lock:
        child = os.fork()
        with lock:
            assert forks.is_mine(lock)
    right = not forks.is_mine(lock) and taken_by_another()
    if child == 0:
        os._exit(0 if right else 1)
    assert right and os.waitpid(child, 0)[1] == 0


def test_taking_and_freeing_a_lock_runs_no_line_of_python() -> None:
    """Before a line of Python a handler of a signal may run: a Ctrl-C there would leave the lock held for ever."""
    lock, lines = forks.lock(), list[str]()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            lines.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        with lock:
            pass
    finally:
        sys.setprofile(None)
    assert not lines


def test_locks_are_forgotten_with_their_owners() -> None:
    before = len(forks._locks)
    locks = [forks.lock() for _ in range(10)]
    assert len(forks._locks) == before + 10
    del locks
    assert len(forks._locks) <= before


class Interrupted:
    """A lock that a Ctrl-C hits right after it has been taken."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.release, self._is_owned = self.lock.release, self.lock._is_owned  # type: ignore[attr-defined]

    def acquire(self, blocking: bool) -> bool:
        assert self.lock.acquire(blocking=blocking)
        raise KeyboardInterrupt


def test_work_that_waits_for_no_lock() -> None:
    lock, done = threading.RLock(), list[int]()
    assert forks.if_free(lock, lambda: 1) == 1
    with lock:
        assert forks.if_free(lock, lambda: 2) == 2 and forks.is_mine(lock)
    with Holding(lock):
        assert forks.if_free(lock, lambda: done.append(1)) is None and not done
    interrupted = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        forks.if_free(interrupted, lambda: done.append(1))
    assert not done and not forks.is_mine(interrupted)


def test_a_fork_waits_for_what_it_has_to() -> None:
    """A thread that holds the lock of imports lets go a moment later; the fork comes after that."""
    done: list[int] = []

    def work() -> bool:
        with forks.imports:
            return done == [1]

    with Holding(forks.imports) as holding:

        def release() -> None:
            done.append(1)
            holding.let_go()

        timer = threading.Timer(0.05, release)
        timer.start()
        assert in_child(work)
        timer.join()


def test_states_of_a_step_of_another_thread_are_lost_in_the_child() -> None:
    engine = poot.Engine(poot.device("cpu"))
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    trace: Any = poot.trace
    graph = trace(lambda x, s: {"y": x + s, "s": s + x}).graph(f32[3], f32[3], states={"s": "s"})
    entry = engine.add_entry(exe, poot.compile(graph, engine.device.target))
    ones = poot.StepInputs().push("x", np.ones(3, np.float32))
    engine.step(exe, entry, ones)

    def work() -> bool:
        with pytest.raises(StateLost, match="a step that another thread was at when the process forked"):
            engine.step(exe, entry, ones)
        exe.state.reset()
        engine.step(exe, entry, ones)
        return bool(np.array_equal(exe.state["s"], np.ones(3, np.float32)))

    with Holding(exe.lock):
        assert in_child(work)
    engine.step(exe, entry, ones)
    np.testing.assert_array_equal(exe.state["s"], np.full(3, 2.0, np.float32))


FIRST_CALLS = """
import faulthandler, os, random, sys, threading, time, warnings
import numpy as np
import poot
from poot import ops

warnings.simplefilter("ignore")
rng, stop, x = random.Random(int(sys.argv[1])), threading.Event(), np.arange(8, dtype=np.float32)

@poot.kernel
def double(a: poot.In[poot.f32], b: poot.Out[poot.f32]):
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i] * 2.0

def busy():
    number = 0
    while not stop.is_set():
        number += 1
        c = float(number)
        np.asarray(poot.trace(lambda v: ops.nn.softmax(v * c) + ops.sort(v))(np.ones(30 + number % 5, np.float32)))

def child(number):
    faulthandler.dump_traceback_later(240, exit=True)
    found = np.asarray(poot.trace(lambda v: v * 2.0 + float(number))(x))
    out = poot.asarray(np.zeros(8, np.float32))
    double(poot.asarray(x), out, threads=8)
    right = np.array_equal(found, x * 2 + number) and np.array_equal(np.asarray(out), x * 2)
    os._exit(0 if right else 3)

thread = threading.Thread(target=busy)
thread.start()
bad = []
for number in range(int(sys.argv[2])):
    time.sleep(rng.random() * (0.5 if number == 0 else 0.05))
    pid = os.fork()
    if pid == 0:
        child(number)
    if os.waitpid(pid, 0)[1]:
        bad.append(number)
stop.set()
thread.join()
assert not bad, bad
"""


def test_children_of_a_first_call(tmp_path: Path) -> None:
    """Forks at random moments of another thread's first calls: imports, tracing, planning, LLVM, launches."""
    script = tmp_path / "script.py"
    script.write_text(FIRST_CALLS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POOT_CACHE_DIR": "", "POOT_DEVICE": ""}
    subprocess.run([sys.executable, str(script), "1", "8"], env=environment, check=True, timeout=900)


IMPORTS = """
import sys
import numpy as np
import poot
from poot import forks, ops
from poot.backends import device

outside = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if not (forks.imports._is_owned() or device._lock._is_owned()):
            outside.append(name)

@poot.kernel
def double(a: poot.In[poot.f32], b: poot.Out[poot.f32]):
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i] * 2.0

sys.meta_path.insert(0, Watch())
x = np.ones(37, np.float32)
for name in ("cpu", "interpret"):
    f = poot.trace(lambda v: ops.nn.softmax(v + 1.0) + ops.sort(v) + (v @ v), device=name)
    np.asarray(f(x))
    with poot.device(name):
        a = poot.asarray(x)
        np.asarray(a * 2 + a)
        double(a, poot.asarray(x), threads=3)
assert not outside, outside
"""


def test_first_calls_import_nothing_that_a_fork_does_not_wait_for(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IMPORTS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POOT_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=600)


def test_a_child_may_draw_what_its_parent_was_drawing() -> None:
    from poot.backends import progress

    with Holding(progress._screen):
        assert in_child(lambda: progress._screen.acquire(blocking=False))


def test_code_that_is_dropped_while_another_thread_links_waits_for_nobody() -> None:
    from poot.backends.cpu import jit

    image = jit.compile_object("define void @f() {\n  ret void\n}\n")
    loaded = jit.load_object(image, ["f"])
    with Holding(jit.llvm_lock()):
        del loaded  # as a collection of garbage would, in a thread that holds any other lock
    jit.load_object(image, ["f"]).close()
    assert not jit._dropped
    assert ops.abs(-1) == 1


def test_garbage_does_not_release_code_beside_who_releases_it() -> None:
    """A collector finalises all that a cycle reaches, in no order and under no lock."""
    from poot.backends.cpu import jit

    class Holder:
        me: Any
        code: Any

    image = jit.compile_object("define void @f() {\n  ret void\n}\n")
    holder = Holder()
    holder.me, holder.code = holder, jit.load_object(image, ["f"])
    tracker = next(reversed(jit._loaded.values()))[0]
    with Holding(jit.llvm_lock()):
        del holder
        gc.collect()
        assert not tracker.closed
    jit.load_object(image, ["f"]).close()
    assert tracker.closed and not jit._dropped


def test_a_traced_function_that_forks_goes_on_in_both_processes() -> None:
    parent, reading, writing = os.getpid(), *os.pipe()

    @poot.trace
    def forking(x: Any) -> Any:
        os.fork()
        return x + 1.0

    try:
        right = np.asarray(forking(np.ones(3, np.float32))).tolist() == [2.0] * 3
    except BaseException as error:
        if os.getpid() == parent:
            raise
        os.write(writing, str(error).encode())
        os._exit(1)
    if os.getpid() != parent:
        os.write(writing, b"right" if right else b"wrong")
        os._exit(0)
    assert right and os.read(reading, 1 << 16) == b"right"
    os.wait()
    os.close(reading)
    os.close(writing)
