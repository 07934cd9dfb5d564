"""OpenCL C 1.2: a prepared kernel as one program text.

Arguments of the kernel: for each slot of `argument_slots`, a buffer is a pointer and the number of its first element, a
number is itself; `num_groups` has none, `launch` and `fault` only where the kernel can fault.  f16 and bf16 are kept as
their bits; prepared kernels only move and convert them.  Integers are computed unsigned where they may wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i64, u64
from poot.kernel.ir import (
    Alloc,
    Atomic,
    BufferParam,
    Collective,
    Kernel,
    Op,
    Slot,
    argument_slots,
)
from poot.kernel.render import opencl_helpers as helpers
from poot.kernel.render.opencl_helpers import stored, type_of, unsigned_of
from poot.kernel.render.opencl_words import RESERVED
from poot.kernel.render.threads import (
    ATOM,
    AXES,
    LOOSE,
    PRODUCT,
    SUM,
    UNARY,
    Code,
    ThreadsRenderer,
    ThreadsSource,
    prelude,
)
from poot.target import Target

_ARITHMETIC = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_TRUTH = {"and": "&&", "or": "||", "xor": "!=", "min": "&&", "max": "||"}
_FLOAT = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}
_ATOMICS = {"exchange": "xchg", "compare_exchange": "cmpxchg"}
_NARROW = (f16, bf16)


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


class _OpenCL(ThreadsRenderer):
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
        head = [f"#pragma OPENCL FP_CONTRACT {'ON' if self.contract else 'OFF'}"]
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
                texts.append(pointer if what == "pointer" else f"const ulong {self._first('fault')}")
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
            self.line(f"fault += {self._first('fault')};")
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
        surplus = self.surplus()
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

    # --- expressions ---

    @override
    def constant(self, value: bool | int | float, dtype: DType) -> Code:
        if dtype is bool_:
            return Code("true" if value else "false")
        if dtype.is_integer:
            return _integer(int(value), dtype)
        if dtype in _NARROW:
            bits = int.from_bytes(dtype.dtype.type(value).tobytes(), "little")
            return Code(f"(ushort)0x{bits:04x}", UNARY)
        if math.isnan(value) or math.isinf(value):
            text = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
            return Code(f"(double){text}" if dtype is f64 else text, UNARY)
        text = repr(float(value)) if dtype is f64 else _shortest(value) + "f"
        return Code(text, UNARY if text.startswith("-") else ATOM)

    @override
    def op(self, expr: Op, args: Sequence[Code]) -> Code:
        name, dtype = expr.name, expr.args[-1].dtype
        if name == "select":
            condition, a, b = args
            return Code(f"{condition.at(UNARY)} ? {a.at(UNARY)} : {b.at(UNARY)}", LOOSE)
        if name == "bitcast":
            return self._bitcast(args[0], dtype, expr.dtype)
        if name in _COMPARE and dtype is not bool_:
            return Code(f"{args[0].at(PRODUCT)} {_COMPARE[name]} {args[1].at(PRODUCT)}", LOOSE)
        if dtype is bool_:
            if name == "not":
                return Code(f"!{args[0].at(UNARY)}", UNARY)
            return Code(f"{args[0].at(UNARY)} {_TRUTH.get(name) or _COMPARE[name]} {args[1].at(UNARY)}", LOOSE)
        return self._float(name, dtype, args) if dtype.is_float else self._integer(expr, dtype, args)

    def _float(self, name: str, dtype: DType, args: Sequence[Code]) -> Code:
        if name in _ARITHMETIC:
            sign, level = _ARITHMETIC[name]
            return Code(f"{args[0].at(level)} {sign} {args[1].at(level + 1)}", level)
        if name == "neg":
            return Code(f"-{args[0].at(ATOM)}", UNARY)
        if name in _FLOAT:
            return Code(f"{_FLOAT[name]}({args[0].text})")
        function = self.helper(f"{name}_{dtype.name}", helpers.ordered(dtype, name == "max"))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _integer(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        name = expr.name
        t = type_of(dtype)
        match name:
            case "add" | "sub" | "mul" | "neg":
                return self._wrapping(expr, dtype, args)
            case "abs":
                return Code(f"({t})abs({args[0].text})", UNARY) if dtype.kind == "int" else args[0]
            case "not":
                return Code(f"({t})~{args[0].at(UNARY)}" if dtype.bits < 32 else f"~{args[0].at(UNARY)}", UNARY)
            case "popcount" | "clz":
                return Code(f"{name}({args[0].text})")
            case "and" | "or" | "xor":
                text = f"{args[0].at(UNARY)} {_BITS[name]} {args[1].at(UNARY)}"
                return Code(f"({t})({text})", UNARY) if dtype.bits < 32 else Code(text, LOOSE)
            case "min" | "max":
                return Code(f"{name}({args[0].text}, {args[1].text})")
            case "floor_div" | "rem":
                return self._division(expr, dtype, args)
            case _:
                return self._shift(expr, dtype, args)

    def _wrapping(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        """Sums, differences and products: plain where they cannot wrap, else computed unsigned."""
        t, u = type_of(dtype), unsigned_of(dtype)
        low, high = self.intervals.exact(expr)
        fits = dtype.min <= low and high <= dtype.max
        sign, level = ("-", SUM) if expr.name == "neg" else _ARITHMETIC[expr.name]
        operands = [self.constant(0, dtype), *args] if expr.name == "neg" else args
        plain = f"{operands[0].at(level)} {sign} {operands[1].at(level + 1)}"
        if fits and dtype.bits >= 32:
            return Code(f"-{args[0].at(ATOM)}", UNARY) if expr.name == "neg" else Code(plain, level)
        if dtype.kind == "uint" and dtype.bits >= 32:
            return Code(plain, level)
        if dtype.bits < 16 or (dtype.bits == 16 and expr.name != "mul"):
            return Code(f"({t})({plain})", UNARY)
        a, b = (_unsigned(operand, u) for operand in operands)
        text = f"{_at(a, level)} {sign} {_at(b, level + 1)}"
        return Code(f"({t})({text})", UNARY, (text, level) if dtype.bits >= 32 else None)

    def _division(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        a, b = (self.intervals.of(arg) for arg in expr.args)
        sign = "/" if expr.name == "floor_div" else "%"
        if a[0] >= 0 and b[0] > 0:
            text = f"{args[0].at(PRODUCT)} {sign} {args[1].at(UNARY)}"
            return Code(text, PRODUCT) if dtype.bits >= 32 else Code(f"({type_of(dtype)})({text})", UNARY)
        make = helpers.floor_div if expr.name == "floor_div" else helpers.rem
        function = self.helper(f"{expr.name}_{dtype.name}", make(dtype))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _shift(self, expr: Op, dtype: DType, args: Sequence[Code]) -> Code:
        left = expr.name == "shift_left"
        low, high = self.intervals.of(expr.args[1])
        t = type_of(dtype)
        if low >= 0 and high < dtype.bits:
            if not left:
                text = f"{args[0].at(UNARY)} >> {args[1].at(UNARY)}"
            else:
                text = f"{_at(_unsigned(args[0], unsigned_of(dtype)), UNARY)} << {args[1].at(UNARY)}"
            if dtype.bits >= 32 and not (left and dtype.kind == "int"):
                return Code(text, LOOSE)
            return Code(f"({t})({text})", UNARY, (text, LOOSE) if dtype.bits >= 32 else None)
        function = self.helper(f"{expr.name}_{dtype.name}", helpers.shift(dtype, left))
        return Code(f"{function}({args[0].text}, {args[1].text})")

    def _bitcast(self, arg: Code, source: DType, to: DType) -> Code:
        if type_of(source) == type_of(to):
            return arg
        if source is bool_:
            return Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)
        if source.is_integer and to.is_integer:
            wrapping = arg.wrapping if to.kind == "uint" and to.bits >= 32 else None
            return Code(*wrapping) if wrapping else Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)
        return Code(f"as_{type_of(to)}({arg.text})")

    # --- conversions ---

    @override
    def cast(self, arg: Code, source: DType, to: DType) -> Code:
        if source is to:
            return arg
        if to is bool_:
            if source in _NARROW:
                return Code(f"({arg.at(UNARY)} & 0x7fff) != 0", LOOSE)
            return Code(f"{arg.at(PRODUCT)} != {self.constant(0, source).text}", LOOSE)
        if source in _NARROW:
            wide = self._widen(arg, source)
            return self.cast(wide, f32, to)
        if to in _NARROW:
            return self._narrow(arg, source, to)
        if source.is_float and to.is_integer:
            function = self.helper(f"{source.name}_to_{to.name}", helpers.saturate(source, to))
            return Code(f"{function}({arg.text})")
        return Code(f"({type_of(to)}){arg.at(UNARY)}", UNARY)

    def _widen(self, arg: Code, source: DType) -> Code:
        text = helpers.F16_TO_F32 if source is f16 else helpers.BF16_TO_F32
        return Code(f"{self.helper(f'{source.name}_to_f32', text)}({arg.text})")

    def _narrow(self, arg: Code, source: DType, to: DType) -> Code:
        """To f16 or bf16, rounded once: through an f32 that holds the value exactly, or is rounded to odd."""
        if source is f64:
            arg = Code(f"{self.helper('f64_to_odd', helpers.F64_TO_ODD)}({arg.text})")
        elif source.is_integer and source.bits > 16:
            function = self.helper("integer_to_odd", helpers.INTEGER_TO_ODD)
            if source.kind == "uint":
                arg = Code(f"{function}({arg.text}, false)")
            else:
                arg = Code(f"{function}(abs((long){arg.at(UNARY)}), {arg.at(PRODUCT)} < 0)")
        elif source is not f32:
            arg = Code(f"(float){arg.at(UNARY)}", UNARY)
        text = helpers.F32_TO_F16 if to is f16 else helpers.F32_TO_BF16
        return Code(f"{self.helper(f'f32_to_{to.name}', text)}({arg.text})")

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
            return f"{{}} {_TRUTH[row]} {{}}"
        name = self.helper(f"{row}_{dtype.name}", helpers.ordered(dtype, row == "max")) if dtype.is_float else row
        return f"{name}({{}}, {{}})"

    @override
    def barrier(self) -> None:
        self.line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    @override
    def outside(self, index: Code, extent: Code) -> str:
        u = "ulong" if self.kernel.index_dtype is i64 else "uint"
        bound = _unsigned(extent, u)
        return f"({u}){index.at(UNARY)} >= {_at(bound, SUM)}"

    @override
    def fault(self, site: int, axis: int, index: str, extent: str) -> str:
        self.helper("record_fault", helpers.FAULT)
        return f"record_fault(fault, launch, {site}, {axis}, {index}, {extent});"

    @override
    def bounded_step(self, var: str, stop: Code, step: int, dtype: DType) -> str:
        u, size = unsigned_of(dtype), abs(step)
        ahead = _unsigned(Code(var), u), _unsigned(stop, u)
        a, b = ahead if step < 0 else ahead[::-1]
        sign = "+" if step > 0 else "-"
        amount = self.constant(size, u64 if u == "ulong" else dtype).text
        return f"{_at(a, SUM)} - {_at(b, PRODUCT)} > {amount} ? {var} {sign} {amount} : {stop.at(UNARY)}"


def _integer(value: int, dtype: DType) -> Code:
    if dtype.bits < 32:
        return Code(f"({type_of(dtype)}){value}", UNARY)
    suffix = {"int": "", "uint": "u"}[dtype.kind] + ("L" if dtype.bits == 64 else "")
    if value == dtype.min and dtype.kind == "int":
        return Code("LONG_MIN" if dtype.bits == 64 else "INT_MIN", ATOM)
    unsigned = "u" + ("L" if dtype.bits == 64 else "")
    wrapping = (f"{value}{unsigned}", ATOM) if value >= 0 else None
    return Code(f"{value}{suffix}", ATOM if value >= 0 else UNARY, wrapping)


def _unsigned(code: Code, u: str) -> tuple[str, int]:
    return code.wrapping or (f"({u}){code.at(UNARY)}", UNARY)


def _at(text: tuple[str, int], level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _shortest(value: float) -> str:
    """The shortest decimal that reads back as the same f32."""
    text = str(f32.dtype.type(value))
    return text if any(mark in text for mark in ".e") else f"{text}.0"


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
