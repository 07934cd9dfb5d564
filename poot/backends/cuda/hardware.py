# pyright: basic
"""What there is of NVIDIA on this machine."""

from __future__ import annotations

from pathlib import Path


def nvidia_driver() -> str:
    """The version of NVIDIA's kernel driver, "" where none is loaded."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return ""
    return next((word for word in first.split() if word[0].isdigit() and "." in word), "of an unknown version")


def hardware() -> list[str]:
    """Each GPU with its memory, its compute capability, and the newest CUDA that the driver takes."""
    import cupy  # pyright: ignore[reportMissingImports]

    runtime = cupy.cuda.runtime
    driver = runtime.driverGetVersion()
    found: list[str] = []
    for ordinal in range(runtime.getDeviceCount()):
        facts = runtime.getDeviceProperties(ordinal)
        memory = facts["totalGlobalMem"] >> 30
        found.append(
            f"{facts['name'].decode()} ({memory} GiB, compute capability {facts['major']}.{facts['minor']}, "
            f"driver for CUDA {driver // 1000}.{driver % 1000 // 10})"
        )
    return found
