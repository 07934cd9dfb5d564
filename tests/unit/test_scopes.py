"""A Ctrl-C at the very moment when a block is entered leaves nothing of it set."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.api import devices, eager, eager_call
from poot.scopes import Scope
from poot.trace import dispatch

ONE = np.ones(2, np.float32)


class Interrupted:
    """A context variable: as it has been set for the n-th time, a Ctrl-C comes."""

    def __init__(self, variable: ContextVar[Any], turn: int) -> None:
        self.variable, self.left = variable, turn
        self.get = variable.get

    def set(self, value: Any) -> None:
        self.variable.set(value)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def trace() -> Any:
    return poot.trace(lambda x: ops.cond(x[0] > 0, lambda: x + 1, lambda: x)).graph(f32[2])


def run_eagerly() -> Any:
    with poot.eager():
        return poot.trace(lambda x: x + 1)(ONE)


def run_elsewhere() -> Any:
    with poot.device("interpret"):
        return poot.asarray(ONE)


@pytest.mark.parametrize(
    ("module", "name", "use", "turn"),
    [
        *((dispatch, "_ACTIVE", trace, turn) for turn in (1, 2, 3)),
        (dispatch, "_TAKEN", trace, 1),
        (eager, "_EAGER", run_eagerly, 1),
        (eager_call, "_RUNNING", run_eagerly, 1),
        (devices, "_SCOPE", run_elsewhere, 1),
    ],
)
def test_a_ctrl_c_that_comes_with_a_block(
    module: Any, name: str, use: Callable[[], Any], turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = getattr(module, name)
    before = variable.get()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, Interrupted(variable, turn))
        with pytest.raises(KeyboardInterrupt) as kept:  # whoever keeps the traceback
            use()
    assert variable.get() == before
    del kept  # or lets it go
    assert variable.get() == before
    assert trace().equations and run_elsewhere().device == "interpret" and poot.asarray(ONE).device == "cpu"


def test_scopes_nest() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    with Scope(variable, 1) as outer, Scope(variable, 2):
        assert (outer, variable.get()) == (1, 2)
    assert variable.get() == 0
