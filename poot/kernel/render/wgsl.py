"""WGSL: a prepared kernel as one compute shader.

Binding 0 is a struct of 32-bit words, as `parameter_words` lists them (in storage: what stands in uniform buffers,
Mesa's drivers may compile in, and then see through the zero that fences floats).  Then come the buffers in the order of
the kernel's parameters, and the fault record where the kernel can fault.  A buffer is bound from any offset that the
device likes; the number of its first element is a word of the struct.  Elements of 8 and 16 bits lie packed in u32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from poot.dtypes import DType, bool_, f32, f64, i64
from poot.kernel.check_target import largest_array
from poot.kernel.ir import Alloc, Atomic, BufferParam, Collective, Kernel, Return, ScalarParam, Store, Var
from poot.kernel.render import wgsl_helpers as helpers
from poot.kernel.render.threads_text import AXES, LOOSE, PRODUCT, SUM, UNARY, Code, ThreadsSource, prelude
from poot.kernel.render.wgsl_faults import REPORT, record
from poot.kernel.render.wgsl_helpers import type_of
from poot.kernel.render.wgsl_ops import WgslExpressions, converted, literal
from poot.kernel.render.wgsl_parameters import FIXED_WORDS, parameter_words
from poot.kernel.render.wgsl_words import RESERVED
from poot.target import Target

_CALLS = {
    "add": "atomicAdd",
    "min": "atomicMin",
    "max": "atomicMax",
    "and": "atomicAnd",
    "or": "atomicOr",
    "xor": "atomicXor",
    "exchange": "atomicExchange",
}


def render(kernel: Kernel, target: Target, *, contract: bool = False) -> ThreadsSource:
    """The shader of a prepared kernel; Unsupported where the target lacks what it needs."""
    return _Wgsl(kernel, target, contract=contract).render()


class _Wgsl(WgslExpressions):
    reserved = RESERVED
    language = "wgsl"

    def __init__(self, kernel: Kernel, target: Target, *, contract: bool) -> None:
        super().__init__(kernel, target, contract=contract)
        self.index = type_of(kernel.index_dtype)
        self.scratch: dict[str, int] = {}
        self.collects = any(isinstance(node, Collective) for node in self.nodes)
        updated = {node.buffer for node in self.nodes if isinstance(node, Atomic)}
        narrow = {n.buffer for n in self.nodes if isinstance(n, Store) and self._packed(self.arrays[n.buffer])}
        self.atomics = updated | narrow

    @staticmethod
    def _packed(array: BufferParam | Alloc) -> bool:
        """Whether several elements share a word."""
        return isinstance(array, BufferParam) and array.dtype.bits < 32

    # --- the whole ---

    def render(self) -> ThreadsSource:
        self._name_parameters()
        for stmt in self.kernel.body:
            self.stmt(stmt)
        if not any(isinstance(stmt, Return) for stmt in self.kernel.body):
            self.report()
        body, places = self.lines, self.locations
        self.lines, self.locations = [], []
        self._opening()
        opening = self.lines
        x, y, z = self.kernel.workgroup
        head = [*self._struct(), "", *self._bindings(), "", *self._shared_arrays(), *prelude(self.helpers)]
        head += [f"@compute @workgroup_size({x}, {y}, {z})", f"fn {self.entry}("]
        head += ["    @builtin(workgroup_id) workgroup_id: vec3<u32>,"]
        if not self._flat_grid():
            head.append("    @builtin(num_workgroups) num_workgroups: vec3<u32>,")
        head.append("    @builtin(local_invocation_id) local_id: vec3<u32>,")
        if self.collects:
            head.append("    @builtin(local_invocation_index) lane: u32,")
        head.append(") {")
        lines = [*head, *opening, *body, "}", ""]
        locations = [None] * (len(head) + len(opening)) + places + [None, None]
        return ThreadsSource("\n".join(lines), self.entry, tuple(locations), self._shared_bytes())

    def _name_parameters(self) -> None:
        """Scalars are members of the struct: they may not be called as its other members are, though locals may."""
        wide = [p.name for p in self.kernel.params if isinstance(p, ScalarParam) and p.dtype.bits == 64]
        halves = [f"{self.name(name)}_{half}" for name in wide for half in ("low", "high")]
        members = {*FIXED_WORDS, "launch", "fault_first", *halves} - self._used
        self._used |= members
        for param in self.kernel.params:
            self.name(param.name)
        self._used -= members

    def _struct(self) -> list[str]:
        lines = ["struct Params {", *(f"    {word}: u32," for word in FIXED_WORDS)]
        for slot, words in parameter_words(self.kernel, faults=self.faults):
            if slot.kind == "launch":
                name, kind = "launch", "i32"
            elif slot.kind in ("buffer", "fault"):
                name, kind = self.name_of("first", slot.param, -1) if slot.kind == "buffer" else "fault_first", "i32"
            else:
                name = (
                    self.name(slot.param) if slot.kind == "scalar" else self.name_of(slot.kind, slot.param, slot.axis)
                )
                kind = "u32" if slot.dtype is bool_ else type_of(slot.dtype)
            lines += [f"    {name}: {kind},"] if words == 1 else [f"    {name}_low: u32,", f"    {name}_high: u32,"]
        return [*lines, "}"]

    def _bindings(self) -> list[str]:
        lines = ["@group(0) @binding(0) var<storage, read> params: Params;"]
        for number, buffer in enumerate(self.kernel.buffers, 1):
            access = "read" if buffer.access == "read" else "read_write"
            kind = "u32" if self._packed(buffer) else self._element(buffer)
            kind = f"atomic<{kind}>" if buffer.name in self.atomics else kind
            name = self.name(buffer.name)
            lines.append(f"@group(0) @binding({number}) var<storage, {access}> {name}: array<{kind}>;")
        if self.faults:
            number = len(self.kernel.buffers) + 1
            lines.append(f"@group(0) @binding({number}) var<storage, read_write> fault: array<atomic<i32>>;")
        return lines

    def _element(self, array: BufferParam | Alloc) -> str:
        """The type of an element in memory: a local's, but for bools and for floats that are updated atomically."""
        if array.name in self.atomics and array.dtype.is_float:
            return "u64" if array.dtype is f64 else "u32"
        return "u32" if array.dtype is bool_ else type_of(array.dtype)

    def _shared_arrays(self) -> list[str]:
        lines: list[str] = []
        for array in self.arrays.values():
            if isinstance(array, Alloc) and array.space == "shared":
                kind = self._element(array)
                kind = f"atomic<{kind}>" if array.name in self.atomics else kind
                size = math.prod(array.shape)
                lines.append(f"var<workgroup> {self.name(array.name)}: array<{kind}, {size}>;")
        for kind, count in self.scratch.items():
            lines.append(f"var<workgroup> {self.name_of(f'scratch_{kind}', '', -1)}: array<{kind}, {count}>;")
        return [*lines, ""] if lines else []

    def _shared_bytes(self) -> int:
        """Bytes of shared memory; elements of 8 and 16 bits take a word each."""
        arrays = [a for a in self.arrays.values() if isinstance(a, Alloc) and a.space == "shared"]
        total = sum(math.prod(array.shape) * max(4, array.dtype.itemsize) for array in arrays)
        total += sum(count * (8 if kind.endswith("64") else 4) for kind, count in self.scratch.items())
        limit = dict(self.target.limits).get("workgroup_storage", total)
        if total > limit:
            where = largest_array(self.kernel, "shared")
            raise self.unsupported(f"{total} bytes of shared memory", f"the limit is {limit}", where)
        return total

    # --- launch numbers ---

    def _flat_grid(self) -> bool:
        """Whether the grid is known to fit a dispatch of its own shape."""
        limit = dict(self.target.limits).get("dispatch", 65535)
        threads = self.kernel.threads or (None, None, None)
        return all(
            count is not None and -(-count // size) <= limit
            for count, size in zip(threads, self.kernel.workgroup, strict=True)
        )

    def _opening(self) -> None:
        """What stands before the first statement: 64-bit parameters, launch numbers, threads past the end."""
        for slot, words in parameter_words(self.kernel, faults=self.faults):
            if words == 2:
                name = (
                    self.name(slot.param) if slot.kind == "scalar" else self.name_of(slot.kind, slot.param, slot.axis)
                )
                bits = f"(u64(params.{name}_high) << 32u) | u64(params.{name}_low)"
                value = bits if type_of(slot.dtype) == "u64" else f"bitcast<{type_of(slot.dtype)}>({bits})"
                self.line(f"let {name} = {value};")
        if self.uses_zero:
            self.line("let zero = bitcast<f32>(params.zero);")
        group = "workgroup_id"
        if not self._flat_grid():
            group = self.fresh("group")
            function = self.helper("launch_group", helpers.LAUNCH_GROUP)
            self.line(f"let {group} = {function}(workgroup_id, num_workgroups);")
            self.line(f"if ({group}.z >= params.num_groups_z) {{")
            self.line("    return;")
            self.line("}")
        for kind, axis in self.launch_numbers():
            self.line(f"let {self.name_of(kind, '', axis)} = {self._number(kind, axis, group)};")
        surplus = self.surplus()
        if surplus:
            self.line(f"if ({surplus}) {{")
            self.line("    return;")
            self.line("}")

    def _number(self, kind: str, axis: int, group: str) -> str:
        letter, size = AXES[axis], self.kernel.workgroup[axis]
        whole = "i64(u64({}))" if self.index == "i64" else "i32({})"
        if kind == "num_groups":
            return whole.format(f"params.num_groups_{letter}")
        local = whole.format(f"local_id.{letter}")
        if kind == "local":
            return local
        first = whole.format(f"{group}.{letter}")
        if kind == "group" or size == 1:
            return first
        return f"{first} * {self.constant(size, self.kernel.index_dtype).text} + {local}"

    @override
    def name_of(self, kind: str, buffer: str, axis: int) -> str:
        """Locals for launch numbers; members of the struct for what comes with the launch."""
        key = f"{kind} {buffer} {axis}"
        if key not in self.names:
            which = "" if axis < 0 else f"_{axis}" if buffer else f"_{AXES[axis]}"
            self.names[key] = self.fresh(f"{self.name(buffer)}_{kind}{which}" if buffer else f"{kind}{which}")
        return self.names[key]

    def _parameter(self, name: str, dtype: DType) -> Code:
        if dtype is bool_:
            return Code(f"params.{name} != 0u", LOOSE)
        return Code(name if dtype.bits == 64 else f"params.{name}")

    @override
    def threads(self, axis: int) -> Code:
        code = super().threads(axis)
        known = self.kernel.threads is not None and self.kernel.threads[axis] is not None
        return code if known else self._parameter(code.text, self.kernel.index_dtype)

    @override
    def extent(self, array: BufferParam | Alloc, axis: int) -> Code:
        code = super().extent(array, axis)
        return code if array.shape[axis] is not None else self._parameter(code.text, self.kernel.index_dtype)

    @override
    def stride(self, array: BufferParam | Alloc, axis: int) -> Code | int:
        stride = super().stride(array, axis)
        return self._parameter(stride.text, self.kernel.index_dtype) if isinstance(stride, Code) else stride

    @override
    def variable(self, var: Var) -> Code:
        code = super().variable(var)
        return self._parameter(code.text, var.dtype) if self._is_scalar(var.name) else code

    def _is_scalar(self, name: str) -> bool:
        return any(param.name == name for param in self.kernel.params)

    # --- locals ---

    @override
    def declaration(self, name: str, dtype: DType, mutable: bool) -> str:
        return f"{'var' if mutable else 'let'} {name}"

    # --- memory ---

    @override
    def flat(self, array: BufferParam | Alloc, indices: Sequence[Code]) -> Code:
        """The number of an element, in i32; terms that are known are added up here, wrapped as the sum would be."""
        parts: list[Code] = []
        known = 0
        for axis, index in enumerate(indices):
            stride = self.stride(array, axis)
            if isinstance(stride, int) and (index.value is not None or stride == 0):
                known += (index.value or 0) * stride
                continue
            index = converted(index, "i32") if self.kernel.index_dtype is i64 else index
            if stride == 1:
                parts.append(index)
                continue
            step = literal(stride, "i32") if isinstance(stride, int) else converted(stride, "i32")
            step = stride if isinstance(stride, Code) and self.kernel.index_dtype is not i64 else step
            parts.append(Code(f"{index.at(PRODUCT)} * {step.at(UNARY)}", PRODUCT))
        known = (known + 2**31) % 2**32 - 2**31
        if known or not parts:
            parts.append(literal(known, "i32"))
        if len(parts) == 1:
            return parts[0]
        first, *rest = parts
        return Code(" + ".join([first.at(SUM), *(part.at(PRODUCT) for part in rest)]), SUM)

    def _element_at(self, array: BufferParam | Alloc, flat: Code) -> str:
        """An element of 32 or 64 bits."""
        if not isinstance(array, BufferParam):
            return f"{self.name(array.name)}[{flat.text}]"
        first = f"params.{self.name_of('first', array.name, -1)}"
        rest = "" if flat.text == "0" else f" + {flat.at(PRODUCT)}"
        return f"{self.name(array.name)}[{first}{rest}]"

    @override
    def load(self, array: BufferParam | Alloc, flat: Code) -> Code:
        dtype = array.dtype
        if self._packed(array):
            name = self.name(array.name)
            first, atomic = f"params.{self.name_of('first', array.name, -1)}", array.name in self.atomics
            text = helpers.narrow_load(f"load_{name}", name, dtype, first, atomic)
            return Code(f"{self.helper(f'load_{name}', text)}({flat.text})")
        place = self._element_at(array, flat)
        if array.name in self.atomics:
            loaded = f"atomicLoad(&{place})"
            return Code(f"bitcast<{type_of(dtype)}>({loaded})" if dtype.is_float else loaded)
        return Code(f"{place} != 0u", LOOSE) if dtype is bool_ else Code(place)

    @override
    def store(self, array: BufferParam | Alloc, flat: Code, value: Code) -> None:
        dtype = array.dtype
        if self._packed(array):
            name = self.name(array.name)
            text = helpers.narrow_store(f"store_{name}", name, dtype, f"params.{self.name_of('first', array.name, -1)}")
            self.line(f"{self.helper(f'store_{name}', text)}({flat.text}, {value.text});")
            return
        place = self._element_at(array, flat)
        if array.name in self.atomics:
            bits = f"bitcast<{self._element(array)}>({value.text})" if dtype.is_float else value.text
            self.line(f"atomicStore(&{place}, {bits});")
        else:
            self.line(f"{place} = {f'u32({value.text})' if dtype is bool_ else value.text};")

    @override
    def alloc(self, stmt: Alloc) -> None:
        if stmt.space == "private":
            self.line(f"var {self.name(stmt.name)}: array<{self._element(stmt)}, {math.prod(stmt.shape)}>;")

    @override
    def atomic(self, stmt: Atomic, array: BufferParam | Alloc, flat: Code, value: Code, compare: Code | None) -> str:
        dtype, name = array.dtype, self.name(array.name)
        if dtype.bits == 64 and not self.target.has("int64_atomics"):
            raise self.unsupported(f"atomic {stmt.op} on {dtype}", "the adapter has no 64-bit atomics", stmt.where)
        place = self._element_at(array, flat)
        if stmt.op == "add" and dtype.is_float and not self.opaque(stmt.value):
            value = self.fence(value, dtype)
        if stmt.op == "compare_exchange" or (stmt.op == "add" and dtype.is_float):
            key = f"atomic_{stmt.op}_{name}"
            function = self.helper(
                key, helpers.atomic_function(key, self._element_at(array, Code("element_number")), dtype, stmt.op)
            )
            operands = value.text if compare is None else f"{compare.text}, {value.text}"
            return f"{function}({flat.text}, {operands})"
        if not dtype.is_float:
            return f"{_CALLS[stmt.op]}(&{place}, {value.text})"
        bits = f"{_CALLS[stmt.op]}(&{place}, bitcast<{self._element(array)}>({value.text}))"
        return bits if stmt.result is None else f"bitcast<{dtype.name}>({bits})"

    # --- work-groups, faults, loops ---

    @override
    def collective(self, expr: Collective) -> str:
        dtype, count = expr.dtype, self.kernel.group_invocations
        value = self.expr(expr.arg)
        kind = "u32" if dtype is bool_ else type_of(dtype)
        self.scratch[kind] = count
        scratch = self.name_of(f"scratch_{kind}", "", -1)
        row = {"sum": "add", "scan": "add", "any": "or", "all": "and"}.get(expr.op, expr.op)
        combine = self._combine(row, dtype)
        if expr.op == "scan":
            text = helpers.scan(dtype, scratch, count, combine)
        else:
            text = helpers.reduction(expr.op, dtype, scratch, count, combine)
        return f"{self.helper(f'group_{expr.op}_{dtype.name}', text)}({value.text}, lane)"

    def _combine(self, row: str, dtype: DType) -> str:
        """A binary operation with places for its operands."""
        if dtype is bool_:
            return f"{{}} {'||' if row == 'or' else '&&'} {{}}"
        if row == "add":
            return f"extractBits({{}} + {{}}, 0u, {dtype.bits}u)" if dtype.bits < 32 else "{} + {}"
        if dtype in (f32, f64):
            text = helpers.ordered(dtype, row == "max", self.is_nan(dtype))
            return f"{self.helper(f'{row}_{dtype.name}', text)}({{}}, {{}})"
        return f"{row}({{}}, {{}})"

    @override
    def barrier(self) -> None:
        self.line("workgroupBarrier();")
        if any(buffer.access != "read" for buffer in self.kernel.buffers):
            self.line("storageBarrier();")

    @override
    def outside(self, index: Code, extent: Code) -> str:
        u = "u64" if self.kernel.index_dtype is i64 else "u32"
        return f"{converted(index, u).text} >= {converted(extent, u).text}"

    @override
    def report(self) -> None:
        if self.faults:
            self.line(f"{self.helper('report_fault', REPORT)}();")

    @override
    def fault(self, site: int, axis: int, index: str, extent: str, dtype: DType) -> str:
        name = "record_fault" if dtype is self.kernel.index_dtype else f"record_fault_{dtype}"
        function = self.helper(name, record(name, dtype))
        return f"{function}({site}, {axis}, {index}, {extent});"

    @override
    def bounded_step(self, var: str, stop: Code, step: int, dtype: DType) -> str:
        u = "u64" if dtype.bits == 64 else "u32"
        ahead, behind = converted(stop, u).text, converted(Code(var), u).text
        ahead, behind = (ahead, behind) if step > 0 else (behind, ahead)
        size = f"{abs(step)}{'lu' if u == 'u64' else 'u'}"
        amount = self.constant(abs(step), dtype).text
        there = f"{var} {'+' if step > 0 else '-'} {amount}"
        return f"select({stop.text}, {there}, {ahead} - {behind} > {size})"
