"""The worker pool of the CPU device: a recorded list of launches is one native call, shared with parked threads.

A kernel is a function `void(ptr args, i64 begin, i64 end)`: it runs the work-groups begin <= g < end, and args points
to 8-byte slots.  `LaunchList` lays launches out in native memory; `Pool.run` runs them in order, each complete before
the next begins.  The calling thread takes part; a launch of one chunk, or one that is marked inline, runs on it alone.

Workers are daemon threads that stay inside native code (`runtime_ir` has the protocol).  One call at a time has them;
calls from other threads meanwhile run their launches themselves, and no call ever waits for a worker that is not
running one of its chunks already.  A forked child starts workers of its own when it first needs them.

**Interrupts.**  Python delivers signals between bytecodes, so the native call comes back about every tenth of a second
with the place where it stopped, and `run` calls it again: a Ctrl-C ends the run there with `KeyboardInterrupt`, between
two chunks and with every worker idle.  What the unfinished launch has written so far stays written.  A chunk is never
cut: recordings choose chunks of well under that time.  `Pool.cancel` does the same to every run from another thread.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from poot import forks
from poot.backends.cpu import runtime_ir as ir
from poot.backends.cpu.jit import LoadedObject, compile_object, host, load_object
from poot.backends.cpu.launches import LaunchList
from poot.backends.cpu.runtime_place import PLACES
from poot.backends.settings import whole_number
from poot.errors import ArgumentError, DeviceError

# How often an idle worker looks for work before it sleeps, at some 25 ns each.  Waking a sleeping worker costs the
# caller 5 to 40 µs, and the worker comes up to 500 µs later where an idle virtual CPU has to be started; steps that
# follow each other, with some Python between, should find it awake.
_SPIN_TURNS: Final = 6000
#: More take longer to start than they could ever save.
_MOST_THREADS: Final = 1024
# With more threads than CPUs a turn may keep the very thread from running that it waits for.
_CROWDED_TURNS: Final = 16

_Run = Callable[[int, int, int, int, int], int]
_Call = Callable[[int], int]


class _Native:
    """The compiled functions of `runtime_ir` for one kind of pool."""

    def __init__(self, kind: ir.Kind) -> None:
        image = compile_object(ir.runtime_ir(host().arch, kind), what="the worker pool", inline_assembly=True)
        self._code: LoadedObject = load_object(image, ir.EXPORTS, what="the worker pool")
        address, word = ctypes.c_void_p, ctypes.c_int64
        self.run: _Run = self._function("poot_run", word, address, address, word, word, word)
        self.call: _Call = self._function("poot_call", word, address)
        self.work: Callable[[int], object] = self._function("poot_work", None, address)
        self.stop: Callable[[int], object] = self._function("poot_stop", None, address)
        self.cancel: Callable[[int], object] = self._function("poot_cancel", None, address)
        self.slice: Callable[[], int] = self._function("poot_slice", word)

    def _function(self, name: str, result: type[ctypes.c_int64] | None, *arguments: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self._code.address(name))


@functools.cache
def _native(kind: ir.Kind) -> _Native:
    return _Native(kind)


class _Bell:
    """How the workers of a "threads" pool wait in Python: until it rings after they last looked, or closes."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0
        self._closed = False

    def ring(self) -> None:
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def wait(self, heard: int) -> int | None:
        """The number of rings once it is more than `heard`; None when the bell is closed."""
        with self._condition:
            while self._rings == heard and not self._closed:
                self._condition.wait()
            return None if self._closed else self._rings


class _Crew:
    """The native words of a pool and the threads that work on them, made anew after a fork."""

    def __init__(self, kind: ir.Kind, size: int, slice_ticks: int | None) -> None:
        self.native = _native(kind)
        self.kind: ir.Kind = kind
        self.bell = _Bell()
        self.threads: list[threading.Thread] = []
        # Aligned to a cache line by hand; the buffer lives as long as the crew, which each worker thread holds.
        self._memory = ctypes.create_string_buffer(ir.POOL_BYTES + 63)
        self.words: int = (ctypes.addressof(self._memory) + 63) & ~63
        self._store(ir.POOL_SPIN, _CROWDED_TURNS if size > available_cpus() else _SPIN_TURNS)
        self._store(ir.POOL_SLICE, self.native.slice() if slice_ticks is None else slice_ticks)
        ctypes.c_int32.from_address(self.words + ir.POOL_CPU).value = -1
        if size - 1 <= PLACES and size <= available_cpus():
            ctypes.c_int32.from_address(self.words + ir.POOL_PLACES).value = size - 1
        if kind == "threads":
            self._store(ir.POOL_YIELD, _yield_address())
            ctypes.c_int32.from_address(self.words + ir.POOL_SLEEPERS).value = size - 1

    def _store(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(self.words + offset).value = value

    def start(self, size: int) -> None:
        """Start size - 1 workers."""
        target = _attend if self.kind == "threads" else _serve
        for index in range(1, size):
            thread = threading.Thread(target=target, args=(self,), name=f"poot-cpu-{index}", daemon=True)
            thread.start()
            self.threads.append(thread)
            self._store(ir.POOL_WORKERS, index)

    def stop(self) -> None:
        """Tell the workers to leave, without waiting for them."""
        self._store(ir.POOL_WORKERS, 0)
        self.native.stop(self.words)
        self.bell.close()


def _serve(crew: _Crew) -> None:
    crew.native.work(crew.words)


def _attend(crew: _Crew) -> None:
    heard: int | None = 0
    while (heard := crew.bell.wait(heard)) is not None:
        crew.native.work(crew.words)


def _yield_address() -> int:
    """The address of the system's function that gives the rest of a time slice away; 0 where it is not found."""
    try:
        library = ctypes.CDLL("kernel32") if sys.platform == "win32" else ctypes.CDLL(None)
        function = library.SwitchToThread if sys.platform == "win32" else library.sched_yield
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def available_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """The number of threads of a pool: `POOT_NUM_THREADS`, or one for each CPU that this process may use."""
    expected = f"a number of threads, 1 to {_MOST_THREADS}"
    return whole_number("POOT_NUM_THREADS", None, expected, 1, _MOST_THREADS) or min(available_cpus(), _MOST_THREADS)


def default_kind() -> ir.Kind:
    """How idle workers wait on this system: "futex" on Linux on x86-64 and AArch64, "threads" elsewhere."""
    return "futex" if sys.platform == "linux" and host().arch in ir.FUTEX_ARCHITECTURES else "threads"


class Pool:
    """Threads that run launch lists together; `threads` counts the calling thread, so 1 means no workers.

    `kind` is "futex" (idle workers sleep in the kernel) or "threads" (they wait in Python, slower to wake); None takes
    the better one that the system has.  `slice_ticks` is how long, in ticks of the CPU's counter, a run stays away from
    Python; None is about a tenth of a second.  `ArgumentError` for a number below 1 or a kind that this system lacks.
    """

    __slots__ = (
        "__weakref__",
        "_call",
        "_cancels",
        "_crew",
        "_finalizer",
        "_lock",
        "_run",
        "_slice",
        "_words",
        "kind",
        "threads",
    )

    def __init__(
        self, threads: int | None = None, *, kind: ir.Kind | None = None, slice_ticks: int | None = None
    ) -> None:
        self.threads: Final = default_threads() if threads is None else threads
        self.kind: Final[ir.Kind] = kind or default_kind()
        if self.threads < 1:
            raise ArgumentError(what="threads", actual=self.threads, expected="1 or more")
        if self.kind not in ("futex", "threads") or (self.kind == "futex" and default_kind() != "futex"):
            raise ArgumentError(what="kind", actual=self.kind, expected='"threads" on this system')
        self._slice = slice_ticks
        self._lock = forks.lock()
        self._hire()
        _pools.add(self)

    def _hire(self) -> None:
        """A new crew, which the first run starts."""
        self._cancels = 0
        self._crew = _Crew(self.kind, self.threads, self._slice)
        self._words = self._crew.words
        self._run: _Run = self._first_run
        self._call: _Call = self._first_call
        self._finalizer = weakref.finalize(self, self._crew.stop)
        self._finalizer.atexit = False

    def _forget_workers(self) -> None:
        """In a forked child: the parent's workers are not here, and their words and locks are in no known state."""
        self._finalizer.detach()
        if not self.closed:
            self._hire()

    def _first_run(self, words: int, address: int, count: int, position: int, generation: int) -> int:
        if forks.is_mine(self._lock):  # a finalizer's while the workers start: those that are there help
            return self._crew.native.run(self._words, address, count, position, generation)
        self._start()
        return self._run(self._words, address, count, position, generation)

    def _first_call(self, call: int) -> int:
        if forks.is_mine(self._lock):
            return self._crew.native.call(call)
        self._start()
        return self._call(call)

    def _start(self) -> None:
        """Start the crew, unless another thread was first."""
        with self._lock:
            if self._run == self._first_run:
                try:
                    self._crew.start(self.threads)
                except BaseException as error:
                    self._finalizer()  # those that did start leave
                    self._hire()
                    if not isinstance(error, RuntimeError):
                        raise
                    raise DeviceError(
                        device="cpu",
                        message=f"a worker thread did not start: {error}",
                        remedy="set POOT_NUM_THREADS to a smaller number.",
                    ) from error
                self._call = self._crew.native.call
                self._run = self._crew.native.run

    def call(self, launches: LaunchList) -> None:
        """`run` of a whole list, a microsecond quicker; one run of a list at a time."""
        words, slot = launches.words, launches.call_slot
        words[slot] = self._words
        position = self._call(launches.call)
        if position:
            self._resume(launches.address, launches.count, position, words[slot + 3])

    def run(self, address: int, count: int) -> None:
        """Run the `count` (1 or more) launches of a `LaunchList` at `address`, in order; complete on return.

        Any number of threads may call it at once.  `DeviceError` if the pool is closed or `cancel` stopped the run.
        """
        generation = self._cancels
        position = self._run(self._words, address, count, 0, generation)
        if position:
            self._resume(address, count, position, generation)

    def _resume(self, address: int, count: int, position: int, generation: int) -> None:
        """Go on with a run that came back before its end."""
        while position:
            if position < 0:
                raise DeviceError(device="cpu", message="the run was cancelled")
            if position & ir.WAKE:
                self._crew.bell.ring()
            position = self._run(self._words, address, count, position, generation)

    def cancel(self) -> None:
        """Stop every run in progress at its next chunk; each raises `DeviceError`."""
        with self._lock:
            # In this order a run that starts in between is stopped; in the other one a later run would be.
            self._crew.native.cancel(self._words)
            self._cancels += 1

    @property
    def closed(self) -> bool:
        return self._run == _closed_run

    def close(self) -> None:
        """End the workers and wait until they have left.  Later runs raise; so does one in progress when it resumes."""
        self._dismiss(_closed_run, _closed_call)

    def _dismiss(self, run: _Run, call: _Call) -> None:
        with self._lock:
            self._run, self._call = run, call
            threads, self._crew.threads = self._crew.threads, []
            # Not through the finaliser, which does nothing any more once the interpreter is on its way out.
            self._finalizer.detach()
            self._crew.stop()
        for thread in threads:
            thread.join()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed_run(words: int, address: int, count: int, position: int, generation: int) -> int:
    raise DeviceError(device="cpu", message="its worker pool is closed")


def _closed_call(call: int) -> int:
    raise DeviceError(device="cpu", message="its worker pool is closed")


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _dismiss_workers() -> None:
    """No worker may touch its words once the interpreter takes them down; daemon threads go on running without them."""
    for pool in list(_pools):
        if not pool.closed:
            native = _native(pool.kind)
            pool._dismiss(native.run, native.call)  # pyright: ignore[reportPrivateUsage]


def _after_fork() -> None:
    for pool in list(_pools):
        pool._forget_workers()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
