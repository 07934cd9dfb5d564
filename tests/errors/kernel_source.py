"""Kernels from text, as a test of messages needs them: registered with linecache, as users do for `exec`."""

from __future__ import annotations

import itertools
import linecache
import re
from typing import Any

import numpy as np

from poot.api.kernels import Kernel

_numbers = itertools.count()

PRELUDE = """\
import math
from types import SimpleNamespace
from typing import TypeVar
import numpy as np
import poot
from poot.api.kernels import kernel
from poot.dtypes import bool_, f16, f32, f64, i8, i32, i64, u8, u32
from poot.kernel.language import *
from poot.kernel import language
T = TypeVar("T")
"""


def module(text: str) -> dict[str, Any]:
    """Run a module's text, with its source registered."""
    name = f"<module {next(_numbers)}>"
    whole = PRELUDE + text
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "example"}
    exec(compile(whole, name, "exec", dont_inherit=True), space)
    return space


def build(
    body: str, before: str = "", options: str = "", head: str = "x: In[f32], n: In[i32], y: InOut[f32]"
) -> Kernel:
    """A kernel `k` with a body, below other text."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return module(f"{before}\n@kernel{options}\ndef k({head}):\n    i = thread_index()\n{lines}")["k"]


def launch(made: Kernel) -> None:
    """Launch it on eight threads."""
    made(np.ones(8, np.float32), np.arange(8, dtype=np.int32), np.zeros(8, np.float32), threads=8, device="interpret")


def message(text: str) -> str:
    """A message without the names of the texts' files."""
    return re.sub(r"<module \d+>", "k.py", text)
