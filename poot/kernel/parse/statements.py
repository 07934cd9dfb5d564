"""Statements: branches, loops, returns, and the ways on which a local has a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import cast

from poot.dtypes import BY_NAME, INTEGERS
from poot.kernel import language
from poot.kernel.ir import TRUE, Break, Expr, For, If, Var, While
from poot.kernel.parse.assignments import Assignments
from poot.kernel.parse.bindings import returns
from poot.kernel.parse.conditions import Way
from poot.kernel.parse.scope import Local
from poot.kernel.parse.syntax import SPLIT
from poot.kernel.parse.values import NONE, Array, Static, Tuple, Typed, Value, plain

#: Turns that `poot.unroll` may write out.
_MOST_TURNS = 4096
#: Parts of `if a and b …` that become one `if` inside the other.
_NESTED = 8
#: The dtype in which the distance of two values always fits.
_UNSIGNED = {dtype: BY_NAME[f"u{dtype.bits}"] for dtype in INTEGERS}


def _meet(a: set[str] | None, b: set[str] | None) -> set[str] | None:
    """What is definite where two ways meet; None is a way that leads nowhere."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _is(value: Value, function: object) -> bool:
    return isinstance(value, Static) and value.value is function


class Statements(Assignments):
    """Parses the bodies of functions; `written` counts how often the loops that are written out repeat this point."""

    written = 1

    def run(self, body: Sequence[ast.stmt]) -> Value | None:
        """Parse statements into the open block; the value of the `return` that they end in, or None."""
        for stmt in body:
            if self.frame.definite is None:
                break
            with self.at(stmt):
                try:
                    result = self.stmt(stmt)
                except RecursionError:
                    self.refuse(stmt, "this statement nests too deep", SPLIT)
            if result is not None:
                self.frame.definite = None
                return result
        return None

    def stmt(self, stmt: ast.stmt) -> Value | None:
        """Parse one statement; a value where a helper returns it."""
        match stmt:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self.assignment(stmt)
            case ast.If():
                return self.branch(stmt)
            case ast.For():
                self.counted(stmt)
            case ast.While():
                self.repeated(stmt)
            case ast.Return():
                return self.leave(stmt)
            case ast.Break() | ast.Continue():
                self.jump(stmt)
            case ast.Assert():
                self.assertion(stmt)
            case ast.Expr():
                if isinstance(stmt.value, ast.Call):
                    self.statement = stmt.value
                    self.value(stmt.value)
                    self.statement = None
            case _:  # pass
                pass
        return None

    # --- branches ---

    def branch(self, stmt: ast.If) -> Value | None:
        frame = self.frame
        chain = stmt.test if isinstance(stmt.test, ast.BoolOp) and isinstance(stmt.test.op, ast.And) else None
        short = chain is not None and len(chain.values) <= _NESTED
        if chain is not None and short and not stmt.orelse and not (frame.helper and returns(stmt)):
            self.nested(chain.values, stmt.body)
            return None
        condition = self.test(stmt.test, "`if`")
        if isinstance(condition, bool):
            chosen = stmt.body if condition else stmt.orelse
            with self.written_here(chosen):
                return self.run(chosen)
        before = set(frame.definite or ())
        ways: list[Way] = []
        ends: list[set[str] | None] = []
        values: list[Value | None] = []
        for body in (stmt.body, stmt.orelse):
            frame.definite = set(before)
            with self.block(body) as made:
                values.append(self.run(body))
            last = returns(body[-1]) if body else None
            ways.append(Way(made, values[-1] or NONE, (last and last.value) or stmt))
            ends.append(frame.definite)
        frame.definite = _meet(ends[0], ends[1])
        if values == [None, None]:
            self.k.emit(If(condition, tuple(ways[0].made), tuple(ways[1].made), self.k.where))
            return None
        if (ways[0].value == NONE) != (ways[1].value == NONE):
            self.refuse(stmt, "only one way through this `if` returns a value", "return one on every way.")
        return self.either(condition, ways[0], ways[1], stmt)

    def nested(self, tests: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        """`if a and b:` as one `if` inside the other, so that `b` is evaluated where `a` holds."""
        frame = self.frame
        condition = self.test(tests[0], "`if`")
        before = set(frame.definite or ())
        if condition is False:
            return
        if condition is True:
            if len(tests) > 1:
                self.nested(tests[1:], body)
                return
            with self.written_here(body):
                self.run(body)
            return
        if len(tests) > 1:
            with self.k.block() as made:
                self.nested(tests[1:], body)
        else:
            with self.block(body) as made:
                self.run(body)
        frame.definite = _meet(before, frame.definite)
        self.k.emit(If(condition, tuple(made), (), self.k.where))

    # --- loops ---

    def counted(self, stmt: ast.For) -> None:
        """`for i in range(…)`, or `for i in poot.unroll(range(…))`."""
        call, unrolled = self.range_call(stmt)
        nodes = self.plain_arguments(call, 1, 3)
        values = self.sequence([self.later(node) for node in nodes])
        if len(values) == 3 and isinstance(values[2], Typed) and not unrolled:
            self.strided(stmt, values, nodes, call)
            return
        step = self.step(values[2], nodes[2]) if len(values) == 3 else 1
        if len(values) == 1:
            values, nodes = [Static(0), *values], [call, *nodes]
        values, nodes = values[:2], nodes[:2]
        if unrolled:
            self.turns(stmt, self.constant_range(values, nodes, step))
            return
        start, stop = self.limits(values, nodes, call)
        if not start.dtype.min and -start.dtype.max <= step < 0:
            self.descending(stmt, start, stop, -step)
            return
        if not start.dtype.min <= step <= start.dtype.max:
            signed = BY_NAME[f"i{max(32, start.dtype.bits)}"]
            casts = ", ".join(f"{signed}({ast.unparse(node)})" for node in nodes)
            what = f"the step {step} of a range does not fit {start.dtype}, in which it counts"
            self.mismatch(call.args[2], what, f"count in another dtype: `range({casts}, {step})`.")
        self.loop(stmt, start, stop, step, lambda var: var)

    def loop(self, stmt: ast.For, start: Expr, stop: Expr, step: int, element: Callable[[Var], Expr]) -> None:
        """A loop whose name has, in each turn, the value that `element` makes of the counter."""
        assert isinstance(stmt.target, ast.Name)
        name, frame = stmt.target.id, self.frame
        before, hidden = set(frame.definite or ()), frame.env.get(name)
        var = Var(self.k.fresh(plain(name)), start.dtype, self.where(stmt.target))
        frame.loops.append([])
        with self.block(stmt.body) as made:
            self.count(stmt.target, Typed(element(var)))
            self.run(stmt.body)
        frame.loops.pop()
        frame.definite = before
        if frame.bindings.counter(name):
            frame.env.pop(name)
            if hidden is not None:
                frame.env[name] = hidden
        self.k.emit(For(var.name, start, stop, step, tuple(made), False, self.k.where))

    def strided(self, stmt: ast.For, values: Sequence[Value], nodes: Sequence[ast.expr], call: ast.AST) -> None:
        """A range whose step is known at run time alone: a loop over its turns, counted before the first.

        Turns are counted in the unsigned dtype, which holds every distance of two bounds, so that no counter passes
        the last value.  A step that is not positive is a fault, and the loop has no turns.
        """
        assert isinstance(stmt.target, ast.Name)
        k, name = self.k, plain(stmt.target.id)
        ends = [self.bind(expr) for expr in self.limits(values, nodes, call)]
        start, stop, step = ends
        dtype = start.dtype
        wide = _UNSIGNED[dtype]
        one, none = k.const(1, wide), k.const(0, wide)
        positive = k.op("gt", step, k.const(0, dtype))
        k.assertion(positive, f"the step `{ast.unparse(nodes[2])}` of a range is positive")
        first, past, by = (k.bitcast(end, wide) for end in ends)
        last = k.op("floor_div", k.op("sub", k.op("sub", past, first), one), by)
        some = k.op("and", positive, k.op("lt", start, stop))
        turns = k.op("select", some, k.op("add", last, one), none)

        def element(turn: Var) -> Expr:
            return k.let(k.op("add", start, k.op("mul", k.bitcast(turn, dtype), step)), name)

        self.loop(stmt, none, turns, 1, element)

    def descending(self, stmt: ast.For, start: Expr, stop: Expr, size: int) -> None:
        """A range of an unsigned dtype that counts down by `size`: a loop over its turns, as `strided` has it."""
        assert isinstance(stmt.target, ast.Name)
        k, name, dtype = self.k, plain(stmt.target.id), start.dtype
        first, past, by = self.bind(start), self.bind(stop), k.const(size, dtype)
        one, none = k.const(1, dtype), k.const(0, dtype)
        last = k.op("floor_div", k.op("sub", k.op("sub", first, past), one), by)
        turns = k.op("select", k.op("gt", first, past), k.op("add", last, one), none)
        self.loop(stmt, none, turns, 1, lambda turn: k.let(k.op("sub", first, k.op("mul", turn, by)), name))

    def count(self, target: ast.Name, value: Value) -> None:
        """Give the name of a loop its value for one turn."""
        frame = self.frame
        if not frame.bindings.counter(target.id):
            self.write(target, value, target)
            return
        frame.env[target.id] = Local(value, self.where(target))
        assert frame.definite is not None
        frame.definite.add(target.id)

    def range_call(self, stmt: ast.For) -> tuple[ast.Call, bool]:
        """The call of `range`, and whether the loop is to be written out."""
        node, unrolled = stmt.iter, False
        remedy = "write `for i in range(n)`, and index with i."
        if isinstance(node, ast.Call) and _is(self.value(node.func), language.unroll):
            (node,) = self.plain_arguments(node, 1, 1)
            unrolled = True
        if not isinstance(node, ast.Call) or not _is(self.value(node.func), range):
            remedy = self.counting(node, stmt.target) or remedy
            self.refuse(node, f"a loop over `{ast.unparse(node)}` is not part of the kernel language", remedy)
        return node, unrolled

    def counting(self, node: ast.expr, target: ast.expr) -> str:
        """How to write a loop over a tuple or an array that counts, or ""."""
        text, name = ast.unparse(node), ast.unparse(target)
        known = {*self.frame.env, *self.frame.bindings.loops, *self.frame.bindings.assigned}
        i = next((i for i in "ijkmn" if i not in known), "number")
        if isinstance(node, (ast.Tuple, ast.Name, ast.Attribute)):
            match self.value(node):
                case Array():
                    return f"write `for {i} in range(len({text}))`, and index: `{name} = {text}[{i}]`."
                case Tuple(items=items):
                    counted = f"for {i} in poot.unroll(range({len(items)}))"
                    return f"write `{counted}`, and index: `{name} = {text}[{i}]`."
                case _:
                    pass
        return ""

    def step(self, value: Value, node: ast.AST) -> int:
        text = ast.unparse(node)
        if not isinstance(value, Static):
            remedy = "use a constant or a Const parameter, or leave poot.unroll out."
            self.mismatch(node, f"the step `{text}` of a range is not known while compiling", remedy)
        step = value.value
        if type(step) is not int or step == 0:
            self.mismatch(node, f"the step of a range is {step!r}", "use an integer other than 0.")
        return step

    def limits(self, values: Sequence[Value], nodes: Sequence[ast.AST], call: ast.AST) -> list[Expr]:
        """The bounds of a range, and its step where that is no constant, in one integer dtype."""
        for value, node in zip(values, nodes, strict=True):
            if isinstance(value, Static) and isinstance(value.value, float):
                self.mismatch(
                    node, f"a range counts in integers, and is given {value.value}", f"write `{int(value.value)}`."
                )
        if all(isinstance(value, Static) for value in values):
            found = [self.number(v, n, self.index) for v, n in zip(values, nodes, strict=True)]
        else:
            found = self.alike(values, nodes, call)
        if not found[0].dtype.is_integer:
            text = ast.unparse(nodes[-1])
            self.mismatch(nodes[-1], f"a range counts in {found[0].dtype}", f"write `int({text})`.")
        return found

    def alike(self, values: Sequence[Value], nodes: Sequence[ast.AST], call: ast.AST) -> list[Expr]:
        """The parts of a range in one dtype, that of those which have one."""
        chosen = next(number for number, value in enumerate(values) if isinstance(value, Typed))
        for number, value in enumerate(values):
            left, right = sorted((chosen, number))
            if left != right and isinstance(value, Typed):
                pair = self.pair(values[left], values[right], call, (nodes[left], nodes[right]))
                values = [*values]
                values[left], values[right] = map(Typed, pair)
        model = values[chosen]
        return [
            self.pair(model, value, call, (nodes[chosen], node))[1] for value, node in zip(values, nodes, strict=True)
        ]

    def constant_range(self, values: Sequence[Value], nodes: Sequence[ast.AST], step: int) -> range:
        for value, node in zip(values, nodes, strict=True):
            if not isinstance(value, Static) or type(value.value) is not int:
                self.mismatch(
                    node,
                    f"`{ast.unparse(node)}` bounds a loop that is to be unrolled, and is not known while compiling",
                    "use constants or Const parameters, or leave poot.unroll out.",
                )
        start, stop = (cast(Static, value).value for value in values)
        turns = range(start, stop, step)
        count = self.written * len(turns)
        if count > _MOST_TURNS:
            inside = f", {self.written} times {len(turns)}" if self.written > 1 else ""
            remedy = f"unroll at most {_MOST_TURNS}{', loops inside one another together' if inside else ''}."
            self.mismatch(nodes[-1], f"unrolling writes out {count} turns{inside}", remedy)
        return turns

    def turns(self, stmt: ast.For, values: range) -> None:
        """Write a loop out; its name is a constant in each turn."""
        assert isinstance(stmt.target, ast.Name)
        self.frame.loops.append(None)
        before, self.written = self.written, self.written * max(1, len(values))
        for value in values:
            with self.written_here(stmt.body):
                self.count(stmt.target, Static(value))
                self.run(stmt.body)
            if self.frame.definite is None:
                break
        self.written = before
        self.frame.loops.pop()

    def repeated(self, stmt: ast.While) -> None:
        frame = self.frame
        with self.k.block() as test:
            condition = self.test(stmt.test, "`while`")
        if condition is False:
            self.k.here.extend(test)
            return
        before = set(frame.definite or ())
        breaks: list[set[str]] = []
        frame.loops.append(breaks)
        with self.block(stmt.body) as made:
            self.run(stmt.body)
        frame.loops.pop()
        frame.definite = before
        if condition is True:
            frame.definite = None
            for end in breaks:
                frame.definite = _meet(frame.definite, end)
        if test and not isinstance(condition, bool):
            test.append(If(self.k.op("not", condition), (Break(self.k.where),), (), self.k.where))
            condition = True
        self.k.emit(While(TRUE if condition is True else condition, (*test, *made), self.k.where))

    # --- leaving ---

    def jump(self, stmt: ast.Break | ast.Continue) -> None:
        frame = self.frame
        word = "break" if isinstance(stmt, ast.Break) else "continue"
        if frame.loops[-1] is None:
            self.refuse(stmt, f"`{word}` in a loop that is unrolled", "use `if`, or leave poot.unroll out.")
        if isinstance(stmt, ast.Break):
            frame.loops[-1].append(set(frame.definite or ()))
            self.k.break_()
        else:
            self.k.continue_()
        frame.definite = None

    def leave(self, stmt: ast.Return) -> Value | None:
        if self.frame.helper:
            return NONE if stmt.value is None else self.value(stmt.value)
        if stmt.value is not None and not (isinstance(stmt.value, ast.Constant) and stmt.value.value is None):
            self.refuse(stmt, "a kernel returns nothing", "write results to an Out buffer.")
        self.k.return_()
        self.frame.definite = None
        return None

    def assertion(self, stmt: ast.Assert) -> None:
        text = ast.unparse(stmt.test)
        if stmt.msg is not None:
            message = self.value(stmt.msg)
            if not isinstance(message, Static) or not isinstance(message.value, str):
                self.refuse(stmt.msg, "the message of an assert is no plain string", 'write `assert ok, "why"`.')
            text = message.value
        condition = self.test(stmt.test, "`assert`")
        if condition is False:
            self.mismatch(stmt, f"assertion failed while compiling: {text}", "correct the constants that it names.")
        if condition is not True:
            self.k.assertion(condition, text)
