"""DLPack by hand: capsules over memory of any device, read and written.

The layout is that of dlpack.h: version 1 (`DLManagedTensorVersioned`, which can say read-only) and the older one, which
cannot.  A capsule that is taken gives a `Lent`, whose `release` the last user of the memory calls; one that is made
keeps its owner alive until the consumer, or the capsule itself where nobody took it, calls its deleter.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from poot.backends import capsules
from poot.dtypes import BY_NAME, ArraySpec, DType
from poot.errors import ArgumentError

CPU: Final = 1
CUDA: Final = 2
CUDA_HOST: Final = 3
CUDA_MANAGED: Final = 13

#: The version that is spoken.
VERSION: Final = (1, 0)

_READ_ONLY: Final = 1
_COPIED: Final = 2
_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_KINDS: Final = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


_Extents = ctypes.POINTER(ctypes.c_int64)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("type", _Type),
        ("shape", _Extents),
        ("strides", _Extents),
        ("offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


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
    address = _pointer(at, _NAMES[versioned])
    managed: Any = (_Versioned if versioned else _Managed).from_address(address)
    if versioned and managed.major > VERSION[0]:
        raise ArgumentError(what=what, actual=f"DLPack {managed.major}", expected=f"DLPack {VERSION[0]} or older")
    tensor: _Tensor = managed.tensor
    dtype = _dtype(tensor.type, what)
    shape = tuple(int(tensor.shape[axis]) for axis in range(tensor.rank))
    strides = contiguous(shape)
    if tensor.strides:
        strides = tuple(int(tensor.strides[axis]) for axis in range(tensor.rank))
    read_only = not versioned or bool(managed.flags & _READ_ONLY)
    deleter: int | None = managed.deleter

    def release() -> None:
        if deleter:
            _Deleter(deleter)(address)

    place = (int(tensor.device.kind), int(tensor.device.number))
    lent = Lent((tensor.data or 0) + int(tensor.offset), dtype, shape, strides, place, read_only, release)
    _rename(at, _USED[versioned])
    return lent


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = list[int](), 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _dtype(kind: _Type, what: str) -> DType:
    name = _KINDS.get(int(kind.code), "?")
    name += "" if name == "bool" else str(int(kind.bits))
    if kind.lanes != 1 or name not in BY_NAME:
        lanes = f" of {kind.lanes} lanes" if kind.lanes != 1 else ""
        actual = f"DLPack dtype code {kind.code}, {kind.bits} bits{lanes}"
        raise ArgumentError(what=what, actual=actual, expected="a dtype of poot")
    return BY_NAME[name]


# --- making -----------------------------------------------------------------------------------------------------------


class Owner:
    """What a capsule keeps alive; `released` is called when its consumer is done, from any thread."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: object = None

    def keep(self, kept: object) -> None:
        """Hold the capsule's own structures, which end with this object."""
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
    rank = spec.rank
    extents = (ctypes.c_int64 * (2 * rank))(*spec.shape, *contiguous(spec.shape))
    first = ctypes.cast(extents, _Extents)
    second = ctypes.cast(ctypes.addressof(extents) + 8 * rank, _Extents)
    code = _CODES["bfloat" if spec.dtype.name == "bf16" else spec.dtype.kind]
    kind = _Type(code, 8 * spec.dtype.itemsize, 1)
    tensor = _Tensor(address or None, _Device(*device), rank, kind, first, second, 0)
    native = capsules.functions(_Managed.context.offset, _Versioned.context.offset)
    managed: Any
    if versioned:
        flags = (_READ_ONLY if read_only else 0) | (_COPIED if copied else 0)
        managed = _Versioned(*VERSION, id(owner), native.delete_versioned, flags, tensor)
    else:
        managed = _Managed(tensor, id(owner), native.delete)
    owner.keep((managed, extents))
    capsule = _new(ctypes.addressof(managed), _NAMES[versioned], native.drop)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return capsule
