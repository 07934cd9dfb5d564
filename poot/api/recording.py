"""One trace: a function run on tracers, and where each input of its graph comes from at a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import optree

from poot.api.arguments import Arguments, Leaf, Signature
from poot.api.array import DeviceArray
from poot.api.captures import Captures
from poot.api.chance import ChanceWatch
from poot.backends.device import DeviceBackend
from poot.dtypes import ArraySpec, DType, as_dtype
from poot.errors import CaptureError, DTypeError, ShapeError, an
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.dispatch import outside, taking, tracing
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits
from poot.trace.source import user_location
from poot.trace.tracer import Tracer, WeakTracer
from poot.trace.tree import flatten


@dataclass(frozen=True, slots=True)
class Source:
    """Where an input of the graph comes from.

    `kind` is leaf (an argument's leaf, by `index`), weak (a Python number among the leaves, at `dtype`), capture (an
    array that the code reads, by its index among the captures) or frozen (an array met in another way: `array` itself).
    """

    kind: Literal["leaf", "weak", "capture", "frozen"]
    index: int = -1
    dtype: DType | None = None
    array: Any = None


@dataclass(frozen=True, slots=True)
class Roles:
    """Which arguments become constants and states of the graph, and which outputs the states' next values are."""

    constants: frozenset[str] = frozenset()
    states: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])


@dataclass(frozen=True, slots=True)
class Recorded:
    """A traced function: its graph, the source of every input in the order of `sources`, and its output pytree.

    `sources` is keyed by the name of the graph's constant, input or state; `frozen` lists what cannot be followed.
    `contents` are the captured arrays, by index, that NumPy may have read while the function was traced, with what they
    held: the recording is good for these contents alone.
    """

    graph: Graph
    sources: Mapping[str, Source]
    outputs: optree.PyTreeSpec
    frozen: tuple[str, ...]
    contents: tuple[tuple[int, bytes], ...] = ()

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether the captured arrays still hold what the trace may have read."""
        return all(digest(arrays[index]) == known for index, known in self.contents)

    def tracked(self, arrays: Sequence[Any], device: DeviceBackend) -> frozenset[str]:
        """The inputs of the graph that are captured arrays of poot on a device, which cannot change unnoticed."""
        found: set[str] = set()
        for variable in self.graph.variables:
            source = self.sources[variable.name]
            array = arrays[source.index] if source.kind == "capture" else source.array
            here = isinstance(array, DeviceArray) and array.is_tracked and array.backend is device
            if here and array.spec == variable.spec:
                found.add(variable.name)
        return frozenset(found)


#: Up to this many bytes are kept as they are, more as a hash.
_SMALL = 4096


def digest(array: Any) -> bytes:
    """The contents of an array, or a hash of them where they are large."""
    host = np.ascontiguousarray(np.asarray(array))
    return host.tobytes() if host.nbytes <= _SMALL else hashlib.blake2b(host.data.cast("B"), digest_size=16).digest()


class Recorder:
    """Runs a function once on tracers."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Signature,
        arguments: Arguments,
        captures: Captures,
        limits: TraceLimits,
        roles: Roles,
        convert: Callable[[ArraySpec], ArraySpec],
    ) -> None:
        self.function = function
        self.signature = signature
        self.arguments = arguments
        self.captures = captures
        self.roles = roles
        self.convert = convert
        self.builder = Builder(limits, name=signature.name)
        self.sources: dict[str, Source] = {}
        self.frozen: list[str] = []
        self._hidden: dict[int, tuple[Any, Tracer]] = {}
        self._names: set[str] = set()
        self._followed: set[int] = set()
        self._known: set[int] = set()
        self._states: dict[str, ArraySpec] = {}
        self._watch = ChanceWatch(signature.name, captures)

    def record(self) -> Recorded:
        """Trace; the user's exceptions keep their type and gain a note."""
        return outside(self._record)

    def _record(self) -> Recorded:
        leaves = [self._tracer(number, leaf) for number, leaf in enumerate(self.arguments.leaves)]
        values = self.arguments.rebuild(leaves)
        try:
            with tracing(self.builder, self._capture, self._read, self._constant), taking(self._taken):
                with self._watch:
                    result = self.signature.call(self.function, values)
                self._watch.check()
                outputs, updates = self._split(result)
                return self._finish(outputs, updates)
        except Exception as error:
            self.builder.finished = True  # a tracer that leaked out says so when it is used
            error.add_note(f"while {self.signature.name} was being traced by poot")
            raise

    # --- inputs ---

    def _name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._names:
            name, number = f"{wanted}_{number}", number + 1
        self._names.add(name)
        return name

    def _tracer(self, number: int, leaf: Leaf) -> Any:
        match leaf.kind:
            case "static":
                return leaf.value
            case "int" | "float":
                return self._weak(number, leaf)
            case _:
                return self._variable(leaf.path, self.convert(leaf.key), Source("leaf", number))  # type: ignore[arg-type]

    def _variable(self, path: str, spec: ArraySpec, source: Source) -> Tracer:
        name = self._name(path)
        self.sources[name] = source
        root = path.partition(".")[0]
        if root in self.roles.constants:
            return self.builder.constant(name, spec)
        if root in self.roles.states:
            self._states[name] = spec
            return self.builder.state(name, spec)
        return self.builder.input(name, spec)

    def _weak(self, number: int, leaf: Leaf) -> WeakTracer:
        slots: dict[DType, Tracer] = {}

        def slot(dtype: DType) -> Tracer:
            if dtype not in slots:
                spec = ArraySpec(dtype, ())
                slots[dtype] = self._variable(f"{leaf.path}:{dtype}", spec, Source("weak", number, dtype))
            return slots[dtype]

        return WeakTracer(
            "int*" if leaf.kind == "int" else "float*", slot, name=leaf.path, function=self.signature.name
        )

    def _capture(self, array: Array | np.ndarray[Any, Any]) -> Tracer:
        """The hidden input that stands for an array from outside."""
        known = self._hidden.get(id(array))
        if known is not None:
            return known[1]
        dtype = as_dtype(array.dtype, "captured array")
        spec = self.convert(ArraySpec(dtype, tuple(array.shape)))
        for index, (found, label) in enumerate(zip(self.captures.arrays, self.captures.labels, strict=True)):
            if found is array:
                self._followed.add(index)
                tracer = self._variable(label, spec, Source("capture", index))
                break
        else:
            self.builder.own(spec.nbytes)
            self.frozen.append(f"an array {spec} that no name in the code leads to")
            tracer = self._frozen(spec, array)
        self._hidden[id(array)] = array, tracer
        return tracer

    def _taken(self, array: Array | np.ndarray[Any, Any], dtype: DType) -> DType:
        """The dtype of the hidden input of an array from outside."""
        return self.convert(ArraySpec(dtype, ())).dtype

    def _read(self, array: Array | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The contents of a mask, for which alone the recording is good."""
        found = [index for index, captured in enumerate(self.captures.arrays) if captured is array]
        self._known.update(found)
        if not found:
            self.frozen.append(f"a mask {array.dtype}{list(array.shape)} that no name in the code leads to")
        return np.asarray(array)

    def _constant(self, array: Array | np.ndarray[Any, Any]) -> Tracer:
        """An array that was made of what has been read."""
        spec = ArraySpec(as_dtype(array.dtype), tuple(array.shape))
        self.builder.own(spec.nbytes)
        return self._frozen(spec, array)

    def _frozen(self, spec: ArraySpec, array: Any) -> Tracer:
        """A constant of the graph, which whoever runs the graph by hand binds like a weight."""
        name = self._name("array")
        self.sources[name] = Source("frozen", array=array)
        return self.builder.constant(name, spec)

    # --- outputs ---

    def _split(self, result: Any) -> tuple[Any, dict[str, Any]]:
        """Take the next values of states out of the outputs."""
        updates: dict[str, Any] = {}
        places = {argument: tuple(str(place).split(".")) for argument, place in self.roles.states.items()}
        for argument, place in places.items():
            flat = flatten({argument: _part(result, place, f"states[{argument!r}]")}, "states")
            found = {path: self._output(path, leaf) for path, leaf in zip(flat.paths, flat.leaves, strict=True)}
            specs = {name: spec for name, spec in self._states.items() if name.partition(".")[0] == argument}
            _check_next(f"states[{argument!r}]: output {'.'.join(place)!r}", found, specs)
            updates |= found
        return _without(result, set(places.values())) if places else result, updates

    def _finish(self, outputs: Any, updates: dict[str, Any]) -> Recorded:
        flat = flatten(outputs, f"outputs of {self.signature.name}")
        leaves = [self._output(path, leaf) for path, leaf in zip(flat.paths, flat.leaves, strict=True)]
        graph = self.builder.finish(flat.tree.unflatten(leaves), updates)
        frozen = (*self.frozen, *self._watch.frozen)
        return Recorded(graph, self.sources, flat.spec, frozen, self._contents())

    def _contents(self) -> tuple[tuple[int, bytes], ...]:
        """What NumPy may have read of the captured arrays: masks, those that the graph does not follow, or all, if the
        trace met arrays that it cannot tell the origin of.
        """
        arrays = enumerate(self.captures.arrays)
        return tuple(
            (index, digest(array))
            for index, array in arrays
            if array.dtype != object and (self.frozen or index not in self._followed or index in self._known)
        )

    def _output(self, path: str, leaf: Any) -> Any:
        if isinstance(leaf, WeakTracer):
            return leaf.materialise(leaf.dtype)
        if isinstance(leaf, Tracer):
            leaf.check_alive()
            return leaf if leaf.builder is self.builder else self._capture(leaf)
        if isinstance(leaf, (Array, np.ndarray)):
            return self._capture(cast("Any", leaf))
        if type(leaf) in (np.float64, np.int64, np.bool_):
            return leaf.item()  # what NumPy hands out on its own counts as Python's numbers
        if isinstance(leaf, (bool, int, float, np.generic)):
            return cast("Any", leaf)
        raise no_output(self.signature.name, path, leaf)


def no_output(function: str, path: str, leaf: object) -> CaptureError:
    """The error for a leaf of a function's outputs that is neither an array nor a number."""
    return CaptureError(
        what=f"output {path} of {function}" if path else f"output of {function}",
        message=f"{an(type(leaf).__name__)} is no array",
        where=user_location(),
        remedy="return pytrees of arrays and numbers only.",
    )


def _check_next(what: str, found: Mapping[str, Any], specs: Mapping[str, ArraySpec]) -> None:
    """CaptureError, DTypeError or ShapeError where what an output gives is not the next value of an argument."""
    where, remedy = user_location(), "give the place where the outputs have the next value of the argument."
    for path, item in found.items():
        if path not in specs:
            known = ", ".join(specs) or "no arrays"
            message = f"it has the leaf {path!r}, and the argument {known}"
            raise CaptureError(what=what, message=message, where=where, remedy=remedy)
        if isinstance(item, Tracer):
            mine, its, name = item.spec, specs[path], f"{what} for {path}"
            if mine.dtype is not its.dtype:
                raise DTypeError(what=name, actual=mine.dtype, expected=its.dtype, where=where, remedy=remedy)
            if mine.shape != its.shape:
                raise ShapeError(what=name, actual=mine.shape, expected=its.shape, where=where, remedy=remedy)


def _part(tree: Any, place: Sequence[str], what: str) -> Any:
    """The subtree at a place."""
    for head in place:
        if isinstance(tree, dict) and head in tree:
            tree = cast("dict[str, Any]", tree)[head]
        elif isinstance(tree, (tuple, list)) and head.isdecimal() and int(head) < len(cast("Sequence[Any]", tree)):
            tree = cast("Sequence[Any]", tree)[int(head)]
        else:
            message = f"the outputs have no part {'.'.join(place)!r}"
            remedy = 'name a part as its path goes, such as "1" or "cache.k"; "" is all of them.'
            raise CaptureError(what=what, message=message, where=user_location(), remedy=remedy)
    return tree


def _without(tree: Any, places: Set[tuple[str, ...]]) -> Any:
    """The tree without the subtrees at places in it; the one item that is left of a tuple stands for the tuple."""
    gone = {place[0] for place in places if len(place) == 1}

    def left(head: str, child: Any) -> Any:
        inner = {place[1:] for place in places if place[0] == head}
        return _without(child, inner) if inner else child

    if isinstance(tree, dict):
        children = cast("dict[Any, Any]", tree)
        return {key: left(str(key), child) for key, child in children.items() if key not in gone}
    numbered = ((str(number), item) for number, item in enumerate(cast("Sequence[Any]", tree)))
    items = [left(head, item) for head, item in numbered if head not in gone]
    return items[0] if gone and len(items) == 1 else items if isinstance(tree, list) else tuple(items)
