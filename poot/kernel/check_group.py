"""Whether a kernel's work-groups stay together: barriers, collectives and shared arrays are of whole work-groups, and
all threads of a group reach a barrier or a collective together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poot.errors import KernelCheckError, SourceLocation
from poot.kernel.ir import (
    Alloc,
    Assign,
    Barrier,
    Break,
    Collective,
    Continue,
    For,
    If,
    Kernel,
    Let,
    Node,
    Return,
    Stmt,
    While,
    blocks,
    statements,
)
from poot.kernel.uniform import Uniformity


def check_group(kernel: Kernel) -> None:
    """KernelCheckError where threads of a work-group may be apart, or missing, at what they do together."""
    together = [stmt for stmt in statements(kernel.body) if _cooperates(stmt)]
    if not together:
        return
    for axis, threads in enumerate(kernel.threads or ()):
        if threads is not None and threads % kernel.workgroup[axis]:
            raise KernelCheckError(
                kernel=kernel.name,
                message=f"{threads} threads on axis {axis} are no multiple of the work-group's "
                f"{kernel.workgroup[axis]}, but the kernel has barriers, collectives or shared arrays",
                where=together[0].where or kernel.where,
                remedy="launch it with groups=, or with a multiple.",
            )
    uniformity = Uniformity(kernel)
    for stmt in together:
        if isinstance(stmt, (Let, Assign, Barrier)) and not uniformity.uniform_flow(stmt):
            value = None if isinstance(stmt, Barrier) else stmt.value
            what = f"group_{value.op}" if isinstance(value, Collective) else "barrier"
            raise _parted(kernel, what, stmt, uniformity)


def _cooperates(node: Node) -> bool:
    match node:
        case Barrier():
            return True
        case Let() | Assign():
            return isinstance(node.value, Collective)
        case Alloc():
            return node.space == "shared"
        case _:
            return False


# --- what parts the threads -----------------------------------------------------------------------------------------


def _parted(kernel: Kernel, what: str, stmt: Stmt, uniformity: Uniformity) -> KernelCheckError:
    """The error of a statement that not all threads of a group reach together."""
    way = _way(kernel.body, stmt)
    cause, where, remedy = "a condition that varies within the group", None, f"move the {what} out of it."
    for parent in way[:-1]:
        if isinstance(parent, If) and not uniformity.is_uniform(parent.condition):
            where = parent.where
            cause = "the condition of the `if` around it" + _at(where) + ", which varies within the group"
            remedy = f"move the {what} out of this `if`: let all threads reach it, and keep the rest below the `if`."
            break
        if isinstance(parent, (For, While)) and uniformity.divergent_loop(parent):
            leave = _exit(parent.body, uniformity)
            where = parent.where if leave is None else _reason(kernel.body, leave, uniformity)
            cause = "the loop around it, which threads may leave after different numbers of turns" + _at(where)
            remedy = (
                f"let every thread of the group make as many turns, with an `if` around what only some do, or move the "
                f"{what} out of the loop."
            )
            break
    else:
        leave = _left(kernel.body, way, uniformity)
        if leave is not None:
            word = type(leave).__name__.lower()
            cause = f"the `{word}`" + _at(_reason(kernel.body, leave, uniformity))
            cause += ", which only some threads of the group take"
            remedy = f"in place of the `{word}`, put what follows it into an `if`, and leave the {what} outside."
    return KernelCheckError(
        kernel=kernel.name,
        message=f"{what} where threads of a work-group may have gone different ways, by {cause}",
        where=stmt.where or kernel.where,
        remedy=remedy,
    )


def _at(where: SourceLocation | None) -> str:
    if where is None:
        return ""
    text = where.text.strip()
    return f" (line {where.line}" + (f": `{text}`)" if text else ")")


def _way(body: Sequence[Stmt], stmt: Stmt) -> list[Stmt]:
    """The statements from the outermost block to a statement, each in a block of the one before."""
    for item in body:
        if item is stmt:
            return [item]
        for block in blocks(item):
            if way := _way(block, stmt):
                return [item, *way]
    return []


def _exit(body: tuple[Stmt, ...], uniformity: Uniformity) -> Break | Return | None:
    """A `break` or `return` that takes only some threads out of a loop."""
    for item in _leaves(body):
        if not isinstance(item, Continue) and uniformity.is_masked(item):
            return item
    return None


def _reason(body: Sequence[Stmt], leave: Stmt, uniformity: Uniformity) -> SourceLocation | None:
    """The place of the condition by which only some threads take an exit, else of the exit."""
    for parent in reversed(_way(body, leave)):
        if isinstance(parent, If) and not uniformity.is_uniform(parent.condition):
            return parent.where
    return leave.where


def _left(body: tuple[Stmt, ...], way: Sequence[Stmt], uniformity: Uniformity) -> Break | Continue | Return | None:
    """The first exit that takes some threads away before the end of the way: a return anywhere, or a jump in a loop."""
    inside = [parent for parent in way if isinstance(parent, (For, While))]
    for item in (*_leaves(inside[-1].body if inside else ()), *_leaves(body)):
        if uniformity.is_masked(item) and (inside or isinstance(item, Return)):
            return item
    return None


def _leaves(body: tuple[Stmt, ...]) -> Iterator[Break | Continue | Return]:
    for item in statements(body):
        if isinstance(item, (Break, Continue, Return)):
            yield item
