"""Rounding float64 once to a float dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.dtypes import DType, bf16

Array = np.ndarray[Any, Any]


def round_once(x: Array, dtype: DType) -> Array:
    """float64 values rounded to nearest even in `dtype`; past its range they become infinite.

    ml_dtypes converts float64 to bf16 through float32, which rounds twice.  Rounding to odd in float32 first keeps what
    the second rounding has to know (Boldo and Melquiond, "When double rounding is odd", 2005).
    """
    if dtype is not bf16:
        return x.astype(dtype.dtype)
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != x) & ~np.isnan(x)
    bits = near.view(np.int32) - ((np.abs(back) > np.abs(x)) & inexact)
    odd = np.where(inexact, bits | 1, bits).astype(np.int32)
    return np.asarray(odd.view(np.float32)).astype(dtype.dtype)
