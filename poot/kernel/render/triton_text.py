"""The text of a Triton kernel while it is written: lines, names, masks."""

from __future__ import annotations

import keyword
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from poot.errors import SourceLocation
from poot.kernel.render.lines import user_line
from poot.kernel.render.triton_helpers import HELPERS
from poot.kernel.render.triton_ops import Spelling

_RESERVED = frozenset(
    {*keyword.kwlist, *HELPERS, "tl", "triton", "range", "float", "int", "bool", "min", "max", "abs", "print", "len"}
)


@dataclass(frozen=True, slots=True)
class Mask:
    """The lanes that are active: a block of bools, or one bool for all; `some` says that one surely is."""

    text: str
    vector: bool
    some: bool = False


class Writer:
    """Lines with indentation; `names` maps the kernel's own names to what they are called in the text."""

    def __init__(self, spelling: Spelling, taken: Iterable[str]) -> None:
        self.spelling = spelling
        self.lines: list[str] = []
        self.mask: Mask | None = None
        self._depth = 1
        self._names: dict[str, str] = {}
        self._taken: set[str] = set(_RESERVED)
        self._known: list[dict[str, str]] = [{}]
        self._where: SourceLocation | None = None
        for name in taken:
            self._names[name] = self.fresh(name)

    # --- names ---

    def fresh(self, hint: str) -> str:
        """A name that is not in use yet: the hint, or the hint with a number."""
        name, count = hint, 1
        while name in self._taken:
            count += 1
            name = f"{hint}_{count}"
        self._taken.add(name)
        return name

    def take(self, key: str, hint: str) -> str:
        """Give something of the kernel a name that is not in use yet."""
        self._names[key] = self.fresh(hint)
        return self._names[key]

    def name(self, name: str) -> str:
        """What a name of the kernel is called in the text."""
        return self._names[name]

    # --- lines ---

    def line(self, text: str) -> None:
        """Append a line at the current depth."""
        self.lines.append("    " * self._depth + text)

    def bind(self, hint: str, text: str) -> str:
        """Give an expression a new name."""
        name = self.fresh(hint)
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def nested(self, head: str) -> Generator[None]:
        """The lines of a block below `head`; what is known inside is forgotten behind it."""
        self.line(head)
        self._depth += 1
        self._known.append({})
        mask, before = self.mask, len(self.lines)
        yield
        if len(self.lines) == before or all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")
        self.mask = mask
        self._known.pop()
        self._depth -= 1

    def note(self, where: SourceLocation | None) -> None:
        """The user's line as a comment, once for statements that follow each other."""
        if where is None or (self._where and (where.file, where.line) == (self._where.file, self._where.line)):
            return
        self._where = where
        self.line(f"# {user_line(where)}")

    # --- masks ---

    def with_mask(self, condition: str, vector: bool, *, known: str = "") -> Mask:
        """The active lanes for which a condition holds as well, as a new name."""
        mask = self.mask
        text = condition if mask is None else f"{mask.text} & {condition}"
        return Mask(self.bind(known or "active", text), vector or (mask is not None and mask.vector))

    def guard(self) -> str:
        """Whether any lane is active, as a scalar; "" where one surely is."""
        mask = self.mask
        if mask is None or mask.some:
            return ""
        return mask.text if not mask.vector else self.any(mask)

    def any(self, mask: Mask) -> str:
        """Whether any lane of a block is set; computed once while the mask stays as it is."""
        for known in self._known:
            if mask.text in known:
                return known[mask.text]
        name = self.bind("some", self.spelling.call("any_of", mask.text))
        self._known[-1][mask.text] = name
        return name

    def changed(self, name: str) -> None:
        """Forget what was computed from a mask that has a new value."""
        for known in self._known:
            known.pop(name, None)
