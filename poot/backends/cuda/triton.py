# pyright: basic
"""Triton source to a cubin, with Triton as a compiler alone: no torch, no GPU, no launcher of its own.

Architectures of AMD ("gfx942") give an hsaco, which no device of poot runs: it shows that kernels compile for them.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from poot import forks
from poot.backends.cuda.code import CudaCode
from poot.backends.cuda.nvptx import assemble, ptxas, wrapping
from poot.backends.hip.metadata import usage
from poot.errors import CompileError, Unsupported
from poot.kernel.render.triton import TritonSource

_numbers = itertools.count()
#: Triton's code generator keeps state of its own; one compile at a time.
triton_lock = forks.lock()
_TARGET = re.compile(r"^\.target (\w+)", re.MULTILINE)
_REGISTERS = re.compile(r"REG:(\d+).*?STACK:(\d+).*?SHARED:(\d+).*?LOCAL:(\d+)", re.DOTALL)


@functools.cache
def version() -> str | None:
    """Triton's version, or None where it is not installed."""
    try:
        import triton
    except ImportError:
        return None
    return triton.__version__


def capability(arch: str) -> int:
    """The number of an architecture: 90 for "sm_90"."""
    return int(arch.removeprefix("sm_"))


def is_amd(arch: str) -> bool:
    """Whether an architecture is one of AMD's."""
    return arch.startswith("gfx")


def require_triton(*, what: str, target: str) -> None:
    """Raise Unsupported where Triton is not installed."""
    if version() is None:
        instead = "" if target.startswith("hip") else ', or use language="ptx"'
        raise Unsupported(
            what=what,
            target=target,
            message="triton is not installed",
            remedy=f"run `pip install triton`{instead}.",
        )


def compile_triton(source: TritonSource, arch: str, *, what: str) -> CudaCode:
    """The cubin (or hsaco) of a rendered kernel; CompileError with Triton's message where it does not compile."""
    target = f"hip:{arch}" if is_amd(arch) else f"cuda:{arch}"
    require_triton(what=what, target=target)
    with triton_lock:
        try:
            compiled = _compile(source, arch)
        except Exception as error:  # Triton's errors share no base class
            message = "\n".join(str(e) for e in (error, error.__cause__) if e is not None)
            if "PassManager" in message:  # its compiler broke down on a valid program: another language serves
                remedy = "compile it in another language: poot.device(name, language=…)."
                raise Unsupported(what=what, target=target, message=f"in Triton, {message}", remedy=remedy) from error
            raise CompileError(what=what, target=target, message=message) from error
    metadata = compiled.metadata
    image, text = (compiled.asm[name] for name in (("hsaco", "amdgcn") if is_amd(arch) else ("cubin", "ptx")))
    if not is_amd(arch) and ptxas() is not None and (mended := wrapping(text)) != text:
        image, text = _assembled(mended, arch, what), mended
    # Triton's shared memory is dynamic: only its own metadata knows how much there is.
    found = tuple(row for row in usage(text) if row[0] != "shared") if is_amd(arch) else _usage(image)
    return CudaCode(
        image=image,
        entry=metadata.name,
        threads=(64 if is_amd(arch) else 32) * metadata.num_warps,
        shared=metadata.shared,
        hidden=2,
        scratch=getattr(metadata, "global_scratch_size", 0) or 0,
        scratch_align=getattr(metadata, "global_scratch_align", 1) or 1,
        resources=(*found, ("shared", metadata.shared), ("warps", metadata.num_warps)),
        text=text,
    )


def _compile(source: TritonSource, arch: str) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(source)
    attributes = {(number,): [["tt.divisibility", 16]] for number in source.aligned}
    ast = ASTSource(fn=function, signature=dict(source.signature), constexprs={}, attrs=attributes)
    options: dict[str, Any] = {
        "num_warps": source.warps,
        "enable_fp_fusion": False,  # the text says what is fused
        "sanitize_overflow": False,
        "enable_reflect_ftz": False,
    }
    if is_amd(arch):  # its waves have 64 lanes
        options["num_warps"] = max(1, source.warps // 2)
        return triton.compile(ast, target=GPUTarget("hip", arch, 64), options=options)
    number = capability(arch)
    if number < 100:
        options["ptx_version"] = 84
    return triton.compile(ast, target=GPUTarget("cuda", number, 32), options=options)


def _assembled(ptx: str, arch: str, what: str) -> bytes:
    """Triton's PTX, changed, as a cubin: for the architecture that it names, with its features ("sm_90a")."""
    named = _TARGET.search(ptx)
    return assemble(ptx, named.group(1) if named else arch, what=what)[0]


def _function(source: TritonSource) -> Any:
    """The JIT function that the text defines; Triton reads its source from `linecache`."""
    name = f"<poot triton {next(_numbers)}: {source.symbol}>"
    lines = source.text.splitlines(keepends=True)
    linecache.cache[name] = (len(source.text), None, lines, name)
    try:
        space: dict[str, Any] = {"__name__": f"poot_triton_{source.symbol}"}
        exec(compile(source.text, name, "exec"), space)
        return space[source.symbol]
    finally:
        del linecache.cache[name]


def _usage(image: bytes) -> tuple[tuple[str, int], ...]:
    """Registers and spilled bytes of a cubin, where the tool that reads them is at hand."""
    found = ptxas()
    if found is None:
        return ()
    tool = Path(found[0]).with_name("cuobjdump")
    if not tool.is_file():
        return ()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=False)
    match = _REGISTERS.search(done.stdout)
    if match is None:
        return ()
    return ("registers", int(match.group(1))), ("spills", int(match.group(2)) + int(match.group(4)))
