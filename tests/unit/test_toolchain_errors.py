"""Kernels that a language does not take, one that somebody else registered included: the error says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

import poot
from poot.backends import toolchain
from poot.backends.toolchain import compile_kernel, register_language
from poot.dtypes import f32
from poot.errors import CompileError, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.target import Target


def small(name: str) -> Kernel:
    k = KernelBuilder(name, workgroup=(1, 1, 1), threads=(1, 1, 1))
    k.store(k.buffer("y", f32, "write", (1,)), (k.i(0),), k.const(1.0, f32))
    return k.finish()


def target(language: str) -> Target:
    return replace(poot.device("cpu").target, languages=cast("Any", (language,)))


def test_a_language_of_others_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(kernel: Kernel, target: Target, contract: bool) -> Any:
        raise CompileError(what=f"kernel {kernel.name}", target=target, message="no such instruction")

    monkeypatch.setattr(toolchain, "_languages", dict(toolchain._languages))
    register_language(cast("Any", "mine"), compiler)
    with pytest.raises(CompileError, match="no such instruction") as caught:
        compile_kernel(small("refused_text"), target("mine"))
    assert "another device or language may take it" in caught.value.remedy
    assert Unsupported(what="a", target="b", message="c").remedy == ""


def test_a_language_that_nobody_registered() -> None:
    with pytest.raises(CompileError, match="no compiler for mine is loaded") as caught:
        compile_kernel(small("unknown_language"), target("mine"))
    assert "import the package that calls register_language" in caught.value.remedy and "native" in caught.value.remedy
