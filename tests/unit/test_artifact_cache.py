"""The artifact cache on disk: what is found was stored, whole; its size is bounded; processes may share it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import poot
from poot.backends import cache, settings, toolchain
from poot.backends.cuda.code import CudaCode, stored_code
from poot.errors import ArgumentError
from poot.target import Target

KEY = cache.artifact_key("a", b"b")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_found_was_stored(folder: Path) -> None:
    assert cache.load(KEY) is None
    for body in (b"", b"x" * 100_000):
        cache.store(KEY, body)
        assert cache.load(KEY) == body
    assert len(files(folder)) == 1


def test_keys_tell_parts_apart() -> None:
    keys = {cache.artifact_key(*parts) for parts in (("ab",), ("a", "b"), ("", "ab"), ("ab", ""), ("b", "a"), ())}
    assert len(keys) == 6
    assert cache.artifact_key("a") == cache.artifact_key(b"a")


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "empty", "other", "renamed"])
def test_damaged_files_are_misses_and_go(folder: Path, damage: str) -> None:
    cache.store(KEY, b"body" * 100)
    (path,) = files(folder)
    data = bytearray(path.read_bytes())
    match damage:
        case "flip":
            data[-1] ^= 1
        case "cut":
            del data[-7:]
        case "grow":
            data += b"more"
        case "empty":
            data.clear()
        case "renamed":
            other = cache.artifact_key("another")
            cache.store(other, b"its body")
            data[:] = (folder / other[:2] / other).read_bytes()
        case _:
            data[:] = b"another file"
    path.write_bytes(data)
    assert cache.load(KEY) is None and not path.exists()
    cache.store(KEY, b"again")
    assert cache.load(KEY) == b"again"


def test_the_size_is_bounded_and_the_latest_used_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache.artifact_key(str(number)) for number in range(30)]
    for number, key in enumerate(keys):
        cache.store(key, bytes(1000))
        path = folder / key[:2] / key
        os.utime(path, (number, number))
    monkeypatch.setenv("POOT_DISK_CACHE_BYTES", "20000")
    assert cache.load(keys[0]) is not None  # a hit makes it the latest
    cache.trim(folder)
    left = [key for key in keys if cache.load(key) is not None]
    assert sum(path.stat().st_size for path in files(folder)) <= 18000
    assert keys[0] in left and keys[1] not in left and left[1:] == keys[-len(left) + 1 :]


def test_stores_trim_by_themselves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_DISK_CACHE_BYTES", "50000")
    monkeypatch.setattr(cache, "_TRIM_EVERY", 10_000)
    for number in range(200):
        cache.store(cache.artifact_key(str(number)), bytes(2000))
    assert sum(path.stat().st_size for path in files(folder)) <= 70_000


@pytest.mark.parametrize("cap", [0, 5000, 100_000])
def test_a_small_cap_is_kept_too(folder: Path, monkeypatch: pytest.MonkeyPatch, cap: int) -> None:
    monkeypatch.setenv("POOT_DISK_CACHE_BYTES", str(cap))
    for number in range(60):
        cache.store(cache.artifact_key(str(number)), bytes(5000))
        assert sum(path.stat().st_size for path in files(folder)) <= cap + cap // 16 + 5100


def test_a_disk_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path / "file" / "below"))
    cache.store(KEY, b"body")
    assert cache.load(KEY) is None


def test_a_store_that_fails_half_way_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, b"old")

    def broken(self: Path, target: Path) -> None:
        raise OSError("no rename today")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        cache.store(KEY, b"new")
    assert cache.load(KEY) == b"old" and len(files(folder)) == 1


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    cache.store(KEY, b"body")
    assert cache.directory() is None and cache.load(KEY) is None
    monkeypatch.delenv("POOT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "poot"
    for wrong in ("much", "-1", "1e9", "\u0663", "9" * 5000):
        monkeypatch.setenv("POOT_DISK_CACHE_BYTES", wrong)
        for use in (cache.cap_bytes, lambda: cache.load(KEY)):
            with pytest.raises(ArgumentError, match=r"POOT_DISK_CACHE_BYTES: '.*' is not valid, expected a number"):
                use()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_artifact(folder: Path) -> None:
    path = folder / KEY[:2] / KEY
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert cache.load(KEY) is None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("POOT_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache.directory() is None and cache.load(KEY) is None


@pytest.mark.parametrize(("text", "expected"), [("1", True), ("on", True), ("0", False), ("False", False), ("", None)])
def test_switches(text: str, expected: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_EAGER", text)
    for default in (True, False):
        assert settings.switch("POOT_EAGER", default) == (default if expected is None else expected)
    monkeypatch.setenv("POOT_EAGER", "nonsense")
    with pytest.raises(ArgumentError, match="POOT_EAGER: 'nonsense' is not valid, expected 1 or 0"):
        settings.switch("POOT_EAGER", False)


WRITER = """
import sys
from poot.backends import cache
for turn in range(60):
    for number in range(4):
        key = cache.artifact_key(str(number))
        body = bytes([number]) * (50_000 + number)
        cache.store(key, body)
        found = cache.load(key)
        assert found is None or found == body, (turn, number)
    if turn % 10 == 9:
        cache.trim(cache.directory())
"""


def test_processes_share_it(folder: Path) -> None:
    environment = {**os.environ, "POOT_DISK_CACHE_BYTES": "120000"}
    running = [subprocess.Popen([sys.executable, "-c", WRITER], env=environment) for _ in range(3)]
    assert [process.wait(600) for process in running] == [0, 0, 0]
    assert not [path for path in files(folder) if path.name.startswith(".new-")]


def test_threads_share_it() -> None:
    bodies = [hashlib.sha256(bytes([n])).digest() * 1000 for n in range(8)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            cache.store(KEY, bodies[number])
            if cache.load(KEY) not in (None, *bodies):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_come_from_it_and_damaged_ones_are_compiled_again(folder: Path) -> None:
    program = poot.trace(lambda x: x * 3.0 + 0.125).program(poot.f32[5], device="cpu")

    def compiled() -> bytes:
        toolchain.clear_memory()
        return toolchain.compile_kernel(program.kernels[0], program.target).artifact

    image = compiled()
    (path,) = files(folder)
    whole = path.read_bytes()
    assert compiled() == image and path.read_bytes() == whole
    path.write_bytes(whole[:-3])
    assert compiled() == image and path.read_bytes() == whole


def test_threads_that_make_the_directory_together(folder: Path) -> None:
    wrong: list[BaseException] = []

    def work(start: threading.Barrier) -> None:
        start.wait(200)
        try:
            assert cache.load(KEY) in (None, b"body")
            cache.store(KEY, b"body")
        except BaseException as error:
            wrong.append(error)

    for _ in range(40):
        start = threading.Barrier(4)
        threads = [threading.Thread(target=work, args=(start,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shutil.rmtree(folder)
    assert not wrong


@pytest.mark.parametrize("name", ["cpu", "cuda:sm_90"])
def test_a_file_in_the_place_of_another_is_not_used_and_is_replaced(name: str, folder: Path) -> None:
    target = Target.parse(name)
    target = replace(target, languages=target.languages[-1:])
    kernels = [poot.compile(poot.trace(f).graph(poot.f32[5]), target).kernels[0] for f in (twice, thrice)]

    def compiled(number: int) -> object:
        toolchain.clear_memory()
        return toolchain.compile_kernel(kernels[number], target).artifact

    first = compiled(0)
    (path,) = files(folder)
    second = compiled(1)
    (other,) = set(files(folder)) - {path}
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())
    assert first != second and compiled(0) == first
    assert path.read_bytes() == whole and compiled(1) == second


def twice(x: Any) -> Any:
    return x * 2.0


def thrice(x: Any) -> Any:
    return x * 3.0


@pytest.mark.parametrize(
    "body", [b"", b"\xff" * 40, (2).to_bytes(8, "little") + b"{}", (1).to_bytes(8, "little") + b"1"]
)
def test_code_of_another_version_is_a_miss(body: bytes) -> None:
    cache.store(KEY, body)
    assert stored_code(KEY) is None
    cache.store(KEY, CudaCode(b"image", "entry", 32).to_bytes())
    assert stored_code(KEY) == CudaCode(b"image", "entry", 32)
