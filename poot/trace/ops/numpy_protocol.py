"""NumPy's functions on poot arrays: `np.sum(x)` calls `ops.sum(x)`, `ndarray + x` calls `ops.add`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from poot.errors import ArgumentError, ArgumentTypeError, PootError
from poot.trace.array import Array, is_array
from poot.trace.ops.promotion import shape_of
from poot.trace.source import user_location

_ATTRIBUTES = (np.shape, np.ndim, np.size)
#: Functions that mean something else in the array API, or take other arguments, and those that take sequences.
_OTHERWISE = (np.diagonal, np.trace, np.clip, np.cross, np.diff, np.einsum)
_SEQUENCES = (np.array_equal, np.allclose, np.isclose)
API_VERSIONS = ("2022.12", "2023.12", "2024.12")

_REDUCE = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
#: The methods of `x.at[…]` that do what `ufunc.at` does.
_AT = {
    **{name: name for name in ("add", "subtract", "multiply", "divide", "power")},
    "maximum": "max",
    "minimum": "min",
}
_OPTIONS = {
    "dtype": "cast the operands or the result with x.astype(dtype).",
    "where": "choose by element with ops.where(condition, a, b).",
}
_REMEDY = (
    "use a function of `poot.ops`, or, outside traced functions, convert the array with np.asarray(x), which reads it "
    "back."
)


def array_namespace(api_version: str | None = None) -> ModuleType:
    """The module of the array API's functions, `ops`; ArgumentError for a version of the standard that it lacks."""
    if api_version is not None and api_version not in API_VERSIONS:
        raise ArgumentError(
            what="api_version", actual=api_version, expected="one of " + ", ".join(API_VERSIONS), where=user_location()
        )
    return _ops()


def numpy_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """`__array_ufunc__`: a ufunc, or `reduce`, `accumulate` or `outer` of one, as functions of `ops` of its name."""
    name = ufunc.__name__
    what = f"np.{name}" if method == "__call__" else f"np.{name}.{method}"
    function = _find(_ops(), _function_of(name, method))
    if function is None:
        raise _unknown(what, _remedy(ufunc, method))
    if name in _COMPARISONS:
        scalars = [_holders(inputs, place) == _TEMPORARY for place in range(len(inputs))]
        inputs = [item[()] if scalar else item for item, scalar in zip(inputs, scalars, strict=True)]
    allowed = {"reduce": ("axis", "keepdims"), "accumulate": ("axis",)}.get(method, ())
    for option, value in options.items():
        if option == "out":
            raise ArgumentTypeError(
                what=what,
                actual="out=, or an in-place operator on a NumPy array,",
                expected="no out=",
                where=user_location(),
                remedy="poot arrays are not written into NumPy arrays; write `a = a + x` instead of `a += x`.",
            )
        if option not in allowed:
            raise ArgumentTypeError(
                what=what,
                actual=f"{option}={value!r}",
                expected="array operands alone",
                where=user_location(),
                remedy=_OPTIONS.get(option),
            )
    if method in ("reduce", "accumulate"):
        (x, *axes) = inputs  # the axis may come by position
        return function(x, **{"axis": axes[0] if axes else 0, **options})
    if method == "outer":
        first, second = (_ops().asarray(x) if isinstance(x, (list, tuple)) else x for x in inputs)
        rank = len(shape_of(second))
        apart = rank and len(shape_of(first))  # numbers stay what they are
        return function(_ops().reshape(first, (*shape_of(first), *(1,) * rank)) if apart else first, second)
    return function(*inputs, **options)


def _function_of(name: str, method: str) -> str | None:
    """The function of `ops` that a ufunc's method is made of."""
    match method:
        case "reduce":
            return _REDUCE.get(name)
        case "accumulate":
            return _ACCUMULATE.get(name)
        case "outer" | "__call__":
            return name
        case _:
            return None


def _remedy(ufunc: np.ufunc, method: str) -> str:
    """What to write instead of a method that a ufunc does not have here."""
    name = ufunc.__name__
    match method:
        case "at":
            known, second = _AT.get(name), ", v" if ufunc.nin == 2 else ""
            changed = f"x.at[i].{known}(v)" if known else f"x.at[i].set(ops.{name}(x[i]{second}))"
            return f"arrays are not changed in place: write `x = {changed}`."
        case "reduceat":
            return (
                "add at the number of each element's part, ops.zeros(n).at[part].add(x), or reduce slices one by one."
            )
        case "reduce" | "accumulate":
            known = ", ".join(f"np.{each}" for each in (_REDUCE if method == "reduce" else _ACCUMULATE))
            return f"ops.scan goes on with any function; {method} is there for {known}."
        case _:
            return _REMEDY


# Comparing a NumPy scalar with an array, NumPy first makes the scalar a 0-d array, and with it strong.  Nobody else
# holds that array, which its reference count shows; a 0-d array of the user's has at least one holder more.
_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def _holders(inputs: Sequence[Any], place: int) -> int:
    """How many references there are to a 0-d NumPy array among a ufunc's inputs; -1 of anything else."""
    item = inputs[place]
    return sys.getrefcount(item) if is_array(item) and not item.shape else -1


class _Probe:
    """Finds the reference count of such an array in this version of Python and NumPy."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> int:
        return self.count(ufunc, method, inputs, options)

    def count(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> int:
        return next(iter([_holders(inputs, place) for place in range(len(inputs))]))


_TEMPORARY: int = np.float64(1) < _Probe()  # type: ignore[operator, assignment]


def numpy_function(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
    """`__array_function__`: a NumPy function as the function of `ops` of its name."""
    if function in _SEQUENCES:
        args = [_ops().asarray(arg) if isinstance(arg, (list, tuple)) else arg for arg in args]
    if function in _ATTRIBUTES and len(args) == 1 and isinstance(args[0], Array):
        return getattr(args[0], function.__name__)
    module = getattr(function, "__module__", "")
    namespace: Any = _ops()
    what = f"{module.replace('numpy', 'np', 1)}.{function.__name__}"
    for part in module.split(".")[1:]:
        namespace = _find(namespace, part)
    if function in _OTHERWISE:
        found = getattr(_ops().numpy_names, function.__name__)
    else:
        found = None if namespace is None else _find(namespace, function.__name__)
    if found is None:
        raise _unknown(what)
    try:
        return found(*args, **options)
    except TypeError as error:
        misfit = None if isinstance(error, PootError) else _misfit(found, args, options)
        if misfit is None:
            raise
    raise ArgumentTypeError(
        what=what,
        actual=misfit,
        expected=f"what ops.{found.__name__} takes",
        where=user_location(),
        remedy=f"poot takes {found.__name__}{inspect.signature(found)}; cast with poot's dtypes before, or call NumPy "
        "on np.asarray(x), outside traced functions.",
    ) from None


def _misfit(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> str | None:
    """What a function does not take among arguments that are meant for NumPy's, or None where they fit."""
    parameters = inspect.signature(function).parameters.values()
    unknown = options.keys() - {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    if unknown:
        return ", ".join(f"{name}={options[name]!r:.40}" for name in options if name in unknown)
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        return str(error)
    return None


def _ops() -> ModuleType:
    return importlib.import_module("poot.trace.ops")


def _find(namespace: Any, name: str | None) -> Any:
    """A public name of `ops` or of one of its modules, or None."""
    return getattr(namespace, name) if name is not None and name in namespace.__all__ else None


def _unknown(what: str, remedy: str = _REMEDY) -> ArgumentTypeError:
    return ArgumentTypeError(
        what=what, actual="a poot array", expected="NumPy arrays", where=user_location(), remedy=remedy
    )
