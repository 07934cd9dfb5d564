"""From a kernel as it was built or parsed to what renderers and the interpreter take."""

from __future__ import annotations

from poot.kernel.check import check
from poot.kernel.expand import expand_kernel
from poot.kernel.ir import Kernel
from poot.target import Target


def prepare(kernel: Kernel, target: Target | None = None) -> Kernel:
    """Check a kernel (against a target's limits, if one is given), and expand it to native operations.

    Raises KernelCheckError where the kernel is not valid, Unsupported where the target cannot run it.  The result is
    valid IR again: debug runs (`python` without -O) check that it is.
    """
    check(kernel, target)
    prepared = expand_kernel(kernel)
    if __debug__:
        check(prepared)
    return prepared
