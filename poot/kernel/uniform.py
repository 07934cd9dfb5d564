"""Uniformity: which values are the same for every thread of a work-group, and which step evenly from lane to lane.

The analysis is a fixpoint over the locals of a kernel.  A value is *uniform* if all threads that evaluate it together
get the same one, and *affine* if thread number `l` along the lane axis gets `base + stride * l` with a uniform base
(modulo the width of its dtype).  Uniform values are scalars in lane renderers, affine ones of stride 1 make contiguous
accesses; the checker demands uniform flow where a barrier or collective stands.

A local is uniform if every value given to it is, and if no thread can miss an assignment that others of the group make:
assignments below a condition that varies, or in a loop that threads leave one by one, make it varying.  Threads that
have returned read nothing any more, so a `return` in varying flow leaves locals as they are; it makes the *flow* after
it divergent all the same.

    uniformity = Uniformity(kernel)
    uniformity.is_uniform(condition)       # an expression
    uniformity.uniform_flow(barrier)       # a statement: do all threads of a group reach it together?
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from poot.dtypes import DType
from poot.kernel.ir import (
    Alloc,
    Assign,
    Atomic,
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
    blocks,
    operands,
)


class Affine(NamedTuple):
    """`base + stride * lane`, where the base is uniform and a multiple of `multiple` (0: it is 0)."""

    stride: int
    multiple: int


#: What is known of a value along the lanes; None: it varies without a pattern.
LaneForm = Affine | None

UNIFORM = Affine(0, 1)

_ADDITIVE = {"add": 1, "sub": -1}
_Context = tuple[int, ...]


def join(a: LaneForm, b: LaneForm) -> LaneForm:
    """What holds of a value that is one of two."""
    if a is None or b is None or a.stride != b.stride:
        return None
    return Affine(a.stride, gcd(a.multiple, b.multiple))


def op_form(expr: Op, args: Sequence[LaneForm], lanes: int) -> LaneForm:
    """The form of an operation's result from those of its operands; `lanes` is the length of a vector."""
    if None in args:
        return None
    forms = [arg for arg in args if arg is not None]
    name = expr.name
    if expr.dtype.is_integer and len(forms) == 2:
        return _integer_form(expr, forms[0], forms[1], lanes)
    if any(form.stride for form in forms):
        if name == "select" and not forms[0].stride:
            return join(forms[1], forms[2])
        if name == "neg" and expr.dtype.is_integer:
            return Affine(-forms[0].stride, forms[0].multiple)
        if name == "bitcast" and expr.dtype.is_integer and expr.args[0].dtype.is_integer:
            return forms[0]
        return None
    return UNIFORM


def _integer_form(expr: Op, a: Affine, b: Affine, lanes: int) -> LaneForm:
    name, right = expr.name, expr.args[1]
    if name in _ADDITIVE:
        return Affine(a.stride + _ADDITIVE[name] * b.stride, gcd(a.multiple, b.multiple))
    constant = int(right.value) if isinstance(right, Const) else None
    if name == "mul":
        left = expr.args[0]
        if constant is not None:
            return Affine(a.stride * constant, a.multiple * constant)
        if isinstance(left, Const):
            return Affine(b.stride * int(left.value), b.multiple * int(left.value))
    if not a.stride and not b.stride:
        return UNIFORM
    if constant is None or b.stride or constant <= 0:
        return None
    if name == "floor_div" or (name == "shift_right" and constant < expr.dtype.bits - 1):
        divisor = constant if name == "floor_div" else 1 << constant
        if _within(a, divisor, lanes):
            return Affine(0, a.multiple // divisor if a.multiple % divisor == 0 else 1)
    modulus = constant if name == "rem" else constant + 1 if name == "and" and constant & (constant + 1) == 0 else 0
    if modulus and _within(a, modulus, lanes):
        return Affine(a.stride, gcd(a.multiple, modulus))
    if name == "shift_left" and constant < expr.dtype.bits:
        return Affine(a.stride << constant, a.multiple << constant)
    return None


def _within(form: Affine, divisor: int, lanes: int) -> bool:
    """Whether all lanes of a vector lie between the same two multiples of `divisor`."""
    step = gcd(form.multiple, divisor)
    return 0 <= form.stride * (lanes - 1) < (step & -step)


def cast_form(source: DType, to: DType, arg: LaneForm) -> LaneForm:
    """The form of a value converted between two dtypes: only integers that do not get wider step evenly still."""
    if arg is None or arg.stride == 0:
        return arg if arg is None or to.is_integer else UNIFORM
    return arg if source.is_integer and to.is_integer and to.bits <= source.bits else None


class Uniformity:
    """The analysis of one kernel.

    `axes` are the axes along which the threads in question differ (by default those on which the work-group has more
    than one thread); `lane_axis` is the one that `form` measures strides along, `lanes` the length of a vector on it,
    and `aligned` says that vectors start at multiples of `lanes`.  A checker needs none of the last three.
    """

    def __init__(
        self,
        kernel: Kernel,
        axes: Sequence[int] | None = None,
        *,
        lane_axis: int = 0,
        lanes: int = 1,
        aligned: bool = False,
    ) -> None:
        self._axes = frozenset(a for a in range(3) if kernel.workgroup[a] > 1) if axes is None else frozenset(axes)
        self._lane_axis = lane_axis
        self._lanes = lanes
        self._aligned = aligned
        self._forms: dict[str, LaneForm] = {}
        self._private: dict[str, LaneForm] = {}
        self._home: dict[str, _Context] = {}
        self._divergent_loops: set[int] = set()
        self._returning_loops: set[int] = set()
        self._divergent: set[int] = set()
        self._masked: set[int] = set()
        self._loops: list[tuple[int, _Context]] = []
        self._returned = False
        self._nested = False
        self._changed = True
        while self._changed:
            self._changed = False
            self._returned = False
            self._block(kernel.body, ())

    # --- answers ---

    def is_uniform(self, expr: Expr) -> bool:
        """Whether all threads that evaluate the expression together get the same value."""
        form = self.form(expr)
        return form is not None and form.stride == 0

    def local_form(self, name: str) -> LaneForm:
        """The form of a local; scalar parameters are uniform."""
        return self._forms.get(name, UNIFORM)

    def array_is_uniform(self, name: str) -> bool:
        """Whether every thread's copy of a private array holds the same."""
        return self._private.get(name) is not None

    def uniform_flow(self, stmt: Stmt) -> bool:
        """Whether the threads of a group reach the statement together, with none of them returned before."""
        return id(stmt) not in self._divergent

    def divergent_loop(self, loop: For | While) -> bool:
        """Whether threads that enter the loop together may leave it after different numbers of turns."""
        return id(loop) in self._divergent_loops

    def is_masked(self, leave: Break | Continue | Return) -> bool:
        """Whether the statement takes only some of the threads out of the loop, turn or kernel that they share."""
        return id(leave) in self._masked

    def masked_exit(self, stmts: Sequence[Stmt], *kinds: type[Break | Continue | Return]) -> bool:
        """Whether a masked exit of one of these kinds is among the statements; breaks of loops inside do not count."""
        for stmt in stmts:
            if isinstance(stmt, (Break, Continue, Return)):
                if isinstance(stmt, kinds) and self.is_masked(stmt):
                    return True
                continue
            inner = (Return,) if isinstance(stmt, (For, While)) else kinds
            if (inner is kinds or Return in kinds) and any(self.masked_exit(b, *inner) for b in blocks(stmt)):
                return True
        return False

    def form(self, expr: Expr) -> LaneForm:
        """How the value goes along the lanes."""
        match expr:
            case Const():
                return Affine(0, int(expr.value)) if expr.dtype.is_integer else UNIFORM
            case Var():
                return self._forms.get(expr.name, UNIFORM)
            case Index(kind="thread" | "local"):
                return self._index_form(expr)
            case Index():
                return UNIFORM
            case Op():
                return op_form(expr, [self.form(arg) for arg in expr.args], self._lanes)
            case Cast():
                return cast_form(expr.arg.dtype, expr.dtype, self.form(expr.arg))
            case Collective():
                return None if expr.op == "scan" and self._axes else UNIFORM
            case Load():
                private = self._private.get(expr.buffer, UNIFORM)
                return UNIFORM if private is not None and all(map(self.is_uniform, expr.indices)) else None

    def _index_form(self, expr: Index) -> LaneForm:
        if expr.axis not in self._axes:
            return UNIFORM
        if expr.axis != self._lane_axis:
            return None
        return Affine(1, self._lanes if self._aligned else 1)

    # --- the fixpoint ---

    def _lower(self, table: dict[str, LaneForm], name: str, form: LaneForm) -> None:
        new = form if name not in table else join(table[name], form)
        if name not in table or table[name] != new:
            table[name] = new
            self._changed = True

    def _reads(self, expr: Expr, context: _Context) -> None:
        """A local read where threads are that did not make its value together is no longer uniform."""
        if isinstance(expr, Var):
            home = self._home.get(expr.name, ())
            if context[: len(home)] != home:
                self._lower(self._forms, expr.name, None)
        for child in operands(expr):
            self._reads(child, context)

    def _block(self, stmts: tuple[Stmt, ...], context: _Context) -> _Context:
        for stmt in stmts:
            context = self._statement(stmt, context)
        return context

    def _statement(self, stmt: Stmt, context: _Context) -> _Context:
        if context or self._returned:
            self._mark(self._divergent, id(stmt))
        if self._nested:
            for child in operands(stmt):
                self._reads(child, context)
        match stmt:
            case Let():
                self._home[stmt.name] = context
                self._nest(context)
                self._lower(self._forms, stmt.name, self.form(stmt.value))
            case Assign():
                same = self._home.get(stmt.name) == context
                self._lower(self._forms, stmt.name, self.form(stmt.value) if same else None)
            case Alloc(space="private"):
                self._home[stmt.name] = context
                self._lower(self._private, stmt.name, UNIFORM)
            case Store() if stmt.buffer in self._private:
                same = self._home[stmt.buffer] == context
                uniform = all(map(self.is_uniform, (*stmt.indices, stmt.value)))
                self._lower(self._private, stmt.buffer, UNIFORM if same and uniform else None)
            case Atomic(result=str() as name):
                self._home[name] = context
                self._nest(context)
                self._lower(self._forms, name, None if self._axes else UNIFORM)
            case If() | For() | While() | Break() | Continue() | Return():
                return self._flow(stmt, context)
            case _:
                pass
        return context

    def _flow(self, stmt: If | For | While | Break | Continue | Return, context: _Context) -> _Context:
        """Contexts are paths of divergent constructs; statements after a divergent break or continue have a new one."""
        match stmt:
            case If():
                return self._branch(stmt, context)
            case For() | While():
                self._loop(stmt, context)
            case Break():
                loop, inside = self._loops[-1]
                if context != inside:
                    self._mark(self._divergent_loops, loop)
                    self._mark(self._masked, id(stmt))
                    return (*context, id(stmt))
            case Continue():
                if context != self._loops[-1][1]:
                    self._mark(self._masked, id(stmt))
                    return (*context, id(stmt))
            case Return():
                if context:
                    self._returned = True
                    self._mark(self._masked, id(stmt))
                    for loop, _ in self._loops:
                        self._mark(self._returning_loops, loop)
        return context

    def _branch(self, stmt: If, context: _Context) -> _Context:
        if self.is_uniform(stmt.condition):
            ends = [self._block(stmt.then, context), self._block(stmt.orelse, context)]
        else:
            ends = [self._block(stmt.then, (*context, id(stmt), 0)), self._block(stmt.orelse, (*context, id(stmt), 1))]
            ends = [end[len(context) + 2 :] for end in ends]
            ends = [(*context, *end) for end in ends]
        return max(ends, key=len)

    def _loop(self, stmt: For | While, context: _Context) -> None:
        loop = id(stmt)
        if isinstance(stmt, For):
            start, stop = self.form(stmt.start), self.form(stmt.stop)
            self._lower(self._forms, stmt.var, start and Affine(start.stride, gcd(start.multiple, stmt.step)))
            if start is None or stop is None or start.stride != stop.stride:
                self._mark(self._divergent_loops, loop)
        elif not self.is_uniform(stmt.condition):
            self._mark(self._divergent_loops, loop)
        if loop in self._returning_loops:
            self._returned = True
        inside = (*context, loop) if loop in self._divergent_loops else context
        if isinstance(stmt, For):
            self._home[stmt.var] = inside
            self._nest(inside)
        else:
            self._reads(stmt.condition, inside)
        self._loops.append((loop, inside))
        self._block(stmt.body, inside)
        self._loops.pop()

    def _nest(self, context: _Context) -> None:
        """From the first local that only some threads make, reads are watched."""
        if context and not self._nested:
            self._nested = self._changed = True

    def _mark(self, marks: set[int], key: int) -> None:
        if key not in marks:
            marks.add(key)
            self._changed = True
