"""Indices of every integer dtype, on axes longer than the dtype counts: what NumPy says, on every device.

Axes of 2^31 elements and more are only planned here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import INTEGERS, DType
from poot.errors import ArgumentError, ShapeError, Unsupported
from poot.plan.compile import compile as plan
from poot.target import Target

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

Function = Callable[..., Any]
RNG = np.random.default_rng(5)


def indices(dtype: DType, extent: int) -> np.ndarray:
    """Positions of an axis, from its end too, those at the ends of the dtype's range among them."""
    low, high = max(int(dtype.min), -extent), min(int(dtype.max), extent - 1)
    picked = RNG.integers(low, high, 4, endpoint=True)
    return np.array([low, high, 0, *picked, *(() if low == 0 else (-1, -2))], dtype.dtype)


def replaced(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[i] = 7
    return x


def shifted(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    x = x.copy()
    np.add.at(x, i, 1)
    return x


def start(x: np.ndarray, i: np.ndarray) -> int:
    return min(max(int(i), 0), len(x) - 3)


def window(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[start(x, i) : start(x, i) + 3] = 7
    return x


FUNCTIONS: Mapping[str, tuple[Function, Function]] = {
    "index": (lambda x, i: x[i], lambda x, i: x[i]),
    "rows": (lambda x, i: ops.reshape(x, (-1, 2))[i // 2], lambda x, i: x.reshape(-1, 2)[i // 2]),
    "take": (ops.take, lambda x, i: x[i]),
    "wrap": (lambda x, i: ops.take(x, i, mode="wrap"), lambda x, i: x[i]),
    "clip": (lambda x, i: ops.take(x, i, mode="clip"), lambda x, i: x[np.maximum(i, 0)]),
    "fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=3), lambda x, i: x[i]),
    "take_along_axis": (lambda x, i: ops.take_along_axis(x, i), lambda x, i: np.take_along_axis(x, i, -1)),
    "set": (lambda x, i: x.at[i].set(7), replaced),
    "add": (lambda x, i: x.at[i].add(1), shifted),
    "drop": (lambda x, i: x.at[i].set(7, mode="drop"), replaced),
}
STARTS: Mapping[str, tuple[Function, Function]] = {
    "dynamic_slice": (lambda x, i: ops.dynamic_slice(x, (i,), (3,)), lambda x, i: x[start(x, i) : start(x, i) + 3]),
    "dynamic_update_slice": (lambda x, i: ops.dynamic_update_slice(x, ops.full((3,), 7, dtype=x.dtype), (i,)), window),
}


def check(name: str, x: np.ndarray, i: np.ndarray, device: str) -> None:
    function, expected = {**FUNCTIONS, **STARTS}[name]
    wanted = expected(x, i)
    np.testing.assert_array_equal(np.asarray(poot.trace(device=device)(function)(x, i)), wanted, err_msg=str(i.dtype))
    with poot.device(device if name in ("index", "set") else "interpret"):
        np.testing.assert_array_equal(np.asarray(function(poot.asarray(x), poot.asarray(i))), wanted)


@pytest.mark.parametrize("name", [*FUNCTIONS, *STARTS])
def test_an_axis_longer_than_bytes_count(name: str, device_name: str) -> None:
    x = np.arange(300, dtype=np.int32)
    held = poot.device(device_name).target.dtypes
    for dtype in INTEGERS if name in ("index", "set", "dynamic_slice") else (poot.i8, poot.u8, poot.i64):
        if dtype in held:
            found = indices(dtype, len(x))
            for i in found[:2] if name in STARTS else [found]:
                check(name, x, np.asarray(i), device_name)


@pytest.mark.parametrize("name", ["index", "take_along_axis", "set"])
def test_an_axis_longer_than_16_bits_count(name: str, device_name: str) -> None:
    x = np.arange(70_000, dtype=np.int32)
    for dtype in (poot.i16, poot.u16):
        check(name, x, indices(dtype, len(x)), device_name)


# --- axes that an i32 does not count ----------------------------------------------------------------------------------

LONG = [2**31 - 1, 2**31, 2**31 + 1, 2**32 + 7]
WIDENED: Mapping[str, Function] = {
    **{name: function for name, (function, _) in FUNCTIONS.items() if name != "rows"},
    "position": lambda x, i: x[-1] + x[len(x) - 1],
    "list": lambda x, i: x[[0, -1]],
    "update": lambda x, i: x.at[-2:].set(1),
    "choice": lambda x, i: ops.random.choice(ops.random.key(0), len(x), (2,)),
    "fraction": lambda x, i: ops.linspace(0, 1, len(x)),
    "triangle": lambda x, i: ops.tril(ops.reshape(x, (-1, 1))),
    "corner": lambda x, i: ops.eye(len(x), 2),
    "class": lambda x, i: ops.nn.one_hot(i, len(x), dtype=poot.u8),
}


@pytest.mark.parametrize("extent", LONG)
@pytest.mark.parametrize("name", [*WIDENED, *STARTS])
def test_long_axes_are_planned(name: str, extent: int) -> None:
    function = poot.trace(WIDENED[name] if name in WIDENED else STARTS[name][0])
    for dtype in (poot.i8, poot.i32, poot.u32, poot.i64):
        index = dtype[()] if name in STARTS else dtype[2]
        program = function.program(poot.u8[extent], index, device="cpu")
        assert len(program.outputs) == 1


def test_an_axis_is_resolved_in_the_narrowest_dtype_that_counts_it() -> None:
    def widths(extent: int, dtype: DType) -> set[DType]:
        graph = poot.trace(lambda x, i: x[i]).graph(poot.u8[extent], dtype[2])
        (gather,) = (equation for equation in graph.equations if equation.primitive == "gather")
        return {atom.dtype for atom in gather.inputs}

    assert widths(2**31 - 1, poot.i8) == widths(2**31 - 1, poot.i32) == {poot.u8, poot.i32}
    assert widths(2**31, poot.i8) == widths(2**31, poot.i32) == {poot.u8, poot.i64}
    assert widths(2**31, poot.u32) == {poot.u8, poot.u32}


def test_positions_that_an_i32_cannot_tell_apart_are_refused() -> None:
    spec = poot.u8[2**31 + 1]
    refused: list[Function] = [ops.argmax, ops.argmin, ops.argsort, ops.count_nonzero]
    refused += [lambda x: ops.top_k(x, 2), lambda x: ops.searchsorted(x, x[:2])]
    for function in refused:
        with pytest.raises(ShapeError, match="shape"):
            poot.trace(function).graph(spec)
    with pytest.raises(ArgumentError, match="scan: length: 2147483649"):
        poot.trace(lambda x: ops.scan(lambda c, y: (c + y, None), poot.u8(0), x)[0]).graph(spec)
    assert poot.trace(ops.argmax).graph(poot.u8[2**31]).outputs[0].dtype is poot.i32


def test_a_target_without_i64_refuses_them() -> None:
    graph = poot.trace(lambda x, i: x[i]).graph(poot.u8[2**31], poot.i32[2])
    with pytest.raises(Unsupported, match="i64"):
        plan(graph, Target.parse("wgpu"))
