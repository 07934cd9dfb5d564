"""Environment variables: one table tells of all of them, and each refuses what makes no sense."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import poot
from poot.api import devices, eager
from poot.backends import cache, progress, settings
from poot.backends.cpu import allocator, pool
from poot.backends.settings import KNOWN
from poot.cli.doctor import examine
from poot.errors import PootError

ROOT = Path(__file__).parents[2]
#: What only the tests read.
TESTING = ("POOT_FUZZ_EXAMPLES", "POOT_FAKE_CUDA")


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_one_table_tells_of_every_variable() -> None:
    rows = re.findall(r"^\| `(POOT_\w+)` \|", (ROOT / "docs/devices.md").read_text("utf-8"), re.MULTILINE)
    named = {name for file in files("poot") for name in re.findall(r"POOT_[A-Z_]+", file.read_text("utf-8"))}
    assert rows == [*KNOWN, *TESTING] and named == set(KNOWN)
    outside = files("tests", "benchmarks", "tools", "examples")
    read = {name for file in outside for name in re.findall(r'environ\S*?"(POOT_[A-Z_]+)', file.read_text("utf-8"))}
    assert read <= {*KNOWN, *TESTING}


def wgpu_adapters() -> object:
    from poot.backends.wgpu.adapter import adapters

    return adapters()


def opencl_devices() -> object:
    from poot.backends.opencl.platform import devices

    return devices()


USES: dict[str, tuple[str, Callable[[], object]]] = {
    "POOT_DEVICE": ("voodoo", devices.default),
    "POOT_OPENCL_DEVICE": ("voodoo", opencl_devices),
    "POOT_WGPU_ADAPTER": ("voodoo", wgpu_adapters),
    "POOT_NUM_THREADS": ("0", pool.default_threads),
    "POOT_CACHE_BYTES": ("1 GB", allocator.default_cache_bytes),
    "POOT_CACHE_DIR": (__file__, cache.directory),
    "POOT_DISK_CACHE_BYTES": ("-1", cache.cap_bytes),
    "POOT_EAGER": ("maybe", eager.is_eager),
    "POOT_PROGRESS": ("never", lambda: progress.working("").__enter__()),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, use = USES[name]
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(settings, "_settled", {})
    eager._always.cache_clear()
    try:
        with pytest.raises(PootError) as caught:
            use()
    finally:
        eager._always.cache_clear()
    text = str(caught.value)
    assert name in text and value in text and f"Remedy: set {name}" in text


@pytest.mark.parametrize("value", ["~nobody-of-that-name/poot", "file"])
def test_the_cache_is_a_directory(value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOT_CACHE_DIR", value)
    for use in (lambda: cache.load("0" * 64), lambda: cache.store("0" * 64, b""), cache.directory):
        with pytest.raises(PootError, match=r"POOT_CACHE_DIR: .* is not valid, expected a directory"):
            use()
    assert any("POOT_CACHE_DIR" in problem for problem in examine().problems)


def test_a_name_that_is_nearly_one_is_told_by_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_NUM_THREAD", "2")
    monkeypatch.setenv("POOT_FUZZ_EXAMPLES", "2")
    found = [problem for problem in examine().problems if "does not read" in problem]
    assert found == ["POOT_NUM_THREAD is set, which poot does not read; did you mean POOT_NUM_THREADS?"]
    assert poot.device("cpu")


@pytest.mark.parametrize("name", ["POOT_OPENCL_DEVICE", "POOT_WGPU_ADAPTER"])
def test_what_chooses_devices_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of devices keep their meaning in a process: those that are open, and those that are listed."""
    find = USES[name][1]
    monkeypatch.setattr(settings, "_settled", {})
    monkeypatch.setenv(name, "voodoo")
    with pytest.raises(PootError):
        find()
    monkeypatch.delenv(name)
    found = len(find())  # type: ignore[arg-type]
    monkeypatch.setenv(name, "voodoo")
    assert len(find()) == found  # type: ignore[arg-type]
