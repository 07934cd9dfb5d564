"""The native language: kernel IR rendered to LLVM text and compiled to an object, through the artifact cache."""

from __future__ import annotations

from poot.backends import cache
from poot.backends.cpu.jit import compile_object, host, is_object
from poot.backends.cpu.llvm_calls import VERSION
from poot.backends.toolchain import Rendered, register_language
from poot.kernel.ir import Kernel
from poot.kernel.render.lines import uncommented
from poot.kernel.render.llvm_lanes import render
from poot.target import Target


def compile_native(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The object of a prepared kernel for this machine; the key is the rendered text with all that compiles it."""
    source = render(kernel, contract=contract)
    cpu = host()
    passes = "vectors" if source.vectors else "scalars"
    key = cache.artifact_key("native", VERSION, cpu.triple, cpu.name, cpu.features, passes, uncommented(source.text))
    image = cache.load(key)
    if image is None or not is_object(image):
        image = compile_object(source.text, what=f"kernel {kernel.name}", vectors=source.vectors)
        cache.store(key, image)
    return Rendered(image, source.symbol, source.text)


register_language("native", compile_native)
