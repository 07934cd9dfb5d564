"""DLPack by hand: the structures of its capsules, over memory of any device, and how a capsule is taken.

The layout is that of dlpack.h: version 1 (`DLManagedTensorVersioned`, which can say read-only) and the older one, which
cannot.  A capsule that is taken gives a `Lent`, whose `release` the last user of the memory calls.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from poot.dtypes import ALL, DType, bf16
from poot.errors import ArgumentError, UnsupportedDTypeError

CPU: Final = 1
CUDA: Final = 2
CUDA_HOST: Final = 3
ROCM_HOST: Final = 11
CUDA_MANAGED: Final = 13
#: Kinds of devices whose memory the host addresses.
HOST: Final = (CPU, CUDA_HOST, ROCM_HOST, CUDA_MANAGED)

#: The version that is spoken.
VERSION: Final = (1, 0)

READ_ONLY: Final = 1
COPIED: Final = 2
_KINDS: Final = {"int": 0, "uint": 1, "float": 2, "bool": 6}
#: Code, bits and lanes of each dtype.
CODES: Final = {dtype: (4 if dtype is bf16 else _KINDS[dtype.kind], 8 * dtype.itemsize, 1) for dtype in ALL}
_DTYPES: Final = {fields: dtype for dtype, fields in CODES.items()}
#: What poot has no dtype for, by DLPack's code.
_OTHERS: Final = {
    5: "complex",
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}

# A tensor is data, device, rank and type, shape, strides and byte offset; in front of it stand, in version 1, the
# version, the owner, the deleter and flags, and behind it in the older structure the owner and the deleter.
_TENSOR: Final = "QiiiBBHQQQ"
VERSIONED: Final = struct.Struct("<IIQQQ" + _TENSOR)
PLAIN: Final = struct.Struct("<" + _TENSOR + "QQ")
OWNER_VERSIONED: Final = 8
OWNER_PLAIN: Final = 48

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

#: The names of capsules, of the older structure and of version 1.  A capsule keeps their address, so they never go.
NAMES: Final = {False: ctypes.c_char_p(b"dltensor"), True: ctypes.c_char_p(b"dltensor_versioned")}
_USED: Final = {False: ctypes.c_char_p(b"used_dltensor"), True: ctypes.c_char_p(b"used_dltensor_versioned")}

_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))


# --- taking -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Lent:
    """Memory of another library: where it is, what it holds, and `release` to give it back, once.

    `strides` count elements; `device` is DLPack's kind and number.
    """

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: tuple[int, int]
    read_only: bool
    release: Callable[[], None]


def take(capsule: Any, what: str) -> Lent:
    """The memory in a capsule, which is used up; ArgumentError for one that is no DLPack capsule, or was used before.

    UnsupportedDTypeError for elements that no dtype stands for.  A producer that cannot say whether its memory may be
    written has it taken as read-only.
    """
    at = id(capsule)
    versioned = bool(_is_valid(at, NAMES[True]))
    if not versioned and not _is_valid(at, NAMES[False]):
        raise ArgumentError(what=what, actual=capsule, expected="a DLPack capsule that has not been used")
    at_tensor = _pointer(at, NAMES[versioned])
    form = VERSIONED if versioned else PLAIN
    fields = form.unpack(ctypes.string_at(at_tensor, form.size))
    if versioned and fields[0] > VERSION[0]:
        raise ArgumentError(what=what, actual=f"DLPack {fields[0]}", expected=f"DLPack {VERSION[0]} or older")
    data, kind, number, rank, code, bits, lanes, extents, steps, offset = fields[5:] if versioned else fields[:10]
    deleter, flags = (fields[3], fields[4]) if versioned else (fields[11], READ_ONLY)
    dtype = _DTYPES.get((code, bits, lanes))
    if dtype is None:
        raise _unsupported(what, code, bits, lanes)
    shape = struct.unpack(f"<{rank}q", ctypes.string_at(extents, 8 * rank)) if rank else ()
    strides = struct.unpack(f"<{rank}q", ctypes.string_at(steps, 8 * rank)) if rank and steps else contiguous(shape)

    def release() -> None:
        if deleter:
            _callable(deleter)(at_tensor)

    lent = Lent(data + offset, dtype, shape, strides, (kind, number), bool(flags & READ_ONLY), release)
    _rename(at, _USED[versioned])
    return lent


def _unsupported(what: str, code: int, bits: int, lanes: int) -> UnsupportedDTypeError:
    name = _OTHERS.get(code)
    if name is None or lanes != 1:
        return UnsupportedDTypeError(what=what, actual=f"of DLPack's code {code}, {bits} bits, {lanes} lanes,")
    if code == 5:
        return UnsupportedDTypeError(what=what, actual=f"{name}{bits}")
    remedy = f"pass its bytes, as u8, or convert it first; {UnsupportedDTypeError.default_remedy.partition('; ')[2]}"
    return UnsupportedDTypeError(what=what, actual=name, remedy=remedy)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = list[int](), 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@functools.lru_cache(64)
def _callable(deleter: int) -> Callable[[int], object]:
    """A producer's deleter; each library has one or two."""
    return _Deleter(deleter)
