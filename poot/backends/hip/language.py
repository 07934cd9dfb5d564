# pyright: basic
"""The language "amdgcn": kernel IR rendered as LLVM IR and compiled for AMD's GPUs, through the artifact cache."""

from __future__ import annotations

import llvmlite

from poot.backends import cache
from poot.backends.cuda.code import CudaCode, stored_code
from poot.backends.cuda.triton import version
from poot.backends.hip.amdgpu import compile_amdgpu
from poot.backends.hip.metadata import usage
from poot.backends.toolchain import Rendered, register_language
from poot.errors import CompileError
from poot.kernel.ir import Kernel
from poot.kernel.render import amdgcn
from poot.kernel.render.lines import uncommented
from poot.target import Target


def compile_amdgcn_kernel(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The code object of a prepared kernel; Unsupported without Triton, whose HIP target makes it."""
    source = amdgcn.render(kernel, contract=contract)
    text = uncommented(source.text)
    key = cache.artifact_key("amdgcn", llvmlite.__version__, version() or "", target.arch, source.symbol, text)
    code, what = stored_code(key), f"kernel {kernel.name}"
    if code is None:
        text, image = compile_amdgpu(source.text, target.arch, what=what)
        code = CudaCode(image, source.symbol, source.threads, resources=usage(text), text=text)
        cache.store(key, code.to_bytes())
    shared, limit = dict(code.resources)["shared"], target.limit("workgroup_storage")
    if shared > limit:  # Triton only prints that
        message = f"{shared} bytes of shared memory, where the limit is {limit}"
        raise CompileError(what=what, target=target, message=message)
    return Rendered(code, code.entry, code.text, code.resources)


register_language("amdgcn", compile_amdgcn_kernel)
