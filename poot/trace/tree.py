"""Pytrees: flattening to leaves with dotted paths, and the structure as plain data.

optree does the flattening: None is a node, dict keys are sorted, namedtuples and registered classes (in optree's global
namespace or in "poot") are entered.  `Tree` keeps what can be written down: a class other than a namedtuple's becomes a
namedtuple of its fields, an OrderedDict or defaultdict a dict, a deque a list.  To get the caller's own classes back,
keep `Flat.spec` and unflatten with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import optree

from poot.errors import ArgumentTypeError, CaptureError
from poot.trace.array import Array
from poot.trace.graph import Tree
from poot.trace.source import user_location

NAMESPACE = "poot"

LEAF = Tree()
NONE = Tree("none")


@dataclass(frozen=True, slots=True)
class Flat:
    """A flattened pytree: leaves in order, the dotted path of each, plain structure, and optree's own."""

    leaves: tuple[Any, ...]
    paths: tuple[str, ...]
    tree: Tree
    spec: optree.PyTreeSpec

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """A pytree of the caller's own classes with new leaves."""
        return optree.tree_unflatten(self.spec, leaves)


def structure(flat: Flat) -> str:
    """A pytree's structure as its author writes it: containers, with * for each leaf."""
    return str(flat.spec).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")


def flatten(pytree: Any, what: str = "pytree") -> Flat:
    """Flatten; ArgumentTypeError for a dict whose keys are neither str nor int, CaptureError for too deep a pytree."""
    leaves, spec = leaves_of(pytree, what)
    try:
        tree = _plain(spec, what)
        return Flat(tuple(leaves), leaf_paths(tree), tree, spec)
    except RecursionError:
        raise _too_deep(what) from None


def leaves_of(pytree: Any, what: str) -> tuple[list[Any], optree.PyTreeSpec]:
    """The leaves and optree's structure; CaptureError for a pytree that is too deep or contains itself."""
    try:
        return optree.tree_flatten(pytree, namespace=NAMESPACE)
    except RecursionError:
        raise _too_deep(what) from None


def _too_deep(what: str) -> CaptureError:
    return CaptureError(
        what=what,
        message="a pytree is nested too deeply, or contains itself",
        where=user_location(),
        remedy="put the arrays side by side, in one list or dict.",
    )


#: Types of leaves that `key_order` need not ask optree about.
_LEAVES: set[type] = {np.ndarray, float, int, bool, str, bytes, type(None)}


def key_order(trees: Iterable[Any]) -> tuple[Hashable, ...]:
    """The keys of the dicts in pytrees in the order of insertion, by which equal structures may differ.

    optree sorts keys, and code that iterates over a dict sees the order of the caller's own.
    """
    keys: list[Hashable] = []
    pending: list[Any] = []
    for tree in trees:
        if type(tree) not in _LEAVES:
            pending.append(tree)
    while pending:
        tree = pending.pop()
        kind = cast("type[Any]", type(tree))
        items: Iterable[Any] = ()
        if kind is dict or kind is defaultdict:
            if len(tree) > 1:
                keys += tree
            items = tree.values()
        elif kind is list or kind is tuple:
            items = tree
        elif not issubclass(kind, Array) and not optree.tree_is_leaf(tree, namespace=NAMESPACE):
            items = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)[0]
        for item in items:
            if type(item) not in _LEAVES:
                pending.append(item)
    return tuple(keys)


def _plain(spec: optree.PyTreeSpec, what: str) -> Tree:
    if spec.is_leaf():
        return LEAF
    kind = cast("type[Any] | None", spec.type)
    children = tuple(_plain(child, what) for child in spec.children())
    if kind is None or kind is type(None):
        return NONE
    if issubclass(kind, dict):
        return Tree("dict", children, _keys(spec.entries(), what))
    if optree.is_namedtuple_class(kind):
        return Tree("namedtuple", children, tuple(cast("Any", optree).namedtuple_fields(kind)), kind.__name__)
    if optree.is_structseq_class(kind):
        return Tree("namedtuple", children, tuple(cast("Any", optree).structseq_fields(kind)), kind.__name__)
    if issubclass(kind, tuple):
        return Tree("tuple", children)
    if kind is list or kind.__name__ == "deque":
        return Tree("list", children)
    entries = spec.entries()
    if all(isinstance(entry, str) for entry in entries) and children:
        plain = all(entry.isidentifier() and not entry.startswith("_") for entry in entries)
        return Tree("namedtuple" if plain else "dict", children, tuple(entries), kind.__name__ if plain else "")
    return Tree("tuple", children)


def _keys(entries: Sequence[Any], what: str) -> tuple[str | int, ...]:
    for key in entries:
        if type(key) not in (str, int):
            raise ArgumentTypeError(what=f"{what}: dict key {key!r}", actual=type(key).__name__, expected="str or int")
    return tuple(entries)


def leaf_paths(tree: Tree) -> tuple[str, ...]:
    """One dotted path a leaf, in order: keys, fields and indices joined by "."; "" for a pytree that is one leaf."""
    return tuple(".".join(path) for path in _paths(tree, ()))


def _paths(tree: Tree, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if tree.kind == "leaf":
        yield prefix
    keys = tree.keys or range(len(tree.children))
    for key, child in zip(keys, tree.children, strict=True):
        yield from _paths(child, (*prefix, str(key)))


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """A pytree of built-in containers and namedtuples; ArgumentError if the number of leaves differs."""
    return tree.unflatten(leaves)


def check_tree(tree: Tree) -> str | None:
    """What is wrong with a tree, or None."""
    match tree.kind:
        case "leaf" | "none":
            wrong = bool(tree.children or tree.keys or tree.name)
        case "tuple" | "list":
            wrong = bool(tree.keys or tree.name)
        case "dict" | "namedtuple":
            wrong = len(tree.keys) != len(tree.children) or len(set(tree.keys)) != len(tree.keys)
            wrong = wrong or (tree.kind == "dict" and bool(tree.name))
        case _:
            return f"unknown tree node {tree.kind!r}"
    if wrong:
        return f"a malformed {tree.kind} in the output tree"
    return next((found for child in tree.children if (found := check_tree(child)) is not None), None)
