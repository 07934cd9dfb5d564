"""The artifact cache on disk: content-addressed, verified, size-capped, safe between processes.

A key is the hash of everything that an artifact depends on, so an entry never goes stale.  Files carry a hash of their
key and contents and are verified on a hit, so that neither a damaged file nor one that lies in another's place is used;
such a file goes, and the next store replaces it.  Files are written beside their place and renamed, so a reader never
sees half of one.
`POOT_CACHE_DIR` moves the cache ("" turns it off), `POOT_DISK_CACHE_BYTES` changes its cap (512 MiB).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import stat
import tempfile
from pathlib import Path

from poot.backends.settings import byte_count
from poot.errors import ArgumentError

_MAGIC = b"poot-artifact-2\n"
_DIGEST = 32
_CAP = 512 << 20
#: The directory is measured after so many bytes have been written, or a sixteenth of a small cap, by one process or by
#: many short ones: each begins somewhere on the way.
_TRIM_EVERY = 16 << 20

_written = random.randrange(_TRIM_EVERY)


def artifact_key(*parts: str | bytes) -> str:
    """The key of an artifact that depends on exactly these parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def directory() -> Path | None:
    """Where artifacts are kept, or None where the cache is off; ArgumentError for what cannot be a directory."""
    named = os.environ.get("POOT_CACHE_DIR")
    if named is not None:
        return _named_directory(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "poot"
    except RuntimeError:  # a user without a home
        return None


def _named_directory(name: str) -> Path:
    path = os.path.expanduser(name)
    try:
        may_be = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:  # there is nothing yet, or another process is just making it
        may_be = not path.startswith("~")
    if not may_be:
        raise ArgumentError(
            what="POOT_CACHE_DIR",
            actual=name,
            expected="a directory, which is made where there is none, or nothing to keep no files",
            remedy="set POOT_CACHE_DIR to a directory, or unset it.",
        )
    return Path(path)


def _head(key: str, body: bytes) -> bytes:
    """What a file begins with: a hash of the key and the contents."""
    return _MAGIC + hashlib.sha256(key.encode() + b"\n" + body).digest()


def load(key: str) -> bytes | None:
    """The artifact stored under `key`, or None if there is none, or the file is damaged or another key's."""
    folder = directory()
    if folder is None:
        return None
    cap_bytes()  # a setting that makes no sense is told before it is needed
    path = folder / key[:2] / key
    try:
        if not path.is_file():  # whoever opens a pipe waits for its other end
            return None
        data = path.read_bytes()
    except OSError:
        return None
    body = data[len(_MAGIC) + _DIGEST :]
    if data[: len(_MAGIC) + _DIGEST] != _head(key, body):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return body


def store(key: str, body: bytes) -> None:
    """Keep an artifact; a disk that cannot be written to leaves the cache as it was."""
    global _written
    folder = directory()
    if folder is None:
        return
    path = folder / key[:2] / key
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_head(key, body) + body)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return
    _written += len(body)
    if _written >= min(_TRIM_EVERY, cap_bytes() // 16):
        _written = 0
        trim(folder)


def cap_bytes() -> int:
    """What POOT_DISK_CACHE_BYTES says, or the default; ArgumentError for what is no number of bytes."""
    given = byte_count("POOT_DISK_CACHE_BYTES", None)
    return _CAP if given is None else given


def trim(folder: Path) -> None:
    """Delete the artifacts that were used longest ago until the directory is below nine tenths of its cap."""
    cap = cap_bytes()
    entries: list[tuple[float, int, Path]] = []
    for path in folder.glob("??/*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    if total <= cap:
        return
    for _, size, path in sorted(entries):
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
        if total <= cap * 9 // 10:
            return
