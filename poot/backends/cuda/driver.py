"""Calls to CUDA's driver from native code: a whole list of launches for the price of one foreign call.

`poot_enqueue(words) -> result` takes 64-bit words in memory: the table of the driver's functions, the context, the
stream, the number of steps, then eight words a step (`launches.py` writes them).  It makes the context current, if
another one is, for as long as it runs, and stops at the first step that the driver refuses, with the driver's result.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from array import array
from collections.abc import Callable, Mapping
from typing import Final

from poot.backends.cpu.jit import LoadedObject, compile_object, load_object
from poot.errors import DeviceUnavailableError

#: The driver's functions, in the order of the table.
FUNCTIONS: Final = (
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync_v2",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
)
#: Words before the first step, and of a step.
HEAD: Final = 4
STEP: Final = 8
TABLE_WORD, CONTEXT_WORD, STREAM_WORD, COUNT_WORD = range(HEAD)
#: What stands in a step's first word in place of a kernel: a copy (to, from, bytes).
COPY: Final = 0

_IR: Final = """
define internal ptr @entry_of(ptr %table, i64 %index) alwaysinline nounwind {
  %at = getelementptr ptr, ptr %table, i64 %index
  %function = load ptr, ptr %at
  ret ptr %function
}

define internal i64 @word(ptr %step, i64 %index) alwaysinline nounwind {
  %at = getelementptr i64, ptr %step, i64 %index
  %value = load i64, ptr %at
  ret i64 %value
}

define internal i32 @run_step(ptr %table, ptr %step, ptr %stream) nounwind {
entry:
  %kind = load i64, ptr %step
  %one = call i64 @word(ptr %step, i64 1)
  %two = call i64 @word(ptr %step, i64 2)
  %three = call i64 @word(ptr %step, i64 3)
  %copies = icmp eq i64 %kind, 0
  br i1 %copies, label %copy, label %launch
launch:
  %function = inttoptr i64 %kind to ptr
  %threads.wide = call i64 @word(ptr %step, i64 4)
  %shared.wide = call i64 @word(ptr %step, i64 5)
  %arguments.word = call i64 @word(ptr %step, i64 6)
  %x = trunc i64 %one to i32
  %y = trunc i64 %two to i32
  %z = trunc i64 %three to i32
  %threads = trunc i64 %threads.wide to i32
  %shared = trunc i64 %shared.wide to i32
  %arguments = inttoptr i64 %arguments.word to ptr
  %launch.kernel = call ptr @entry_of(ptr %table, i64 0)
  %launched = call i32 %launch.kernel(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1, i32 %shared,
                                      ptr %stream, ptr %arguments, ptr null)
  ret i32 %launched
copy:
  %copy.memory = call ptr @entry_of(ptr %table, i64 1)
  %copied = call i32 %copy.memory(i64 %one, i64 %two, i64 %three, ptr %stream)
  ret i32 %copied
}

define i32 @poot_enqueue(ptr %words) nounwind {
entry:
  %found = alloca ptr
  store ptr null, ptr %found
  %at.context = getelementptr i64, ptr %words, i64 1
  %at.stream = getelementptr i64, ptr %words, i64 2
  %at.count = getelementptr i64, ptr %words, i64 3
  %table = load ptr, ptr %words
  %context = load ptr, ptr %at.context
  %stream = load ptr, ptr %at.stream
  %count = load i64, ptr %at.count
  %get = call ptr @entry_of(ptr %table, i64 2)
  %asked = call i32 %get(ptr %found)
  %current = load ptr, ptr %found
  %here = icmp eq ptr %current, %context
  br i1 %here, label %start, label %enter
enter:
  %push = call ptr @entry_of(ptr %table, i64 3)
  %pushed = call i32 %push(ptr %context)
  %entered = icmp eq i32 %pushed, 0
  br i1 %entered, label %start, label %refused
refused:
  ret i32 %pushed
start:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %end
loop:
  %index = phi i64 [ 0, %start ], [ %following, %more ]
  %offset = mul i64 %index, 8
  %first = add i64 %offset, 4
  %step = getelementptr i64, ptr %words, i64 %first
  %result = call i32 @run_step(ptr %table, ptr %step, ptr %stream)
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %more, label %end
more:
  %following = add i64 %index, 1
  %left = icmp slt i64 %following, %count
  br i1 %left, label %loop, label %end
end:
  %outcome = phi i32 [ 0, %start ], [ 0, %more ], [ %result, %loop ]
  br i1 %here, label %out, label %leave
leave:
  %pop = call ptr @entry_of(ptr %table, i64 4)
  %popped = call i32 %pop(ptr %found)
  br label %out
out:
  ret i32 %outcome
}
"""


@functools.cache
def _code() -> LoadedObject:
    return load_object(compile_object(_IR, what="CUDA launches"), ["poot_enqueue"], what="CUDA launches")


class Driver:
    """The driver's functions by address; `enqueue` is the native function above."""

    def __init__(self, addresses: Mapping[str, int], keep: object = None) -> None:
        self._keep = keep
        self._table = array("Q", (addresses[name] for name in FUNCTIONS))
        self.table: int = self._table.buffer_info()[0]
        self._code = _code()
        native = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._code.address("poot_enqueue"))
        self.enqueue: Callable[[int], int] = native
        self._current = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))(addresses["cuCtxGetCurrent"])

    def current_context(self) -> int:
        """The calling thread's context, 0 for none."""
        found = ctypes.c_void_p()
        self._current(ctypes.byref(found))
        return found.value or 0


@functools.cache
def open_driver() -> Driver:
    """The driver's library, which CuPy uses too; DeviceUnavailableError where it cannot be opened."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        addresses = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS}
    except (OSError, AttributeError) as error:
        raise DeviceUnavailableError(
            device="cuda",
            message=f"the driver's library cannot be used ({error})",
            remedy="run `nvidia-smi`; if it fails, install or update the NVIDIA driver.",
        ) from error
    return Driver(addresses, library)
