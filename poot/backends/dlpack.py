"""DLPack by hand: capsules over memory of any device, read and written.

The layout is that of dlpack.h: version 1 (`DLManagedTensorVersioned`, which can say read-only) and the older one, which
cannot.  A capsule that is taken gives a `Lent`, whose `release` the last user of the memory calls; one that is made
keeps its owner alive until the consumer, or the capsule itself where nobody took it, calls its deleter.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from poot.backends import capsules
from poot.dtypes import ALL, ArraySpec, DType, bf16
from poot.errors import ArgumentError

CPU: Final = 1
CUDA: Final = 2
CUDA_HOST: Final = 3
CUDA_MANAGED: Final = 13

#: The version that is spoken.
VERSION: Final = (1, 0)

_READ_ONLY: Final = 1
_COPIED: Final = 2
_KINDS: Final = {"int": 0, "uint": 1, "float": 2, "bool": 6}
#: Code, bits and lanes of each dtype.
_CODES: Final = {dtype: (4 if dtype is bf16 else _KINDS[dtype.kind], 8 * dtype.itemsize, 1) for dtype in ALL}
_DTYPES: Final = {fields: dtype for dtype, fields in _CODES.items()}

# A tensor is data, device, rank and type, shape, strides and byte offset; in front of it stand, in version 1, the
# version, the owner, the deleter and flags, and behind it in the older structure the owner and the deleter.
_TENSOR: Final = "QiiiBBHQQQ"
_VERSIONED: Final = struct.Struct("<IIQQQ" + _TENSOR)
_PLAIN: Final = struct.Struct("<" + _TENSOR + "QQ")
_OWNER_VERSIONED: Final = 8
_OWNER_PLAIN: Final = 48

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_NAMES: Final = {False: capsules.NAME, True: capsules.NAME_VERSIONED}
_USED: Final = {False: capsules.USED, True: capsules.USED_VERSIONED}

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _api))
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

    A producer that cannot say whether its memory may be written has it taken as read-only.
    """
    at = id(capsule)
    versioned = bool(_is_valid(at, _NAMES[True]))
    if not versioned and not _is_valid(at, _NAMES[False]):
        raise ArgumentError(what=what, actual=capsule, expected="a DLPack capsule that has not been used")
    at_tensor = _pointer(at, _NAMES[versioned])
    form = _VERSIONED if versioned else _PLAIN
    fields = form.unpack(ctypes.string_at(at_tensor, form.size))
    if versioned and fields[0] > VERSION[0]:
        raise ArgumentError(what=what, actual=f"DLPack {fields[0]}", expected=f"DLPack {VERSION[0]} or older")
    data, kind, number, rank, code, bits, lanes, extents, steps, offset = fields[5:] if versioned else fields[:10]
    deleter, flags = (fields[3], fields[4]) if versioned else (fields[11], _READ_ONLY)
    dtype = _DTYPES.get((code, bits, lanes))
    if dtype is None:
        actual = f"DLPack dtype code {code}, {bits} bits, {lanes} lanes"
        raise ArgumentError(what=what, actual=actual, expected="a dtype of poot")
    shape = struct.unpack(f"<{rank}q", ctypes.string_at(extents, 8 * rank)) if rank else ()
    strides = struct.unpack(f"<{rank}q", ctypes.string_at(steps, 8 * rank)) if rank and steps else contiguous(shape)

    def release() -> None:
        if deleter:
            _callable(deleter)(at_tensor)

    lent = Lent(data + offset, dtype, shape, strides, (kind, number), bool(flags & _READ_ONLY), release)
    _rename(at, _USED[versioned])
    return lent


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


# --- making -----------------------------------------------------------------------------------------------------------


class Owner:
    """What a capsule keeps alive; `released` is called when its consumer is done, from any thread."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: object = None

    def keep(self, kept: object) -> None:
        """Hold the capsule's own memory, which ends with this object."""
        self._kept = kept


def make(
    address: int,
    spec: ArraySpec,
    device: tuple[int, int],
    owner: Owner,
    *,
    versioned: bool,
    read_only: bool,
    copied: bool = False,
) -> Any:
    """A capsule over C-contiguous memory; `owner` lives until nobody uses it any more.

    Only a `versioned` one can say that it is `read_only`.
    """
    rank, dtype = spec.rank, spec.dtype
    code, bits, lanes = _CODES[dtype]
    native = capsules.functions(_OWNER_PLAIN, _OWNER_VERSIONED)
    form = _VERSIONED if versioned else _PLAIN
    memory = array("b", bytes(form.size + 16 * rank))
    at = memory.buffer_info()[0]
    extents = at + form.size
    tensor = address, *device, rank, code, bits, lanes, extents, extents + 8 * rank, 0
    if versioned:
        flags = (_READ_ONLY if read_only else 0) | (_COPIED if copied else 0)
        form.pack_into(memory, 0, *VERSION, id(owner), native.delete_versioned, flags, *tensor)
    else:
        form.pack_into(memory, 0, *tensor, id(owner), native.delete)
    struct.pack_into(f"<{2 * rank}q", memory, form.size, *spec.shape, *contiguous(spec.shape))
    owner.keep(memory)
    capsule = _new(at, _NAMES[versioned], native.drop)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return capsule
