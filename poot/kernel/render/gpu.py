"""A prepared kernel as LLVM IR text for GPUs, one lane one thread, real branches.

    source = render(kernel, machine)
    source.text      # a module that defines one kernel, source.symbol, with one parameter a slot

What NVIDIA's GPUs and AMD's have different names for is in the machine: see `ptx.py` and `amdgcn.py`.

A block is the work-group, laid out along x alone: `source.threads` threads, whose numbers on each axis are taken apart
by constants.  Grids are launched as (x, y, z) blocks; where y or z may be past 65535 the device may fold those two
axes into others (`folds`), which the kernel sees by the number of blocks along y, and undoes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from poot.dtypes import DType, i32
from poot.kernel.build import contiguous_strides
from poot.kernel.ir import (
    Alloc,
    Assign,
    Barrier,
    BufferParam,
    Collective,
    Index,
    Kernel,
    Slot,
    argument_slots,
    walk,
)
from poot.kernel.render.gpu_body import Body
from poot.kernel.render.gpu_machine import Machine, numbered
from poot.kernel.render.gpu_memory import Memory
from poot.kernel.render.lines import argument_name
from poot.kernel.render.llvm_arguments import span
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, Value, constant

#: What collectives of the largest block take of shared memory beside a kernel's arrays: a word for each wave.
_COMBINED_BYTES = 32 * 8
#: Blocks on the y and z axes of a grid.
GRID_YZ = 65535

_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class GpuSource:
    """A rendered kernel: the module's text, the function's name, its slots, and what a launch of it needs."""

    text: str
    symbol: str
    slots: tuple[Slot, ...]
    threads: int
    dynamic_shared: int


def render(kernel: Kernel, machine: Machine, *, contract: bool) -> GpuSource:
    """LLVM IR of a prepared kernel; `contract` lets a*b + c be one fused operation."""
    writer = _Writer(kernel, machine, contract)
    return GpuSource(
        writer.module(), writer.symbol, argument_slots(kernel), kernel.group_invocations, writer.dynamic_shared
    )


def folds(kernel: Kernel) -> bool:
    """Whether a grid of this kernel may need more blocks along y or z than there can be."""
    if kernel.threads is None:
        return True
    counts = zip(kernel.threads[1:], kernel.workgroup[1:], strict=True)
    return any(threads is None or -(-threads // size) > GRID_YZ for threads, size in counts)


class _Writer:
    """Writes the function of one kernel."""

    def __init__(self, kernel: Kernel, machine: Machine, contract: bool) -> None:
        self.kernel = kernel
        self.machine = machine
        self.symbol = re.sub(r"\W", "_", f"poot_{kernel.name}", flags=re.ASCII)
        self.e = Emitter(1, contract=contract)
        self.e.direct = True
        self.e.stack = machine.stack
        nodes = walk(kernel.body)
        self.together = any(isinstance(node, (Barrier, Collective)) for node in nodes)
        self.used = {(node.kind, node.axis) for node in nodes if isinstance(node, Index) and not node.buffer}
        self.allocs = [node for node in nodes if isinstance(node, Alloc)]
        self.assigned = frozenset(node.name for node in nodes if isinstance(node, Assign))
        self.globals: list[str] = []
        self.dynamic_shared = 0
        self.numbers: dict[tuple[str, int], Value] = {}

    # --- the module ---

    def module(self) -> str:
        e, kernel, machine = self.e, self.kernel, self.machine
        parameters = [self._parameter(slot) for slot in argument_slots(kernel)]
        arrays = self._buffers()
        self._arrays(arrays)
        end = "end"
        self._launch(end)
        collectives = machine.collectives(e, kernel)
        body = Body(e, kernel, collectives, arrays, self.numbers, self._scalars(), self.assigned, end)
        body.block(kernel.body)
        e.label(end)
        e.do("ret void")
        self.globals += body.globals
        threads = kernel.group_invocations
        head = f"define {machine.convention} void @{self.symbol}({', '.join(parameters)}) #0"
        lines = [
            f"; {self.kernel.name}: {threads} threads a block",
            f'target triple = "{machine.triple}"',
            "",
            *self.globals,
            *([""] if self.globals else []),
            f"{head}{machine.function_metadata} {{",
            "entry:",
            *e.entry,
            *e.lines,
            "}",
            "",
            *([machine.record(self.together)] if body.faults.used else []),
            f"attributes #0 = {{ {machine.attributes(threads)} }}",
            "attributes #1 = { nounwind alwaysinline }",
            '!0 = !{!"branch_weights", i32 1, i32 1048576}',
            *machine.metadata(threads),
        ]
        text = "\n".join(lines) + "\n"
        return text + _declarations(text)

    def _parameter(self, slot: Slot) -> str:
        name = argument_name(slot)
        if slot.kind == "fault":
            return f"ptr addrspace(1) {name}"
        if slot.kind != "buffer":
            return f"{MEMORY[slot.dtype]} {name}"
        param = self.kernel.param(slot.param)
        assert isinstance(param, BufferParam)
        # A barrier lets other threads' writes be seen, which "noalias" would deny of a buffer that is written.
        alone = " noalias" if param.access == "read" or not self.together else ""
        access = " readonly" if param.access == "read" else ""
        align = max(param.align, slot.dtype.itemsize)
        return f"ptr addrspace(1){alone}{access} align {align} {name}"

    def _scalars(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for slot in argument_slots(self.kernel):
            if slot.kind == "scalar":
                t, name = MEMORY[slot.dtype], argument_name(slot)
                text = name if t == REGISTER[slot.dtype] else self.e.emit(f"icmp ne {t} {name}, 0")
                found[slot.param] = Value(text, slot.dtype)
        return found

    # --- arrays ---

    def _buffers(self) -> dict[str, Memory]:
        kernel = self.kernel
        index = kernel.index_dtype
        arrays: dict[str, Memory] = {}
        for param in kernel.buffers:
            extents = tuple(
                constant(extent, index)
                if extent is not None
                else Value(argument_name(Slot("extent", index, param.name, axis)), index, low=0, high=int(index.max))
                for axis, extent in enumerate(param.shape)
            )
            strides = tuple(
                stride if stride is not None else argument_name(Slot("stride", index, param.name, axis))
                for axis, stride in enumerate(param.strides)
            )
            base = argument_name(Slot("buffer", param.dtype, param.name))
            narrow = span(param) < 1 << 31
            scope = self.machine.device
            arrays[param.name] = Memory(param.name, param.dtype, base, extents, strides, index, 1, narrow, scope)
        return arrays

    def _arrays(self, arrays: dict[str, Memory]) -> None:
        """Shared arrays as globals of the block, private ones on the stack of a thread."""
        shared = [node for node in self.allocs if node.space == "shared"]
        total = sum(_padded(_bytes(node)) for node in shared)
        if total and total + _COMBINED_BYTES > self.machine.static_shared:
            self.dynamic_shared = total
            self.globals.append(f"@{self.symbol}_shared = external addrspace(3) global [0 x i8], align 16")
        place = 0
        for node in self.allocs:
            count, element = math.prod(node.shape), MEMORY[node.dtype]
            if node.space == "private":
                base, space = self.e.cell(f"[{count} x {element}]", align=16), self.machine.stack
            elif self.dynamic_shared:
                whole = f"ptr addrspace(3) @{self.symbol}_shared"
                base, space = self.e.emit(f"getelementptr inbounds i8, {whole}, i32 {place}"), 3
            else:
                base, space = f"@{self.symbol}_{node.name}", 3
                kind = "internal addrspace(3) global"
                self.globals.append(f"{base} = {kind} [{count} x {element}] undef, align 16")
            place += _padded(_bytes(node)) if node.space == "shared" else 0
            dtype = self.kernel.index_dtype
            extents = tuple(constant(extent, dtype) for extent in node.shape)
            strides = tuple(stride or 0 for stride in contiguous_strides(node.shape))
            scope = self.machine.group if node.space == "shared" else self.machine.device
            arrays[node.name] = Memory(node.name, node.dtype, base, extents, strides, dtype, space, True, scope)

    # --- numbers of the launch ---

    def _launch(self, end: str) -> None:
        """The thread's numbers, and the way out for threads past the grid's end."""
        kernel, e = self.kernel, self.e
        index = kernel.index_dtype
        slots = {(slot.kind, slot.axis): argument_name(slot) for slot in argument_slots(kernel) if not slot.param}
        for axis in range(3):
            self.numbers["group_size", axis] = constant(kernel.workgroup[axis], index)
            self.numbers["num_groups", axis] = Value(slots["num_groups", axis], index, low=0, high=int(index.max))
            if kernel.threads is not None:
                count = kernel.threads[axis]
                known = count is not None
                self.numbers["threads", axis] = (
                    constant(count, index) if known else Value(slots["threads", axis], index, low=0)
                )
        self.numbers["launch", 0] = Value(slots["launch", 0], i32)
        self.numbers["fault", 0] = Value(slots["fault", 0], i32)
        groups = self._groups(end)
        inside = ""
        for axis in range(3):
            bounded = self._bounded(axis)
            wanted = {kind for kind, a in self.used if a == axis}
            if not (bounded or wanted & {"thread", "local", "group"}):
                continue
            local = self._local(axis)
            self.numbers["local", axis] = local
            self.numbers["group", axis] = groups[axis]
            thread = self._thread(axis, groups[axis], local)
            self.numbers["thread", axis] = thread
            if bounded:
                t = REGISTER[index]
                ok = e.emit(f"icmp slt {t} {thread.text}, {self.numbers['threads', axis].text}")
                inside = e.emit(f"and i1 {inside}, {ok}") if inside else ok
        if inside:
            active = e.name("active")
            e.branch(inside, active, end)
            e.label(active)

    def _bounded(self, axis: int) -> bool:
        """Whether a last group may stick out of the grid."""
        if self.kernel.threads is None or self.kernel.workgroup[axis] == 1:
            return False
        count = self.kernel.threads[axis]
        return count is None or count % self.kernel.workgroup[axis] != 0

    def _thread(self, axis: int, group: Value, local: Value) -> Value:
        kernel, e = self.kernel, self.e
        t, size = REGISTER[kernel.index_dtype], kernel.workgroup[axis]
        first = group.text if size == 1 else e.emit(f"mul nuw nsw {t} {group.text}, {size}")
        text = first if size == 1 else e.emit(f"add nuw nsw {t} {first}, {local.text}")
        count = None if kernel.threads is None else kernel.threads[axis]
        high = int(kernel.index_dtype.max) if count is None else -(-count // size) * size - 1
        return Value(text, kernel.index_dtype, low=0, high=max(high, 0))

    def _local(self, axis: int) -> Value:
        """A thread's number in its group along one axis, from its number in the block."""
        x, y, z = self.kernel.workgroup
        size = (x, y, z)[axis]
        if size == 1:
            return constant(0, self.kernel.index_dtype)
        e = self.e
        number = e.known(("tid",), numbered(self.machine.thread, x * y * z))
        below = (1, x, x * y)[axis]
        text = number if below == 1 else e.emit(f"udiv i32 {number}, {below}")
        if size * below != x * y * z:
            text = e.emit(f"urem i32 {text}, {size}")
        return self._indexed(text, size - 1)

    def _groups(self, end: str) -> list[Value]:
        """The group's number on each axis; folded grids are unfolded, and surplus blocks leave."""
        e, kernel = self.e, self.kernel
        block = self.machine.block
        numbers = [e.emit(numbered(block + axis, 1 << 31 if axis == "x" else GRID_YZ + 1)) for axis in _AXES]
        if folds(kernel):
            numbers[1:] = self._unfolded(numbers[1], numbers[2], end)
        return [self._indexed(number, (1 << 31) - 1) for number in numbers]

    def _unfolded(self, y: str, z: str, end: str) -> list[str]:
        e, t = self.e, REGISTER[self.kernel.index_dtype]
        counts = [self.numbers["num_groups", axis].text for axis in (1, 2)]
        if t == "i64":
            counts = [e.emit(f"trunc i64 {count} to i32") for count in counts]
        width = self.machine.blocks_along_y(e)
        folded, plain, unfold = e.emit(f"icmp ne i32 {width}, {counts[0]}"), e.name("plain"), e.name("folded")
        start = e.block
        e.branch(folded, unfold, plain, rare=True)
        e.label(unfold)
        rows = e.emit(f"mul nuw i32 {z}, {width}")
        linear = e.emit(f"add nuw i32 {rows}, {y}")
        inner = e.emit(f"urem i32 {linear}, {counts[0]}")
        outer = e.emit(f"udiv i32 {linear}, {counts[0]}")
        past = e.emit(f"icmp uge i32 {outer}, {counts[1]}")
        e.branch(past, end, plain)
        e.label(plain)
        return [e.emit(f"phi i32 [ {a}, %{start} ], [ {b}, %{unfold} ]") for a, b in ((y, inner), (z, outer))]

    def _indexed(self, text: str, high: int) -> Value:
        """A number of the launch in the index dtype."""
        dtype: DType = self.kernel.index_dtype
        if REGISTER[dtype] == "i64":
            text = self.e.emit(f"zext i32 {text} to i64")
        return Value(text, dtype, low=0, high=high)


def _bytes(node: Alloc) -> int:
    return math.prod(node.shape) * node.dtype.itemsize


def _padded(nbytes: int) -> int:
    return -(-nbytes // 16) * 16


_CALL = re.compile(
    r"call (?:range\(i32 [-\d]+, [-\d]+\) )?(\{[^}]*\}|\w+(?: addrspace\(\d\))?) @(llvm\.[\w.]+)\(([^)]*)\)"
)


def _declarations(text: str) -> str:
    """A declaration of every intrinsic that the text calls."""
    found: dict[str, str] = {}
    for result, name, arguments in _CALL.findall(text):
        types = ", ".join(argument.split()[0] for argument in arguments.split(", ") if argument)
        found[name] = f"declare {result} @{name}({types})"
    return "\n" + "\n".join(found[name] for name in sorted(found)) + "\n" if found else ""
