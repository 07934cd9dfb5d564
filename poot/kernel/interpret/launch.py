"""Launching the interpreter: arguments, the cut of a grid into chunks, and the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from poot.errors import LaunchError
from poot.kernel.interpret.affine import Value
from poot.kernel.interpret.frame import AXES, Faults, Frame
from poot.kernel.interpret.lanes import Translator
from poot.kernel.interpret.races import Watch
from poot.kernel.interpret.space import Array, Space
from poot.kernel.ir import Alloc, Barrier, BufferParam, Collective, Index, Kernel, Slot, argument_slots, walk

#: Lanes that run at once, unless one work-group has more.
CHUNK = 1 << 16

#: The kinds of slot that `run` takes arguments for; it knows the rest itself.
BOUND_SLOTS = ("buffer", "scalar", "extent", "stride", "threads")

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BufferView:
    """A buffer argument: flat contiguous storage, and the number of the first element in it."""

    storage: Array
    offset: int = 0


def run(
    kernel: Kernel,
    arguments: Sequence[object],
    *,
    groups: Triple,
    fault: npt.NDArray[np.int32] | None = None,
    launch: int = 0,
    checks: bool = False,
) -> None:
    """Run a prepared kernel once; see `Interpreter.run`."""
    Interpreter(kernel).run(arguments, groups=groups, fault=fault, launch=launch, checks=checks)


def bind(kernel: Kernel, values: Mapping[str, Any], *, threads: Sequence[int] = ()) -> list[object]:
    """Arguments for `run` from arrays and scalars by parameter name; arrays may be strided, and are not copied.

    `threads` gives the run-time axes of `kernel.threads`, in order.
    """
    rest = iter(threads)
    arguments: list[object] = []
    for slot in argument_slots(kernel):
        match slot.kind:
            case "buffer":
                arguments.append(_flat(kernel, slot, values[slot.param]))
            case "scalar":
                arguments.append(values[slot.param])
            case "extent":
                arguments.append(int(values[slot.param].shape[slot.axis]))
            case "stride":
                array: Array = values[slot.param]
                arguments.append(array.strides[slot.axis] // array.itemsize)
            case "threads":
                arguments.append(next(rest))
            case _:
                pass
    return arguments


def _flat(kernel: Kernel, slot: Slot, array: Array) -> BufferView:
    """The elements between the first and the last that an array touches, as one flat view of its memory."""
    size = array.itemsize
    if any(stride % size for stride in array.strides):
        raise _error(kernel, f"`{slot.param}` has strides {array.strides} that are no multiples of its {size} bytes")
    if not array.size:
        return BufferView(np.empty(0, array.dtype))
    if not array.ndim:
        return BufferView(array.reshape(1))
    reach = [(count - 1) * stride // size for count, stride in zip(array.shape, array.strides, strict=True)]
    before = -sum(step for step in reach if step < 0)
    count = before + sum(step for step in reach if step > 0) + 1
    corner = array[tuple(slice(-1, None) if step < 0 else slice(0, 1) for step in reach)]
    return BufferView(np.lib.stride_tricks.as_strided(corner, (count,), (size,)), before)


def _error(kernel: Kernel, message: str) -> LaunchError:
    return LaunchError(kernel=kernel.name, message=message, where=kernel.where)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The arguments of one launch, sorted."""

    views: Mapping[str, tuple[BufferView, tuple[int, ...], tuple[int, ...]]]
    scalars: Mapping[str, Value]
    threads: Triple


class Interpreter:
    """A kernel made ready to run any number of times."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._body = Translator(kernel).block(kernel.body)
        self._slots = [slot for slot in argument_slots(kernel) if slot.kind in BOUND_SLOTS]
        numbers = [node for node in walk(kernel.body) if isinstance(node, Index)]
        self._split = {n.axis for n in numbers if n.kind in ("group", "local") and kernel.workgroup[n.axis] > 1}
        self._together = any(
            isinstance(node, (Barrier, Collective)) or (isinstance(node, Alloc) and node.space == "shared")
            for node in walk(kernel.body)
        )

    def run(
        self,
        arguments: Sequence[object],
        *,
        groups: Triple,
        fault: npt.NDArray[np.int32] | None = None,
        launch: int = 0,
        checks: bool = False,
    ) -> None:
        """Run all lanes of the groups.

        `arguments` follow `argument_slots(kernel)` up to the launch's own numbers, which come by name: a buffer is a
        `BufferView`, or a flat contiguous array from its first element on.  The first failed check is kept in `fault`,
        a record as `ir.FAULT_WORDS` describes; without one it is raised.  LaunchError where arguments do not fit.

        `checks` raises KernelError where threads race for an element of a shared array or buffer (a missing barrier
        among them), and where a shared or private array is read before it is written; it takes many times as long.
        """
        bound = self._bind(arguments, groups)
        faults = Faults(self.kernel, launch, fault)
        watch = Watch() if checks else None
        with np.errstate(all="ignore"):
            for axes in self._chunks(groups, bound.threads):
                space = Space.of(axes)
                frame = Frame(self.kernel, space, True, faults, groups, bound.threads, dict(bound.scalars), watch)
                for name, (view, extents, strides) in bound.views.items():
                    frame.array(name, "buffer", view.storage, extents, strides, view.offset)
                if watch is not None:
                    watch.enter(frame)
                self._body(frame)

    # --- arguments ---

    def _bind(self, arguments: Sequence[object], groups: Triple) -> _Bound:
        if len(arguments) != len(self._slots):
            raise _error(self.kernel, f"{len(arguments)} arguments given, {len(self._slots)} expected")
        given = {(s.kind, s.param, s.axis): a for s, a in zip(self._slots, arguments, strict=True)}
        views: dict[str, tuple[BufferView, tuple[int, ...], tuple[int, ...]]] = {}
        scalars: dict[str, Value] = {}
        for param in self.kernel.params:
            if isinstance(param, BufferParam):
                views[param.name] = self._buffer(param, given)
            else:
                scalars[param.name] = param.dtype.dtype.type(given["scalar", param.name, 0])
        return _Bound(views, scalars, self._threads(given, groups))

    def _buffer(
        self, param: BufferParam, given: Mapping[tuple[str, str, int], Any]
    ) -> tuple[BufferView, tuple[int, ...], tuple[int, ...]]:
        value = given["buffer", param.name, 0]
        view = value if isinstance(value, BufferView) else BufferView(value)
        storage = view.storage
        if storage.dtype != param.dtype.dtype or storage.ndim != 1 or not storage.flags.c_contiguous:
            raise _error(
                self.kernel, f"`{param.name}` is {storage.dtype}{storage.shape}, expected flat contiguous {param.dtype}"
            )
        if param.access != "read" and not storage.flags.writeable:
            raise _error(self.kernel, f"`{param.name}` is read-only memory, and the kernel writes it")
        extents = tuple(
            int(given["extent", param.name, axis]) if extent is None else extent
            for axis, extent in enumerate(param.shape)
        )
        strides = tuple(
            int(given["stride", param.name, axis]) if stride is None else stride
            for axis, stride in enumerate(param.strides)
        )
        largest = self.kernel.index_dtype.max
        if any(not 0 <= extent <= largest for extent in extents) or any(abs(stride) > largest for stride in strides):
            raise _error(
                self.kernel,
                f"`{param.name}` has extents {extents} and strides {strides}, which {self.kernel.index_dtype} indices "
                "cannot hold",
            )
        if min(extents, default=1) > 0:
            reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
            low = view.offset + sum(step for step in reach if step < 0)
            high = view.offset + sum(step for step in reach if step > 0)
            if low < 0 or high >= storage.size:
                raise _error(
                    self.kernel,
                    f"`{param.name}` has {storage.size} elements of memory, fewer than its extents {extents} and "
                    f"strides {strides} reach",
                )
        return view, extents, strides

    def _threads(self, given: Mapping[tuple[str, str, int], Any], groups: Triple) -> Triple:
        """The number of threads on each axis; launches by groups run all of theirs."""
        kernel = self.kernel
        counts: list[int] = []
        for axis, (size, number) in enumerate(zip(kernel.workgroup, groups, strict=True)):
            bound = None if kernel.threads is None else kernel.threads[axis]
            if kernel.threads is not None and bound is None:
                bound = int(given["threads", "", axis])
            count = size * number if bound is None else min(bound, size * number)
            if self._together and count % size:
                raise _error(kernel, f"{count} threads on axis {axis} are no multiple of the work-group's {size}")
            if count > kernel.index_dtype.max:
                raise _error(kernel, f"{count} threads on axis {axis} are more than {kernel.index_dtype} counts")
            counts.append(count)
        return counts[0], counts[1], counts[2]

    # --- chunks ---

    def _chunks(self, groups: Triple, threads: Triple) -> Iterator[dict[str, tuple[int, int]]]:
        """The axes of each chunk, outermost first, as `Space.of` takes them.

        Groups whose threads act together stand outside all of their threads.  Independent threads are counted by group
        and local number where the kernel asks for those, if all groups are whole, and by thread number elsewhere.
        """
        sizes = self.kernel.workgroup
        split = [self._together or (a in self._split and threads[a] % sizes[a] == 0) for a in range(3)]
        units = [size if apart else 1 for size, apart in zip(sizes, split, strict=True)]
        x, y, z = (count // unit for count, unit in zip(threads, units, strict=True))
        for box in _boxes((x, y, z), max(1, CHUNK // math.prod(units))):
            outer = {f"{'group' if split[a] else 'thread'} {AXES[a]}": box[a] for a in (2, 1, 0)}
            inner = {f"local {AXES[a]}": (0, units[a]) for a in (2, 1, 0) if split[a]}
            axes = outer | inner
            yield axes if self._together else dict(sorted(axes.items(), key=_by_thread))


def _by_thread(axis: tuple[str, tuple[int, int]]) -> tuple[int, bool]:
    """The order of array axes for independent threads: by axis of the grid from z to x, groups outside locals."""
    kind, _, name = axis[0].partition(" ")
    return -AXES.index(name), kind == "local"


def _boxes(counts: Triple, limit: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Cut a grid (x first) into boxes of (start, count) an axis, at most `limit` points each, in linear order."""
    if min(counts) == 0:
        return
    sides: list[int] = []
    for count in counts:
        sides.append(min(count, max(1, limit)))
        limit = limit // count if sides[-1] == count else 1
    x, y, z = sides
    for z0 in range(0, counts[2], z):
        for y0 in range(0, counts[1], y):
            for x0 in range(0, counts[0], x):
                yield (
                    (x0, min(x, counts[0] - x0)),
                    (y0, min(y, counts[1] - y0)),
                    (z0, min(z, counts[2] - z0)),
                )
