"""What a call traces, what it captures and freezes, and why earlier calls traced anew."""

from __future__ import annotations

import dis
import functools
import random
import struct
import sys
import types
from collections import Counter
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
from typing_extensions import override

from poot.api.captures import Captures, Same
from poot.api.codes import nested, reads_of
from poot.api.libraries import is_library_code
from poot.api.recording import Recorded
from poot.dtypes import ArraySpec
from poot.errors import an
from poot.plan.program import Program
from poot.trace.text import abridged

#: Names through which code reads what no guard can follow.
_DYNAMIC = frozenset(
    {
        "__dict__", "__getattribute__", "__import__", "asdict", "astuple", "attrgetter", "ctime", "environ",
        "eval", "exec", "getattr", "getenv", "getpid", "globals", "gmtime", "import_module", "input", "locals",
        "localtime", "methodcaller", "open", "read_bytes", "read_text", "strftime", "vars",
    }
)  # fmt: skip
#: Methods of generators that draw nothing, and words that say little.
_NO_DRAWS = frozenset(
    {
        "beta", "bit_generator", "bytes", "f", "gamma", "get_state", "getstate", "power", "sample", "seed", "set_state",
        "setstate", "spawn",
    }
)  # fmt: skip
_SHOWN = 60


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Printed, it tells the story of a traced function's calls; its fields are the data behind it.

    `misses` are the key parts of the latest calls that had to trace, oldest first; `ran` is the users' code that ran
    while the function was traced.
    """

    function: str
    recorded: Recorded
    captures: Captures
    program: Program
    misses: tuple[Mapping[str, Hashable], ...]
    ran: tuple[types.CodeType, ...] = ()

    @property
    def retraces(self) -> tuple[str, ...]:
        """For each trace after the first, which parts of the key had changed since the one before."""
        pairs = zip(self.misses, self.misses[1:], strict=False)
        return tuple(", ".join(_changes(before, after)) or _EVICTED for before, after in pairs)

    @property
    def guarded(self) -> tuple[str, ...]:
        """The constants and objects that the code reads: a change of one traces again."""
        parts = self.captures.parts.items()
        return tuple(f"{label} = {_text(part)}" for label, part in parts if label and not _is_array(part))

    @property
    def frozen(self) -> tuple[str, ...]:
        """What is not looked at again: arrays that no name leads to, objects of libraries, what code read that ran
        though no name leads to it, and reads that the code makes dynamically.

        Only reads that the code spells out are listed: `getattr`, `vars`, `open`, `os.environ` and their like, and
        draws from generators that the function has not got by name.
        """
        opaque = [f"{label}: what {an(kind)} holds or gives" for label, kind in self.captures.opaque]
        followed = {code for function in self.captures.functions for code in nested(function.__code__)}
        astray = [f"what {_place(code)} reads: no name leads to it" for code in self.ran if code not in followed]
        reads = [read for function in self.captures.functions for read in _dynamic_reads(function)]
        return (*self.recorded.frozen, *opaque, *dict.fromkeys(astray), *dict.fromkeys(reads))

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels in the order of their first launch, each with the number of its launches."""
        launches = Counter(launch.kernel for launch in self.program.launches)
        return tuple(
            f"{self.program.kernels[number].name}, launched {count} time{'s' * (count != 1)}"
            for number, count in launches.items()
        )

    @override
    def __str__(self) -> str:
        lines = [f"{self.function}: {len(self.recorded.graph.equations)} equations"]
        lines += [f"  input {name}: {source.kind}" for name, source in self.recorded.sources.items()]
        lines += [f"  capture {label} (its contents are read at every call)" for label in self.captures.labels]
        lines += [f"  guarded: {what}" for what in self.guarded]
        lines += [f"  frozen: {what}" for what in self.frozen]
        lines += [f"  traced again because of {change}" for change in self.retraces]
        kernels, launches = len(self.program.kernels), len(self.program.launches)
        lines.append(f"  {launches} launches of {kernels} kernels on {self.program.target}, {self.program.numerics}")
        lines += [f"  kernel {kernel}" for kernel in self.kernels]
        for record in self.program.passes:
            lines += [f"  {record.name}: {note}" for note in record.notes]
            lines += [f"  {record.name} declined: {note}" for note in record.declined]
        return "\n".join(lines)

    @override
    def __repr__(self) -> str:
        return abridged(str(self))


_EVICTED = "nothing in the call: it had left the cache of the process"


def _changes(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[str]:
    changed: list[str] = []
    for name in {**before, **after}:
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old != new:
            changed.append("its new code" if name == "code" else f"{name!r}: {_text(old)} became {_text(new)}")
    return changed


_ABSENT = "nothing"


def _is_array(part: Hashable) -> bool:
    return isinstance(part, tuple) and part[:1] == (ArraySpec,)


def _text(part: Hashable) -> str:
    """A part of a key, in the forms that `captures` makes, as the user knows the value."""
    if isinstance(part, Same):
        return f"{part} (itself, and the attributes that the code names)"
    if isinstance(part, int) and not isinstance(part, bool):
        return "a function, by its code"
    if not isinstance(part, tuple):
        return _short(str(part))
    items = cast("tuple[object, ...]", part)
    if items and isinstance(items[0], Same):
        return _text(items[0])
    if len(items) < 2 or not isinstance(items[0], type):
        return _short(str(items))
    kind, value = cast("tuple[type[object], object]", items[:2])
    if kind is float:
        return repr(struct.unpack("<d", cast("bytes", value))[0])
    if kind is ArraySpec:
        _, dtype, shape, _ = cast("tuple[object, object, tuple[int, ...], int]", items)
        return f"{dtype}[{','.join(map(str, shape))}]"
    if kind in (list, tuple, dict, set, frozenset):
        return f"{an(kind.__name__)} of {len(cast('tuple[object, ...]', value))}"
    return _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _dynamic_reads(function: types.FunctionType) -> Iterator[str]:
    """Each place of a function where it reads by a computed name, from a file or the environment, or draws from a
    generator that it has got from elsewhere.
    """
    for code in nested(function.__code__):
        if _DYNAMIC.isdisjoint(code.co_names) and _draws().isdisjoint(code.co_names):
            continue
        watched = True
        for instruction in dis.get_instructions(code):
            name, opname = instruction.argval, instruction.opname
            drawn = _is_method(instruction) and name in _draws() and not watched
            if drawn or (opname.startswith("LOAD") and name in _DYNAMIC):
                line = instruction.positions.lineno if instruction.positions else None
                yield f"what {name} gave {code.co_qualname} ({code.co_filename}:{line})"
            # What globals, closures and attributes lead to is watched during the trace.
            local = opname.startswith("LOAD_FAST") and name != "self"
            watched = opname.startswith("LOAD") and not local


@functools.cache
def _draws() -> frozenset[str]:
    """Methods by which generators are drawn from."""
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    return frozenset(name for kind in kinds for name in dir(kind) if name.islower() and name[0] != "_") - _NO_DRAWS


def _is_method(instruction: dis.Instruction) -> bool:
    """Whether an instruction looks a method up to call it."""
    flagged = instruction.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool((instruction.arg or 0) & 1)
    return flagged or instruction.opname == "LOAD_METHOD"


def _place(code: types.CodeType) -> str:
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


@contextmanager
def watching() -> Generator[list[types.CodeType]]:
    """The users' code that runs inside the block, as far as it reads anything; a profiler goes before."""
    ran: list[types.CodeType] = []
    if sys.getprofile() is not None:
        yield ran
        return
    seen: set[types.CodeType] = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen:
            seen.add(code)
            if not is_library_code(code, frame.f_globals.get("__name__")):
                reads = reads_of(code)
                if reads.attributes or any(name in frame.f_globals for name in reads.globals):
                    ran.append(code)

    sys.setprofile(note)
    try:
        yield ran
    finally:
        sys.setprofile(None)
