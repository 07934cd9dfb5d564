"""What takes longer than two seconds says so: a line that goes away by itself, in terminals and notebooks alone.

`working` wraps a piece of work; inside another one of the same thread it changes that one's line, unless that one
counts.  A thread of its own draws, and imports what drawing needs, once two seconds have passed; nothing that goes
wrong there reaches the work.
`POOT_PROGRESS=0` turns it off.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

from poot.backends.settings import switch

#: Seconds before anything is shown; between two looks at the work; and within which work counts as going on.
PATIENCE = 2.0
_TICK = 0.1
_PAUSE = 0.5
#: How long work is shown to end: drawing never keeps it.
_ENOUGH = 1.0


@dataclass(slots=True)
class Work:
    """What a thread is at: `done` of `total` things, or no one knows of how many; whoever works changes it."""

    text: str
    unit: str = ""
    total: int | None = None
    done: int = 0

    def advance(self) -> None:
        """One more is done."""
        self.done += 1

    def __str__(self) -> str:
        return self.text if self.total is None else f"{self.text} {min(self.done, self.total)}/{self.total} {self.unit}"


class _Local(threading.local):
    """The work of a thread, when it began without a pause, and when the last one ended."""

    work: Work | None = None
    since: float = 0.0
    ended: float = float("-inf")


_local = _Local()
_screen = threading.Lock()  # held by the one thread that draws


def _after_fork() -> None:
    """In a forked child: whoever draws is not here."""
    global _screen
    _screen = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def working(text: str, total: int | None = None, unit: str = "") -> Generator[Work]:
    """Show `text`, and how much is done of `total`, while the block takes long."""
    work = _local.work
    if work is not None and work.total is not None:
        yield Work(text, unit, total)
        return
    if work is not None:
        before = work.text, work.unit, work.total, work.done
        work.text, work.unit, work.total, work.done = text, unit, total, 0
        try:
            yield work
        finally:
            work.text, work.unit, work.total, work.done = before
        return
    work, now = Work(text, unit, total), time.monotonic()
    if now - _local.ended > _PAUSE:
        _local.since = now
    watcher = _Watcher.start(work, _local.since) if _is_wanted() else None
    _local.work = work
    try:
        yield work
    finally:
        _local.work, _local.ended = None, time.monotonic()
        if watcher is not None:
            watcher.stop()


def _is_wanted() -> bool:
    if not switch("POOT_PROGRESS", True):
        return False
    try:
        return sys.stderr.isatty() or _is_notebook()
    except Exception:  # a stream that someone put there
        return False


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


class _Watcher:
    """Looks at a piece of work from a thread of its own, and draws it while it takes long."""

    def __init__(self, work: Work, since: float) -> None:
        self._work = work
        self._since = since
        self._worker = threading.get_ident()
        self._over = threading.Event()
        self._drawing = False
        self._thread: threading.Thread | None = None

    @staticmethod
    def start(work: Work, since: float) -> _Watcher | None:
        """A watcher at work; None where there can be no thread."""
        watcher = _Watcher(work, since)
        context = contextvars.copy_context()  # by which a notebook knows the cell
        run = threading.Thread(target=context.run, args=(watcher._watch,), name="poot-progress", daemon=True)
        watcher._thread = run
        try:
            run.start()
        except RuntimeError:
            return None
        return watcher

    def stop(self) -> None:
        """The work is over: what was drawn is gone when this returns."""
        self._over.set()
        if self._drawing and self._thread is not None:
            self._thread.join(_ENOUGH)

    def _watch(self) -> None:
        with contextlib.suppress(Exception):
            wait = max(self._since + PATIENCE - time.monotonic(), _TICK)
            while not self._over.wait(wait):
                wait = _TICK
                if _screen.acquire(blocking=False):
                    try:
                        self._draw()
                    finally:
                        _screen.release()

    def _draw(self) -> None:
        """Draw until the work is over, or a debugger wants the screen."""
        if _is_debugged(self._worker):
            return
        self._drawing = True
        if self._over.is_set():
            return
        line: Line = NotebookLine() if _is_notebook() else TerminalLine()
        try:
            while not (self._over.is_set() or _is_debugged(self._worker)):
                line.show(self._work, time.monotonic() - self._since)
                self._over.wait(_TICK)
        finally:
            line.close()
            self._drawing = False


def _is_debugged(thread: int) -> bool:
    """Whether a thread stands in a debugger, as code may while it is traced."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_globals.get("__name__") in ("bdb", "pdb", "cmd"):
            return True
        frame = frame.f_back
    return False


class Line(Protocol):
    """Where work is shown."""

    def show(self, work: Work, seconds: float) -> None:
        """Draw the work as it stands, `seconds` after it began."""
        ...

    def close(self) -> None:
        """Take away what was drawn."""
        ...


class TerminalLine:
    """A bar of rich's on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[seconds]}")
        self._progress = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None, seconds="")

    def show(self, work: Work, seconds: float) -> None:
        from rich.markup import escape

        self._progress.update(
            self._task, description=escape(str(work)), total=work.total, completed=work.done, seconds=f"{seconds:.0f} s"
        )
        self._progress.start()  # draws, the first time
        self._progress.refresh()

    def close(self) -> None:
        self._progress.stop()


class NotebookLine:
    """A line of text below a notebook's cell."""

    def __init__(self) -> None:
        display: Callable[..., Any] = sys.modules["IPython"].display.display
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
        self._shown = ""

    def show(self, work: Work, seconds: float) -> None:
        filled = 0 if not work.total else min(30 * work.done // work.total, 30)
        bar = "" if work.total is None else f" [{'█' * filled}{'·' * (30 - filled)}]"
        self._update(f"{work}{bar} {seconds:.0f} s")

    def _update(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self._handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        self._update("")
