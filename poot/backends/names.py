"""Names of devices, "cpu" or "cuda:1": which backend each means, and what is no name, before anything is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from poot.errors import ArgumentError, DeviceUnavailableError, TargetError
from poot.target import Target

#: Backends that come with poot, imported when first asked for.
BUILTIN: Final[dict[str, str]] = {
    "cpu": "poot.backends.cpu.device",
    "interpret": "poot.backends.interpret",
    "opencl": "poot.backends.opencl.device",
    "wgpu": "poot.backends.wgpu.device",
    "cuda": "poot.backends.cuda.device",
}
#: How much of a name messages show, and the digits of a device's number from which on there is none.
_SHOWN, _DIGITS = 60, 9


def parts(name: str, known: Sequence[str]) -> tuple[str, int]:
    """The backend, which is one of `known`, and the number in a device's name.

    ArgumentError for what is no name of a device, DeviceUnavailableError where no device can have it.
    """
    backend, colon, ordinal = name.partition(":")
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    if colon and not (ordinal.isascii() and ordinal.isdigit()):
        expected = 'a backend name or "backend:number"'
        raise ArgumentError(what="device", actual=shown, expected=expected, remedy=_without_device(name))
    if len(ordinal.lstrip("0")) > _DIGITS:
        raise DeviceUnavailableError(device=shown, message="nothing has so many devices")
    if backend not in known:
        shown = repr(backend if len(backend) <= _SHOWN else f"{backend[:_SHOWN]}…")
        message = f"there is no such backend; known are {', '.join(known)}"
        remedy = _without_device(name) or "`poot.devices()` says which of these are here."
        raise DeviceUnavailableError(device=shown, message=message, remedy=remedy)
    return backend, int(ordinal or 0)


def _without_device(name: str) -> str | None:
    """What to do with the name of a target, or of AMD's software, which no device has."""
    backend = name.partition(":")[0]
    device = "AMD's GPUs run programs through the devices opencl and wgpu" if backend in ("hip", "rocm") else ""
    try:
        known = f'"{Target.parse(name)}"'
    except TargetError:
        return f"{device}." if device else None
    target = f"poot.compile(f.graph(…), poot.Target.parse({known})) and kernel.compile({known}) need no device"
    return "; ".join(filter(None, [device, target])) + "."


def check_language(backend: str, language: str) -> None:
    """ArgumentError for a language that no device of a backend of poot's takes, whether one is here or not."""
    if backend in BUILTIN:
        known = Target.parse(backend).languages
        if language not in known:
            raise no_language(backend, language, known)


def no_language(device: str, language: str, known: Sequence[str]) -> ArgumentError:
    """The error for a language that a device does not take."""
    return ArgumentError(what=f"language of {device}", actual=language, expected=f"one of {', '.join(known)}")
