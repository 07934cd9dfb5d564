"""What a prompt shows of graphs, programs and explanations, and what `dir` lists."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from IPython.lib.pretty import pretty

import poot
from poot import f32, ops


def double(x: Any) -> Any:
    return x * 2.0


def test_graphs_and_explanations_are_shown_as_they_print() -> None:
    f = poot.trace(double)
    x = np.ones(3, np.float32)
    graph = f.graph(x)
    assert repr(graph) == str(graph)
    assert repr(graph).startswith("graph double {\n")
    assert repr(f.explain(x)) == str(f.explain(x))
    shown = repr(f.program(x, device="interpret"))
    assert shown.startswith("<Program of double for interpret")
    assert shown.endswith(": 1 launches of 1 kernels; `print(program.report())` says more>")


def test_a_long_graph_is_shown_in_part() -> None:
    def long(x: Any) -> Any:
        for _ in range(100):
            x = x * x
        return x

    lines = repr(poot.trace(long).graph(f32[3])).split("\n")
    assert len(lines) == 61
    assert lines[-1] == "… 46 lines more, which print shows"


def test_ipython_shows_the_same() -> None:
    graph = poot.trace(double).graph(f32[3])
    assert pretty(graph) == str(graph)


@pytest.mark.parametrize("module", [ops, ops.linalg, ops.nn, ops.random])
def test_dir_lists_the_public_names(module: ModuleType) -> None:
    names = dir(module)
    assert set(module.__all__) <= set(names)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in names:
        found = getattr(module, name)
        assert not isinstance(found, ModuleType) or name in ("linalg", "nn", "random")
        assert found is None or found.__doc__, name
    assert not {"Any", "TYPE_CHECKING", "annotations", "maps", "update", "Array", "np"} & set(names)
    assert module is not ops or {"gather", "scatter", "select", "float16", "bfloat16"} <= set(names)


def test_halves_have_their_names() -> None:
    assert ops.float16 is poot.f16
    assert ops.bfloat16 is poot.bf16


def test_looking_for_devices_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    code = "import os, poot; poot.devices(); raise SystemExit('XDG_RUNTIME_DIR' in os.environ)"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0
    assert "XDG_RUNTIME_DIR" not in found.stderr


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_of_no_elements_show_their_shape(shape: tuple[int, ...]) -> None:
    shown = repr(ops.zeros(shape))
    expected = repr(np.zeros(shape, np.float32))
    assert shown == expected.replace("array", "Array").replace("float32", "f32").replace(", shape=(0,)", "")
