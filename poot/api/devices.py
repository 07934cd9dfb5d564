"""Devices as the user names them, and which one a call runs on.

The rule: `device=`, else the common device of the arguments that live on one, else the innermost `with poot.device(…)`,
else the environment variable POOT_DEVICE, else CUDA where it works, else cpu.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from typing_extensions import override

from poot.api.precision import F64, I64, KEPT, Precision
from poot.backends.device import DeviceBackend, backend_names, check_device, open_device
from poot.backends.inherited import require_process
from poot.backends.loss import reopened, require_alive
from poot.backends.names import check_language
from poot.backends.sharing import same_memory
from poot.backends.survey import survey
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DeviceMismatchError,
    DeviceUnavailableError,
    SourceLocation,
)
from poot.target import Language, Target
from poot.trace.dispatch import active
from poot.trace.source import user_location


class Device:
    """A device: pass it as `device=`, to `Engine`, or use it in `with` to make it the default of a block.

    `precision` says what becomes there of 64-bit arrays of calls that do not say so themselves.
    """

    __slots__ = ("_backend", "precision")

    def __init__(self, backend: DeviceBackend, precision: Precision = KEPT) -> None:
        self._backend = backend
        self.precision = precision

    @property
    def backend(self) -> DeviceBackend:
        """What runs there; where it has been lost, the one that takes its place."""
        self._backend = reopened(self._backend)
        return self._backend

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def target(self) -> Target:
        """What programs for this device are compiled for."""
        return self.backend.target

    def synchronize(self) -> None:
        """Wait until everything enqueued has run."""
        self.backend.synchronize()

    def __enter__(self) -> Device:
        if active() is not None:
            raise DeviceError(
                device=self.name,
                message="the device cannot change inside a traced function",
                where=user_location(),
                remedy="enter `with poot.device(…)` around the call instead.",
            )
        before = _SCOPE.get()
        try:
            _SCOPE.set((*before, self))
            return self
        except BaseException:  # a Ctrl-C after which the block is not entered
            _SCOPE.set(before)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _SCOPE.set(_SCOPE.get()[:-1])

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.backend is other.backend and self.precision == other.precision

    @override
    def __hash__(self) -> int:
        return hash((self.name, self.precision))

    @override
    def __repr__(self) -> str:
        return f"poot.device({self.name!r}{self.precision.text})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise DeviceError(
            device=self.name,
            message="a device cannot be pickled or copied",
            remedy="keep its name, and open it with poot.device(name).",
        )


#: A ContextVar, so that threads and tasks have scopes of their own; a tuple, so that one device may be entered twice.
_SCOPE: ContextVar[tuple[Device, ...]] = ContextVar("poot_device", default=())


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One backend: its devices by the names that `poot.device` takes, or why there is none and what would mend that.

    `hardware` has a pair (name, what it is) for each device; `remedy` gives the command.
    """

    name: str
    available: bool
    reason: str = ""
    remedy: str = ""
    hardware: tuple[tuple[str, str], ...] = ()

    @override
    def __str__(self) -> str:
        if self.available:
            return "\n".join(f"{name}: {text or 'available'}" for name, text in self.hardware)
        return f"{self.name}: not available: {self.reason}" + (f"\n  Remedy: {self.remedy}" if self.remedy else "")


class DeviceReports(tuple[DeviceReport, ...]):
    """What `devices` gives: a report for each backend, shown one below the other."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return "\n".join(map(str, self))


def device(
    name: str | Device | None = None, *, language: Language | None = None, f64: F64 = None, i64: I64 = None
) -> Device:
    """The device called "cpu", "interpret", "wgpu", "opencl", "cuda", "cuda:1" …; without a name, the default one.

    `language` chooses among those of the device: `device("cuda", language="ptx")` compiles to PTX, not through Triton.
    `f64="f32"` and `i64="i32"` convert 64-bit arrays of calls on this device, integers range-checked, where the traced
    function does not say itself; without them a device that lacks their dtype refuses them.
    DeviceUnavailableError says why there is none; DeviceError, that it does not survive a fork.
    """
    _require_kind(name)
    precision = Precision(f64, i64)
    if isinstance(name, Device) and language is None and precision in (KEPT, name.precision):
        return name
    if language is not None and isinstance(name, str):
        check_language(name.partition(":")[0], language)
    backend = default() if name is None else name.backend if isinstance(name, Device) else open_device(name)
    require_process(backend)
    backend = backend if language is None else open_device(backend.name, language=language)
    return Device(backend, name.precision if isinstance(name, Device) and precision == KEPT else precision)


def require_name(device: object) -> None:
    """ArgumentTypeError for what is no device, None or a name; of a name, the error where no machine has such a device.

    Nothing is opened.
    """
    _require_kind(device)
    if isinstance(device, str):
        check_device(device)


def _require_kind(device: object) -> None:
    if device is not None and not isinstance(device, (str, Device)):
        raise ArgumentTypeError(
            what="device", actual=type(device).__name__, expected='a name such as "cpu" or "cuda:1"'
        )


def devices() -> DeviceReports:
    """Every backend with its devices; for those that are absent the reason, and the command that would mend it.

    Children that are forked afterwards cannot use GPUs or OpenCL: drivers that were asked do not survive a fork.
    """
    return DeviceReports(
        DeviceReport(each.name, each.error is None, each.reason, each.remedy, each.hardware) for each in survey()
    )


def choose(requested: str | Device | None, homes: Iterable[DeviceBackend]) -> DeviceBackend:
    """The device of a call: `requested`, else the common one of `homes` (where arguments live), else the default.

    DeviceMismatchError where arguments live on several, which whoever knows them names (`apart`), DeviceLostError where
    one of these has been lost.
    """
    if requested is not None:
        return device(requested).backend
    found: list[DeviceBackend] = []
    for home in homes:
        require_alive(home)
        if not any(same_memory(home, other) for other in found):
            found.append(home)
    if len(found) > 1:
        raise DeviceMismatchError(devices=", ".join(home.name for home in found))
    return found[0] if found else default()


#: How many arrays of one device a message names.
_NAMED = 3


def apart(arrays: Iterable[tuple[str, DeviceBackend]], remedy: str | None = None) -> DeviceMismatchError:
    """The error for arrays on several devices, which says of each, by its name, where it lives."""
    homes: dict[str, list[str]] = {}
    for name, home in arrays:
        homes.setdefault(home.name, []).append(name)
    parts: list[str] = []
    for home, names in homes.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        parts.append(f"{', '.join(names[:_NAMED])}{more} on {home}")
    return DeviceMismatchError(devices="; ".join(parts), remedy=remedy)


def precision_of(own: Precision, requested: str | Device | None, backend: DeviceBackend | None) -> Precision:
    """What becomes of 64-bit arrays in a call on `backend` (None: on any): as its own options, its device or the
    innermost `with poot.device(…)` for that backend says, the first that says anything.
    """
    if own == KEPT and requested is not None:
        return requested.precision if isinstance(requested, Device) else own
    scope = _SCOPE.get()
    if own == KEPT and scope and (backend is None or scope[-1].backend is backend):
        return scope[-1].precision
    return own


def default() -> DeviceBackend:
    """The device where nothing else decides."""
    scope = _SCOPE.get()
    if scope:
        return scope[-1].backend
    if _ENVIRONMENT.get(_VARIABLE):
        return _named_by_environment(os.environ["POOT_DEVICE"])
    return _usual or _find_usual()


def _named_by_environment(name: str) -> DeviceBackend:
    try:
        return open_device(name)
    except ArgumentError as error:
        remedy = "set POOT_DEVICE to the name of a device, as `poot.devices()` lists them, or unset it" + (
            f"; {error.remedy}" if error.remedy else "."
        )
        expected = error.fields["expected"]
        raise ArgumentError(
            what="POOT_DEVICE", actual=error.fields["actual"], expected=expected, remedy=remedy
        ) from None
    except DeviceUnavailableError as error:
        shown = repr(name).replace("{", "{{").replace("}", "}}")
        remedy = f"set POOT_DEVICE, which is {shown}, to another device, or unset it; {error.remedy}"
        raise DeviceUnavailableError(**error.fields, remedy=remedy) from error.__cause__


# What `os.environ` keeps its encoded variables in, since every launch of a kernel asks; it is kept up to date, and a
# Python without it takes the public mapping.
_ENVIRONMENT: Any = getattr(os.environ, "_data", os.environ)
_VARIABLE = os.environ.encodekey("POOT_DEVICE") if hasattr(os.environ, "_data") else "POOT_DEVICE"
_usual: DeviceBackend | None = None


def _find_usual() -> DeviceBackend:
    """The device of a process that names none, found once."""
    global _usual
    _usual = _preferred()
    return _usual


_fallen_back = False


def _preferred() -> DeviceBackend:
    global _fallen_back
    if not _fallen_back and "cuda" in backend_names() and _has_cupy():
        try:
            return open_device("cuda")
        except DeviceUnavailableError as error:
            _fallen_back = True
            why = f"{error.summary}; {error.remedy}" if error.remedy else error.summary
            message = f"CUDA does not work here, so cpu is used; `poot doctor` says more.\n  {why}"
            where = error.where or SourceLocation("poot", 1)
            warnings.warn_explicit(message, UserWarning, where.file, where.line)
    return open_device("cpu")


def _has_cupy() -> bool:
    """Whether there is a CuPy to import; a folder of that name, which Python would import as well, is none."""
    try:
        found = importlib.util.find_spec("cupy")
    except ValueError:  # a module that was made by hand
        return True
    return found is not None and found.origin is not None
