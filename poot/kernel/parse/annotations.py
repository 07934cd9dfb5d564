"""The parameters of a kernel, from the annotations of its function."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, get_args, get_origin

from poot.dtypes import DType, as_dtype
from poot.errors import KernelNameError, KernelTypeError, PootError, SourceLocation
from poot.kernel.ir import Access
from poot.kernel.language import CONST, BufferType
from poot.kernel.parse.source import FunctionSource

#: An element dtype, or the type variable that stands for one.
Element: TypeAlias = "DType | TypeVar"

_EXPECTED = "annotate it: In[f32], Out[f32], InOut[f32], a dtype, float, int or bool, or Const[int]."


@dataclass(frozen=True, slots=True)
class BufferParameter:
    """An array argument."""

    name: str
    access: Access
    element: Element
    rank: int


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A number that each launch gives."""

    name: str
    element: Element


@dataclass(frozen=True, slots=True)
class ConstParameter:
    """A value that is compiled in; `kind` is the class that it must be of, or None for any."""

    name: str
    kind: type | None


Parameter: TypeAlias = BufferParameter | ScalarParameter | ConstParameter


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters in order, their defaults, and the type variables among their annotations."""

    items: tuple[Parameter, ...]
    defaults: Mapping[str, object]
    variables: tuple[TypeVar, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)


def parameters(source: FunctionSource, kernel: str, around: Mapping[str, object]) -> Parameters:
    """Read a kernel's parameters; `around` are the locals of the caller, for annotations that are text."""
    return _Reader(source, kernel, around).read()


class _Reader:
    def __init__(self, source: FunctionSource, kernel: str, around: Mapping[str, object]) -> None:
        self.source = source
        self.kernel = kernel
        self.around = around
        self.variables: dict[TypeVar, None] = {}

    def read(self) -> Parameters:
        function = self.source.function
        signature = own_signature(function)
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
                self.fail(name, f"`{stars}{name}` is not part of the kernel language", "name every parameter.")
        items = tuple(self.parameter(name) for name in signature.parameters)
        defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty}
        for item in items:
            if item.name in defaults and isinstance(item, BufferParameter):
                self.fail(item.name, f"`{item.name}` is an array and has a default", "pass it at each launch.")
        return Parameters(items, defaults, tuple(self.variables))

    def where(self, name: str) -> SourceLocation:
        return self.source.where(next(argument for argument in self.source.arguments if argument.arg == name))

    def fail(self, name: str, message: str, remedy: str = _EXPECTED) -> NoReturn:
        raise KernelTypeError(kernel=self.kernel, message=message, where=self.where(name), remedy=remedy)

    def parameter(self, name: str) -> Parameter:
        annotations = self.source.function.__annotations__
        if name not in annotations:
            first = name in ("self", "cls") and name == self.source.arguments[0].arg
            method = f"leave `{name}` out: a kernel in a class is no method, and is called with arrays alone."
            self.fail(name, f"`{name}` has no annotation", method if first else _EXPECTED)
        value = self.value(name, annotations[name])
        if isinstance(value, BufferType):
            return BufferParameter(name, value.access, self.element(value.element), value.rank)
        if isinstance(value, type) and value.__module__ == BufferType.__module__:
            remedy = f"write {value.__name__}[f32]."
            self.fail(name, f"`{name}` is annotated {value.__name__} without a dtype", remedy)
        if CONST in getattr(value, "__metadata__", ()):
            return ConstParameter(name, _kind(get_args(value)[0]))
        if hasattr(value, "__metadata__"):  # another Annotated[…]
            value = get_args(value)[0]
        if isinstance(value, TypeVar) or (isinstance(value, type) and value in (bool, int, float)):
            return ScalarParameter(name, self.element(value))
        try:
            return ScalarParameter(name, as_dtype(value))
        except PootError:
            pass
        self.fail(name, f"`{name}` is annotated {_shown(value)}, which is no parameter of a kernel")

    def element(self, value: object) -> Element:
        if isinstance(value, TypeVar):
            self.variables[value] = None
            return value
        return as_dtype(value)

    def value(self, name: str, annotation: object) -> Any:
        """The annotation itself; text is evaluated where the function stands."""
        if not isinstance(annotation, str):
            return annotation
        function = self.source.function
        space: dict[str, object] = dict(self.around)
        for variable in getattr(function, "__type_params__", ()):
            space[variable.__name__] = variable
        space |= closure(function)
        try:
            return eval(annotation, function.__globals__, space)
        except NameError as error:
            known = {*function.__globals__, *space}
            raise KernelNameError(
                kernel=self.kernel,
                message=f"the annotation of `{name}` names `{error.name}`, which is not defined",
                where=self.where(name),
                remedy=suggestion(str(error.name), known) or "define or import it before the kernel.",
            ) from None
        except Exception as error:
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise KernelTypeError(
                kernel=self.kernel,
                message=f"the annotation of `{name}`, {annotation!r}, raises {said}",
                where=self.where(name),
                remedy=_EXPECTED,
            ) from error


def own_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters that the body of a function has, whatever function a decorator says that it wraps."""
    if not isinstance(function, types.FunctionType):
        return inspect.signature(function, follow_wrapped=False)
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare, follow_wrapped=False)


def closure(function: types.FunctionType) -> dict[str, object]:
    """The closure cells of a function that have a value, by name."""
    found: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def suggestion(name: str, known: set[str]) -> str:
    """A hint at a name that is close to a misspelt one, or ""."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def _kind(value: object) -> type | None:
    origin = get_origin(value)
    if origin is not None and origin is not Literal:
        value = origin
    return value if isinstance(value, type) else None


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
