"""Kernel IR run one thread at a time in plain Python, as the meaning on the grammar page of `poot.kernel.ir` says.

Nothing is shared with the interpreter: integers are Python's, floats NumPy scalars.  A thread is a generator that stops
at barriers and collectives, so that the threads of a group meet there.  Arrays have the shapes of their parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from poot.dtypes import DType, bool_
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
    Return,
    ScalarParam,
    Stmt,
    Store,
    Var,
    While,
)

Triple = tuple[int, int, int]
Flow = Generator[tuple[str, Any], Any, "str | None"]


def run_reference(kernel: Kernel, values: Mapping[str, Any], groups: Triple, threads: Triple) -> set[Any]:
    """Run a kernel whose grid has `threads` threads; returns the nodes whose checks failed."""
    faults: set[Any] = set()
    with np.errstate(all="ignore"):
        for gz, gy, gx in itertools.product(*(range(n) for n in reversed(groups))):
            shared: dict[str, Any] = {}
            running = []
            for lz, ly, lx in itertools.product(*(range(n) for n in reversed(kernel.workgroup))):
                thread = Thread(kernel, values, shared, (gx, gy, gz), (lx, ly, lz), groups, threads, faults)
                if all(at < bound for at, bound in zip(thread.at, threads, strict=True)):
                    running.append(thread.block(kernel.body))
            meet(running)
    return faults


def meet(running: Sequence[Flow]) -> None:
    """Advance the threads of a group from one meeting to the next."""
    answers: list[Any] = [None] * len(running)
    while True:
        requests: list[Any] = []
        for flow, answer in zip(running, answers, strict=True):
            try:
                requests.append(flow.send(answer))
            except StopIteration:
                requests.append(None)
        if all(request is None for request in requests):
            return
        answers = collective(requests[0][0], [request[1] for request in requests])


def collective(op: str, values: list[Any]) -> list[Any]:
    if op == "barrier":
        return values
    if op == "scan":
        return list(itertools.accumulate(values, lambda a, b: wrap(a + b, values[0])))
    combine = {
        "sum": lambda a, b: wrap(a + b, a),
        "max": max,
        "min": min,
        "any": lambda a, b: a or b,
        "all": lambda a, b: a and b,
    }[op]
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return [total] * len(values)


def wrap(value: Any, like: Any) -> Any:
    return value if isinstance(like, np.floating) else wrapped(value, 32, True)


def wrapped(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def fit(value: Any, dtype: DType) -> Any:
    """A value as its dtype holds it: Python bool or int, or a NumPy float."""
    if dtype is bool_:
        return bool(value)
    if dtype.is_integer:
        return wrapped(int(value), dtype.bits, dtype.kind == "int")
    return dtype.dtype.type(value)


class Thread:
    def __init__(
        self,
        kernel: Kernel,
        values: Mapping[str, Any],
        shared: dict[str, Any],
        group: Triple,
        local: Triple,
        groups: Triple,
        threads: Triple,
        faults: set[Any],
    ) -> None:
        self.kernel, self.shared, self.faults = kernel, shared, faults
        self.at = tuple(g * w + lane for g, w, lane in zip(group, kernel.workgroup, local, strict=True))
        self.numbers = {
            "thread": self.at,
            "local": local,
            "group": group,
            "group_size": kernel.workgroup,
            "num_groups": groups,
            "threads": threads,
        }
        self.arrays = {p.name: values[p.name] for p in kernel.params if isinstance(p, BufferParam)}
        self.env = {p.name: fit(values[p.name], p.dtype) for p in kernel.params if isinstance(p, ScalarParam)}

    # --- statements: the outcome is None, or "break", "continue", "return" ---

    def block(self, body: Sequence[Stmt]) -> Flow:
        for stmt in body:
            outcome = yield from self.stmt(stmt)
            if outcome:
                return outcome
        return None

    def stmt(self, stmt: Stmt) -> Flow:
        match stmt:
            case Let() | Assign():
                if isinstance(stmt.value, Collective):
                    self.env[stmt.name] = yield stmt.value.op, self.value(stmt.value.arg)
                else:
                    self.env[stmt.name] = self.value(stmt.value)
            case Store():
                place = self.place(stmt)
                value = self.value(stmt.value)
                if place is not None:
                    self.arrays[stmt.buffer][place] = value
            case Atomic():
                self.atomic(stmt)
            case If():
                return (yield from self.block(stmt.then if self.value(stmt.condition) else stmt.orelse))
            case For():
                for number in range(self.value(stmt.start), self.value(stmt.stop), stmt.step):
                    self.env[stmt.var] = number
                    outcome = yield from self.block(stmt.body)
                    if outcome in ("break", "return"):
                        return outcome if outcome == "return" else None
            case While():
                while self.value(stmt.condition):
                    outcome = yield from self.block(stmt.body)
                    if outcome in ("break", "return"):
                        return outcome if outcome == "return" else None
            case Barrier():
                yield "barrier", None
            case Assert():
                if not self.value(stmt.condition):
                    self.faults.add(stmt)
            case Alloc():
                home = self.shared if stmt.space == "shared" else self.arrays
                if stmt.space == "private" or stmt.name not in home:
                    home[stmt.name] = np.zeros(stmt.shape, stmt.dtype.dtype)
                self.arrays[stmt.name] = home[stmt.name]
            case Break() | Continue() | Return():
                return type(stmt).__name__.lower()
        return None

    def place(self, node: Load | Store | Atomic) -> tuple[int, ...] | None:
        """The element of an access, or None where it is outside."""
        indices = tuple(self.value(index) for index in node.indices)
        if all(0 <= i < n for i, n in zip(indices, self.arrays[node.buffer].shape, strict=True)):
            return indices
        self.faults.add(node)
        return None

    def atomic(self, stmt: Atomic) -> None:
        place, value = self.place(stmt), self.value(stmt.value)
        compare = None if stmt.compare is None else self.value(stmt.compare)
        dtype = stmt.value.dtype
        old = fit(0, dtype)
        if place is not None:
            old = fit(self.arrays[stmt.buffer][place], dtype)
            new = value
            if stmt.op == "compare_exchange":
                new = value if old == compare else old
            elif stmt.op != "exchange":
                new = binary(stmt.op, old, value, dtype)
            self.arrays[stmt.buffer][place] = new
        if stmt.result is not None:
            self.env[stmt.result] = old

    # --- expressions ---

    def value(self, expr: Expr) -> Any:
        match expr:
            case Const():
                return fit(expr.value, expr.dtype)
            case Var():
                return self.env[expr.name]
            case Load():
                place = self.place(expr)
                return fit(0 if place is None else self.arrays[expr.buffer][place], expr.dtype)
            case Cast():
                return convert(self.value(expr.arg), expr.arg.dtype, expr.dtype)
            case Index(kind="extent"):
                return self.arrays[expr.buffer].shape[expr.axis]
            case Index(kind="stride"):
                return self.arrays[expr.buffer].strides[expr.axis] // self.arrays[expr.buffer].itemsize
            case Index():
                return self.numbers[expr.kind][expr.axis]
            case Op():
                return self.op(expr)
            case Collective():
                raise AssertionError

    def op(self, op: Op) -> Any:
        args = [self.value(arg) for arg in op.args]
        dtype = op.args[-1].dtype
        if op.name == "select":
            return args[1] if args[0] else args[2]
        if op.name == "bitcast":
            return fit(np.asarray(args[0], dtype.dtype).reshape(1).view(op.dtype.dtype)[0], op.dtype)
        if len(args) == 1:
            return unary(op.name, args[0], dtype)
        return binary(op.name, args[0], args[1], dtype)


def convert(value: Any, source: DType, target: DType) -> Any:
    if target is bool_:
        return bool(value != 0)
    if source.is_float and target.is_integer:
        wide = float(value)
        if math.isnan(wide):
            return 0
        low, high = int(target.min), int(target.max)
        return low if wide <= low else high if wide >= high else math.trunc(wide)
    return fit(value, target)


def unary(name: str, a: Any, dtype: DType) -> Any:
    match name:
        case "neg":
            return fit(-a, dtype)
        case "abs":
            return fit(abs(a), dtype)
        case "not":
            return not a if dtype is bool_ else fit(~a, dtype)
        case "popcount":
            return (a & ((1 << dtype.bits) - 1)).bit_count()
        case "clz":
            return dtype.bits - (a & ((1 << dtype.bits) - 1)).bit_length()
        case "sqrt":
            return np.sqrt(a)
        case _:
            return {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}[name](a)


def binary(name: str, a: Any, b: Any, dtype: DType) -> Any:
    compare = {
        "eq": lambda: a == b,
        "ne": lambda: a != b,
        "lt": lambda: a < b,
        "le": lambda: a <= b,
        "gt": lambda: a > b,
        "ge": lambda: a >= b,
    }
    if name in compare:
        return bool(compare[name]())
    if name in ("min", "max"):
        return lesser(a, b, name == "max")
    if dtype.is_float:
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name](a, b)
    if dtype is bool_:
        return {"and": a and b, "or": a or b, "xor": a != b}[name]
    count = b & ((1 << dtype.bits) - 1)
    return fit(
        {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "floor_div": lambda: a // b if b else 0,
            "rem": lambda: a % b if b else 0,
            "and": lambda: a & b,
            "or": lambda: a | b,
            "xor": lambda: a ^ b,
            "shift_left": lambda: a << count if count < dtype.bits else 0,
            "shift_right": lambda: a >> min(count, dtype.bits),
        }[name](),
        dtype,
    )


def lesser(a: Any, b: Any, greater: bool) -> Any:
    if a != a or b != b:
        return a if a != a else b
    if a == b:  # zeros: -0.0 comes before +0.0
        negative = math.copysign(1, a) < 0, math.copysign(1, b) < 0
        return (b if negative[0] else a) if greater else (a if negative[0] else b)
    return max(a, b) if greater else min(a, b)
