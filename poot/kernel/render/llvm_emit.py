"""What every part of the LLVM renderer shares: typed operands, the text being written, vectors of lanes, masks.

Values are LLVM operands.  A bool is an `i1` in a register and a byte in memory; f16 and bf16 are kept as their bits, in
an `i16`.  A value that is the same for all lanes is a scalar; one that steps evenly from lane to lane is the scalar of
lane 0 and its stride (`Affine`); all others are vectors.  With one lane everything is a scalar.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

import ml_dtypes
import numpy as np

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.errors import SourceLocation
from poot.kernel.render.lines import user_line
from poot.kernel.render.llvm_shared import Shared
from poot.kernel.uniform import UNIFORM, Affine, LaneForm

#: LLVM's type of one element in a register.
REGISTER: dict[DType, str] = {
    bool_: "i1",
    i8: "i8",
    u8: "i8",
    i16: "i16",
    u16: "i16",
    f16: "i16",
    bf16: "i16",
    i32: "i32",
    u32: "i32",
    i64: "i64",
    u64: "i64",
    f32: "float",
    f64: "double",
}
#: LLVM's type of one element in memory.
MEMORY: dict[DType, str] = {**REGISTER, bool_: "i8"}

_SUFFIX = {"float": "f32", "double": "f64"}


class Value(NamedTuple):
    """An operand: `text` is a scalar (that of lane 0 where the form is affine) unless `form` is None.

    Integers may carry bounds that hold for `text` and for every active lane.
    """

    text: str
    dtype: DType
    form: LaneForm = UNIFORM
    low: int | None = None
    high: int | None = None

    @property
    def uniform(self) -> bool:
        return self.form is not None and self.form.stride == 0

    @property
    def constant(self) -> int | None:
        """The value of an integer literal."""
        return self.low if self.low is not None and self.low == self.high and self.uniform else None


def literal(value: bool | int | float, dtype: DType) -> str:
    """The text of a constant of a register type."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype is f16:
        return str(int(np.float16(value).view(np.uint16)))
    if dtype is bf16:
        return str(int(ml_dtypes.bfloat16(value).view(np.uint16)))
    if dtype.is_float:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


def every(t: str, text: str | int) -> str:
    """A literal of a scalar type, or the same in every lane of a vector type."""
    return str(text) if t[0] != "<" else f"splat ({t[t.index('x') + 2 : -1]} {text})"


def zero(t: str) -> str:
    """Zero of a scalar or vector type."""
    if t[0] == "<":
        return "zeroinitializer"
    return "0" if t[0] == "i" else "0.0"


def boolean(t: str) -> str:
    """The type of a comparison of two operands of this type."""
    return "i1" if t[0] != "<" else t[: t.index("x") + 2] + "i1>"


def constant(value: bool | int | float, dtype: DType) -> Value:
    """A literal as a value."""
    if not dtype.is_integer:
        return Value(literal(value, dtype), dtype)
    return Value(literal(value, dtype), dtype, Affine(0, int(value)), int(value), int(value))


class Emitter:
    """The text of one function while it is written, for vectors of `lanes` lanes.

    `mask` is the `<lanes x i1>` operand of the lanes that are active, None where all are; wherever code is emitted at
    least one lane is active.  `contract` makes a sum directly over a product one fused operation.
    """

    def __init__(self, lanes: int, *, contract: bool) -> None:
        self.lanes = lanes
        self.contract = contract
        #: Whether the target has min and max that propagate NaN, and conversions to bfloat, in single instructions.
        self.direct = False
        #: The address space of stack slots.
        self.stack = 0
        #: The blocks that the kernel has several times, where they become functions.
        self.shared: Shared | None = None
        self.entry: list[str] = []
        self.lines: list[str] = []
        #: Nodes of metadata, numbered in order.
        self.metadata: list[str] = []
        self.mask: str | None = None
        self.open = True
        self.block = "entry"
        self.register = REGISTER if lanes == 1 else {d: f"<{lanes} x {t}>" for d, t in REGISTER.items()}
        self.memory = MEMORY if lanes == 1 else {d: f"<{lanes} x {t}>" for d, t in MEMORY.items()}
        self.mask_type = "i1" if lanes == 1 else f"<{lanes} x i1>"
        self.bits_type = f"i{lanes}"
        self.all_lanes = "true" if lanes == 1 else "splat (i1 true)"
        self._count = 0
        self._noted: tuple[str, int] | None = None
        self._plain = ""
        self._known: list[dict[tuple[str, ...], str]] = [{}]
        self._steps: dict[tuple[str, int], str] = {}

    # --- instructions and blocks ---

    def note(self, where: SourceLocation | None) -> None:
        """The user's line as a comment, where it is another than that of the last one."""
        if where is not None and (where.file, where.line) != self._noted:
            self._noted = where.file, where.line
            self.lines.append(f"  ; {user_line(where)}")

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def emit(self, code: str) -> str:
        """Append an instruction; returns the operand that names its result."""
        self._count += 1
        result = f"%v{self._count}"
        self.lines.append(f"  {result} = {code}")
        return result

    def do(self, code: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + code)

    def label(self, name: str) -> None:
        """Start a block; the one before falls into it if it is still open."""
        if self.open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self.open = True
        self.block = name

    def jump(self, name: str) -> None:
        if self.open:
            self.lines.append(f"  br label %{name}")
        self.open = False

    def branch(self, condition: str, then: str, orelse: str, *, rare: bool = False) -> None:
        """End the block; `rare` says that `then` is hardly ever taken."""
        weights = ", !prof !0" if rare else ""
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{orelse}{weights}")
        self.open = False

    def again(self, condition: str, body: str, after: str, *, few: bool = False) -> None:
        """End the last block of a loop, which LLVM may unroll if it makes `few` turns.

        A vector of lanes is several registers as a rule, so that more turns at a time gain little and cost LLVM much.
        """
        kept = f", !llvm.loop {self.loop_node()}" if self.lanes > 1 and not few else ""
        self.lines.append(f"  br i1 {condition}, label %{body}, label %{after}{kept}")
        self.open = False

    def node(self, text: str) -> str:
        """A new node of metadata: the operands of a tuple, in which `!self` is the node itself."""
        name = f"!{len(self.metadata)}"
        distinct = "distinct " if "!self" in text else ""
        self.metadata.append(f"{name} = {distinct}!{{{text.replace('!self', name)}}}")
        return name

    def loop_node(self) -> str:
        """A node for a loop that is not to be unrolled."""
        if not self._plain:
            self._plain = self.node('!"llvm.loop.unroll.disable"')
        return self.node(f"!self, {self._plain}")

    def cell(self, llvm_type: str, align: int | None = None) -> str:
        """A stack slot that lives as long as the function."""
        self._count += 1
        cell = f"%c{self._count}"
        aligned = f", align {align}" if align else ""
        space = f", addrspace({self.stack})" if self.stack else ""
        self.entry.append(f"  {cell} = alloca {llvm_type}{aligned}{space}")
        return cell

    @property
    def stack_pointer(self) -> str:
        """The type of a pointer to a stack slot."""
        return f"ptr addrspace({self.stack})" if self.stack else "ptr"

    @contextmanager
    def scope(self) -> Generator[None]:
        """Code that does not dominate what follows: splats made inside are forgotten afterwards."""
        self.push()
        try:
            yield
        finally:
            self.pop()

    def push(self) -> None:
        """Begin such a scope."""
        self._known.append({})

    def pop(self) -> None:
        """End it."""
        self._known.pop()

    def known(self, key: tuple[str, ...], code: str) -> str:
        """The result of a pure instruction, emitted once in this scope and those around it."""
        for scope in self._known:
            if key in scope:
                return scope[key]
        result = self._known[-1][key] = self.emit(code)
        return result

    def remember(self, key: tuple[str, ...], text: str) -> None:
        """State that `known` has this result already."""
        self._known[-1][key] = text

    # --- types ---

    def type(self, value: Value) -> str:
        """The LLVM type of an operand."""
        return self.register[value.dtype] if value.form is None else REGISTER[value.dtype]

    def suffix(self, llvm_type: str) -> str:
        """The mangling of a scalar or vector type in an intrinsic's name."""
        if llvm_type.startswith("<"):
            count, _, element = llvm_type[1:-1].partition(" x ")
            return f"v{count}{_SUFFIX.get(element, element)}"
        return _SUFFIX.get(llvm_type, llvm_type)

    def intrinsic(self, name: str, llvm_type: str, *operands: str) -> str:
        """Call `llvm.<name>` on operands of one type, which is the result's too."""
        arguments = ", ".join(f"{llvm_type} {operand}" for operand in operands)
        return self.emit(f"call {llvm_type} @llvm.{name}.{self.suffix(llvm_type)}({arguments})")

    # --- vectors ---

    def splat(self, text: str, element: str) -> str:
        """A scalar operand in every lane."""
        if self.lanes == 1:
            return text
        if not text.startswith("%"):
            return f"splat ({element} {text})"
        vector = f"<{self.lanes} x {element}>"
        first = self.known(("first", element, text), f"insertelement {vector} poison, {element} {text}, i64 0")
        return self.known(
            ("splat", element, text),
            f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer",
        )

    def steps(self, element: str, stride: int) -> str:
        """The constant vector 0, stride, 2 stride …"""
        key = element, stride
        if key not in self._steps:
            bits = int(element[1:])
            numbers = ", ".join(f"{element} {_wrapped(lane * stride, bits)}" for lane in range(self.lanes))
            self._steps[key] = f"<{numbers}>"
        return self._steps[key]

    def vector(self, value: Value) -> str:
        """The operand with one element a lane."""
        if value.form is None or self.lanes == 1:
            return value.text
        element = REGISTER[value.dtype]
        splat = self.splat(value.text, element)
        if value.form.stride == 0:
            return splat
        steps = self.steps(element, value.form.stride)
        key = "affine", element, value.text, str(value.form.stride)
        return self.known(key, f"add <{self.lanes} x {element}> {splat}, {steps}")

    def lane(self, text: str, llvm_type: str, lane: str) -> str:
        """One element of a vector operand; `lane` is an i32."""
        if self.lanes == 1:
            return text
        return self.emit(f"extractelement {llvm_type} {text}, i32 {lane}")

    # --- masks ---

    def active(self) -> str:
        """The mask as an operand, also where all lanes are active."""
        return self.mask or self.all_lanes

    def both(self, a: str | None, b: str | None) -> str | None:
        """The intersection of two masks."""
        if a is None or b is None or a == b:
            return a or b
        return self.known(("and", a, b), f"and {self.mask_type} {a}, {b}")

    def without(self, mask: str) -> str:
        """The active lanes that are not in `mask`."""
        others = self.known(("not", mask), f"xor {self.mask_type} {mask}, {self.all_lanes}")
        return self.both(self.mask, others) or others

    def bits(self, mask: str) -> str:
        """A mask as an integer, lane 0 lowest."""
        return self.known(("bits", mask), f"bitcast {self.mask_type} {mask} to {self.bits_type}")

    def any(self, mask: str) -> str:
        """Whether any lane of a mask is set, as an i1."""
        return self.known(("any", mask), f"icmp ne {self.bits_type} {self.bits(mask)}, 0")

    def first_lane(self, mask: str) -> str:
        """The number of the first lane that is set, as an i32; one must be."""
        return self.resized(
            self.emit(f"call {self.bits_type} @llvm.cttz.{self.bits_type}({self.bits_type} {self.bits(mask)}, i1 true)")
        )

    def resized(self, bits: str) -> str:
        """An integer of as many bits as there are lanes, small in value, as an i32."""
        if self.lanes == 32:
            return bits
        return self.emit(f"{'trunc' if self.lanes > 32 else 'zext'} {self.bits_type} {bits} to i32")


def _wrapped(value: int, bits: int) -> int:
    """A number as a signed integer of some width."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def first_outside(e: Emitter, count: int, pair: Callable[[int], tuple[str, str]], first: int) -> tuple[str, str, str]:
    """The first of `count` axes, counted from `first`, whose index is not below its extent: the axis, and both as i64.

    `pair` gives an axis's index and extent; where there is no axis, all three are 0.
    """
    axis, at, end = "0", "0", "0"
    for number in reversed(range(count)):
        index, extent = pair(number)
        if number == count - 1:
            axis, at, end = str(first + number), index, extent
            continue
        past = e.emit(f"icmp uge i64 {index}, {extent}")
        axis = e.emit(f"select i1 {past}, i32 {number}, i32 {axis}")
        at = e.emit(f"select i1 {past}, i64 {index}, i64 {at}")
        end = e.emit(f"select i1 {past}, i64 {extent}, i64 {end}")
    return axis, at, end
