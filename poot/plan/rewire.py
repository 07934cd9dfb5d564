"""Kernels whose buffers change: a second place to store to, results in the place of operands, a condition on them all.

Each function gives a new kernel, or None where that is not safe.  `kernel` is one that the planner made: every element
is stored once, by one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from poot.dtypes import bool_, i32
from poot.kernel.build import contiguous_strides
from poot.kernel.ir import (
    Alloc,
    Assert,
    Atomic,
    Barrier,
    BufferParam,
    Cast,
    Collective,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Op,
    Stmt,
    Store,
    Var,
    While,
    walk,
)
from poot.kernel.rebuild import Rebuilder

_MOST_ELEMENTS = 1 << 31


def _fresh(kernel: Kernel, hint: str) -> str:
    """A name that a kernel does not use."""
    used = {param.name for param in kernel.params}
    for node in walk(kernel.body):
        match node:
            case Let() | Alloc():
                used.add(node.name)
            case For():
                used.add(node.var)
            case Atomic(result=str(name)):
                used.add(name)
            case _:
                pass
    name, number = hint, 0
    while name in used:
        number += 1
        name = f"{hint}_{number}"
    return name


def _mapped(body: tuple[Stmt, ...], change: Callable[[Stmt], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """Statements with those that hold no others exchanged."""
    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case If():
                found.append(replace(stmt, then=_mapped(stmt.then, change), orelse=_mapped(stmt.orelse, change)))
            case For() | While():
                found.append(replace(stmt, body=_mapped(stmt.body, change)))
            case _:
                found += change(stmt)
    return tuple(found)


def also_stored(kernel: Kernel, written: str, length: int, turn: str = "", *, reverse: bool) -> Kernel | None:
    """The kernel with one buffer more, that has room for `length` turns' values of one that it stores to.

    Whatever is stored to `written` is stored at its place among all turns as well.  `turn` is the buffer with the i32
    number of the turn; where there is none, it is added first.
    """
    param = kernel.param(written)
    assert isinstance(param, BufferParam)
    shape = tuple(extent for extent in param.shape if extent is not None)
    size = length
    for extent in shape:
        size *= extent
    small = size < _MOST_ELEMENTS or kernel.index_dtype is not i32
    if len(shape) != param.rank or param.strides != contiguous_strides(shape) or not small:
        return None
    whole, number = _fresh(kernel, "whole"), _fresh(kernel, "turn_number")
    added = [] if turn else [BufferParam(_fresh(kernel, "turn"), i32, "read", (1,), (1,))]
    turn = turn or added[0].name
    index = kernel.index_dtype
    loaded: Expr = Load(turn, (Const(0, index),), i32, checked=False)
    if reverse:
        loaded = Op("sub", (Const(length - 1, i32), loaded), i32)
    if index is not i32:
        loaded = Cast(loaded, index)

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Store) or stmt.buffer != written:
            return (stmt,)
        return stmt, replace(stmt, buffer=whole, indices=(Var(number, index), *stmt.indices))

    every = (length, *shape)
    params = (*kernel.params, *added, BufferParam(whole, param.dtype, "write", every, contiguous_strides(every)))
    return replace(kernel, params=params, body=(Let(number, loaded), *_mapped(kernel.body, change)))


def in_place(kernel: Kernel, read: str, written: str) -> Kernel | None:
    """The kernel with what it stores to one buffer in the place of another, which it therefore needs no more.

    Safe where every thread loads of `read` just the element that it stores, and before it stores that; and only in
    kernels without loops, where a thread has one element.
    """
    source, target = kernel.param(read), kernel.param(written)
    assert isinstance(source, BufferParam) and isinstance(target, BufferParam)
    alike = (source.shape, source.strides, source.dtype) == (target.shape, target.strides, target.dtype)
    if kernel.threads is None or not alike or (source.access, target.access) != ("read", "write"):
        return None
    indices: set[tuple[Expr, ...]] = set()
    stored = False
    for node in walk(kernel.body):
        match node:
            case For() | While() | Alloc() | Barrier() | Collective() | Atomic():
                return None
            case Load() if node.buffer == read:
                if stored:
                    return None
                indices.add(node.indices)
            case Store():
                # The loads below a store come after it in the walk, yet before it in time.
                if node.buffer == written:
                    inside = [each for each in walk((node,)) if isinstance(each, Load) and each.buffer == read]
                    if stored or inside:
                        return None
                    stored = True
                    indices.add(node.indices)
            case _:
                pass
    if len(indices) != 1 or not stored:
        return None
    renamed = _Exchange(read, written).block(kernel.body)
    both = replace(target, access="readwrite")
    params = tuple(both if param is target else param for param in kernel.params if param is not source)
    return replace(kernel, params=params, body=renamed)


class _Exchange(Rebuilder):
    """Loads of one buffer become loads of another."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def leaf(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer != self._old:
            return None
        return replace(expr, buffer=self._new, indices=tuple(map(self.expr, expr.indices)))


def without(kernel: Kernel, written: str) -> Kernel | None:
    """The kernel without a buffer that it only stores to."""
    nodes = walk(kernel.body)
    if any(isinstance(node, (Load, Atomic)) and node.buffer == written for node in nodes):
        return None
    body = _mapped(kernel.body, lambda stmt: () if isinstance(stmt, Store) and stmt.buffer == written else (stmt,))
    return replace(kernel, params=tuple(param for param in kernel.params if param.name != written), body=body)


def predicated(kernel: Kernel) -> Kernel | None:
    """The kernel with one buffer more, a bool: where that is false it does nothing."""
    if any(isinstance(node, (Alloc, Barrier, Collective)) for node in walk(kernel.body)):
        return None
    going = _fresh(kernel, "going")
    condition = Load(going, (Const(0, kernel.index_dtype),), bool_, checked=False)
    params = (*kernel.params, BufferParam(going, bool_, "read", (1,), (1,)))
    return replace(kernel, params=params, body=(If(condition, kernel.body),))


def can_fault(kernel: Kernel) -> bool:
    """Whether a kernel has an access that is checked when it runs, or an assertion."""
    return any(
        isinstance(node, Assert) or (isinstance(node, (Load, Store, Atomic)) and node.checked)
        for node in walk(kernel.body)
    )
