"""Out-of-bounds accesses and failed assertions: the record, the neighbours, and the launch that comes after."""

from __future__ import annotations

import numpy as np
import pytest

import poot
from poot.backends.device import DeviceBackend
from poot.dtypes import f32, i32
from poot.errors import IndexFault, KernelFault
from poot.kernel.build import KernelBuilder
from poot.kernel.faults import fault_error
from tests.cuda.support import agree, on_device


def test_stores_outside(cuda: DeviceBackend) -> None:
    k = KernelBuilder("outside", workgroup=(64, 1, 1), threads=(100, 1, 1))
    x, i = k.buffer("x", i32, "readwrite", (None,)), k.index("thread", 0)
    k.store(x, (k.op("sub", i, k.i(3)),), k.cast(i, i32), checked=True)
    values = {"x": np.full(50, -1, np.int32)}
    outcome = on_device(cuda, k.finish(), values, (2, 1, 1))
    claimed, launch, site, axis, *rest = outcome.fault.tolist()
    index, extent = np.array(rest, np.int32).view(np.int64).tolist()
    assert (claimed, launch, site, axis, extent) == (1, 7, 0, 0, 50)
    assert index in {-3, -2, -1, *range(50, 97)}
    assert outcome.values["x"].tolist() == list(range(3, 53))
    error = fault_error(outcome.compiled.kernel, outcome.fault)
    assert isinstance(error, KernelFault) and "extent 50" in str(error)


def test_loads_outside_give_zero(cuda: DeviceBackend) -> None:
    k = KernelBuilder("loads", workgroup=(32, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", f32, "read", (5, 7)), k.buffer("y", f32, "write", (64,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.load(x, (k.op("sub", i, k.i(2)), k.op("rem", i, k.i(9))), checked=True))
    values = {"x": np.arange(1, 36, dtype=np.float32).reshape(5, 7), "y": np.ones(64, np.float32)}
    outcome = agree(cuda, k.finish(), values, (2, 1, 1))
    axis, index, extent = outcome.fault[3], outcome.fault[4:6].view(np.int64)[0], outcome.fault[6:8].view(np.int64)[0]
    assert (axis == 0 and extent == 5 and not 0 <= index < 5) or (axis == 1 and extent == 7 and index in (7, 8))


def test_uniform_indices_and_atomics_outside(cuda: DeviceBackend) -> None:
    k = KernelBuilder("uniform", workgroup=(32, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", i32, "readwrite", (8,)), k.buffer("y", i32, "write", (64,))
    n, i = k.scalar("n", i32), k.index("thread", 0)
    k.store(y, (i,), k.load(x, (n,), checked=True))
    old = k.atomic("add", x, (k.op("add", n, k.op("rem", i, k.i(2))),), k.const(1, i32), checked=True)
    with k.if_(k.op("eq", i, k.i(64))):
        k.store(y, (k.i(0),), old)
    for number in (3, 7, 8, -1):
        agree(
            cuda, k.finish(), {"x": np.arange(8, dtype=np.int32), "y": np.zeros(64, np.int32), "n": number}, (2, 1, 1)
        )


def test_assertions(cuda: DeviceBackend) -> None:
    k = KernelBuilder("claims", workgroup=(32, 1, 1), threads=(64, 1, 1))
    x, i = k.buffer("x", i32, "write", (64,)), k.index("thread", 0)
    k.assertion(k.op("lt", i, k.scalar("limit", i32)), "i is small")
    k.store(x, (i,), k.cast(i, i32))
    for limit in (64, 40):
        outcome = agree(cuda, k.finish(), {"x": np.zeros(64, np.int32), "limit": limit}, (2, 1, 1))
        assert outcome.fault[0] == (limit < 64)


def test_faults_of_graphs(cuda: DeviceBackend) -> None:
    device = poot.device("cuda", language=cuda.target.languages[0])

    @poot.trace(device=device)
    def pick(table: poot.Array, index: poot.Array) -> poot.Array:
        return table[index]

    table = np.arange(10, dtype=np.float32)
    assert np.array_equal(np.asarray(pick(table, np.array([1, 9], np.int32))), [1, 9])
    bad = pick(table, np.array([1, 10], np.int32))
    with pytest.raises(IndexFault, match="index 10"):
        np.asarray(bad)
    assert np.array_equal(np.asarray(pick(table, np.array([0, 2], np.int32))), [0, 2])
