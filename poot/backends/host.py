"""Addresses of NumPy arrays, found without the cost of `array.ctypes`.

CPython's object header is followed, in every NumPy array, by the pointer to its first element: the first field of
`PyArrayObject_fields`, which compiled extensions read in the same way and NumPy therefore keeps.  Where the layout is
another (a free-threaded build, another Python), the slow way is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

_HEADER = object.__basicsize__
_pointer_at = ctypes.c_size_t.from_address


def _fast(array: np.ndarray[Any, Any]) -> int:
    return _pointer_at(id(array) + _HEADER).value


def _all_fast(arrays: Iterable[np.ndarray[Any, Any]]) -> list[int]:
    return [_pointer_at(id(array) + _HEADER).value for array in arrays]


def _slow(array: np.ndarray[Any, Any]) -> int:
    return array.ctypes.data


def _all_slow(arrays: Iterable[np.ndarray[Any, Any]]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _layout_is_known() -> bool:
    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    return all(_fast(array) == array.ctypes.data for array in (whole, whole[1:, ::2], whole[::-1], whole[2, 3:4]))


_KNOWN = _layout_is_known()

#: The address of the first element of a NumPy array, the one at index 0 on every axis.
data_address: Callable[[np.ndarray[Any, Any]], int] = _fast if _KNOWN else _slow
#: `data_address` of each of several arrays.
data_addresses: Callable[[Iterable[np.ndarray[Any, Any]]], list[int]] = _all_fast if _KNOWN else _all_slow
