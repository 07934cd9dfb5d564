"""Weights: stores of named arrays as they were saved, and maps from a graph's constants to views of them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from typing_extensions import override

from poot.backends.binding import expect
from poot.backends.device import HostArray
from poot.backends.safetensor_files import read_safetensors
from poot.dtypes import ArraySpec, DType, as_dtype, check_plain
from poot.errors import ArgumentError, ArgumentTypeError, UnsupportedDTypeError, WeightError, WeightsError
from poot.foreign import as_numpy


class WeightStore:
    """Named host arrays, bytes as stored.  Made by `from_arrays` or `from_safetensors`."""

    def __init__(self, arrays: Mapping[str, HostArray], formats: Mapping[str, str] | None = None) -> None:
        expect("WeightStore", arrays, Mapping, "arrays by name")
        self._arrays = dict(arrays)
        self._formats = dict(formats or {})
        #: Whether nothing changes the arrays as long as they are in use, so that a device may read them in place.
        self.unchanging = False

    @override
    def __repr__(self) -> str:
        return f"<WeightStore of {len(self._arrays)} arrays>"

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any]) -> WeightStore:
        """A store over arrays on the host, of NumPy or another library (not copied; do not change them before
        `load_weights` has returned).

        Arrays of poot's are read to the host, wherever they live.

        UnsupportedDTypeError for arrays of objects, strings or dates, ArgumentTypeError for masked ones, ExchangeError
        where another library does not give the elements.
        """
        expect("WeightStore", arrays, Mapping, "arrays by name")
        kept: dict[str, HostArray] = {}
        for name, array in arrays.items():
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentTypeError(what="WeightStore: name", actual=repr(name), expected="a str")
            kept[name] = _host(name, array)
        return WeightStore(kept)

    @staticmethod
    def from_safetensors(path: str | os.PathLike[str]) -> WeightStore:
        """A store over a safetensors file, the shards of a `.safetensors.index.json`, or a folder that holds either.

        Nothing is read but the headers: the files are mapped into memory, read-only, for as long as the store, an exe
        or an array made of them is in use.  Devices that work on the host's memory use them in place.  Replace such a
        file by renaming another over it; writing into it changes the weights, and cutting it short ends the process.
        Tensors of 8 bits and fewer that no dtype stands for (F8_E4M3 …) are bytes: `StoredView(name, dtype=poot.u8)`.

        WeightFileError where a file is missing, truncated or damaged.
        """
        found = read_safetensors(path)
        store = WeightStore(
            {name: stored.array for name, stored in found.items()},
            {name: stored.format for name, stored in found.items() if stored.format},
        )
        store.unchanging = True
        return store

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def spec(self, name: str) -> ArraySpec:
        """The dtype and shape of a stored array; WeightError if there is none of that name."""
        return _spec(self.array(name))

    def array(self, name: str) -> HostArray:
        """The stored array itself; WeightError if there is none of that name.

        UnsupportedDTypeError where no dtype stands for its format.
        """
        array = self.bytes_or_array(name)
        if name in self._formats:
            remedy = "take its bytes: StoredView(name, dtype=poot.u8)."
            raise UnsupportedDTypeError(what=f"weight {name!r}", actual=self._formats[name], remedy=remedy)
        return array

    def bytes_or_array(self, name: str) -> HostArray:
        """The stored array, or its bytes as u8 where no dtype stands for its format."""
        expect("name of a weight", name, str, "a str")
        if name not in self._arrays:
            remedy = "name an array of the store; `list(store)` has them all."
            message = f"the store has no such array; {nearest(name, self._arrays)}"
            raise WeightError(name=name, message=message, remedy=remedy)
        return self._arrays[name]


@dataclass(frozen=True, slots=True)
class StoredView:
    """A part of a stored array: `index` is a basic index, a tuple of integers, slices and `...`, applied to it.

    With `dtype` the stored bytes are read as that dtype first, which changes the last axis where the widths differ.
    ArgumentTypeError for an index of another kind, UnsupportedDTypeError for what is no dtype.
    """

    name: str
    index: tuple[int | slice, ...] = ()
    dtype: DType | None = None

    def __post_init__(self) -> None:
        expect("StoredView: name", self.name, str, "a str")
        expect("StoredView: index", self.index, tuple, "a tuple of integers and slices")
        for item in self.index:
            bounds: Sequence[Any] = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
            if isinstance(item, slice) and type(item.step) is int and item.step == 0:
                raise ArgumentError(what="StoredView: step of a slice", actual=0, expected="another int")
            for bound in bounds:
                plain = isinstance(bound, (int, np.integer)) and not isinstance(bound, bool)
                if not plain and bound is not (None if isinstance(item, slice) else ...):
                    raise ArgumentTypeError(
                        what="StoredView: index", actual=f"{item!r:.60}", expected="integers, slices and `...`"
                    )
        if self.dtype is not None:
            object.__setattr__(self, "dtype", as_dtype(self.dtype, "StoredView"))

    def of(self, store: WeightStore) -> HostArray:
        """The host array; WeightError or UnsupportedDTypeError where there is none such."""
        expect("StoredView.of", store, WeightStore, "a WeightStore")
        if self.dtype is None:
            array = store.array(self.name)
        else:
            try:
                array = store.bytes_or_array(self.name).view(self.dtype.dtype)
            except (TypeError, ValueError) as error:
                remedy = "read them as a dtype whose width divides the bytes of its last axis, or leave dtype= out."
                raise WeightError(name=self.name, message=f"as {self.dtype}: {error}", remedy=remedy) from error
        try:
            return np.asarray(array[self.index])
        except IndexError as error:
            remedy = f"take a part of what is stored, {_spec(array)}."
            raise WeightError(name=self.name, message=f"{self.index}: {error}", remedy=remedy) from error


class HasConstants(Protocol):
    """A graph."""

    @property
    def constants(self) -> tuple[Any, ...]: ...


class HasGraph(Protocol):
    """What `compile` returns."""

    @property
    def graph(self) -> HasConstants: ...


class HasStagedProgram(Protocol):
    """What `compile_staged` returns."""

    @property
    def program(self) -> HasGraph: ...


Wanting = HasConstants | HasGraph | HasStagedProgram


def wanted_specs(wanting: Wanting | Sequence[Wanting]) -> dict[str, set[ArraySpec]]:
    """The constants of graphs, programs or staged programs by name, each with every spec that one of them declares."""
    found: dict[str, set[ArraySpec]] = {}
    several = cast("Sequence[Any]", wanting if isinstance(wanting, (list, tuple)) else (wanting,))
    for each in several:
        program = getattr(each, "program", each)
        graph = getattr(program, "graph", program)
        if not hasattr(graph, "constants"):
            expected = "graphs, programs or staged programs"
            raise ArgumentTypeError(what="weights of", actual=type(each).__name__, expected=expected)
        for variable in graph.constants:
            found.setdefault(variable.name, set()).add(variable.spec)
    return found


@dataclass(frozen=True, slots=True)
class WeightMap:
    """From a graph's constant names to stored names or views.

    `identity` takes each stored name as it is, `of` the names that graphs, programs or staged programs want.
    ArgumentTypeError for what is no mapping of names to names or views.
    """

    views: Mapping[str, str | StoredView] = field(default_factory=dict[str, "str | StoredView"])

    def __post_init__(self) -> None:
        expect("WeightMap", self.views, Mapping, "names or StoredViews by the names of constants")
        for constant, view in self.views.items():
            expect("WeightMap: name", constant, str, "a str")
            expect(f"WeightMap: {constant!r}", view, (str, StoredView), "a stored name or a StoredView")

    @staticmethod
    def identity(store: WeightStore) -> WeightMap:
        """Every stored array under its own name."""
        expect("WeightMap.identity", store, WeightStore, "a WeightStore")
        return WeightMap({name: name for name in store})

    @staticmethod
    def of(wanting: Wanting | Sequence[Wanting]) -> WeightMap:
        """Every constant of `wanting` under its own name; other stored arrays are left alone."""
        return WeightMap({name: name for name in wanted_specs(wanting)})

    def resolve(self, store: WeightStore, wanting: Wanting | Sequence[Wanting] | None = None) -> dict[str, HostArray]:
        """The host array of every constant in the map; equal views give the same array.

        WeightsError lists those that the store does not have, one or many.  With `wanting`, what it declares is
        compared too: constants that the map lacks, names that nothing wants, wrong shapes and wrong dtypes.
        """
        expect("WeightMap.resolve", store, WeightStore, "a WeightStore")
        found: dict[str, HostArray] = {}
        problems: list[Problem] = []
        seen: dict[str, HostArray] = {}
        for constant, given in self.views.items():
            view = StoredView(given) if isinstance(given, str) else given
            try:
                key = repr(view)
                if key not in seen:
                    seen[key] = view.of(store)
                found[constant] = seen[key]
                _spec(found[constant])
            except UnsupportedDTypeError as error:
                problems.append(Problem("of an unsupported dtype", constant, str(error.fields["actual"]), _BYTES))
            except WeightError as error:
                place = constant if constant == view.name else f"{constant} (stored as {view.name})"
                if view.name in store:
                    problems.append(Problem("with a view that does not fit", place, str(error.fields["message"]), _FIT))
                else:
                    problems.append(_missing(place, view.name, store, "store"))
        if wanting is not None:
            failed = self.views.keys() - found.keys()
            specs = {name: _spec(array) for name, array in found.items() if not _unsupported(array)}
            source = "store" if self == WeightMap.identity(store) else "map"
            problems += compare_weights(wanted_specs(wanting), specs, source, failed, everything=True)
        refuse(problems)
        return found


def _host(name: str, value: Any) -> HostArray:
    """A weight as NumPy has it."""
    check_plain(value, f"weight {name!r}")
    array = as_numpy(value, f"weight {name!r}")
    as_dtype(array.dtype, f"weight {name!r}")
    return array


def _spec(array: HostArray) -> ArraySpec:
    return ArraySpec(as_dtype(array.dtype, "weight"), array.shape)


def _unsupported(array: HostArray) -> bool:
    try:
        as_dtype(array.dtype)
    except UnsupportedDTypeError:
        return True
    return False


# --- what does not fit -----------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """One weight that does not fit: which list it goes to, its name, more about it, and what the list's head adds.

    `remedy` is that of its list.
    """

    kind: str
    name: str
    detail: str
    remedy: str
    head: str = ""


_SHOWN, _FEW = 40, 8
_BYTES = "take the bytes of what no dtype stands for: StoredView(name, dtype=poot.u8)"
_RENAME = 'map each name to the one that it is stored under: WeightMap({"name": "stored name"})'
_RELOAD = "load weights that have every constant of the program: load_weights(store, WeightMap.of(program))"
_FIT = "take a part that is there, as its dtype: StoredView(name, index, dtype)"
_CONVERT = "convert the arrays before they are stored, or make the program with their specs: nothing is cast silently"
_LEAVE = "leave what nothing wants out of the map; WeightMap.of(program) takes what the program wants"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise for the problems, if there are any: a WeightsError that lists them by what is wrong."""
    if not problems:
        return
    lists: dict[str, list[Problem]] = {}
    for problem in problems:
        lists.setdefault(problem.kind, []).append(problem)
    lines: list[str] = []
    for kind, found in lists.items():
        lines.append(f"  {kind} ({len(found)}){found[0].head}:")
        names = sorted(f"{each.name}: {each.detail}" if each.detail else each.name for each in found)
        lines += [f"    {name}" for name in names[:_SHOWN]]
        if len(names) > _SHOWN:
            lines.append(f"    and {len(names) - _SHOWN} more")
    names = tuple(problem.name for problem in problems)
    raise WeightsError(
        weights="1 weight does" if len(problems) == 1 else f"{len(problems)} weights do",
        listing="\n" + "\n".join(lines),
        names=names,
        remedy="; ".join(dict.fromkeys(found[0].remedy for found in lists.values())) + ".",
    )


def compare_weights(
    wanted: Mapping[str, Iterable[ArraySpec]],
    given: Mapping[str, ArraySpec],
    source: str,
    known: Iterable[str] = (),
    *,
    everything: bool = False,
) -> list[Problem]:
    """What is missing, of another dtype or of another shape among what a `source` has `given`, and with `everything`
    what nothing wants.

    Names in `known` have been reported already.
    """
    problems: list[Problem] = []
    skip = set(known)
    for name, specs in wanted.items():
        if name in skip:
            continue
        if name not in given:
            problems.append(_missing(name, name, given, source))
            continue
        has = given[name]
        for spec in sorted(specs, key=str):
            if spec != has:
                differs = ("dtype",) * (spec.dtype is not has.dtype) + ("shape",) * (spec.shape != has.shape)
                kind = f"of another {' and '.join(differs)}"
                problems.append(Problem(kind, name, f"{has}, {spec} is wanted", _CONVERT))
    if everything:
        problems += [Problem("wanted by nothing", name, "", _LEAVE) for name in given if name not in wanted]
    return problems


def _missing(place: str, name: str, known: Iterable[str], source: str) -> Problem:
    """A name that a source does not have; the names that are there stand in the list's head, once."""
    names = sorted(known)
    like = difflib.get_close_matches(name, names, 1) if len(names) > _FEW else []
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    head = f", which has {', '.join(names[:_FEW]) or 'none'}{more}"
    remedy = _RELOAD if source == "exe" else _RENAME
    return Problem(f"missing from the {source}", place, f"did you mean {like[0]!r}?" if like else "", remedy, head)


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say of the names that there are."""
    names = sorted(known)
    like = difflib.get_close_matches(name, names, 1) if len(names) > _FEW else []
    return f"did you mean {like[0]!r}?" if like else f"it has {', '.join(names[:_FEW]) or 'none'}"
