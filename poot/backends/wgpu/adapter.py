"""Which adapter a device runs on, and what it can do.

`wgpu` is the best adapter, `wgpu:1` the next; POOT_WGPU_ADAPTER names a part of an adapter's name.  OpenGL adapters are
never taken: where no driver for Vulkan, Metal or Direct3D 12 is installed, the device is absent.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Generator
from typing import Any

from poot.backends.inherited import ask_driver, driver_absent
from poot.backends.packages import mend_import
from poot.backends.settings import selector, settle
from poot.dtypes import ALL, f64, i64, u64
from poot.errors import DeviceUnavailableError, PootError
from poot.target import Target

try:
    import wgpu
except (ImportError, OSError) as error:
    raise DeviceUnavailableError(
        device="wgpu", message=f"wgpu cannot be imported ({error})", remedy=mend_import("wgpu")
    ) from error

_BACKENDS = ("Vulkan", "Metal", "D3D12")
_KINDS = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "CPU")

#: What is asked for where the adapter has it.
_FEATURES = ("shader-int64", "shader-f64", "shader-int64-atomic-all-ops")
_LIMITS = (
    "max-bindings-per-bind-group",
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y",
    "max-compute-workgroup-size-z",
    "max-compute-workgroup-storage-size",
    "max-compute-workgroups-per-dimension",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
)

_REMEDY = (
    "install a driver for Vulkan: the GPU's own, or for a machine without one, on Debian, run "
    "`apt install mesa-vulkan-drivers libvulkan1`."
)


def adapters() -> list[Any]:
    """The adapters that will do, best first."""
    ask_driver("wgpu")
    _load_triton_first()
    with _runtime_folder():
        found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] in _BACKENDS]
    if not found:
        driver_absent("wgpu")
    wanted = selector("POOT_WGPU_ADAPTER")
    chosen = [a for a in found if wanted.lower() in f"{a.info['device']} {a.info['description']}".lower()]
    if found and not chosen:
        raise DeviceUnavailableError(
            device="wgpu",
            message=f"POOT_WGPU_ADAPTER is {wanted!r}, and here are {', '.join(a.info['device'] for a in found)}",
            remedy="set POOT_WGPU_ADAPTER to a part of one of these names, or unset it.",
        )

    def rank(adapter: Any) -> int:
        kind = adapter.info["adapter_type"]
        return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)

    if chosen:
        settle("POOT_WGPU_ADAPTER", wanted)
    return sorted(chosen, key=rank)


@contextlib.contextmanager
def _runtime_folder() -> Generator[None]:
    """Name a folder for sockets of Wayland where there is none: Mesa looks for one, and complains on standard error."""
    if sys.platform != "linux" or "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = "/nonexistent"
    try:
        yield
    finally:
        os.environ.pop("XDG_RUNTIME_DIR", None)


def _load_triton_first() -> None:
    """Mesa's drivers bring an LLVM whose symbols break the one inside Triton, if that is loaded after them."""
    if sys.platform == "linux" and importlib.util.find_spec("triton") is not None:
        with contextlib.suppress(ImportError):
            importlib.import_module("triton._C.libtriton")


def adapter(ordinal: int) -> Any:
    """The adapter of that number; DeviceUnavailableError says what there is."""
    try:
        found = adapters()
    except PootError:
        raise
    except Exception as error:
        raise DeviceUnavailableError(device="wgpu", message=f"no adapters: {error}", remedy=_REMEDY) from error
    if ordinal >= len(found):
        names = ", ".join(f"{a.info['device']} ({a.info['backend_type']})" for a in found)
        raise DeviceUnavailableError(
            device=f"wgpu:{ordinal}" if ordinal else "wgpu",
            message=f"adapters here, from 0 on: {names}" if names else "no adapter for Vulkan, Metal or Direct3D 12",
            remedy=None if names else _REMEDY,
        )
    return found[ordinal]


def open_adapter(chosen: Any) -> tuple[Any, Target]:
    """A device with every feature and limit that kernels may use, and the target that it makes."""
    features = [name for name in _FEATURES if name in chosen.features]
    limits = {name: chosen.limits[name] for name in _LIMITS if name in chosen.limits}
    device = chosen.request_device_sync(required_features=features, required_limits=limits)
    return device, target(chosen, set(features))


def target(chosen: Any, features: set[str]) -> Target:
    """What the adapter says of itself; 64-bit floats are worked on through the bits of 64-bit integers."""
    has = set[str]()
    dtypes = set(ALL)
    if "shader-int64" in features:
        has.add("i64")
    else:
        dtypes -= {i64, u64}
    if {"shader-f64", "shader-int64"} <= features:
        has.add("f64")
    else:
        dtypes -= {f64}
    if "shader-int64-atomic-all-ops" in features:
        has.add("int64_atomics")
    limits = chosen.limits
    per_axis = limits["max-compute-workgroups-per-dimension"]
    known = {
        "workgroup_invocations": limits["max-compute-invocations-per-workgroup"],
        "workgroup_storage": limits["max-compute-workgroup-storage-size"],
        "buffers": min(64, limits["max-storage-buffers-per-shader-stage"] - 1),  # one holds the parameters
        "dispatch": per_axis,
        "grid": 2**31 - 1,
        "binding_bytes": limits["max-storage-buffer-binding-size"],
    }
    name = "".join(char if char.isalnum() else "-" for char in chosen.info["device"].lower()).strip("-")
    return Target("wgpu", name, ("wgsl",), frozenset(dtypes), frozenset(has), tuple(sorted(known.items())))
