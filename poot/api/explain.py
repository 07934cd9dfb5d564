"""What a call traces, what it captures and freezes, and why earlier calls traced anew."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from typing_extensions import override

from poot.api.captures import Captures
from poot.api.recording import Recorded
from poot.plan.program import Program


@dataclass(frozen=True, slots=True)
class Explanation:
    """Printed, it tells the story of a traced function's calls; its fields are the data behind it.

    `misses` are the key parts of the latest calls that had to trace, oldest first.
    """

    function: str
    recorded: Recorded
    captures: Captures
    program: Program
    misses: tuple[Mapping[str, Hashable], ...]

    @property
    def retraces(self) -> tuple[str, ...]:
        """For each trace after the first, which parts of the key had changed since the one before."""
        pairs = zip(self.misses, self.misses[1:], strict=False)
        return tuple(", ".join(_changes(before, after)) for before, after in pairs)

    @override
    def __str__(self) -> str:
        lines = [f"{self.function}: {len(self.recorded.graph.equations)} equations"]
        lines += [f"  input {name}: {source.kind}" for name, source in self.recorded.sources.items()]
        lines += [f"  capture {label} (its contents are read at every call)" for label in self.captures.labels]
        lines += [f"  frozen: {what}" for what in self.recorded.frozen]
        lines += [f"  traced again because of {change}" for change in self.retraces]
        kernels, launches = len(self.program.kernels), len(self.program.launches)
        lines.append(f"  {launches} launches of {kernels} kernels on {self.program.target}, {self.program.numerics}")
        for record in self.program.passes:
            lines += [f"  {record.name}: {note}" for note in record.notes]
            lines += [f"  {record.name} declined: {note}" for note in record.declined]
        return "\n".join(lines)


def _changes(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[str]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [f"{name!r}: {before.get(name)} became {after.get(name)}" for name in names]
