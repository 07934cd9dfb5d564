"""Compiling ahead: native kernels are compiled beside the planner, and beside each other."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from poot.backends.cpu.pool import default_threads
from poot.backends.toolchain import compile_kernel
from poot.errors import PootError
from poot.kernel.ir import Kernel
from poot.plan.program import Program
from poot.target import Target

#: More compile no faster, since a part of it is Python.
_MOST_WORKERS = 7


class Ahead:
    """Kernels to compile, in the order in which they came: workers take them, and so does who waits for them.

    Whoever loads the program finds the kernels compiled, or waits for those at hand; an error is told there.
    """

    def __init__(self, target: Target, *, contract: bool, workers: ThreadPoolExecutor | None) -> None:
        self._target = target
        self._contract = contract
        self._workers = workers
        self._waiting: deque[Kernel] = deque()

    def begin(self, kernel: Kernel) -> None:
        """Let a worker compile a kernel as soon as one is free."""
        self._waiting.append(kernel)
        if self._workers is not None:
            with contextlib.suppress(RuntimeError):  # the interpreter is on its way out: whoever waits compiles it
                self._workers.submit(self._next)

    def help(self) -> None:
        """Compile whatever no worker has begun."""
        while self._next():
            pass

    def drop(self) -> None:
        """Forget whatever no worker has begun."""
        self._waiting.clear()

    def _next(self) -> bool:
        """Compile the kernel that has waited longest; False if there is none."""
        try:
            kernel = self._waiting.popleft()
        except IndexError:
            return False
        with contextlib.suppress(PootError):
            compile_kernel(kernel, self._target, contract=self._contract)
        return True


@contextlib.contextmanager
def compiling_ahead(target: Target, *, contract: bool) -> Generator[Ahead | None]:
    """What to tell of each kernel as soon as it is planned; None where compilers do not let Python go on.

    With the calling thread as many compile as a pool of the cpu device has threads.  What has not begun when the
    context ends is dropped.
    """
    if target.languages[:1] != ("native",):
        yield None
        return
    count = min(default_threads() - 1, _MOST_WORKERS)
    workers = ThreadPoolExecutor(count, "poot-compile") if count else None
    ahead = Ahead(target, contract=contract, workers=workers)
    try:
        yield ahead
    finally:
        ahead.drop()
        if workers is not None:
            workers.shutdown(wait=False, cancel_futures=True)


def compile_together(program: Program, target: Target) -> None:
    """Compile the kernels of a program that is planned already; an error is told when it is loaded."""
    if len(program.kernels) > 1:
        with compiling_ahead(target, contract=program.contract) as ahead:
            if ahead is not None:
                for kernel in program.kernels:
                    ahead.begin(kernel)
                ahead.help()
