"""From the arguments of a call to leaves: which are arrays, which run-time scalars, which static.

Pytrees of arrays are taken apart; bools, strings, None, enums and dtypes are static, as are the arguments that
`static_argnames` names and defaults that were not passed; ints and floats are run-time scalars that take the dtype they
meet.  Everything else is refused before anything is traced.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import optree

from poot.api.foreign import device_array
from poot.dtypes import ArraySpec, DType, as_dtype, is_masked
from poot.errors import ArgumentError, CaptureError, PootError, an
from poot.foreign import host_array
from poot.probe import has
from poot.trace.array import Array
from poot.trace.source import user_location
from poot.trace.tracer import WeakTracer
from poot.trace.tree import flatten, key_order, leaves_of

LeafKind = Literal["array", "spec", "int", "float", "static"]

_STATIC = (bool, str, bytes, enum.Enum, np.dtype)
_KNOWN = (Array, WeakTracer, np.ndarray, np.generic, ArraySpec, DType, int, float, type, *_STATIC)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of the arguments: its dotted path, kind, value (a NumPy or poot array, a spec, or a number), and key."""

    path: str
    kind: LeafKind
    value: Any
    key: Hashable


@dataclass(slots=True)
class Arguments:
    """The arguments of one call, sorted; `rebuild` makes the call again with other leaves.

    `order` are the keys of the dicts among them in the order of insertion, which equal structures may differ in.
    """

    leaves: list[Leaf]
    statics: list[tuple[str, object]]
    spec: optree.PyTreeSpec
    order: tuple[Hashable, ...] = ()
    names: tuple[str, ...] = ()
    owner: object = None

    def rebuild(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Every argument by parameter name."""
        values = cast("dict[str, Any]", optree.tree_unflatten(self.spec, leaves))
        return {**values, **dict(self.statics)}


class Signature:
    """The parameters of a traced function, and how a call's arguments are sorted."""

    def __init__(
        self, function: Callable[..., Any], static_argnames: Sequence[str], donate: Sequence[str] = ()
    ) -> None:
        self._start(inspect.signature(function), function.__qualname__, frozenset(static_argnames))
        self._require("static_argnames", static_argnames, self._order)
        self._require("donate", donate, [name for name in self._order if name not in self.static])

    def _require(self, option: str, names: Sequence[str], known: Sequence[str]) -> None:
        for name in names:
            if name not in known:
                raise ArgumentError(what=f"{option} of {self.name}", actual=name, expected="one of " + ", ".join(known))

    def _start(self, signature: inspect.Signature, name: str, static: frozenset[str]) -> None:
        self.signature = signature
        self.name = name
        self.static = static
        parameters = signature.parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        self._by_name = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}
        self._by_position = kinds <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        self._order = tuple(parameters)
        self._first = next(iter(parameters), None)

    def method(self) -> Signature:
        """The signature without its first parameter, as of a method that is bound to an instance."""
        bound = object.__new__(Signature)
        parameters = list(self.signature.parameters.values())[1:]
        bound._start(self.signature.replace(parameters=parameters), self.name, self.static)
        bound._first = None
        return bound

    def in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with its arguments by position, where those by name come next in the order of parameters."""
        names = self._order[len(args) : len(args) + len(kwargs)]
        if not self._by_name or len(names) < len(kwargs) or any(name not in kwargs for name in names):
            return args, kwargs
        return (*args, *(kwargs[name] for name in names)), {}

    def flat(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Hashable] | None:
        """The leaves of arguments by position, in the order of `sort`, and their structure with the order of the dicts'
        keys; None where any is static by name, or does not fit the parameters.
        """
        if self.static or not self._by_position or len(args) > len(self._order):
            return None
        found, spec = leaves_of(dict(zip(self._order, args, strict=False)), f"the arguments of {self.name}")
        order = key_order(args)
        return tuple(found), (spec, order) if order else spec

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, without defaults; TypeError as Python gives it."""
        if not kwargs and self._by_position and len(args) == len(self._order):
            return dict(zip(self._order, args, strict=True))
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None

    def call(self, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Call the function with arguments by parameter name."""
        bound = inspect.BoundArguments(self.signature, cast("Any", values))
        return function(*bound.args, **bound.kwargs)

    def sort(self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: object = None) -> Arguments:
        """Sort a call's arguments; CaptureError for what is neither a pytree of arrays nor static."""
        bound = self.bind(args, kwargs)
        statics = [(name, value) for name, value in bound.items() if name in self.static]
        dynamic = {name: value for name, value in bound.items() if name not in self.static}
        found, spec = leaves_of(dynamic, f"the arguments of {self.name}")
        if len(found) == len(dynamic) and not any(issubclass(type(v), (dict, list, tuple)) for v in dynamic.values()):
            paths: Sequence[str] = sorted(dynamic)
        else:
            paths = flatten(dynamic, "arguments").paths
        leaves = [self.leaf(path, value) for path, value in zip(paths, found, strict=True)]
        return Arguments(leaves, statics, spec, key_order(dynamic.values()), tuple(bound), owner)

    def leaf(self, path: str, value: Any) -> Leaf:
        """Classify one leaf."""
        if not issubclass(type(value), _KNOWN):  # `isinstance` would ask a proxy for its class
            return self._foreign(path, value)
        if isinstance(value, WeakTracer):
            value = value.materialise(value.dtype)
        if isinstance(value, Array):
            return Leaf(path, "array", value, value.spec)
        if is_masked(value) or isinstance(value, np.matrix):
            return self._foreign(path, cast("object", value))
        if isinstance(value, np.ndarray):
            return self._array(path, cast("np.ndarray[Any, Any]", value))
        if isinstance(value, ArraySpec):
            return Leaf(path, "spec", value, value)
        if isinstance(value, DType):
            return Leaf(path, "static", value, value)
        if isinstance(value, type) and issubclass(cast("type[object]", value), np.generic):
            return Leaf(path, "static", value, cast("Hashable", value))  # a dtype, as NumPy's users write it
        if isinstance(value, np.bool_):
            value = bool(cast("object", value))
        if isinstance(value, _STATIC):
            return Leaf(path, "static", value, (type(cast("object", value)), cast("Hashable", value)))
        if isinstance(value, int) or type(value) is np.int64:
            return Leaf(path, "int", int(cast("int", value)), "int")
        if isinstance(value, float):
            return Leaf(path, "float", float(value), "float")
        if isinstance(value, np.generic):
            return self._array(path, np.asarray(cast("Any", value)))
        return self._foreign(path, value)

    def _array(self, path: str, array: np.ndarray[Any, Any]) -> Leaf:
        try:
            dtype = as_dtype(array.dtype, f"argument {path!r} of {self.name}")
        except PootError as error:
            raise error.at(user_location()) from None
        return Leaf(path, "array", array, ArraySpec(dtype, array.shape))

    def _foreign(self, path: str, value: Any) -> Leaf:
        """Arrays of other libraries, through DLPack or the array interface."""
        remedy = 'pass arrays, or make it static: @poot.trace(static_argnames=("{root}",)).'
        ours = issubclass(type(value), np.ndarray)
        home, _, name = self.name.rpartition(".")
        if ours and is_masked(value):
            remedy = "pass value.filled(…), or its data and its mask as two arrays."
        elif ours and isinstance(value, np.matrix):
            remedy = "pass np.asarray(value): poot's operators work by element, and a matrix's do not."
        elif not callable(value) or has(value, "__dlpack__"):
            there = device_array(value, f"argument {path!r} of {self.name}")
            if there is not None:
                return Leaf(path, "array", there, there.spec)
            array = host_array(value, f"argument {path!r} of {self.name}")
            if array is not None:
                return self._array(path, array)
            if path == self._first and any(home == kind.__qualname__ for kind in type(cast("object", value)).__mro__):
                remedy = (
                    f"call it as a method, `{{root}}.{name}(…)`, which makes {{root}} a capture; a property or a class "
                    "that overrides it may call a traced method of another name."
                )
        raise CaptureError(
            what=f"argument {path!r} of {self.name}",
            message=f"{an(type(cast('object', value)).__name__)} is no pytree of arrays",
            where=user_location(),
            remedy=remedy.replace("{root}", path.partition(".")[0]),
        )
