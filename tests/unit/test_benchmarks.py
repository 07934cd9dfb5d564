"""What benchmarks do with their arguments: `--help` measures nothing, and nothing is written without `--write`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness

FOLDER = Path(harness.__file__).parent
NAMES = sorted(
    path.stem
    for path in FOLDER.iterdir()
    if path.stem[0] != "_" and path.stem not in ("harness", "results") and path.suffix in ("", ".py")
)
WITH_ROWS = ["attention_cpu", "cpu"]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks tell libraries the number of threads as they are imported."""
    monkeypatch.setattr(os, "environ", dict(os.environ))


def main(name: str, *arguments: str) -> Any:
    module = importlib.import_module(f"benchmarks.{name}" + ".__main__" * (FOLDER / name).is_dir())
    return module.main(arguments)


def test_every_benchmark_is_here() -> None:
    assert {"cpu", "attention_cpu", "compile_time", "loops", "minilm", "wgpu_step", "cuda_launch"} < {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_help_measures_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(name, "--help")
    told = capsys.readouterr().out
    assert ended.value.code == 0 and f"usage: python -m benchmarks.{name}" in told
    assert ("--write" in told) == (name not in ("cuda_launch", "kernel_launch"))
    with pytest.raises(SystemExit) as ended:
        main(name, "--nonsense")
    assert ended.value.code == 2


@pytest.mark.parametrize("name", WITH_ROWS)
def test_some_rows_are_not_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        (("--write", "--rows", "causal"), "not allowed with argument --write"),
        (("--rows", "voodoo"), "no row begins with voodoo; there are "),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(name, *arguments)
        assert ended.value.code == 2 and message in capsys.readouterr().err


def test_a_table_is_written_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    table = "# Title\n\nNote.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    for write in (False, True):
        harness.show_table("name", "Title", "Note.", ["a", "b"], [["1", "2"]], write=write)
        assert capsys.readouterr().out == table + "\n"
        assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == [table] * write
