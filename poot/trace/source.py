"""The user's own line: the innermost frame outside poot and NumPy, found fast enough to be kept for every equation."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import sys
import threading
from itertools import islice
from types import CodeType, FrameType

import numpy as np

from poot.errors import SourceLocation, locate_with

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# np.sum(x) on a tracer passes through NumPy's Python code, which is no more the user's than poot's own.
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
# Nor is a copy with some fields changed made by the user's hands, nor an error that leaves a block.
_BETWEEN = (str(contextlib.__file__), str(dataclasses.__file__), str(copy.__file__))
# What starts threads and modules stands below everything, and below poot's own threads and commands there is no user.
_STARTING = (
    str(threading.__file__),
    os.path.join(os.path.dirname(str(threading.__file__)), "concurrent") + os.sep,
    "<frozen ",
)
_LIMIT = 1 << 10

_internal_files: dict[str, bool] = {}
# Keyed by the code object's identity, since hashing one hashes its whole body; the entry keeps the object alive.
_locations: dict[tuple[int, int], tuple[CodeType, SourceLocation]] = {}


def user_location() -> SourceLocation | None:
    """Where the user's code called into poot; None where every frame is internal."""
    frame = user_frame()
    return None if frame is None else frame_location(frame)


def user_frame() -> FrameType | None:
    """The innermost frame that runs neither poot's nor NumPy's code, nor copies a dataclass."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    known = _internal_files
    while frame is not None:
        file = frame.f_code.co_filename
        internal = known.get(file)
        if internal is None:
            internal = _remember_file(file)
        if not internal and (file[0] != "<" or not _generated(frame)):
            return frame
        frame = frame.f_back
    return None


def _generated(frame: FrameType) -> bool:
    """Whether code without a file belongs to poot: methods that dataclasses write."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "poot"


def frame_location(frame: FrameType) -> SourceLocation:
    """The place that a frame has reached, with the columns of the expression it is evaluating."""
    code, instruction = frame.f_code, frame.f_lasti
    key = id(code), instruction
    found = _locations.get(key)
    if found is not None:
        return found[1]
    location = _locate(code, instruction, frame.f_lineno)
    if len(_locations) >= _LIMIT:
        _locations.clear()
    _locations[key] = code, location
    return location


def _remember_file(file: str) -> bool:
    if len(_internal_files) >= _LIMIT:
        _internal_files.clear()
    internal = file.startswith((_PACKAGE, _NUMPY, *_STARTING)) or file in _BETWEEN
    _internal_files[file] = internal
    return internal


def _locate(code: CodeType, instruction: int, line: int | None) -> SourceLocation:
    position = next(islice(code.co_positions(), max(instruction, 0) // 2, None), (None, None, None, None))
    first, last, column, end_column = position
    if first is None or column is None:
        return SourceLocation(code.co_filename, line or code.co_firstlineno, function=code.co_qualname)
    # An expression that goes on over further lines is underlined to the end of its first.
    end = end_column if end_column is not None and last == first else 1 << 16
    location = SourceLocation(code.co_filename, first, column, end, code.co_qualname)
    return _in_characters(location)


def _in_characters(location: SourceLocation) -> SourceLocation:
    """Code positions count bytes of UTF-8; carets need characters."""
    text = location.text
    if not text or text.isascii():
        return location
    data = text.encode()
    start, end = (len(data[:offset].decode(errors="ignore")) for offset in (location.column, location.end_column))
    return SourceLocation(location.file, location.line, start, end, location.function)


locate_with(user_location)
