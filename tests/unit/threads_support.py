"""Running something in a forked child, and beside something that takes long."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator


def forked(work: Callable[[], object]) -> str:
    """The message of the exception that `work` raises in a forked child, or "" if it raises none."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork in a threaded process, as drivers make it
        child = os.fork()
    if child == 0:
        message = "it did not end"
        try:
            work()
            message = ""
        except Exception as error:
            message = str(error)
        finally:
            os.write(writer, message.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


@contextlib.contextmanager
def once(condition: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Beside the block a thread calls `act` once, as soon as `condition()` holds, however long that takes."""
    over = threading.Event()

    def watch() -> None:
        while not condition():
            if over.wait(0.002):
                return
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main_thread_runs(file: str) -> bool:
    """Whether the main thread is in code of a file whose path ends like this, or in what that called."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith(file):
        frame = frame.f_back
    return frame is not None
