"""The words of the kernel language: numbers of the launch, memory, atomics, and the work-group together."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from poot.dtypes import DType, as_dtype, bool_
from poot.errors import PootError
from poot.kernel import language
from poot.kernel.ir import Atomic, AtomicOp, CollectiveOp, Index, IndexKind, Space
from poot.kernel.parse.annotations import own_signature
from poot.kernel.parse.elements import Elements
from poot.kernel.parse.values import NONE, Array, Static, Tuple, Typed, Value, describe, plain

NUMBERS: dict[object, IndexKind] = {
    language.thread_index: "thread",
    language.local_index: "local",
    language.group_index: "group",
    language.group_size: "group_size",
    language.num_groups: "num_groups",
}
SPACES: dict[object, Space] = {language.shared: "shared", language.private: "private"}
ATOMICS: dict[object, AtomicOp] = {
    getattr(language, f"atomic_{op}"): op
    for op in ("add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange")
}
COLLECTIVES: dict[object, CollectiveOp] = {
    getattr(language, f"group_{op}"): op for op in ("sum", "max", "min", "any", "all", "scan")
}


class Intrinsics(Elements):
    """Calls of the functions of `language.py`."""

    # --- arguments ---

    def arguments(self, function: Callable[..., Any], node: ast.Call) -> Mapping[str, ast.expr]:
        """The nodes of a call by the parameter names of a function."""
        try:
            signature = own_signature(function)
            keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
            return cast("Mapping[str, ast.expr]", signature.bind(*node.args, **keywords).arguments)
        except TypeError as error:
            name = getattr(function, "__name__", "function")
            self.mismatch(node, f"`{ast.unparse(node)}`: {error}", f"call it as {name}{_untyped(function)}.")

    def plain_arguments(self, node: ast.Call, least: int, most: int | None) -> list[ast.expr]:
        """The positional arguments of one of Python's own functions."""
        count = len(node.args)
        if node.keywords or count < least or (most is not None and count > most):
            wanted = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            named = " and keywords" if node.keywords else ""
            text, several = ast.unparse(node.func), "argument" if count == 1 else "arguments"
            last = "argument" if wanted == "1" else "arguments"
            remedy = f"give it {wanted} {last}{', none of them by name' if node.keywords else ''}."
            self.mismatch(node, f"`{text}` is given {count} {several}{named}, and takes {wanted}", remedy)
        return node.args

    def word(self, node: ast.expr, what: str) -> str:
        """An axis name."""
        value = self.value(node)
        text = value.value if isinstance(value, Static) else None
        if text not in ("x", "y", "z"):
            self.mismatch(node, f"the axis of {what} is {ast.unparse(node)}", 'write "x", "y" or "z".')
        return cast(str, text)

    def dtype(self, node: ast.expr, what: str) -> DType:
        """An argument that names a dtype."""
        value = self.value(node)
        try:
            return as_dtype(value.value if isinstance(value, Static) else None, what)
        except PootError:
            self.mismatch(
                node, f"`{ast.unparse(node)}` is {describe(value)}, where {what} needs a dtype", "write f32, i32 …"
            )

    # --- the launch, memory, and the work-group ---

    def together(self, what: str, node: ast.AST) -> None:
        """Something that speaks of the work-group, whose size must be the user's own choice."""
        if not self.stated:
            self.mismatch(
                node,
                f"`{what}` needs to know the work-group, and none is stated",
                "write @poot.kernel(workgroup=256), or pass workgroup= at the launch.",
            )

    def launch_number(self, function: object, node: ast.Call) -> Value:
        kind = NUMBERS[function]
        name = cast("Any", function).__name__
        given = self.arguments(cast("Any", function), node)
        axis = "xyz".index(self.word(given["axis"], name) if "axis" in given else "x")
        if kind != "thread":
            self.together(name, node)
        if kind == "group_size":
            return Static(self.k.workgroup[axis])
        return Typed(Index(kind, axis, "", self.index, self.k.where))

    def barrier(self, function: object, node: ast.Call) -> Value:
        self.arguments(language.barrier, node)
        self.together("barrier", node)
        self.k.barrier()
        return NONE

    def allocate(self, function: object, node: ast.Call) -> Value:
        """`poot.shared(f32, (16, 16))`: declared at the top of the kernel, where every renderer can."""
        space = SPACES[function]
        given = self.arguments(cast("Any", function), node)
        if space == "shared":
            self.together("shared", node)
        dtype = self.dtype(given["dtype"], f"poot.{space}")
        shape = self.constant_shape(given["shape"])
        name = self.k.alloc(plain(self.naming or space), dtype, shape, space)
        return Array(name, dtype, len(shape), "readwrite", space, shape)

    def constant_shape(self, node: ast.expr) -> tuple[int, ...]:
        value = self.value(node)
        items = value.items if isinstance(value, Tuple) else (value,)
        shape = [item.value for item in items if isinstance(item, Static) and type(item.value) is int]
        if len(shape) != len(items) or not shape:
            self.mismatch(
                node,
                f"the shape `{ast.unparse(node)}` is not known while compiling",
                "use constants, Const parameters or poot.group_size(): arrays of a kernel have fixed sizes.",
            )
        if min(shape) < 1:
            self.mismatch(node, f"the shape `{ast.unparse(node)}` is {tuple(shape)}", "use lengths of 1 or more.")
        return tuple(shape)

    def atomic(self, function: object, node: ast.Call) -> Value:
        """`poot.atomic_add(a, i, value)`; its value is what the element was before."""
        op = ATOMICS[function]
        given = self.arguments(cast("Any", function), node)
        names = ("compare", "value") if op == "compare_exchange" else ("value",)
        array = self.value(given["buffer"])
        if not isinstance(array, Array):
            text = ast.unparse(given["buffer"])
            self.mismatch(
                node, f"`{text}` is {describe(array)}, where an array is needed", "pass the array, then the index."
            )
        element = ast.copy_location(ast.Subscript(given["buffer"], given["index"], ast.Load()), given["index"])
        values = self.sequence(
            [
                lambda: Tuple(tuple(Typed(index) for index in self.place(array, element))),
                *(self.later(given[name]) for name in names),
            ]
        )
        indices = [item.expr for item in cast(Tuple, values[0]).items if isinstance(item, Typed)]
        operands = [self.number(v, given[n], array.dtype) for v, n in zip(values[1:], names, strict=True)]
        compare = operands[0] if op == "compare_exchange" else None
        if node is self.statement:
            atomic = Atomic(op, array.name, tuple(indices), operands[-1], compare, None, self.checked, self.k.where)
            self.k.emit(atomic)
            return NONE
        return Typed(self.k.atomic(op, array.name, indices, operands[-1], compare=compare, checked=self.checked))

    def collective(self, function: object, node: ast.Call) -> Value:
        op = COLLECTIVES[function]
        (arg,) = self.arguments(cast("Any", function), node).values()
        self.together(f"group_{op}", node)
        value = self.value(arg)
        if op in ("any", "all"):
            condition = self.boolean(value, arg, f"group_{op}")
            expr = self.k.const(condition, bool_) if isinstance(condition, bool) else condition
        else:
            expr = self.number(value, arg)
            if expr.dtype is bool_:
                self.mismatch(node, f"`group_{op}` of bool", f"write `group_{op}(i32({ast.unparse(arg)}))`.")
        return Typed(self.k.collective(op, expr, f"group_{op}"))


def _untyped(function: Callable[..., Any]) -> str:
    """A function's parameters with their defaults, and without their types."""
    signature = own_signature(function)
    shown = [item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()]
    return str(inspect.Signature(shown))
