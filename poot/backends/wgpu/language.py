"""The language of these devices: kernel IR rendered to WGSL, with no driver at hand."""

from __future__ import annotations

from poot.backends.toolchain import Rendered, register_language
from poot.kernel.ir import Kernel
from poot.kernel.render.wgsl import render
from poot.target import Target


def compile_wgsl(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The text of a prepared kernel; devices make a pipeline of it when they load it."""
    source = render(kernel, target, contract=contract)
    return Rendered(source, source.entry, source.text, (("shared_bytes", source.shared_bytes),))


register_language("wgsl", compile_wgsl)
