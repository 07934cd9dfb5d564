# pyright: basic
"""LLVM IR text to a code object for AMD's GPUs, by the last stages of Triton's HIP target: from LLVM IR to an hsaco.

LLVM optimises the text first, under the same lock as for the host's own code; Triton has that of its other compiles.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import llvmlite.binding as llvm

from poot.backends.cpu.jit import llvm_lock
from poot.backends.cpu.llvm_calls import Machine, Module, unlocking
from poot.backends.cuda.triton import require_triton, triton_lock, version
from poot.errors import CompileError, Unsupported

_TRIPLE = "amdgcn-amd-amdhsa"
#: The code generator of Triton 3.6 crashes on some valid modules.
_OLDEST = (3, 7)
_DECLARED = re.compile(r"^declare [^@]*@([\w.]+)\(", re.MULTILINE)
_OURS = re.compile(
    r"llvm\.(amdgcn\.(workitem\.id\.x|workgroup\.id\.[xyz]|implicitarg\.ptr|s\.barrier|ballot\.i64|ds\.bpermute)$"
    r"|(abs|smax|smin|umax|umin|ctpop|ctlz|fabs|sqrt|floor|ceil|trunc|roundeven|minimum|maximum|fmuladd)\.[if]\d+$)"
)


@functools.cache
def _machine(arch: str) -> Machine:
    unlocking(llvm.initialize_all_targets)
    unlocking(llvm.initialize_all_asmprinters)
    return Machine(_TRIPLE, arch, "", 3, jit=False)


def compile_amdgpu(ir_text: str, arch: str, *, what: str = "LLVM IR") -> tuple[str, bytes]:
    """Assembly and code object of a module with one kernel, for "gfx942" and the like.

    CompileError with the compiler's message where it does not compile, Unsupported without Triton 3.7 or later.
    """
    _require_code_generator(what, f"hip:{arch}")
    for name in _DECLARED.findall(ir_text):
        if not _OURS.match(name):  # what the target does not have would end the process, or be linked as if it were 0
            raise CompileError(what=what, target=f"hip:{arch}", message=f"it declares {name}, which AMDGCN may not use")
    optimised = _optimised(ir_text, arch, what)
    with triton_lock:
        try:
            return _through_triton(optimised, arch)
        except Exception as error:  # Triton's errors share no base class
            raise CompileError(what=what, target=f"hip:{arch}", message=str(error)) from error


def _require_code_generator(what: str, target: str) -> None:
    require_triton(what=what, target=target)
    found = version() or ""
    if tuple(int(part) for part in found.split(".")[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise Unsupported(
            what=what,
            target=target,
            message=f"it needs Triton {oldest}, and {found} is installed",
            remedy="run `pip install --upgrade triton`.",
        )


def _optimised(ir_text: str, arch: str, what: str) -> str:
    with llvm_lock():
        try:
            with contextlib.closing(Module(ir_text, _machine(arch))) as module:
                module.optimise(3)
                return _without_declared_attributes(module.text())
        except RuntimeError as error:
            raise CompileError(what=what, target=f"hip:{arch}", message=str(error).strip()) from None


def _without_declared_attributes(ir_text: str) -> str:
    """Intrinsics have their attributes by themselves, and Triton's LLVM may be too old to know some by name."""
    text = re.sub(r"^(declare .*) #\d+$", r"\1", ir_text, flags=re.MULTILINE)
    lines = text.splitlines(keepends=True)
    used = {number for line in lines if not line.startswith("attributes") for number in re.findall(r" #(\d+)", line)}
    groups = re.compile(r"attributes #(\d+) = ")
    return "".join(line for line in lines if not (match := groups.match(line)) or match.group(1) in used)


def _through_triton(ir_text: str, arch: str) -> tuple[str, bytes]:
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    backend = make_backend(GPUTarget("hip", arch, 64))
    # Operations that may be fused say so themselves.
    options = backend.parse_options({"enable_fp_fusion": False})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata: dict[str, Any] = {}
    text = stages["amdgcn"](ir_text, metadata)
    return text, stages["hsaco"](text, metadata)
