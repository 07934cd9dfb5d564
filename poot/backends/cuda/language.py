# pyright: basic
"""The languages "triton" and "ptx": kernel IR rendered and compiled for CUDA, through the artifact cache."""

from __future__ import annotations

import llvmlite

from poot.backends import cache
from poot.backends.cuda import nvptx
from poot.backends.cuda.code import CudaCode, stored_code
from poot.backends.cuda.triton import compile_triton, version
from poot.backends.toolchain import Rendered, register_language
from poot.kernel.ir import Kernel
from poot.kernel.render import ptx as ptx_renderer
from poot.kernel.render import triton as triton_renderer
from poot.kernel.render.lines import uncommented
from poot.target import Target


def compile_ptx_kernel(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """PTX of a prepared kernel, assembled where `ptxas` is at hand, else left to the driver."""
    source = ptx_renderer.render(kernel, contract=contract)
    assembler = nvptx.ptxas()
    key = cache.artifact_key(
        *("ptx", llvmlite.__version__, target.arch, assembler[1] if assembler else "", source.symbol),
        uncommented(source.text),
    )
    code = stored_code(key)
    if code is None:
        what = f"kernel {kernel.name}"
        text = nvptx.compile_ptx(source.text, target.arch, what=what)
        image, used = text.encode() + b"\0", ()
        if assembler is not None:
            image, used = nvptx.assemble(text, target.arch, what=what)
        code = CudaCode(image, source.symbol, source.threads, source.dynamic_shared, resources=used, text=text)
        cache.store(key, code.to_bytes())
    return Rendered(code, code.entry, code.text, code.resources)


def compile_triton_kernel(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The cubin that Triton makes of a prepared kernel; Unsupported where Triton cannot express it."""
    source = triton_renderer.render(kernel, target=str(target), contract=contract)
    key = cache.artifact_key(
        "triton", version() or "", target.arch, str(source.signature), str(source.aligned), source.text
    )
    code = stored_code(key)
    if code is None:
        code = compile_triton(source, target.arch, what=f"kernel {kernel.name}")
        cache.store(key, code.to_bytes())
    return Rendered(code, code.entry, source.text, code.resources)


register_language("ptx", compile_ptx_kernel)
register_language("triton", compile_triton_kernel)
