"""Arguments and captures that are awkward: the order of keys, hostile classes, equal names, empty cells, depth."""

from __future__ import annotations

import functools
import random
import types
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poot
from poot.api import traced as traced_module
from poot.errors import CaptureError

X = np.arange(4, dtype=np.float32)
Pair = namedtuple("Pair", "first second")


def traces_of(call: Callable[[], object]) -> int:
    before = traced_module._CACHE.misses
    call()
    return traced_module._CACHE.misses - before


# --- the order of keys ------------------------------------------------------------------------------------------------


def folded(tree: Any) -> Any:
    """A number that depends on the order in which Python iterates over a pytree."""
    if isinstance(tree, dict):
        tree = [*tree.values()]
    if isinstance(tree, (list, tuple)):
        result: Any = 1.0
        for item in tree:
            result = result * 2.0 + folded(item)
        return result
    return tree


def shuffled(tree: Any, chance: random.Random) -> Any:
    """The same pytree with the keys of its dicts in another order."""
    if isinstance(tree, dict):
        items = [(key, shuffled(item, chance)) for key, item in tree.items()]
        chance.shuffle(items)
        return type(tree)(items) if not isinstance(tree, defaultdict) else defaultdict(tree.default_factory, items)
    if isinstance(tree, Pair):
        return Pair(*(shuffled(item, chance) for item in tree))
    return type(tree)(shuffled(item, chance) for item in tree) if isinstance(tree, (list, tuple)) else tree


LEAVES = st.integers(0, 9).map(lambda n: np.float32(n) + np.zeros(2, np.float32)) | st.integers(0, 9).map(float)
KEYS = st.sampled_from("abc")
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(KEYS, inner, min_size=1)
        | st.dictionaries(KEYS, inner, min_size=1).map(lambda d: defaultdict(float, d))
        | st.dictionaries(KEYS, inner, min_size=1).map(OrderedDict)
        | st.lists(inner, min_size=1, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=6,
)


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@settings(max_examples=40, deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_a_call_sees_the_order_of_its_own_dicts(tree: Any, chance: random.Random) -> None:
    by_position = poot.trace(device="interpret")(lambda d: folded(d))
    by_keyword = poot.trace(device="interpret")(lambda **d: folded(d))
    given = {"a": tree, "b": 3.0}
    for each in (given, shuffled(given, chance), given, shuffled(given, chance)):
        np.testing.assert_allclose(np.asarray(by_position(each)), folded(each), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(by_keyword(**each)), folded(each), rtol=1e-5)


def test_layers_in_a_dict_run_in_the_order_of_the_call() -> None:
    @poot.trace
    def forward(params: dict[str, Any], x: Any) -> Any:
        for w in params.values():
            x = x @ w
        return x

    a, b = np.array([[0, 1], [0, 0]], np.float32), np.array([[1, 2], [3, 4]], np.float32)
    x = np.ones((1, 2), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(forward({"b": b, "a": a}, x), x @ b @ a)
        np.testing.assert_array_equal(forward({"a": a, "b": b}, x), x @ a @ b)
    assert "'order of the keys': ('b', 'a') became ('a', 'b')" in str(forward.explain({"a": a, "b": b}, x))


# --- names ------------------------------------------------------------------------------------------------------------

mean: Any = np.zeros(3, np.complex64)
s: Any = np.zeros(3, object)


def test_a_method_is_no_global_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @poot.trace
    def centred(x: Any) -> Any:
        return (lambda y: y - y.mean())(x)

    np.testing.assert_array_equal(centred(X), X - 1.5)
    monkeypatch.setitem(globals(), "mean", 1.0)
    assert traces_of(lambda: centred(X)) == 0
    assert "mean" not in str(centred.explain(X)).split("launches")[0]


def test_globals_of_nested_functions_and_classes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @poot.trace
    def f(x: Any) -> Any:
        class Local:
            k = nested_scale

        return sum([x * nested_scale for _ in range(2)]) * (lambda: nested_scale)() * Local.k

    np.testing.assert_array_equal(f(X), X * 16)
    monkeypatch.setitem(globals(), "nested_scale", 1.0)
    np.testing.assert_array_equal(f(X), X * 2)


nested_scale = 2.0

# --- hostile classes --------------------------------------------------------------------------------------------------


class Cfg(dict[str, Any]):
    __getattr__ = dict.__getitem__


class Lazy:
    """A proxy of something that is not there yet, with one attribute that is."""

    k = 2.0

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"working outside of a context: {name}")

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("working outside of a context")

    @property
    def __dict__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise LookupError("nothing")

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("not comparable")

    def __hash__(self) -> int:
        raise ArithmeticError("not hashable")


class Anything:
    k = 2.0

    def __getattr__(self, name: str) -> Any:
        return self


class Slotted:
    __slots__ = ("k", "unset")

    def __init__(self) -> None:
        self.k = 2.0

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class LazyModule(types.ModuleType):
    k = 2.0

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


HOSTILE: dict[str, Callable[[], Any]] = {
    "a dict by attribute": lambda: Cfg(k=2.0),
    "a proxy": Lazy,
    "every attribute": Anything,
    "slots": Slotted,
    "a module": lambda: LazyModule("lazy"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_objects_are_captured_as_any_other(kind: str) -> None:
    hostile = HOSTILE[kind]()
    listed = [hostile]

    class Model:
        def __init__(self) -> None:
            self.config = hostile

        @poot.trace
        def __call__(self, x: Any) -> Any:
            return x * self.config.k

    calls = {
        "global": poot.trace(lambda x: x * hostile.k),
        "list": poot.trace(lambda x: x * listed[0].k),
        "method": Model(),
        "asked": poot.trace(lambda x: x * hostile.k if getattr(hostile, "k", None) else x),
    }
    for name, call in calls.items():
        for _ in range(2):
            np.testing.assert_array_equal(call(X), X * 2), name
    assert isinstance(str(calls["global"].explain(X)), str)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_objects_are_static_arguments_as_any_other(kind: str) -> None:
    hostile = HOSTILE[kind]()
    f = poot.trace(static_argnames="config")(lambda x, config: x * config.k)
    for _ in range(2):
        np.testing.assert_array_equal(f(X, hostile), X * 2)
        np.testing.assert_array_equal(f(X, config=hostile), X * 2)
    with pytest.raises(CaptureError, match=r"argument 'config' of .* is no pytree of arrays"):
        poot.trace(lambda x, config: x * config.k)(X, hostile)


def test_hostile_objects_are_no_arrays() -> None:
    for make in HOSTILE.values():
        with pytest.raises(CaptureError, match=r"an? \w+ is no pytree of arrays"):
            poot.trace(lambda x, config: x)(X, [make()])


# --- methods made anew ------------------------------------------------------------------------------------------------


def test_a_bound_method_made_anew_is_the_same_static_argument() -> None:
    class Model:
        k = 2.0

        def plain(self, x: Any) -> Any:
            return x * self.k

        @poot.trace
        def traced(self, x: Any) -> Any:
            return x * self.k

    model = Model()
    f = poot.trace(static_argnames="g")(lambda x, g: g(x))
    for get in (lambda: model.plain, lambda: model.traced, lambda: functools.partial(Model.plain, model)):
        model.k = 2.0
        f(X, get())
        assert traces_of(lambda get=get: f(X, get())) == 0
        model.k = 5.0
        np.testing.assert_array_equal(f(X, get()), X * 5)


# --- cells ------------------------------------------------------------------------------------------------------------


def test_an_emptied_cell_is_pythons_own_error_with_the_name() -> None:
    gain = 2.0

    def f(x: Any) -> Any:
        return x * gain

    def empty() -> None:
        nonlocal gain
        del gain

    def fill(value: float) -> None:
        nonlocal gain
        gain = value

    traced = poot.trace(f)
    for value in (2.0, 3.0):
        fill(value)
        np.testing.assert_array_equal(traced(X), X * value)
        np.testing.assert_array_equal(traced(X), X * value)
        empty()
        with pytest.raises(NameError, match="'gain'") as caught:
            traced(X)
        assert any("was being traced by poot" in note for note in caught.value.__notes__)
        last = caught.tb
        while last.tb_next is not None:
            last = last.tb_next
        assert last.tb_frame.f_code is f.__code__ and last.tb_lineno == f.__code__.co_firstlineno + 1


# --- depth ------------------------------------------------------------------------------------------------------------


class Node:
    def __init__(self, value: float, following: Any) -> None:
        self.value, self.following = value, following


def chain(length: int) -> Node:
    node = Node(2.0, None)
    for _ in range(length - 1):
        node = Node(0.0, node)
    return node


def last(node: Any) -> Any:
    while node.following is not None:
        node = node.following
    return node


def test_captured_structures_may_be_deep() -> None:
    head = chain(3000)
    linked = poot.trace(lambda x: x * last(head).value)
    nested: Any = [2.0]
    for _ in range(3000):
        nested = [nested]

    def inner(tree: Any) -> Any:
        while isinstance(tree, list):
            tree = tree[0]
        return tree

    lists = poot.trace(lambda x: x * inner(nested))
    for _ in range(2):
        np.testing.assert_array_equal(linked(X), X * 2)
        np.testing.assert_array_equal(lists(X), X * 2)
    last(head).value = 5.0
    np.testing.assert_array_equal(linked(X), X * 5)
    while isinstance(nested[0], list):
        nested = nested[0]
    assert len(str(linked.explain(X))) < 3000 * 400


def test_captured_structures_may_contain_themselves() -> None:
    ring, table, node = [2.0], {"k": 2.0}, Node(2.0, None)
    ring.append(ring)  # type: ignore[arg-type]
    table["table"] = table  # type: ignore[assignment]
    node.following = node
    f = poot.trace(lambda x: x * ring[1][0] * table["table"]["k"] * node.following.value)  # type: ignore[index]
    np.testing.assert_array_equal(f(X), X * 8)
    ring[0] = 5.0
    np.testing.assert_array_equal(f(X), X * 20)


def test_pytrees_that_are_too_deep_say_what_to_do() -> None:
    deep: Any = X
    for _ in range(2000):
        deep = [deep]
    ring: Any = {"x": X}
    ring["again"] = ring

    def nest(x: Any) -> Any:
        for _ in range(2000):
            x = [x]
        return x

    remedy = "Remedy: put the arrays side by side"
    for tree in (deep, ring, {"x": deep}, (X, ring)):
        f = poot.trace(lambda tree: X)
        for call in (f, f.graph, f.evaluate, f.explain):
            with pytest.raises(CaptureError, match="nested too deeply, or contains itself") as caught:
                call(tree)
            assert remedy in str(caught.value) and caught.value.where is not None
    with pytest.raises(CaptureError, match=r"outputs of .*nested too deeply"):
        poot.trace(nest)(X)


def test_classes_of_a_namespace_without_a_name_are_the_users_own() -> None:
    space: dict[str, Any] = {"poot": poot}
    source = """
class Slots:
    __slots__ = ("v",)

class Doubled:
    def __get__(self, instance, owner):
        return K["a"] * 2

class Model:
    d = Doubled()

    def __getattr__(self, name):
        return K["a"] * 3

K, slots, model = {"a": 1.0}, Slots(), Model()
slots.v = 1.0

f = poot.trace(lambda x: x * 0 + slots.v)
g = poot.trace(lambda x: x * 0 + model.d + model.other)
"""
    exec(source, space)
    assert (float(space["f"](X)[0]), float(space["g"](X)[0])) == (1.0, 5.0)
    space["slots"].v = space["K"]["a"] = 4.0
    assert (float(space["f"](X)[0]), float(space["g"](X)[0])) == (4.0, 20.0)
