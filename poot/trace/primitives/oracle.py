"""One equation by its oracle rule, on NumPy arrays.

Integers and bools are computed in their own dtype; a float equation is computed in float64 and rounded once to its
output dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from poot.dtypes import DType, as_dtype
from poot.errors import ArgumentError, PootError
from poot.trace.graph import Equation, Graph, Literal
from poot.trace.primitives.base import OracleCall, lookup
from poot.trace.rounding import round_once

Array: TypeAlias = "np.ndarray[Any, Any]"


def apply_rule(
    equation: Equation, operands: Sequence[Array], run: Callable[[Graph, Sequence[Array]], tuple[Array, ...]]
) -> tuple[Array, ...]:
    """The results of an equation on operands in their own dtypes, read-only; `run` evaluates its regions."""
    entry = lookup(equation.primitive)
    call = OracleCall(
        equation.params,
        tuple(atom.spec for atom in equation.inputs),
        tuple(value.spec for value in equation.outputs),
        equation.regions,
        run,
    )
    with np.errstate(all="ignore"):
        wide = operands if entry.stored else [_widen(operand) for operand in operands]
        try:
            found = entry.oracle(call, *wide)
        except PootError as error:
            raise error.at(equation.where) from error.__cause__
        results = found if isinstance(found, tuple) else (found,)
        if len(results) != len(equation.outputs):
            expected = f"{len(equation.outputs)} arrays"
            raise ArgumentError(what=f"oracle rule of {entry.name}", actual=len(results), expected=expected)
        return tuple(
            _result(entry.name, result, spec.dtype, spec.shape)
            for result, spec in zip(results, call.outputs, strict=True)
        )


def literal_array(literal: Literal) -> Array:
    """The 0-d array of a literal."""
    wide = np.array(literal.value, np.float64 if literal.dtype.is_float else literal.dtype.dtype)
    return read_only(narrow(wide, literal.dtype))


def narrow(array: Array, dtype: DType) -> Array:
    """A float64 result rounded to the dtype of an equation; everything else as it is."""
    return round_once(array, dtype) if dtype.is_float and array.dtype == np.float64 else array


def read_only(array: Array) -> Array:
    """The same elements, which cannot be written through the result."""
    view = array.view()
    view.flags.writeable = False
    return view


def _widen(array: Array) -> Array:
    return array.astype(np.float64) if as_dtype(array.dtype).is_float else array


def _result(name: str, result: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    array = narrow(np.asarray(result), dtype)
    if array.dtype != dtype.dtype or array.shape != shape:
        actual, expected = f"{array.dtype}{list(array.shape)}", f"{dtype}{list(shape)}"
        raise ArgumentError(what=f"oracle rule of {name}", actual=actual, expected=expected)
    return read_only(array)
