"""How deep a kernel may nest: chains of operators may be long, and chains of `elif` are refused in their own words."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poot.errors import KernelSourceError, KernelSyntaxError

HEAD = """import poot

def other(v):
    return {other}

@poot.kernel
def k(x: poot.In[poot.i32], y: poot.Out[poot.i32]):
    i = poot.thread_index()
    if i < len(y):
        v = x[i]
        r = 0
{body}
        y[i] = r
"""


def chain(count: int) -> str:
    branches = "".join(f"        elif v == {n}:\n            r = {3 * n}\n" for n in range(1, count))
    return f"        if v == 0:\n            r = 1\n{branches}        else:\n            r = -1"


def kernel(body: str, folder: Path, other: str = "v") -> Any:
    path = folder / "deep.py"
    path.write_text(HEAD.format(body=body, other=other))
    spec = importlib.util.spec_from_file_location("deep", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def test_a_chain_within_the_limit(tmp_path: Path) -> None:
    k, x = kernel(chain(40), tmp_path), np.arange(-2, 42, dtype=np.int32)
    y = np.zeros_like(x)
    k(x, y, threads=len(x), device="interpret")
    assert y.tolist() == [-1, -1, 1, *(3 * n for n in range(1, 40)), -1, -1]


@pytest.mark.parametrize("count", [110, 400])
def test_a_chain_past_it(count: int, tmp_path: Path) -> None:
    with pytest.raises(
        KernelSyntaxError, match=r"behind more than 98 `elif`, each of which(.|\n)*split the chain"
    ) as caught:
        kernel(chain(count), tmp_path)
    assert caught.value.where is not None and caught.value.where.text.strip() == "elif v == 98:"


@pytest.mark.parametrize("body", ["-" * 300 + "v", "~" * 120 + "v", "1 if v else " * 120 + "2"])
def test_other_nests_past_it(body: str, tmp_path: Path) -> None:
    with pytest.raises(KernelSyntaxError, match="inside more than 100 others"):
        kernel(f"        r = {body}", tmp_path)


@pytest.mark.parametrize("count", [150, 400])
def test_long_chains_of_operators_do_not_nest(count: int, tmp_path: Path) -> None:
    k = kernel("        r = " + " + ".join(["v"] * count), tmp_path)
    k(np.arange(4, dtype=np.int32), y := np.zeros(4, np.int32), threads=4, device="interpret")
    assert y.tolist() == [0, count, 2 * count, 3 * count]


def test_what_nests_deep_elsewhere_in_the_file(tmp_path: Path) -> None:
    k = kernel("        r = v", tmp_path, other="-" * 300 + "v")
    k(np.arange(4, dtype=np.int32), y := np.zeros(4, np.int32), threads=4, device="interpret")
    assert y.tolist() == [0, 1, 2, 3]


def test_what_python_itself_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poot.kernel.parse import source

    def parse(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(source.ast, "parse", parse)
    with pytest.raises(KernelSourceError, match=r"k cannot be read: something in .*deep\.py nests too deep"):
        kernel("        r = v", tmp_path)
