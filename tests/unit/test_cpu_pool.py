# size: one suite for both kinds of pool, whose cases share their launches and checks
"""The worker pool: order, chunks, sharing, interruption, forks, and closing, for both kinds."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FrameType

import numpy as np
import pytest

from poot.backends.cpu.jit import LoadedObject, compile_object, load_object
from poot.backends.cpu.launches import Launch, LaunchList
from poot.backends.cpu.pool import Pool, default_kind, default_threads
from poot.backends.cpu.runtime_ir import Kind, runtime_ir
from poot.errors import ArgumentError, DeviceError
from tests.messages import without_line
from tests.unit.threads_support import once

# count: adds 1 to counts[g] for each group, and stores the address of a local, which tells the threads apart.
# shift: y[g] = x[g - 1] + 1, with x[-1] = 0: what a missing barrier would break.
# spin: count, after a loop of args[1] rounds in each group.
KERNELS = """
define void @count(ptr %args, i64 %begin, i64 %end) {
entry:
  %local = alloca i64
  %stack = ptrtoint ptr %local to i64
  %counts = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %stacks = load ptr, ptr %slot
  br label %loop
loop:
  %g = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %counts, i64 %g
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %at.stack = getelementptr i64, ptr %stacks, i64 %g
  store i64 %stack, ptr %at.stack
  %next = add i64 %g, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @shift(ptr %args, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %slot
  br label %loop
loop:
  %g = phi i64 [ %begin, %entry ], [ %next, %store ]
  %first = icmp eq i64 %g, 0
  br i1 %first, label %store, label %load
load:
  %before = sub i64 %g, 1
  %from = getelementptr i64, ptr %x, i64 %before
  %left = load i64, ptr %from
  br label %store
store:
  %value = phi i64 [ 0, %loop ], [ %left, %load ]
  %new = add i64 %value, 1
  %to = getelementptr i64, ptr %y, i64 %g
  store i64 %new, ptr %to
  %next = add i64 %g, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @spin(ptr %args, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %rounds = load i64, ptr %slot
  br label %group
group:
  %g = phi i64 [ %begin, %entry ], [ %next, %store ]
  br label %round
round:
  %i = phi i64 [ 0, %group ], [ %i.next, %round ]
  %x = phi i64 [ %g, %group ], [ %mixed, %round ]
  %product = mul i64 %x, 6364136223846793005
  %high = lshr i64 %product, 29
  %mixed = xor i64 %high, %product
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %rounds
  br i1 %again, label %round, label %store
store:
  %bit = and i64 %mixed, 0
  %one = or i64 %bit, 1
  %at = getelementptr i64, ptr %counts, i64 %g
  %old = load i64, ptr %at
  %new = add i64 %old, %one
  store i64 %new, ptr %at
  %next = add i64 %g, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}
"""

KINDS: tuple[Kind, ...] = ("futex", "threads")


@pytest.fixture(scope="module")
def code() -> LoadedObject:
    # The multiplications of spin must not be removed, which optimising would do.
    return load_object(compile_object(KERNELS, opt_level=0), ["count", "shift", "spin"])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def pool(kind: Kind) -> Iterator[Pool]:
    with Pool(3, kind=kind) as made:
        yield made


def count_launch(code: LoadedObject, counts: np.ndarray, grain: int, stacks: np.ndarray | None = None) -> Launch:
    scratch = np.zeros_like(counts) if stacks is None else stacks
    launch = Launch(code.address("count"), (counts.ctypes.data, scratch.ctypes.data), len(counts), grain)
    kept.extend((counts, scratch))
    return launch


def spin_launch(code: LoadedObject, counts: np.ndarray, rounds: int, grain: int = 1, inline: bool = False) -> Launch:
    return Launch(code.address("spin"), (counts.ctypes.data, rounds), len(counts), grain, inline)


kept: list[np.ndarray] = []  # what launches point to, for the rest of a test


@pytest.fixture(autouse=True)
def _release() -> Iterator[None]:
    yield
    kept.clear()


def run(pool: Pool, launches: list[Launch]) -> None:
    made = LaunchList(launches)
    pool.run(made.address, made.count)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_group_runs_once(code: LoadedObject, kind: Kind, threads: int) -> None:
    with Pool(threads, kind=kind) as pool:
        for groups, grain in itertools.product([0, 1, 2, 3, 7, 64, 1001], [1, 2, 3, 64, 1000, 1001, 5000]):
            counts = np.zeros(max(groups, 1), np.int64)[:groups]
            run(pool, [count_launch(code, counts, grain)])
            assert np.array_equal(counts, np.ones(groups, np.int64)), (groups, grain)


def test_workers_take_part_and_small_launches_stay_with_the_caller(code: LoadedObject, pool: Pool) -> None:
    counts = np.zeros(6, np.int64)
    deadline = time.monotonic() + 120
    seen: set[int] = set()
    while len(seen) < 2 and time.monotonic() < deadline:
        stacks = np.zeros(2000, np.int64)
        run(pool, [spin_launch(code, counts, 20_000), count_launch(code, np.zeros(2000, np.int64), 1, stacks)])
        seen |= {int(address) >> 20 for address in stacks}
    assert len(seen) >= 2
    stacks = np.zeros(500, np.int64)
    run(pool, [count_launch(code, np.zeros(500, np.int64), 500, stacks)])
    assert len(set(stacks.tolist())) == 1


def test_an_inline_launch_stays_with_the_caller(code: LoadedObject, pool: Pool) -> None:
    stacks = np.zeros(500, np.int64)
    counts = np.zeros(500, np.int64)
    launch = Launch(code.address("count"), (counts.ctypes.data, stacks.ctypes.data), 500, 7, inline=True)
    run(pool, [launch] * 3)
    assert np.array_equal(counts, np.full(500, 3))
    assert len(set(stacks.tolist())) == 1


def test_each_launch_sees_all_of_the_one_before(code: LoadedObject, pool: Pool) -> None:
    x, y = np.zeros(257, np.int64), np.zeros(257, np.int64)
    for grain in (1, 2, 5, 64, 300):
        x[:] = 0
        forth = Launch(code.address("shift"), (x.ctypes.data, y.ctypes.data), 257, grain)
        back = Launch(code.address("shift"), (y.ctypes.data, x.ctypes.data), 257, 3)
        run(pool, [forth, back] * 50)
        assert np.array_equal(x, np.minimum(np.arange(257) + 1, 100))


def test_a_list_is_run_again_with_its_arguments_changed(code: LoadedObject, pool: Pool) -> None:
    first, second, scratch = (np.zeros(40, np.int64) for _ in range(3))
    made = LaunchList([count_launch(code, first, 3), count_launch(code, first, 4)])
    pool.run(made.address, made.count)
    made.set_argument(1, 0, second.ctypes.data)
    pool.run(made.address, made.count)
    other = made.copy()
    other.set_arguments(0, (second.ctypes.data, scratch.ctypes.data))
    other.set_groups(1, 10, 20)
    other.words[other.slot(1, 0)] = second.ctypes.data
    pool.run(other.address, other.count)
    assert np.array_equal(first, np.full(40, 3))
    assert np.array_equal(second, np.where(np.arange(40) < 10, 3, 2))
    pool.run(made.address, made.count)
    assert np.array_equal(first, np.full(40, 4)), "a copy shares nothing with its original"


def test_an_empty_list_does_nothing(pool: Pool) -> None:
    run(pool, [])


def test_a_slice_that_is_over_is_resumed_where_it_stopped(code: LoadedObject, kind: Kind) -> None:
    with Pool(3, kind=kind, slice_ticks=0) as pool:
        for grain in (1, 3):
            counts, other = np.zeros(50, np.int64), np.zeros(50, np.int64)
            inline = Launch(code.address("spin"), (other.ctypes.data, 10), 50, grain, inline=True)
            run(pool, [spin_launch(code, counts, 10, grain), inline, spin_launch(code, counts, 100, grain)])
            assert np.array_equal(counts, np.full(50, 2))
            assert np.array_equal(other, np.ones(50))


def in_threads(work: Callable[[int], None], number: int) -> None:
    errors: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), "a run never ended"
    assert not errors


@pytest.mark.parametrize("slice_ticks", [None, 0])
def test_many_threads_run_at_once(code: LoadedObject, kind: Kind, slice_ticks: int | None) -> None:
    with Pool(4, kind=kind, slice_ticks=slice_ticks) as pool:

        def work(index: int) -> None:
            x, y = np.zeros(100, np.int64), np.zeros(100, np.int64)
            counts = np.zeros(37 + index, np.int64)
            made = LaunchList(
                [
                    Launch(code.address("shift"), (x.ctypes.data, y.ctypes.data), 100, 1 + index),
                    spin_launch(code, counts, 50),
                    Launch(code.address("shift"), (y.ctypes.data, x.ctypes.data), 100, 7),
                ]
            )
            for turn in range(1, 41):
                pool.run(made.address, made.count)
                assert np.array_equal(counts, np.full(len(counts), turn))
                assert np.array_equal(x, np.minimum(np.arange(100) + 1, 2 * turn))

        in_threads(work, 5)


def workers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("poot-cpu")}


def test_pools_that_come_and_go_with_work_between(code: LoadedObject, kind: Kind) -> None:
    before = workers()  # those of the device's own pool, if another test has used it
    for turn in range(30):
        with Pool(1 + turn % 4, kind=kind) as pool:
            counts = np.zeros(33, np.int64)
            for _ in range(turn % 3):
                run(pool, [count_launch(code, counts, 1)])
            assert np.array_equal(counts, np.full(33, turn % 3))
        assert pool.closed
    assert workers() <= before


def test_sleeping_workers_wake_again(code: LoadedObject, pool: Pool) -> None:
    for _ in range(20):
        counts = np.zeros(16, np.int64)
        run(pool, [spin_launch(code, counts, 2000)] * 2)
        assert np.array_equal(counts, np.full(16, 2))
        time.sleep(0.002)


def test_a_pool_starts_no_thread_before_it_is_used(code: LoadedObject, kind: Kind) -> None:
    before = set(threading.enumerate())  # some of which may end meanwhile
    with Pool(4, kind=kind) as pool:
        assert not set(threading.enumerate()) - before
        run(pool, [count_launch(code, np.zeros(9, np.int64), 1)])
        assert len(set(threading.enumerate()) - before) == 3
    assert not set(threading.enumerate()) - before


def test_a_closed_pool_refuses(pool: Pool) -> None:
    pool.close()
    pool.close()
    with pytest.raises(DeviceError, match="device cpu: its worker pool is closed"):
        run(pool, [])


def test_a_forgotten_pool_lets_its_workers_go(code: LoadedObject, kind: Kind) -> None:
    before = workers()
    pool = Pool(3, kind=kind)
    run(pool, [count_launch(code, np.zeros(9, np.int64), 1)])
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    deadline = time.monotonic() + 120
    while not workers() <= before:
        assert time.monotonic() < deadline, "the workers stayed"
        time.sleep(0.001)


def test_closing_while_others_run(code: LoadedObject, kind: Kind) -> None:
    pool = Pool(3, kind=kind, slice_ticks=0)
    started = threading.Barrier(4)

    def work(_: int) -> None:
        counts = np.zeros(20, np.int64)
        made = LaunchList([spin_launch(code, counts, 200)])
        started.wait()
        with pytest.raises(DeviceError, match="closed"):
            while True:
                pool.run(made.address, made.count)

    def close(index: int) -> None:
        if index < 3:
            work(index)
        else:
            started.wait()
            time.sleep(0.01)
            pool.close()

    in_threads(close, 4)


@pytest.mark.parametrize("inline", [False, True])
def test_cancelling_stops_runs_in_progress_and_no_others(code: LoadedObject, pool: Pool, inline: bool) -> None:
    counts = np.zeros(200_000, np.int64)
    with pytest.raises(DeviceError, match="the run was cancelled"), once(lambda: counts[0], pool.cancel):
        run(pool, [spin_launch(code, counts, 2000, inline=inline)] * 50)
    done = counts.copy()
    time.sleep(0.02)
    assert np.array_equal(counts, done), "a worker went on after the run had ended"
    few = np.zeros(100, np.int64)
    run(pool, [spin_launch(code, few, 10)])
    assert np.array_equal(few, np.ones(100))


@pytest.mark.parametrize("number", [1, 50], ids=["one launch", "many launches"])
def test_a_signal_interrupts_a_long_run(code: LoadedObject, pool: Pool, number: int) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise Interrupted

    counts = np.zeros(2_000_000 // number, np.int64)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted), once(lambda: counts[0], lambda: os.kill(os.getpid(), signal.SIGUSR1)):
            run(pool, [spin_launch(code, counts, 20_000)] * number)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (counts < number).any(), "the run went on to its end"
    done = counts.copy()
    time.sleep(0.02)
    assert np.array_equal(counts, done), "a worker went on after the run had ended"
    few = np.zeros(100, np.int64)
    run(pool, [spin_launch(code, few, 10)])
    assert np.array_equal(few, np.ones(100))


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child, and require that it ends well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork in a threaded process, which is the point here
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 240
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.001)


def test_a_forked_child_has_workers_of_its_own(code: LoadedObject, pool: Pool) -> None:
    stop = threading.Event()

    def busy() -> None:
        counts = np.zeros(64, np.int64)
        made = LaunchList([spin_launch(code, counts, 500)])
        while not stop.is_set():
            pool.run(made.address, made.count)

    def check() -> None:
        assert threading.active_count() == 1
        for turn in range(1, 4):
            counts = np.zeros(500, np.int64)
            run(pool, [spin_launch(code, counts, 100)] * turn)
            assert np.array_equal(counts, np.full(500, turn))
        assert threading.active_count() == 3
        pool.close()

    def check_and_fork_again() -> None:
        check_forked()
        in_child(check)

    def check_forked() -> None:
        counts = np.zeros(50, np.int64)
        run(pool, [spin_launch(code, counts, 100)])
        assert np.array_equal(counts, np.ones(50))

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(4):
            in_child(check)
        in_child(check_and_fork_again)
    finally:
        stop.set()
        thread.join()
    check_forked()


def test_a_pool_closed_before_a_fork_stays_closed(pool: Pool) -> None:
    pool.close()

    def check() -> None:
        assert pool.closed

    in_child(check)


def test_threads_that_cannot_start_are_reported(
    code: LoadedObject, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    counts = np.zeros(30, np.int64)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(DeviceError) as caught:
            run(pool, [count_launch(code, counts, 1)])
    assert caught.value.summary == "device cpu: a worker thread did not start: can't start new thread"
    assert caught.value.remedy == "set POOT_NUM_THREADS to a smaller number."
    run(pool, [count_launch(code, counts, 1)])
    assert np.array_equal(counts, np.ones(30))


EXIT = """
import ctypes, threading
import numpy as np
from poot.backends.cpu.jit import compile_object, load_object
from poot.backends.cpu.launches import Launch, LaunchList
from poot.backends.cpu.pool import Pool
code = load_object(compile_object("define void @k(ptr %args, i64 %begin, i64 %end) { ret void }"), ["k"])
pool = Pool(4, kind="KIND")
work = LaunchList([Launch(code.address("k"), (), 100, 1)])
pool.run(work.address, work.count)
def forever():
    while True:
        pool.run(work.address, work.count)
threading.Thread(target=forever, daemon=True).start()
pool.run(work.address, work.count)
print("done")
"""


def test_a_process_ends_with_workers_parked_and_busy(kind: Kind) -> None:
    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", EXIT.replace("KIND", kind)], capture_output=True, text=True, timeout=600, check=False
        )
        assert (result.stdout, result.stderr, result.returncode) == ("done\n", "", 0)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_NUM_THREADS", "5")
    assert default_threads() == 5
    assert Pool().threads == 5
    for text in ("0", "-1", "two", "1.5", "1025", "999999"):
        monkeypatch.setenv("POOT_NUM_THREADS", text)
        with pytest.raises(ArgumentError) as caught:
            Pool()
        assert (
            without_line(caught.value)
            == f"POOT_NUM_THREADS: {text!r} is not valid, expected a number of threads, 1 to 1024\n"
            "  Remedy: set POOT_NUM_THREADS to such a number, or unset it."
        )
    monkeypatch.delenv("POOT_NUM_THREADS")
    assert default_threads() == len(os.sched_getaffinity(0))
    with pytest.raises(ArgumentError, match="threads: 0 is not valid, expected 1 or more"):
        Pool(0)


def test_a_kind_that_the_system_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Pool(1).kind == default_kind() == "futex"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Pool(1).kind == "threads"
    with pytest.raises(ArgumentError) as caught:
        Pool(1, kind="futex")
    assert without_line(caught.value) == "kind: 'futex' is not valid, expected \"threads\" on this system"


def test_launches_that_cannot_be() -> None:
    def messages(**changes: int) -> str:
        fields = {"function": 4096, "groups": 10, "grain": 2, **changes}
        with pytest.raises(ArgumentError) as caught:
            Launch(fields["function"], (), fields["groups"], fields["grain"])
        return without_line(caught.value)

    assert messages(function=0) == "function: 0 is not valid, expected the address of a kernel"
    assert messages(groups=-1) == "groups: -1 is not valid, expected 0 or more"
    assert messages(grain=0) == "grain: 0 is not valid, expected 1 or more"
    assert messages(groups=1 << 40) == "grain: 2 is not valid, expected enough for 1099511627776 groups in 2^38 chunks"
    made = LaunchList([Launch(4096, (1, -1), 10, 2)])
    assert made.words[made.slot(0, 1)] == (1 << 64) - 1
    with pytest.raises(ArgumentError, match="arguments: 3 is not valid, expected 2 values"):
        made.set_arguments(0, (1, 2, 3))
    for launch, index in ((0, 2), (0, -1), (1, 0)):
        with pytest.raises(IndexError):
            made.slot(launch, index)
    with pytest.raises(BufferError):
        made.words.obj.append(1)  # type: ignore[attr-defined]


def test_groups_beyond_32_bits(code: LoadedObject, pool: Pool) -> None:
    seen = np.zeros(2, np.int64)
    text = """
define void @mark(ptr %args, i64 %begin, i64 %end) {
  %total = load ptr, ptr %args
  %size = sub i64 %end, %begin
  %old = atomicrmw add ptr %total, i64 %size seq_cst
  %at = getelementptr i64, ptr %total, i64 1
  %top = atomicrmw max ptr %at, i64 %end seq_cst
  ret void
}
"""
    mark = load_object(compile_object(text), ["mark"])
    groups = (1 << 50) + 12345
    run(pool, [Launch(mark.address("mark"), (seen.ctypes.data,), groups, 1 << 40)])
    assert seen.tolist() == [groups, groups]


def test_the_text_of_every_architecture_is_plain_where_it_must_be() -> None:
    for arch in ("x86_64", "aarch64", "riscv64"):
        assert "syscall" not in runtime_ir(arch, "threads")
    assert "svc #0" in runtime_ir("aarch64", "futex")
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    assert compile_object(runtime_ir("riscv64", "threads"))


@pytest.mark.skipif(default_kind() != "futex", reason="threads have an affinity on Linux")
def test_sleeping_workers_wake_beside_their_caller(code: LoadedObject) -> None:
    """Not on the caller's CPU, and never where the caller may not run: from the first launch that finds them asleep."""
    mine = os.sched_getaffinity(0)
    with Pool(2, kind="futex") as pool:

        def place(right: Callable[[set[int]], bool]) -> set[int]:
            """Where the worker may run, once it is right: on a busy machine it falls asleep late."""
            (worker,) = (thread for thread in threading.enumerate() if thread in pool._crew.threads)
            deadline = time.monotonic() + 240
            while True:
                counts = np.zeros(64, np.int64)
                run(pool, [count_launch(code, counts, 1)])
                assert (counts == 1).all()
                placed = os.sched_getaffinity(worker.native_id or 0)
                assert placed <= mine
                if right(placed) or time.monotonic() > deadline:
                    return placed
                time.sleep(0.02)

        run(pool, [count_launch(code, np.zeros(64, np.int64), 1)])
        beside = max(len(mine) - 1, 1)
        assert len(place(lambda placed: len(placed) == beside)) == beside
        try:
            os.sched_setaffinity(0, {min(mine)})
            assert place(bool)
        finally:
            os.sched_setaffinity(0, mine)
        assert place(bool)
    assert os.sched_getaffinity(0) == mine
