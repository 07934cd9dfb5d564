"""The kernel builder of the planner: index forms become expressions, and shared values are made once a block.

A schedule binds loop axes to expressions with `bind`; from then on `form` reads an index expression that a lowering
rule made back into an affine form, and `expr` writes a form as an expression of the bound loops.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager

from typing_extensions import override

from poot.dtypes import DType, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Const, Expr, Op, Stmt, Var
from poot.plan.indexing import ZERO, Affine, Axis, Quotient, Space, combine, expand, flatten, of_axis, whole


class Emitter(KernelBuilder):
    """A KernelBuilder that knows index forms.

    `transparent` says that locals of the index dtype stand for the value that they were declared with; it is off while
    the body of a rule that changes locals runs.  With `probing`, loop axes need not be bound.
    """

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        workgroup: tuple[int, int, int] = (1, 1, 1),
        threads: tuple[int | None, int | None, int | None] | None = None,
        index_dtype: DType = i32,
        probing: bool = False,
    ) -> None:
        super().__init__(name, workgroup=workgroup, threads=threads, index_dtype=index_dtype)
        self.space = space
        self.probing = probing
        self.transparent = True
        self.assigned = False
        self._forms: dict[str, Affine] = {}
        self._loops: dict[Axis, tuple[Sequence[Axis], Expr]] = {}
        self._scopes: list[tuple[list[Stmt], dict[Hashable, Expr]]] = []

    # --- values shared within a block ---

    def _open(self) -> list[tuple[list[Stmt], dict[Hashable, Expr]]]:
        """One table of shared values for each block that is open now."""
        blocks, scopes = self._blocks, self._scopes
        kept = 0
        while kept < min(len(blocks), len(scopes)) and scopes[kept][0] is blocks[kept]:
            kept += 1
        del scopes[kept:]
        scopes += [(block, {}) for block in blocks[kept:]]
        return scopes

    def recall(self, key: Hashable) -> Expr | None:
        """What was remembered under a key in a block that is still open."""
        for _, known in reversed(self._open()):
            if key in known:
                return known[key]
        return None

    def remember(self, key: Hashable, value: Expr) -> Expr:
        """Keep a value for the rest of the innermost block."""
        self._open()[-1][1][key] = value
        return value

    @contextmanager
    def forgetting(self) -> Generator[None]:
        """Values remembered inside are forgotten at the end: for indices that may change within a block."""
        scopes = self._open()
        kept = [dict(known) for _, known in scopes]
        yield
        for (_, known), before in zip(self._open(), kept, strict=True):
            known.clear()
            known.update(before)

    # --- what rules see ---

    @override
    def let(self, value: Expr, hint: str = "t") -> Var:
        var = super().let(value, hint)
        if value.dtype is self.index_dtype and self.transparent:
            self._forms[var.name] = self.form(value)
        return var

    def variable(self, value: Expr, hint: str) -> Var:
        """A local that will change: it never stands for its first value."""
        return super().let(value, hint)

    @override
    def assign(self, var: Var, value: Expr) -> None:
        self.assigned = True
        super().assign(var, value)

    @override
    @contextmanager
    def for_(self, start: Expr, stop: Expr, step: int = 1, *, hint: str = "i", unroll: bool = False) -> Generator[Var]:
        with super().for_(start, stop, step, hint=hint, unroll=unroll) as var:
            first, last = self.form(start), self.form(stop)
            if var.dtype is self.index_dtype and not first.terms and not last.terms and first.const == 0 and step == 1:
                axis = Axis(var.name, max(last.const, 0), var)
                self._loops[axis] = ((axis,), var)
                self._forms[var.name] = of_axis(axis) if axis.extent != 1 else ZERO
            yield var

    # --- forms and expressions ---

    def bind(self, axes: Sequence[Axis], value: Expr) -> None:
        """Let `value` count through the axes in row-major order, the last one fastest."""
        value = value if isinstance(value, (Const, Var)) else super().let(value, axes[-1].name if axes else "i")
        if isinstance(value, Var):
            self._forms[value.name] = flatten(whole(axes), [axis.extent for axis in axes])
        for axis in axes:
            self._loops[axis] = axes, value

    def form(self, expr: Expr) -> Affine:
        """The affine form of an index expression."""
        match expr:
            case Const():
                return Affine(int(expr.value))
            case Var() if expr.name in self._forms:
                return self._forms[expr.name]
            case Op("add" | "sub", (a, b)):
                return expand(combine([(self.form(a), 1), (self.form(b), 1 if expr.name == "add" else -1)]))
            case Op("neg", (a,)):
                return combine([(self.form(a), -1)])
            case Op("mul" | "floor_div" | "rem", (a, b)):
                return self._scaled(expr, self.form(a), self.form(b))
            case _:
                return self.space.opaque(expr)

    def _scaled(self, expr: Op, a: Affine, b: Affine) -> Affine:
        if expr.name == "mul" and (not a.terms or not b.terms):
            return combine([(a, b.const)]) if not b.terms else combine([(b, a.const)])
        if expr.name != "mul" and not b.terms and b.const > 0:
            return self.space.divide(a, b.const, refine=self.probing)[expr.name == "rem"]
        return self.space.opaque(expr)

    def expr(self, form: Affine) -> Expr:
        """A form as an expression: loops outermost first, so that the fastest one comes last."""
        form = expand(form)
        parts: list[tuple[int, Expr, int]] = []
        done: set[Axis] = set()
        for axis, factor in form.terms:
            if axis in done:
                continue
            if self.probing and axis not in self._loops and axis.source is None:
                self.bind((axis,), Var(f"{axis.name}_{axis.number}", self.index_dtype))
            axes, value = self._loops.get(axis, ((axis,), None))
            step = self._common_step(form, axes)
            if value is not None and step is not None:
                done.update(axes)
                parts.append((abs(step), value, step))
            else:
                parts.append((abs(factor), self._single(axis), factor))
        parts.sort(key=lambda part: -part[0])
        total: Expr | None = self.i(form.const) if form.const or not parts else None
        for _, value, factor in parts:
            term = value if factor == 1 else self.op("mul", value, self.i(factor))
            total = term if total is None else self.op("add", total, term)
        assert total is not None
        return total

    @staticmethod
    def _common_step(form: Affine, axes: Sequence[Axis]) -> int | None:
        """The step of a loop over several axes, if the form goes evenly along it."""
        step = last = form.coefficient(axes[-1])
        for axis in reversed(axes):
            if form.coefficient(axis) != step:
                return None
            step *= axis.extent
        return last

    def _single(self, axis: Axis) -> Expr:
        """One axis on its own: of a loop over several it is a quotient and remainder."""
        known = self.recall(axis)
        if known is not None:
            return known
        if isinstance(axis.source, Quotient):
            name = "rem" if axis.source.remainder else "floor_div"
            value = self.op(name, self.expr(axis.source.of), self.i(axis.source.by))
        elif axis.source is not None:
            return axis.source
        else:
            axes, loop = self._loops[axis]
            place = list(axes).index(axis)
            inner = 1
            for after in axes[place + 1 :]:
                inner *= after.extent
            value = self.op("floor_div", loop, self.i(inner)) if inner > 1 else loop
            if place:
                value = self.op("rem", value, self.i(axis.extent))
        return self._bound(axis, value)

    def local(self, form: Affine) -> Expr:
        """A form as a constant or a local, made once a block; the local reads back as the form."""
        form = expand(form)
        if not form.terms:
            return self.i(form.const)
        known = self.recall(form)
        if known is not None:
            return known
        if self.probing:
            return self._stand_in(form)
        value = self.expr(form)
        if isinstance(value, (Const, Var)):
            return value
        var = super().let(value, "i")
        self._forms[var.name] = form
        return self.remember(form, var)

    def _stand_in(self, form: Affine) -> Var:
        """A local that reads back as a form, and is never computed: what `expr` would give is thrown away."""
        (axis, factor), single = form.terms[0], len(form.terms) == 1 and not form.const
        if single and factor == 1 and isinstance(axis.source, Var):
            return axis.source
        if single and factor == 1 and axis.source is None and axis not in self._loops:
            var = Var(f"{axis.name}_{axis.number}", self.index_dtype)
            self._loops[axis] = (axis,), var
        else:
            var = Var(self.fresh("i"), self.index_dtype)
        self._forms[var.name] = form
        self.remember(form, var)
        return var

    def _bound(self, axis: Axis, value: Expr) -> Expr:
        if isinstance(value, (Const, Var)):
            return value
        var = super().let(value, axis.name)
        self._forms[var.name] = of_axis(axis)
        return self.remember(axis, var)
