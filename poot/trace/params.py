"""Parameters of equations as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from poot.dtypes import ArraySpec, DType
from poot.errors import ArgumentTypeError
from poot.trace.graph import Params, ParamValue


def plain_params(primitive: str, params: Mapping[str, Any]) -> Params:
    """Params with lists made tuples and NumPy scalars Python numbers; ArgumentTypeError for what is not plain data."""
    if isinstance(params, Params):
        return params
    return Params({name: _plain(value, f"{primitive}: {name}") for name, value in params.items()})


def _plain(value: Any, what: str) -> ParamValue:
    if value is None or isinstance(value, (DType, ArraySpec)) or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_plain(item, what) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return cast("Any", value).item()
    raise ArgumentTypeError(what=what, actual=type(value).__name__, expected="plain data: numbers, str, dtypes, tuples")


def params_bytes(params: Params) -> int:
    """Host bytes that parameters count for: 8 a number, dtype or None, 8 an extent, strings by their length."""
    return sum([len(name) + _bytes(value) for name, value in params.items()])


def _bytes(value: ParamValue) -> int:
    if isinstance(value, int):
        return 8
    if isinstance(value, tuple):
        return 8 + sum(map(_bytes, value))
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, ArraySpec):
        return 8 + 8 * len(value.shape)
    return 8
