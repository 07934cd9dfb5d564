"""Graphs as text: readable, stable, and parsed back to an equal graph; and as bytes."""

from __future__ import annotations

import json
import math
import struct
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from poot.dtypes import ArraySpec, DType, bf16, bool_, f16, f32, f64, i32, u8
from poot.errors import GraphError, GraphSyntaxError, SerialisationError
from poot.trace.builder import Builder
from poot.trace.graph import Equation, Graph, Literal, Params, Value, Variable
from poot.trace.limits import TraceLimits
from poot.trace.primitives import Primitive, lookup, register, unregister
from poot.trace.serial import dump_graph, load_graph
from poot.trace.text import format_graph, parse_graph
from tests.random_graphs import random_graph

Point = namedtuple("Point", ("x", "y"))

TEXT = """\
graph block {
    constant %1 w: f32[64]
    input %0 x: f32[8,64]
    state %2 "total time": f32[8]

    %3: f32[8,64] = mul %0 0.5:f32
    %4: f32[8,64] = broadcast %1 [dims=(1,), shape=(8, 64)]
    %5: f32[8,64] = mul %3 %4
    %6: f32[8] = reduce_sum %5 [axes=(1,)]
    %7: f32[8] = add %6 %2
    %8: bool[] = reduce_all true:bool [axes=()]
    %9: f32[8] = cond %8 %7
        graph when_false {
            input %0 in: f32[8]

            %1: f32[8] = neg %0

            return (%1,)
        }
        graph when_true {
            input %0 in: f32[8]

            return (%0,)
        }

    update "total time" = %7
    return {"mean": %6, "rest": (none, Point(x=%9, y=-0.0:f32), [])}
}"""


def block() -> Graph:
    b = Builder(TraceLimits.STANDARD, name="block")
    x, w = b.input("x", f32[8, 64]), b.constant("w", f32[64])
    total = b.state("total time", f32[8])
    (scaled,) = b.emit("mul", (x, Literal(0.5, f32)))
    (wide,) = b.emit("broadcast", (w,), {"shape": (8, 64), "dims": (1,)})
    (product,) = b.emit("mul", (scaled, wide))
    (row,) = b.emit("reduce_sum", (product,), {"axes": [1]})
    (new,) = b.emit("add", (row, total))
    (flag,) = b.emit("reduce_all", (Literal(True, bool_),), {"axes": ()})
    regions: list[Graph] = []
    for name in ("when_false", "when_true"):
        region = b.region(name)
        inside = region.input("in", f32[8])
        regions.append(region.finish((region.emit("neg", (inside,))[0] if name == "when_false" else inside,)))
    (chosen,) = b.emit("cond", (flag, new), regions=regions)
    return b.finish({"rest": (None, Point(chosen, Literal(-0.0, f32)), []), "mean": row}, updates={"total time": new})


def test_text_of_a_graph() -> None:
    graph = block()
    assert str(graph) == TEXT
    assert parse_graph(TEXT) == graph


def test_white_space_is_free() -> None:
    assert parse_graph(" ".join(TEXT.split())) == block()


@pytest.mark.parametrize("family", ["any", "exact", "float"])
def test_random_graphs_parse_back(family: Any, cases: Any) -> None:
    for seed in range(cases(60, 2000)):
        graph = random_graph(np.random.default_rng([seed, len(family)]), family, 25)
        text = format_graph(graph)
        parsed = parse_graph(text)
        assert parsed == graph
        assert format_graph(parsed) == text
        assert load_graph(dump_graph(graph)) == graph


def signalling(bits: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return value


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (math.nan, f32, "nan:f32"),
        (signalling(0xFFF8_0000_0000_0000), f32, "nan(0xfff8000000000000):f32"),
        (signalling(0x7FF8_0000_2000_0000), f32, "nan(0x7ff8000020000000):f32"),
        (signalling(0x7FF0_0000_0000_0001), f64, "nan(0x7ff0000000000001):f64"),
        (-0.0, bf16, "-0.0:bf16"),
        (0.0, f16, "0.0:f16"),
        (-math.inf, f16, "-inf:f16"),
        (0.1, f64, "0.1:f64"),
        (float(np.float32(0.1)), f32, "0.10000000149011612:f32"),
        (1e22, f64, "1e+22:f64"),
        (5e-324, f64, "5e-324:f64"),
        (-128, i32, "-128:i32"),
        (255, u8, "255:u8"),
        (True, bool_, "true:bool"),
    ],
)
def test_literals(value: Any, dtype: DType, text: str) -> None:
    graph = Graph((), (), (), (), (Literal(value, dtype),))
    assert str(graph).splitlines()[1] == f"    return {text}"
    (found,) = parse_graph(str(graph)).outputs
    assert found == Literal(value, dtype)
    if dtype.is_float:
        assert struct.pack("<d", found.value) == struct.pack("<d", value)


@pytest.mark.parametrize(
    "name", ["a.b", "with space", 'q"uote', "back\\slash", "new\nline", "", "ünï", "0x", "nan", "\ud800"]
)
def test_names(name: str) -> None:
    b = Builder(TraceLimits.STANDARD, name=name)
    s = b.state(name, f32[2])
    graph = b.finish({name: s, 3: [Point(s, None)], -1: s}, updates={name: s})
    assert parse_graph(str(graph)) == graph
    assert load_graph(dump_graph(graph)) == graph


def test_values_of_parameters() -> None:
    params = Params(
        a=None, b=True, c=1, d=1.0, e=-0.0, f=math.nan, g="te\"xt", h=f32, i=ArraySpec(bf16, ()), j=f16[2, 3],
        k=(), l=(1,), m=(1, (2.0, None, ("x", (bool_,)))), n=math.inf, o=-5, p=1e300,
    )  # fmt: skip
    spec = ArraySpec(f32, ())

    def type_rule(*_: Any) -> tuple[ArraySpec, ...]:
        return (spec,)

    register(Primitive("odd name", "map", "for this test", type_rule, lambda call: 0, lookup("neg").lower))
    try:
        graph = Graph((), (), (), (Equation("odd name", (), params, (Value(0, spec),)),), (Value(0, spec),))
        assert parse_graph(str(graph)) == graph
        assert '"odd name" [a=none, b=true, c=1, d=1.0, e=-0.0, f=nan' in str(graph)
    finally:
        unregister("odd name")


def test_an_equation_without_results() -> None:
    register(
        Primitive(
            "log_value", "kernel", "for this test", lambda *_: (), lambda call, x: (), lookup("neg").lower,
            effects=frozenset({"io"}),
        )
    )  # fmt: skip
    try:
        b = Builder(TraceLimits.STANDARD)
        x = b.input("x", f32[1])
        assert b.emit("log_value", (x,)) == ()
        b.emit("log_value", (x,))
        graph = b.finish(x)
        assert "() = log_value %0 !io" in str(graph)
        assert parse_graph(str(graph)) == graph
    finally:
        unregister("log_value")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph a {", "line 1: expected 'return': 'graph a {'"),
        ("graph a { return () } x", "line 1: expected the end of the text: 'graph a { return () } x'"),
        ("graph a {\n return %0 }", "line 2: %0 is used before it is defined: 'return %0 }'"),
        ("graph a {\n input %0 x: f31[2]\n return %0 }", "line 2: unknown dtype 'f31': 'input %0 x: f31[2]'"),
        (
            "graph a { input %0 x: f32[-2] return %0 }",
            "line 1: shape: (-2,) is not valid, expected non-negative integers",
        ),
        ("graph a { return {1.5: 2:i32} }", "line 1: expected a string or an int: 'graph a { return {1.5: 2:i32} }'"),
        ("graph a { ? }", "line 1: unexpected character: 'graph a { ? }'"),
        ("graph a { return 2 }", "line 1: expected ':': 'graph a { return 2 }'"),
        ('graph "a\\x" { return () }', "line 1: a string that is not JSON: 'graph \"a\\\\x\" { return () }'"),
    ],
)
def test_syntax_errors(text: str, message: str) -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse_graph(text)
    assert str(caught.value).startswith(message)


def test_parsed_graphs_are_checked() -> None:
    with pytest.raises(GraphError, match="results are stated as f32"):
        parse_graph("graph a { input %0 x: f32[2] %1: f32[3] = neg %0 return %1 }")


# --- saved graphs -----------------------------------------------------------------------------------------------------


def test_saved_graphs_name_their_primitives() -> None:
    container = json.loads(dump_graph(block()))
    assert container["version"] == 1
    assert list(container["primitives"]) == ["add", "broadcast", "cond", "mul", "neg", "reduce_all", "reduce_sum"]


def change(data: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(data) | fields).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "model.graph: it is not a saved graph"),
        (b"[]", "model.graph: it is not a saved graph"),
        *(
            (
                change(dump_graph(block()), version=version),
                (
                    f"model.graph: it has version {version!r}, and this poot reads version 1\n"
                    "  Remedy: load it with the version of poot that saved it, or save it again with this one."
                ),
            )
            for version in (2, 1.0, True, "1", None)
        ),
        (change(dump_graph(block()), note="x"), "model.graph: it has the key 'note', which this poot does not know"),
        (
            change(dump_graph(block()), primitives={}),
            "model.graph: its table of primitives names others than it uses",
        ),
        (change(dump_graph(block()), graph="graph a { return () }"), "model.graph: it is damaged"),
        (change(dump_graph(block()), primitives=None), "model.graph: it has no table of primitives"),
        (
            change(dump_graph(block()), primitives={"quantum_leap": "00"}),
            (
                "model.graph: the primitive 'quantum_leap' is not known\n"
                "  Remedy: register it before loading, or load with the version of poot that saved it."
            ),
        ),
        (
            change(dump_graph(block()), primitives={"add": "00"}),
            (
                "model.graph: the primitive 'add' means something else here\n"
                "  Remedy: load it with the version of poot that saved it, or build the graph again."
            ),
        ),
    ],
)
def test_refused_containers(data: bytes, message: str) -> None:
    with pytest.raises(SerialisationError) as caught:
        load_graph(data, "model.graph")
    summary, _, remedy = message.partition("\n  Remedy: ")
    assert caught.value.summary == summary and caught.value.remedy.startswith(remedy or "save it again")
    assert caught.value.where is not None


def test_a_primitive_that_is_gone_is_refused() -> None:
    entry = lookup("neg")
    register(Primitive("vanishing", "map", "for this test", entry.type_rule, entry.oracle, entry.lower))
    try:
        b = Builder(TraceLimits.STANDARD)
        (y,) = b.emit("vanishing", (b.input("x", f32[1]),))
        saved = dump_graph(b.finish(y))
        assert load_graph(saved).equations[0].primitive == "vanishing"
    finally:
        unregister("vanishing")
    with pytest.raises(SerialisationError, match="the primitive 'vanishing' is not known"):
        load_graph(saved)


def test_variables_keep_their_order() -> None:
    values = [Value(number, f32[1]) for number in range(3)]
    inputs = tuple(Variable(f"x{value.id}", value) for value in reversed(values))
    graph = Graph((), inputs, (), (), (values[0],))
    assert parse_graph(str(graph)).inputs == inputs
