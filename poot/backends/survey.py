"""What is on this machine: every backend, the hardware that it finds, and for those that are absent, why.

A backend's module may have `hardware()`, one line of text for each of its devices in the order of their numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from poot.backends.device import backend_module, backend_names, open_device
from poot.errors import PootError

#: The packages that a backend is made with; of names that stand together one is enough.
_PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "cpu": (("llvmlite",),),
    "interpret": (("numpy",),),
    "opencl": (("pyopencl",),),
    "wgpu": (("wgpu",),),
    "cuda": (("cupy-cuda13x", "cupy-cuda12x", "cupy"), ("triton",)),
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package that poot works with: the version that is installed ("": none), and those that poot is made for."""

    name: str
    installed: str
    wanted: str

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version that poot is made for."""
        return bool(self.installed) and version_fits(self.installed, self.wanted)


@dataclass(frozen=True, slots=True)
class Survey:
    """One backend: its hardware by the names that open it, or the error that says why it is absent."""

    name: str
    hardware: tuple[tuple[str, str], ...]
    packages: tuple[Package, ...]
    error: Exception | None = None

    @property
    def reason(self) -> str:
        """Why the backend is absent, in one sentence: what failed, and which version of a package may be the cause."""
        if self.error is None:
            return ""
        message = str(self.error.args[0] if self.error.args else self.error)
        if isinstance(self.error, PootError):
            message = str(self.error.fields.get("message", message))
        wrong = [each for each in self.packages if each.installed and not each.fits]
        return "; ".join([message, *(f"{p.name} {p.installed} is installed, {p.wanted} is wanted" for p in wrong)])

    @property
    def remedy(self) -> str:
        """The command that would mend it, with what it brings."""
        if self.error is None:
            return ""
        for package in self.packages:
            if package.installed and not package.fits:
                return f"run `pip install '{package.name}{package.wanted}'`."
        return self.error.remedy if isinstance(self.error, PootError) else ""


def survey() -> tuple[Survey, ...]:
    """Every backend of this process; opens the first device of each."""
    return tuple(_survey(name) for name in backend_names())


def _survey(name: str) -> Survey:
    packages = tuple(find_package(names) for names in _PACKAGES.get(name, ()))
    try:
        open_device(name)
    except Exception as error:  # whatever a broken installation raises: this is the place that tells of it
        return Survey(name, (), packages, error)
    lines = [""]
    hardware: Callable[[], Iterable[str]] | None = getattr(backend_module(name), "hardware", None)
    if hardware is not None:
        with contextlib.suppress(Exception):  # the device does open
            lines = list(hardware()) or lines
    return Survey(name, tuple((f"{name}:{n}" if n else name, text) for n, text in enumerate(lines)), packages)


# --- packages ---------------------------------------------------------------------------------------------------------


def find_package(names: tuple[str, ...]) -> Package:
    """The first of the packages that is installed, or the first one as missing."""
    from importlib import metadata  # which `import poot` does not wait for

    wanted = requirements()
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return Package(name, metadata.version(name), wanted.get(name, ""))
    return Package(names[0], "", wanted.get(names[0], ""))


def requirements() -> dict[str, str]:
    """What poot says of the versions of each package that it needs, or can use: {"wgpu": "<0.33,>=0.32"}."""
    from importlib import metadata

    found: dict[str, str] = {}
    with contextlib.suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("poot") or ():
            match = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)", line)
            if match:
                found.setdefault(match[1].lower().replace("_", "-"), match[2].strip())
    return found


def version_fits(version: str, wanted: str) -> bool:
    """Whether a version is among those of a specifier such as "<0.33,>=0.32" or "==0.50.*"; "" takes any."""
    here = _numbers(version)
    for part in filter(None, (piece.strip() for piece in wanted.split(","))):
        match = re.match(r"(<=|>=|==|!=|<|>|~=)\s*([\w.]+?)(\.\*)?$", part)
        if match is None or not _compare(here, match[1], _numbers(match[2]), bool(match[3])):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version up to what is no number: "2026.1.4rc1" is (2026, 1, 4)."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _compare(here: tuple[int, ...], sign: str, there: tuple[int, ...], prefix: bool) -> bool:
    if prefix:
        return (here[: len(there)] == there) is (sign == "==")
    if sign == "~=":
        return here >= there and here[: len(there) - 1] == there[:-1]
    width = max(len(here), len(there))
    left, right = (numbers + (0,) * (width - len(numbers)) for numbers in (here, there))
    compare: dict[str, Any] = {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
    }
    return compare[sign]


def poot_version() -> str:
    """The version of poot that runs, whether it is installed or not."""
    return str(importlib.import_module("poot").__version__)


def python_version() -> str:
    """Python's version, and what it was built for."""
    return f"{sys.version.split()[0]} on {sys.platform}"
