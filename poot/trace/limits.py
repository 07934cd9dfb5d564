"""TraceLimits: what one trace or one Builder may use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from poot.errors import ArgumentError, ArgumentTypeError, LimitError


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLimits:
    """Bounds of one trace: positive integers, all of them given; there is no unlimited setting.

    max_values: arrays of the graph and of its regions.
    max_eqns: equations of the graph and of its regions.
    max_literal_bytes: scalar literals, each at its dtype's size, wherever one is written.
    max_owned_bytes: host storage that the builder itself holds: names, parameters, and the arrays a trace captured.
    max_tokens: tokens that a step of a model trace takes; a bare builder never reads it.
    """

    max_values: int
    max_eqns: int
    max_literal_bytes: int
    max_owned_bytes: int
    max_tokens: int

    #: What `poot.trace` uses.
    STANDARD: ClassVar[TraceLimits]

    def __post_init__(self) -> None:
        for item in fields(self):
            value: object = getattr(self, item.name)
            remedy = (
                f"nothing is unlimited; dataclasses.replace(TraceLimits.STANDARD, {item.name}=…) changes one limit."
            )
            if type(value) is not int:
                raise ArgumentTypeError(
                    what=item.name, actual=type(value).__name__, expected="a positive int", remedy=remedy
                )
            if value <= 0:
                raise ArgumentError(what=item.name, actual=value, expected="a positive int", remedy=remedy)


TraceLimits.STANDARD = TraceLimits(
    max_values=1 << 20, max_eqns=1 << 20, max_literal_bytes=1 << 26, max_owned_bytes=1 << 32, max_tokens=1 << 17
)


@dataclass(slots=True)
class Usage:
    """What a builder has used so far of its limits."""

    values: int = 0
    eqns: int = 0
    literal_bytes: int = 0
    owned_bytes: int = 0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.values + other.values,
            self.eqns + other.eqns,
            self.literal_bytes + other.literal_bytes,
            self.owned_bytes + other.owned_bytes,
        )

    def check(self, limits: TraceLimits) -> None:
        """LimitError if this would be past a limit."""
        if (
            self.values <= limits.max_values
            and self.eqns <= limits.max_eqns
            and self.literal_bytes <= limits.max_literal_bytes
            and self.owned_bytes <= limits.max_owned_bytes
        ):
            return
        for resource, attempted, limit in (
            ("max_values", self.values, limits.max_values),
            ("max_eqns", self.eqns, limits.max_eqns),
            ("max_literal_bytes", self.literal_bytes, limits.max_literal_bytes),
            ("max_owned_bytes", self.owned_bytes, limits.max_owned_bytes),
        ):
            if attempted > limit:
                raise LimitError(resource=resource, attempted=attempted, limit=limit)
