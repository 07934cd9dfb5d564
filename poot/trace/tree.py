"""Pytrees: flattening to leaves with dotted paths, and the structure as plain data.

optree does the flattening: None is a node, dict keys are sorted, namedtuples and registered classes (in optree's global
namespace or in "poot") are entered.  `Tree` keeps what can be written down: a class other than a namedtuple's becomes a
namedtuple of its fields, an OrderedDict or defaultdict a dict, a deque a list.  To get the caller's own classes back,
keep `Flat.spec` and unflatten with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import optree

from poot.errors import ArgumentTypeError
from poot.trace.graph import Tree

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
    """Flatten; ArgumentTypeError for a dict whose keys are neither str nor int."""
    leaves, spec = optree.tree_flatten(pytree, namespace=NAMESPACE)
    tree = _plain(spec, what)
    return Flat(tuple(leaves), leaf_paths(tree), tree, spec)


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
