"""The two C functions that a DLPack capsule of ours needs, as native code.

A deleter and a destructor are called at any time: from other threads, or while an exception is on its way through the
frame that held the last reference.  Python code must not start in that state, so these are native: they take the
interpreter's lock, keep the exception, and drop the reference to the memory's owner, whose `__del__` does the rest.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from string import Template
from typing import Final

from poot.backends.cpu.jit import LoadedObject, compile_object, load_object

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

# A capsule keeps the address of its name, so these must never go.
NAME: Final = ctypes.c_char_p(b"dltensor")
NAME_VERSIONED: Final = ctypes.c_char_p(b"dltensor_versioned")
USED: Final = ctypes.c_char_p(b"used_dltensor")
USED_VERSIONED: Final = ctypes.c_char_p(b"used_dltensor_versioned")


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses: the deleters of both structures, and the capsule's destructor."""

    delete: int
    delete_versioned: int
    drop: int


_code: list[LoadedObject] = []


@functools.cache
def functions(context: int, context_versioned: int) -> Functions:
    """The functions, for structures whose owner stands at these byte offsets; they stay loaded."""
    names = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS}
    names |= {"context": context, "context_versioned": context_versioned}
    names |= {"name": ctypes.cast(NAME, ctypes.c_void_p).value}
    names |= {"name_versioned": ctypes.cast(NAME_VERSIONED, ctypes.c_void_p).value}
    code = load_object(compile_object(_IR.substitute(names), what="DLPack capsules"), _EXPORTS, what="DLPack capsules")
    _code.append(code)
    return Functions(*(code.address(name) for name in _EXPORTS))
