"""Expressions simplified with what is known where they stand: folded, decided by ranges, their accesses proven."""

from __future__ import annotations

from dataclasses import replace

from poot.dtypes import bool_
from poot.kernel.conditions import combined, compared, decided
from poot.kernel.fold import drops, fold_cast, fold_op
from poot.kernel.ir import (
    Alloc,
    Atomic,
    BufferParam,
    Cast,
    Collective,
    Const,
    Expr,
    Index,
    Kernel,
    Load,
    Op,
    Store,
    Var,
)
from poot.kernel.ranges import Interval
from poot.kernel.scope import Known, Scope, bounds, made
from poot.kernel.simplify_integer import integer


class Expressions:
    """Simplifies the expressions of one kernel, in the order in which they run, by what its scope knows of locals."""

    def __init__(self, kernel: Kernel, scope: Scope) -> None:
        self.kernel = kernel
        self.scope = scope
        self.arrays: dict[str, BufferParam | Alloc] = {param.name: param for param in kernel.buffers}
        self._memo: dict[int, Known] = {}
        self._again = False
        for param in kernel.params:
            if not isinstance(param, BufferParam):
                var = Var(param.name, param.dtype)
                scope.hold(param.name, var, scope.opaque(var, ("param", param.name)))
        for axis, threads in enumerate(kernel.threads or ()):
            if threads is None:
                bound = self._index(Index("threads", axis, "", kernel.index_dtype)).form
                number = self._index(Index("thread", axis, "", kernel.index_dtype)).form
                assert bound is not None and number is not None
                scope.facts.assume(bound.plus(number, -1).offset(-1))

    # --- entry points ---

    def __call__(self, expr: Expr) -> Known:
        """The expression, simplified."""
        known = self._memo.get(id(expr))
        if known is not None:
            return known
        match expr:
            case Const():
                known = self.scope.const(expr)
            case Var():
                known = self.scope.current(made(expr.name) if self._again else expr.name)
            case Op():
                known = self._op(expr)
            case Load():
                known = self._load(expr)
            case Cast():
                known = self._cast(expr)
            case Index():
                known = self._index(expr)
            case Collective():
                arg = self(expr.arg).expr
                known = self.scope.opaque(expr if arg is expr.arg else replace(expr, arg=arg))
        self._memo[id(known.expr)] = known
        return known

    def again(self, expr: Expr) -> Known:
        """The same for an expression of the new kernel."""
        outer, self._again = self._again, True
        known = self(expr)
        self._again = outer
        return known

    def next_statement(self) -> None:
        """Forget what was found of single expressions: locals, facts and memory may change now."""
        self._memo.clear()

    # --- leaves ---

    def _index(self, index: Index) -> Known:
        low, high = self._index_range(index)
        if low == high:
            return self.scope.const(Const(low, index.dtype, index.where))
        return self.scope.opaque(index, (index.kind, index.axis, index.buffer), (low, high))

    def _index_range(self, index: Index) -> Interval:
        kernel, axis = self.kernel, index.axis
        greatest = int(kernel.index_dtype.max)
        threads = None if kernel.threads is None else kernel.threads[axis] if axis < 3 else None
        size = kernel.workgroup[axis] if axis < 3 else 1
        array = self.arrays.get(index.buffer)
        match index.kind:
            case "group_size":
                return size, size
            case "local":
                return 0, size - 1
            case "thread":
                return 0, greatest - 1 if threads is None else max(threads - 1, 0)
            case "group":
                return 0, greatest - 1 if threads is None else max((threads - 1) // size, 0)
            case "threads":
                return (1, greatest) if threads is None else (threads, threads)
            case "num_groups":
                return 1, greatest
            case "extent":
                assert array is not None
                extent = array.shape[axis]
                return (0, greatest) if extent is None else (extent, extent)
            case "stride":
                assert isinstance(array, BufferParam)
                stride = array.strides[axis]
                return (-greatest - 1, greatest) if stride is None else (stride, stride)

    # --- accesses ---

    def access(self, node: Load | Store | Atomic) -> tuple[tuple[Expr, ...], bool, object]:
        """The simplified indices of an access, whether it stays checked, and a key for the element."""
        known = [self(index) for index in node.indices]
        checked = node.checked and not self._inside(node.buffer, known)
        return tuple(index.expr for index in known), checked, tuple(index.form for index in known)

    def _inside(self, buffer: str, indices: list[Known]) -> bool:
        array, dtype = self.arrays[buffer], self.kernel.index_dtype
        for axis, index in enumerate(indices):
            extent = array.shape[axis]
            if extent is not None and index.low >= 0 and index.high < extent:
                continue
            if index.form is None or not self.scope.facts.proves(index.form):
                return False
            size = Const(extent, dtype) if extent is not None else Index("extent", axis, buffer, dtype)
            bound = self(size).form
            if bound is None or not self.scope.facts.proves(bound.plus(index.form, -1).offset(-1)):
                return False
        return True

    def _load(self, load: Load) -> Known:
        indices, checked, element = self.access(load)
        if checked != load.checked or any(a is not b for a, b in zip(indices, load.indices, strict=True)):
            load = Load(load.buffer, indices, load.dtype, checked, load.where)
        array = self.arrays[load.buffer]
        steady = isinstance(array, BufferParam) and array.access == "read"
        return self.scope.opaque(load, ("load", load.buffer, element) if steady else None, anew=False)

    # --- operations ---

    def _cast(self, cast: Cast) -> Known:
        arg = self(cast.arg)
        folded = fold_cast(cast if arg.expr is cast.arg else Cast(arg.expr, cast.dtype, cast.where))
        if not isinstance(folded, Cast):
            return self.again(folded)
        if not cast.dtype.is_integer:
            return Known(folded)
        source = folded.arg.dtype
        least, greatest = bounds(cast.dtype)
        if source is bool_ or not source.is_integer or arg.low < least or arg.high > greatest:
            return self.scope.opaque(folded, None, (arg.low, arg.high) if source is bool_ else None)
        return Known(folded, arg.low, arg.high, arg.form)

    def _op(self, op: Op) -> Known:
        args: list[Known] = []
        for arg in op.args:
            args.append(self(arg))
        if any(known.expr is not arg for known, arg in zip(args, op.args, strict=True)):
            op = Op(op.name, tuple(known.expr for known in args), op.dtype, op.where)
        folded = fold_op(op)
        if folded is not op:
            return self.again(folded)
        if op.dtype is bool_:
            return self._condition(op, args)
        if not op.dtype.is_integer or not op.args[-1].dtype.is_integer:
            return self.scope.opaque(op)
        return integer(self.scope, op, args)

    def _condition(self, op: Op, args: list[Known]) -> Known:
        """A comparison, decided where the facts do; or an operation on conditions."""
        a, b = args[0].form, args[-1].form
        if len(args) != 2 or a is None or b is None:
            return Known(op, implied=combined(op, args))
        outcome = decided(self.scope.facts, op.name, a, b)
        if outcome is not None and all(map(drops, op.args)):
            return self.scope.const(Const(outcome, bool_, op.where))
        return Known(op, implied=compared(self.scope.facts, op.name, a, b))
