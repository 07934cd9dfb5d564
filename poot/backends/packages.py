"""The packages that poot is made with: which are installed, which versions it wants, and the command that brings them.

What is wanted stands in pyproject.toml alone: where poot is installed its metadata say it, a checkout has the file.
What reads it is imported where it is used, so that `import poot` does not wait for it.
"""

from __future__ import annotations

import contextlib
import itertools
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


def find_package(names: tuple[str, ...]) -> Package:
    """The first of the packages that is installed, or the first one as missing."""
    from importlib import metadata

    wanted = requirements()
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return Package(name, metadata.version(name), wanted.get(name, ""))
    return Package(names[0], "", wanted.get(names[0], ""))


def requirements() -> dict[str, str]:
    """What poot says of the versions of each package that it needs, or can use: {"wgpu": "<0.33,>=0.32"}."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = _installed() or itertools.chain.from_iterable(_checkout().values())
    found: dict[str, str] = {}
    for stated in map(Requirement, lines):
        found.setdefault(canonicalize_name(stated.name), str(stated.specifier))
    return found


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
