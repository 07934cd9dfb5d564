"""The packages that poot is made with: which are installed, which versions it wants, and the command that brings them.

What is wanted stands in pyproject.toml alone: where poot is installed its metadata say it, a checkout has the file.
"""

from __future__ import annotations

import contextlib
import re
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
        """Whether it is installed in a version that poot is made for."""
        return bool(self.installed) and version_fits(self.installed, self.wanted)


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
    found: dict[str, str] = {}
    for line in _installed() or _checkout():
        name, versions = _parts(line)
        found.setdefault(name.lower().replace("_", "-"), versions)
    return found


def install(backend: str) -> str:
    """The command that brings what a backend needs: an extra where poot is installed, else the packages themselves."""
    if _installed() is not None:
        return f"pip install 'poot[{backend}]'"
    lines = [_parts(line) for line in _checkout() if re.search(rf"extra == \"{backend}\"", line)]
    brought = [f"'{name}{versions}'" for name, versions in lines]
    return " ".join(["pip install", *(brought or [names[0] for names in BACKENDS[backend]])])


def _installed() -> list[str] | None:
    """The requirements of the poot that is installed, None where none is."""
    from importlib import metadata

    try:
        return metadata.requires("poot") or []
    except metadata.PackageNotFoundError:
        return None


def _checkout() -> list[str]:
    """The requirements that the file beside a checkout states, in the form that metadata have; none without one."""
    import tomllib

    try:
        project: dict[str, Any] = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]
        if project["name"] != "poot":
            return []
        lines: list[str] = list(project["dependencies"])
        for extra, brought in project["optional-dependencies"].items():
            lines += [f'{line} ; extra == "{extra}"' for line in brought]
    except (OSError, ValueError, KeyError):
        return []
    return lines


def _parts(line: str) -> tuple[str, str]:
    """The name in a requirement, and the versions that it takes."""
    match = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)", line)
    return (match[1], match[2].strip()) if match else (line, "")


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
