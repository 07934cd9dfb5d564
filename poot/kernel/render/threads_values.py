"""What the renderers of the threads family have in common: names, lines, expressions, and checked accesses.

Checked loads stand before the statement that needs them, since neither WGSL nor OpenCL C can branch inside an
expression.  Locals keep their names from the source where the language allows.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence

from poot.dtypes import DType, bool_
from poot.errors import SourceLocation, Unsupported
from poot.kernel.build import contiguous_strides
from poot.kernel.faults import given
from poot.kernel.ir import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
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
    fault_sites,
    site_numbers,
    walk,
)
from poot.kernel.render.lines import user_line
from poot.kernel.render.threads_intervals import Intervals
from poot.kernel.render.threads_text import Code, letters, same_line
from poot.target import Target


class ThreadsValues(ABC):
    """The part of a renderer that writes expressions; `line` adds to the body."""

    reserved: frozenset[str] = frozenset()
    language: str = ""

    def __init__(self, kernel: Kernel, target: Target, *, contract: bool) -> None:
        self.kernel = kernel
        self.target = target
        self.contract = contract
        self.sites = site_numbers(kernel)
        self.faults = bool(fault_sites(kernel))
        self.nodes = walk(kernel.body)
        self.arrays: dict[str, BufferParam | Alloc] = {buffer.name: buffer for buffer in kernel.buffers}
        self.arrays |= {node.name: node for node in self.nodes if isinstance(node, Alloc)}
        self.numbers = sorted({(n.kind, n.axis) for n in self.nodes if isinstance(n, Index) and not n.buffer})
        self.changing = {node.name for node in self.nodes if isinstance(node, Assign)}
        self.together = any(_cooperates(node) for node in self.nodes)
        self.intervals = Intervals(kernel, self.changing)
        self.helpers: dict[str, str] = {}
        self.lines: list[str] = []
        self.locations: list[SourceLocation | None] = []
        self.indent = "    "
        self._commented: SourceLocation | None = None
        self._used: set[str] = set(self.reserved)
        self.names: dict[str, str] = {}
        self.entry = self.fresh(kernel.name)

    # --- names ---

    def fresh(self, hint: str) -> str:
        """A name that the language allows and that nothing in this text has yet."""
        plain = "".join(letters(char) for char in unicodedata.normalize("NFKC", hint)).lstrip("_") or "value"
        plain = plain if plain[0].isalpha() else f"v{plain}"
        name, count = plain, 1
        while name in self._used:
            name, count = f"{plain}_{count}", count + 1
        self._used.add(name)
        return name

    def name(self, source: str) -> str:
        """The name in the text of a parameter, local or array of the kernel."""
        if source not in self.names:
            self.names[source] = self.fresh(source)
        return self.names[source]

    # --- lines ---

    def line(self, text: str) -> None:
        """One line of the body."""
        self.lines.append(f"{self.indent}{text}" if text else "")
        self.locations.append(None)

    def comment(self, where: SourceLocation | None) -> None:
        """The user's line, where it is another than that of the last comment."""
        if where is None or (self._commented is not None and same_line(where, self._commented)):
            return
        self._commented = where
        self.line(f"// {user_line(where)}".rstrip("\\"))
        self.locations[-1] = where

    def helper(self, name: str, text: str) -> str:
        """Make sure that a function of the prelude is there; returns the name that it has in this text."""
        key = f"helper {name}"
        if key not in self.names:
            self.names[key] = self.fresh(name)
            self.helpers[name] = re.sub(rf"\b{name}\b", self.names[key], text.strip("\n"))
        return self.names[key]

    def unsupported(self, what: str, message: str, where: SourceLocation | None = None) -> Unsupported:
        return Unsupported(
            what=f"kernel {self.kernel.name}: {what}",
            target=self.target,
            message=message,
            where=where or self.kernel.where,
        )

    # --- memory ---

    def extent(self, array: BufferParam | Alloc, axis: int) -> Code:
        """The extent of an axis."""
        extent = array.shape[axis]
        if extent is not None:
            return self.constant(extent, self.kernel.index_dtype)
        return Code(self.name_of("extent", array.name, axis))

    def stride(self, array: BufferParam | Alloc, axis: int) -> Code | int:
        """The stride of an axis in elements; a number where it is known."""
        strides = array.strides if isinstance(array, BufferParam) else contiguous_strides(array.shape)
        stride = strides[axis]
        return Code(self.name_of("stride", array.name, axis)) if stride is None else stride

    def place(self, node: Load | Store | Atomic) -> tuple[BufferParam | Alloc, list[Code]]:
        """The array of an access and its indices; those of a checked access are names or numbers."""
        array = self.arrays[node.buffer]
        indices = [self.expr(index) for index in node.indices]
        if node.checked:
            simple = (Const, Var, Index)
            indices = [
                code if isinstance(index, simple) else self.bind(code, index.dtype, "at")
                for index, code in zip(node.indices, indices, strict=True)
            ]
        return array, indices

    def guarded(self, node: Load | Store | Atomic, array: BufferParam | Alloc, indices: list[Code]) -> None:
        """Open a block that runs where every index is inside its extent; the first that is not is the fault."""
        site, keyword = self.sites[id(node)], "if"
        for axis, index in enumerate(indices):
            extent, wide, dtype = self.extent(array, axis), given(node.indices[axis]), self.kernel.index_dtype
            self.line(f"{keyword} ({self.outside(index, extent)}) {{")
            if wide is not None:
                end = Index("extent", axis, node.buffer, dtype) if isinstance(array, BufferParam) else None
                dtype, index = wide.dtype, self.expr(wide)
                extent = self.constant(array.shape[axis] or 0, dtype) if end is None else self.expr(Cast(end, dtype))
            self.line(f"    {self.fault(site, axis, index.text, extent.text, dtype)}")
            keyword = "} else if"
        self.line("} else {" if indices else "{")
        self.indent += "    "

    def close(self) -> None:
        """End the block that `guarded` began."""
        self.indent = self.indent[4:]
        self.line("}")

    def _load(self, expr: Load) -> Code:
        array, indices = self.place(expr)
        if not expr.checked:
            return self.load(array, self.flat(array, indices))
        name = self.fresh(expr.buffer + "_at")
        self.line(f"{self.declaration(name, expr.dtype, True)} = {self.zero(expr.dtype)};")
        self.guarded(expr, array, indices)
        self.line(f"{name} = {self.load(array, self.flat(array, indices)).text};")
        self.close()
        return Code(name)

    def bind(self, code: Code, dtype: DType, hint: str) -> Code:
        """A new local that holds a value."""
        name = self.fresh(hint)
        self.line(f"{self.declaration(name, dtype, False)} = {code.text};")
        return Code(name)

    # --- expressions ---

    def expr(self, expr: Expr) -> Code:
        match expr:
            case Const():
                return self.constant(expr.value, expr.dtype)
            case Var():
                return self.variable(expr)
            case Load():
                return self._load(expr)
            case Op():
                return self.operation(expr)
            case Cast():
                return self.cast(self.expr(expr.arg), expr.arg.dtype, expr.dtype)
            case Index():
                return self._index(expr)
            case Collective():
                raise AssertionError("a collective inside an expression does not check")

    def operation(self, expr: Op) -> Code:
        return self.op(expr, [self.expr(arg) for arg in expr.args])

    def variable(self, var: Var) -> Code:
        return Code(self.name(var.name))

    def _index(self, expr: Index) -> Code:
        if expr.kind == "extent":
            return self.extent(self.arrays[expr.buffer], expr.axis)
        if expr.kind == "stride":
            stride = self.stride(self.arrays[expr.buffer], expr.axis)
            return self.constant(stride, expr.dtype) if isinstance(stride, int) else stride
        if expr.kind == "group_size":
            return self.constant(self.kernel.workgroup[expr.axis], expr.dtype)
        if expr.kind == "threads":
            return self.threads(expr.axis)
        return Code(self.name_of(expr.kind, "", expr.axis))

    def threads(self, axis: int) -> Code:
        """The number of threads on an axis of a kernel that is launched by threads."""
        assert self.kernel.threads is not None
        count = self.kernel.threads[axis]
        return (
            self.constant(count, self.kernel.index_dtype)
            if count is not None
            else Code(self.name_of("threads", "", axis))
        )

    def surplus(self) -> str:
        """The condition under which a thread is past the end of the grid, or "" if none can be.

        A work-group whose threads act together is past the end as a whole, which the condition shows to be uniform.
        """
        tests: list[str] = []
        for axis, count in enumerate(self.kernel.threads or ()):
            size = self.kernel.workgroup[axis]
            if count == 1 and size == 1:
                continue
            if self.together and size > 1:
                first = f"{self.name_of('group', '', axis)} * {self.constant(size, self.kernel.index_dtype).text}"
            else:
                first = self.name_of("thread", "", axis)
            tests.append(f"{first} >= {self.threads(axis).text}")
        return " || ".join(tests)

    def launch_numbers(self) -> list[tuple[str, int]]:
        """The launch numbers that the text needs: (kind, axis) of threads, locals, groups and numbers of groups."""
        found = {(kind, axis) for kind, axis in self.numbers if kind in ("thread", "local", "group", "num_groups")}
        for axis, count in enumerate(self.kernel.threads or ()):
            if count != 1 or self.kernel.workgroup[axis] != 1:
                found.add(("group" if self.together and self.kernel.workgroup[axis] > 1 else "thread", axis))
        return sorted(found)

    # --- what a dialect spells ---

    @abstractmethod
    def name_of(self, kind: str, buffer: str, axis: int) -> str:
        """The name of a launch number, run-time extent or run-time stride."""

    @abstractmethod
    def declaration(self, name: str, dtype: DType, mutable: bool) -> str:
        """The left side of the definition of a local."""

    @abstractmethod
    def constant(self, value: bool | int | float, dtype: DType) -> Code: ...

    @abstractmethod
    def op(self, expr: Op, args: Sequence[Code]) -> Code: ...

    @abstractmethod
    def cast(self, arg: Code, source: DType, to: DType) -> Code: ...

    @abstractmethod
    def flat(self, array: BufferParam | Alloc, indices: Sequence[Code]) -> Code:
        """The number of an element in its array."""

    @abstractmethod
    def load(self, array: BufferParam | Alloc, flat: Code) -> Code: ...

    @abstractmethod
    def outside(self, index: Code, extent: Code) -> str:
        """Whether an index is below 0 or not below its extent."""

    @abstractmethod
    def fault(self, site: int, axis: int, index: str, extent: str, dtype: DType) -> str:
        """The statement that records a fault; `dtype` is that of index and extent."""

    def zero(self, dtype: DType) -> str:
        """What a load that faults yields."""
        return self.constant(False if dtype is bool_ else 0.0 if dtype.is_float else 0, dtype).text


def _cooperates(node: object) -> bool:
    return isinstance(node, (Barrier, Collective)) or (isinstance(node, Alloc) and node.space == "shared")
