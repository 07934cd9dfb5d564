"""Registers what docs/extending.md adds, so that other tests run on it: `-p tests.plugin_extending --device plain`."""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path

from tests.unit.test_documents import program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"


def pytest_configure(config: object) -> None:
    module = types.ModuleType("extending_page")
    sys.modules["extending_page"] = module
    file = Path(tempfile.mkdtemp()) / "extending.py"
    file.write_text(program(PAGE.read_text("utf-8")), "utf-8")
    exec(compile(file.read_text("utf-8"), str(file), "exec"), module.__dict__)
