"""What `poot doctor` finds out: devices, the worker pool, caches, versions, settings, and what is wrong with them."""

from __future__ import annotations

import difflib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from poot.api.devices import Device, device
from poot.backends import cache
from poot.backends.packages import Package, find_package
from poot.backends.settings import KNOWN, switch
from poot.backends.survey import Survey, cause, poot_version, python_version, survey
from poot.errors import PootError

T = TypeVar("T")

#: Packages that every installation has, and those that add something.
_NEEDED = ("numpy", "ml-dtypes", "llvmlite", "optree", "packaging", "typing-extensions", "rich")
_OPTIONAL = ("safetensors", "gguf", "tokenizers")


@dataclass(frozen=True, slots=True)
class Cache:
    """Files that are kept between processes: how many, their bytes, and the most that they may take (-1: unknown)."""

    what: str
    path: str
    files: int
    nbytes: int
    most: int = -1


@dataclass(frozen=True, slots=True)
class Facts:
    """The answers of `poot doctor`; `problems` are those that make it exit with 1."""

    version: str
    python: str
    default: str
    devices: tuple[Survey, ...]
    pool: tuple[str, int]
    caches: tuple[Cache, ...]
    packages: tuple[Package, ...]
    settings: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """The facts as JSON has them."""
        return {
            "version": self.version,
            "python": self.python,
            "default_device": self.default,
            "devices": [
                {
                    "name": each.name,
                    "available": each.error is None,
                    "hardware": [{"name": name, "description": text} for name, text in each.hardware],
                    "reason": each.reason,
                    "remedy": each.remedy,
                }
                for each in self.devices
            ],
            "worker_pool": {"kind": self.pool[0], "threads": self.pool[1]},
            "caches": [asdict(each) for each in self.caches],
            "packages": [{**asdict(each), "fits": each.fits} for each in self.packages],
            "settings": dict(self.settings),
            "problems": list(self.problems),
        }


def examine(wanted: str | None = None) -> Facts:
    """Look at everything; `wanted` is a device that has to work."""
    devices = survey()
    packages = tuple(_packages(devices))
    problems = list(_broken(devices, packages))
    default = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it falls back from is told below
            default = device().name
    except PootError as error:
        _tell(problems, error, "the default device does not open: ")
    if wanted is not None:
        try:
            device(wanted)
        except PootError as error:
            _tell(problems, error, f"device {wanted}: ")
    pool = "", 0
    try:
        pool = _pool(device("cpu"))
    except PootError as error:
        _tell(problems, error, "the cpu device does not open: ")
    for name in ("POOT_EAGER", "POOT_PROGRESS"):
        _setting(lambda name=name: switch(name, False), False, problems)
    caches = tuple(_caches(problems))
    settings = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("POOT_")))
    problems += _unknown(name for name, _ in settings)
    version = python_version()
    return Facts(poot_version(), version, default, devices, pool, caches, packages, settings, tuple(problems))


def _unknown(names: Iterable[str]) -> Iterator[str]:
    """Settings that poot does not have, and are near to one that it has."""
    for name in names:
        near = difflib.get_close_matches(name, KNOWN, 1, 0.8)
        if near and name not in KNOWN:
            yield f"{name} is set, which poot does not read; did you mean {near[0]}?"


def _tell(problems: list[str], error: PootError, what: str = "") -> None:
    """Add a problem in one line, unless it has been told of something else."""
    text = "; ".join(filter(None, (" ".join(cause(error).split()), error.remedy)))
    if not any(problem.endswith(text) for problem in problems):
        problems.append(what + text)


def _packages(devices: tuple[Survey, ...]) -> Iterator[Package]:
    """What is installed of the packages that poot uses, each once; those that are needed first."""
    found = [find_package((name,)) for name in _NEEDED]
    found += [package for each in devices for package in each.packages]
    found += [find_package((name,)) for name in _OPTIONAL]
    yield from {package.name: package for package in found}.values()


def _broken(devices: tuple[Survey, ...], packages: tuple[Package, ...]) -> Iterator[str]:
    """Packages that do not fit, and devices whose packages are there and that do not open."""
    told = " ".join(each.reason for each in devices)
    for package in packages:
        if package.installed and not package.fits and f"{package.name} {package.installed} is installed" not in told:
            has = f"{package.name} {package.installed} is installed, poot is made for {package.wanted}"
            yield f"{has}; run `{package.command}`"
        elif not package.installed and package.name in _NEEDED:
            yield f"{package.name} is not installed; run `{package.command}`"
    for each in devices:
        if each.error is not None and each.packages and each.packages[0].installed:
            yield f"{each.name}: " + "; ".join(filter(None, (" ".join(each.reason.split()), each.remedy)))


def _pool(cpu: Device) -> tuple[str, int]:
    """How the workers of the CPU device wait, and how many threads run launches."""
    pool = getattr(cpu.backend, "pool", None)
    return ("", 0) if pool is None else (pool.kind, pool.threads)


# --- caches -----------------------------------------------------------------------------------------------------------


def _caches(problems: list[str]) -> Iterator[Cache]:
    """Poot's own cache, and those of the compilers that it calls."""
    folder = _setting(cache.directory, None, problems)
    most = _setting(cache.cap_bytes, -1, problems)
    if folder is None:
        yield Cache("compiled kernels", "off", 0, 0, 0)
    else:
        yield _measured("compiled kernels", folder, most)
        if not _writable(folder):
            problems.append(f"{folder} cannot be written to, so no compiled kernel is kept; set POOT_CACHE_DIR")
    home = Path.home()
    base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    for what, path in (
        ("Triton", Path(os.environ.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")),
        ("PoCL", Path(os.environ.get("POCL_CACHE_DIR") or base / "pocl")),
        ("Mesa's shaders", Path(os.environ.get("MESA_SHADER_CACHE_DIR") or base / "mesa_shader_cache")),
        ("CuPy", Path(os.environ.get("CUPY_CACHE_DIR") or home / ".cupy" / "kernel_cache")),
    ):
        if path.is_dir():
            yield _measured(what, path)


def _setting(read: Callable[[], T], otherwise: T, problems: list[str]) -> T:
    """What a setting says; a value that makes no sense is a problem."""
    try:
        return read()
    except PootError as error:
        _tell(problems, error)
        return otherwise


def _measured(what: str, path: Path, most: int = -1) -> Cache:
    files, nbytes = 0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                nbytes += os.lstat(os.path.join(folder, name)).st_size
                files += 1
            except OSError:  # another process has just deleted it
                continue
    return Cache(what, str(path), files, nbytes, most)


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
