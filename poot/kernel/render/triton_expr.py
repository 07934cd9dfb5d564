"""Expressions and accesses as Triton text: offsets, masks, checks, atomics, collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poot.dtypes import DType, bf16, bool_, f16, f32, i32
from poot.errors import Unsupported
from poot.kernel.build import contiguous_strides
from poot.kernel.faults import given
from poot.kernel.ir import (
    Alloc,
    Assert,
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
    contracted,
    operands,
    site_numbers,
)
from poot.kernel.render.triton_kinds import Kinds
from poot.kernel.render.triton_ops import TYPES, Term, literal, plain
from poot.kernel.render.triton_text import Mask, Writer

_ATOMIC = {"exchange": "xchg", "compare_exchange": "cas"}
_SUMS = ("sum", "scan")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer parameter: its extents and strides, literals where baked; `narrow` offsets fit 32 bits."""

    param: BufferParam
    extents: tuple[Term, ...]
    strides: tuple[Term, ...]
    narrow: bool


class Expressions:
    """Evaluates expressions of one kernel; `size` is the number of lanes, a power of two."""

    def __init__(
        self,
        w: Writer,
        kernel: Kernel,
        kinds: Kinds,
        size: int,
        buffers: Mapping[str, Buffer],
        numbers: Mapping[tuple[str, int], Term],
    ) -> None:
        self.w = w
        self.kernel = kernel
        self.kinds = kinds
        self.size = size
        self.buffers = buffers
        self.numbers = numbers
        self.sites = site_numbers(kernel)
        self.scalars: dict[str, Term] = {}
        self.arrays: dict[str, Alloc] = {}
        self.written: set[str] = set()

    def __call__(self, expr: Expr) -> Term:
        match expr:
            case Const():
                return literal(expr.value, expr.dtype)
            case Var():
                known = self.scalars.get(expr.name)
                return known or Term(self.w.name(expr.name), expr.dtype, self.kinds.block(expr.name))
            case Op():
                return self._op(expr)
            case Cast():
                return self.w.spelling.cast(self(expr.arg), expr.dtype)
            case Index():
                return self._index(expr)
            case Load():
                return self._load(expr)
            case Collective():
                return self._collective(expr)

    def _op(self, expr: Op) -> Term:
        side = contracted(expr) if self.w.spelling.contract else None
        if side is None:
            return self.w.spelling.op(expr, [self(arg) for arg in expr.args])
        parts = [[self(part) for part in (operands(arg) if n == side else (arg,))] for n, arg in enumerate(expr.args)]
        return self.w.spelling.multiply_add(expr, parts[side], parts[1 - side][0], side)

    def _index(self, expr: Index) -> Term:
        if expr.kind == "extent":
            return self.buffers[expr.buffer].extents[expr.axis]
        if expr.kind == "stride":
            return self.buffers[expr.buffer].strides[expr.axis]
        return self.numbers[expr.kind, expr.axis]

    def spread(self, term: Term) -> str:
        """A term as a block of all lanes."""
        return term.text if term.vector else f"tl.full(({self.size},), {plain(term.text)}, {TYPES[term.dtype]})"

    # --- places ---

    def _offset(self, buffer: Buffer, indices: Sequence[Term]) -> tuple[str, bool]:
        """The element offset of an access ("" for 0) and whether it is a block."""
        known, terms = 0, list[tuple[Term, Term]]()
        for index, stride in zip(indices, buffer.strides, strict=True):
            if index.value is not None and stride.value is not None:
                known += int(index.value) * int(stride.value)
            elif stride.value != 0:
                terms.append((index, stride))
        alone = len(terms) == 1 and terms[0][1].value == 1
        wide = not (buffer.narrow or alone) and self.kernel.index_dtype is i32
        parts: list[str] = []
        for index, stride in terms:
            text = f"{index.text}.to(tl.int64)" if wide else index.text
            factor = "" if stride.value == 1 else str(stride.value) if stride.value is not None else stride.text
            parts.append(f"{text} * {factor}" if factor else text)
        if known:
            parts.append(str(known))
        return " + ".join(parts), any(index.vector for index, _ in terms)

    def _pointer(self, buffer: Buffer, indices: Sequence[Term], *, block: bool) -> tuple[str, bool]:
        """The address of an access; `block` asks for one address a lane even where all are the same."""
        offset, vector = self._offset(buffer, indices)
        name = self.w.name(buffer.param.name)
        text = f"{name} + {offset}" if offset else name
        if block and not vector:
            text, vector = f"{text} + {self._zeros()}", True
        return text, vector

    def _zeros(self) -> str:
        return f"tl.full(({self.size},), 0, tl.int32)"

    def _where(self, vector: bool, inside: str, inside_vector: bool) -> str:
        """The mask of an access, "" where it needs none."""
        if vector:
            parts = [self.w.mask.text] if self.w.mask is not None else []
        else:
            parts = [self.w.guard()]
        parts = [part for part in (*parts, inside) if part]
        if not vector and inside_vector:
            raise AssertionError("a check of one address is one bool")
        return " & ".join(parts)

    # --- checks ---

    def _inside(self, node: Load | Store | Atomic, buffer: Buffer, indices: Sequence[Term]) -> tuple[str, bool]:
        """A name for whether an access is inside ("" where unchecked); what is outside claims the fault record."""
        if not node.checked or not indices:
            return "", False
        w = self.w
        tests: list[tuple[int, Term]] = []
        for axis, (index, extent) in enumerate(zip(indices, buffer.extents, strict=True)):
            if index.value is not None and extent.value is not None and 0 <= index.value < extent.value:
                continue
            first, end = (str(term.value) if term.value is not None else term.text for term in (index, extent))
            test = f"({first} < {end})" if index.value is not None and index.value >= 0 else ""
            test = test or f"({index.text} >= 0) & ({index.text} < {end})"
            tests.append((axis, Term(w.bind("inside", plain(test)), bool_, index.vector or extent.vector)))
        if not tests:
            return "", False
        vector = any(test.vector for _, test in tests)
        inside = tests[0][1].text
        if len(tests) > 1:
            inside = w.bind("inside", " & ".join(test.text for _, test in tests))
        axis, at, end = "", "", ""
        for number, test in reversed(tests):
            wide = given(node.indices[number])
            index = indices[number] if wide is None else self(wide)
            here = (str(number), *(f"{term.text}.to(tl.int64)" for term in (index, buffer.extents[number])))
            if not axis:
                axis, at, end = here
                continue
            axis, at, end = (
                f"tl.where({test.text}, {rest}, {own})" for rest, own in zip((axis, at, end), here, strict=True)
            )
        self._claim(node, inside, vector, axis, at, end)
        return inside, vector

    def check(self, node: Assert, condition: Term, index: Term | None) -> None:
        """An assertion: lanes for which it does not hold claim the fault record."""
        at, end = (f"tl.full((), {value}, tl.int64)" for value in (0, node.extent))
        if index is not None:
            at = f"{index.text}.to(tl.int64)"
        self._claim(node, condition.text, condition.vector, str(node.axis), at, end)

    def _claim(self, node: object, held: str, vector: bool, axis: str, at: str, end: str) -> None:
        w = self.w
        record = [w.name(".fault"), w.name(".launch"), str(self.sites[id(node)])]
        if vector:
            active = "" if w.mask is None else f"{w.mask.text} & "
            lanes = [w.name(".lanes"), str(self.size)]
            w.line(w.spelling.call("claim_first", *record, *lanes, f"{active}~{held}", axis, at, end))
            return
        guard = w.guard()
        failed = f"{guard} & ~{held}" if guard else f"~{held}"
        w.line(w.spelling.call("claim", *record, failed, axis, at, end))

    # --- accesses ---

    def _load(self, expr: Load) -> Term:
        if expr.buffer in self.arrays:
            return Term(self._register(expr.buffer, expr.indices), expr.dtype, True)
        buffer = self.buffers[expr.buffer]
        indices = [self(index) for index in expr.indices]
        inside, block = self._inside(expr, buffer, indices)
        pointer, vector = self._pointer(buffer, indices, block=block)
        mask = self._where(vector, inside, block)
        if expr.buffer in self.written:
            # What another thread of the block wrote for this lane must have arrived.
            self.w.line("tl.debug_barrier()")
        text = f"tl.load({pointer}, mask={mask}, other=0)" if mask else f"tl.load({pointer})"
        if expr.dtype is bool_:
            text = f"({text} != 0)"
        if expr.buffer in self.written or buffer.param.access != "read":
            text = self.w.bind("loaded", plain(text))
        return Term(text, expr.dtype, vector)

    def store(self, stmt: Store) -> None:
        """Write an element a lane, or one for all."""
        w = self.w
        if stmt.buffer in self.arrays:
            self._keep(self._register(stmt.buffer, stmt.indices), self(stmt.value))
            return
        buffer = self.buffers[stmt.buffer]
        indices = [self(index) for index in stmt.indices]
        value = self(stmt.value)
        inside, block = self._inside(stmt, buffer, indices)
        pointer, vector = self._pointer(buffer, indices, block=block or value.vector)
        mask = self._where(vector, inside, block)
        text = f"{value.text}.to(tl.uint8)" if value.dtype is bool_ else plain(value.text)
        w.line(f"tl.store({pointer}, {text}{f', mask={mask}' if mask else ''})")
        self.written.add(stmt.buffer)

    def atomic(self, stmt: Atomic) -> None:
        """A read-modify-write by every active lane."""
        w = self.w
        buffer = self.buffers[stmt.buffer]
        indices = [self(index) for index in stmt.indices]
        values = [self(value) for value in (stmt.compare, stmt.value) if value is not None]
        inside, block = self._inside(stmt, buffer, indices)
        pointer, vector = self._pointer(buffer, indices, block=True)
        mask = self._where(vector, inside, block)
        if stmt.compare is not None and mask:
            raise Unsupported(
                what=f"kernel {self.kernel.name}: atomic compare_exchange by some lanes of a block",
                target=w.spelling.target,
                message="Triton's has no mask",
                where=stmt.where,
            )
        arguments = [pointer, *(plain(self.spread(value)) for value in values)]
        if stmt.compare is None and mask:
            arguments.append(f"mask={mask}")
        text = f'tl.atomic_{_ATOMIC.get(stmt.op, stmt.op)}({", ".join(arguments)}, sem="relaxed")'
        self.written.add(stmt.buffer)
        if stmt.result is None:
            w.line(text)
            return
        result = w.name(stmt.result)
        w.line(f"{result} = {text}")
        if mask:
            zero = literal(0.0 if stmt.value.dtype.is_float else 0, stmt.value.dtype)
            w.line(f"{result} = tl.where({mask}, {result}, {zero.text})")

    def _keep(self, name: str, value: Term) -> None:
        """Give a block a new value where lanes are active."""
        mask = self.w.mask
        text = plain(self.spread(value))
        self.w.line(f"{name} = {text}" if mask is None else f"{name} = tl.where({mask.text}, {text}, {name})")

    # --- private arrays ---

    def alloc(self, stmt: Alloc) -> None:
        """A private array whose elements are named one by one."""
        self.arrays[stmt.name] = stmt
        count = 1
        for extent in stmt.shape:
            count *= extent
        zero = literal(0.0 if stmt.dtype.is_float else 0, stmt.dtype)
        for number in range(count):
            self.w.line(f"{self._element(stmt.name, number)} = {self.spread(zero)}")

    def _element(self, name: str, number: int) -> str:
        return self.w.name(f"{name}[{number}]")

    def _register(self, name: str, indices: Sequence[Expr]) -> str:
        node, flat = self.arrays[name], 0
        for index, extent, stride in zip(indices, node.shape, contiguous_strides(node.shape), strict=True):
            if not isinstance(index, Const) or not 0 <= index.value < extent:
                raise Unsupported(
                    what=f"kernel {self.kernel.name}: private array `{name}` indexed by a value",
                    target=self.w.spelling.target,
                    message="Triton has no arrays of a thread; its elements can only be named by constants",
                    where=index.where,
                )
            flat += int(index.value) * (stride or 0)
        return self._element(name, flat)

    # --- collectives ---

    def _collective(self, expr: Collective) -> Term:
        w, dtype = self.w, expr.dtype
        arg = self(expr.arg)
        if expr.op in ("any", "all"):
            held = self.spread(arg)
            if expr.op == "any":
                return Term(self._any(held), bool_)
            return Term(f"(~{self._any(f'~{held}')})", bool_)
        wide: DType = f32 if dtype in (f16, bf16) else dtype
        value = self.spread(w.spelling.cast(arg, wide))
        if w.mask is not None:
            value = f"tl.where({w.mask.text}, {plain(value)}, {_identity(expr.op, wide).text})"
        if expr.op == "sum":
            text = f"tl.sum({plain(value)}, axis=0)"
        elif expr.op == "scan":
            text = f"tl.cumsum({plain(value)}, axis=0)"
        else:
            text = self._extreme(expr.op, plain(value), wide)
        if wide.is_integer and wide.bits < 32:
            text = f"{text}.to({TYPES[wide]})"
        result = Term(text, wide, expr.op == "scan")
        return w.spelling.cast(result, dtype)

    def _any(self, held: str) -> str:
        mask = self.w.mask
        return self.w.spelling.call("any_of", held if mask is None else f"{mask.text} & {held}")

    def _extreme(self, op: str, value: str, dtype: DType) -> str:
        if dtype.is_integer:
            return f"tl.{op}({value}, axis=0)"
        helper = "greater" if op == "max" else "lesser"
        self.w.spelling.used.add(helper)
        return f"tl.reduce({value}, 0, {helper})"


def _identity(op: str, dtype: DType) -> Term:
    """What leaves a reduction as it is; a sum of floats starts at -0.0, which keeps the sign of zero."""
    if op in _SUMS:
        return literal(-0.0 if dtype.is_float else 0, dtype)
    if dtype.is_float:
        return literal(float("-inf" if op == "max" else "inf"), dtype)
    return literal(int(dtype.min if op == "max" else dtype.max), dtype)


def any_lane(w: Writer, mask: Mask) -> str:
    """A mask as the condition of a loop."""
    return w.spelling.call("any_of", mask.text) if mask.vector else mask.text
