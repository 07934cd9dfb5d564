"""Weights: stores of named arrays as they were saved, and maps from a graph's constants to views of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poot.dtypes import ArraySpec, as_dtype
from poot.errors import ArgumentTypeError, WeightError

HostArray = np.ndarray[Any, Any]


class WeightStore:
    """Named host arrays, bytes as stored.  Made by `from_arrays`."""

    def __init__(self, arrays: Mapping[str, HostArray]) -> None:
        self._arrays = dict(arrays)

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any]) -> WeightStore:
        """A store over NumPy arrays (not copied; do not change them before `load_weights` has returned).

        UnsupportedDTypeError for arrays of objects, strings or dates.
        """
        if not isinstance(arrays, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(what="WeightStore", actual=type(arrays).__name__, expected="arrays by name")
        kept: dict[str, HostArray] = {}
        for name, array in arrays.items():
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentTypeError(what="WeightStore: name", actual=repr(name), expected="a str")
            kept[name] = np.asarray(array)
            as_dtype(kept[name].dtype, f"weight {name!r}")
        return WeightStore(kept)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def spec(self, name: str) -> ArraySpec:
        """The dtype and shape of a stored array; WeightError if there is none of that name."""
        array = self.array(name)
        return ArraySpec(as_dtype(array.dtype), array.shape)

    def array(self, name: str) -> HostArray:
        """The stored array itself; WeightError if there is none of that name."""
        if name not in self._arrays:
            known = ", ".join(sorted(self._arrays)[:8]) or "nothing"
            raise WeightError(name=name, message=f"the store has no such array; it has {known}")
        return self._arrays[name]


@dataclass(frozen=True, slots=True)
class StoredView:
    """A part of a stored array: `index` is a basic index (integers, slices) applied to it."""

    name: str
    index: tuple[int | slice, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightMap:
    """From a graph's constant names to stored names or views; `identity` takes each stored name as it is."""

    views: Mapping[str, str | StoredView] = field(default_factory=dict[str, "str | StoredView"])

    @staticmethod
    def identity(store: WeightStore) -> WeightMap:
        """Every stored array under its own name."""
        return WeightMap({name: name for name in store})

    def resolve(self, store: WeightStore) -> dict[str, HostArray]:
        """The host array of every constant in the map; WeightError names a missing one."""
        found: dict[str, HostArray] = {}
        for constant, view in self.views.items():
            stored = StoredView(view) if isinstance(view, str) else view
            array = store.array(stored.name)
            try:
                found[constant] = array[stored.index]
            except IndexError as error:
                raise WeightError(name=constant, message=f"{stored.index} of {stored.name!r}: {error}") from error
        return found
