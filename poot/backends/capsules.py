"""DLPack capsules over memory of ours, and the C functions that they need, as native code.

A capsule keeps its owner alive until the consumer, or the capsule itself where nobody took it, calls its deleter.

A deleter and a destructor are called at any time: from other threads, or while an exception is on its way through the
frame that held the last reference.  Python code must not start in that state, so these are native: they take the
interpreter's lock, keep the exception, and drop the reference to the memory's owner, whose `__del__` does the rest.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from dataclasses import dataclass
from string import Template
from typing import Any, Final

import numpy as np

from poot import dlpack
from poot.backends.cpu.jit import LoadedObject, compile_object, load_object
from poot.dtypes import ArraySpec

_IR: Final = Template("""
define internal void @release(ptr %owner) nounwind {
entry:
  %alive = call i32 inttoptr (i64 $Py_IsInitialized to ptr)()
  %gone = icmp eq i32 %alive, 0
  br i1 %gone, label %out, label %take
take:
  %state = call i32 inttoptr (i64 $PyGILState_Ensure to ptr)()
  call void inttoptr (i64 $Py_DecRef to ptr)(ptr %owner)
  call void inttoptr (i64 $PyGILState_Release to ptr)(i32 %state)
  br label %out
out:
  ret void
}

define void @poot_delete(ptr %managed) nounwind {
  %at = getelementptr i8, ptr %managed, i64 $context
  %owner = load ptr, ptr %at
  call void @release(ptr %owner)
  ret void
}

define void @poot_delete_versioned(ptr %managed) nounwind {
  %at = getelementptr i8, ptr %managed, i64 $context_versioned
  %owner = load ptr, ptr %at
  call void @release(ptr %owner)
  ret void
}

; A capsule that still has its first name was never taken.
define void @poot_drop(ptr %capsule) nounwind {
entry:
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  call void inttoptr (i64 $PyErr_Fetch to ptr)(ptr %kind, ptr %value, ptr %trace)
  %plain = call i32 inttoptr (i64 $PyCapsule_IsValid to ptr)(ptr %capsule, ptr inttoptr (i64 $name to ptr))
  %is.plain = icmp ne i32 %plain, 0
  br i1 %is.plain, label %drop.plain, label %other
drop.plain:
  %one = call ptr inttoptr (i64 $PyCapsule_GetPointer to ptr)(ptr %capsule, ptr inttoptr (i64 $name to ptr))
  call void @poot_delete(ptr %one)
  br label %out
other:
  %new = call i32 inttoptr (i64 $PyCapsule_IsValid to ptr)(ptr %capsule, ptr inttoptr (i64 $name_versioned to ptr))
  %is.new = icmp ne i32 %new, 0
  br i1 %is.new, label %drop.new, label %out
drop.new:
  %two = call ptr inttoptr (i64 $PyCapsule_GetPointer to ptr)(ptr %capsule, ptr inttoptr (i64 $name_versioned to ptr))
  call void @poot_delete_versioned(ptr %two)
  br label %out
out:
  %kind.kept = load ptr, ptr %kind
  %value.kept = load ptr, ptr %value
  %trace.kept = load ptr, ptr %trace
  call void inttoptr (i64 $PyErr_Restore to ptr)(ptr %kind.kept, ptr %value.kept, ptr %trace.kept)
  ret void
}
""")
_EXPORTS: Final = ("poot_delete", "poot_delete_versioned", "poot_drop")
_FUNCTIONS: Final = (
    "Py_IsInitialized",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "Py_DecRef",
    "PyErr_Fetch",
    "PyErr_Restore",
    "PyCapsule_IsValid",
    "PyCapsule_GetPointer",
)

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses: the deleters of both structures, and the capsule's destructor."""

    delete: int
    delete_versioned: int
    drop: int


_code: list[LoadedObject] = []


@functools.cache
def _functions() -> Functions:
    """The functions; they stay loaded."""
    names = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS}
    names |= {"context": dlpack.OWNER_PLAIN, "context_versioned": dlpack.OWNER_VERSIONED}
    names |= {"name": ctypes.cast(dlpack.NAMES[False], ctypes.c_void_p).value}
    names |= {"name_versioned": ctypes.cast(dlpack.NAMES[True], ctypes.c_void_p).value}
    code = load_object(compile_object(_IR.substitute(names), what="DLPack capsules"), _EXPORTS, what="DLPack capsules")
    _code.append(code)
    return Functions(*(code.address(name) for name in _EXPORTS))


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
    code, bits, lanes = dlpack.CODES[dtype]
    native = _functions()
    form = dlpack.VERSIONED if versioned else dlpack.PLAIN
    memory = array("b", bytes(form.size + 16 * rank))
    at = memory.buffer_info()[0]
    extents = at + form.size
    tensor = address, *device, rank, code, bits, lanes, extents, extents + 8 * rank, 0
    if versioned:
        flags = (dlpack.READ_ONLY if read_only else 0) | (dlpack.COPIED if copied else 0)
        form.pack_into(memory, 0, *dlpack.VERSION, id(owner), native.delete_versioned, flags, *tensor)
    else:
        form.pack_into(memory, 0, *tensor, id(owner), native.delete)
    struct.pack_into(f"<{2 * rank}q", memory, form.size, *spec.shape, *dlpack.contiguous(spec.shape))
    owner.keep(memory)
    capsule = _new(at, dlpack.NAMES[versioned], native.drop)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return capsule


class _Kept(Owner):
    """Keeps an array of NumPy's."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__()
        self._array = array


def of_host(array: np.ndarray[Any, Any], spec: ArraySpec, *, versioned: bool, copied: bool) -> Any:
    """A capsule over a C-contiguous array on the host, of any dtype of poot's."""
    read_only = not array.flags.writeable
    owner = _Kept(array)
    device = dlpack.CPU, 0
    return make(array.ctypes.data, spec, device, owner, versioned=versioned, read_only=read_only, copied=copied)
