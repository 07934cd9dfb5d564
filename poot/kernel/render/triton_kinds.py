"""Which locals of a kernel are one scalar for a whole work-group, and which a block with a value for each lane."""

from __future__ import annotations

from poot.kernel.ir import (
    Alloc,
    Assign,
    Atomic,
    Break,
    Collective,
    Const,
    Continue,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Return,
    Stmt,
    Var,
    blocks,
    operands,
    walk,
)
from poot.kernel.uniform import Uniformity


class Kinds:
    """The analysis of one kernel: a local is a block if any value given to it is, or if lanes can miss one."""

    def __init__(self, kernel: Kernel) -> None:
        self._sizes = kernel.workgroup
        self._uniformity = Uniformity(kernel, lanes=kernel.workgroup[0], aligned=True)
        nodes = walk(kernel.body)
        self._private = {node.name for node in nodes if isinstance(node, Alloc) and node.space == "private"}
        self._blocks: set[str] = set()
        before = -1
        while before != len(self._blocks):
            before = len(self._blocks)
            for node in nodes:
                if isinstance(node, (Let, Assign)):
                    self._note(node.name, self.vector(node.value))
                elif isinstance(node, For):
                    self._note(node.var, self.vector(node.start) or self.vector(node.stop))
                elif isinstance(node, Atomic) and node.result is not None:
                    self._blocks.add(node.result)

    def _note(self, name: str, vector: bool) -> None:
        form = self._uniformity.local_form(name)
        if vector or form is None or form.stride:
            self._blocks.add(name)

    def block(self, name: str) -> bool:
        """Whether a local has a value for each lane."""
        return name in self._blocks

    def vector(self, expr: Expr) -> bool:
        """Whether an expression is written as a block."""
        match expr:
            case Const():
                return False
            case Var():
                return expr.name in self._blocks
            case Index():
                return expr.kind in ("thread", "local") and self._sizes[expr.axis] > 1
            case Collective():
                return expr.op == "scan"
            case Load() if expr.buffer in self._private:
                return True
            case _:
                return any(map(self.vector, operands(expr)))


def leaves(stmt: Stmt, kinds: tuple[type[Stmt], ...] = (Break, Continue, Return)) -> bool:
    """Whether a statement is, or holds, an exit that ends something outside it; inner loops keep theirs."""
    if isinstance(stmt, kinds):
        return True
    inner = tuple(kind for kind in kinds if kind is Return) if _is_loop(stmt) else kinds
    return bool(inner) and any(leaves(below, inner) for block in blocks(stmt) for below in block)


def body_leaves(body: tuple[Stmt, ...], *kinds: type[Stmt]) -> bool:
    """Whether a loop's body has such an exit of that loop (or of the kernel)."""
    return any(leaves(stmt, kinds) for stmt in body)


def _is_loop(stmt: Stmt) -> bool:
    return bool(blocks(stmt)) and len(blocks(stmt)) == 1
