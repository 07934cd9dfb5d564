"""Compiling ahead: native kernels are compiled beside the planner, which makes the next ones meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

from poot.backends.toolchain import compile_kernel
from poot.errors import PootError
from poot.kernel.ir import Kernel
from poot.target import Target


@contextlib.contextmanager
def compiling_ahead(target: Target, *, contract: bool) -> Generator[Callable[[Kernel], None] | None]:
    """What to call with each kernel as soon as it is planned; None where compilers do not let Python go on.

    Whoever loads the program finds the kernels compiled, waits for the one at hand, or compiles what is left itself; an
    error is told there.  What has not begun when the context ends is dropped.
    """
    if target.languages[:1] != ("native",):
        yield None
        return
    workers = ThreadPoolExecutor(1, "poot-compile")

    def compile_quietly(kernel: Kernel) -> None:
        with contextlib.suppress(PootError):
            compile_kernel(kernel, target, contract=contract)

    def begin(kernel: Kernel) -> None:
        workers.submit(compile_quietly, kernel)

    try:
        yield begin
    finally:
        workers.shutdown(wait=False, cancel_futures=True)
