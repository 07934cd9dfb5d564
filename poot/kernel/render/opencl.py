"""OpenCL C 1.2: a prepared kernel as one program text.

Arguments of the kernel: for each slot of `argument_slots`, a buffer is a pointer and the number of its first element, a
number is itself; `num_groups` has none, `launch` and `fault` only where the kernel can fault.  f16 and bf16 are kept as
their bits; prepared kernels only move and convert them.  Integers are computed unsigned where they may wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from poot.dtypes import DType, bool_, f64, i64, u64
from poot.kernel.ir import (
    Alloc,
    Atomic,
    Barrier,
    BufferParam,
    Collective,
    If,
    Kernel,
    Slot,
    argument_slots,
    walk,
)
from poot.kernel.render import opencl_helpers as helpers
from poot.kernel.render.opencl_helpers import stored, type_of, unsigned_of
from poot.kernel.render.opencl_ops import TRUTH, OpenCLExpressions, at, unsigned
from poot.kernel.render.opencl_words import RESERVED
from poot.kernel.render.threads_text import ATOM, AXES, LOOSE, PRODUCT, SUM, UNARY, Code, ThreadsSource, prelude
from poot.target import Target

_ATOMICS = {"exchange": "xchg", "compare_exchange": "cmpxchg"}


def render(kernel: Kernel, target: Target, *, contract: bool = False) -> ThreadsSource:
    """The program of a prepared kernel; Unsupported where the target lacks what it needs."""
    return _OpenCL(kernel, target, contract=contract).render()


def kernel_arguments(kernel: Kernel, *, faults: bool) -> tuple[tuple[Slot, str], ...]:
    """The arguments of the rendered kernel in order: a slot, and what of it ("pointer", "offset" or "number")."""
    found: list[tuple[Slot, str]] = []
    for slot in argument_slots(kernel):
        match slot.kind:
            case "buffer":
                found += [(slot, "pointer"), (slot, "offset")]
            case "num_groups":
                pass
            case "launch":
                found += [(slot, "number")] * faults
            case "fault":
                found += [(slot, "pointer"), (slot, "offset")] * faults
            case _:
                found.append((slot, "number"))
    return tuple(found)


class _OpenCL(OpenCLExpressions):
    reserved = RESERVED
    language = "opencl"

    def __init__(self, kernel: Kernel, target: Target, *, contract: bool) -> None:
        super().__init__(kernel, target, contract=contract)
        self.index = type_of(kernel.index_dtype)
        self.scratch: dict[str, int] = {}

    # --- the whole ---

    def render(self) -> ThreadsSource:
        parameters = self._parameters()
        for stmt in self.kernel.body:
            self.stmt(stmt)
        body, places = self.lines, self.locations
        self.lines, self.locations = [], []
        self._opening()
        opening = self.lines
        x, y, z = self.kernel.workgroup
        head = [
            "#pragma OPENCL FP_CONTRACT OFF"
        ]  # the text says what is fused: some compilers take more than is allowed
        if any(getattr(node, "dtype", None) is f64 for node in (*self.nodes, *self.kernel.params)):
            head.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        head += [*self._extensions(), "", *prelude(self.helpers)]
        head += [f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))", f"void {self.entry}("]
        head += [f"    {text}{',' if n < len(parameters) - 1 else ''}" for n, text in enumerate(parameters)]
        head.append(") {")
        lines = [*head, *opening, *body, "}", ""]
        locations = [None] * (len(head) + len(opening)) + places + [None, None]
        return ThreadsSource("\n".join(lines), self.entry, tuple(locations), self._shared())

    def _parameters(self) -> list[str]:
        texts: list[str] = []
        for slot, what in kernel_arguments(self.kernel, faults=self.faults):
            if slot.kind == "buffer":
                name, buffer = self.name(slot.param), self.arrays[slot.param]
                assert isinstance(buffer, BufferParam)
                const = "const " if buffer.access == "read" else ""
                pointer = f"__global {const}{stored(slot.dtype)} *{name}"
                texts.append(pointer if what == "pointer" else f"const ulong {self._first(slot.param)}")
            elif slot.kind == "scalar":
                texts.append(f"const {stored(slot.dtype)} {self.name(slot.param)}")
            elif slot.kind == "fault":
                pointer = "volatile __global int *fault"
                texts.append(pointer if what == "pointer" else "const ulong fault_first")
            elif slot.kind == "launch":
                texts.append("const int launch")
            else:
                texts.append(f"const {self.index} {self.name_of(slot.kind, slot.param, slot.axis)}")
        return texts

    def _first(self, buffer: str) -> str:
        return self.name_of("first", buffer, -1)

    def _opening(self) -> None:
        """Before the first statement: first elements, launch numbers, shared arrays, threads past the end."""
        for buffer in self.kernel.buffers:
            self.line(f"{self.name(buffer.name)} += {self._first(buffer.name)};")
        if self.faults:
            self.line("fault += fault_first;")
        for kind, axis in self.launch_numbers():
            call = {"thread": "get_global_id", "local": "get_local_id", "group": "get_group_id"}.get(
                kind, "get_num_groups"
            )
            self.line(f"const {self.index} {self.name_of(kind, '', axis)} = ({self.index}){call}({axis});")
        for name, array in self.arrays.items():
            if isinstance(array, Alloc) and array.space == "shared":
                self.line(f"__local {stored(array.dtype)} {self.name(name)}[{math.prod(array.shape)}];")
        for scratch_type, count in self.scratch.items():
            name = self.name_of(f"scratch_{scratch_type}", "", -1)
            self.line(f"__local {scratch_type} {name}[{count}];")
        surplus = "" if self.together else self.surplus()  # work-groups past the end are not launched
        if surplus:
            self.line(f"if ({surplus}) {{")
            self.line("    return;")
            self.line("}")

    def _extensions(self) -> list[str]:
        if not any(isinstance(node, Atomic) and self.arrays[node.buffer].dtype.bits == 64 for node in self.nodes):
            return []
        names = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
        return [f"#pragma OPENCL EXTENSION {name} : enable" for name in names]

    def _shared(self) -> int:
        arrays = [a for a in self.arrays.values() if isinstance(a, Alloc) and a.space == "shared"]
        return sum(math.prod(a.shape) * a.dtype.itemsize for a in arrays) + sum(
            count * {"uchar": 1, "char": 1, "short": 2, "ushort": 2, "long": 8, "ulong": 8, "double": 8}.get(kind, 4)
            for kind, count in self.scratch.items()
        )

    # --- names and types ---

    @override
    def name_of(self, kind: str, buffer: str, axis: int) -> str:
        key = f"{kind} {buffer} {axis}"
        if key not in self.names:
            which = "" if axis < 0 else f"_{axis}" if buffer else f"_{AXES[axis]}"
            self.names[key] = self.fresh(f"{buffer}_{kind}{which}" if buffer else f"{kind}{which}")
        return self.names[key]

    @override
    def declaration(self, name: str, dtype: DType, mutable: bool) -> str:
        return f"{'' if mutable else 'const '}{type_of(dtype)} {name}"

    # --- memory ---

    @override
    def flat(self, array: BufferParam | Alloc, indices: Sequence[Code]) -> Code:
        """The number of an element, in the index dtype where it must fit and in 64 bits elsewhere."""
        parts: list[Code] = []
        wide = self.kernel.index_dtype is not i64 and not _small(array)
        for axis, index in enumerate(indices):
            stride = self.stride(array, axis)
            if stride == 0:
                continue
            if isinstance(stride, int) and stride == 1:
                parts.append(index)
                continue
            step = self.constant(stride, self.kernel.index_dtype) if isinstance(stride, int) else stride
            left = f"(long){index.at(UNARY)}" if wide else index.at(PRODUCT)
            parts.append(Code(f"{left} * {step.at(UNARY)}", PRODUCT))
        if len(parts) == 1:
            return parts[0]
        return Code(" + ".join(part.at(PRODUCT) for part in parts) or "0", SUM if parts else ATOM)

    @override
    def load(self, array: BufferParam | Alloc, flat: Code) -> Code:
        text = f"{self.name(array.name)}[{flat.text}]"
        return Code(f"{text} != 0", LOOSE) if array.dtype is bool_ else Code(text)

    @override
    def store(self, array: BufferParam | Alloc, flat: Code, value: Code) -> None:
        self.line(f"{self.name(array.name)}[{flat.text}] = {value.text};")

    @override
    def alloc(self, stmt: Alloc) -> None:
        if stmt.space == "private":
            self.line(f"{stored(stmt.dtype)} {self.name(stmt.name)}[{math.prod(stmt.shape)}];")

    @override
    def atomic(self, stmt: Atomic, array: BufferParam | Alloc, flat: Code, value: Code, compare: Code | None) -> str:
        dtype, space = array.dtype, "global" if isinstance(array, BufferParam) else "local"
        if dtype.bits == 64 and not self.target.has("int64_atomics"):
            raise self.unsupported(f"atomic {stmt.op} on {dtype}", "the device has no 64-bit atomics", stmt.where)
        place = f"&{self.name(array.name)}[{flat.text}]"
        if dtype.is_float:
            function = self.helper(f"atomic_{stmt.op}_{dtype.name}_{space}", helpers.cas_update(dtype, stmt.op, space))
            return f"{function}({place}, {value.text})"
        prefix = "atom" if dtype.bits == 64 else "atomic"
        operands = f"{compare.text}, {value.text}" if compare is not None else value.text
        return f"{prefix}_{_ATOMICS.get(stmt.op, stmt.op)}({place}, {operands})"

    # --- work-groups, faults, loops ---

    @override
    def collective(self, expr: Collective) -> str:
        dtype, count = expr.dtype, self.kernel.group_invocations
        value = self.expr(expr.arg)
        row = {"sum": "add", "scan": "add", "any": "or", "all": "and"}.get(expr.op, expr.op)
        combine = self._combine(row, dtype)
        if expr.op == "scan":
            text = helpers.scan(dtype, self.kernel.workgroup, combine)
        else:
            text = helpers.reduction(expr.op, dtype, self.kernel.workgroup, combine)
        function = self.helper(f"group_{expr.op}_{dtype.name}", text)
        self.scratch[stored(dtype)] = count
        return f"{function}({value.text}, {self.name_of(f'scratch_{stored(dtype)}', '', -1)})"

    def _combine(self, row: str, dtype: DType) -> str:
        """A binary operation with places for its operands."""
        if row == "add":
            if dtype.kind == "int":
                return f"({type_of(dtype)})(({unsigned_of(dtype)}){{}} + ({unsigned_of(dtype)}){{}})"
            return f"({type_of(dtype)})({{}} + {{}})" if dtype.bits < 32 else "{} + {}"
        if dtype is bool_:
            return f"{{}} {TRUTH[row]} {{}}"
        name = self.helper(f"{row}_{dtype.name}", helpers.ordered(dtype, row == "max")) if dtype.is_float else row
        return f"{name}({{}}, {{}})"

    @override
    def branch(self, stmt: If) -> None:
        """A barrier behind a branch that has one: PoCL runs what follows it twice for the first thread otherwise."""
        super().branch(stmt)
        if any(isinstance(node, (Barrier, Collective)) for node in walk((stmt,))):
            self.line("barrier(CLK_LOCAL_MEM_FENCE);")

    @override
    def barrier(self) -> None:
        self.line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    @override
    def outside(self, index: Code, extent: Code) -> str:
        u = "ulong" if self.kernel.index_dtype is i64 else "uint"
        bound = unsigned(extent, u)
        return f"({u}){index.at(UNARY)} >= {at(bound, SUM)}"

    @override
    def fault(self, site: int, axis: int, index: str, extent: str, dtype: DType) -> str:
        function = self.helper("record_fault", helpers.FAULT)
        return f"{function}(fault, launch, {site}, {axis}, {index}, {extent});"

    @override
    def bounded_step(self, var: str, stop: Code, step: int, dtype: DType) -> str:
        u, size = unsigned_of(dtype), abs(step)
        ahead = unsigned(Code(var), u), unsigned(stop, u)
        a, b = ahead if step < 0 else ahead[::-1]
        sign = "+" if step > 0 else "-"
        amount = self.constant(size, u64 if u == "ulong" else dtype).text
        return f"{at(a, SUM)} - {at(b, PRODUCT)} > {amount} ? {var} {sign} {amount} : {stop.at(UNARY)}"


def _small(array: BufferParam | Alloc) -> bool:
    """Whether every element's number fits the 32 bits of an index."""
    if isinstance(array, Alloc) or array.rank < 2:
        return isinstance(array, Alloc) or array.strides in ((), (1,), (0,))
    reach = 0
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent is None or stride is None:
            return False
        reach += max(extent - 1, 0) * abs(stride)
    return reach < 2**31
