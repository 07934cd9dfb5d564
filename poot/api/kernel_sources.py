"""Readable sources of a kernel in each language, with no hardware at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from poot.backends.toolchain import compile_kernel
from poot.errors import Unsupported
from poot.kernel.ir import Kernel, argument_slots
from poot.kernel.pipeline import prepare
from poot.kernel.render.lines import argument_name
from poot.kernel.text import dump
from poot.target import Language, Target

#: The backend whose target a language is rendered for, if none is named.
BACKENDS: dict[Language, str] = {
    "native": "cpu",
    "interpret": "interpret",
    "wgsl": "wgpu",
    "opencl": "opencl",
    "ptx": "cuda",
    "triton": "cuda",
    "amdgcn": "hip",
}


def _renderer(module: str) -> Any:
    """A renderer's module, imported when it is first needed."""
    return import_module(f"poot.kernel.render.{module}")


_RENDERERS: dict[Language, Callable[[Kernel, Target], str]] = {
    "interpret": lambda kernel, target: dump(kernel),
    "native": lambda kernel, target: _renderer("llvm_lanes").render(kernel).text,
    "wgsl": lambda kernel, target: _renderer("wgsl").render(kernel, target).text,
    "opencl": lambda kernel, target: _renderer("opencl").render(kernel, target).text,
    "triton": lambda kernel, target: _renderer("triton").render(kernel, target=str(target)).text,
}


def source(kernel: Kernel, language: Language, target: Target) -> str:
    """A kernel in one language; Unsupported where the target does not take it, or the language cannot say it.

    PTX is what LLVM makes of the kernel, with the user's lines as comments, AMDGCN the assembly of its code object
    (which needs Triton installed); every other language is text before any compiler has seen it.
    """
    if language not in target.languages:
        raise Unsupported(
            what=f"source in {language!r}",
            target=target,
            message="it takes " + ", ".join(map(repr, target.languages)),
            remedy="name a target of that language.",
        )
    if language == "ptx":
        from poot.backends.cuda.listing import listing  # it loads LLVM

        made = prepare(kernel, target)
        text = _renderer("ptx").render(made).text
        return _parameters(made) + listing(text, target.arch, what=f"kernel {kernel.name}")
    if language == "amdgcn":
        return compile_kernel(kernel, replace(target, languages=(language,))).source
    return _RENDERERS[language](prepare(kernel, target), target)


def _parameters(kernel: Kernel) -> str:
    """What the parameters of a PTX function are, which have numbers alone."""
    names = [argument_name(slot).removeprefix("%arg.") for slot in argument_slots(kernel)]
    return "".join(f"// param_{number}: {name}\n" for number, name in enumerate(names))
