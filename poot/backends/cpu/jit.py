# pyright: basic
"""Native code for the host: textual LLVM IR to an optimised object, and an object to callable addresses.

Two things that LLVM accepts would harm the process, and are refused before it sees or links them: intrinsics of another
target (they pass the verifier and abort in the code generator), and calls of library functions (they would be found in
the process, whatever it happens to have loaded).  Objects depend on nothing but `memcpy`, `memmove` and `memset`.

Several threads compile at once; objects are linked by one at a time.  A fork waits for all of them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from poot import forks
from poot.backends.cpu.llvm_calls import LLVMLITE_LOCK, Gate, Machine, Module, unlocking
from poot.backends.cpu.objects import undefined_symbols
from poot.errors import CompileError, DeviceError

# Every one of these has a generic expansion on each CPU target.  A name ending in a dot is a prefix.
# fmt: off
_INTRINSICS = (
    "llvm.abs.", "llvm.assume", "llvm.bitreverse.", "llvm.bswap.", "llvm.canonicalize.", "llvm.ceil.",
    "llvm.copysign.", "llvm.ctlz.", "llvm.ctpop.", "llvm.cttz.", "llvm.expect.",
    "llvm.experimental.noalias.scope.decl", "llvm.experimental.vector.", "llvm.fabs.", "llvm.floor.",
    "llvm.fma.", "llvm.fmuladd.", "llvm.fptosi.sat.", "llvm.fptoui.sat.", "llvm.fshl.", "llvm.fshr.",
    "llvm.invariant.", "llvm.is.fpclass.", "llvm.lifetime.", "llvm.masked.", "llvm.maximum.",
    "llvm.maximumnum.", "llvm.maxnum.", "llvm.memcpy.", "llvm.memmove.", "llvm.memset.", "llvm.minimum.",
    "llvm.minimumnum.", "llvm.minnum.", "llvm.nearbyint.", "llvm.prefetch.", "llvm.readcyclecounter",
    "llvm.rint.", "llvm.round.", "llvm.roundeven.", "llvm.sadd.", "llvm.scmp.", "llvm.smax.", "llvm.smin.",
    "llvm.smul.with.overflow.", "llvm.sqrt.", "llvm.sshl.sat.", "llvm.ssub.", "llvm.stackrestore.",
    "llvm.stacksave.", "llvm.stepvector.", "llvm.trunc.", "llvm.uadd.", "llvm.ucmp.", "llvm.umax.",
    "llvm.umin.", "llvm.umul.with.overflow.", "llvm.ushl.sat.", "llvm.usub.", "llvm.vector.",
)
# fmt: on
_SYMBOLS = frozenset({"memcpy", "memmove", "memset"})
# LLVM leaves the process on an error in inline assembly, so only the runtime's own text may have any.
_INLINE_ASSEMBLY = re.compile(r'(?<![\w.%@"$-])asm(?=[\s"])')

_lock = threading.RLock()
_compiling = Gate()
_names = itertools.count()


# A child must not inherit LLVM in the middle of another thread's work.
forks.awaited(forks.COMPILING, _compiling.close, _compiling.open)
forks.awaited(forks.LINKING, _lock.acquire, _lock.release)
forks.awaited(forks.LLVM, LLVMLITE_LOCK.acquire, LLVMLITE_LOCK.release)


@contextlib.contextmanager
def llvm_lock() -> Iterator[None]:
    """The lock of what LLVM does through llvmlite, for code generators of other targets."""
    with _lock:
        yield


@dataclass(frozen=True, slots=True)
class HostCPU:
    """The CPU that code is generated for, in LLVM's terms; `vector_bits` is the width of its widest registers."""

    name: str
    features: str
    vector_bits: int
    triple: str

    @property
    def arch(self) -> str:
        """The architecture of the triple: "x86_64", "aarch64" …"""
        return self.triple.partition("-")[0].replace("arm64", "aarch64")


@functools.cache
def host() -> HostCPU:
    """The CPU of this process."""
    with _lock:
        unlocking(_initialize)
        triple = unlocking(llvm.get_process_triple)
        features = unlocking(llvm.get_host_cpu_features)
        name = unlocking(llvm.get_host_cpu_name)
    if features.get("avx512f"):
        bits = 512
    elif features.get("avx"):
        bits = 256
    else:
        bits = 128
    return HostCPU(name, features.flatten(), bits, triple)


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


#: Machines that no thread has at the moment.
_idle: dict[tuple[HostCPU, int], list[Machine]] = {}


@contextlib.contextmanager
def _machine(cpu: HostCPU, opt_level: int) -> Iterator[Machine]:
    """A machine to oneself; there are as many as were ever in use at once."""
    host()
    idle = _idle.setdefault((cpu, opt_level), [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = Machine(cpu.triple, cpu.name, cpu.features, opt_level, jit=True)
    yield machine
    idle.append(machine)


_OBJECTS_PER_LINKER = 32
_linkers: list[llvm.LLJIT] = []  # the one that takes objects, if any
_linked = 0


def _linker() -> llvm.LLJIT:
    """The linker for one more object; the caller holds the lock.

    LLVM keeps some kilobytes of every object that a linker ever took, until the linker itself goes.  So each takes a
    few, lives as long as the last of them, and a process that loads and drops code for days does not grow.
    """
    global _linked
    host()
    if not _linkers or _linked == _OBJECTS_PER_LINKER:
        _linkers[:] = [llvm.create_lljit_compiler(suppress_errors=True)]
        _linked = 0
    _linked += 1
    return _linkers[0]


def compile_object(
    ir_text: str,
    *,
    opt_level: int = 3,
    what: str = "LLVM IR",
    cpu: HostCPU | None = None,
    inline_assembly: bool = False,
    vectors: bool = False,
) -> bytes:
    """The native object of `ir_text`, optimised at `opt_level` (0 to 3) for `cpu` (the host).

    `vectors` says that its loops are over vectors already, which saves passes that would have nothing to do.
    `what` names the text in errors.  `CompileError` carries LLVM's message if the text does not parse or verify, and
    says so if it uses an intrinsic, inline assembly (unless `inline_assembly`) or an outside symbol that it may not.
    """
    with _optimised(ir_text, cpu or host(), opt_level, what, inline_assembly, vectors) as module:
        image = module.emit()
    _require_closed(image, what)
    return image


def assembly(ir_text: str, *, opt_level: int = 3, what: str = "LLVM IR", cpu: HostCPU | None = None) -> str:
    """The assembly text of what `compile_object` makes, for reading; the same errors."""
    with _optimised(ir_text, cpu or host(), opt_level, what, False, False) as module:
        return module.emit(assembly=True).decode()


@contextlib.contextmanager
def _optimised(
    ir_text: str, cpu: HostCPU, opt_level: int, what: str, inline_assembly: bool, vectors: bool
) -> Iterator[Module]:
    """A parsed, verified, checked and optimised module, until the caller has emitted it."""
    if not inline_assembly and _INLINE_ASSEMBLY.search(ir_text):
        raise _failure(what, "it has inline assembly")
    with _compiling.entered(), _machine(cpu, opt_level) as machine:
        try:
            with contextlib.closing(Module(ir_text, machine)) as module:
                _require_known(module.declared(), what)
                module.optimise(opt_level, vectors=vectors)
                yield module
        except CompileError:
            raise
        except RuntimeError as error:
            raise _failure(what, str(error).strip()) from None


def _require_known(declared: Sequence[str], what: str) -> None:
    for name in declared:
        if not (name in _SYMBOLS or _is_allowed_intrinsic(name)):
            raise _failure(what, f"it declares {name}, which native code may not use")


def _is_allowed_intrinsic(name: str) -> bool:
    return any(name.startswith(known) if known.endswith(".") else name == known for known in _INTRINSICS)


def _require_closed(image: bytes, what: str) -> None:
    try:
        missing = undefined_symbols(image) - _SYMBOLS
    except ValueError as error:
        raise _failure(what, str(error)) from None
    if missing:
        raise _failure(what, f"it needs {', '.join(sorted(missing))}, which native code may not use")


def is_object(image: bytes) -> bool:
    """Whether bytes are an object that `load_object` could take, as far as its symbols tell."""
    try:
        return undefined_symbols(image) <= _SYMBOLS
    except ValueError:
        return False


def _failure(what: str, message: str) -> CompileError:
    return CompileError(what=what, target="cpu", message=message)


class LoadedObject:
    """The code of one object in executable memory, until `close` or the last reference goes.

    The caller keeps it alive for as long as any address may still be called.
    """

    __slots__ = ("_number",)

    def __init__(self, tracker: llvm.ResourceTracker, linker: llvm.LLJIT) -> None:
        self._number: int | None = next(_names)
        _loaded[self._number] = tracker, linker

    def address(self, name: str) -> int:
        """The address of the exported function `name`; `DeviceError` if it was not exported or the object is closed."""
        number = self._number
        if number is None:
            raise DeviceError(device="cpu", message=f"the code of {name} has been unloaded")
        try:
            return _loaded[number][0][name]
        except KeyError:
            raise DeviceError(device="cpu", message=f"{name} is not an exported function") from None

    @property
    def closed(self) -> bool:
        return self._number is None

    def close(self) -> None:
        """Release the code; every address becomes invalid.  Closing twice is allowed."""
        number, self._number = self._number, None
        if number is not None:
            _dropped.append(number)
            with _lock:
                unlocking(_release_dropped)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._number is None or finalizing():  # the process gives everything back; modules may be gone already
            return
        # A thread that collects garbage may hold any lock, so it waits for none: who holds this one does it then.
        _dropped.append(self._number)
        self._number = None
        forks.if_free(_lock, lambda: unlocking(_release_dropped))


#: The code that is there, by number, with the linker that it goes with.  Objects have the number alone: garbage that
#: reached llvmlite's own objects would have these finalised beside whoever releases them here.
_loaded: dict[int, tuple[llvm.ResourceTracker, llvm.LLJIT]] = {}
#: The numbers of objects that are gone.
_dropped: deque[int] = deque()


def _release_dropped() -> None:
    """Release code that nobody has any more; the caller holds the lock."""
    while _dropped:
        tracker, _ = _loaded.pop(_dropped.pop())
        tracker.close()


def load_object(image: bytes, exports: Sequence[str], *, what: str = "object") -> LoadedObject:
    """`image`, as `compile_object` made it on this machine, in executable memory, with the addresses of `exports`.

    `CompileError` if it does not define an export or needs a symbol that native code may not use.
    """
    _require_closed(image, what)
    return unlocking(lambda: _link(image, exports, what))


def _link(image: bytes, exports: Sequence[str], what: str) -> LoadedObject:
    library = llvm.JITLibraryBuilder().add_object_img(image)
    for name in exports:
        library.export_symbol(name)
    with _lock:
        _release_dropped()
        try:
            linker = _linker()
            tracker = library.link(linker, f"poot.{next(_names)}")
        except RuntimeError as error:
            raise _failure(what, str(error).strip()) from None
    return LoadedObject(tracker, linker)
