"""The functions being parsed, and what is known of their names."""

from __future__ import annotations

from dataclasses import dataclass, field

from poot.errors import SourceLocation
from poot.kernel.ir import Stmt
from poot.kernel.parse.bindings import Bindings
from poot.kernel.parse.source import FunctionSource
from poot.kernel.parse.values import Value


@dataclass(slots=True)
class Local:
    """A name of a function: a variable, declared in `block`, or another name for a value; `fixed` is a parameter's."""

    value: Value
    where: SourceLocation
    variable: bool = False
    fixed: bool = False
    block: list[Stmt] | None = None


@dataclass(slots=True)
class Frame:
    """One function being parsed."""

    source: FunctionSource
    bindings: Bindings
    env: dict[str, Local] = field(default_factory=dict[str, Local])
    #: Locals that have a value on every way to this point; None where no way leads here.
    definite: set[str] | None = field(default_factory=set[str])
    #: For each loop around this point, what was definite at its breaks; None for one that is written out.
    loops: list[list[set[str]] | None] = field(default_factory=list["list[set[str]] | None"])
    #: The open blocks of the function, innermost last: the identity of the tree's list, and the statements so far.
    blocks: list[tuple[int, list[Stmt]]] = field(default_factory=list[tuple[int, "list[Stmt]"]])
    helper: bool = False
