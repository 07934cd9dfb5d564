"""Assignments: to names, to elements, and to several at once."""

from __future__ import annotations

import ast
from typing import cast

from poot.dtypes import DType, as_dtype, f32, i32, i64
from poot.errors import PootError
from poot.kernel.ir import Assign, Expr, Stmt, Var
from poot.kernel.parse.helpers import Helpers
from poot.kernel.parse.remedies import beginning
from poot.kernel.parse.scope import Local
from poot.kernel.parse.values import NONE, Array, Static, Tuple, Typed, Value, describe


class Assignments(Helpers):
    """Gives locals and elements their values.

    A name that one plain assignment gives its only value is another name for it: for a constant, an array or a dtype
    too.  Any other local is a variable of the dtype of its first value.
    """

    def assignment(self, stmt: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if isinstance(stmt, ast.AugAssign):
            self.augmented(stmt)
        elif isinstance(stmt, ast.AnnAssign):
            assert isinstance(stmt.target, ast.Name) and stmt.value is not None
            dtype = self.declared(stmt.annotation)
            self.write(stmt.target, Typed(self.number(self.value(stmt.value), stmt.value, dtype)), stmt.value)
        else:
            first = stmt.targets[0]
            self.naming = first.id if isinstance(first, ast.Name) and isinstance(stmt.value, ast.Call) else ""
            value = self.value(stmt.value)
            self.naming = ""
            if len(stmt.targets) > 1 or isinstance(first, ast.Tuple):
                value = self.fixed(value)
            for target in stmt.targets:
                self.assign(target, value, stmt.value)

    def declared(self, node: ast.expr) -> DType:
        """The dtype of `x: f32 = 0`."""
        value = self.value(node)
        try:
            return as_dtype(value.value if isinstance(value, Static) else None)
        except PootError:
            self.mismatch(node, f"`{ast.unparse(node)}` is no dtype of a local", "write f32, i32 …, or leave it out.")

    def fixed(self, value: Value) -> Value:
        """A value that can be given to several names one after another."""
        if isinstance(value, Tuple):
            return Tuple(tuple(map(self.fixed, value.items)))
        return Typed(self.bind(value.expr)) if isinstance(value, Typed) else value

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        match target:
            case ast.Name():
                self.write(target, value, node)
            case ast.Tuple():
                if not isinstance(value, Tuple) or len(value.items) != len(target.elts):
                    text = ast.unparse(target)
                    self.mismatch(node, f"{describe(value)} is given to `{text}`", "give as many values as names.")
                for part, item in zip(target.elts, value.items, strict=True):
                    self.assign(part, item, node)
            case _:
                self.store(cast(ast.Subscript, target), value, node)

    def store(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        array, kept, place = self.element(target, value)
        self.k.store(array.name, place, self.number(kept, node, array.dtype), checked=self.checked)

    def element(self, target: ast.Subscript, value: Value = NONE) -> tuple[Array, Value, list[Expr]]:
        """The array and indices of an element, and a value that was evaluated before them."""
        array = self.value(target.value)
        if not isinstance(array, Array):
            text = ast.unparse(target.value)
            self.mismatch(target, f"`{text}` is {describe(array)}, which has no elements to assign", "assign a name.")

        def indices() -> Value:
            return Tuple(tuple(Typed(index) for index in self.place(array, target)))

        kept, place = self.sequence([lambda: value, indices])
        return array, kept, [item.expr for item in cast(Tuple, place).items if isinstance(item, Typed)]

    def augmented(self, stmt: ast.AugAssign) -> None:
        """`x += …` and `a[i] += …`; the indices are evaluated once."""
        target = stmt.target
        if isinstance(target, ast.Name):
            old, right = self.sequence([lambda: self.read(target), self.later(stmt.value)])
            result = self.binary(stmt.op, old, right, stmt, (target, stmt.value))
            self.write(target, result, stmt.value)
            return
        assert isinstance(target, ast.Subscript)
        array, _, place = self.element(target)
        place = [self.bind(index, "at") for index in place]

        def element() -> Value:
            return Typed(self.k.load(array.name, place, checked=self.checked))

        old, right = self.sequence([element, self.later(stmt.value)])
        result = self.binary(stmt.op, old, right, stmt, (target, stmt.value))
        self.k.store(array.name, place, self.number(result, stmt, array.dtype), checked=self.checked)

    def write(self, target: ast.Name, value: Value, node: ast.AST) -> None:
        """Give a local a value."""
        name, frame = target.id, self.frame
        local = frame.env.get(name)
        if local is not None and not self.lives(local):
            local = None
        if local is None and frame.bindings.single(name):
            block: list[Stmt] | None = None
            if isinstance(value, Typed):
                var, block = self.declare(name, value.expr)
                value = Typed(var)
            elif value == NONE:
                call = ast.unparse(node)
                remedy = f"write `{call}` without `{name} =`, or let it return the value of `{name}`."
                self.mismatch(node, f"`{call}` has no value", remedy)
            frame.env[name] = Local(value, self.where(target), block=block)
        elif local is None:
            var, block = self.declare(name, self.variable(name, value, node))
            self.mutable.add(var.name)
            frame.env[name] = Local(Typed(var), self.where(target), variable=True, block=block)
        elif local.variable and isinstance(local.value, Typed) and isinstance(local.value.expr, Var):
            self.change(name, local, local.value.expr, value, node)
        elif (
            frame.bindings.single(name) and not local.fixed
        ):  # the one assignment, in another turn of a loop that is written out
            frame.env.pop(name)
            self.write(target, value, node)
        else:
            self.mismatch(target, f"`{name}` is {describe(local.value)} and cannot be assigned", "use a new name.")
        assert frame.definite is not None
        frame.definite.add(name)

    def variable(self, name: str, value: Value, node: ast.AST) -> Expr:
        """The first value of a local that is assigned more than once."""
        if isinstance(value, Typed) or (isinstance(value, Static) and value.weak):
            return self.number(value, node)
        self.mismatch(
            node,
            f"`{name}` is {describe(value)} here, and is assigned elsewhere too",
            "give each array, tuple or dtype a name of its own.",
        )

    def change(self, name: str, local: Local, var: Var, value: Value, node: ast.AST) -> None:
        """A further value of a variable, of the dtype that its first one had."""
        given = value.dtype if isinstance(value, Typed) else None
        if isinstance(value, Static) and isinstance(value.value, float) and var.dtype.is_integer:
            given = f32
        wide = self.index is i64 and {given, var.dtype} == {i32, i64}
        if given is not None and given is not var.dtype and not wide:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):  # the name of a loop
                what = f"`{name}` is {var.dtype} since line {local.where.line}, and this loop counts in {given}"
                self.mismatch(node, what, "give this loop another name.")
            begin = beginning(self.frame.env, ast.Name(name), given) or f"begin with `{name} = {given}(…)`"
            self.mismatch(
                node,
                f"`{name}` is {var.dtype} since line {local.where.line}, and is given {given}",
                f"cast the new value: `{var.dtype}({ast.unparse(node)})`, or {begin}.",
            )
        self.k.emit(Assign(var.name, self.number(value, node, var.dtype), self.k.where))
