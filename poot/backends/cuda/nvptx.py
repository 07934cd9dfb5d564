# pyright: basic
"""LLVM IR text to PTX, and PTX to a cubin where `ptxas` is at hand (the triton package carries one).

LLVM is entered under the same lock as for the host's own code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import subprocess
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

from poot.backends.cpu.jit import llvm_lock
from poot.backends.cpu.llvm_calls import Machine, Module, unlocking
from poot.errors import CompileError

_TRIPLE = "nvptx64-nvidia-cuda"
#: The oldest PTX version that knows an architecture; drivers take what is not newer than they are.
_VERSIONS = {"sm_100": "ptx86", "sm_120": "ptx87"}
_INTRINSIC = re.compile(r"^declare [^@]*@(llvm\.[\w.]+)\(", re.MULTILINE)
_OURS = re.compile(
    r"llvm\.(nvvm\.(read\.ptx\.sreg\.|shfl\.sync\.|barrier\.cta\.)"
    r"|(abs|smax|smin|umax|umin|ctpop|ctlz|fabs|sqrt|floor|ceil|trunc|roundeven|minimum|maximum|fmuladd)\.[if]\d+$)"
)
#: Of -32768 the assembler takes 32768 for the result of both, where a comparison or a conversion follows.
_WRAPPING = re.compile(r"\b(neg|abs)\.s16\s+(%\w+), (%\w+);")
_WRAPPED = {
    "neg": "{ .reg .b16 %not; not.b16 %not, SOURCE; add.s16 TO, %not, 1; }",
    "abs": "{ .reg .b16 %neg; not.b16 %neg, SOURCE; add.s16 %neg, %neg, 1; max.s16 TO, %neg, SOURCE; }",
}
_USAGE = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SHARED = re.compile(r"(\d+) bytes smem")


@functools.cache
def _machine(arch: str) -> Machine:
    unlocking(llvm.initialize_all_targets)
    unlocking(llvm.initialize_all_asmprinters)
    features = "+" + _VERSIONS.get(arch, "ptx83")
    return Machine(_TRIPLE, arch, features, 3, jit=False)


def compile_ptx(ir_text: str, arch: str, *, what: str = "LLVM IR") -> str:
    """The PTX of a module for "sm_80", "sm_90" …; CompileError with LLVM's message where it does not compile."""
    for name in _INTRINSIC.findall(ir_text):
        if not _OURS.match(name):  # LLVM ends the process on one that the target does not have
            raise CompileError(what=what, target=f"cuda:{arch}", message=f"it declares {name}, which PTX may not use")
    with llvm_lock():
        try:
            with contextlib.closing(Module(ir_text, _machine(arch))) as module:
                module.optimise(3)
                return wrapping(module.emit(assembly=True).decode())
        except RuntimeError as error:
            raise CompileError(what=what, target=f"cuda:{arch}", message=str(error).strip()) from None


def wrapping(ptx: str) -> str:
    """PTX in which the negative and the absolute value of an i16 wrap whatever is done with them."""

    def wrapped(match: re.Match[str]) -> str:
        return _WRAPPED[match.group(1)].replace("SOURCE", match.group(3)).replace("TO", match.group(2))

    return _WRAPPING.sub(wrapped, ptx)


@functools.cache
def ptxas() -> tuple[str, str] | None:
    """Path and version of the assembler, or None where there is none."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "ptxas"
    if not path.is_file():
        return None
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(path), answer.stdout.strip().splitlines()[-1]


def assemble(ptx: str, arch: str, *, what: str = "PTX") -> tuple[bytes, tuple[tuple[str, int], ...]]:
    """A cubin and the resources that it uses; CompileError with the assembler's message where it is refused.

    Call it only where `ptxas()` finds an assembler.
    """
    found = ptxas()
    assert found is not None, "ptxas() says whether there is an assembler"
    with tempfile.TemporaryDirectory(prefix="poot-ptx-") as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        # What is fused, the text says; Triton's says it by this option alone.
        command = [found[0], "-v", "--fmad=false", f"--gpu-name={arch}", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            message = (done.stderr or done.stdout).strip()
            raise CompileError(what=what, target=f"cuda:{arch}", message=message)
        return cubin.read_bytes(), resources(done.stderr)


def resources(report: str) -> tuple[tuple[str, int], ...]:
    """Registers, spilled bytes, stack and shared memory from what `ptxas -v` says."""
    rows = (("registers", _USAGE), ("spills", _SPILLS), ("stack", _STACK), ("shared", _SHARED))
    found = {name: pattern.search(report) for name, pattern in rows}
    return tuple((name, int(match.group(1)) if match else 0) for name, match in found.items())
