"""The PTX renderer: a prepared kernel as LLVM IR text for NVPTX, as `gpu.py` writes it.

Arrays up to 48 KiB of shared memory are static; past that they lie in one dynamic array of `source.dynamic_shared`
bytes, which the launch asks for.
"""

from __future__ import annotations

from typing_extensions import override

from poot.kernel.ir import Kernel
from poot.kernel.render import gpu
from poot.kernel.render.gpu_collectives import Collectives
from poot.kernel.render.gpu_faults import record_function
from poot.kernel.render.gpu_machine import Machine, numbered
from poot.kernel.render.llvm_emit import Emitter

_WARP = 32
_REGISTERS = "llvm.nvvm.read.ptx.sreg"

folds = gpu.folds


def render(kernel: Kernel, *, contract: bool = False) -> gpu.GpuSource:
    """LLVM IR of a prepared kernel; `contract` lets a*b + c be one fused operation."""
    return gpu.render(kernel, NVIDIA, contract=contract)


class _Warps(Collectives):
    """Barriers that can vote, and shuffles with a mask of the threads that take part."""

    def __init__(self, e: Emitter, kernel: Kernel) -> None:
        super().__init__(e, kernel, _WARP)

    @override
    def barrier(self) -> None:
        self.e.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    @override
    def thread(self) -> str:
        return self.e.known(("tid",), numbered(NVIDIA.thread, self.size))

    @override
    def lane(self) -> str:
        return self.e.known(("laneid",), numbered(f"{_REGISTERS}.laneid", _WARP))

    @override
    def vote(self, op: str, text: str, looping: bool) -> str:
        way = "or" if op == "any" else "and"
        return self.e.emit(f"call i1 @llvm.nvvm.barrier.cta.red.{way}.aligned.all(i32 0, i1 {text})")

    @override
    def word(self, mode: str, text: str, by: str) -> str:
        operands = f"i32 {self._members()}, i32 {text}, i32 {by}, i32 {0 if mode == 'up' else _WARP - 1}"
        return self.e.emit(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32({operands})")

    def _members(self) -> str:
        """The mask of a warp's threads; the last warp may have fewer than 32."""
        rest = self.size % _WARP
        if not rest:
            return "-1"
        if self.waves == 1:
            return str((1 << rest) - 1)
        return self.e.known(("members",), f"select i1 {self.last()}, i32 {(1 << rest) - 1}, i32 -1")


# The assembler may leave a warp apart behind a branch on which its threads differ inside of one on which they do not:
# shuffles then miss the thread that won.  So the threads that came here wait for each other before they go on.
_WRITE_TOGETHER = """\
  %old = extractvalue { i32, i1 } %claim, 0
  %low = trunc i64 %index to i32
  %index_top = lshr i64 %index, 32
  %high = trunc i64 %index_top to i32
  %end_low = trunc i64 %end to i32
  %end_top = lshr i64 %end, 32
  %end_high = trunc i64 %end_top to i32
  call void asm sideeffect "{ .reg .pred won; .reg .b32 warp; activemask.b32 warp; setp.eq.u32 won, $1, 0; \
@won st.global.v4.b32 [$0], {1, $2, $3, $4}; @won st.global.v4.b32 [$0+16], {$5, $6, $7, $8}; bar.warp.sync warp; }", \
"l,r,r,r,r,r,r,r,r,~{memory}"(ptr addrspace(1) %record, i32 %old, \
i32 %launch, i32 %site, i32 %axis, i32 %low, i32 %high, i32 %end_low, i32 %end_high) #2
  ret void
}

attributes #2 = { convergent }
"""


def _record(together: bool) -> str:
    return record_function("device", _WRITE_TOGETHER) if together else record_function("device")


NVIDIA = Machine(
    triple="nvptx64-nvidia-cuda",
    convention="ptx_kernel",
    stack=0,
    device="device",
    group="block",
    static_shared=48 << 10,
    thread=f"{_REGISTERS}.tid.x",
    block=f"{_REGISTERS}.ctaid.",
    blocks_along_y=lambda e: e.emit(numbered(f"{_REGISTERS}.nctaid.y", gpu.GRID_YZ + 1)),
    collectives=_Warps,
    attributes=lambda threads: f'nounwind "nvvm.maxntid"="{threads}"',
    function_metadata="",
    metadata=lambda threads: (),
    record=_record,
)
