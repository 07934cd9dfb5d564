"""`constants=` and `states=` of `Traced.graph` and `Traced.program`."""

from __future__ import annotations

from typing import Any

import pytest

import poot
from poot import f32, i32
from poot.errors import ArgumentError, CaptureError, DTypeError, ShapeError

TRACE: Any = poot.trace


def test_one_name_is_a_name() -> None:
    f = TRACE(lambda weights, x: x * weights["w"])
    for constants in ("weights", ["weights"], ("weights",)):
        graph = f.graph({"w": f32[3]}, f32[3], constants=constants)
        assert [variable.name for variable in graph.constants] == ["weights.w"]
        assert f.program({"w": f32[3]}, f32[3], constants=constants, device="interpret").graph == graph
    with pytest.raises(ArgumentError, match=r"constants or states of .*'other' is not valid, expected one of weights"):
        f.graph({"w": f32[3]}, f32[3], constants="other")


def test_a_wrong_place_of_a_state_names_states() -> None:
    def step(cache: Any, n: Any) -> Any:
        return cache["k"] * 2, cache, {"k": n, "v": cache["k"]}, {"k": cache["k"][:1]}, {"other": n}

    def place(at: int) -> Any:
        return TRACE(step).graph({"k": f32[3], "v": f32[3]}, i32[3], states={"cache": at})

    assert [name for name, _ in place(1).updates] == ["cache.k", "cache.v"]
    remedy = r"(.|\n)*give the place where the outputs have the next value of the argument"
    with pytest.raises(
        CaptureError,
        match=r"states\['cache'\]: output '0': it has the leaf 'cache', and the argument "
        r"cache\.k, cache\.v" + remedy,
    ):
        place(0)
    with pytest.raises(CaptureError, match=r"output '4': it has the leaf 'cache\.other'"):
        place(4)
    with pytest.raises(
        DTypeError, match=r"states\['cache'\]: output '2' for cache\.k: dtype i32, expected f32" + remedy
    ):
        place(2)
    with pytest.raises(ShapeError, match=r"states\['cache'\]: output '3' for cache\.k: shape \(1,\), expected \(3,\)"):
        place(3)
