"""The AMDGCN renderer: a prepared kernel as LLVM IR text for AMD's GPUs, as `gpu.py` writes it.

Code objects are of version 5, whose hidden arguments begin with the numbers of blocks; all shared memory is static.
Waves have 64 lanes, in the order of thread numbers.
"""

from __future__ import annotations

from typing_extensions import override

from poot.dtypes import i32
from poot.kernel.ir import Kernel
from poot.kernel.render import gpu
from poot.kernel.render.gpu_collectives import Collectives
from poot.kernel.render.gpu_faults import record_function
from poot.kernel.render.gpu_machine import Machine, numbered
from poot.kernel.render.llvm_emit import Emitter

_WAVE = 64
_CODE_OBJECT = 500


def render(kernel: Kernel, *, contract: bool = False) -> gpu.GpuSource:
    """LLVM IR of a prepared kernel; `contract` lets a*b + c be one fused operation."""
    return gpu.render(kernel, AMD, contract=contract)


class _Waves(Collectives):
    """Lanes read each other's registers by the byte address 4 * lane; lanes without a thread give 0."""

    def __init__(self, e: Emitter, kernel: Kernel) -> None:
        super().__init__(e, kernel, _WAVE)

    @override
    def barrier(self) -> None:
        # The instruction orders no accesses: the fences around it do.
        self.e.do('fence syncscope("workgroup") release')
        self.e.do("call void @llvm.amdgcn.s.barrier()")
        self.e.do('fence syncscope("workgroup") acquire')

    @override
    def thread(self) -> str:
        return self.e.known(("tid",), numbered(AMD.thread, self.size))

    @override
    def lane(self) -> str:
        if self.size <= _WAVE:
            return self.thread()
        thread = self.thread()
        return self.e.known(("lane",), f"and i32 {thread}, {_WAVE - 1}")

    @override
    def vote(self, op: str, text: str, looping: bool) -> str:
        e = self.e
        if op == "all":  # the lanes without a thread do not object
            text = e.emit(f"xor i1 {text}, true")
        ballot = e.emit(f"call i64 @llvm.amdgcn.ballot.i64(i1 {text})")
        found = e.emit(f"icmp ne i64 {ballot}, 0")
        if self.waves > 1:
            lane = self.lane()
            wide = e.emit(f"zext i1 {found} to i32")
            marks = self.exchange(i32, wide, e.emit(f"icmp eq i32 {lane}, 0"), looping)
            joined = marks[0]
            for mark in marks[1:]:
                joined = e.emit(f"or i32 {joined}, {mark}")
            found = e.emit(f"icmp ne i32 {joined}, 0")
        return found if op == "any" else e.emit(f"xor i1 {found}, true")

    @override
    def word(self, mode: str, text: str, by: str) -> str:
        return self.e.emit(f"call i32 @llvm.amdgcn.ds.bpermute(i32 {self._address(mode, by)}, i32 {text})")

    def _address(self, mode: str, by: str) -> str:
        if mode == "idx":
            return str(4 * int(by))
        lane = self.lane()
        name = {"bfly": "xor", "up": "sub", "down": "add"}[mode]
        other = self.e.known(("other", mode, by), f"{name} i32 {lane}, {by}")
        return self.e.known(("address", other), f"shl i32 {other}, 2")


def _blocks_along_y(e: Emitter) -> str:
    hidden = e.emit("call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()")
    place = e.emit(f"getelementptr inbounds i8, ptr addrspace(4) {hidden}, i64 4")
    return e.emit(f"load i32, ptr addrspace(4) {place}, align 4")


def _attributes(threads: int) -> str:
    return f'nounwind "amdgpu-flat-work-group-size"="{threads},{threads}" "uniform-work-group-size"="true"'


def _metadata(threads: int) -> tuple[str, ...]:
    return (
        f"!1 = !{{i32 {threads}, i32 1, i32 1}}",
        "!llvm.module.flags = !{!2}",
        f'!2 = !{{i32 1, !"amdhsa_code_object_version", i32 {_CODE_OBJECT}}}',
    )


AMD = Machine(
    triple="amdgcn-amd-amdhsa",
    convention="amdgpu_kernel",
    stack=5,
    device="agent",
    group="workgroup",
    static_shared=160 << 10,
    thread="llvm.amdgcn.workitem.id.x",
    block="llvm.amdgcn.workgroup.id.",
    blocks_along_y=_blocks_along_y,
    collectives=_Waves,
    attributes=_attributes,
    function_metadata=" !reqd_work_group_size !1",
    metadata=_metadata,
    record=lambda together: record_function("agent"),
)
