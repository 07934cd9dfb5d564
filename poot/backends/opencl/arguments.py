"""What a launch passes: how many work-groups, and scalars as the kernel takes them."""
# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np

from poot.backends.device import LaunchSpec, launch_arguments
from poot.dtypes import bool_


def launched_groups(launch: LaunchSpec) -> tuple[int, int, int]:
    """The work-groups that have a thread inside the grid; kernels whose threads act together rely on it."""
    kernel = launch.loaded.compiled.kernel
    if kernel.threads is None:
        return launch.groups
    given = {slot.axis: int(value) for slot, value, _ in launch_arguments(launch) if slot.kind == "threads"}
    x, y, z = (
        min(groups, -(-(given[axis] if count is None else count) // size))
        for axis, (groups, count, size) in enumerate(zip(launch.groups, kernel.threads, kernel.workgroup, strict=True))
    )
    return x, y, z


def scalar_argument(value: int | float, dtype: Any) -> Any:
    """A number as OpenCL takes it: bools as bytes, the 16-bit floats as their bits."""
    if dtype is bool_:
        return np.uint8(bool(value))
    scalar = dtype.dtype.type(value)
    return scalar if dtype.is_integer or dtype.itemsize > 2 else scalar.view(np.uint16)
