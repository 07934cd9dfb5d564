# pyright: basic
"""LLVM's compiler for several threads at once: modules from text to native code.

llvmlite lets one thread at a time into LLVM, whatever it does there.  Modules need that only of what they share, and
these share nothing: each has a context of its own, and a target machine that nobody else has meanwhile.  So the calls
here go past llvmlite's lock, to the same functions with the types that llvmlite declares.  Python goes on during the
long ones, the optimiser and the code generator.  Others keep the interpreter: they are over sooner than a thread that
computes would hand it back.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from poot import forks

T = TypeVar("T")

#: The version of llvmlite, and so of LLVM.
VERSION: str = llvmlite.__version__
#: The lock that llvmlite holds during each of its own calls.
LLVMLITE_LOCK: threading.RLock = ffi.lib._lock._lock


def unlocking(work: Callable[[], T]) -> T:
    """What `work` gives, with llvmlite's lock free afterwards.

    llvmlite takes it in a method in Python: after a Ctrl-C there it would stay with this thread, and others wait on.
    """
    held = forks.is_mine(LLVMLITE_LOCK)
    try:
        return work()
    finally:
        while not held and forks.is_mine(LLVMLITE_LOCK):
            LLVMLITE_LOCK.release()


class Gate:
    """Counts the threads inside, and lets one close it: that waits until they are out, and keeps others from entering.

    A thread that is inside may enter again, and close it while only that thread is inside.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        #: The thread of each visit: a Ctrl-C between any two lines leaves none behind.
        self._inside: dict[object, int] = {}
        self._closer = 0

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, for the time of the context."""
        me, visit = threading.get_ident(), object()
        try:
            with self._lock:
                while self._closer not in (0, me) and me not in self._inside.values():
                    self._turn.wait()
                self._inside[visit] = me
            yield
        finally:
            with self._lock:
                self._inside.pop(visit, None)
                self._turn.notify_all()

    def close(self) -> None:
        """Wait until no other thread is inside, and let none in."""
        me = threading.get_ident()
        self._lock.acquire()
        while self._closer not in (0, me):
            self._turn.wait()
        self._closer = me
        while any(thread != me for thread in self._inside.values()):
            self._turn.wait()

    def open(self) -> None:
        """Let threads in again, after `close` by this thread."""
        self._closer = 0
        self._turn.notify_all()
        self._lock.release()


def _function(name: str, library: type[ctypes.CDLL] = ctypes.PyDLL):
    """A function of llvmlite's library, with the types that llvmlite gives it, past its lock."""
    known = getattr(ffi.lib, name)
    function = _library(library)[name]
    function.argtypes, function.restype = known.argtypes, known.restype
    return function


@functools.cache
def _library(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    return kind(ffi.lib._name)


_create_context = _function("LLVMPY_ContextCreate")
_dispose_context = _function("LLVMPY_ContextDispose")
_parse = _function("LLVMPY_ParseAssembly")
_set_triple = _function("LLVMPY_SetTarget")
_set_layout = _function("LLVMPY_SetDataLayout")
_verify = _function("LLVMPY_VerifyModule")
_dispose_module = _function("LLVMPY_DisposeModule")
_dispose_string = _function("LLVMPY_DisposeString")
_print = _function("LLVMPY_PrintModuleToString")
_functions = _function("LLVMPY_ModuleFunctionsIter")
_next_function = _function("LLVMPY_FunctionsIterNext")
_dispose_functions = _function("LLVMPY_DisposeFunctionsIter")
_name = _function("LLVMPY_GetValueName")
_is_declaration = _function("LLVMPY_IsDeclaration")
_create_options = _function("LLVMPY_CreatePipelineTuningOptions")
_dispose_options = _function("LLVMPY_DisposePipelineTuningOptions")
_create_builder = _function("LLVMPY_CreatePassBuilder")
_dispose_builder = _function("LLVMPY_DisposePassBuilder")
_create_pipeline = _function("LLVMPY_buildPerModuleDefaultPipeline")
_dispose_pipeline = _function("LLVMPY_DisposeNewModulePassManger")
_create_simplification = _function("LLVMPY_buildFunctionSimplificationPipeline")
_dispose_simplification = _function("LLVMPY_DisposeNewFunctionPassManger")
_buffer_start = _function("LLVMPY_GetBufferStart")
_buffer_size = _function("LLVMPY_GetBufferSize")
_dispose_buffer = _function("LLVMPY_DisposeMemoryBuffer")
_run_pipeline = _function("LLVMPY_RunNewModulePassManager", ctypes.CDLL)
_run_simplification = _function("LLVMPY_RunNewFunctionPassManager", ctypes.CDLL)
_emit = _function("LLVMPY_TargetMachineEmitToMemory", ctypes.CDLL)


class Machine:
    """A code generator for one processor, for one thread at a time; `jit` for code that runs in this process."""

    __slots__ = ("_machine", "layout", "triple")

    def __init__(self, triple: str, cpu: str, features: str, opt_level: int, *, jit: bool) -> None:
        model = "jitdefault" if jit else "default"
        self._machine = unlocking(
            lambda: llvm.Target.from_triple(triple).create_target_machine(
                cpu=cpu, features=features, opt=opt_level, reloc="default", codemodel=model, jit=jit
            )
        )
        self.triple = triple.encode()
        self.layout = unlocking(lambda: str(self._machine.target_data)).encode()

    @property
    def pointer(self):
        return self._machine._ptr


class Module:
    """A module in memory of LLVM, parsed and verified for a machine; RuntimeError with LLVM's message on errors."""

    __slots__ = ("_context", "_machine", "_module")

    def __init__(self, text: str, machine: Machine) -> None:
        self._machine = machine
        self._module = None
        self._context = _create_context()
        try:
            self._read(text)
        except BaseException:
            self.close()
            raise

    def _read(self, text: str) -> None:
        with _message() as error:
            self._module = _parse(self._context, text.encode(), ctypes.byref(error))
            if error:
                raise RuntimeError(f"LLVM IR parsing error\n{_text(error)}")
        _set_triple(self._module, self._machine.triple)
        _set_layout(self._module, self._machine.layout)
        with _message() as error:
            if _verify(self._module, ctypes.byref(error)):
                raise RuntimeError(_text(error))

    def declared(self) -> list[str]:
        """The names of the functions that are declared and not defined."""
        return [_name(function).decode() for function in self._functions() if _is_declaration(function)]

    def _functions(self) -> list:
        found = []
        functions = _functions(self._module)
        try:
            while function := _next_function(functions):
                found.append(function)
        finally:
            _dispose_functions(functions)
        return found

    def optimise(self, opt_level: int, *, vectors: bool = False) -> None:
        """Run LLVM's pipeline of a level, 0 to 3; for code of `vectors` the part of it that simplifies functions.

        The rest of it, a third of the time, unrolls and makes vectors of loops over scalars.
        """
        with contextlib.ExitStack() as done:
            options = _create_options()
            done.callback(_dispose_options, options)
            builder = _create_builder(self._machine.pointer, options)
            done.callback(_dispose_builder, builder)
            if vectors:
                pipeline = _create_simplification(builder, opt_level)
                done.callback(_dispose_simplification, pipeline)
                for function in self._functions():
                    if not _is_declaration(function):
                        _run_simplification(pipeline, function, builder)
            else:
                pipeline = _create_pipeline(builder, opt_level)
                done.callback(_dispose_pipeline, pipeline)
                _run_pipeline(pipeline, self._module, builder)

    def text(self) -> str:
        """The module as LLVM writes it."""
        with _message() as printed:
            _print(self._module, ctypes.byref(printed))
            return _text(printed)

    def emit(self, *, assembly: bool = False) -> bytes:
        """The object, or the text of the assembly."""
        with _message() as error:
            buffer = _emit(self._machine.pointer, self._module, int(not assembly), ctypes.byref(error))
            if not buffer:
                raise RuntimeError(_text(error))
        try:
            return ctypes.string_at(_buffer_start(buffer), _buffer_size(buffer))
        finally:
            _dispose_buffer(buffer)

    def close(self) -> None:
        """Give the memory back."""
        module, self._module = self._module, None
        if module:
            _dispose_module(module)
        context, self._context = self._context, None
        if context:
            _dispose_context(context)


@contextlib.contextmanager
def _message() -> Iterator[ctypes.c_char_p]:
    """Where LLVM puts a message, which is freed with the context."""
    message = ctypes.c_char_p()
    try:
        yield message
    finally:
        if message:
            _dispose_string(message)


def _text(message: ctypes.c_char_p) -> str:
    return (message.value or b"").decode(errors="replace")
