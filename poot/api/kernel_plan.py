"""From the checked arguments of a launch to a kernel loaded on a device, on a grid that the device takes."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import TypeAlias

from poot import forks
from poot.api.kernel_arguments import Checked, fail
from poot.backends.device import DeviceBackend, LaunchSpec, Loaded
from poot.backends.progress import working
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.dtypes import ArraySpec, i32, i64
from poot.errors import ArgumentError, KernelFault, LaunchError, SourceLocation, Unsupported
from poot.kernel.faults import fault_error
from poot.kernel.grid import fold_sizes, folded
from poot.kernel.ir import BufferParam, Kernel
from poot.kernel.parse.definition import Definition, Size, Triple, definition, triple
from poot.kernel.parse.specialise import Layout, Request, Specialised, constant_key, specialise
from poot.kernel.pipeline import prepare
from poot.plan.legal import SPLIT
from poot.target import Target
from poot.trace.source import user_location

_KEPT = 256
#: Threads of a work-group where the target chooses, and how far its first axis goes where there are more.
_THREADS, _ROW = 256, 32
#: Extents, strides and grids from here on need 64-bit indices.
WIDE = 1 << 31
#: Threads from here on are past what a launch counts on every device.
MOST = 1 << 53
#: The kinds of slot that a launch gives numbers for.
_NUMBERED = ("scalar", "extent", "stride", "threads")


# --- grids ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch as it was asked for: threads or work-groups, and a work-group if one is stated."""

    threads: Triple | None
    groups: Triple | None
    axes: int
    workgroup: Triple | None

    def size(self, kernel: str, target: Target) -> Triple:
        """The work-group: the stated one, else one that suits the target and the shape of the grid."""
        if self.workgroup is not None:
            return self.workgroup
        if self.threads is None:
            fail(
                kernel,
                "groups= without a work-group",
                "state one: @poot.kernel(workgroup=256), or workgroup= at the launch.",
            )
        most = min(_THREADS, dict(target.limits).get("workgroup_invocations", _THREADS))
        if self.axes == 1:
            return most, 1, 1
        x = min(_ROW, most, _power_above(self.threads[0]))
        y = min(most // x, _power_above(self.threads[1]))
        z = min(most // (x * y), _power_above(self.threads[2])) if self.axes == 3 else 1
        return x, y, z

    def counts(self, kernel: str, size: Triple, cooperative: bool) -> tuple[Triple, Triple]:
        """Threads and work-groups on each axis."""
        if self.groups is not None:
            x, y, z = (group * width for group, width in zip(self.groups, size, strict=True))
            return (x, y, z), self.groups
        assert self.threads is not None
        if cooperative:
            for axis, (count, width) in enumerate(zip(self.threads, size, strict=True)):
                if count % width:
                    fail(
                        kernel,
                        f"{count} threads on axis {'xyz'[axis]} are no multiple of the work-group's {width}, but the "
                        "kernel has barriers, collectives or shared arrays",
                        f"launch whole work-groups: groups={-(-count // width)} on that axis, or "
                        f"threads={-(-count // width) * width}.",
                    )
        x, y, z = (-(-count // width) for count, width in zip(self.threads, size, strict=True))
        return self.threads, (x, y, z)


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def grid(kernel: str, threads: Size | None, groups: Size | None, workgroup: Triple | None) -> Grid:
    """Read `threads=` and `groups=`; LaunchError unless exactly one is given."""
    if (threads is None) == (groups is None):
        what = "neither threads= nor groups= is given" if threads is None else "both threads= and groups= are given"
        fail(kernel, what, "give one: threads=n starts n threads, groups=n whole work-groups.")
    given = groups if threads is None else threads
    assert given is not None
    word = "groups" if threads is None else "threads"
    try:
        sizes = triple(given, word, least=0)
    except ArgumentError:
        fail(kernel, f"{word}={given!r}", "give one to three integers that are not negative, x first.")
    total = math.prod(sizes) * (math.prod(workgroup) if threads is None and workgroup is not None else 1)
    if total >= MOST:
        fail(kernel, f"{word}={given!r} starts {total} threads", "launch fewer than 2**53 at once.")
    axes = len(given) if isinstance(given, tuple) else 1
    return Grid(None if threads is None else sizes, None if groups is None else sizes, axes, workgroup)


# --- specialisations ------------------------------------------------------------------------------------------------


class Specialisations:
    """The parsed forms of one kernel, by what they make constant; each as good as the names that it read."""

    def __init__(self, made: Definition) -> None:
        self.definition = made
        self._code: CodeType = made.function.__code__
        self._kept: OrderedDict[Hashable, Specialised] = OrderedDict()
        self._lock = forks.lock()

    def get(self, request: Request) -> Specialised:
        """The kernel for a request, parsed anew where anything that it read means something else by now."""
        key = (
            tuple(request.variables.items()),
            tuple((name, constant_key(value)) for name, value in request.consts.items()),
            tuple(request.layouts),
            request.workgroup,
            request.stated,
            request.axes,
            request.index_dtype,
        )
        with self._lock:
            self._follow()
            found = self._kept.get(key)
        if found is None or not found.guards.hold():
            found = specialise(self.definition, request)
        with self._lock:
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _follow(self) -> None:
        """Read the function again where a reloader has given it a new body."""
        old = self.definition
        if old.function.__code__ is not self._code:
            self.definition = definition(
                old.function, workgroup=old.workgroup, unchecked=old.unchecked, name=old.name, around={}
            )
            self._code = old.function.__code__


# --- plans ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scalar:
    """The number that a launch gives for the kernel's scalar parameter of this rank among scalars."""

    rank: int


#: Where a slot's number comes from.
Source: TypeAlias = "Scalar | int"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One kernel on one device and grid, for arguments of one form.

    `numbers` says what the scalar, extent, stride and threads slots take.
    """

    kernel: Kernel
    specialised: Specialised
    loaded: Loaded
    groups: Triple
    numbers: tuple[Source, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to run."""
        return 0 in self.groups

    @property
    def may_fault(self) -> bool:
        return bool(self.loaded.compiled.sites)

    def spec(self, scalars: Sequence[int | float]) -> LaunchSpec:
        """The launch with its buffers at the positions of the table in their order."""
        buffers = tuple((number, 0) for number in range(len(self.kernel.buffers)))
        numbers = tuple(scalars[item.rank] if isinstance(item, Scalar) else item for item in self.numbers)
        return LaunchSpec(self.loaded, buffers, self.groups, numbers)

    @property
    def scalar_sources(self) -> tuple[Source, ...]:
        """Where the numbers of the scalar slots alone come from."""
        kinds = [slot.kind for slot in self.loaded.compiled.slots if slot.kind in _NUMBERED]
        return tuple(item for item, kind in zip(self.numbers, kinds, strict=True) if kind == "scalar")

    def fault(self, record: Sequence[int], where: SourceLocation | None) -> KernelFault:
        """The error for a claimed fault record, at this kernel's own lines, with the launch's line as a note."""
        target = self.loaded.compiled.target
        error = fault_error(prepare(self.kernel, target), record)
        if where is not None:
            error.add_note(f"  launched at {where}")
        return error


def plan(
    specialisations: Specialisations,
    checked: Checked,
    asked: Grid,
    device: DeviceBackend,
    layouts: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]],
) -> Plan:
    """Specialise, compile and load.

    `layouts` gives each buffer's shape, strides in elements, and alignment in bytes.  LaunchError, KernelError,
    Unsupported or CompileError say why the kernel cannot run; nothing has run then.
    """
    made = specialisations.definition
    size = asked.size(made.name, device.target)
    threads = asked.threads or tuple(group * width for group, width in zip(asked.groups or (), size, strict=True))
    groups = [-(-count // width) for count, width in zip(threads, size, strict=True)]
    numbers = [*threads, groups[0] * groups[1] * groups[2]]
    for shape, strides, _ in layouts:
        numbers += [*shape, *map(abs, strides)]
    request = Request(
        checked.variables,
        checked.consts,
        [Layout(not strides or strides[-1] == 1, align) for _, strides, align in layouts],
        size,
        asked.workgroup is not None,
        asked.axes,
        i64 if max(numbers) >= WIDE else i32,
    )
    specialised = specialisations.get(request)
    check_sizes(specialised.kernel, [shape for shape, _, _ in layouts], device.target)
    counts, launched = asked.counts(made.name, size, specialised.cooperative)
    kernel, physical, extra = specialised.kernel, launched, list[int]()
    limit = dict(device.target.limits).get("grid")
    sizes = None if limit is None else fold_sizes(launched, limit)
    if sizes is not None:
        kernel, physical = folded(kernel), sizes
        if physical[2] > (limit or 0):
            fail(made.name, f"a grid of {launched} work-groups is past what {device.name} can launch", "launch fewer.")
        bounds = specialised.kernel.threads or ()
        extra = [*launched, *(counts[axis] for axis, bound in enumerate(bounds) if bound is None)]
    with working(f"compiling {made.name}"):
        loaded = load(compile_kernel(kernel, device.target), device)
    return Plan(kernel, specialised, loaded, physical, _sources(loaded.compiled, layouts, counts, extra))


def check_sizes(kernel: Kernel, shapes: Sequence[tuple[int, ...]], target: Target) -> None:
    """Unsupported where an array is larger than a buffer that the target binds."""
    largest = dict(target.limits).get("binding_bytes")
    for param, shape in zip(kernel.buffers, shapes, strict=True):
        spec = ArraySpec(param.dtype, shape)
        if largest is not None and spec.nbytes > largest:
            raise Unsupported(
                what=f"`{param.name}` of kernel {kernel.name}",
                target=target,
                message=f"{spec} takes {spec.nbytes} bytes, and its buffers hold {largest}",
                where=user_location(),
                remedy=SPLIT,
            )


def _sources(
    compiled: CompiledKernel,
    layouts: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]],
    counts: Triple,
    extra: Sequence[int],
) -> tuple[Source, ...]:
    """What each number slot of a kernel takes; `extra` are the scalars that a folded kernel has at its end."""
    place = {param.name: layout for param, layout in zip(compiled.kernel.buffers, layouts, strict=True)}
    scalars = [param.name for param in compiled.kernel.params if not isinstance(param, BufferParam)]
    ranks: dict[str, Source] = {name: Scalar(rank) for rank, name in enumerate(scalars)}
    ranks.update(zip(scalars[len(scalars) - len(extra) :], extra, strict=True))
    found: list[Source] = []
    for slot in compiled.slots:
        match slot.kind:
            case "scalar":
                found.append(ranks[slot.param])
            case "extent":
                found.append(place[slot.param][0][slot.axis])
            case "stride":
                found.append(place[slot.param][1][slot.axis])
            case "threads":
                found.append(counts[slot.axis])
            case _:
                pass
    return tuple(found)


# --- loaded kernels -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Shelf:
    """Kernels loaded on devices, least recently used out first."""

    lock: threading.RLock = field(default_factory=forks.lock)
    kept: OrderedDict[tuple[int, int], tuple[DeviceBackend, Loaded]] = field(
        default_factory=OrderedDict[tuple[int, int], tuple[DeviceBackend, Loaded]]
    )


_SHELF = _Shelf()
_LOADED = 1024


def load(compiled: CompiledKernel, device: DeviceBackend) -> Loaded:
    """A compiled kernel on a device, loaded once."""
    key = id(compiled), id(device)
    with _SHELF.lock:
        found = _SHELF.kept.get(key)
        if found is not None:
            _SHELF.kept.move_to_end(key)
            return found[1]
    loaded = device.load(compiled)
    with _SHELF.lock:
        _SHELF.kept[key] = device, loaded  # the loaded kernel keeps `compiled`, and so its id, alive
        while len(_SHELF.kept) > _LOADED:
            _SHELF.kept.popitem(last=False)
    return loaded


def refuse_overlap(kernel: str, written: str, other: str) -> LaunchError:
    """The error where an output shares memory with another argument."""
    return LaunchError(
        kernel=kernel,
        message=f"the output `{written}` shares memory with `{other}`",
        where=user_location(),
        remedy="write to another array, or pass one array as a single InOut.",
    )
