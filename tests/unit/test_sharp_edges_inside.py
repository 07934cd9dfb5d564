"""Looking inside: eager runs for print and pdb, what explain says, and donation."""

from __future__ import annotations

import io
import os
import pdb
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, EngineError

ROOT = Path(__file__).resolve().parents[2]
ONES = np.ones(3, np.float32)
SCALE = 2.0


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


# --- eager ------------------------------------------------------------------------------------------------------------


@poot.trace
def block(x: Any) -> Any:
    y = x * 2.0
    print("y is", y)  # noqa: T201
    if float(y.sum()) > 1.0:
        y = y + 1.0
    return y


def test_eager_prints_values_and_takes_branches(capsys: pytest.CaptureFixture[str]) -> None:
    with poot.eager():
        assert same(block(poot.asarray(ONES)), ONES * 3)
    assert capsys.readouterr().out == "y is [2., 2., 2.]\n"
    with pytest.raises(TypeError, match="cannot be used as a float"):
        block(ONES)


def test_eager_ends_with_its_block_even_after_an_error() -> None:
    with pytest.raises(KeyError), poot.eager():
        raise KeyError("mine")
    with pytest.raises(TypeError, match="cannot be used as a float"):
        block(ONES)


def test_a_debugger_shows_values_line_by_line() -> None:
    output = io.StringIO()
    commands = io.StringIO("b block\nc\nnext\np y\np y.sum()\np x.shape\nc\n")
    debugger = pdb.Pdb(stdin=commands, stdout=output, readrc=False, nosigint=True)
    debugger.use_rawinput = False
    with poot.eager():
        result = debugger.runcall(lambda: block(poot.asarray(ONES)))
    shown = output.getvalue()
    assert "Array([2., 2., 2.], dtype=f32)" in shown
    assert "Array(6., dtype=f32)" in shown
    assert "(3,)" in shown
    assert same(result, ONES * 3)


ALWAYS = """
import numpy as np, poot

@poot.trace
def f(x):
    y = x * 2.0
    print("y is", y)
    return y if float(y.sum()) > 1.0 else -y

print(np.asarray(f(poot.asarray(np.ones(3, np.float32)))))
"""


def test_the_environment_makes_every_call_eager() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POOT_EAGER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALWAYS], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout == "y is [2., 2., 2.]\n[2. 2. 2.]\n", done.stderr


# --- explain ----------------------------------------------------------------------------------------------------------


class Config:
    gain = 3.0


CONFIG = Config()
WEIGHT = np.full(3, 2.0, np.float32)
WHICH = "gain"


def test_explain_tells_the_whole_story() -> None:
    scale = 2.0

    @poot.trace
    def f(x: Any, note: str = "") -> Any:
        return x * WEIGHT * getattr(CONFIG, WHICH) + (scale if note else 0.0)

    f(ONES)
    f(ONES, "more")
    scale = 5.0
    f(ONES, "more")
    with poot.device("interpret"):
        f(ONES, "more")
    explanation = f.explain(ONES, "more")
    function = f.__poot_function__
    line = function.__code__.co_firstlineno + 2
    assert explanation.frozen == (f"what getattr gave {function.__qualname__} ({__file__}:{line})",)
    assert "scale = 5.0" in explanation.guarded
    assert "WHICH = 'gain'" in explanation.guarded
    assert explanation.retraces[1] == "'scale': 2.0 became 5.0"
    assert explanation.retraces[2] == "'device': cpu became interpret"
    assert len(explanation.kernels) == 1
    assert explanation.kernels[0].endswith(", launched 1 time")
    text = str(explanation)
    for expected in (
        "  input x: leaf",
        "  capture WEIGHT (its contents are read at every call)",
        "  guarded: scale = 5.0",
        "  frozen: what getattr gave ",
        "  traced again because of 'scale': 2.0 became 5.0",
        "  traced again because of 'device': cpu became interpret",
        "  1 launches of 1 kernels on cpu",
        "  kernel ",
        "  fuse: ",
    ):
        assert expected in text


# --- donation ---------------------------------------------------------------------------------------------------------


@poot.trace(donate="state")
def step(state: Any, x: Any) -> Any:
    return {"total": state["total"] + x, "count": state["count"] + 1}


def test_donated_pytrees_are_gone_and_name_the_call() -> None:
    state = {"total": poot.asarray(ONES), "count": poot.asarray(np.int32(0))}
    x = poot.asarray(ONES)
    for _ in range(3):
        given, state = state, step(state, x)
    assert same(state["total"], ONES * 4)
    assert int(state["count"]) == 3
    uses: list[Any] = [
        lambda: np.asarray(given["total"]),
        lambda: given["total"] + 1.0,
        lambda: step(given, x),
        lambda: str(given["count"]),
        lambda: given["total"].block_until_ready(),
        lambda: poot.trace(lambda v: v * 2.0)(given["total"]),
    ]
    for use in uses:
        with pytest.raises(EngineError, match=r"this array was donated to step at .*test_sharp_edges_inside\.py:\d+"):
            use()
    assert "donated to step" in repr(given["total"])
    assert given["total"].shape == (3,)
    assert same(x, ONES)


def test_what_is_not_given_away() -> None:
    mine = np.ones(3, np.float32)
    f = poot.trace(donate=("x",))(lambda x: x + 1.0)
    assert same(f(mine), mine + 1)
    assert same(f(mine), mine + 1)
    array = poot.asarray(mine)
    view = np.asarray(array)
    outer = poot.trace(lambda y: f(y) * 2.0)
    assert same(outer(array), mine * 4)
    assert same(array, mine)
    assert same(f(array), mine * 2)
    assert same(view, mine)


def test_a_call_that_fails_takes_nothing() -> None:
    array = poot.asarray(ONES)
    fail = poot.trace(donate="x")(lambda x: x.reshape(2, 2))
    with pytest.raises(ValueError, match="reshape"):
        fail(array)
    assert same(array, ONES)


def test_one_array_twice_is_given_once() -> None:
    array = poot.asarray(ONES)
    assert same(poot.trace(donate=("a", "b"))(lambda a, b: a + b)(array, array), ONES * 2)
    with pytest.raises(EngineError, match="donated"):
        np.asarray(array)


@pytest.mark.parametrize("options", [{"donate": "z"}, {"donate": "x", "static_argnames": "x"}])
def test_only_arguments_that_are_no_constants_can_be_donated(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"donate of .*lambda"):
        poot.trace(**options)(lambda x, y: ops.sin(x) + y)
