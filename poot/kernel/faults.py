"""Fault records: how the first failed check of a launch is kept, and the error that it becomes.

A record is `FAULT_WORDS` words of i32, all zero while nothing has failed: claimed flag, launch number, site, axis,
index (low, high word), extent (low, high word).  An assertion leaves axis, index and extent at zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from poot.errors import KernelFault
from poot.kernel.ir import FAULT_WORDS, Kernel, fault_sites

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
        wide = np.array([index, extent], np.int64).view(np.int32)
        record[:] = [1, launch, site, axis, *wide.tolist()]


def fault_error(kernel: Kernel, record: Sequence[int] | npt.NDArray[np.int32]) -> KernelFault:
    """The error for a claimed record of a launch of this (prepared) kernel."""
    words = np.asarray(record, np.int32)
    site = fault_sites(kernel)[int(words[2])]
    index, extent = (int(value) for value in words[4:8].copy().view(np.int64))
    if site.buffer:
        message = f"index {index} of {site.buffer} is outside axis {int(words[3])} of extent {extent}"
        return KernelFault(
            kernel=kernel.name, message=message, where=site.where, remedy="guard the access, or launch fewer threads."
        )
    return KernelFault(kernel=kernel.name, message=f"assertion failed: {site.message}", where=site.where)
