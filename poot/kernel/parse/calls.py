"""Calls: casts, Python's own functions, `math`, and the words of the kernel language."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

from poot.dtypes import DType, bool_, f32
from poot.kernel import language, ops
from poot.kernel.ir import Expr
from poot.kernel.parse.expressions import CUT
from poot.kernel.parse.foreign import instead_of, math_functions
from poot.kernel.parse.intrinsics import ATOMICS, COLLECTIVES, NUMBERS, SPACES, Intrinsics
from poot.kernel.parse.values import NONE, Array, Chosen, Static, Tuple, Typed, Value, converted, describe, quietly

#: Functions of `math` and of the language, and the rows of the table that they are.
ROWS: dict[object, str] = {
    **{getattr(math, row.name): row.name for row in ops.table() if hasattr(math, row.name)},
    math.fabs: "abs",
    math.isnan: "is_nan",
    math.isinf: "is_inf",
    math.isfinite: "is_finite",
    **{getattr(language, name): name for name in ("popcount", "clz", "rsqrt", "sign")},
}

#: What to write in place of some of Python's own functions.
HINTS: dict[object, str] = {
    print: "run one thread as plain Python: kernel.interpret(…, thread=0); `print` works there.",
    round: "write `math.floor(x + 0.5)`, and `int(…)` around it for an index.",
    sum: "write a `for` loop, or poot.group_sum for the sum over a work-group.",
    any: "write a `for` loop, or poot.group_any for a work-group.",
    all: "write a `for` loop, or poot.group_all for a work-group.",
    enumerate: "count with `range(len(a))`, and index.",
    zip: "count with `range(len(a))`, and index each array.",
    range: "a range stands in a `for` loop alone: `for i in range(n)`.",
    language.unroll: "it stands in a `for` loop alone: `for i in poot.unroll(range(n))`.",
    isinstance: "dtypes are known: compare `a.dtype == f32`.",
    complex: "compute with two real numbers.",
    list: "write a tuple, or poot.private(dtype, n).",
}


class Calls(Intrinsics):
    """Calls of everything but helper functions, and the one entry to the evaluation of expressions."""

    def helper(self, function: types.FunctionType, node: ast.Call) -> Value:
        """The value of a call of the user's own function."""
        raise AssertionError("the parser of statements inlines helper functions")

    def value(self, node: ast.expr) -> Value:
        """Evaluate a node."""
        with self.at(node):
            match node:
                case ast.Constant():
                    return Static(node.value)
                case ast.Name():
                    return self.read(node)
                case ast.Tuple():
                    return Tuple(tuple(self.sequence([self.later(item) for item in node.elts])))
                case ast.BinOp():
                    return self.spine(node)
                case ast.UnaryOp():
                    return self.unary(node)
                case ast.BoolOp():
                    return self.short_circuit(isinstance(node.op, ast.And), node.values)
                case ast.Compare():
                    return self.compare(node)
                case ast.IfExp():
                    return self.conditional(node)
                case ast.Attribute():
                    return self.attribute(node)
                case ast.Subscript():
                    return self.subscript(node)
                case ast.Call():
                    return self.call(node)
                case _:
                    self.refuse(node, f"`{ast.unparse(node)}` has no value in a kernel", "write it in another way.")

    # --- which function ---

    def call(self, node: ast.Call) -> Value:
        """The value of a call; NONE where it has none."""
        callee = self.value(node.func)
        text = ast.unparse(node.func)
        if not isinstance(callee, Static):
            self.mismatch(node, f"`{text}` is {describe(callee)}, which cannot be called", "index it with [ ].")
        function = callee.value
        if isinstance(function, DType):
            return self.cast(function, node)
        try:
            known = _handler(function)
        except Exception:  # an object without a hash, or with one of its own that raises
            known = None
        if known is not None:
            return known(self, function, node)
        if isinstance(function, types.FunctionType) and not _is_of_poot(function):
            return self.helper(function, node)
        self.not_callable(function, text, node)
        return NONE

    def not_callable(self, function: object, text: str, node: ast.Call) -> None:
        remedy = instead_of(function, MATH)
        if remedy:
            pass
        elif quietly(function, "__module__") == "math":
            remedy = self.near(str(quietly(function, "__name__")), set(MATH)) or "compute it otherwise."
        elif quietly(function, "__poot_function__") is not None:
            remedy = "take the decorator from the inner function: helper functions are inlined as they are."
        else:
            remedy = "write a function with `def`; helper functions are inlined."
        self.refuse(node, f"`{text}` cannot be called in a kernel", remedy)

    # --- casts ---

    def cast(self, dtype: DType, node: ast.Call) -> Value:
        """`f32(x)`."""
        (arg,) = self.plain_arguments(node, 1, 1)
        return self.cast_value(self.value(arg), dtype, arg)

    def cast_value(self, value: Value, dtype: DType, arg: ast.AST) -> Value:
        """A value cast to a dtype."""
        if isinstance(value, Static) and isinstance(value.value, str) and dtype.is_float:
            value = Static(self.spelled(value.value, arg))
        if isinstance(value, Static) and value.weak:
            number = cast("bool | int | float", value.value)
            if isinstance(number, int) and not isinstance(number, bool) and not -(1 << 63) <= number < 1 << 64:
                self.mismatch(arg, f"{describe(value)} fits no integer dtype", "use a number of 64 bits.")
            return Typed(self.k.const(converted(number, dtype), dtype))
        if isinstance(value, Chosen):
            return self.of_choices(lambda a, _: self.cast_value(a, dtype, arg), value, Static(0), (arg, arg))
        return Typed(self.k.cast(self.number(value, arg), dtype))

    def spelled(self, text: str, node: ast.AST) -> float:
        """`float("inf")`."""
        try:
            return float(text)
        except ValueError:
            self.mismatch(node, f"{text!r} is no number", 'write "inf", "-inf" or "nan", or a number.')

    def python_cast(self, function: object, node: ast.Call) -> Value:
        """`int(x)`, `float(x)`, `bool(x)`; of constants they stay constants."""
        (arg,) = self.plain_arguments(node, 1, 1)
        value = self.value(arg)
        if isinstance(value, Static) and isinstance(value.value, str) and function is float:
            return Static(self.spelled(value.value, arg))
        if isinstance(value, Static) and value.weak:
            try:
                return Static(cast("Any", function)(value.value))
            except (OverflowError, ValueError) as error:
                self.mismatch(node, f"`{ast.unparse(node)}`: {error}", "correct the constant.")
        expr = self.number(value, arg)
        dtype = self.index if function is int else f32 if function is float else bool_
        return Typed(self.k.cast(expr, dtype))

    def bitcast(self, function: object, node: ast.Call) -> Value:
        given = self.arguments(language.bitcast, node)
        dtype = self.dtype(given["dtype"], "bitcast")
        expr = self.number(self.value(given["value"]), given["value"])
        if expr.dtype.bits != dtype.bits:
            self.mismatch(node, f"bitcast of {expr.dtype} to {dtype}", f"choose a dtype of {expr.dtype.bits} bits.")
        return Typed(self.k.bitcast(expr, dtype))

    # --- rows of the table ---

    def row(self, function: object, node: ast.Call) -> Value:
        """`math.exp(x)`, `abs(x)` and the like: one row of the table."""
        name = ROWS[function]
        arity = ops.lookup(name).arity
        nodes = self.plain_arguments(node, arity, arity)
        return self.apply(name, function, self.sequence([self.later(arg) for arg in nodes]), nodes, node)

    def apply(
        self, name: str, function: object, values: Sequence[Value], nodes: Sequence[ast.expr], node: ast.Call
    ) -> Value:
        constants = [value.value for value in values if isinstance(value, Static) and value.weak]
        if len(constants) == len(values) and getattr(function, "__module__", "") in ("math", "builtins"):
            try:
                return Static(cast("Any", function)(*constants))
            except (ArithmeticError, ValueError) as error:
                self.mismatch(node, f"`{ast.unparse(node)}`: {error}", "correct the constant.")
        if len(values) == 1:
            args: list[Expr] = [self.number(values[0], nodes[0])]
        else:
            args = list(self.pair(values[0], values[1], node, (nodes[0], nodes[1])))
        dtype = args[0].dtype
        if dtype not in ops.lookup(name).dtypes:
            text = ast.unparse(nodes[0])
            wanted = "f32" if dtype.is_integer else "i32"
            what = ast.unparse(node.func)
            self.mismatch(node, f"`{what}` on {dtype} in `{ast.unparse(node)}`", f"write `{what}({wanted}({text}))`.")
        return Typed(self.k.op(name, *args))

    def absolute(self, function: object, node: ast.Call) -> Value:
        nodes = self.plain_arguments(node, 1, 1)
        return self.apply("abs", abs, [self.value(nodes[0])], nodes, node)

    def power(self, function: object, node: ast.Call) -> Value:
        nodes = self.plain_arguments(node, 2, 2)
        left, right = self.sequence([self.later(arg) for arg in nodes])
        return self.binary(ast.Pow(), left, right, node, (nodes[0], nodes[1]))

    def quotient(self, function: object, node: ast.Call) -> Value:
        """`divmod(a, b)`."""
        nodes = self.plain_arguments(node, 2, 2)
        pair = (nodes[0], nodes[1])
        values = self.sequence([self.later(arg) for arg in nodes])
        left, right = [Typed(self.bind(v.expr)) if isinstance(v, Typed) else v for v in values]
        parts = [self.binary(op, left, right, node, pair) for op in (ast.FloorDiv(), ast.Mod())]
        return Tuple(tuple(parts))

    def extremum(self, function: object, node: ast.Call) -> Value:
        """`min(a, b, …)` and `max`."""
        nodes = self.plain_arguments(node, 2, None)
        name = "min" if function is min else "max"
        values = self.sequence([self.later(arg) for arg in nodes])
        result, first = values[0], nodes[0]
        for number, (value, other) in enumerate(zip(values[1:], nodes[1:], strict=True), 1):
            if isinstance(result, Static) and isinstance(value, Static) and result.weak and value.weak:
                result = Static(cast("Any", function)(result.value, value.value))
                continue
            x, y = self.pair(result, value, node, (first, other))
            expr = self.k.op(name, x, y)
            result = Typed(expr if number % CUT else self.bind(expr))
        return result

    def length(self, function: object, node: ast.Call) -> Value:
        (arg,) = self.plain_arguments(node, 1, 1)
        value = self.value(arg)
        match value:
            case Array():
                return self.extent(value, 0)
            case Tuple():
                return Static(len(value.items))
            case Static(value=tuple() | str() | range()):
                return Static(len(value.value))
            case _:
                self.mismatch(node, f"`{ast.unparse(arg)}` is {describe(value)}, which has no length", "use an array.")

    def hint(self, function: object, node: ast.Call) -> Value:
        self.refuse(node, f"`{ast.unparse(node.func)}` cannot be called in a kernel", HINTS[function])


def _is_of_poot(function: types.FunctionType) -> bool:
    """Whether a function is poot's own, for arrays, rather than a helper of a kernel that ships."""
    module = function.__module__ or ""
    return module.startswith("poot.") and not module.startswith("poot.kernel.library.")


_Handler = Callable[[Calls, object, ast.Call], Value]
PYTHON: dict[object, _Handler] = {
    **dict.fromkeys((int, float, bool), Calls.python_cast),
    **dict.fromkeys((min, max), Calls.extremum),
    abs: Calls.absolute,
    pow: Calls.power,
    math.pow: Calls.power,
    divmod: Calls.quotient,
    len: Calls.length,
    language.bitcast: Calls.bitcast,
    language.barrier: Calls.barrier,
    **dict.fromkeys(HINTS, Calls.hint),
    **dict.fromkeys(NUMBERS, Calls.launch_number),
    **dict.fromkeys(SPACES, Calls.allocate),
    **dict.fromkeys(ATOMICS, Calls.atomic),
    **dict.fromkeys(COLLECTIVES, Calls.collective),
}
#: The functions of `math` that kernels have, by name.
MATH = math_functions({**ROWS, math.pow: "pow"})


def _handler(function: object) -> _Handler | None:
    return PYTHON.get(function) or (Calls.row if function in ROWS else None)
