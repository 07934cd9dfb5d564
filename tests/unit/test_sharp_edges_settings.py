"""The sharp edges of tracing in every setting where Python runs: modules, a REPL, exec, a notebook, threads."""

from __future__ import annotations

import ast
import code
import importlib.util
import itertools
import linecache
import os
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sharp_edges import EDGES, PRELUDE, WARNING_EDGE

ROOT = Path(__file__).resolve().parents[2]
ALL = {**EDGES, "the_eighth_miss_warns_once": WARNING_EDGE}


@pytest.mark.parametrize("edge", ALL)
def test_in_a_module(edge: str, tmp_path: Path) -> None:
    path = tmp_path / f"{edge}.py"
    path.write_text(PRELUDE + "SHOWS_SOURCE = True\n" + ALL[edge], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(edge, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


@pytest.mark.parametrize("edge", ALL)
def test_through_exec_without_source(edge: str) -> None:
    space = {"__name__": "nowhere"}
    exec(compile(PRELUDE + ALL[edge], "<nowhere>", "exec"), space)


@pytest.mark.parametrize("edge", ALL)
def test_through_exec_with_source(edge: str) -> None:
    source = PRELUDE + "SHOWS_SOURCE = True\n" + ALL[edge]
    name = f"<edge {edge}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    try:
        exec(compile(source, name, "exec"), {"__name__": "somewhere"})
    finally:
        del linecache.cache[name]


class Repl(code.InteractiveConsole):
    """A prompt that keeps what goes wrong."""

    def __init__(self) -> None:
        super().__init__({"__name__": "__console__"})
        self.failures: list[str] = []

    def write(self, data: str) -> None:
        self.failures.append(data)

    def type(self, source: str) -> None:
        """Enter a program as a person does: statement by statement, and an empty line after each."""
        for statement in ast.parse(source).body:
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(node.lineno for node in decorators)])
            for line in source.splitlines()[first - 1 : statement.end_lineno]:
                self.push(line)
            self.push("")


@pytest.mark.parametrize("edge", ALL)
def test_in_a_repl(edge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(sys, "displayhook", lambda value: None)
    repl = Repl()
    repl.type(PRELUDE + ALL[edge])
    assert repl.failures == []


def at_once(works: list[Any]) -> list[str]:
    """Run functions in a thread each, all beginning together; what they raised."""
    barrier, failures = threading.Barrier(len(works)), list[str]()

    def run(work: Any) -> None:
        barrier.wait()
        try:
            work()
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def programs(names: list[str]) -> list[Any]:
    # Each as a file of its own: eight copies of one line that traces are one call site that keeps tracing.
    made = [compile(PRELUDE + EDGES[name], f"<{name} {next(FILES)}>", "exec") for name in names]
    return [lambda program=program: exec(program, {"__name__": "thread"}) for program in made]


FILES = itertools.count()

# Whoever draws from the global generators while another thread traces is caught with that thread.
CONCURRENT = [name for name in EDGES if name != "global_random_state_is_refused"]


@pytest.mark.parametrize("edge", CONCURRENT)
def test_in_eight_threads_at_once(edge: str) -> None:
    assert at_once(programs([edge] * 8)) == []


def test_eight_threads_with_different_programs() -> None:
    for start in range(0, len(CONCURRENT), 8):
        assert at_once(programs((CONCURRENT[start:] + CONCURRENT)[:8])) == [], start


RELOADED = """
import poot

GAIN = {gain}

def helper(x):
    return x * {factor}

@poot.trace
def f(x):
    return helper(x) + {bias}

class Model:
    @poot.trace
    def __call__(self, x):
        return x * {factor} + {bias}

@poot.kernel
def fill(out: poot.Out[poot.f32]):
    i = poot.thread_index()
    if i < len(out):
        out[i] = GAIN * {factor}
"""
FIRST = {"gain": 1.0, "factor": 2.0, "bias": 1.0}
SECOND = {"gain": 1.0, "factor": 10.0, "bias": 5.0}


def write_module(folder: Path, values: dict[str, float], stamp: int) -> Path:
    path = folder / "edge_reloaded.py"
    path.write_text(RELOADED.format(**values), encoding="utf-8")
    os.utime(path, (stamp, stamp))  # reloading looks at the time in whole seconds
    return path


def test_a_reloaded_module_uses_the_newest_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.syspath_prepend(str(tmp_path))
    write_module(tmp_path, FIRST, 1_000_000_000)
    module = importlib.import_module("edge_reloaded")
    try:
        ones = np.ones(3, np.float32)
        old = module.f
        assert float(module.f(ones)[0]) == 3.0
        assert float(module.Model()(ones)[0]) == 3.0
        write_module(tmp_path, SECOND, 1_000_000_100)
        importlib.reload(module)
        assert float(module.f(ones)[0]) == 15.0
        assert float(module.Model()(ones)[0]) == 15.0
        assert float(old(ones)[0]) == 11.0  # the old body, and the helper that its module has now
    finally:
        del sys.modules["edge_reloaded"]


IMPORT = """
import os, sys
sys.path.insert(0, FOLDER)
import edge_reloaded
from edge_reloaded import f, fill, Model
model, out = Model(), np.zeros(2, np.float32)
"""
USE = """
fill(out, threads=2)
found = [edge_reloaded.f(ones)[0], f(ones)[0], edge_reloaded.Model()(ones)[0], model(ones)[0], out[0]]
assert [float(value) for value in found] == {expected}, found
"""
AUTORELOAD = [
    "%load_ext autoreload\n%autoreload 2",
    IMPORT,
    USE.format(expected=[3.0, 3.0, 3.0, 3.0, 2.0]),
    "open(PATH, 'w').write(SECOND); os.utime(PATH, (2_000_000_000, 2_000_000_000));",
    USE.format(expected=[15.0, 15.0, 15.0, 15.0, 10.0]),
]


def test_in_notebook_cells_and_under_autoreload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    path = write_module(tmp_path, FIRST, 1_000_000_000)
    names = f"FOLDER, PATH, SECOND = {str(tmp_path)!r}, {str(path)!r}, {RELOADED.format(**SECOND)!r}\n"
    cells = [PRELUDE + "SHOWS_SOURCE = True\n" + names, *ALL.values(), *AUTORELOAD]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook's own packages
        from nbclient import NotebookClient
        from nbformat.v4 import new_code_cell, new_notebook
        from traitlets.config import Config

        notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        # Not through ports: one that is free now may be another process's a moment later.
        with tempfile.TemporaryDirectory() as folder:  # a name of a socket is short
            sockets = Config(ConnectionFileMixin={"transport": "ipc", "ip": f"{folder}/s"})
            NotebookClient(notebook, kernel_name="python3", timeout=600, startup_timeout=600, config=sockets).execute()
