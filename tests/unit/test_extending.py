"""What docs/extending.md adds: a primitive that everything knows, and a device that runs the sentence encoder."""

from __future__ import annotations

import ast
import json
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
from tests.unit.test_documents import program

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    module = types.ModuleType("extending_page")
    sys.modules["extending_page"] = module
    space = module.__dict__
    file = tmp_path_factory.mktemp("page") / "extending.py"
    file.write_text(program(PAGE.read_text("utf-8")), "utf-8")
    exec(compile(file.read_text("utf-8"), str(file), "exec"), space)
    yield space
    del sys.modules["extending_page"]
    unregister("softsign")
    unregister_device("plain")
    unregister_device("text")


def test_the_page_imports_no_backend() -> None:
    tree = ast.parse(program(PAGE.read_text("utf-8")))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    assert {name for name in modules if name.startswith("poot.backends")} == {
        "poot.backends.device",
        "poot.backends.toolchain",
    }


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


@pytest.mark.parametrize("name", ["plain", "text"])
def test_there_is_one_device_of_each(page: dict[str, Any], name: str) -> None:
    assert poot.device(f"{name}:0") == poot.device(name)
    with pytest.raises(poot.errors.DeviceUnavailableError, match=f"device {name}:1 is not available: there is one"):
        poot.device(f"{name}:1")


def test_the_device_runs_engines_and_raises_faults(page: dict[str, Any]) -> None:
    with poot.device("plain"):
        take = poot.trace(lambda x, i: x[i])
        x = np.arange(4, dtype=np.float32)
        assert np.array_equal(np.asarray(take(x, np.array([3, 0], np.int32))), [3, 0])
        faulted = take(x, np.array([4], np.int32))
        with pytest.raises(IndexError, match="index 4 is out of range"):
            np.asarray(faulted)


def test_the_language_runs_kernels_of_every_kind(page: dict[str, Any]) -> None:
    """Those of the conformance suite, and random ones, to the last bit."""
    from tests.conformance.test_kernel_language import KERNELS, inputs
    from tests.device_runs import agree
    from tests.random_kernels import RandomKernel
    from tests.unit.native_fuzz import Generator

    for made in KERNELS:
        results = []
        for device in ("interpret", "text"):
            a, x, out, res = inputs()
            made(a, x, out, res, threads=len(a), device=device)
            results.append((out.tolist(), res.tolist()))
        assert results[0] == results[1], made.name
    for seed in range(8):
        single, grouped = RandomKernel(seed, racy=False), Generator(seed)
        agree("text", single.kernel, single.values(), groups=single.groups, threads=single.bound, record=False)
        kernel = grouped.kernel()
        given = zip(grouped.threads or (), kernel.threads or (), strict=True)
        threads = [count for count, baked in given if baked is None]
        agree("text", kernel, grouped.arguments(), groups=grouped.groups, threads=threads, record=False)


def test_the_language_runs_the_library(page: dict[str, Any]) -> None:
    from poot.api import library

    a, c = np.random.default_rng(4).normal(size=(2, 20, 20)).astype(np.float32)
    library.transpose(a, c, groups=(1, 1), device="text")
    np.testing.assert_array_equal(c, a.T)
    library.softmax(a[:2], c[:2], groups=2, device="text")
    np.testing.assert_allclose(c[:2].sum(1), 1, rtol=1e-5)
    counts = np.zeros(256, np.int32)
    library.histogram(np.arange(300, dtype=np.uint16).astype(np.uint8), counts, groups=2, device="text")
    assert counts.tolist() == [2] * 44 + [1] * 212
    past = np.zeros(3, np.float32)
    with pytest.raises(poot.errors.KernelFault, match="index 3 of y"):
        page["parts"](np.ones(8, np.float32), past, groups=1, device="text")
    assert past.tolist() == [1 / 8] * 3
