"""Kernel IR as Python closures that run each statement for all lanes of a chunk at once.

Expressions are evaluated for every lane of the chunk, and what an inactive lane computes is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from poot.kernel.build import contiguous_strides
from poot.kernel.faults import given
from poot.kernel.interpret import affine, flow
from poot.kernel.interpret.affine import Affine, Value, as_array
from poot.kernel.interpret.atomics import update
from poot.kernel.interpret.collectives import collective
from poot.kernel.interpret.flow import Evaluate, Execute
from poot.kernel.interpret.frame import Frame
from poot.kernel.interpret.memory import Access
from poot.kernel.interpret.space import Array
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Cast,
    Collective,
    Const,
    Continue,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Return,
    Stmt,
    Store,
    Var,
    While,
    operands,
    site_numbers,
    walk,
)
from poot.kernel.scalar import converter, evaluator


class Translator:
    """Makes the closures of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.sites = site_numbers(kernel)
        self.loops: list[_Loop] = []
        self.hoisted = 0

    # --- expressions ---

    def expr(self, expr: Expr) -> Evaluate:
        match expr:
            case Const():
                value: Array = expr.dtype.dtype.type(expr.value)
                return lambda f: value
            case Var():
                name = expr.name
                return lambda f: f.env[name]
            case Op():
                return self.hoist(expr) or self.op(expr)
            case Load():
                return self.load(expr)
            case Cast():
                return self.cast(expr)
            case Index():
                return self.index(expr)
            case Collective():
                arg, work = self.expr(expr.arg), collective(expr.op, expr.dtype)
                return lambda f: work(f.space, as_array(arg(f)))

    def index(self, expr: Index) -> Evaluate:
        kind, axis, buffer = expr.kind, expr.axis, expr.buffer
        if not buffer:
            return lambda f: f.number(kind, axis)
        number = expr.dtype.dtype.type
        if kind == "extent":
            return lambda f: number(f.arrays[buffer].extents[axis])
        return lambda f: number(f.arrays[buffer].strides[axis])

    def hoist(self, expr: Op) -> Evaluate | None:
        """Integer arithmetic that no turn of a loop changes, evaluated once before the outermost such loop."""
        if not self.loops or not expr.dtype.is_integer:
            return None
        names = _names(expr)
        depth = next((d for d, loop in enumerate(self.loops) if names is not None and not names & loop.varying), None)
        if depth is None:
            return None
        inner, self.loops = self.loops, self.loops[:depth]
        value = self.op(expr)
        self.loops = inner
        name = f"%{self.hoisted}"
        self.hoisted += 1
        inner[depth].before.append((name, value))
        return lambda f: f.env[name]

    def op(self, expr: Op) -> Evaluate:
        rule = evaluator(expr.name, expr.args[-1].dtype, expr.dtype)
        args = [self.expr(arg) for arg in expr.args]
        if expr.name == "select":
            return _select(*args)
        integers = expr.args[-1].dtype.is_integer
        match args:
            case [a] if integers and expr.name == "neg":
                return _affine_unary(rule, a)
            case [a]:
                return lambda f: rule(as_array(a(f)))
            case [a, _] if integers and isinstance(expr.args[1], Const):
                return _affine_with_number(expr.name, rule, a, expr.args[1])
            case [a, b] if integers:
                return _affine_binary(expr.name, rule, a, b)
            case [a, b]:
                return lambda f: rule(a(f), b(f))
            case _:
                return lambda f: rule(*(as_array(arg(f)) for arg in args))

    def cast(self, expr: Cast) -> Evaluate:
        arg, convert = self.expr(expr.arg), converter(expr.arg.dtype, expr.dtype)
        dtype = expr.dtype.dtype
        if not expr.dtype.is_integer:
            return lambda f: convert(as_array(arg(f)))

        def run(f: Frame) -> Value:
            value = arg(f)
            if isinstance(value, Affine):
                same = affine.convert(value, dtype)
                return convert(value.array()) if same is None else same
            return convert(value)

        return run

    def load(self, expr: Load) -> Evaluate:
        access = self.access(expr)
        name = expr.buffer
        indices = [self.expr(index) for index in expr.indices]
        return lambda f: f.arrays[name].load(f, [index(f) for index in indices], access)

    def access(self, node: Load | Store | Atomic) -> Access:
        wide = [given(index) for index in node.indices]
        named = tuple(None if index is None else self.expr(index) for index in wide)
        return Access(node.buffer, self.sites[id(node)] if node.checked else None, node.where, named)

    # --- statements ---

    def block(self, body: tuple[Stmt, ...]) -> Execute:
        stmts = [self.stmt(stmt) for stmt in body]

        def run(f: Frame) -> None:
            for stmt in stmts:
                stmt(f)
                if f.mask is False:
                    return

        return run

    def stmt(self, stmt: Stmt) -> Execute:
        match stmt:
            case Let():
                return flow.let(stmt.name, self.expr(stmt.value))
            case Assign():
                return flow.assign(stmt.name, self.expr(stmt.value))
            case Store():
                return self.store(stmt)
            case Atomic():
                return self.atomic(stmt)
            case If():
                return flow.branch(self.expr(stmt.condition), self.block(stmt.then), self.block(stmt.orelse))
            case For():
                return self.counted(stmt)
            case While():
                with self.loop(stmt) as before:
                    turns = flow.while_(self.expr(stmt.condition), self.block(stmt.body), flow.leaves(stmt.body))
                return _after(before, turns)
            case Assert():
                index = None if stmt.index is None else self.expr(stmt.index)
                return flow.assert_(self.expr(stmt.condition), index, stmt, self.sites[id(stmt)])
            case Alloc():
                return self.alloc(stmt)
            case Break():
                return flow.break_
            case Continue():
                return flow.continue_
            case Return():
                return flow.return_
            case Barrier():
                return flow.barrier

    def store(self, stmt: Store) -> Execute:
        access = self.access(stmt)
        name, value = stmt.buffer, self.expr(stmt.value)
        indices = [self.expr(index) for index in stmt.indices]

        def run(f: Frame) -> None:
            f.arrays[name].store(f, [index(f) for index in indices], value(f), access)

        return run

    def atomic(self, stmt: Atomic) -> Execute:
        access = self.access(stmt)
        name, result = stmt.buffer, stmt.result
        change = update(stmt.op, stmt.value.dtype, wants_old=result is not None)
        indices = [self.expr(index) for index in stmt.indices]
        values = [self.expr(value) for value in (stmt.compare, stmt.value) if value is not None]

        def run(f: Frame) -> None:
            old = f.arrays[name].atomic(
                f, [index(f) for index in indices], [value(f) for value in values], change, access
            )
            if result is not None:
                f.env[result] = old

        return run

    def alloc(self, stmt: Alloc) -> Execute:
        count, dtype = math.prod(stmt.shape), stmt.dtype.dtype
        strides = tuple(stride for stride in contiguous_strides(stmt.shape) if stride is not None)

        def private(f: Frame) -> None:
            lanes = f.space.lanes
            spread = tuple(stride * lanes for stride in strides)
            steps = f.space.linear(f.space.names, 1)
            f.array(stmt.name, stmt.space, np.zeros(count * lanes, dtype), stmt.shape, spread, 0, steps)

        def shared(f: Frame) -> None:
            groups = tuple(name for name in f.space.names if name.startswith("group"))
            storage = np.zeros(count * math.prod(f.space.shape[: len(groups)]), dtype)
            f.array(stmt.name, stmt.space, storage, stmt.shape, strides, 0, f.space.linear(groups, count))

        return private if stmt.space == "private" else shared

    def counted(self, stmt: For) -> Execute:
        start, stop, step = self.expr(stmt.start), self.expr(stmt.stop), stmt.step
        with self.loop(stmt) as before:
            body, leaves, name = self.block(stmt.body), flow.leaves(stmt.body), stmt.var
        number = stmt.start.dtype.dtype.type

        def run(f: Frame) -> None:
            first, last = start(f), stop(f)
            if not isinstance(first, Affine) and not isinstance(last, Affine) and not first.ndim and not last.ndim:
                flow.uniform_turns(f, name, number, range(int(first), int(last), step), body, leaves)
            else:
                flow.varying_turns(f, name, as_array(first), as_array(last), step, body, leaves)

        return _after(before, run)

    @contextmanager
    def loop(self, stmt: For | While) -> Generator[list[tuple[str, Evaluate]]]:
        """Translate the parts of a loop; yields what is to be evaluated before it."""
        self.loops.append(_Loop(_given(stmt)))
        yield self.loops[-1].before
        self.loops.pop()


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop being translated: the locals that its turns give values, and what is evaluated before it."""

    varying: frozenset[str]
    before: list[tuple[str, Evaluate]] = field(default_factory=list[tuple[str, Evaluate]])


def _given(loop: For | While) -> frozenset[str]:
    names: set[str] = set()
    for node in walk((loop,)):
        match node:
            case Let() | Assign():
                names.add(node.name)
            case For():
                names.add(node.var)
            case Atomic(result=str() as name):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def _names(expr: Expr) -> set[str] | None:
    """The locals that an expression reads, or None where it reads memory."""
    if isinstance(expr, (Load, Collective)):
        return None
    if isinstance(expr, Var):
        return {expr.name}
    names: set[str] = set()
    for child in operands(expr):
        found = _names(child)
        if found is None:
            return None
        names |= found
    return names


def _after(before: list[tuple[str, Evaluate]], loop: Execute) -> Execute:
    if not before:
        return loop

    def run(f: Frame) -> None:
        for name, value in before:
            f.env[name] = value(f)
        loop(f)

    return run


# --- operations -----------------------------------------------------------------------------------------------------


def _select(condition: Evaluate, a: Evaluate, b: Evaluate) -> Evaluate:
    def run(f: Frame) -> Value:
        chosen, x, y = as_array(condition(f)), a(f), b(f)
        if not chosen.ndim:
            return x if chosen else y
        return np.where(chosen, as_array(x), as_array(y))

    return run


def _affine_unary(rule: Callable[..., Array], a: Evaluate) -> Evaluate:
    def run(f: Frame) -> Value:
        x = a(f)
        if isinstance(x, Affine):
            result = affine.scaled(x, -1)
            return rule(x.array()) if result is None else result
        return rule(x)

    return run


def _affine_binary(name: str, rule: Callable[..., Array], a: Evaluate, b: Evaluate) -> Evaluate:
    def run(f: Frame) -> Value:
        x, y = a(f), b(f)
        if isinstance(x, Affine) or isinstance(y, Affine):
            result = affine.binary(name, x, y)
            if result is not None:
                return result
            return rule(as_array(x), as_array(y))
        return rule(x, y)

    return run


def _affine_with_number(name: str, rule: Callable[..., Array], a: Evaluate, const: Const) -> Evaluate:
    number, value = int(const.value), const.dtype.dtype.type(const.value)

    def run(f: Frame) -> Value:
        x = a(f)
        if isinstance(x, Affine):
            result = affine.with_number(name, x, number)
            return rule(x.array(), value) if result is None else result
        return rule(x, value)

    return run
