"""What a code object reads by name: globals, attributes and imports, by the instructions that read them.

The name of a method is no global, so `x.mean()` says nothing about a global `mean`; nested functions, comprehensions
and class bodies belong to the code around them.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from poot import forks

_KEPT = 1024
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
_SHOWING = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_SHOWS = frozenset({"str", "repr", "format", "print"})
_COMPARES = frozenset({"sorted", "min", "max", "sort", "index", "count", "remove"})
#: Functions that are given the names of attributes as text.
_BY_TEXT = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller"})


@dataclass(frozen=True, slots=True)
class Reads:
    """The names that a code object and those nested in it use.

    `imports` are modules with their level of relative import.  `uses` says what else can run special methods of
    objects: "compare", "compare objects" (where neither side is a constant), "show", and "make" (new objects of a type
    that is known by its objects alone).
    """

    globals: tuple[str, ...]
    attributes: frozenset[str]
    stores: frozenset[str]
    imports: tuple[tuple[str, int], ...]
    uses: frozenset[str]


class _Scan:
    def __init__(self) -> None:
        self.globals: dict[str, None] = {}
        self.attributes: set[str] = set()
        self.stores: set[str] = set()
        self.imports: dict[tuple[str, int], None] = {}
        self.uses: set[str] = set()

    def code(self, code: types.CodeType) -> None:
        before: list[dis.Instruction] = []
        for instruction in dis.get_instructions(code):
            if instruction.opname != "EXTENDED_ARG":
                self.instruction(instruction, before, code)
                before = [*before[-1:], instruction]

    def instruction(self, instruction: dis.Instruction, before: list[dis.Instruction], code: types.CodeType) -> None:
        name = instruction.opname
        if name in _GLOBAL:
            self.globals[instruction.argval] = None
        elif name in _ATTRIBUTE:
            self.attributes.add(instruction.argval)
        elif name == "STORE_ATTR":
            self.stores.add(instruction.argval)
        elif name == "IMPORT_NAME":
            level: Any = before[0].argval if before else 0
            self.imports[instruction.argval, level if isinstance(level, int) else 0] = None
        elif name in ("COMPARE_OP", "CONTAINS_OP"):
            self.uses.add("compare")
            if name == "COMPARE_OP" and before and before[-1].opname != "LOAD_CONST":
                self.uses.add("compare objects")
        elif name in _SHOWING:
            self.uses.add("show")
        elif name == "MATCH_CLASS":  # `case Kind(name=…)` keeps the names in a tuple
            names: list[Any] = [
                name for item in code.co_consts if isinstance(item, tuple) for name in cast("Any", item)
            ]
            self.attributes.update(name for name in (*names, "__match_args__") if isinstance(name, str))

    def reads(self) -> Reads:
        named = self.attributes | self.globals.keys()
        if not named.isdisjoint(_COMPARES):
            self.uses.add("compare")
        if not _SHOWS.isdisjoint(self.globals):
            self.uses.add("show")
        if "type" in self.globals or "__class__" in self.attributes:
            self.uses.add("make")
        parts = tuple(self.globals), frozenset(self.attributes), frozenset(self.stores), tuple(self.imports)
        return Reads(*parts, frozenset(self.uses))


#: By code object; the code is kept so that its id stays its own.
_known: OrderedDict[int, tuple[types.CodeType, Reads]] = OrderedDict()
_tokens: OrderedDict[tuple[types.CodeType, str], int] = OrderedDict()
_lock = threading.RLock()
forks.awaited(forks.LEAF, _lock.acquire, _lock.release)
_counter = iter(range(1 << 62))


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all those inside it."""
    pending = [code]
    while pending:
        code = pending.pop()
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def reads_of(code: types.CodeType) -> Reads:
    """What a code object and those nested in it read."""
    known = _known.get(id(code))
    if known is not None:
        return known[1]
    scan = _Scan()
    codes = list(nested(code))
    for each in codes:
        scan.code(each)
    if not _BY_TEXT.isdisjoint(scan.globals) or not _BY_TEXT.isdisjoint(scan.attributes):
        texts = [item for each in codes for item in each.co_consts if isinstance(item, str)]
        scan.attributes.update(name for text in texts for name in text.split(".") if name.isidentifier())
    reads = scan.reads()
    with _lock:
        _known[id(code)] = code, reads
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return reads


def imported(reads: Reads, space: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The modules that code imports as it runs, as far as they are loaded; `space` are its globals."""
    for name, level in reads.imports:
        whole = name
        if level:
            package = space.get("__package__") or str(space.get("__name__", "")).rpartition(".")[0]
            base = str(package).rsplit(".", level - 1)[0] if level > 1 else str(package)
            whole = f"{base}.{name}" if name else base
        parts = whole.split(".")
        for depth in range(1, len(parts) + 1):
            module = sys.modules.get(".".join(parts[:depth]))
            if module is not None:
                yield ".".join(parts[:depth]), module


def code_token(code: types.CodeType) -> int:
    """A number that equal code objects of one file share: an identical function made anew has the same."""
    key = code, code.co_filename  # which equality of code leaves out, and messages name
    with _lock:
        token = _tokens.get(key)
        if token is None:
            token = _tokens[key] = next(_counter)
            if len(_tokens) > _KEPT:
                _tokens.popitem(last=False)
        else:
            with contextlib.suppress(KeyError):  # what a finalizer has called may just have put it out
                _tokens.move_to_end(key)
        return token
