"""From a kernel as it was built or parsed to what renderers and the interpreter take."""

from __future__ import annotations

from poot.errors import CompileError
from poot.kernel.check import check
from poot.kernel.expand import expand_kernel
from poot.kernel.ir import Kernel
from poot.kernel.simplify import simplify
from poot.target import Target

#: Whether prepared kernels are checked once more, as they are in tests.
checking = False


def prepare(kernel: Kernel, target: Target | None = None) -> Kernel:
    """Check a kernel (against a target's limits, if one is given), expand it to native operations, and simplify it.

    Raises KernelCheckError where the kernel is not valid, Unsupported where the target cannot run it, CompileError
    where an unrolled loop grows too large, or expressions nest too deeply.  The result is valid IR again.
    """
    try:
        check(kernel, target)
        prepared = simplify(expand_kernel(kernel))
        if checking:
            check(prepared)
    except RecursionError as error:
        raise CompileError(
            what=f"kernel {kernel.name}",
            target=target or "any target",
            message="its expressions or statements are nested too deeply",
            where=kernel.where,
            remedy="give parts of its longest expressions names.",
        ) from error
    return prepared
