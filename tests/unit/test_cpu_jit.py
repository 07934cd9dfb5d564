"""Native code: compiling, loading, and everything that must be refused before LLVM ends the process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
import warnings

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite.binding.ffi import register_lock_callback, unregister_lock_callback

from poot import forks
from poot.backends.cpu.jit import HostCPU, _idle, assembly, compile_object, host, load_object
from poot.backends.cpu.llvm_calls import LLVMLITE_LOCK, Gate
from poot.backends.cpu.objects import undefined_symbols
from poot.errors import CompileError, DeviceError

SCALE = """
define void @scale(ptr %args, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %args
  br label %head
head:
  %g = phi i64 [ %begin, %entry ], [ %next, %body ]
  %go = icmp slt i64 %g, %end
  br i1 %go, label %body, label %done
body:
  %at = getelementptr <16 x float>, ptr %x, i64 %g
  %old = load <16 x float>, ptr %at, align 4
  %new = fmul <16 x float> %old, splat (float 0x4000000000000000)
  store <16 x float> %new, ptr %at, align 4
  %next = add i64 %g, 1
  br label %head
done:
  ret void
}
"""

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def call(address: int, arrays: list[np.ndarray], begin: int, end: int) -> None:
    slots = np.array([array.ctypes.data for array in arrays], np.uint64)
    KERNEL(address)(slots.ctypes.data, begin, end)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_a_kernel_runs_its_range_of_groups(opt_level: int) -> None:
    code = load_object(compile_object(SCALE, opt_level=opt_level), ["scale"])
    x = np.arange(160, dtype=np.float32)
    call(code.address("scale"), [x], 2, 5)
    expected = np.arange(160, dtype=np.float32)
    expected[32:80] *= 2
    assert np.array_equal(x, expected)


def test_host_says_what_code_is_made_for() -> None:
    cpu = host()
    assert cpu is host()
    assert cpu.vector_bits in (128, 256, 512)
    assert cpu.triple and cpu.name and cpu.arch in cpu.triple.replace("arm64", "aarch64")


def test_one_object_loads_any_number_of_times() -> None:
    image = compile_object(SCALE)
    first, second = load_object(image, ["scale"]), load_object(image, ["scale"])
    assert first.address("scale") != second.address("scale")
    first.close()
    x = np.ones(16, np.float32)
    call(second.address("scale"), [x], 0, 1)
    assert np.array_equal(x, np.full(16, 2, np.float32))


def test_a_closed_object_gives_no_addresses() -> None:
    code = load_object(compile_object(SCALE), ["scale"])
    code.close()
    code.close()
    assert code.closed
    with pytest.raises(DeviceError, match="the code of scale has been unloaded"):
        code.address("scale")


def test_a_function_that_was_not_exported_has_no_address() -> None:
    code = load_object(compile_object(SCALE), ["scale"])
    with pytest.raises(DeviceError, match="other is not an exported function"):
        code.address("other")


def test_a_missing_export_is_an_error() -> None:
    with pytest.raises(CompileError, match="gone"):
        load_object(compile_object(SCALE), ["gone"], what="kernel k")


COPY = """
define void @copy(ptr %args, i64 %begin, i64 %end) {
  %to = load ptr, ptr %args
  %slot = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %slot
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %end, i1 false)
  %middle = getelementptr i8, ptr %to, i64 %begin
  %rest = sub i64 %end, %begin
  call void @llvm.memset.p0.i64(ptr %middle, i8 7, i64 %rest, i1 false)
  ret void
}
"""


def test_memory_copies_and_fills_resolve() -> None:
    image = compile_object(COPY)
    assert undefined_symbols(image) == {"memcpy", "memset"}
    source = np.arange(100, dtype=np.uint8)
    target = np.zeros(100, np.uint8)
    code = load_object(image, ["copy"])
    call(code.address("copy"), [target, source], 90, 100)
    assert np.array_equal(target, np.append(source[:90], np.full(10, 7, np.uint8)))


REFUSED = {
    "syntax": ("define void @k( {", "expected type"),
    "types": ("define void @k() {\n  ret i32 0\n}", "value doesn't match function result type"),
    "dominance": (
        "define i32 @k() {\n  %a = add i32 %b, 1\n  %b = add i32 %a, 1\n  ret i32 %b\n}",
        "does not dominate",
    ),
    "wrong target": (
        "define i32 @k() {\n  %r = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  ret i32 %r\n}",
        "declares llvm.nvvm.read.ptx.sreg.tid.x, which native code may not use",
    ),
    "undeclared intrinsic": (
        "define void @k() {\n  call void @llvm.x86.sse2.pause()\n  ret void\n}",
        "declares llvm.x86.sse2.pause",
    ),
    "quoted intrinsic": (
        'define void @k() {\n  call void @"llvm\\2Ex86.sse2.pause"()\n  ret void\n}',
        "declares llvm.x86.sse2.pause",
    ),
    "transcendental": (
        "define float @k(float %x) {\n  %r = call float @llvm.exp.f32(float %x)\n  ret float %r\n}",
        "declares llvm.exp.f32",
    ),
    "library call": (
        "declare float @expf(float)\ndefine float @k(float %x) {\n  %r = call float @expf(float %x)\n  ret float %r\n}",
        "declares expf, which native code may not use",
    ),
    "hidden library call": (
        "define float @k(float %x, float %y) {\n  %r = frem float %x, %y\n  ret float %r\n}",
        "needs fmodf, which native code may not use",
    ),
    "outside data": (
        "@table = external global [4 x i32]\ndefine ptr @k() {\n  ret ptr @table\n}",
        "needs table, which native code may not use",
    ),
    "inline assembly": (
        'define void @k() {\n  call void asm sideeffect "nonsense", ""()\n  ret void\n}',
        "has inline assembly",
    ),
    "module assembly": ('module asm "nonsense"\n', "has inline assembly"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_text_is_refused_and_the_process_goes_on(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(CompileError) as caught:
        compile_object(text, what="kernel k")
    assert str(caught.value).startswith("kernel k did not compile for cpu: ")
    assert message in str(caught.value)
    assert compile_object(SCALE, opt_level=0)


def test_a_name_that_contains_asm_is_no_inline_assembly() -> None:
    assert compile_object("define void @asm(i64 %asm) {\n  ret void\n}")


def test_assembly_is_text() -> None:
    text = assembly(SCALE)
    assert "scale:" in text
    with pytest.raises(CompileError):
        assembly("define")


def test_an_object_of_another_format_is_refused() -> None:
    for image in (b"", b"nonsense", compile_object(SCALE)[:90]):
        with pytest.raises(CompileError, match="object"):
            load_object(image, ["scale"])


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "x86_64-apple-macosx", "arm64-apple-macosx"])
def test_undefined_symbols_of_each_object_format(triple: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu = HostCPU("generic" if triple.startswith("arm") else "x86-64", "", 128, triple)
    assert undefined_symbols(compile_object(SCALE, cpu=cpu)) == set()
    assert {"memcpy"} <= undefined_symbols(compile_object(COPY, cpu=cpu))
    with pytest.raises(CompileError, match="it needs fmodf"):
        compile_object(REFUSED["hidden library call"][0], cpu=cpu)


def test_threads_compile_and_load_at_once() -> None:
    results: list[float] = []

    def work(factor: int) -> None:
        text = SCALE.replace("0x4000000000000000", f"{factor}.0")
        for _ in range(3):
            code = load_object(compile_object(text, opt_level=1), ["scale"])
            x = np.ones(16, np.float32)
            call(code.address("scale"), [x], 0, 1)
            results.append(float(x[3]) - factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 18


def test_a_forked_child_compiles_while_the_parent_does() -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            compile_object(SCALE, opt_level=1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork in a threaded process, the point here
                child = os.fork()
            if child == 0:
                status = 1
                try:
                    code = load_object(compile_object(SCALE), ["scale"])
                    x = np.ones(16, np.float32)
                    call(code.address("scale"), [x], 0, 1)
                    status = 0 if x[0] == 2 else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_threads_compile_the_same_object() -> None:
    expected = compile_object(SCALE)
    images: list[bytes] = []
    threads = [threading.Thread(target=lambda: images.append(compile_object(SCALE))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert images == [expected] * 6


# --- who is inside ----------------------------------------------------------------------------------------------------


def test_several_threads_are_inside_at_once() -> None:
    gate, meeting = Gate(), threading.Barrier(3)

    def work() -> None:
        with gate.entered(), gate.entered():
            meeting.wait(timeout=300)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    meeting.wait(timeout=300)
    for thread in threads:
        thread.join()


def test_a_closed_gate_waits_for_those_inside_and_lets_none_in() -> None:
    gate, inside, leave = Gate(), threading.Event(), threading.Event()
    events: list[str] = []

    def first() -> None:
        with gate.entered():
            inside.set()
            leave.wait(timeout=300)
            with gate.entered():  # a thread that is inside may go on
                events.append("first")

    def second() -> None:
        with gate.entered():
            events.append("second")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    inside.wait(timeout=300)
    threading.Timer(0.05, leave.set).start()
    gate.close()
    assert events == ["first"]
    threads.append(threading.Thread(target=second))
    threads[1].start()
    time.sleep(0.02)
    assert events == ["first"]
    gate.open()
    for thread in threads:
        thread.join()
    assert events == ["first", "second"]


def test_a_thread_inside_may_close_the_gate_itself() -> None:
    gate = Gate()
    with gate.entered():
        gate.close()
        with gate.entered():
            pass
        gate.open()
    with gate.entered():
        pass


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(1, 12))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that comes in a finalizer
def test_a_ctrl_c_as_llvmlite_takes_its_lock_leaves_it_free(turn: int) -> None:
    """Its lock is a method in Python, and calls back between taking it and the block that gives it back."""
    left = turn

    def interrupt() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    def nothing() -> None: ...

    _idle.clear()  # machines are made anew
    register_lock_callback(interrupt, nothing)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            for _ in range(turn):
                load_object(compile_object(SCALE), ["scale"]).close()
    finally:
        unregister_lock_callback(interrupt, nothing)
    assert left <= 0 and not forks.is_mine(LLVMLITE_LOCK)
    code = load_object(compile_object(SCALE), ["scale"])
    x = np.ones(16, np.float32)
    call(code.address("scale"), [x], 0, 1)
    assert (x == 2).all()
