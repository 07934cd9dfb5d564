"""Running something in a forked child."""

from __future__ import annotations

import os
from collections.abc import Callable


def forked(work: Callable[[], object]) -> str:
    """The message of the exception that `work` raises in a forked child, or "" if it raises none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        message = ""
        try:
            work()
        except Exception as error:
            message = str(error)
        os.write(writer, message.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text
