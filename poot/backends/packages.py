"""The packages that poot is made with: which are installed, which versions it wants, and the command that brings them.

What is wanted stands in pyproject.toml alone: where poot is installed its metadata say it, a checkout has the file.
What reads it is imported where it is used, so that `import poot` does not wait for it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The packages that a backend is made with; of names that stand together one is enough.
BACKENDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "cpu": (("llvmlite",),),
    "interpret": (("numpy",),),
    "opencl": (("pyopencl",),),
    "wgpu": (("wgpu",),),
    "cuda": (("cupy-cuda13x", "cupy-cuda12x", "cupy"), ("triton",)),
}
_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that poot works with: the version that is installed ("": none), and those that poot is made for."""

    name: str
    installed: str
    wanted: str

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version that poot is made for; one that is no version fits where any does."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion, Version

        try:
            version = Version(self.installed)
        except InvalidVersion:
            return bool(self.installed) and not self.wanted
        return version in SpecifierSet(self.wanted, prereleases=True)

    @property
    def command(self) -> str:
        """What brings a version that poot is made for."""
        return f"pip install '{self.name}{self.wanted}'"


def find_package(names: tuple[str, ...]) -> Package:
    """The first of the packages that is installed, or the first one as missing; what is wanted of one is of all."""
    from importlib import metadata

    known = requirements()
    wanted = next(filter(None, (known.get(name) for name in names)), "")
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return Package(name, metadata.version(name), wanted)
    return Package(names[0], "", wanted)


def requirements() -> dict[str, str]:
    """What poot says of the versions of each package that it needs, or can use: {"wgpu": ">=0.32,<0.33"}."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = _installed() or itertools.chain.from_iterable(_checkout().values())
    found: dict[str, str] = {}
    for stated in map(Requirement, lines):
        bounds = sorted(map(str, stated.specifier), key=lambda bound: (bound.startswith("<"), bound))
        found.setdefault(canonicalize_name(stated.name), ",".join(bounds))
    return found


def ailments(backend: str) -> tuple[list[str], list[str]]:
    """What is wrong with the packages of a backend, and the commands that mend it.

    A version that poot is not made for; or a folder without a package in it, which Python imports in place of one that
    is not there: what an uninstall left behind, or a folder of that name where the program was started.
    """
    remarks: list[str] = []
    commands: list[str] = []
    for names in BACKENDS.get(backend, ()):
        package, module = find_package(names), sys.modules.get(names[-1])
        if package.installed and not package.fits:
            remarks.append(f"{package.name} {package.installed} is installed, {package.wanted} is wanted")
            commands.append(package.command)
        elif not package.installed and module is not None and getattr(module, "__file__", None) is None:
            for folder in list(getattr(module, "__path__", ()))[:1]:
                remarks.append(f"what is imported as {names[-1]} is the folder {folder}, which holds no package")
                commands.append(install(backend))
    return remarks, commands


def mend_import(backend: str) -> str:
    """What to do where the first package of a backend cannot be imported; "" where `ailments` says it."""
    package = find_package(BACKENDS[backend][0])
    command = package.command.replace("install", "install --force-reinstall", 1) if package.installed else ""
    return "" if package.installed and not package.fits else f"run `{command or install(backend)}`."


def install(backend: str) -> str:
    """The command that brings what a backend needs: an extra where poot is installed, else the packages themselves."""
    if _installed() is not None:
        return f"pip install 'poot[{backend}]'"
    brought = [f"'{line}'" for line in _checkout().get(backend, ())]
    return " ".join(["pip install", *(brought or [names[0] for names in BACKENDS[backend]])])


def _installed() -> list[str] | None:
    """The requirements of the poot that is installed, None where none is."""
    from importlib import metadata

    try:
        return metadata.requires("poot") or []
    except metadata.PackageNotFoundError:
        return None


def _checkout() -> dict[str, list[str]]:
    """The requirements that the file beside a checkout states, by extra ("" for poot itself); none without one."""
    import tomllib

    try:
        project: dict[str, Any] = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]
        return {"": project["dependencies"], **project["optional-dependencies"]} if project["name"] == "poot" else {}
    except (OSError, ValueError, KeyError):
        return {}
