"""Sources of a program's kernels, rendered on demand; no hardware is needed."""

from __future__ import annotations

from collections.abc import Callable

from poot.errors import Unsupported
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.llvm_lanes import render
from poot.kernel.text import dump
from poot.plan.program import Program
from poot.target import Language


def _native(kernel: Kernel, program: Program) -> str:
    return render(prepare(kernel, program.target), contract=program.contract).text


def _interpret(kernel: Kernel, program: Program) -> str:
    return dump(prepare(kernel, program.target))


_RENDERERS: dict[Language, Callable[[Kernel, Program], str]] = {"native": _native, "interpret": _interpret}


def source(program: Program, language: Language) -> str:
    """Every kernel of a program in one language, one after the other.

    "native" is LLVM IR, "interpret" the prepared kernel IR.  Unsupported for a language that the program's target does
    not take.
    """
    if language not in program.target.languages or language not in _RENDERERS:
        raise Unsupported(
            what=f"source in {language!r}",
            target=program.target,
            message="it takes " + ", ".join(map(repr, program.target.languages)),
            remedy="compile the graph for a target of that language.",
        )
    return "\n".join(_RENDERERS[language](kernel, program) for kernel in program.kernels)
