"""Names, places and conversions: what every part of the parser stands on.

A `Frame` is one function being parsed, the kernel or a helper that is inlined into it.  Its locals live in the block
that holds all of their uses: declared at their first assignment where that stands in this very block, else before the
statement of the block that contains it.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import math
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar, cast

import numpy as np

from poot.dtypes import DType, f32, i32, i64
from poot.errors import (
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    SourceLocation,
    UnsupportedDTypeError,
)
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Alloc, Assign, Collective, Expr, Let, Stmt, Var
from poot.kernel.language import WORDS
from poot.kernel.parse import remedies
from poot.kernel.parse.annotations import closure
from poot.kernel.parse.frames import Frame as Frame
from poot.kernel.parse.frames import Local as Local
from poot.kernel.parse.guards import MISSING, Guards
from poot.kernel.parse.values import (
    Array,
    Chosen,
    Static,
    Tuple,
    Typed,
    Value,
    converted,
    describe,
    fits,
    is_atom,
    is_strong,
    loads,
    meeting,
    plain,
    shown,
    static_value,
    walk_expr,
    weak_dtype,
    weak_numbers,
    zero,
)
from poot.probe import has

#: Python's own functions that kernels have; the others have hints in calls.py.
BUILTINS = ("abs", "bool", "divmod", "float", "int", "len", "max", "min", "pow", "range")


class Scope:
    """The parser's base: the kernel being built, and the frame being parsed."""

    def __init__(
        self,
        name: str,
        builder: KernelBuilder,
        guards: Guards,
        variables: dict[TypeVar, DType],
        *,
        stated: bool,
        checked: bool,
    ) -> None:
        self.name = name
        self.k = builder
        self.guards = guards
        self.variables = variables
        self.stated = stated
        self.checked = checked
        self.frames: list[Frame] = []
        #: IR names of locals that are given more than one value.
        self.mutable: set[str] = set()
        #: The name that the value being evaluated is to have, and the call that is a statement of its own.
        self.naming = ""
        self.statement: ast.AST | None = None

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def index(self) -> DType:
        return self.k.index_dtype

    # --- places and errors ---

    def where(self, node: ast.AST) -> SourceLocation:
        return self.frame.source.where(node)

    @contextmanager
    def at(self, node: ast.AST) -> Generator[None]:
        """Stamp what is built inside with the place of a node."""
        before = self.k.where
        self.k.where = self.where(node)
        try:
            yield
        finally:
            self.k.where = before

    def refuse(self, node: ast.AST, message: str, remedy: str) -> NoReturn:
        """Something that is not part of the language."""
        self._raise(KernelSyntaxError, node, message, remedy)

    def mismatch(self, node: ast.AST, message: str, remedy: str) -> NoReturn:
        """Dtypes or ranks that do not fit."""
        self._raise(KernelTypeError, node, message, remedy)

    def unknown(self, node: ast.AST, message: str, remedy: str) -> NoReturn:
        """A name that is not there."""
        self._raise(KernelNameError, node, message, remedy)

    def _raise(self, kind: type[KernelError], node: ast.AST, message: str, remedy: str) -> NoReturn:
        remedy = remedy.replace("{", "{{").replace("}", "}}")
        raise kind(kernel=self.name, message=message, where=self.where(node), remedy=remedy)

    # --- names ---

    def read(self, node: ast.Name) -> Value:
        """The value of a name: a local, else a closure cell, a global, or one of Python's own."""
        name, frame = node.id, self.frame
        local = frame.env.get(name)
        if local is not None and (frame.definite is None or name in frame.definite) and self.lives(local):
            return local.value
        if local is not None:
            self.unknown(
                node,
                f"`{name}` does not have a value on every way to this line",
                "give it one before the `if` or loop that assigns it.",
            )
        if name in frame.bindings.loops and name not in frame.bindings.assigned:
            self.unknown(node, f"`{name}` has a value inside its loop alone", "copy it to a variable in the loop.")
        if frame.bindings.local(name):
            self.unknown(node, f"`{name}` is used before it has a value", "assign it first.")
        return self.outer(node)

    def lives(self, local: Local) -> bool:
        """Whether a local's block is open; a loop that is written out comes back to locals whose blocks are not."""
        return local.block is None or any(made is local.block for _, made in self.frame.blocks)

    def outer(self, node: ast.Name) -> Value:
        """A name from outside the function."""
        function = self.frame.source.function
        self.guards.function(function)
        if node.id in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(node.id)]
            value = self.guards.cell(cell)
        else:
            value = self.guards.item(function.__globals__, node.id)
        if value is MISSING:
            value = getattr(builtins, node.id, MISSING)
        if value is MISSING:
            known = {*self.frame.env, *function.__globals__, *closure(function), *BUILTINS, *WORDS}
            self.unknown(node, f"`{node.id}` is not defined", self.near(node.id, known) or "define or import it.")
        return self.constant(node, value)

    def near(self, name: str, known: set[str]) -> str:
        """A hint at the name that may have been meant, or ""."""
        found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
        if not found:
            return ""
        found.sort(key=lambda other: not other.startswith(name))  # stable: else the closest is first
        prefix = "poot." if found[0] in WORDS and found[0] not in self.frame.source.function.__globals__ else ""
        return f"did you mean `{prefix}{found[0]}`?"

    def constant(self, node: ast.AST, value: object) -> Value:
        """A Python object from outside, as a value; objects whose contents may change are refused."""
        if isinstance(value, TypeVar):
            if value not in self.variables:
                self.unknown(node, f"`{value.__name__}` stands for no dtype here", "use it in a parameter: x: In[T].")
            return Static(self.variables[value])
        if isinstance(value, np.ndarray) or has(value, "__poot_astype__"):
            self.refuse(node, f"`{ast.unparse(node)}` is an array from outside the kernel", "pass it as a parameter.")
        if isinstance(value, (list, dict, set)):
            kind = type(cast("object", value)).__name__
            self.refuse(
                node,
                f"`{ast.unparse(node)}` is a {kind}, whose contents may change after the kernel is compiled",
                "make it a tuple.",
            )
        try:
            return static_value(value)
        except UnsupportedDTypeError:
            text, kind = ast.unparse(node), type(value).__name__
            remedy = "convert it outside the kernel: float(…) or int(…)."
            self.mismatch(node, f"`{text}` is a Python {kind}, which no dtype of a kernel holds", remedy)

    def member(self, node: ast.Attribute, owner: object) -> Value:
        """An attribute of a Python object."""
        module = owner.__name__ if isinstance(owner, types.ModuleType) else ""
        lasting = module.partition(".")[0] in ("poot", "math", "numpy")
        try:
            value = getattr(owner, node.attr, MISSING) if lasting else self.guards.attribute(owner, node.attr)
        except Exception as error:  # whatever an object's own `__getattr__` raises
            what = f"`{ast.unparse(node)}` raises {type(error).__name__}: {error}"
            self.unknown(node, what, "give it a plain attribute, or read it outside the kernel.")
        if value is MISSING:
            hint = self.near(node.attr, set(dir(owner))).replace("poot.", "")
            if module == "poot" and hasattr(math, node.attr):
                hint = f"write `math.{node.attr}`."
            self.unknown(node, f"`{ast.unparse(node.value)}` has no `{node.attr}`", hint or "check the spelling.")
        return self.constant(node, value)

    # --- conversions ---

    def number(self, value: Value, node: ast.AST, dtype: DType | None = None) -> Expr:
        """A value as an expression: of `dtype`, if one is given, else of its own."""
        match value:
            case Chosen() if dtype not in (None, value.dtype):
                parts = (self.number(part, node, dtype) for part in (value.first, value.second))
                return self.k.op("select", value.condition, *parts)
            case Typed():
                return value.expr if dtype is None else self.same(value.expr, dtype, node)
            case Static() if value.weak:
                return self.literal(value.value, dtype or weak_dtype(value.value, self.index), node)
            case _:
                text = ast.unparse(node)
                self.mismatch(node, f"`{text}` is {describe(value)}, where a number is needed", remedies.instead(value))

    def same(self, expr: Expr, dtype: DType, node: ast.AST) -> Expr:
        """An expression that has to have a dtype; in kernels with 64-bit indices i32 and i64 are one."""
        if expr.dtype is dtype:
            return expr
        if self.index is i64 and {expr.dtype, dtype} == {i32, i64}:
            return self.k.cast(expr, dtype)
        text = ast.unparse(node)
        remedy = remedies.casts(self.frame.env, dtype, [node])
        self.mismatch(node, f"`{text}` is {expr.dtype}, where {dtype} is needed", remedy)

    def literal(self, value: bool | int | float, dtype: DType, node: ast.AST) -> Expr:
        """A weak number as a constant of the dtype that it meets."""
        if fits(value, dtype):
            return self.k.const(converted(value, dtype), dtype)
        if isinstance(value, float) and dtype.is_integer:
            self.mismatch(
                node,
                f"the number {value!r} meets {dtype}",
                f"cast the other operand to a float, or write `{dtype}({value!r})`.",
            )
        if isinstance(value, bool) or dtype.kind == "bool":
            remedy = remedies.truth(value) if dtype.kind == "bool" else f"write `{dtype}({value!r})`."
            self.mismatch(node, f"{describe(Static(value))} meets {dtype}", remedy)
        what = shown(value) if shown(value)[:2] != "of" else describe(Static(value))
        wrap = f", or `{dtype}({value!r})` if it is to wrap" if dtype.is_integer and what[0] != "t" else ""
        self.mismatch(
            node,
            f"{what} does not fit {dtype}",
            f"use a number between {dtype.min} and {dtype.max}{wrap}.",
        )

    def pair(self, left: Value, right: Value, node: ast.AST, nodes: tuple[ast.AST, ast.AST]) -> tuple[Expr, Expr]:
        """Two operands brought to one dtype: weak numbers take the other's; two different dtypes are refused."""
        if is_strong(left) and is_strong(right):
            a, b = left.expr, right.expr
            if a.dtype is b.dtype:
                return a, b
            if self.index is i64 and {a.dtype, b.dtype} == {i32, i64}:
                return self.k.cast(a, i64), self.k.cast(b, i64)
            self._mixed(a.dtype, b.dtype, node, nodes)
        if is_strong(left):
            return left.expr, self._meet(right, left, nodes[1], nodes[0])
        if is_strong(right):
            return self._meet(left, right, nodes[0], nodes[1]), right.expr
        return self._weak(left, right, nodes)

    def _weak(self, left: Value, right: Value, nodes: tuple[ast.AST, ast.AST]) -> tuple[Expr, Expr]:
        """Two weak numbers: ints among floats become floats."""
        both = weak_numbers(left) + weak_numbers(right)
        dtype = f32 if any(isinstance(v, float) for v in both) and not any(isinstance(v, bool) for v in both) else None
        return self.number(left, nodes[0], dtype), self.number(right, nodes[1], dtype)

    def _meet(self, weak: Value, typed: Typed, node: ast.AST, other: ast.AST) -> Expr:
        if isinstance(weak, Static) and isinstance(weak.value, float) and typed.dtype.is_integer:
            remedy = remedies.casts(self.frame.env, f32, [other])
            what = f"the number {weak.value!r} meets `{ast.unparse(other)}`, which is {typed.dtype}"
            self.mismatch(node, what, remedy)
        return self.number(weak, node, typed.dtype)

    def _mixed(self, a: DType, b: DType, node: ast.AST, nodes: tuple[ast.AST, ast.AST]) -> NoReturn:
        wanted = meeting(a, b)
        cast = [part for part, dtype in zip(nodes, (a, b), strict=True) if dtype is not wanted]
        remedy = remedies.casts(self.frame.env, wanted, cast, changes=isinstance(node, ast.AugAssign))
        self.mismatch(node, f"{a} and {b} meet in `{ast.unparse(node)}`", remedy)

    def boolean(self, value: Value, node: ast.AST, what: str) -> Expr | bool:
        """A condition: an expression, or the truth of a constant."""
        match value:
            case Typed() if value.dtype.kind == "bool":
                return value.expr
            case Typed():
                text = ast.unparse(node)
                self.mismatch(node, f"the condition of {what} is {value.dtype}", f"write `{text} != 0`.")
            case Static():
                return bool(value.value)
            case Tuple():
                return bool(value.items)
            case Array():
                self.mismatch(node, f"the condition of {what} is an array", "index it, or compare its length.")

    # --- statements in the making ---

    def bind(self, expr: Expr, hint: str = "t") -> Expr:
        """The expression, or a local with its value if writing it twice would compute it twice."""
        if is_atom(expr) and not self.unstable(expr):
            return expr
        return self.k.let(expr, hint)

    def unstable(self, expr: Expr) -> bool:
        """Whether a statement can change what the expression evaluates to."""
        return loads(expr) or any(isinstance(n, Var) and n.name in self.mutable for n in walk_expr(expr))

    def sequence(self, parts: Sequence[Callable[[], Value]]) -> list[Value]:
        """Evaluate from left to right; what later parts could change by their statements is kept in locals."""
        done: list[Value] = []
        for part in parts:
            place = len(self.k.here)
            value = part()
            if len(self.k.here) > place:
                late = self.k.here[place:]
                if not all(map(_harmless, late)):
                    del self.k.here[place:]
                    done = [self.kept(v) for v in done]
                    self.k.here.extend(late)
            done.append(value)
        return done

    def kept(self, value: Value) -> Value:
        """The value as it is now, whatever statements follow."""
        match value:
            case Typed() if self.unstable(value.expr):
                return Typed(self.k.let(value.expr))
            case Tuple():
                return Tuple(tuple(map(self.kept, value.items)))
            case _:
                return value

    @contextmanager
    def block(self, body: Sequence[ast.stmt]) -> Generator[list[Stmt]]:
        """Open the block of a list of the tree."""
        with self.k.block() as made:
            self.frame.blocks.append((id(body), made))
            try:
                yield made
            finally:
                self.frame.blocks.pop()

    @contextmanager
    def written_here(self, body: Sequence[ast.stmt]) -> Generator[None]:
        """Let the statements of a list of the tree go into the block that is open."""
        self.frame.blocks.append((id(body), self.k.here))
        try:
            yield
        finally:
            self.frame.blocks.pop()

    def declare(self, name: str, value: Expr) -> tuple[Var, list[Stmt]]:
        """Declare a local with its first value, in the block that holds all uses of the name."""
        frame = self.frame
        home = frame.bindings.homes[name][-1]
        fresh = self.k.fresh(plain(name))
        var = Var(fresh, value.dtype, self.k.where)
        if frame.blocks[-1][0] == home:
            self.k.emit(Let(fresh, value, self.k.where))
            return var, self.k.here
        statements = next(made for block, made in frame.blocks if block == home)
        statements.append(Let(fresh, zero(value.dtype), self.k.where))
        self.mutable.add(fresh)
        self.k.emit(Assign(fresh, value, self.k.where))
        return var, statements


def _harmless(stmt: Stmt) -> bool:
    """Whether what was evaluated before the statement is the same after it."""
    return isinstance(stmt, Alloc) or (isinstance(stmt, Let) and not isinstance(stmt.value, Collective))
