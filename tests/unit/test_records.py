"""Records are frozen dataclasses, but for how fast they are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from poot.dtypes import is_masked
from poot.records import record


@record
class Point:
    x: int
    y: int = 3
    note: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@record(eq=False)
class Node:
    value: float


def test_a_record_is_a_frozen_dataclass() -> None:
    point = Point(1)
    assert point == Point(1, 3, "here") and hash(point) == hash(Point(1, 3))
    assert repr(point) == "Point(x=1, y=3, note='')"
    assert dataclasses.replace(point, y=5) == Point(1, y=5)
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    assert list(inspect.signature(Point).parameters) == ["x", "y", "note"]
    assert not hasattr(point, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="negative"):
        Point(-1)
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


def test_records_may_be_compared_by_identity() -> None:
    node = Node(1.0)
    assert node != Node(1.0) and node == node


def test_what_a_record_cannot_have_is_refused() -> None:
    class Bag:
        items: list[int] = dataclasses.field(default_factory=list[int])

    Bag.__annotations__ = {"items": "list[int]"}
    with pytest.raises(TypeError, match="plain defaults or none"):
        record(Bag)


def test_masked_arrays_are_known_once_there_are_any() -> None:
    import numpy as np

    assert not is_masked(np.zeros(3)) and not is_masked(3)
    assert is_masked(np.ma.masked_array([1, 2], [True, False]))
