"""Indices out of range: the error names the index that was given, of every integer dtype, its axis, extent and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import IndexFault, ScatterFault

Read = Callable[[Any, Any], Any]

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

READS: Mapping[str, Read] = {
    "index": lambda x, i: x[:, i],
    "take": lambda x, i: ops.take(x, i, axis=1),
    "take_along_axis": lambda x, i: ops.take_along_axis(x, ops.expand_dims(i, axis=0), axis=1),
    "get": lambda x, i: x.at[:, i].get(),
}
WRITES: Mapping[str, Read] = {
    "set": lambda x, i: x.at[:, i].set(1.0),
    "add": lambda x, i: ops.exp(x).at[:, i].add(1.0),
    "max": lambda x, i: x.at[:, i].max(1.0),
}
EXTENT = 10
INDICES = [
    *(np.array([1, value], dtype) for dtype in (np.int8, np.int32, np.int64) for value in (EXTENT, -EXTENT - 1)),
    *(np.array([1, 200], dtype) for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)),
    np.array([1, 2**31 + 5], np.uint32),
    *(np.array([1, value], np.int64) for value in (2**31, 2**32, 2**63 - 1, -(2**31) - 1, -(2**32), -(2**63))),
    *(np.array([1, value], np.uint64) for value in (2**32, 2**63 + 5, 2**64 - 1)),
]


def fails(function: Read, indices: np.ndarray, device: str) -> IndexFault:
    x = np.arange(2.0 * EXTENT, dtype=np.float32).reshape(2, EXTENT)
    with pytest.raises(IndexFault) as caught:
        np.asarray(poot.trace(device=device)(function)(x, indices))
    return caught.value


def check(function: Read, indices: np.ndarray, device: str) -> None:
    error = fails(function, indices, device)
    assert f"index {indices[1]} is out of range for axis 1 of extent {EXTENT}" in str(error), indices.dtype
    assert error.where is not None and error.where.file == __file__


@pytest.mark.parametrize("name", READS)
def test_a_read_names_its_index(name: str, device_name: str) -> None:
    for indices in INDICES if name == "take" else INDICES[-9::4]:
        check(READS[name], indices, device_name)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_names_its_index(name: str, device_name: str) -> None:
    for indices in INDICES if name == "set" else INDICES[-9::4]:
        check(WRITES[name], indices, device_name)


def test_the_remedies_are_modes_that_the_operation_takes(device_name: str) -> None:
    x, i = np.arange(4.0, dtype=np.float32), np.array([0, 19])
    read = fails(READS["take"], i, device_name)
    write = fails(WRITES["set"], i, device_name)
    assert isinstance(write, ScatterFault) and not isinstance(read, ScatterFault)
    assert '"drop"' not in str(read) and '"fill"' not in str(write)
    for mode in ("clip", "wrap", "fill"):
        assert f'"{mode}"' in str(read)
        ops.take(x, i, mode=mode)
        ops.take_along_axis(x, i, mode=mode)
        poot.asarray(x).at[i].get(mode=mode)
    for mode in ("clip", "wrap", "drop"):
        assert f'"{mode}"' in str(write)
        poot.asarray(x).at[i].set(1.0, mode=mode)
