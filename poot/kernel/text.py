"""Kernel IR as text, in Python's syntax; two kernels with equal text mean the same.

The text is complete and exact: every literal carries its dtype (plain integers have the kernel's index dtype), floats
are written so that they read back to the same bits, and checked accesses are written `checked(x)[i]`.  Source
locations are left out.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable

from poot.dtypes import DType
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    BufferParam,
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
    Param,
    Return,
    Stmt,
    Store,
    Var,
    While,
)

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floor_div": "//",
    "rem": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_PREFIX = {"neg": "-", "not": "~"}
_AXES = "xyz"


def dump(kernel: Kernel) -> str:
    """The kernel as text, ending in a line feed."""
    return _Writer(kernel.index_dtype).kernel(kernel, kernel.name)


def kernel_hash(kernel: Kernel, *, named: bool = True) -> str:
    """64 hexadecimal digits that identify what a kernel means; `named=False` leaves its own name out."""
    text = _Writer(kernel.index_dtype).kernel(kernel, kernel.name if named else "_")
    return hashlib.sha256(text.encode()).hexdigest()


def dump_expr(expr: Expr, index_dtype: DType) -> str:
    """One expression as `dump` writes it."""
    return _Writer(index_dtype).expr(expr)


def literal(value: bool | int | float, dtype: DType) -> str:
    """A constant of a dtype other than the index dtype: `f32(0.5)`; NaN with its bits."""
    if dtype.kind == "bool":
        return str(bool(value))
    if dtype.is_float and math.isnan(value):
        return f"{dtype.name}(nan:{struct.pack('>d', value).hex()})"
    return f"{dtype.name}({float(value) if dtype.is_float else int(value)!r})"


def _axis(number: int) -> str:
    return f'"{_AXES[number]}"' if 0 <= number < len(_AXES) else str(number)


def _sizes(values: Iterable[int | None]) -> str:
    return ", ".join("?" if value is None else str(value) for value in values)


class _Writer:
    """Writes expressions and statements of one kernel; `index_dtype` is what a bare integer has."""

    def __init__(self, index_dtype: DType) -> None:
        self.index_dtype = index_dtype
        self.lines: list[str] = []

    def kernel(self, kernel: Kernel, name: str) -> str:
        threads = "" if kernel.threads is None else f", threads=({_sizes(kernel.threads)})"
        index = kernel.index_dtype.name
        self.lines.append(f"@kernel(workgroup=({_sizes(kernel.workgroup)}){threads}, index={index})")
        self.lines.append(f"def {name}({', '.join(map(self.param, kernel.params))}):")
        self.block(kernel.body, "    ")
        return "\n".join(self.lines) + "\n"

    def param(self, param: Param) -> str:
        if not isinstance(param, BufferParam):
            return f"{param.name}: {param.dtype.name}"
        kind = {"read": "In", "write": "Out", "readwrite": "InOut"}[param.access]
        align = f", align={param.align}" if param.align != 1 else ""
        strides = f", strides=({_sizes(param.strides)})" if param.strides else ""
        return f"{param.name}: {kind}[{param.dtype.name}, ({_sizes(param.shape)}){strides}{align}]"

    # --- expressions ---

    def expr(self, expr: Expr) -> str:
        match expr:
            case Var():
                return expr.name
            case Const():
                bare = expr.dtype is self.index_dtype
                return str(int(expr.value)) if bare else literal(expr.value, expr.dtype)
            case Op():
                return self.op(expr)
            case Load():
                return self.element(expr.buffer, expr.indices, expr.checked)
            case Index():
                if expr.buffer:
                    return f"{expr.buffer}.{'shape' if expr.kind == 'extent' else 'strides'}[{expr.axis}]"
                suffix = "_index" if expr.kind in ("thread", "local", "group") else ""
                return f"{expr.kind}{suffix}({_axis(expr.axis)})"
            case Cast():
                return f"cast({self.expr(expr.arg)}, {expr.dtype.name})"
            case Collective():
                return f"group_{expr.op}({self.expr(expr.arg)})"

    def op(self, op: Op) -> str:
        if op.name in _INFIX and len(op.args) == 2:
            return f"{self.operand(op.args[0])} {_INFIX[op.name]} {self.operand(op.args[1])}"
        if op.name in _PREFIX and len(op.args) == 1:
            (arg,) = op.args
            return _PREFIX[op.name] + (f"({self.expr(arg)})" if isinstance(arg, Const) else self.operand(arg))
        dtype = f", {op.dtype.name}" if op.name == "bitcast" else ""
        return f"{op.name}({', '.join(map(self.expr, op.args))}{dtype})"

    def operand(self, expr: Expr) -> str:
        compound = isinstance(expr, Op) and (expr.name in _INFIX or expr.name in _PREFIX)
        return f"({self.expr(expr)})" if compound else self.expr(expr)

    def element(self, buffer: str, indices: tuple[Expr, ...], checked: bool) -> str:
        name = f"checked({buffer})" if checked else buffer
        return f"{name}[{', '.join(map(self.expr, indices)) or '()'}]"

    # --- statements ---

    def block(self, body: tuple[Stmt, ...], indent: str) -> None:
        for stmt in body:
            self.stmt(stmt, indent)
        if not body:
            self.lines.append(indent + "pass")

    def stmt(self, stmt: Stmt, indent: str) -> None:
        match stmt:
            case If():
                self.conditional(stmt, indent, "if")
            case For():
                bounds = f"range({self.expr(stmt.start)}, {self.expr(stmt.stop)}, {stmt.step})"
                bounds = f"unroll({bounds})" if stmt.unroll else bounds
                self.lines.append(f"{indent}for {stmt.var} in {bounds}:")
                self.block(stmt.body, indent + "    ")
            case While():
                self.lines.append(f"{indent}while {self.expr(stmt.condition)}:")
                self.block(stmt.body, indent + "    ")
            case _:
                self.lines.append(indent + self.simple(stmt))

    def conditional(self, stmt: If, indent: str, keyword: str) -> None:
        self.lines.append(f"{indent}{keyword} {self.expr(stmt.condition)}:")
        self.block(stmt.then, indent + "    ")
        match stmt.orelse:
            case ():
                pass
            case (If() as nested,):
                self.conditional(nested, indent, "elif")
            case _:
                self.lines.append(f"{indent}else:")
                self.block(stmt.orelse, indent + "    ")

    def simple(self, stmt: Stmt) -> str:
        match stmt:
            case Let():
                return f"{stmt.name}: {stmt.value.dtype.name} = {self.expr(stmt.value)}"
            case Assign():
                return f"{stmt.name} = {self.expr(stmt.value)}"
            case Store():
                return f"{self.element(stmt.buffer, stmt.indices, stmt.checked)} = {self.expr(stmt.value)}"
            case Atomic():
                target = self.element(stmt.buffer, stmt.indices, stmt.checked)
                compare = "" if stmt.compare is None else f", {self.expr(stmt.compare)}"
                call = f"atomic_{stmt.op}({target}{compare}, {self.expr(stmt.value)})"
                return call if stmt.result is None else f"{stmt.result}: {stmt.value.dtype.name} = {call}"
            case Assert():
                index = "" if stmt.index is None else f"  # {self.expr(stmt.index)}, axis {stmt.axis} of {stmt.extent}"
                return f"assert {self.expr(stmt.condition)}, {stmt.message!r}{index}"
            case Alloc():
                return f"{stmt.name} = {stmt.space}({stmt.dtype.name}, ({_sizes(stmt.shape)}))"
            case Barrier():
                return "barrier()"
            case Break():
                return "break"
            case Continue():
                return "continue"
            case Return():
                return "return"
            case If() | For() | While():
                raise AssertionError("a block is no simple statement")
