"""Sources of a program's kernels, rendered on demand; no hardware is needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from poot.errors import Unsupported
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.text import dump
from poot.plan.program import Program
from poot.target import Language


def _renderer(module: str) -> Any:
    """A renderer's module, imported when it is first needed."""
    return import_module(f"poot.kernel.render.{module}")


_RENDERERS: dict[Language, Callable[[Kernel, Program], str]] = {
    "interpret": lambda kernel, program: dump(kernel),
    "native": lambda kernel, program: _renderer("llvm_lanes").render(kernel, contract=program.contract).text,
    "ptx": lambda kernel, program: _renderer("ptx").render(kernel, contract=program.contract).text,
    "amdgcn": lambda kernel, program: _renderer("amdgcn").render(kernel, contract=program.contract).text,
    "triton": lambda kernel, program: (
        _renderer("triton").render(kernel, target=str(program.target), contract=program.contract).text
    ),
    "wgsl": lambda kernel, program: _renderer("wgsl").render(kernel, program.target, contract=program.contract).text,
    "opencl": lambda kernel, program: (
        _renderer("opencl").render(kernel, program.target, contract=program.contract).text
    ),
}


def source(program: Program, language: Language) -> str:
    """Every kernel of a program in one language, one after the other.

    "native", "ptx" and "amdgcn" are the LLVM IR that becomes machine code and PTX, "interpret" is the prepared kernel
    IR, the others are what the device's compiler gets.  Unsupported for a language that the program's target does not
    take, or that cannot say one of the kernels.
    """
    if language not in program.target.languages or language not in _RENDERERS:
        raise Unsupported(
            what=f"source in {language!r}",
            target=program.target,
            message="it takes " + ", ".join(map(repr, program.target.languages)),
            remedy="compile the graph for a target of that language.",
        )
    return "\n".join(_RENDERERS[language](prepare(kernel, program.target), program) for kernel in program.kernels)
