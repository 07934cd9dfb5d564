"""No result follows what a kernel writes into an array later, also where there was nothing to compute."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import poot
from poot import InOut, f32, kernel, ops, thread_index


@kernel
def bump(x: InOut[f32]):
    i = thread_index()
    if i < len(x):
        x[i] = x[i] + 100.0


RESULTS: Mapping[str, Callable[[Any], Any]] = {
    "p[:]": lambda p: p[:],
    "p[...]": lambda p: p[...],
    "p[0:8]": lambda p: p[0:8],
    "p[1:]": lambda p: p[1:],
    "p[2]": lambda p: p[2],
    "get": lambda p: p.at[:].get(),
    "set": lambda p: ops.zeros_like(p).at[:].set(p),
    "+p": lambda p: +p,
    "p + 0": lambda p: p + 0,
    "T": lambda p: p.T,
    "ravel": lambda p: p.ravel(),
    "flatten": lambda p: p.flatten(),
    "reshape": lambda p: p.reshape(2, 4),
    "no reshape": lambda p: p.reshape(8),
    "astype": lambda p: p.astype(f32),
    "broadcast_to": lambda p: ops.broadcast_to(p, (8,)),
    "broadcast_arrays": lambda p: ops.broadcast_arrays(p, p)[1],
    "concat": lambda p: ops.concat([p]),
    "squeeze": lambda p: ops.squeeze(p, axis=()),
    "roll": lambda p: ops.roll(p, 0),
    "flip": lambda p: ops.flip(p, axis=()),
    "sum": lambda p: ops.sum(p, axis=()),
    "clip": lambda p: ops.clip(p),
    "pad": lambda p: ops.pad(p, 0),
    "full": lambda p: ops.full((8,), p),
    "where": lambda p: ops.where(True, p, p),
    "matrix_power": lambda p: ops.linalg.matrix_power(p[:1].reshape(1, 1), 1),
    "traced": lambda p: poot.trace(lambda x: x)(p),
    "traced [:]": lambda p: poot.trace(lambda x: x[:])(p),
    "copy": copy.copy,
    "asarray, copied": lambda p: poot.asarray(p, copy=True),
}
THE_ARRAY: Mapping[str, Callable[[Any], Any]] = {
    "asarray": poot.asarray,
    "ops.asarray": ops.asarray,
    "astype without a copy": lambda p: ops.astype(p, f32, copy=False),
    "to_device": lambda p: p.to_device(p.device),
    "NumPy": np.asarray,
    "DLPack": np.from_dlpack,
}


def follows(make: Callable[[Any], Any]) -> bool:
    p = poot.asarray(np.arange(8, dtype=np.float32), device="cpu")
    made = make(p)
    before = np.array(made)
    bump(p, threads=8)
    assert np.asarray(p).tolist() == [100.0 + i for i in range(8)]
    return not np.array_equal(before, np.asarray(made))


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_does_not_follow(name: str) -> None:
    assert not follows(RESULTS[name])


@pytest.mark.parametrize("name", THE_ARRAY)
def test_what_is_the_array_itself_does(name: str) -> None:
    assert follows(THE_ARRAY[name])


@pytest.mark.filterwarnings("ignore")
def test_no_function_gives_its_operand_back() -> None:
    """Of every function of `ops`, called with what may leave nothing to compute."""
    arrays = [poot.asarray(np.ones(shape, dtype)) for dtype in ("f4", "i4", "?") for shape in ((), (1,), (2, 2))]
    options: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": ()}, {"n": 0}, {"shift": 0}, {"k": 9}]
    for name in sorted(set(ops.__all__) - {"asarray", "from_dlpack"}):
        function = getattr(ops, name)
        for p in arrays if callable(function) and not isinstance(function, type) else ():
            calls = [((p,), each) for each in options]
            calls += [((p, each), {}) for each in (p.shape, tuple(range(p.ndim)), 0, 1, p.dtype)]
            for args, keywords in [*calls, (([p],), {}), ((p, None, None), {})]:
                try:
                    result = function(*args, **keywords)
                except Exception:  # most of these calls make no sense
                    continue
                found = result if isinstance(result, (tuple, list)) else (result,)
                assert all(each is not p for each in found), (name, args, keywords)


def test_inside_a_trace_nothing_is_copied() -> None:
    text = str(poot.trace(lambda x: x[:].reshape(8).T).graph(f32[8]))
    assert text.count("=") <= 1, text
