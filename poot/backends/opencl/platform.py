"""Which OpenCL devices there are, and what each can do.

`opencl` is the best device, `opencl:1` the next; POOT_OPENCL_DEVICE names a part of a device's or platform's name.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
from typing import Any

from poot.backends.inherited import ask_driver, driver_absent
from poot.backends.packages import mend_import
from poot.backends.settings import selector, settle
from poot.dtypes import ALL, f64
from poot.errors import DeviceUnavailableError
from poot.target import Target

try:
    import pyopencl as cl
except (ImportError, OSError) as error:
    raise DeviceUnavailableError(
        device="opencl", message=f"PyOpenCL cannot be imported ({error})", remedy=mend_import("opencl")
    ) from error


#: Results that a context gives once its device is gone; NVIDIA's driver has a number of its own for it.
_LOST = (
    cl.status_code.DEVICE_NOT_AVAILABLE,
    cl.status_code.INVALID_DEVICE,
    cl.status_code.INVALID_CONTEXT,
    cl.status_code.INVALID_COMMAND_QUEUE,
    -9999,
)
#: Results that say so, or that one request was too much, or failed.
_SUSPECT = (
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
)

#: What private arrays of a work-group may take on a processor, where drivers keep them on the stack of a thread, which
#: has 8 MiB as a rule: past that the process ends.
_STACK = 4 << 20


def is_loss(error: Any) -> bool:
    """Whether an error of OpenCL says that the device has stopped working for good."""
    return getattr(error, "code", None) in _LOST


def is_suspect(error: Any) -> bool:
    """Whether it may say so."""
    return getattr(error, "code", None) in _SUSPECT


def target(device: Any) -> Target:
    """What a device says of itself."""
    extensions = set(device.extensions.split())
    flags = cl.device_fp_config
    features = {"i64"}
    if "cl_khr_fp64" in extensions:
        features.add("f64")
    if {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= extensions:
        features.add("int64_atomics")
    if device.single_fp_config & flags.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        features.add("correct_division")
    if device.single_fp_config & flags.DENORM:
        features.add("subnormals")
    limits = {
        "workgroup_invocations": min(device.max_work_group_size, device.max_work_item_sizes[0]),
        "workgroup_storage": device.local_mem_size,
        # A buffer takes 16 bytes of arguments, and its extents and strides as much again.
        "buffers": max(8, min(64, device.max_parameter_size // 32)),
        "grid": 2**31 - 1,
        "binding_bytes": device.max_mem_alloc_size,
    }
    if device.type & cl.device_type.CPU:
        limits["workgroup_private"] = _STACK
    dtypes = frozenset(ALL) if "f64" in features else frozenset(ALL) - {f64}
    name = "".join(char if char.isalnum() else "-" for char in device.name.lower()).strip("-")
    return Target("opencl", name, ("opencl",), dtypes, frozenset(features), tuple(sorted(limits.items())))


def devices() -> list[tuple[Any, Any]]:
    """Every device with its platform, GPUs first, then accelerators, then CPUs."""
    ask_driver("opencl")
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        driver_absent("opencl")
        raise DeviceUnavailableError(
            device="opencl",
            message=f"no OpenCL platform: {error}",
            remedy="install the GPU's driver, or on Debian run `apt install pocl-opencl-icd ocl-icd-libopencl1`.",
        ) from error
    found: list[tuple[Any, Any]] = []
    for platform in platforms:
        with contextlib.suppress(cl.Error):
            found += [(platform, device) for device in platform.get_devices()]
    if not found:
        driver_absent("opencl")

    def rank(pair: tuple[Any, Any]) -> int:
        kind = pair[1].type
        return 0 if kind & cl.device_type.GPU else 1 if kind & cl.device_type.ACCELERATOR else 2

    wanted = selector("POOT_OPENCL_DEVICE")
    chosen = [p for p in found if wanted.lower() in f"{p[0].name} {p[1].name}".lower()]
    if found and not chosen:
        names = ", ".join(f"{device.name} ({platform.name})" for platform, device in found)
        raise DeviceUnavailableError(
            device="opencl",
            message=f"POOT_OPENCL_DEVICE is {wanted!r}, and here are {names}",
            remedy="set POOT_OPENCL_DEVICE to a part of one of these names, or unset it.",
        )
    if chosen:
        settle("POOT_OPENCL_DEVICE", wanted)
    return sorted(chosen, key=rank)
