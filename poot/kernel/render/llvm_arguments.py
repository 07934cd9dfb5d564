"""The arguments of a native kernel: slots read once at its start, buffers with their alias scopes, launch numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from poot.dtypes import DType
from poot.kernel.ir import BufferParam, Kernel, Slot, argument_slots
from poot.kernel.render.lines import argument_name
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, Value, constant
from poot.kernel.render.llvm_memory import Array


@dataclass(slots=True)
class Arguments:
    """What the slots hold, as operands; `threads` (None where the launch names groups) and `groups` are i64."""

    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    scalars: dict[str, Value] = field(default_factory=dict[str, Value])
    numbers: dict[tuple[str, int], Value] = field(default_factory=dict[tuple[str, int], Value])
    threads: list[str | None] = field(default_factory=lambda: [None, None, None])
    groups: list[str] = field(default_factory=lambda: ["", "", ""])
    launch: str = ""
    fault: str = ""


def arguments(e: Emitter, kernel: Kernel) -> Arguments:
    """Read every slot at the start of the function."""
    result = Arguments()
    same = e.node("")
    loaded = {slot: _slot(e, number, slot, same) for number, slot in enumerate(argument_slots(kernel))}
    index = kernel.index_dtype
    for slot, text in loaded.items():
        match slot.kind:
            case "scalar":
                result.scalars[slot.param] = Value(text, slot.dtype)
            case "threads":
                result.threads[slot.axis] = _sized(e, text, index)
                result.numbers["threads", slot.axis] = _size(text, index)
            case "num_groups":
                result.groups[slot.axis] = _sized(e, text, index)
                result.numbers["num_groups", slot.axis] = _size(text, index)
            case "launch":
                result.launch = text
            case "fault":
                result.fault = text
            case _:
                pass
    for axis, count in enumerate(kernel.threads or ()):
        if count is not None:
            result.threads[axis] = str(count)
            result.numbers["threads", axis] = constant(count, index)
    for axis, size in enumerate(kernel.workgroup):
        result.numbers["group_size", axis] = constant(size, index)
    _buffers(e, kernel, loaded, result)
    return result


def _slot(e: Emitter, number: int, slot: Slot, same: str) -> str:
    pointer = "%args" if number == 0 else e.emit(f"getelementptr i8, ptr %args, i64 {8 * number}")
    t = "ptr" if slot.kind in ("buffer", "fault") else MEMORY[slot.dtype]
    text = argument_name(slot)
    e.do(f"{text} = load {t}, ptr {pointer}, align 8, !invariant.load {same}")
    if t != "ptr" and t != REGISTER[slot.dtype]:
        return e.emit(f"icmp ne {t} {text}, 0")
    return text


def _size(text: str, dtype: DType) -> Value:
    return Value(text, dtype, low=0, high=int(dtype.max))


def _sized(e: Emitter, text: str, dtype: DType) -> str:
    return text if REGISTER[dtype] == "i64" else e.known(("i64", text), f"sext {REGISTER[dtype]} {text} to i64")


def _buffers(e: Emitter, kernel: Kernel, loaded: dict[Slot, str], result: Arguments) -> None:
    """Buffers never overlap where one of them is written, which their scopes tell LLVM."""
    index, names = kernel.index_dtype, [param.name for param in kernel.buffers]
    domain = e.node("!self")
    scopes = {name: e.node(f"!self, {domain}") for name in names}
    for param in kernel.buffers:
        own = e.node(scopes[param.name])
        others = e.node(", ".join(scope for name, scope in scopes.items() if name != param.name))
        tags = f", !alias.scope {own}, !noalias {others}"
        extents = tuple(
            constant(extent, index)
            if extent is not None
            else _size(loaded[Slot("extent", index, param.name, axis)], index)
            for axis, extent in enumerate(param.shape)
        )
        strides = tuple(
            stride if stride is not None else _sized(e, loaded[Slot("stride", index, param.name, axis)], index)
            for axis, stride in enumerate(param.strides)
        )
        base = loaded[Slot("buffer", param.dtype, param.name)]
        narrow = span(param) < 1 << 31
        result.arrays[param.name] = Array(param.name, param.dtype, base, extents, strides, tags, narrow=narrow)


def span(param: BufferParam) -> int:
    """The greatest distance between two elements, 2^31 where it is only known at launch."""
    total = 0
    for extent, stride in zip(param.shape, param.strides, strict=True):
        if extent is None or stride is None:
            return 1 << 31
        total += max(extent - 1, 0) * abs(stride)
    return total
