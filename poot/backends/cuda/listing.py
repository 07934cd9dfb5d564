"""PTX for reading: what LLVM makes of a kernel, with the user's line before what comes of it.

LLVM drops comments, but carries the place of each instruction through all that it does.  So each line of the kernel's
text gets one, which is the number of the comment above it, and the directives that LLVM makes of them become comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from poot.backends.cuda.nvptx import compile_ptx

#: Metadata numbers from here on are ours.
_FIRST = 1_000_000
_UNIT = f"""
!llvm.dbg.cu = !{{!{_FIRST}}}
!llvm.module.flags = !{{!{_FIRST + 4}}}
!{_FIRST} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FIRST + 1}, emissionKind: DebugDirectivesOnly)
!{_FIRST + 1} = !DIFile(filename: "kernel", directory: "")
!{_FIRST + 2} = distinct !DISubprogram(unit: !{_FIRST}, file: !{_FIRST + 1}, type: !{_FIRST + 3}, spFlags: 8)
!{_FIRST + 3} = !DISubroutineType(types: !{{}})
!{_FIRST + 4} = !{{i32 2, !"Debug Info Version", i32 3}}
"""
_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\b")
#: What else LLVM writes for places: names of files, and labels that nothing jumps to.
_NOISE = re.compile(r"\s*\.file\s|\$L__(tmp|func_begin|func_end|pro_loc)\w*:|\s*\.section\s+\.debug|\s*// \.loc\b")


def listing(ir_text: str, arch: str, *, what: str = "LLVM IR") -> str:
    """The PTX of a kernel's LLVM text, with the comments of that text; CompileError where it does not compile."""
    comments: list[str] = []
    placed = "\n".join(_placed(ir_text.split("\n"), comments))
    found = [f"!{_FIRST + 10 + n} = !DILocation(line: {n + 1}, scope: !{_FIRST + 2})" for n in range(len(comments))]
    ptx = compile_ptx(placed + _UNIT + "\n".join(found) + "\n", arch, what=what)
    return "\n".join(_commented(ptx.split("\n"), comments))


def _placed(lines: list[str], comments: list[str]) -> Iterator[str]:
    """The lines with places in the kernel's own function; `comments` are what they stand for."""
    inside = False
    for line in lines:
        if line.startswith("define ptx_kernel"):
            inside = True
            line = f"{line.removesuffix('{')}!dbg !{_FIRST + 2} {{"
        elif line == "}":
            inside = False
        elif inside and line.startswith("  ;"):
            comments.append(line.strip().removeprefix(";").strip())
        elif inside and comments and line.startswith("  ") and not line.rstrip().endswith((",", "[", "]")):
            line = f"{line}, !dbg !{_FIRST + 9 + len(comments)}"
        yield line


def _commented(lines: list[str], comments: list[str]) -> Iterator[str]:
    last = ""
    for line in lines:
        place = _LOCATION.match(line)
        if place:
            comment = comments[int(place[1]) - 1] if int(place[1]) else ""
            if comment and comment != last:
                yield f"\t// {comment}"
            last = comment
        elif not _NOISE.match(line):
            yield line
