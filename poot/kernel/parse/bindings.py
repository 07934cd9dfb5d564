"""Which names a function binds, how often, and the innermost block that holds every use of each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: A block of statements by the identity of its list, below the blocks around it.
Path = tuple[int, ...]


@dataclass(slots=True)
class Bindings:
    """What is known of a function's names before it is parsed.

    `assigned` counts assignments, augmented ones twice, as they also read; `loops` counts loops over a name; `reused`
    are loop variables that a loop inside uses again.  `homes` gives the path of the block that a name lives in.
    """

    assigned: dict[str, int] = field(default_factory=dict[str, int])
    loops: dict[str, int] = field(default_factory=dict[str, int])
    reused: set[str] = field(default_factory=set[str])
    homes: dict[str, Path] = field(default_factory=dict[str, Path])

    def local(self, name: str) -> bool:
        """Whether the function binds the name anywhere, and so never reads a global of that name."""
        return name in self.assigned or name in self.loops

    def single(self, name: str) -> bool:
        """Whether one plain assignment gives the name its only value."""
        return self.assigned.get(name) == 1 and name not in self.loops

    def counter(self, name: str) -> bool:
        """Whether the name is nothing but the variable of loops."""
        return name not in self.assigned and name not in self.reused


def bindings(body: Sequence[ast.stmt]) -> Bindings:
    """Analyse the body of one function."""
    found = Bindings()
    _Walk(found).block(body, ())
    return found


class _Walk:
    def __init__(self, found: Bindings) -> None:
        self.found = found
        self.counting: list[str] = []

    def block(self, body: Sequence[ast.stmt], path: Path) -> None:
        if not body:
            return
        path = (*path, id(body))
        for stmt in body:
            self.stmt(stmt, path)

    def stmt(self, stmt: ast.stmt, path: Path) -> None:
        match stmt:
            case ast.For():
                self.names((stmt.iter, stmt.target), path)
                assert isinstance(stmt.target, ast.Name)
                name = stmt.target.id
                self.found.loops[name] = self.found.loops.get(name, 0) + 1
                if name in self.counting:
                    self.found.reused.add(name)
                self.counting.append(name)
                self.block(stmt.body, path)
                self.counting.pop()
            case ast.While() | ast.If():
                self.names((stmt.test,), path)
                self.block(stmt.body, path)
                self.block(stmt.orelse, path)
            case ast.AugAssign():
                self.names((stmt.target, stmt.value), path)
                if isinstance(stmt.target, ast.Name):
                    self.assign(stmt.target.id)
                    self.assign(stmt.target.id)
            case _:
                self.names((stmt,), path)
                for node in ast.walk(stmt):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        self.assign(node.id)

    def assign(self, name: str) -> None:
        self.found.assigned[name] = self.found.assigned.get(name, 0) + 1

    def names(self, nodes: Iterable[ast.AST], path: Path) -> None:
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Name):
                    home = self.found.homes.get(node.id)
                    self.found.homes[node.id] = path if home is None else _common(home, path)


def _common(a: Path, b: Path) -> Path:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


# --- returns of helper functions ------------------------------------------------------------------------------------


def returns(stmt: ast.AST) -> ast.Return | None:
    """The first `return` of a statement or of those below it."""
    return next((node for node in ast.walk(stmt) if isinstance(node, ast.Return)), None)


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every way through the statements ends in a `return`."""
    for stmt in body:
        if isinstance(stmt, ast.Return):
            return True
        if isinstance(stmt, ast.If) and always_returns(stmt.body) and always_returns(stmt.orelse):
            return True
    return False


def structured(body: Sequence[ast.stmt]) -> list[ast.stmt] | ast.Return:
    """The statements with every `return` in the last place of its block: what follows a branch that returns becomes
    the other branch.  A `return` that cannot be brought there, in a loop or on some of a branch's ways, is given back.
    """
    for place, stmt in enumerate(body):
        if isinstance(stmt, ast.Return):
            return list(body[: place + 1])
        found = returns(stmt)
        if found is None:
            continue
        if not isinstance(stmt, ast.If):
            return found
        then, orelse, rest = stmt.body, stmt.orelse, list(body[place + 1 :])
        if rest and always_returns(then):
            orelse = [*orelse, *rest]
        elif rest and always_returns(orelse):
            then = [*then, *rest]
        elif rest:
            return found
        first, second = structured(then), structured(orelse)
        if isinstance(first, ast.Return):
            return first
        if isinstance(second, ast.Return):
            return second
        branch = ast.copy_location(ast.If(stmt.test, first, second), stmt)
        return [*body[:place], branch]
    return list(body)
