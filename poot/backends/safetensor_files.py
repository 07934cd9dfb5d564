"""Safetensors files, mapped into memory: the bytes as they are stored, once the whole layout has been checked.

The format (https://huggingface.co/docs/safetensors): eight bytes with the length of a JSON header, the header, which
gives each tensor a format, a shape and a span of the data, and the data, which the spans cover exactly.  A file that
does not keep to that is refused with what is wrong, before any of it is used.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.errors import ArgumentTypeError, WeightFileError

HostArray = np.ndarray[Any, Any]

FORMATS: Final[Mapping[str, DType]] = {
    "BOOL": bool_,
    "U8": u8,
    "I8": i8,
    "U16": u16,
    "I16": i16,
    "F16": f16,
    "BF16": bf16,
    "U32": u32,
    "I32": i32,
    "F32": f32,
    "U64": u64,
    "I64": i64,
    "F64": f64,
}
"""Formats that a dtype stands for."""

PACKED: Final[Mapping[str, int]] = {
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
    "C64": 64,
}
"""Formats that are kept as bytes, and the bits of one element."""

_FILE: Final = "name a .safetensors file, an index of shards, or a folder that holds one of these."
_READABLE: Final = "check that the path is right and that you may read it."
_SHARDS: Final = "fetch the index and all of its shards again, of one version and into one folder."

_INDEX: Final = ".safetensors.index.json"
_LONGEST_HEADER: Final = 100_000_000
#: The axes that NumPy has at most, and the greatest extent or offset.
_AXES: Final = 64
_MOST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StoredArray:
    """A read-only array over the mapped file; the mapping lives as long as any array over it.

    `format` is "" where the array has its dtype and shape.  A format that no dtype stands for is named there, and the
    array holds its bytes as u8: of the stored shape where an element has eight bits, else in one row.
    """

    array: HostArray
    format: str = ""


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, StoredArray]:
    """The tensors of a file, of the shards that an index names, or of a folder with either, by name.

    WeightFileError where there is no such file, or where it is truncated or damaged.
    """
    if not isinstance(path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(what="from_safetensors", actual=type(path).__name__, expected="a path")
    try:
        text = os.fspath(path)
    except TypeError:
        text = None  # its __fspath__ gives neither text nor bytes
    if not isinstance(text, str):
        raise ArgumentTypeError(what="from_safetensors", actual=f"a path of {type(text).__name__}", expected="text")
    place = Path(text)
    try:
        place = _inside(place) if place.is_dir() else place
    except OSError as error:
        raise WeightFileError(path=place, message=f"cannot be read ({error.strerror})", remedy=_READABLE) from error
    return _read_shards(place) if place.name.endswith(".json") else _read_file(place)


def _inside(folder: Path) -> Path:
    """The index of a folder, or its only file."""
    for pattern in (f"*{_INDEX}", "*.safetensors"):
        found = sorted(folder.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found)
            raise WeightFileError(path=folder, message=f"holds several: {names}", remedy="name one of them.")
    raise WeightFileError(path=folder, message="holds no .safetensors file", remedy=_FILE)


def _read_shards(index: Path) -> dict[str, StoredArray]:
    """What an index says of each tensor has to be so in the shard that it names."""
    places = _json(index, _bytes(index)).get("weight_map")
    if not isinstance(places, dict):
        raise WeightFileError(path=index, message='the index has no "weight_map"')
    shards: dict[str, dict[str, StoredArray]] = {}
    found: dict[str, StoredArray] = {}
    missing: list[str] = []
    for name, file in cast("dict[str, Any]", places).items():
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", ".."):
            message = f"{name!r} is said to be in {file!r}, which is no file beside it"
            raise WeightFileError(path=index, message=message, remedy=_SHARDS)
        if file not in shards:
            shards[file] = _read_file(index.parent / file)
        if name in shards[file]:
            found[name] = shards[file][name]
        else:
            missing.append(f"{name} in {file}")
    if missing:
        shown = ", ".join(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else "")
        message = f"the shards lack what the index says is there: {shown}"
        raise WeightFileError(path=index, message=message, remedy=_SHARDS)
    return found


def _bytes(path: Path) -> bytes:
    try:
        _check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise WeightFileError(path=path, message=f"cannot be read ({error.strerror})", remedy=_READABLE) from error


def _check_regular(path: Path) -> None:
    """WeightFileError for a pipe, whose other end might keep us waiting, a device or a folder."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except ValueError as error:  # a NUL, or half of a pair of UTF-16
        raise WeightFileError(path=ascii(str(path)), message="is no name of a file", remedy=_FILE) from error
    if not regular:
        raise WeightFileError(path=path, message="is no regular file", remedy=_FILE)


def _map(path: Path) -> HostArray:
    """The file as read-only bytes."""
    try:
        _check_regular(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise WeightFileError(path=path, message=f"has {size} bytes, and is truncated")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise WeightFileError(path=path, message=f"cannot be read ({error.strerror})", remedy=_READABLE) from error


def _read_file(path: Path) -> dict[str, StoredArray]:
    memory = _map(path)
    length = int.from_bytes(memory[:8].tobytes(), "little")
    if length > _LONGEST_HEADER:
        raise WeightFileError(path=path, message=f"the header is said to have {length} bytes; this is another format")
    if length > memory.size - 8:
        message = f"is truncated: the header has {length} bytes, and {memory.size - 8} are there"
        raise WeightFileError(path=path, message=message)
    header = _json(path, memory[8 : 8 + length].tobytes())
    header.pop("__metadata__", None)
    spans = {name: _span(path, name, entry) for name, entry in header.items()}
    data = memory[8 + length :]
    _check_cover(path, spans, data.size)
    return {name: _stored(path, name, span, data) for name, span in spans.items()}


def _json(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name stands there twice")
        return found

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
        if b"\\u" in text:  # only an escape can stand for half of a pair of UTF-16
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise WeightFileError(path=path, message="the header is damaged: it has half of a pair of UTF-16") from error
    except (ValueError, RecursionError) as error:
        raise WeightFileError(path=path, message=f"the header is damaged: {error}") from error
    if not isinstance(found, dict):
        raise WeightFileError(path=path, message="the header is damaged: it is no JSON object")
    return cast("dict[str, Any]", found)


@dataclass(frozen=True, slots=True)
class _Span:
    format: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _span(path: Path, name: str, entry: Any) -> _Span:
    """An entry of the header, checked by itself."""

    def refuse(message: str) -> WeightFileError:
        return WeightFileError(path=path, message=f"tensor {name!r}: {message}")

    try:
        format_, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(shape, list) or not isinstance(entry["data_offsets"], list):
            raise TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise refuse("its entry lacks a dtype, a shape or two data_offsets") from error
    shape = tuple(cast("list[Any]", shape))
    numbers = (*shape, begin, end)
    if len(shape) > _AXES or any(isinstance(number, int) and abs(number) > _MOST for number in numbers):
        raise refuse(f"shape and span are past {_AXES} axes, or numbers of 64 bits")
    if any(type(number) is not int or number < 0 for number in numbers):
        raise refuse(f"shape {list(shape)!r:.200} and span {begin!r:.50}:{end!r:.50} have to be numbers, 0 or more")
    known = isinstance(format_, str) and (format_ in FORMATS or format_ in PACKED)
    bits = 0 if not known else FORMATS[format_].itemsize * 8 if format_ in FORMATS else PACKED[format_]
    if not known:
        raise refuse(f"{format_!r:.50} is no format that is known")
    wanted = math.prod(shape) * bits
    if wanted % 8 or wanted // 8 != end - begin:
        size = f"{wanted // 8}{'.5' if wanted % 8 else ''} bytes"  # elements of less than a byte have 4 or 6 bits
        raise refuse(f"{format_}{list(shape)} takes {size}, and its span {begin}:{end} has {end - begin}")
    return _Span(format_, shape, begin, end)


def _check_cover(path: Path, spans: Mapping[str, _Span], size: int) -> None:
    """The spans follow each other from the first byte of the data to the last."""
    last, before = 0, "the header"
    for name, span in sorted(spans.items(), key=lambda item: (item[1].begin, item[1].end)):
        if span.begin != last:
            what = "overlaps" if span.begin < last else "leaves a gap after"
            raise WeightFileError(path=path, message=f"tensor {name!r} {what} {before}")
        last, before = span.end, repr(name)
    if last > size:
        raise WeightFileError(path=path, message=f"is truncated: its tensors take {last} bytes, and {size} are there")
    if last < size:
        raise WeightFileError(path=path, message=f"has {size - last} bytes after its last tensor")


def _stored(path: Path, name: str, span: _Span, data: HostArray) -> StoredArray:
    raw = data[span.begin : span.end]
    dtype = FORMATS.get(span.format)
    if dtype is bool_ and raw.size and int(raw.max()) > 1:
        message = f"tensor {name!r}: bools are bytes 0 and 1, and {int(raw.max())} is there"
        raise WeightFileError(path=path, message=message)
    try:
        if dtype is not None:
            return StoredArray(raw.view(dtype.dtype).reshape(span.shape))
        return StoredArray(raw.reshape(span.shape) if PACKED[span.format] == 8 else raw, span.format)
    except ValueError as error:  # more axes, or greater extents beside one of 0, than NumPy has
        raise WeightFileError(path=path, message=f"tensor {name!r}: shape {list(span.shape)}: {error}") from error
