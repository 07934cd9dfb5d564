"""Helper functions: the user's own functions, written out where they are called.

A helper's `return`s stand at the ends of its ways: as its last statement, in the branches of a last `if`, or in a chain
of `if … : return …`.  The value of the call is then chosen as a conditional expression chooses.
"""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

from poot.dtypes import DType
from poot.errors import KernelSyntaxError, PootError
from poot.kernel.parse.annotations import closure, own_signature
from poot.kernel.parse.bindings import bindings, structured
from poot.kernel.parse.calls import Calls
from poot.kernel.parse.scope import Frame, Local
from poot.kernel.parse.source import FunctionSource, function_source
from poot.kernel.parse.syntax import check_syntax
from poot.kernel.parse.values import NONE, Static, Typed, Value, plain

_DEPTH = 64


class Helpers(Calls):
    """Inlines calls of functions."""

    @abstractmethod
    def run(self, body: Sequence[ast.stmt]) -> Value | None:
        """Parse statements into the open block; the value of the `return` that they end in, or None."""

    def helper(self, function: types.FunctionType, node: ast.Call) -> Value:
        """Write a function out; its value, or NONE."""
        self._check_depth(function, node)
        arguments = self._arguments(function, node)
        where = self.where(node)
        self.guards.function(function, defaults=True)
        try:
            return self._inlined(function_source(function, "helper of a kernel"), arguments)
        except PootError as error:
            error.add_note(f"  in {function.__qualname__}, inlined at {where}")
            raise

    def _check_depth(self, function: types.FunctionType, node: ast.Call) -> None:
        if any(frame.source.function.__code__ is function.__code__ for frame in self.frames):
            self.refuse(node, f"`{function.__name__}` calls itself", "write a loop: helper functions are inlined.")
        if len(self.frames) > _DEPTH:
            self.refuse(node, f"helper functions are nested more than {_DEPTH} deep", "call fewer inside one another.")

    def _arguments(self, function: types.FunctionType, node: ast.Call) -> dict[str, tuple[Value, ast.AST]]:
        """The values of a call by parameter name, in the order in which they are written."""
        signature = own_signature(function)
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.refuse(node, f"`{function.__name__}` takes `*{parameter.name}`", "name every parameter.")
        given = self.arguments(function, node)
        values = self.sequence([self.later(argument) for argument in given.values()])
        found: dict[str, tuple[Value, ast.AST]] = {}
        for (name, argument), value in zip(given.items(), values, strict=True):
            found[name] = value, argument
        for name, parameter in signature.parameters.items():
            if name not in found:
                found[name] = self.constant(node, cast("object", parameter.default)), node
        return found

    def _inlined(self, source: FunctionSource, arguments: dict[str, tuple[Value, ast.AST]]) -> Value:
        check_syntax(source, self.name)
        dtypes = {name: _dtype(source, name) for name in arguments}
        values = {name: self._argument(value, node, dtypes[name]) for name, (value, node) in arguments.items()}
        body = structured(source.tree.body)
        if isinstance(body, ast.Return):
            raise KernelSyntaxError(
                kernel=self.name,
                message="this `return` leaves a helper function early",
                where=source.where(body),
                remedy="return at the ends of an `if` alone: keep the value in a variable, and `break` out of loops.",
            )
        frame = Frame(source, bindings(body), helper=True)
        for name, value in values.items():
            if frame.bindings.local(name) and isinstance(value, (Typed, Static)):
                value = self.variable_of(name, value, arguments[name][1])
            frame.env[name] = Local(value, source.start, isinstance(value, Typed) and frame.bindings.local(name), True)
        frame.definite = set(values)
        before, self.statement = (self.k.where, self.naming), None
        self.frames.append(frame)
        try:
            with self.written_here(body):
                return self.run(body) or NONE
        finally:
            self.frames.pop()
            self.k.where, self.naming = before

    def variable_of(self, name: str, value: Value, node: ast.AST) -> Value:
        """A variable that begins as a parameter's value: parameters themselves do not change."""
        var = self.k.let(self.number(value, node), plain(name))
        self.mutable.add(var.name)
        return Typed(var)

    def _argument(self, value: Value, node: ast.AST, dtype: DType | None) -> Value:
        """An argument as the helper's body may use it, any number of times."""
        if dtype is not None and isinstance(value, (Typed, Static)):
            value = Typed(self.number(value, node, dtype))
        return Typed(self.bind(value.expr)) if isinstance(value, Typed) else self.kept(value)


def _dtype(source: FunctionSource, name: str) -> DType | None:
    """The dtype that a parameter of a helper is annotated with; other annotations ask for nothing.

    A decorated function has the annotations of what it wraps; what counts is what is written at the parameter itself.
    """
    function = source.function
    annotation = function.__annotations__.get(name)
    if hasattr(function, "__wrapped__"):
        written = next(argument.annotation for argument in source.arguments if argument.arg == name)
        annotation = None if written is None else ast.unparse(written)
    if isinstance(annotation, str):
        space = {**function.__globals__, **closure(function)}
        annotation = space.get(annotation)
    return annotation if isinstance(annotation, DType) else None
