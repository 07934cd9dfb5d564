"""What is on this machine: every backend, the hardware that it finds, and for those that are absent, why.

A backend's module may have `hardware()`, one line of text for each of its devices in the order of their numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from poot.backends.device import backend_module, backend_names, open_device
from poot.backends.packages import BACKENDS, Package, find_package
from poot.errors import DeviceUnavailableError, PootError


@dataclass(frozen=True, slots=True)
class Survey:
    """One backend: its hardware by the names that open it, or the error that says why it is absent."""

    name: str
    hardware: tuple[tuple[str, str], ...]
    packages: tuple[Package, ...]
    error: Exception | None = None

    @property
    def reason(self) -> str:
        """Why the backend is absent, in one sentence."""
        if self.error is None:
            return ""
        if isinstance(self.error, PootError):
            return cause(self.error)
        return str(self.error.args[0] if self.error.args else self.error)

    @property
    def remedy(self) -> str:
        """The command that would mend it; to ask for the devices, as errors have it, is none."""
        remedy = self.error.remedy if isinstance(self.error, PootError) else ""
        return "" if remedy == DeviceUnavailableError.default_remedy else remedy


def cause(error: PootError) -> str:
    """What an error says, without the device, the line and the remedy."""
    return str(error.fields.get("message", error.summary))


def survey() -> tuple[Survey, ...]:
    """Every backend of this process; opens the first device of each."""
    return tuple(_survey(name) for name in backend_names())


def _survey(name: str) -> Survey:
    packages = tuple(find_package(names) for names in BACKENDS.get(name, ()))
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


def poot_version() -> str:
    """The version of poot that runs, whether it is installed or not."""
    return str(importlib.import_module("poot").__version__)


def python_version() -> str:
    """Python's version, and what it was built for."""
    return f"{sys.version.split()[0]} on {sys.platform}"
