"""From (kernel, target) to a compiled kernel: prepare, render, compile, through the disk cache.

A language is a row of a small registry: how to turn a prepared kernel into an artifact.  One compile runs a key; other
threads that ask for the same kernel wait for it, and no lock is held across different keys.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import override

from poot import forks
from poot.errors import CompileError, Unsupported
from poot.kernel.ir import FaultSite, Kernel, Slot, argument_slots, fault_sites
from poot.kernel.pipeline import prepare
from poot.kernel.text import kernel_hash
from poot.target import Language, Target


@dataclass(frozen=True, slots=True, repr=False)
class CompiledKernel:
    """A kernel compiled for one target: what a device needs to load and launch it.

    `kernel` is the prepared kernel, `slots` its argument schema, `sites` what the site numbers of a fault record mean,
    `source` the rendered text ("" where the language has none), `resources` what the compiler said it uses.
    """

    kernel: Kernel
    target: Target
    language: Language
    artifact: Any
    entry: str
    source: str
    slots: tuple[Slot, ...] = ()
    sites: tuple[FaultSite, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()

    @override
    def __repr__(self) -> str:
        size = "x".join(map(str, self.kernel.workgroup))
        return f"<compiled kernel {self.kernel.name}: {self.language} for {self.target}, work-groups of {size}>"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a language makes of a kernel: the artifact, its entry point, readable text, and resources used."""

    artifact: Any
    entry: str
    source: str = ""
    resources: tuple[tuple[str, int], ...] = ()


class LanguageCompiler(Protocol):
    """Renders and compiles a prepared kernel; `contract` allows a*b+c to become one fma."""

    def __call__(self, kernel: Kernel, target: Target, contract: bool) -> Rendered: ...


_languages: dict[str, LanguageCompiler] = {}
#: The languages of the devices that ship, and the modules that register them when first asked for: no driver is needed.
_MODULES: dict[str, str] = {
    "native": "poot.backends.cpu.language",
    "opencl": "poot.backends.opencl.language",
    "wgsl": "poot.backends.wgpu.language",
    "ptx": "poot.backends.cuda.language",
    "triton": "poot.backends.cuda.language",
    "amdgcn": "poot.backends.hip.language",
}


def register_language(name: Language, compiler: LanguageCompiler) -> None:
    """Add or replace the compiler of a language."""
    _languages[name] = compiler


# --- one compile per key --------------------------------------------------------------------------------------------

_KEPT = 1024


class _Pending:
    """A compile in progress: others wait on it and share its result or its error."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.owner = threading.get_ident()
        self.result: CompiledKernel | None = None


class _Memory:
    """The compiled kernels of this process, bounded, least recently used out first."""

    def __init__(self) -> None:
        self.lock = forks.lock()
        self.kept: OrderedDict[tuple[str, str, bool], CompiledKernel] = OrderedDict()
        self.pending: dict[tuple[str, str, bool], _Pending] = {}
        self.compiles = 0

    def forget_threads(self) -> None:
        """In a forked child: whoever was compiling is not here."""
        self.pending.clear()


_memory = _Memory()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_memory.forget_threads)


def clear_memory() -> None:
    """Forget every compiled kernel of this process (the disk cache stays)."""
    with _memory.lock:
        _memory.kept.clear()


def compile_count() -> int:
    """How many kernels this process has compiled or loaded from disk so far."""
    return _memory.compiles


def compile_kernel(kernel: Kernel, target: Target, *, contract: bool = False) -> CompiledKernel:
    """The compiled form of a kernel as the parser or planner made it, in the target's first language that takes it.

    CompileError or Unsupported with the compiler's message where it does not compile.
    """
    key = kernel_hash(kernel), target.fingerprint, contract
    mine: _Pending | None = None
    try:  # a Ctrl-C between any two lines must leave nobody waiting
        while mine is None:
            with _memory.lock:
                found = _memory.kept.get(key)
                if found is not None:
                    with contextlib.suppress(KeyError):  # a finalizer that compiles may just have put it out
                        _memory.kept.move_to_end(key)
                    return found
                pending = _memory.pending.get(key)
                if pending is None or pending.owner == threading.get_ident():  # one that compiles waits for nobody
                    mine = _memory.pending[key] = _Pending()
                    break
            pending.done.wait()
            if pending.result is not None:
                return pending.result
        mine.result = _compile(kernel, target, contract)
        with _memory.lock:
            _memory.compiles += 1
            _memory.kept[key] = mine.result
            while len(_memory.kept) > _KEPT:
                _memory.kept.popitem(last=False)
        return mine.result
    finally:
        if mine is not None:
            with _memory.lock:
                if _memory.pending.get(key) is mine:
                    del _memory.pending[key]
            mine.done.set()


def _compile(kernel: Kernel, target: Target, contract: bool) -> CompiledKernel:
    prepared = prepare(kernel, target)
    refusal: CompileError | None = None
    for language in target.languages:
        if language in _MODULES and language not in _languages:
            with forks.imports:
                importlib.import_module(_MODULES[language])
        compiler = _languages.get(language)
        if compiler is None:
            continue
        try:
            made = compiler(prepared, target, contract)
        except Unsupported as error:
            refusal = error
            continue
        except CompileError as error:
            raise error.at(kernel.where) from None
        return CompiledKernel(
            prepared,
            target,
            language,
            made.artifact,
            made.entry,
            made.source,
            argument_slots(prepared),
            fault_sites(prepared),
            made.resources,
        )
    if refusal is not None:
        raise refusal
    languages = ", ".join(target.languages)
    known = ", ".join(sorted({*_MODULES, *_languages}))
    raise CompileError(
        what=f"kernel {kernel.name}",
        target=target,
        message=f"no compiler for {languages} is loaded",
        where=kernel.where,
        remedy=f"import the package that calls register_language for it, or use a target of one of {known}.",
    )


def interpreted(kernel: Kernel, target: Target, contract: bool) -> Rendered:
    """The interpreter's language: the prepared kernel is its own artifact."""
    return Rendered(kernel, kernel.name)


register_language("interpret", interpreted)
