"""Sources of kernels in LLVM's and Triton's text: the user's lines with their files, and parameters by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poot.backends import toolchain
from poot.backends.cuda.listing import listing
from poot.backends.cuda.nvptx import compile_ptx
from poot.kernel.pipeline import prepare
from poot.kernel.render import amdgcn, ptx
from poot.kernel.render.lines import uncommented
from poot.kernel.render.llvm_lanes import render
from tests.errors.kernel_source import module

GOLDEN = Path(__file__).parents[1] / "golden" / "data" / "ptx"
HELPER = "def twice(v):\n    w = v * 2\n    return w * w\n"
KERNEL = (
    "{}@kernel\ndef k(x: In[f32], y: Out[f32], by: int):\n    i = thread_index()\n    y[i] = twice(x[i]) + f32(by)\n"
)


def made(above: str = "") -> tuple[dict[str, Any], Any]:
    space = module(HELPER)
    return module(f"twice = None\n{KERNEL.format(above)}"), space["twice"]


@pytest.mark.parametrize("language", ["native", "ptx", "amdgcn", "triton"])
def test_every_line_names_its_file(language: str) -> None:
    space, helper = made()
    space["twice"] = helper
    ir = space["k"].ir
    mine, other = (f"{f.__code__.co_filename}:" for f in (space["k"].definition.function, helper))
    if language == "native":
        text = render(prepare(ir)).text
    elif language == "triton":
        text = space["k"].source("triton")
    else:
        text = {"ptx": ptx, "amdgcn": amdgcn}[language].render(prepare(ir)).text
    sign = "#" if language == "triton" else ";"
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(sign)]
    assert any(line.startswith(f"{sign} {mine}") and line.endswith("y[i] = twice(x[i]) + f32(by)") for line in lines)
    assert any(line.startswith(f"{sign} {other}") for line in lines)
    if language != "triton":
        assert "%arg.x = " in text or " %arg.x," in text
        assert "%arg.by" in text
    else:
        assert "by" in text


def test_ptx_names_its_parameters() -> None:
    space, space["twice"] = made()
    text = space["k"].source("ptx")
    assert text.startswith("// param_0: x\n// param_1: x.extent.0\n")


def test_ptx_has_the_lines_that_it_comes_from() -> None:
    space, space["twice"] = made()
    lines = [line.strip() for line in space["k"].source("ptx").splitlines()]
    mine = f"// {space['k'].definition.function.__code__.co_filename}:"
    assert any(line.startswith(mine) and line.endswith("y[i] = twice(x[i]) + f32(by)") for line in lines)
    assert not any(line.startswith((".loc", ".file", "$L__tmp")) for line in lines)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.ll")), ids=lambda path: path.stem)
def test_the_listing_of_ptx_is_the_code_that_runs(path: Path) -> None:
    """Places change nothing but comments."""

    def instructions(text: str) -> list[str]:
        lines = (re.sub(r"\s*//.*", "", line).strip() for line in text.splitlines())
        return [line for line in lines if line]

    text = path.read_text(encoding="utf-8")
    shown = listing(text, "sm_90")
    assert instructions(shown) == instructions(compile_ptx(text, "sm_90"))
    assert f"\t// <golden {path.stem}>:" in shown


def test_code_that_moves_in_its_file_is_the_same_code() -> None:
    first, first["twice"] = made()
    second, second["twice"] = made("# a line\n")
    texts = [render(prepare(space["k"].ir)).text for space in (first, second)]
    assert texts[0] != texts[1]
    assert uncommented(texts[0]) == uncommented(texts[1])
    count = toolchain.compile_count()
    for space in (first, second):
        y = np.zeros(8, np.float32)
        space["k"](np.ones(8, np.float32), y, 3, threads=8)
        assert (y == 7).all()
    assert toolchain.compile_count() - count <= 1
