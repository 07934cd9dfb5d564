"""Results are values of their own, also where there is nothing to compute.

Arrays do not change, but a kernel writes into those that it is given.  What was made of one before must not follow, so
a function that would give its operand back gives a copy of it outside traces.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

from poot.trace.array import Array
from poot.trace.dispatch import is_traced

P = ParamSpec("P")
R = TypeVar("R")

#: The functions of `ops` that may have nothing to compute.
MAY_GIVE_BACK = (
    *("all", "amax", "amin", "any", "around", "astype", "broadcast_arrays", "broadcast_to", "ceil", "clip", "concat"),
    *("concatenate", "diff", "expand_dims", "flip", "floor", "full", "full_like", "max", "meshgrid", "min", "moveaxis"),
    *("nan_to_num", "pad", "permute_dims", "positive", "pow", "power", "prod", "reshape", "rint", "roll", "round"),
    *("split", "squeeze", "sum", "swapaxes", "tile", "transpose", "trunc"),
    *("atleast_1d", "atleast_2d", "average", "column_stack", "fliplr", "flipud", "hstack", "nanmean", "nansum"),
    *("ravel", "vstack"),
)


def of_its_own(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose results are no arrays that it was given, unless `copy=False` allows that."""

    @functools.wraps(function)
    def apply(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        if kwargs.get("copy") is False:
            return result
        if isinstance(result, Array):
            return cast("R", _apart(result, (*args, *kwargs.values())))
        if isinstance(result, (tuple, list)):
            found = [_apart(item, (*args, *kwargs.values())) for item in cast("Iterable[Any]", result)]
            return cast("R", tuple(found) if isinstance(result, tuple) else found)
        return result

    return apply


def _apart(result: Any, given: tuple[object, ...]) -> Any:
    if not isinstance(result, Array) or is_traced(result):
        return result
    for item in given:
        held = cast("Iterable[object]", item) if isinstance(item, (tuple, list)) else (item,)
        if any(each is result for each in held):
            return copy.copy(result)
    return result
