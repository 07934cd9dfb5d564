"""Pytrees as plain data."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import optree
import pytest

from poot.errors import ArgumentError, ArgumentTypeError
from poot.trace.graph import Tree
from poot.trace.tree import LEAF, NONE, flatten, unflatten
from tests.messages import without_line

Point = namedtuple("Point", ("x", "y"))


@optree.dataclasses.dataclass(namespace="poot")
class Layer:
    weight: Any
    bias: Any
    size: int = optree.dataclasses.field(default=3, pytree_node=False)


@dataclasses.dataclass
class Plain:
    a: int


@pytest.mark.parametrize(
    ("value", "tree", "paths"),
    [
        (1, LEAF, [""]),
        (None, NONE, []),
        ((), Tree("tuple"), []),
        ([1, (2,)], Tree("list", (LEAF, Tree("tuple", (LEAF,)))), ["0", "1.0"]),
        ({"b": 1, "a": 2}, Tree("dict", (LEAF, LEAF), ("a", "b")), ["a", "b"]),
        ({1: None, "k": 2}, Tree("dict", (NONE, LEAF), (1, "k")), ["k"]),
        (Point(1, [2]), Tree("namedtuple", (LEAF, Tree("list", (LEAF,))), ("x", "y"), "Point"), ["x", "y.0"]),
        ({"params": {"layer": [{"w": 1}]}}, None, ["params.layer.0.w"]),
    ],
)
def test_flatten_and_back(value: Any, tree: Tree | None, paths: list[str]) -> None:
    flat = flatten(value)
    if tree is not None:
        assert flat.tree == tree
    assert list(flat.paths) == paths
    assert flat.tree.leaves == len(flat.leaves)
    assert unflatten(flat.tree, flat.leaves) == value
    assert flat.rebuild(flat.leaves) == value


def test_other_containers_become_plain_ones() -> None:
    value = {
        "o": OrderedDict([("z", 1), ("a", 2)]),
        "d": defaultdict(int, {"q": 3}),
        "q": deque([4]),
        "l": Layer(5, [6]),
    }
    flat = flatten(value)
    found = unflatten(flat.tree, flat.leaves)
    assert found["o"] == {"z": 1, "a": 2}
    assert found["d"] == {"q": 3}
    assert found["q"] == [4]
    assert (type(found["l"]).__name__, found["l"].weight, found["l"].bias) == ("Layer", 5, [6])
    assert "l.weight" in flat.paths
    assert isinstance(flat.rebuild(flat.leaves)["l"], Layer)


def test_unregistered_objects_are_leaves() -> None:
    plain = Plain(1)
    assert flatten([plain]).leaves == (plain,)


def test_rebuilt_namedtuples_are_one_class() -> None:
    a, b = (unflatten(flatten(Point(1, 2)).tree, (1, 2)) for _ in range(2))
    assert type(a) is type(b)
    assert a._fields == ("x", "y")


@pytest.mark.parametrize("key", [(1, 2), 1.5, True, b"k"])
def test_refused_keys(key: Any) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        flatten({key: 1}, "outputs")
    assert without_line(caught.value) == f"outputs: dict key {key!r}: {type(key).__name__} given, expected str or int"


def test_wrong_number_of_leaves() -> None:
    with pytest.raises(ArgumentError) as caught:
        unflatten(LEAF, ())
    assert without_line(caught.value) == "number of leaves: 0 is not valid, expected 1"
