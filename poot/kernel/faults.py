"""Fault records: how the first failed check of a launch is kept, and the error that it becomes.

A record is `FAULT_WORDS` words of i32, all zero while nothing has failed: claimed flag, launch number, site, axis,
index (low, high word), extent (low, high word).  An assertion leaves axis, index and extent at zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poot.dtypes import u64
from poot.errors import KernelFault
from poot.kernel.ir import FAULT_WORDS, Cast, Const, Expr, FaultSite, Kernel, Load, Op, fault_sites, operands

#: How the assertions of a primitive's lowering end that stand for an index out of range; the primitive comes first.
INDEX_FAULT = "an index is out of range"


def new_record() -> npt.NDArray[np.int32]:
    """A record in which nothing has failed yet."""
    return np.zeros(FAULT_WORDS, np.int32)


def claim(
    record: npt.NDArray[np.int32], launch: int, site: int, axis: int = 0, index: int = 0, extent: int = 0
) -> None:
    """Note a fault, if the record holds none."""
    if not record[0]:
        wide = np.array([index - (1 << 64) if index >> 63 > 0 else index, extent], np.int64).view(np.int32)
        record[:] = [1, launch, site, axis, *wide.tolist()]


def given(index: Expr) -> Expr | None:
    """The wider integer that an index was held to the range of the index dtype from, to be named in a fault.

    None where it was not, or where computing it again would read memory again.
    """
    if not isinstance(index, Cast) or not index.arg.dtype.is_integer or index.arg.dtype.max <= index.dtype.max:
        return None
    wide = index.arg
    for name, limit in (("max", -1), ("min", int(index.dtype.max))):
        if isinstance(wide, Op) and wide.name == name:
            wide = next((a for a, b in (wide.args, wide.args[::-1]) if isinstance(b, Const) and b.value == limit), wide)
    return None if wide is index.arg or _reads(wide) else wide


def _reads(expr: Expr) -> bool:
    return isinstance(expr, Load) or any(map(_reads, operands(expr)))


def _named(index: int, site: FaultSite, axis: int) -> int:
    """An index of a record as a number of its dtype: past the range of i64 where that is u64."""
    wide = given(site.indices[axis])
    return index + (1 << 64) if index < 0 and wide is not None and wide.dtype is u64 else index


def fault_error(kernel: Kernel, record: Sequence[int] | npt.NDArray[np.int32]) -> KernelFault:
    """The error for a claimed record of a launch of this (prepared) kernel."""
    words = np.asarray(record, np.int32)
    site = fault_sites(kernel)[int(words[2])]
    index, extent = (int(value) for value in words[4:8].copy().view(np.int64))
    if site.buffer:
        index = _named(index, site, int(words[3]))
        message = f"index {index} of {site.buffer} is outside axis {int(words[3])} of extent {extent}"
        return KernelFault(
            kernel=kernel.name, message=message, where=site.where, remedy="guard the access, or launch fewer threads."
        )
    return KernelFault(kernel=kernel.name, message=f"assertion failed: {site.message}", where=site.where)
