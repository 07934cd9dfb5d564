"""What docs/extending.md adds: a primitive that everything knows, and a device that runs the sentence encoder."""

from __future__ import annotations

import ast
import json
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.device import unregister as unregister_device
from poot.trace.evaluate import evaluate
from poot.trace.primitives import lookup, unregister

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    module = types.ModuleType("extending_page")
    sys.modules["extending_page"] = module
    space = module.__dict__
    for block in blocks():
        exec(compile(block, str(PAGE), "exec"), space)
    yield space
    del sys.modules["extending_page"]
    unregister("softsign")
    unregister_device("plain")


def test_the_page_imports_no_backend() -> None:
    modules = [
        node.module
        for block in blocks()
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    assert [name for name in modules if name.startswith("poot.backends")] == ["poot.backends.device"]


@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64"])
def test_the_primitive_is_known_everywhere(page: dict[str, Any], name: str) -> None:
    dtype = getattr(poot, name)
    entry = lookup("softsign")
    values = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-3], np.float64).astype(dtype.dtype)
    graph = poot.trace(lambda x: poot.ops.softsign(x)).graph(values)  # type: ignore[attr-defined]
    assert poot.parse_graph(str(graph)) == graph
    expected = evaluate(graph, {"x": values}).output
    for device in ("cpu", "interpret"):
        with poot.device(device):
            result = np.asarray(poot.trace(lambda x: poot.ops.softsign(x))(values))  # type: ignore[attr-defined]
        assert np.allclose(
            result.astype(np.float64), expected.astype(np.float64), rtol=entry.numerics.ulps * 2.0**-7, equal_nan=True
        )


def test_the_device_runs_the_encoder(page: dict[str, Any]) -> None:
    from examples.sentence_similarity import embed

    golden = json.loads((ROOT / "tests" / "data" / "minilm_golden.json").read_text("utf-8"))
    result = np.asarray(embed(golden["sentences"][:2], device="plain"))
    assert np.abs(result - np.array(golden["embedding"][:2])).max() < 1e-5


def test_the_device_runs_engines_and_raises_faults(page: dict[str, Any]) -> None:
    with poot.device("plain"):
        take = poot.trace(lambda x, i: x[i])
        x = np.arange(4, dtype=np.float32)
        assert np.array_equal(np.asarray(take(x, np.array([3, 0], np.int32))), [3, 0])
        faulted = take(x, np.array([4], np.int32))
        with pytest.raises(IndexError, match="index 4 is out of range"):
            np.asarray(faulted)
