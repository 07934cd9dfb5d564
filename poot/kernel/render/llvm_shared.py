"""Rare blocks of arithmetic that a kernel has several times, as functions that it calls.

The reduction of large arguments in sines is such a block: most of what a sine takes to compile, and hardly ever run.
Written out for each sine of a chain, it made LLVM's time.  A function takes vectors and a mask, and gives what the
block assigns; results are the same to the bit, since it does the same operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from poot.kernel.ir import Assign, Cast, Const, Expr, If, Kernel, Let, Op, Stmt, Var, operands, walk
from poot.kernel.rebuild import Rebuilder
from poot.records import record

#: Expression nodes from which a block is worth a call.
_LEAST = 48


@record
class Block:
    """A block by what it computes: `key` is it with other names, `inputs` are the locals that it reads from outside.

    `results` are the locals from outside that it assigns, which are inputs as well.
    """

    key: tuple[Stmt, ...]
    inputs: tuple[Var, ...]
    results: tuple[Var, ...]


class Shared:
    """The blocks that one kernel has several times, and the text of the functions that were made of them."""

    def __init__(self, kernel: Kernel) -> None:
        blocks = (block_of(node.then) for node in walk(kernel.body) if isinstance(node, If) and not node.orelse)
        counts = Counter(block.key for block in blocks if block is not None)
        self._several = {key for key, count in counts.items() if count > 1}
        #: Names of functions by their blocks.
        self.names: dict[tuple[Stmt, ...], str] = {}
        self.functions: list[str] = []

    def find(self, body: tuple[Stmt, ...]) -> Block | None:
        """A block that the kernel has several times."""
        block = block_of(body) if self._several else None
        return block if block is not None and block.key in self._several else None


def block_of(body: tuple[Stmt, ...]) -> Block | None:
    """The statements of a branch as a block, if they are arithmetic on locals alone, and enough of it."""
    if not all(isinstance(stmt, (Let, Assign)) for stmt in body) or _nodes(body) < _LEAST:
        return None
    found = _Renamed()
    key = found.block(body)
    return Block(key, tuple(found.inputs.values()), tuple(found.results.values())) if found.plain else None


def _nodes(stmts: Sequence[Stmt]) -> int:
    """Expression nodes, counted as far as `_LEAST`."""
    total = 0
    pending: list[Expr] = [expr for stmt in stmts for expr in operands(stmt)]
    while pending and total < _LEAST:
        total += 1
        pending += operands(pending.pop())
    return total


class _Renamed(Rebuilder):
    """Statements with locals named by the order in which they first stand there."""

    def __init__(self) -> None:
        self.inputs: dict[str, Var] = {}
        self.results: dict[str, Var] = {}
        self.plain = True
        self._names: dict[str, str] = {}
        self._own: set[str] = set()

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, str(len(self._names)))

    def leaf(self, expr: Expr) -> Expr | None:
        match expr:
            case Var():
                if expr.name not in self._own:
                    self.inputs[expr.name] = expr
                return replace(expr, name=self._name(expr.name))
            case Const():
                return expr
            case Op() | Cast():
                return None
            case _:
                self.plain = False
                return expr

    def stmt(self, stmt: Stmt) -> Stmt:
        assert isinstance(stmt, (Let, Assign))
        value = self.expr(stmt.value)
        if isinstance(stmt, Let):
            self._own.add(stmt.name)
        elif stmt.name in self._own:
            self.plain = False  # a local of the block's own that changes
        else:
            self.inputs[stmt.name] = self.results[stmt.name] = Var(stmt.name, stmt.value.dtype)
        return replace(stmt, name=self._name(stmt.name), value=value, where=None)
