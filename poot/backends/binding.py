"""Checking a host array against the spec that it is bound to."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.dtypes import ArraySpec, as_dtype, check_plain
from poot.errors import DTypeError, ShapeError


def check_array(what: str, value: Any, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """`value` as a C-contiguous NumPy array of exactly the spec's dtype and shape.

    UnsupportedDTypeError, DTypeError or ShapeError name `what`; nothing is narrowed, widened or broadcast.
    """
    check_plain(value, what)
    array = np.asarray(value)
    dtype = as_dtype(array.dtype, what)
    if dtype is not spec.dtype:
        raise DTypeError(
            what=what, actual=dtype, expected=spec.dtype, remedy="cast it first; nothing is cast silently."
        )
    if array.shape != spec.shape:
        raise ShapeError(what=what, actual=array.shape, expected=spec.shape)
    if not (array.dtype.isnative and array.flags.aligned):
        array = array.astype(spec.dtype.dtype)
    return np.ascontiguousarray(array).reshape(spec.shape)
