"""Where the statements of a work-group are cut: what its threads do together, and what each part does on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from poot.dtypes import DType
from poot.kernel.ir import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Break,
    Collective,
    Continue,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Node,
    Return,
    Stmt,
    Var,
    While,
    blocks,
    operands,
    walk,
)
from poot.kernel.uniform import Uniformity

Run = tuple[Stmt, ...]


class Cuts:
    """The cuts of one kernel; `crossing` are the locals that live across one, with their dtypes.

    A local is *common* if it is the same for the whole group and only changed where the group is together: it is
    computed once a group.  Other locals that are used in more than one run have a slot for each part.
    """

    def __init__(self, kernel: Kernel, uniformity: Uniformity, dtypes: Mapping[str, DType]) -> None:
        self._uniformity = uniformity
        self._dtypes = dtypes
        self._private = {s.name for s in kernel.body if isinstance(s, Alloc) and s.space == "private"}
        self._read_only = {param.name for param in kernel.buffers if param.access == "read"}
        self._assigned = {node.name for node in walk(kernel.body) if isinstance(node, Assign)}
        self._together: dict[int, bool] = {}
        self._own: set[str] = set()
        self._common = self._find_common(kernel)
        self.crossing: dict[str, DType] = {}
        self._uses: dict[str, set[int]] = {}
        self._homes: dict[str, tuple[int, DType]] = {}
        self._number = 0
        self._visit(kernel.body)
        for name, (home, dtype) in self._homes.items():
            if self._uses.get(name, set()) - {home}:
                self.crossing[name] = dtype

    def cut(self, stmts: Sequence[Stmt]) -> Iterator[Stmt | Run]:
        """Statements in order: those of the group, and runs of the others.

        What is common and reads nothing that changes is computed before the run that it stands in.
        """
        run: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, Alloc):
                continue
            if not self._is_together(stmt):
                run.append(stmt)
                continue
            if run and not self._pure(stmt):
                yield tuple(run)
                run = []
            yield stmt
        if run:
            yield tuple(run)

    # --- what the group does together ---

    def _is_together(self, stmt: Stmt) -> bool:
        if isinstance(stmt, (Let, Assign)) and not isinstance(stmt.value, Collective):
            return stmt.name in self._common
        return self._waits(stmt)

    def _waits(self, stmt: Stmt) -> bool:
        """Whether all threads of the group come to a statement, or leave by it, together and must."""
        key = id(stmt)
        if key not in self._together:
            self._together[key] = self._waits_anew(stmt)
        return self._together[key]

    def _waits_anew(self, stmt: Stmt) -> bool:
        match stmt:
            case Barrier():
                return True
            case Let() | Assign():
                return isinstance(stmt.value, Collective)
            case Break() | Continue() | Return():
                return not self._uniformity.is_masked(stmt)
            case If():
                return any(map(self._waits, (*stmt.then, *stmt.orelse)))
            case For() | While():
                return self._loop_waits(stmt.body)
            case _:
                return False

    def _loop_waits(self, stmts: Sequence[Stmt]) -> bool:
        """The same for a loop, whose own breaks and continues stay inside."""
        for stmt in stmts:
            if isinstance(stmt, (Break, Continue)):
                continue
            if isinstance(stmt, If):
                if self._loop_waits(stmt.then) or self._loop_waits(stmt.orelse):
                    return True
            elif self._waits(stmt):
                return True
        return False

    def _find_common(self, kernel: Kernel) -> set[str]:
        """The locals to compute once a group, by elimination."""
        declared: dict[str, Expr] = {}
        changed: dict[str, int] = {}
        self._collect(kernel.body, declared, changed)
        counts: dict[str, int] = {}
        for node in walk(kernel.body):
            if isinstance(node, Assign):
                counts[node.name] = counts.get(node.name, 0) + 1
        common = {
            name
            for name, value in declared.items()
            if self._uniformity.local_form(name) is not None
            and self._uniformity.is_uniform(Var(name, value.dtype))
            and counts.get(name, 0) == changed.get(name, 0)
            and (isinstance(value, Collective) or not self._reads_private(value))
        }
        self._own = set(declared) - common
        return common

    def _reads_private(self, value: Expr) -> bool:
        return any(isinstance(node, Load) and node.buffer in self._private for node in expressions(value))

    def _collect(self, stmts: Sequence[Stmt], declared: dict[str, Expr], changed: dict[str, int]) -> None:
        """The locals declared, and the assignments made, in blocks that the group runs together."""
        for stmt in stmts:
            if isinstance(stmt, Let):
                declared[stmt.name] = stmt.value
            elif isinstance(stmt, Assign):
                changed[stmt.name] = changed.get(stmt.name, 0) + 1
            elif self._waits(stmt):
                for block in blocks(stmt):
                    self._collect(block, declared, changed)

    def _pure(self, stmt: Stmt) -> bool:
        """Whether a common value may as well be computed earlier."""
        if not isinstance(stmt, Let) or isinstance(stmt.value, Collective) or stmt.name in self._assigned:
            return False
        return not any(
            (isinstance(node, Load) and node.buffer not in self._read_only)
            or (isinstance(node, Var) and (node.name in self._assigned or node.name in self._own))
            for node in expressions(stmt.value)
        )

    # --- which locals live across a cut ---

    def _visit(self, stmts: Sequence[Stmt]) -> None:
        for item in self.cut(stmts):
            self._number += 1
            if isinstance(item, tuple):
                self._note_run(item)
                continue
            for child in operands(item):
                self._note(expressions(child))
            if isinstance(item, (Let, Assign)) and item.name not in self._common:
                self._uses.setdefault(item.name, set()).add(-1)
                if isinstance(item, Let):
                    self._homes[item.name] = (self._number, item.value.dtype)
            for block in blocks(item):
                self._visit(block)

    def _note_run(self, run: Run) -> None:
        for stmt in run:
            if isinstance(stmt, Let):
                self._homes[stmt.name] = (self._number, stmt.value.dtype)
            elif isinstance(stmt, Atomic) and stmt.result is not None:
                self._homes[stmt.result] = (self._number, self._dtypes[stmt.buffer])
        nodes = walk(run)
        self._note(nodes)
        for node in nodes:
            if isinstance(node, Assign):
                self._uses.setdefault(node.name, set()).add(self._number)

    def _note(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Var):
                self._uses.setdefault(node.name, set()).add(self._number)


def expressions(expr: Expr) -> list[Node]:
    """An expression and all below it."""
    found: list[Node] = [expr]
    for child in operands(expr):
        found += expressions(child)
    return found
