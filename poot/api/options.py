"""The options of a traced function, and what they say about compiling it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from poot.api.devices import Device
from poot.api.precision import Precision
from poot.api.tuning import Autotuner
from poot.backends.device import DeviceBackend
from poot.errors import ArgumentTypeError
from poot.plan.limits import CompileLimits, CompileOptions
from poot.trace.limits import TraceLimits
from poot.trace.source import user_location


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a traced function."""

    static_argnames: tuple[str, ...] = ()
    device: str | Device | None = None
    limits: TraceLimits = TraceLimits.STANDARD
    numerics: Literal["fused", "strict"] = "fused"
    precision: Precision = field(default_factory=Precision)
    donate: tuple[str, ...] = ()
    autotune: bool = False

    def compiling(
        self, device: DeviceBackend, stable: frozenset[str] | None = None, states: Iterable[str] = ()
    ) -> CompileOptions:
        """How to compile for a device; `states` of the graph that belong to a donated argument are donated."""
        tuner = Autotuner(device) if self.autotune else None
        donate = frozenset(name for name in states if name.partition(".")[0] in self.donate)
        return CompileOptions(CompileLimits.STANDARD, numerics=self.numerics, stable=stable, tuner=tuner, donate=donate)


def names_of(given: str | Sequence[str], option: str) -> tuple[str, ...]:
    """The names that an option lists; ArgumentTypeError for what is no list of names."""
    if isinstance(given, str):
        return (given,)
    try:
        return tuple(given)
    except TypeError as error:
        raise ArgumentTypeError(
            what=option, actual=repr(given), expected="a name or a list of names", where=user_location()
        ) from error
