"""The user's source: the syntax tree of a function, and the place of every node in it.

The text comes from `linecache`, so that modules, notebook cells, the newer REPLs and `exec` with registered source all
work alike.  The whole file is parsed once; a function is found in it by its first line, so columns are the file's.
"""

from __future__ import annotations
import __future__

import ast
import dis
import linecache
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import TypeAlias, cast

from poot.errors import KernelSourceError, SourceLocation

_Def: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
_KEPT = 64


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file: its lines, and by first line the functions in it and what Python compiles them to."""

    lines: list[str]
    functions: dict[int, list[_Def]]
    codes: dict[int, list[CodeType]]


#: Parsed files, by name.
_files: OrderedDict[str, _File] = OrderedDict()

_REMEDY = (
    "define the function in a file, in IPython or a notebook cell without a cell magic, or in the REPL of "
    "Python 3.13; for text that you `exec`, register it first: "
    "`linecache.cache[name] = (len(text), None, text.splitlines(True), name)`, then `compile(text, name, 'exec')`."
)


#: Instructions that rewriting keeps.
_TELLING = ("BINARY_OP", "COMPARE_OP", "UNARY_", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
#: Flags of code for what `from __future__` brings.
_FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function as written: its tree, and what turns a node of it into a place."""

    handle: object
    tree: ast.FunctionDef
    file: str
    lines: list[str]

    @property
    def function(self) -> FunctionType:
        return cast("FunctionType", self.handle)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def arguments(self) -> list[ast.arg]:
        """The parameters as written, those with stars among them."""
        written = self.tree.args
        every = [*written.posonlyargs, *written.args, *written.kwonlyargs, written.vararg, written.kwarg]
        return [argument for argument in every if argument is not None]

    def where(self, node: ast.AST) -> SourceLocation:
        """The place of a node; an expression that goes on over further lines is marked to the end of its first."""
        line = getattr(node, "lineno", self.tree.lineno)
        start = getattr(node, "col_offset", -1)
        last = getattr(node, "end_lineno", line)
        end = getattr(node, "end_col_offset", -1) if last == line else 1 << 16
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if not text.isascii():
            data = text.encode()
            start, end = (len(data[:offset].decode(errors="ignore")) for offset in (start, end))
        return SourceLocation(self.file, line, start, end, self.function.__qualname__)

    @property
    def start(self) -> SourceLocation:
        """The line of the `def`."""
        node = self.tree
        text = self.lines[node.lineno - 1]
        column = text.find(node.name, node.col_offset)
        return SourceLocation(self.file, node.lineno, column, column + len(node.name), self.function.__qualname__)


def function_source(function: FunctionType, role: str = "kernel") -> FunctionSource:
    """The source of a function; KernelSourceError where Python has none, or has another text by now."""
    code = function.__code__
    if code.co_name == "<lambda>":
        place = SourceLocation(code.co_filename, code.co_firstlineno)
        column = place.text.find("lambda")
        place = replace(place, column=column, end_column=column + len("lambda"))
        raise KernelSourceError(
            message=f"a lambda cannot be a {role}", where=place, remedy="write a function with `def`."
        )
    file = _parsed(function)
    first = code.co_firstlineno
    compiled = [other for other in file.codes.get(first, ()) if other.co_name == code.co_name]
    same = not compiled or any(_stands_in(other, code) for other in compiled)
    found = [tree for tree in file.functions.get(first, ()) if same and _matches(tree, code)]
    if not found:
        raise KernelSourceError(
            message=f"{code.co_filename}:{code.co_firstlineno} is not the text of {function.__qualname__}",
            remedy="reload the module: the file has changed since it was imported.",
        )
    tree = found[0]
    if isinstance(tree, ast.AsyncFunctionDef):
        place = SourceLocation(code.co_filename, tree.lineno)
        raise KernelSourceError(message=f"an `async def` cannot be a {role}", where=place, remedy="leave out `async`.")
    return FunctionSource(function, tree, code.co_filename, file.lines)


def _parsed(function: FunctionType) -> _File:
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise KernelSourceError(message=f"Python has no source for {function.__qualname__} ({file})", remedy=_REMEDY)
    known = _files.get(file)
    if known is None or not (known.lines is lines or known.lines == lines):
        known = _parse(function, lines)
    _files.pop(file, None)
    _files[file] = known  # now the one that was used last
    while len(_files) > _KEPT:
        _files.popitem(last=False)
    return known


def _parse(function: FunctionType, lines: list[str]) -> _File:
    file = function.__code__.co_filename
    try:
        tree = ast.parse("".join(lines), file)
    except SyntaxError as error:
        raise KernelSourceError(
            message=f"the source of {function.__qualname__} does not parse: {error.msg}",
            where=SourceLocation(file, error.lineno or 1),
            remedy="reload the module: the file has changed since it was imported.",
        ) from error
    except RecursionError:
        raise KernelSourceError(
            message=f"{function.__qualname__} cannot be read: something in {file} nests too deep for Python's parser",
            where=SourceLocation(file, function.__code__.co_firstlineno),
            remedy="split the longest chain of `elif` or of operators in that file, whether or not it is the kernel's.",
        ) from None
    functions: dict[int, list[_Def]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min((decorator.lineno for decorator in node.decorator_list), default=node.lineno)
            functions.setdefault(min(first, node.lineno), []).append(node)
    return _File(lines, functions, _compiled(tree, function.__code__))


def _compiled(tree: ast.Module, like: CodeType) -> dict[int, list[CodeType]]:
    """What Python makes of the functions of a file, by first line; nothing where it is no program by itself, or where
    something nests deeper than a tree may.
    """
    features = (like.co_flags & _FEATURES) | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        whole: CodeType = compile(tree, like.co_filename, "exec", features, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[CodeType]] = {}
    for code in _codes(whole):
        found.setdefault(code.co_firstlineno, []).append(code)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _stands_in(written: CodeType, running: CodeType) -> bool:
    """Whether what the text says is what runs; tools that rewrite code (pytest its asserts) only add to it."""
    wanted, found = _operations(written), _operations(running)
    if written.co_code == running.co_code:
        return wanted == found
    return wanted < found


def _operations(code: CodeType) -> Counter[tuple[str, str]]:
    """Constants, names and operators of a function, counted."""
    return Counter(
        (instruction.opname, repr(instruction.argval))
        for instruction in dis.get_instructions(code)
        if instruction.opname.startswith(_TELLING) and not isinstance(instruction.argval, CodeType)
    )


def _matches(tree: _Def, code: CodeType) -> bool:
    arguments = tree.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return tree.name == code.co_name and tuple(names) == code.co_varnames[: len(names)]
