"""What the GPUs of one maker call things in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poot.kernel.ir import Kernel
from poot.kernel.render.gpu_collectives import Collectives
from poot.kernel.render.llvm_emit import Emitter


@dataclass(frozen=True, slots=True)
class Machine:
    """A maker's GPUs: names, and pieces of text that take the threads of a block.

    `convention` is how a kernel is called; `stack` the address space of stack slots; `device` and `group` are the
    scopes of atomics; `static_shared` is the shared memory in bytes that a kernel has without asking for more at its
    launch; `thread` and `block` are the intrinsics of a thread's number and, with the axis' letter, a block's;
    `blocks_along_y` emits how many blocks a launch has there; `attributes` are the kernel's own, `function_metadata`
    stands behind its head, and `metadata` at the module's end, where !0 is taken; `record` is the function that writes
    a fault, in a kernel whose threads meet or not.
    """

    triple: str
    convention: str
    stack: int
    device: str
    group: str
    static_shared: int
    thread: str
    block: str
    blocks_along_y: Callable[[Emitter], str]
    collectives: Callable[[Emitter, Kernel], Collectives]
    attributes: Callable[[int], str]
    function_metadata: str
    metadata: Callable[[int], tuple[str, ...]]
    record: Callable[[bool], str]


def numbered(name: str, past: int) -> str:
    """A call of an intrinsic that gives a number from 0 up to `past`, exclusive."""
    bound = past if past < 1 << 31 else -(1 << 31)
    return f"call range(i32 0, {bound}) i32 @{name}()"
