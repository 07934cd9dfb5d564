"""Which Python the kernel language has: everything in `ACCEPTED`; the rest is refused with what to write instead.

A kernel's tree is checked here when it is decorated, a helper's when it is first inlined, before any types are known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NoReturn, cast

from poot.errors import KernelSyntaxError
from poot.kernel.parse.source import FunctionSource

_LOOP = "write a `for` loop."
#: How many nodes may stand inside one another: every pass over a kernel goes down them.
_DEEPEST = 100
SPLIT = "split it: give a part of it a name, or write a helper function."
_CHAIN = (
    "split the chain: `if x < 50:` around one half of it and `else:` around the other, or look the result up in an "
    "array, `table[x]`."
)
_OUT = "write results to an Out buffer."

#: Node classes that no kernel may have: what they are called, and what to write instead.
REFUSED: dict[str, tuple[str, str]] = {
    "AsyncFunctionDef": ("`async def`", "write the function outside with `def`; helper functions are inlined."),
    "FunctionDef": ("a function inside a function", "write it outside with `def`; helper functions are inlined."),
    "Lambda": ("`lambda`", "write the function outside with `def`; helper functions are inlined."),
    "ClassDef": ("`class`", "kernels have numbers, arrays and tuples; name each number on its own."),
    "TypeAlias": ("`type`", "write it outside the kernel."),
    "Delete": ("`del`", "leave it out; a name that is not used costs nothing."),
    "Yield": ("`yield`", _OUT),
    "YieldFrom": ("`yield from`", _OUT),
    "With": ("`with`", "do what it does outside the kernel."),
    "Match": ("`match`", "write `if`, `elif` and `else`."),
    "Raise": ("`raise`", 'write `assert condition, "message"`: a failed assertion is a fault of the launch.'),
    "Try": ("`try`", "nothing is raised inside a kernel: test the condition with `if`."),
    "TryStar": ("`try`", "nothing is raised inside a kernel: test the condition with `if`."),
    "Import": ("`import`", "import it at the top of the module."),
    "ImportFrom": ("`import`", "import it at the top of the module."),
    "Global": ("`global`", _OUT),
    "Nonlocal": ("`nonlocal`", _OUT),
    "NamedExpr": ("an assignment inside an expression", "assign on a line of its own."),
    "Dict": ("a dict", "give each value a name, or pass an array."),
    "Set": ("a set", "compare with each value: `x == 1 or x == 2`."),
    "List": ("a list", "write a tuple, or `poot.private(dtype, n)` for an array of the thread."),
    "ListComp": ("a comprehension", _LOOP),
    "SetComp": ("a comprehension", _LOOP),
    "DictComp": ("a comprehension", _LOOP),
    "GeneratorExp": ("a comprehension", _LOOP),
    "JoinedStr": ("an f-string", "kernels make no text; the message of an assert is a plain string."),
    "TemplateStr": ("a t-string", "kernels make no text; the message of an assert is a plain string."),
    "Starred": ("`*` before a value", "write the values out."),
    "Slice": ("a slice", "index one element at a time, in a loop."),
    "MatMult": ("`@`", "write the loop over the inner axis: multiply and add."),
}

#: Node classes that a kernel may have.
ACCEPTED: frozenset[str] = frozenset(
    {
        *("Return", "Assign", "AnnAssign", "AugAssign", "For", "While", "If", "Assert", "Expr"),
        *("Pass", "Break", "Continue"),
        *("BoolOp", "BinOp", "UnaryOp", "IfExp", "Compare", "Call", "Constant", "Attribute", "Subscript"),
        *("Name", "Tuple", "keyword", "Load", "Store", "And", "Or"),
        *("Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "Pow", "LShift", "RShift", "BitOr", "BitXor", "BitAnd"),
        *("Invert", "Not", "UAdd", "USub"),
        *("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE", "Is", "IsNot", "In", "NotIn"),
    }
)


def check_syntax(source: FunctionSource, kernel: str) -> None:
    """KernelSyntaxError at the first node of a function's body that the language does not have."""
    for stmt in source.tree.body:
        _Checker(source, kernel).check(stmt)


class _Checker:
    """Walks a statement, parents first."""

    def __init__(self, source: FunctionSource, kernel: str) -> None:
        self.source = source
        self.kernel = kernel

    def fail(self, node: ast.AST, message: str, remedy: str) -> NoReturn:
        raise KernelSyntaxError(kernel=self.kernel, message=message, where=self.source.where(node), remedy=remedy)

    def check(self, top: ast.AST) -> None:
        """Check a statement and all below it; operands on the left of a chain of operators do not nest."""
        waiting = [(top, 0, 0)]
        while waiting:
            node, depth, chained = waiting.pop()
            if depth > _DEEPEST and hasattr(node, "lineno"):
                if chained > _DEEPEST // 2:
                    self.fail(
                        node, f"this is behind more than {chained} `elif`, each of which nests in the last", _CHAIN
                    )
                part = "statement" if isinstance(node, ast.stmt) else "expression"
                self.fail(node, f"this {part} stands inside more than {_DEEPEST} others", SPLIT)
            self._check(node)
            spine = node.left if isinstance(node, ast.BinOp) else None
            further = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
            below = [
                (child, depth if child is spine else depth + 1, chained + (child is further))
                for child in ast.iter_child_nodes(node)
            ]
            waiting += reversed(below)

    def _check(self, node: ast.AST) -> None:
        name = type(node).__name__
        if name not in ACCEPTED:
            what, remedy = REFUSED.get(name, (f"`{name}`", "write it in another way."))
            self.fail(node, f"{what} is not part of the kernel language", remedy)
        rule = cast("Callable[[_Checker, ast.AST], None] | None", getattr(type(self), name.lower(), None))
        if rule is not None:
            rule(self, node)

    # --- nodes that are accepted in some forms only ---

    def loop(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            self.fail(
                node.orelse[0],
                "`else` of a loop is not part of the kernel language",
                "set a variable before `break`, and test it after the loop.",
            )

    def for_(self, node: ast.For) -> None:
        self.loop(node)
        if not isinstance(node.target, ast.Name):
            self.fail(node.target, "a loop counts with one name", "write `for i in range(…)`.")

    def binop(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.MatMult):
            what, remedy = REFUSED["MatMult"]
            self.fail(node, f"{what} is not part of the kernel language", remedy)

    def augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.MatMult):
            self.fail(node, "`@=` is not part of the kernel language", REFUSED["MatMult"][1])

    def annassign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail(node.target, "only a name takes an annotation", "leave the annotation out.")
        if node.value is None:
            self.fail(node, f"`{node.target.id}` is declared without a value", "give it its first value here.")

    def call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(
                    keyword.value, "`**` before a value is not part of the kernel language", "write the values out."
                )

    def constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, complex):
            self.fail(node, "complex numbers are not part of the kernel language", "compute with two real numbers.")
        if isinstance(value, bytes):
            self.fail(node, "bytes are not part of the kernel language", "pass them as an array of u8.")
        if value is ...:
            self.fail(node, "`...` is not part of the kernel language", "write `pass` for an empty body.")

    def subscript(self, node: ast.Subscript) -> None:
        for part in ast.walk(node.slice):
            if isinstance(part, ast.Constant) and part.value is ...:
                name = ast.unparse(node.value)
                self.fail(
                    node, "`...` in an index is not part of the kernel language", f"index one element: `{name}[i]`."
                )

    def attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store):
            self.fail(node, "an attribute cannot be assigned in a kernel", _OUT)

    def expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, (ast.Call, ast.Constant)) and type(node.value).__name__ in ACCEPTED:
            self.fail(node, "this expression does nothing", "assign its value, or leave it out.")


setattr(_Checker, "while", _Checker.loop)
setattr(_Checker, "for", _Checker.for_)
