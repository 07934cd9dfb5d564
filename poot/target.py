"""Targets: what can be compiled for, with no hardware present.

A `Target` is frozen, hashable and serialisable.  It says which languages a backend takes, in order of preference, which
features it has and what its limits are.  Measured costs never live here; they are keyed by `Target.fingerprint`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from typing_extensions import override

from poot.dtypes import ALL, BY_NAME, DType, bf16, f16, f64, i8, i16, i64, u8, u16, u64
from poot.errors import ArgumentTypeError, SerialisationError, TargetError

Language = Literal["interpret", "native", "wgsl", "opencl", "ptx", "triton", "amdgcn"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Target:
    """One compilation target.

    `backend` names the device backend, `arch` the architecture below it ("" for the host or a generic one),
    `languages` the kernel languages in order of preference, `dtypes` the element types that buffers may have,
    `features` optional capabilities, `limits` named bounds (bytes, threads, bindings).
    """

    backend: str
    arch: str = ""
    languages: tuple[Language, ...] = ()
    dtypes: frozenset[DType] = frozenset(ALL)
    features: frozenset[str] = frozenset()
    limits: tuple[tuple[str, int], ...] = field(default=())

    @property
    def name(self) -> str:
        return f"{self.backend}:{self.arch}" if self.arch else self.backend

    def limit(self, name: str) -> int:
        """The bound called `name`; KeyError if the target states none."""
        return dict(self.limits)[name]

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def shares_arrays(self) -> bool:
        """Whether a kernel may have shared arrays: Triton, by itself, has none."""
        return any(language != "triton" for language in self.languages)

    def replace_limits(self, **limits: int) -> Target:
        """The same target with some limits changed: used with queried limits, and with small ones in tests."""
        merged = tuple(sorted({**dict(self.limits), **limits}.items()))
        return Target(self.backend, self.arch, self.languages, self.dtypes, self.features, merged)

    def to_json(self) -> str:
        """A stable text form that `from_json` reads back."""
        plain = {
            "version": _VERSION,
            "backend": self.backend,
            "arch": self.arch,
            "languages": list(self.languages),
            "dtypes": sorted(dtype.name for dtype in self.dtypes),
            "features": sorted(self.features),
            "limits": dict(self.limits),
        }
        return json.dumps(plain, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Target:
        """The target that `to_json` wrote; unknown versions are refused."""
        try:
            plain = cast("Mapping[str, Any]", json.loads(text))
            if plain["version"] != _VERSION:
                raise SerialisationError(what="target", message=f"version {plain['version']} is not {_VERSION}")
            limits: dict[str, int] = {name: _whole(value) for name, value in plain["limits"].items()}
            return Target(
                _text(plain["backend"]),
                _text(plain["arch"]),
                tuple(cast("Language", name) for name in _texts(plain["languages"])),
                frozenset(BY_NAME[name] for name in _texts(plain["dtypes"])),
                frozenset(_texts(plain["features"])),
                tuple(sorted(limits.items())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise SerialisationError(what="target", message=f"damaged: {error!r:.200}") from error

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that the target says."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @staticmethod
    def parse(name: str) -> Target:
        """The target called "cpu", "interpret", "wgpu", "opencl", "cuda:sm_90", "hip:gfx942"; else a `TargetError`."""
        if not isinstance(cast("object", name), str):
            expected = 'a target, a device, or the name of a target such as "cpu"'
            raise ArgumentTypeError(what="target", actual=type(name).__name__, expected=expected)
        backend, _, arch = name.partition(":")
        make = _TARGETS.get(backend)
        if make is None:
            raise TargetError(name=name, message="known are " + ", ".join(sorted(_TARGETS)))
        return make(arch)

    @override
    def __str__(self) -> str:
        return self.name


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.50} is no text")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.50} is no list")
    return [_text(item) for item in cast("list[object]", value)]


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r:.50} is no limit")
    return value


def _cpu(arch: str) -> Target:
    here = platform.machine().lower().replace("amd64", "x86_64")
    machine, known = arch or here, sorted({here, "x86_64", "aarch64", "arm64"})
    if machine not in known:
        raise TargetError(name=f"cpu:{arch}", message="known processors are " + ", ".join(known))
    limits = {"workgroup_invocations": 1024, "workgroup_storage": 1 << 20, "buffers": 64, "grid": 2**31 - 1}
    return Target(
        "cpu",
        machine,
        ("native",),
        features=frozenset({"f64", "i64", "subnormals", "correct_division"}),
        limits=_sorted(limits),
    )


def _interpret(arch: str) -> Target:
    if arch:
        raise TargetError(name=f"interpret:{arch}", message="the interpreter has no architectures")
    limits = {"workgroup_invocations": 4096, "workgroup_storage": 1 << 20, "buffers": 64, "grid": 2**31 - 1}
    return Target(
        "interpret",
        "",
        ("interpret",),
        features=frozenset({"f64", "i64", "subnormals", "correct_division"}),
        limits=_sorted(limits),
    )


def _wgpu(arch: str) -> Target:
    if arch:
        raise TargetError(name=f"wgpu:{arch}", message="wgpu targets have no architectures")
    limits = {
        "workgroup_invocations": 256,
        "workgroup_storage": 16384,
        "buffers": 8,
        "grid": 65535,
        "binding_bytes": 1 << 27,
    }
    dtypes = frozenset(ALL) - {f64, i64, u64}
    return Target("wgpu", "", ("wgsl",), dtypes=dtypes, limits=_sorted(limits))


def _opencl(arch: str) -> Target:
    limits = {"workgroup_invocations": 256, "workgroup_storage": 32768, "buffers": 64, "grid": 2**31 - 1}
    return Target("opencl", arch, ("opencl",), features=frozenset({"f64", "i64"}), limits=_sorted(limits))


def _cuda(arch: str) -> Target:
    known = {"sm_80": 163840, "sm_86": 99328, "sm_89": 99328, "sm_90": 227328, "sm_100": 227328, "sm_120": 99328}
    arch = arch or "sm_90"
    if arch not in known:
        raise TargetError(name=f"cuda:{arch}", message="known architectures are " + ", ".join(known))
    limits = {"workgroup_invocations": 1024, "workgroup_storage": known[arch], "buffers": 512, "grid": 2**31 - 1}
    features = frozenset({"f64", "i64", "f16", "bf16", "subgroups", "subnormals", "correct_division"})
    return Target("cuda", arch, ("triton", "ptx"), features=features, limits=_sorted(limits))


def _hip(arch: str) -> Target:
    """AMD's GPUs: what kernels are compiled for, with no device that runs them."""
    arch = arch or "gfx942"
    known = ("gfx90a", "gfx942", "gfx950")
    if arch not in known:
        raise TargetError(name=f"hip:{arch}", message="known architectures are " + ", ".join(known))
    limits = {"workgroup_invocations": 1024, "workgroup_storage": 65536, "buffers": 512, "grid": 2**31 - 1}
    features = frozenset({"f64", "i64", "f16", "bf16", "subgroups", "subnormals", "correct_division"})
    return Target("hip", arch, ("triton", "amdgcn"), features=features, limits=_sorted(limits))


def _sorted(limits: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(limits.items()))


_TARGETS = {"cpu": _cpu, "interpret": _interpret, "wgpu": _wgpu, "opencl": _opencl, "cuda": _cuda, "hip": _hip}

#: Dtypes narrower than a 32-bit word, which targets without 8- and 16-bit storage pack into words.
NARROW: frozenset[DType] = frozenset({i8, u8, i16, u16, f16, bf16})
