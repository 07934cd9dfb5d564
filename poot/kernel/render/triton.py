"""The Triton renderer: a prepared kernel as Python source for Triton, a work-group held as one block of lanes.

    source = render(kernel)
    source.text      # a module that defines one `@triton.jit` function, source.symbol
    source.signature # its parameters' types, as Triton writes them, in the order of `argument_slots`

The lanes are the work-group, padded to a power of two; what is the same for all of them is a scalar.  Every loop and
branch of the text is taken by all lanes together, and masks say which of them take part.  Kernels with shared arrays,
barriers or arrays indexed by a thread's own values are Unsupported: other languages take those.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from poot.dtypes import bool_, i32
from poot.errors import Unsupported
from poot.kernel.ir import (
    Alloc,
    Atomic,
    BufferParam,
    For,
    Kernel,
    Let,
    Return,
    ScalarParam,
    Slot,
    Stmt,
    argument_slots,
    blocks,
    walk,
)
from poot.kernel.render.ptx import folds
from poot.kernel.render.triton_expr import Buffer, Expressions
from poot.kernel.render.triton_flow import Flow
from poot.kernel.render.triton_helpers import HELPERS, needed
from poot.kernel.render.triton_kinds import Kinds
from poot.kernel.render.triton_ops import Spelling, Term, literal
from poot.kernel.render.triton_text import Mask, Writer

_AXES = "xyz"
_POINTERS = {"bool": "*u8", "f16": "*fp16", "f32": "*fp32", "f64": "*fp64"}
_SCALARS = {"bool": "u8", "f16": "fp16", "f32": "fp32", "f64": "fp64"}
#: Elements of a private array that are still named one by one.
_NAMED = 256
_HEAD = "import triton\nimport triton.language as tl\n"


@dataclass(frozen=True, slots=True)
class TritonSource:
    """A rendered kernel: the module's text, its function, parameter types, aligned parameters, and warps a block."""

    text: str
    symbol: str
    slots: tuple[Slot, ...]
    signature: tuple[tuple[str, str], ...]
    aligned: tuple[int, ...]
    warps: int


def render(kernel: Kernel, *, target: str = "triton", contract: bool = False) -> TritonSource:
    """Triton source of a prepared kernel; Unsupported where Triton cannot express it.

    `target` names it in errors; `contract` makes a sum directly over a product one fused operation.
    """
    return _Writer(kernel, Spelling(target, contract)).source()


class _Writer:
    """Writes the function of one kernel."""

    def __init__(self, kernel: Kernel, spelling: Spelling) -> None:
        self.kernel = kernel
        self.spelling = spelling
        self.lanes = kernel.group_invocations
        self.size = 1 << max(self.lanes - 1, 0).bit_length()
        self.symbol = re.sub(r"\W", "_", f"poot_{kernel.name}", flags=re.ASCII)
        nodes = walk(kernel.body)
        own = [param.name for param in kernel.params]
        for node in nodes:
            if isinstance(node, Let):
                own.append(node.name)
            elif isinstance(node, For):
                own.append(node.var)
            elif isinstance(node, Atomic) and node.result is not None:
                own.append(node.result)
        self.w = Writer(self.spelling, [self.symbol, *own])
        self.returns = any(isinstance(node, Return) for node in nodes)
        self.allocs = [node for node in nodes if isinstance(node, Alloc)]
        self.numbers: dict[tuple[str, int], Term] = {}

    def source(self) -> TritonSource:
        kernel, w = self.kernel, self.w
        slots = argument_slots(kernel)
        parameters = [self._parameter(slot) for slot in slots]
        w.take(".lanes", "lanes")
        self._private()
        buffers = {param.name: self._buffer(param) for param in kernel.buffers}
        self._launch()
        kinds = Kinds(kernel)
        values = Expressions(w, kernel, kinds, self.size, buffers, self.numbers)
        for param in kernel.params:
            if isinstance(param, ScalarParam) and param.dtype is bool_:
                values.scalars[param.name] = Term(w.bind("flag", f"{w.name(param.name)} != 0"), bool_)
        alive = self._alive()
        w.mask = alive or w.mask
        Flow(w, values, alive).block(_ending(kernel.body))
        types = tuple((name, self._type(slot)) for name, slot in zip(parameters, slots, strict=True))
        aligned = tuple(
            number for number, slot in enumerate(slots) if slot.kind == "buffer" and _aligned(kernel, slot.param)
        )
        helpers = [f"@triton.jit\n{HELPERS[name]}" for name in needed(self.spelling.used)]
        body = "\n".join(w.lines) or "    pass"
        main = f"@triton.jit\ndef {self.symbol}({', '.join(parameters)}):\n{body}\n"
        text = "\n\n".join([_HEAD, *helpers, main])
        return TritonSource(text, self.symbol, slots, types, aligned, _warps(self.size))

    # --- parameters ---

    def _parameter(self, slot: Slot) -> str:
        w = self.w
        match slot.kind:
            case "buffer" | "scalar":
                return w.name(slot.param)
            case "extent" | "stride":
                return w.take(f"{slot.param}.{slot.kind}{slot.axis}", f"{slot.param}_{slot.kind}{slot.axis}")
            case "threads" | "num_groups":
                return w.take(f".{slot.kind}{slot.axis}", f"{slot.kind}_{_AXES[slot.axis]}")
            case _:
                return w.take(f".{slot.kind}", slot.kind)

    def _type(self, slot: Slot) -> str:
        name = slot.dtype.name
        if slot.kind == "fault":
            return "*i32"
        if slot.kind == "buffer":
            return _POINTERS.get(name, f"*{name}")
        return _SCALARS.get(name, name)

    def _buffer(self, param: BufferParam) -> Buffer:
        w, index = self.w, self.kernel.index_dtype
        extents = tuple(
            literal(extent, index) if extent is not None else Term(w.name(f"{param.name}.extent{axis}"), index)
            for axis, extent in enumerate(param.shape)
        )
        strides = tuple(
            literal(stride, index) if stride is not None else Term(w.name(f"{param.name}.stride{axis}"), index)
            for axis, stride in enumerate(param.strides)
        )
        return Buffer(param, extents, strides, _narrow(param))

    def _private(self) -> None:
        for node in self.allocs:
            if node.space != "private":
                continue
            count = math.prod(node.shape)
            if count > _NAMED:
                raise Unsupported(
                    what=f"kernel {self.kernel.name}: private array `{node.name}` of {count} elements",
                    target=self.spelling.target,
                    message=f"Triton has no arrays of a thread, and more than {_NAMED} are not named one by one",
                    where=node.where,
                )
            for number in range(count):
                self.w.take(f"{node.name}[{number}]", f"{node.name}_{number}")

    # --- numbers of the launch ---

    def _launch(self) -> None:
        kernel, w, index = self.kernel, self.w, self.kernel.index_dtype
        for axis in range(3):
            self.numbers["group_size", axis] = literal(kernel.workgroup[axis], index)
            self.numbers["num_groups", axis] = Term(w.name(f".num_groups{axis}"), index)
            if kernel.threads is not None:
                count = kernel.threads[axis]
                self.numbers["threads", axis] = (
                    literal(count, index) if count is not None else Term(w.name(f".threads{axis}"), index)
                )
        w.line(f"{w.name('.lanes')} = tl.arange(0, {self.size})")
        groups = [w.bind(f"group_{letter}", f"tl.program_id({axis})") for axis, letter in enumerate(_AXES)]
        if folds(kernel):
            self._unfold(groups)
        bounds: list[str] = [f"{w.name('.lanes')} < {self.lanes}"] if self.lanes != self.size else []
        for axis in range(3):
            bounds += self._axis(axis, groups[axis])
        if bounds:
            text = " & ".join(f"({bound})" for bound in bounds) if len(bounds) > 1 else bounds[0]
            w.mask = Mask(w.bind("active", text), True, some=True)

    def _unfold(self, groups: list[str]) -> None:
        """Undo what the device does with more blocks along y or z than a grid can have."""
        w, (_, y, z) = self.w, groups
        wide, deep = (f"{w.name(f'.num_groups{axis}')}.to(tl.int32)" for axis in (1, 2))
        with w.nested(f"if tl.num_programs(1) != {wide}:"):
            linear = w.bind("linear", f"({z}.to(tl.int64) * tl.num_programs(1) + {y})")
            w.line(f"{y} = (linear % {wide}).to(tl.int32)".replace("linear", linear))
            w.line(f"{z} = (linear // {wide}).to(tl.int32)".replace("linear", linear))
        with w.nested(f"if {z} >= {deep}:"):
            w.line("return")

    def _axis(self, axis: int, group: str) -> list[str]:
        """The numbers of one axis; gives the condition for lanes to be inside the grid, if there need be one."""
        kernel, w, letter = self.kernel, self.w, _AXES[axis]
        index, size = kernel.index_dtype, kernel.workgroup[axis]
        x, y, _ = kernel.workgroup
        wide = "" if index is i32 else ".to(tl.int64)"
        if wide:
            w.line(f"{group} = {group}{wide}")
        self.numbers["group", axis] = Term(group, index)
        if size == 1:
            self.numbers["local", axis] = literal(0, index)
            self.numbers["thread", axis] = Term(group, index)
            return []
        below = (1, x, x * y)[axis]
        text = w.name(".lanes") if below == 1 else f"({w.name('.lanes')} // {below})"
        if below * size != self.lanes:
            text = f"({text} % {size})"
        local = w.bind(f"local_{letter}", f"{text}{wide}")
        thread = w.bind(f"thread_{letter}", f"{group} * {size} + {local}")
        self.numbers["local", axis] = Term(local, index, True)
        self.numbers["thread", axis] = Term(thread, index, True)
        if kernel.threads is None:
            return []
        count = kernel.threads[axis]
        if count is not None and count % size == 0:
            return []
        return [f"{thread} < {count if count is not None else w.name(f'.threads{axis}')}"]

    def _alive(self) -> Mask | None:
        """The mask of lanes that have not returned."""
        if not self.returns:
            return None
        w, mask = self.w, self.w.mask
        text = f"tl.full(({self.size},), True, tl.int1)" if mask is None else mask.text
        return Mask(w.bind("alive", text), True)


def _ending(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body without a return at its end, which changes nothing."""
    return body[:-1] if body and isinstance(body[-1], Return) and not blocks(body[-1]) else body


def _narrow(param: BufferParam) -> bool:
    """Whether the distance between any two elements fits 32 bits."""
    total = 0
    for extent, stride in zip(param.shape, param.strides, strict=True):
        if extent is None or stride is None:
            return False
        total += max(extent - 1, 0) * abs(stride)
    return total < 1 << 31


def _aligned(kernel: Kernel, name: str) -> bool:
    param = kernel.param(name)
    return isinstance(param, BufferParam) and param.align % 16 == 0


def _warps(size: int) -> int:
    """Four lanes a thread where there are enough, so that accesses of 32-bit elements are 128 bits wide."""
    return min(8, max(1, size // 128))
