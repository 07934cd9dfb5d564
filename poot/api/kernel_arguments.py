"""The arguments of a launch: checked against the kernel's parameters before anything runs."""

from __future__ import annotations

import difflib
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from poot.api.array import DeviceArray
from poot.api.foreign import device_array
from poot.dtypes import ArraySpec, DType, as_dtype, f64
from poot.errors import LaunchError, PootError, UnsupportedDTypeError
from poot.foreign import host_array
from poot.kernel.language import BufferType
from poot.kernel.parse.annotations import BufferParameter, ConstParameter, Element, Parameters
from poot.kernel.parse.values import shown as shown_number
from poot.probe import has
from poot.trace.source import user_location

HostArray: TypeAlias = np.ndarray[Any, Any]
#: Classes of numbers, untyped, since NumPy's own generic ones would spread their parameters.
_BOOLS: tuple[type, ...] = (bool, np.bool_)
_FLOATS: tuple[type, ...] = (float, np.floating)
_NUMBERS: tuple[type, ...] = (bool, int, float, np.floating, np.integer, np.bool_)
_SCALARS: tuple[type, ...] = (np.generic,)
_ARRAYS: tuple[type, ...] = (DeviceArray, np.ndarray)
#: What a launch is told beside the kernel's parameters.
_LAUNCH = ("threads", "groups", "workgroup", "device")
#: What a buffer parameter takes, once foreign arrays have become NumPy's.
ArrayLike: TypeAlias = "HostArray | DeviceArray"


def fail(kernel: str, message: str, remedy: str = "") -> NoReturn:
    """LaunchError at the user's line."""
    remedy = remedy.replace("{", "{{").replace("}", "}}")
    raise LaunchError(kernel=kernel, message=message, where=user_location(), remedy=remedy)


def as_array(kernel: str, parameter: BufferParameter, value: Any) -> ArrayLike:
    """An argument as an array that poot or NumPy holds; LaunchError for other objects."""
    if isinstance(value, DeviceArray):
        return value
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)  # imported by whoever has one
    if masked is not None and isinstance(value, masked):
        remedy = "fill it: a.filled(0); or pass the mask too, as an array of bool."
        fail(kernel, f"`{parameter.name}` is a masked array, whose mask no kernel sees", remedy)
    if isinstance(value, np.ndarray):
        return cast("HostArray", value).view(np.ndarray)
    if not isinstance(value, (bool, int, float, complex, str, bytes, list, tuple, dict)):
        what = f"`{parameter.name}` of kernel {kernel}"
        found = device_array(value, what)
        found = host_array(value, what) if found is None else found
        if found is not None:
            return found
    remedy = "pass a NumPy array, a poot.Array, or any array that has DLPack."
    if isinstance(value, (list, tuple)):
        name = "float32" if isinstance(parameter.element, TypeVar) else parameter.element.dtype.name
        remedy = f"make it an array: np.array(…, {f'np.{name}' if hasattr(np, name) else repr(name)})."
    kind = type(cast("object", value)).__name__
    fail(kernel, f"`{parameter.name}` is a {kind}, where {shown(parameter)} needs an array", remedy)


def shown(parameter: BufferParameter) -> str:
    """A buffer parameter as it is annotated."""
    return repr(BufferType(parameter.access, parameter.element, parameter.rank))


def array_dtype(array: ArrayLike) -> DType:
    """The dtype of an array argument."""
    return array.spec.dtype if isinstance(array, DeviceArray) else as_dtype(array.dtype)


def check_array(kernel: str, parameter: BufferParameter, array: ArrayLike, variables: dict[TypeVar, DType]) -> None:
    """Dtype and rank are exactly those of the parameter; a type variable takes the dtype that it meets first."""
    try:
        dtype = array_dtype(array)
    except UnsupportedDTypeError:
        fail(kernel, f"`{parameter.name}` has the dtype {array.dtype}", "convert it to one of poot's dtypes.")
    check_spec(kernel, parameter, ArraySpec(dtype, tuple(array.shape)), variables)
    if isinstance(array, np.ndarray) and not array.dtype.isnative:
        fail(kernel, f"`{parameter.name}` is stored in the other byte order", "convert it with .astype(…).")


def check_spec(kernel: str, parameter: BufferParameter, spec: ArraySpec, variables: dict[TypeVar, DType]) -> None:
    """`check_array` for what is known of an array without its elements."""
    if spec.rank != parameter.rank:
        fail(
            kernel,
            f"`{parameter.name}` has rank {spec.rank} and the shape {spec.shape}, "
            f"where {shown(parameter)} needs rank {parameter.rank}",
            _reshape(parameter, spec.rank),
        )
    wanted = bound(kernel, parameter.name, parameter.element, spec.dtype, variables)
    if spec.dtype is not wanted:
        other = isinstance(parameter.element, TypeVar)
        fail(
            kernel,
            f"`{parameter.name}` is {spec.dtype}, where {shown(parameter)} needs {wanted}",
            f"every {parameter.element.__name__} of one launch is one dtype: convert with .astype(…)."
            if other
            else f"convert it: {parameter.name}.astype(np.dtype({wanted})); nothing is cast silently.",
        )


def _reshape(parameter: BufferParameter, rank: int) -> str:
    if rank == 0:
        return f"reshape it: {parameter.name}.reshape(1)."
    if rank > 4:
        return "reshape it: kernels take arrays of rank 1 to 4."
    return f"reshape it, or declare {BufferType(parameter.access, parameter.element, rank)!r}."


def bound(kernel: str, name: str, element: Element, dtype: DType, variables: dict[TypeVar, DType]) -> DType:
    """The dtype that an element stands for, given what an argument has; a free type variable is bound to that."""
    if isinstance(element, DType):
        return element
    constraints = cast("Sequence[object]", element.__constraints__)
    if element not in variables:
        if constraints and dtype not in constraints:
            allowed = ", ".join(getattr(c, "name", str(c)) for c in constraints)
            fail(kernel, f"`{name}` is {dtype}, and {element.__name__} is one of {allowed}", "convert it.")
        variables[element] = dtype
    return variables[element]


# --- scalars --------------------------------------------------------------------------------------------------------


def scalar(kernel: str, name: str, value: Any, dtype: DType) -> bool | int | float:
    """A number for a scalar parameter; LaunchError where it is of the wrong kind or does not fit."""
    if isinstance(value, _ARRAYS) and value.ndim == 0:
        value = value.item()
    if dtype.kind == "bool":
        if isinstance(value, _BOOLS):
            return bool(value)
    elif dtype.is_integer:
        if has(value, "__index__") and not isinstance(value, _ARRAYS):
            number = operator.index(value)
            if not dtype.min <= number <= dtype.max:
                remedy = f"{dtype} holds {dtype.min} to {dtype.max}; declare a wider dtype."
                fail(kernel, f"`{name}` is {number}, which does not fit {dtype}", remedy)
            return number
    elif isinstance(value, _NUMBERS) or _is_small_float(value):
        number = _as_float(value)
        if math.isinf(_rounded(number, dtype)) and (isinstance(value, int) or bool(np.isfinite(value))):
            wider = (
                "declare a wider dtype."
                if dtype is not f64 and math.isfinite(number)
                else f"pass a number up to {dtype.max}."
            )
            text = shown_number(value) if isinstance(value, int) else str(value)
            text = f"an integer {text}" if text.startswith("of ") else text
            fail(kernel, f"`{name}` is {text}, which does not fit {dtype}", wider)
        return number
    kind = type(value).__name__
    remedy = "pass a Python or NumPy number of that kind."
    if dtype.is_integer and isinstance(value, _FLOATS):
        remedy = "convert it with int(…); nothing is rounded silently."
    fail(kernel, f"`{name}` is {value!r}, a {kind}, where a scalar of {dtype} is needed", remedy)


def _is_small_float(value: object) -> bool:
    return isinstance(value, _SCALARS) and type(value).__name__ in ("bfloat16", "float16")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _rounded(number: float, dtype: DType) -> float:
    with np.errstate(all="ignore"):
        return float(dtype.dtype.type(number))


def converter(kernel: str, name: str, dtype: DType) -> Callable[[Any], bool | int | float]:
    """`scalar` for one parameter, quick for the plain numbers that most launches pass."""
    if dtype.is_integer:
        low, high = dtype.min, dtype.max

        def integer(value: Any) -> bool | int | float:
            if type(value) is int and low <= value <= high:
                return value
            return scalar(kernel, name, value, dtype)

        return integer
    largest = 1e38 if dtype.itemsize >= 4 else 6e4

    def number(value: Any) -> bool | int | float:
        if type(value) is float and -largest < value < largest:
            return value
        return scalar(kernel, name, value, dtype)

    return number if dtype.is_float else lambda value: scalar(kernel, name, value, dtype)


def const(kernel: str, parameter: ConstParameter, value: Any) -> Any:
    """A value for a Const parameter: of the class that it names, and one that cannot change."""
    kind = parameter.kind
    if isinstance(value, _NUMBERS) and hasattr(value, "item") and kind in (int, float, bool):
        value = value.item()
    if kind is float and type(value) is int:
        value = float(value)
    wrong = kind is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float)))
    if wrong:
        named = cast(type, kind).__name__
        needed = f"{'an' if named[0] in 'aeiou' else 'a'} {named}"
        fail(kernel, f"`{parameter.name}` is {value!r}, where Const[{named}] needs {needed}", f"pass {needed}.")
    try:
        hash(value)
    except TypeError:
        kind_name = type(value).__name__
        fail(kernel, f"`{parameter.name}` is a {kind_name}, which can change", "pass a number, a tuple or a dtype.")
    return value


# --- all together ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """The arguments of one launch, in order, with what they make constant."""

    values: tuple[Any, ...]
    variables: Mapping[TypeVar, DType]
    consts: Mapping[str, Any]

    def arrays(self, parameters: Parameters) -> list[ArrayLike]:
        """The array arguments."""
        pairs = zip(parameters.items, self.values, strict=True)
        return [value for item, value in pairs if isinstance(item, BufferParameter)]


def check(kernel: str, parameters: Parameters, values: Sequence[Any]) -> Checked:
    """Check every argument."""
    variables: dict[TypeVar, DType] = {}
    consts: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for item, value in zip(parameters.items, values, strict=True):
        match item:
            case BufferParameter():
                array = as_array(kernel, item, value)
                check_array(kernel, item, array, variables)
                found[item.name] = array
            case ConstParameter():
                consts[item.name] = found[item.name] = const(kernel, item, value)
            case _:
                found[item.name] = value
    for item, value in zip(parameters.items, values, strict=True):
        if not isinstance(item, (BufferParameter, ConstParameter)):
            dtype = bound(kernel, item.name, item.element, scalar_dtype(value), variables)
            scalar(kernel, item.name, value, dtype)
    return Checked(tuple(found.values()), variables, consts)


def scalar_dtype(value: Any) -> DType:
    """The dtype that a scalar brings to a type variable that no array binds."""
    try:
        return as_dtype(type(value))
    except PootError:
        return as_dtype(float)


#: What other systems call the sizes of a launch.
_GRIDS = ("grid", "block", "blocks", "blockdim", "griddim", "global_size", "local_size", "num_warps", "stream")


def bind(kernel: str, parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Arguments by position or name, and defaults, in the order of parameters."""
    names = parameters.names
    if len(args) > len(names):
        fail(kernel, f"{len(args)} arguments given, {len(names)} expected", "give " + ", ".join(names) + ".")
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            near = difflib.get_close_matches(name, (*names, *_LAUNCH), n=1)
            known = "its parameters are " + ", ".join(names) + "."
            if name in _GRIDS:
                near, known = [], "a grid is threads=n, or groups=n with workgroup=."
            fail(kernel, f"it has no parameter `{name}`", f"did you mean `{near[0]}`?" if near else known)
        if name in given:
            fail(kernel, f"`{name}` is given twice", "give it once.")
        given[name] = value
    missing = [name for name in names if name not in given and name not in parameters.defaults]
    if missing:
        fail(kernel, "no value is given for " + ", ".join(f"`{name}`" for name in missing), "pass every argument.")
    return tuple(given[name] if name in given else parameters.defaults[name] for name in names)
