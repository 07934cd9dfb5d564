"""Readable sources of a kernel in each language, rendered with no hardware at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from poot.errors import Unsupported
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.llvm_lanes import render as render_lanes
from poot.kernel.text import dump
from poot.target import Language, Target

#: Renders a prepared kernel for a target.
SourceRenderer: TypeAlias = Callable[[Kernel, Target], str]

#: The backend whose target a language is rendered for, if none is named.
BACKENDS: dict[Language, str] = {
    "native": "cpu",
    "interpret": "interpret",
    "wgsl": "wgpu",
    "opencl": "opencl",
    "ptx": "cuda",
    "triton": "cuda",
}


def _native(kernel: Kernel, target: Target) -> str:
    return render_lanes(kernel).text


def _interpret(kernel: Kernel, target: Target) -> str:
    return dump(kernel)


_RENDERERS: dict[Language, SourceRenderer] = {"native": _native, "interpret": _interpret}


def register_source(language: Language, renderer: SourceRenderer) -> None:
    """Add or replace how a language's text is made."""
    _RENDERERS[language] = renderer


def source(kernel: Kernel, language: Language, target: Target | None = None) -> str:
    """A kernel in one language; Unsupported where the target does not take it, or nothing renders it."""
    if target is None:
        target = Target.parse(BACKENDS.get(language, language))
    if language not in target.languages or language not in _RENDERERS:
        known = ", ".join(repr(name) for name in target.languages if name in _RENDERERS)
        raise Unsupported(
            what=f"source in {language!r}",
            target=target,
            message=f"it takes {known}" if known else "nothing renders its languages yet",
            remedy="name another language or target.",
        )
    return _RENDERERS[language](prepare(kernel, target), target)
