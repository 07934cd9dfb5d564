"""A kernel as its user defined it: the function, its parameters, and the options of the decorator."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, SupportsIndex, TypeAlias, cast, overload

from poot.errors import ArgumentError, ArgumentTypeError, KernelTypeError
from poot.kernel.parse.annotations import Parameters, parameters
from poot.kernel.parse.source import FunctionSource, function_source
from poot.kernel.parse.syntax import check_syntax

Size: TypeAlias = "int | tuple[int, ...]"
Triple: TypeAlias = tuple[int, int, int]
#: What a launch is told beside the kernel's parameters.
OPTIONS = ("threads", "groups", "workgroup", "device")


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One kernel function.  `workgroup` is None where the target may choose it."""

    source: FunctionSource
    parameters: Parameters
    name: str
    workgroup: Triple | None
    unchecked: bool

    @property
    def function(self) -> FunctionType:
        return self.source.function


def whole(value: object) -> int | None:
    """An integer of Python, NumPy or an array of one, as an int; None for anything else, bools among it."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(cast("SupportsIndex", value))
    except TypeError:
        return None


def triple(size: Size, what: str, *, least: int = 1) -> Triple:
    """One to three sizes, x first, as three."""
    sizes = size if isinstance(size, tuple) else (size,)
    found = [number for number in map(whole, sizes) if number is not None and number >= least]
    if len(found) != len(sizes) or not 1 <= len(sizes) <= 3:
        kind = "positive" if least else "non-negative"
        raise ArgumentError(what=what, actual=size, expected=f"one to three {kind} integers, x first")
    found += [1] * (3 - len(found))
    return found[0], found[1], found[2]


def definition(
    function: Callable[..., Any],
    *,
    workgroup: Size | None = None,
    unchecked: bool = False,
    name: str | None = None,
    around: Mapping[str, object] | None = None,
) -> Definition:
    """Read a kernel function: find its source, check its syntax, and evaluate its annotations.

    `around` are the locals of the caller.  KernelSourceError, KernelSyntaxError, KernelNameError or KernelTypeError say
    what is wrong, and where.
    """
    if not isinstance(function, FunctionType):
        raise ArgumentTypeError(what="@poot.kernel", actual=type(function).__name__, expected="a Python function")
    source = function_source(function)
    if name is not None and not (isinstance(cast("object", name), str) and name.isidentifier()):
        raise ArgumentError(what="name of a kernel", actual=name, expected="an identifier", where=source.start)
    name = function.__name__ if name is None else name
    try:
        size = None if workgroup is None else triple(workgroup, f"workgroup of kernel {name}")
    except ArgumentError as error:
        raise error.at(source.start) from None
    check_syntax(source, name)
    found = parameters(source, name, around or {})
    taken = next((argument for argument in source.arguments if argument.arg in OPTIONS), None)
    if taken is not None:
        what = f"`{taken.arg}` is an option of every launch, and cannot be a parameter"
        raise KernelTypeError(kernel=name, message=what, where=source.where(taken), remedy="give it another name.")
    return Definition(source, found, name, size, unchecked)


@overload
def define(function: Callable[..., Any], /) -> Definition: ...
@overload
def define(
    *, workgroup: Size | None = None, unchecked: bool = False, name: str | None = None
) -> Callable[[Callable[..., Any]], Definition]: ...
def define(
    function: Callable[..., Any] | None = None,
    /,
    *,
    workgroup: Size | None = None,
    unchecked: bool = False,
    name: str | None = None,
) -> Any:
    """The decorator of the kernels that ship with poot; `poot.kernel` makes them callable."""
    around = cast("Mapping[str, object]", sys._getframe(1).f_locals)  # pyright: ignore[reportPrivateUsage]

    def decorate(wrapped: Callable[..., Any]) -> Definition:
        return definition(wrapped, workgroup=workgroup, unchecked=unchecked, name=name, around=around)

    return decorate if function is None else decorate(function)
