"""The check that every graph passes: each rule broken once, with the message that it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from poot.dtypes import f32, i32
from poot.errors import GraphError, SourceLocation
from poot.trace.builder import Builder
from poot.trace.check import check_graph
from poot.trace.graph import Equation, Graph, Literal, Params, Tree, Value, Variable
from poot.trace.limits import TraceLimits

WHERE = SourceLocation("model.py", 12)


def good() -> Graph:
    b = Builder(TraceLimits.STANDARD, name="good")
    x, s = b.input("x", f32[4]), b.state("s", f32[4])
    (y,) = b.emit("add", (x, s), where=WHERE)
    (z,) = b.emit("reduce_sum", (y,), {"axes": (0,)}, where=WHERE)
    return b.finish((y, z), updates={"s": y})


def with_equation(graph: Graph, index: int, **changes: object) -> Graph:
    equations = list(graph.equations)
    equations[index] = replace(equations[index], **changes)  # type: ignore[arg-type]
    return replace(graph, equations=tuple(equations))


def region(**changes: object) -> Graph:
    b = Builder(TraceLimits.STANDARD, name="outer")
    flag, x = b.input("flag", good().inputs[0].spec.dtype[()]), b.input("x", f32[4])
    graph = b.finish((flag, x))
    body = replace(Graph((), (Variable("in", Value(0, f32[4])),), (), (), (Value(0, f32[4]),)), **changes)  # type: ignore[arg-type]
    equation = Equation("cond", (graph.inputs[0].value, x.value), Params(), (Value(2, f32[4]),), (body, body))
    return replace(graph, equations=(equation,))


CASES: list[tuple[str, Callable[[], Graph], str]] = [
    (
        "used before defined",
        lambda: replace(good(), equations=good().equations[::-1]),
        "equation 0 (%3 = reduce_sum): %2 is used before it is defined\n  at model.py:12",
    ),
    (
        "defined twice",
        lambda: with_equation(good(), 1, outputs=(Value(2, f32[()]),)),
        "equation 1 (%2 = reduce_sum): %2 is defined twice\n  at model.py:12",
    ),
    (
        "another spec",
        lambda: with_equation(good(), 1, inputs=(Value(2, f32[5]),)),
        "equation 1 (%3 = reduce_sum): %2 is f32[4], used as f32[5]\n  at model.py:12",
    ),
    (
        "wrong result",
        lambda: with_equation(good(), 1, outputs=(Value(3, f32[1]),)),
        (
            "equation 1 (%3 = reduce_sum): the results are stated as f32[1], but the type rule gives f32[]"
            "\n  at model.py:12"
        ),
    ),
    (
        "missing result",
        lambda: with_equation(good(), 1, outputs=()),
        (
            "equation 1 (() = reduce_sum): the results are stated as nothing, but the type rule gives f32[]\n"
            "  at model.py:12"
        ),
    ),
    (
        "type rule",
        lambda: with_equation(good(), 1, params=Params(axes=(1,))),
        (
            "equation 1 (%3 = reduce_sum): reduce_sum: axes: (1,) is not valid, expected distinct ascending axes "
            "below 1\n  at model.py:12"
        ),
    ),
    (
        "effects",
        lambda: with_equation(good(), 0, effects=frozenset({"io", "fault"})),
        "equation 0 (%2 = add): the effects are stated as {fault, io}, but are {}\n  at model.py:12",
    ),
    ("sparse ids", lambda: sparse(), "values: ids are not dense: %1 is not defined"),
    (
        "negative id",
        lambda: Graph((), (Variable("x", Value(-1, f32[1])),), (), (), ()),
        "variable 'x': %-1 is not a valid id",
    ),
    (
        "doubled name",
        lambda: Graph((Variable("x", Value(0, f32[1])),), (Variable("x", Value(1, f32[1])),), (), (), ()),
        "variable 'x': the name is used twice",
    ),
    (
        "literal past its dtype",
        lambda: with_equation(good(), 0, inputs=(Literal(0.1, f32), Literal(1.0, f32))),
        "equation 0 (%2 = add): the literal 0.1 is not a value of f32\n  at model.py:12",
    ),
    (
        "literal out of range",
        lambda: replace(good(), outputs=(Literal(1 << 31, i32), good().outputs[1])),
        "output 0: 2147483648 does not fit i32",
    ),
    (
        "leaves",
        lambda: replace(good(), tree=Tree()),
        "outputs: 2 values for a tree of 1 leaves",
    ),
    (
        "tree",
        lambda: replace(good(), tree=Tree("dict", (Tree(), Tree()), ("a", "a"))),
        "outputs: a malformed dict in the output tree",
    ),
    ("node", lambda: replace(good(), tree=Tree("set", (Tree(), Tree()))), "outputs: unknown tree node 'set'"),
    (
        "unknown state",
        lambda: replace(good(), updates=(("t", good().outputs[0]),)),
        "update of state 't': there is no such state",
    ),
    (
        "two updates",
        lambda: replace(good(), updates=good().updates * 2),
        "update of state 's': the state is updated twice",
    ),
    (
        "update of another spec",
        lambda: replace(good(), updates=(("s", good().outputs[1]),)),
        "update of state 's': the state is f32[4], its update f32[]",
    ),
    (
        "open region",
        lambda: region(outputs=(Value(1, f32[4]),)),
        "equation 0 (%2 = cond), region 0 (graph): output 0: %1 is used before it is defined",
    ),
    (
        "region with a constant",
        lambda: region(constants=(Variable("c", Value(1, f32[4])),)),
        "equation 0 (%2 = cond): region 0 has constants, states or updates; a region has inputs only",
    ),
]


def sparse() -> Graph:
    graph = good()
    return replace(
        graph, states=(Variable("s", Value(9, f32[4])),), equations=(), outputs=(), tree=Tree("tuple"), updates=()
    )


def test_a_good_graph() -> None:
    check_graph(good())


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_broken_graphs(make: Callable[[], Graph], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_graph(make())
    summary, line, _ = message.partition("\n  at model.py:12")
    assert caught.value.summary == summary
    assert caught.value.where is not None and caught.value.where.file == ("model.py" if line else __file__)


def test_an_unknown_primitive() -> None:
    with pytest.raises(GraphError, match=r"^equation 0 \(%2 = ad\): primitive: 'ad' is not valid, expected one of"):
        check_graph(with_equation(good(), 0, primitive="ad"))
