"""Registers what docs/extending.md adds, so that other tests run on it: `-p tests.plugin_extending --device plain`."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import types
from pathlib import Path

import pytest

from tests.unit.test_documents import program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"


def pytest_configure(config: pytest.Config) -> None:
    """Run the page, from a file that is there until the end of the run: the tracer reads the lines of its functions."""
    module = types.ModuleType("extending_page")
    sys.modules["extending_page"] = module
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    file = Path(folder.name) / "extending.py"
    file.write_text(program(PAGE.read_text("utf-8")), "utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(file.read_text("utf-8"), str(file), "exec"), module.__dict__)
