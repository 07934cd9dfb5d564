"""Targets: what can be compiled for, with no hardware present.

A `Target` is frozen, hashable and serialisable.  It says which languages a backend takes, in order of preference, which
features it has and what its limits are.  Measured costs never live here; they are keyed by `Target.fingerprint`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from typing_extensions import override

from poot.dtypes import ALL, BY_NAME, DType, bf16, f16, f64, i8, i16, i64, u8, u16, u64
from poot.errors import ArgumentTypeError, SerialisationError, TargetError
from poot.saved import Damage, read_json, require_keys, require_version, shown

Language = Literal["interpret", "native", "wgsl", "opencl", "ptx", "triton", "amdgcn"]

_VERSION = 1
_KEYS = ("version", "backend", "arch", "languages", "dtypes", "features", "limits")
#: The limits that every target states.
_NEEDED = ("workgroup_invocations", "workgroup_storage", "buffers", "grid")


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

    @property
    def unstated(self) -> list[str]:
        """What a device's target has to say, and this one does not."""
        known = dict(self.limits)
        limits = [f"the limit {name}" for name in _NEEDED if name not in known]
        return limits if self.languages else ["a language", *limits]

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
    def from_json(text: str, what: str = "target") -> Target:
        """The target that `to_json` wrote; SerialisationError for another version, and for anything unknown in it."""
        try:
            plain: object = read_json(text)
        except ValueError as error:
            raise SerialisationError(what=what, message=f"it is not a saved target: {error}") from None
        if not isinstance(plain, dict):
            raise SerialisationError(what=what, message="it is not a saved target")
        found = cast("dict[str, Any]", plain)
        require_version(found.get("version"), _VERSION, what)
        require_keys(found, _KEYS, what)
        try:
            return Target(
                _field(found, "backend", str, "a text"),
                _field(found, "arch", str, "a text"),
                tuple(cast("Language", name) for name in _names(found, "languages")),
                frozenset(BY_NAME[name] for name in _names(found, "dtypes", BY_NAME)),
                frozenset(_names(found, "features")),
                _limits(found),
            )
        except Damage as damage:
            raise SerialisationError(what=what, message=f"it is damaged: {damage}") from None

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


_T = TypeVar("_T")


def _field(plain: Mapping[str, Any], name: str, kind: type[_T], expected: str) -> _T:
    value = plain[name]
    if type(value) is not kind:
        raise Damage(f"it is {shown(value)}, expected {expected}", name)
    return value


def _names(plain: Mapping[str, Any], name: str, known: Container[str] | None = None) -> list[str]:
    found = cast("list[object]", _field(plain, name, list, "a list of names"))
    for place, item in enumerate(found):
        if not isinstance(item, str) or (known is not None and item not in known):
            raise Damage(f"{shown(item)} is no name that this poot knows", f"{name}[{place}]")
    return cast("list[str]", found)


def _limits(plain: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    found = cast("dict[str, object]", _field(plain, "limits", dict, "an object"))
    for name, value in found.items():
        if type(value) is not int or value < 0:
            raise Damage(f"it is {shown(value)}, expected an integer, 0 or more", f"limits.{name}")
    for name in _NEEDED:
        if name not in found:
            raise Damage(f"it has no {name}", "limits")
    return _sorted(cast("dict[str, int]", found))


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
