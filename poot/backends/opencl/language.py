"""The language of these devices: kernel IR rendered to OpenCL C, with no driver at hand."""

from __future__ import annotations

from poot.backends.toolchain import Rendered, register_language
from poot.kernel.ir import Kernel
from poot.kernel.render.opencl import render
from poot.target import Target


def compile_opencl(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The text of a prepared kernel; devices build it when they load it."""
    source = render(kernel, target, contract=contract)
    return Rendered(source, source.entry, source.text, (("shared_bytes", source.shared_bytes),))


register_language("opencl", compile_opencl)
