"""Progress of what takes long: shown after a while, in terminals and notebooks, and never in the way."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import threading
import time
import types
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends import progress
from poot.backends.progress import Work, working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal; made in the test itself, since pytest puts its own there after the fixtures."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("POOT_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_ENOUGH", 240.0)  # on a busy machine too, what is drawn goes before a test looks
    monkeypatch.setattr(progress._local, "ended", float("-inf"))
    return found


def until(condition: Any) -> None:
    limit = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_long_work_is_shown_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with working("compiling", 37, "kernels") as work:
        for _ in range(12):
            work.advance()
        until(lambda: "compiling 12/37 kernels" in terminal.getvalue())
    text = terminal.getvalue()
    assert text.rindex("\x1b[2K") > text.rindex("compiling")  # the line is erased
    length = len(text)
    time.sleep(0.3)
    assert len(terminal.getvalue()) == length


def test_short_work_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    with working("compiling"):
        time.sleep(0.3)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("off", ["POOT_PROGRESS", "no terminal"])
def test_nothing_is_drawn_where_nobody_looks(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    if off == "POOT_PROGRESS":
        monkeypatch.setenv(off, "0")
    else:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    before = set(threading.enumerate())  # some of which may end meanwhile
    with working("compiling"):
        assert not set(threading.enumerate()) - before
    assert terminal.getvalue() == ""


def test_inner_work_changes_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with working("planning f") as outer:
        with working("compiling", 2, "kernels") as inner:
            assert inner is outer
            until(lambda: "compiling 0/2 kernels" in terminal.getvalue())
        assert str(outer) == "planning f"


def test_work_without_a_pause_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.6)
    monkeypatch.setattr(progress, "_PAUSE", 600.0)

    def shown() -> bool:
        with working("compiling"):
            time.sleep(0.25)
        return terminal.getvalue() != ""

    until(shown)


def test_work_after_a_pause_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)
    began: list[float] = []
    for pause in (600.0, 600.0, -1.0):
        monkeypatch.setattr(progress, "_PAUSE", pause)
        with working("compiling"):
            began.append(progress._local.since)
        time.sleep(0.001)
    assert began[0] == began[1] < began[2]


def test_errors_of_drawing_reach_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)
    met = threading.Event()

    def broken(*_: object) -> None:
        met.set()
        raise OSError("the terminal is gone")

    monkeypatch.setattr(progress.TerminalLine, "show", broken)
    with working("compiling"):
        assert met.wait(240)
    with pytest.raises(ValueError, match="the work's own"), working("compiling"):
        raise ValueError("the work's own")


def test_where_there_can_be_no_thread_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with working("compiling") as work:
        assert work.text == "compiling"


def test_one_thread_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)
    drawing, most = set[int](), list[int]()

    class Line:
        def __init__(self) -> None:
            drawing.add(threading.get_ident())

        def show(self, work: Work, seconds: float) -> None:
            most.append(len(drawing))

        def close(self) -> None:
            drawing.discard(threading.get_ident())

    monkeypatch.setattr(progress, "TerminalLine", Line)

    def work() -> None:
        with working("compiling"):
            until(lambda: most)
            time.sleep(0.3)  # time for the others to draw, if they would

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert not drawing


def test_a_debugger_has_the_screen_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    space: dict[str, Any] = {"__name__": "pdb"}
    exec("def interact(work):\n    work()", space)
    looks: list[bool] = []
    original = progress._is_debugged

    def noted(thread: int) -> bool:
        looks.append(original(thread))
        return looks[-1]

    monkeypatch.setattr(progress, "_is_debugged", noted)
    with contextlib.ExitStack() as stack:

        def work() -> None:
            stack.enter_context(working("tracing f"))
            until(lambda: len(looks) >= 3)
            assert all(looks) and terminal.getvalue() == ""

        space["interact"](work)
        until(terminal.getvalue)


def test_a_notebook_gets_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    shown: list[str] = []

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        return types.SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", module)
    with working("compiling", 4, "kernels") as work:
        work.advance()
        until(lambda: any(text.startswith("compiling 1/4 kernels [███████") for text in shown))
    assert shown[-1] == ""
    assert terminal.getvalue() == ""


def test_a_first_call_and_weights_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    a_terminal(monkeypatch)
    said: list[str] = []
    monkeypatch.setattr(progress, "_is_wanted", lambda: said.append("asked"))

    class Watched(Work):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "text":
                said.append(value)
            super().__setattr__(name, value)

    monkeypatch.setattr(progress, "Work", Watched)
    poot.trace(lambda x: x * 3.25 - 1.125)(np.ones(7, np.float32))
    texts = [text.partition(" ")[0] for text in said]
    assert {"tracing", "planning", "compiling"} <= set(texts)
    said.clear()
    engine = poot.Engine(poot.device("cpu"))
    engine.load_weights(poot.WeightStore({"w": np.ones(3, np.float32)}))
    assert "loading" in said


def test_importing_and_calling_leave_rich_alone() -> None:
    code = (
        "import sys, numpy as np, poot; poot.trace(lambda x: x + 1)(np.ones(3, np.float32)); "
        "raise SystemExit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0
