"""Pieces of text that the renderers of the threads family put together, and the source that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from poot.errors import SourceLocation

AXES = "xyz"

# How tightly a piece of text binds.
ATOM, UNARY, PRODUCT, SUM, LOOSE = 9, 8, 7, 6, 0


class Code(NamedTuple):
    """The text of an expression, and how tightly it binds.

    `wrapping` gives the same bits in the unsigned type; `value` is that of an integer literal;
    `plain` is a comparison as it stands in a selection.
    """

    text: str
    level: int = ATOM
    wrapping: tuple[str, int] | None = None
    value: int | None = None
    plain: str | None = None

    def at(self, level: int) -> str:
        """The text, in parentheses where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True, slots=True)
class ThreadsSource:
    """A rendered kernel: its text, its entry point, and for each line of text the user's line it came from."""

    text: str
    entry: str
    locations: tuple[SourceLocation | None, ...]
    shared_bytes: int

    def location(self, line: int) -> SourceLocation | None:
        """Where the statement that reaches to a line of the text (1 is the first) came from."""
        for where in reversed(self.locations[:line]):
            if where is not None:
                return where
        return None


def letters(char: str) -> str:
    """A character as ASCII letters, digits and underscores."""
    if char == "_" or (char.isascii() and char.isalnum()):
        return char
    return f"u{ord(char):x}"


def same_line(a: SourceLocation, b: SourceLocation) -> bool:
    """Whether two places are in one line."""
    return a.file == b.file and a.line == b.line


def prelude(helpers: Mapping[str, str]) -> list[str]:
    """The lines of the functions that a text needs, in the order in which they were asked for."""
    return [line for text in helpers.values() for line in (*text.split("\n"), "")]
