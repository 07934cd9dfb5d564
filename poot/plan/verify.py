"""Verification: that a program, wherever it comes from, keeps to its own buffers.

Kernels of the planner access buffers without checks, since their indices are right by construction.  For a program that
was read from a file that has to be shown anew: every number in its steps and storage is checked, and every access of a
kernel is proven in bounds by range analysis under the grids that it is launched with.  Where the proof fails the kernel
is kept with run-time checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from poot.dtypes import bool_, i32
from poot.errors import SerialisationError
from poot.kernel.check import check
from poot.kernel.expand import expand_kernel
from poot.kernel.ir import Atomic, BufferParam, Const, Expr, Index, Kernel, Load, Op, Store, walk
from poot.kernel.simplify import simplify
from poot.plan.program import Binding, Branch, Copy, Launch, Loop, Program, Slot, Step

T = TypeVar("T")

#: What a kernel may be called: its name stands in the text that is compiled.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_MOST_BYTES = 1 << 62


def verify(program: Program) -> tuple[Kernel, ...]:
    """The kernels of a program that is safe to run; SerialisationError for one that is not."""
    for kernel in program.kernels:
        _require(_NAME.fullmatch(kernel.name) is not None, "a kernel has no plain name")
        check(kernel, program.target)
        sizes = [size for size in kernel.threads or () if size is not None]
        _require(all(size <= kernel.index_dtype.max for size in sizes), "a kernel has too many threads")
        for node in walk(kernel.body):
            named = isinstance(node, Index) and bool(node.buffer) != (node.kind in ("extent", "stride"))
            _require(not named, "an index number names a buffer that it does not speak of")
    _storage(program)
    launches = [*_steps(program, program.prologue, once=True), *_steps(program, program.steps, once=False)]
    _named(program)
    _told(program, len(program.launches))
    grids: dict[int, dict[tuple[int, int, int], None]] = {}
    for launch in launches:
        grids.setdefault(launch.kernel, {})[launch.groups] = None
    return tuple(_bounded(kernel, tuple(grids.get(number, ()))) for number, kernel in enumerate(program.kernels))


def _fail(message: str) -> SerialisationError:
    return SerialisationError(what="program", message=message)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _fail(message)


def _item(items: Sequence[T], number: object, what: str) -> T:
    if type(number) is not int or not 0 <= number < len(items):
        raise _fail(f"there is no {what} {number!r}")
    return items[number]


# --- storage and steps ------------------------------------------------------------------------------------------------


def _storage(program: Program) -> None:
    storage = program.storage
    sizes = storage.arena_bytes, storage.liveness_bound, storage.prologue_bytes
    _require(all(0 <= size < _MOST_BYTES for size in sizes), "the arena has no size")
    for slot in storage.slots:
        _require(slot.nbytes < _MOST_BYTES, "a slot is too large")
        if slot.role == "scratch":
            _require(slot.offset >= 0 and slot.offset % slot.spec.dtype.itemsize == 0, "a slot has no place")
        else:
            _require(slot.offset == -1, f"{slot.role} {slot.name!r} has a place in the arena")


def _placed(program: Program, slot: Slot, *, once: bool) -> None:
    """A slot that a step uses lies in the arena that the step has; the prologue uses constants and what it has made."""
    storage = program.storage
    arena = storage.prologue_bytes if once else storage.arena_bytes
    if slot.role == "scratch":
        _require(slot.offset <= arena - slot.nbytes, "a slot lies outside the arena")
    elif once:
        _require(slot.role in ("constant", "input", "kept"), f"the prologue uses {slot.role} {slot.name!r}")


def _named(program: Program) -> None:
    """Bound slots are the graph's variables, and outputs and updates have the specs of the graph's."""
    graph, slots = program.graph, program.storage.slots
    roles = (("constant", graph.constants), ("input", graph.inputs), ("state", graph.states))
    known = {(role, variable.name): variable.spec for role, variables in roles for variable in variables}
    for slot in slots:
        if slot.role in ("constant", "input", "state"):
            _require(known.get((slot.role, slot.name)) == slot.spec, f"{slot.role} {slot.name!r} is not the graph's")
    _require(len(program.outputs) == len(graph.outputs), "it has other outputs than its graph")
    for number, atom in zip(program.outputs, graph.outputs, strict=True):
        slot = _item(slots, number, "slot")
        _require(slot.role == "output" and slot.spec == atom.spec, "an output has another type than the graph's")
    updates = dict(graph.updates)
    _require(len(updates) == len(program.updates), "it has other updates than its graph")
    for name, number in program.updates:
        slot = _item(slots, number, "slot")
        own = slot.role != "state" or slot.name == name
        fits = own and name in updates and slot.spec.nbytes == updates[name].spec.nbytes
        _require(fits, f"an update of {name!r} is wrong")
    _require(len(program.equation_plans) == len(graph.equations), "it tells of other equations than its graph's")


def _told(program: Program, launches: int) -> None:
    """What the program tells of its equations: each pass starts from what the one before has left."""
    for plan in program.equation_plans:
        _require(-1 <= plan.launch < launches, f"there is no launch {plan.launch}")
    count = len(program.graph.equations)
    for record in program.passes:
        _require(record.equations_before == count, f"pass {record.name!r} starts from another number of equations")
        for number in (*record.origins, *(removed.equation for removed in record.removed)):
            _require(0 <= number < count, f"pass {record.name!r} has no equation {number} before it")
        count = record.equations_after
        _require(len(record.origins) in (0, count), f"pass {record.name!r} leaves another number of equations")
    _require(count == len(program.planned.equations), "the passes leave another number of equations than are planned")


def _steps(program: Program, steps: Sequence[Step], *, once: bool) -> Iterator[Launch]:
    slots = program.storage.slots
    for step in steps:
        match step:
            case Launch():
                _launch(program, step, once=once)
                yield step
            case Copy():
                source, target = _item(slots, step.source, "slot"), _item(slots, step.target, "slot")
                _require(source.nbytes == target.nbytes, "a copy is between slots of different sizes")
                _placed(program, source, once=once)
                _writable(program, target, once=once)
            case Branch():
                _scalar(program, step.predicate, bool_, i32)
                first, second = step.blocks
                yield from _steps(program, first, once=once)
                yield from _steps(program, second, once=once)
            case Loop():
                _require(-1 <= step.trip_count <= i32.max, "a loop has no number of turns")
                if step.trip_count < 0:
                    _scalar(program, step.predicate, bool_)
                if step.counter != -1:
                    _writable(program, _scalar(program, step.counter, i32), once=once)
                yield from _steps(program, step.condition, once=once)
                yield from _steps(program, step.body, once=once)


def _scalar(program: Program, number: int, *dtypes: Any) -> Slot:
    slot = _item(program.storage.slots, number, "slot")
    _require(slot.spec.size == 1 and slot.spec.dtype in dtypes, "a predicate or counter has the wrong type")
    _placed(program, slot, once=False)
    return slot


def _writable(program: Program, slot: Slot, *, once: bool) -> None:
    roles = ("kept", "scratch") if once else ("output", "scratch")
    donated = not once and slot.role == "state" and slot.name in program.in_place
    _require(donated or slot.role in roles, f"{slot.role} {slot.name!r} is written")
    _placed(program, slot, once=once)


def _launch(program: Program, launch: Launch, *, once: bool) -> None:
    kernel = _item(program.kernels, launch.kernel, "kernel")
    limit = program.target.limit("grid")
    grid = cast("tuple[Any, ...]", launch.groups)
    _require(len(grid) == 3 and all(type(g) is int and 1 <= g <= limit for g in grid), "a grid has the wrong size")
    _require(len(kernel.params) == len(kernel.buffers) == len(launch.bindings), "a launch binds other buffers")
    _require(kernel.threads is None or None not in kernel.threads, "a kernel has a run-time number of threads")
    for param, binding in zip(kernel.buffers, launch.bindings, strict=True):
        _binding(program, param, binding, once=once)
    _require(launch.flops >= -1, "a launch has no number of operations")
    for number in launch.equations:
        _item(program.planned.equations, number, "equation")
    _require(bool(launch.equations) or not launch.inside, "a launch is inside of no equation")
    equations = [program.planned.equations[number] for number in launch.equations[:1]]
    for region, number in launch.inside:
        equations = [_item(_item(equations[0].regions, region, "region").equations, number, "equation")]


def _binding(program: Program, param: BufferParam, binding: Binding, *, once: bool) -> None:
    slot = _item(program.storage.slots, binding.slot, "slot")
    _placed(program, slot, once=once)
    _require(slot.spec.dtype is param.dtype, f"{param.name} is bound to a slot of another dtype")
    _require(type(binding.offset) is int and binding.offset >= 0, "a binding has no offset")
    last = binding.offset
    for size, stride in zip(param.shape, param.strides, strict=True):
        known = type(size) is int and type(stride) is int and size >= 0 and stride >= 0
        _require(known, f"{param.name} has no fixed shape")
        last += (max(cast("int", size), 1) - 1) * cast("int", stride)
    empty = 0 in param.shape
    _require(empty or last < slot.spec.size, f"{param.name} is larger than its slot")
    promised = param.align <= 1 or (param.align <= 64 and binding.offset == 0 and slot.offset % param.align in (0, -1))
    _require(promised or slot.role != "scratch", f"{param.name} is not aligned")
    if param.access != "read":
        _writable(program, slot, once=once)


# --- kernels ----------------------------------------------------------------------------------------------------------


def _bounded(kernel: Kernel, grids: Sequence[tuple[int, int, int]]) -> Kernel:
    """The kernel as it is, if all its unchecked accesses are in bounds; else with checks."""
    careful = _rewritten(kernel, None)
    for grid in grids:
        proven = simplify(expand_kernel(_rewritten(kernel, grid)))
        wanted = sum(_checked(node) for node in walk(kernel.body))
        if sum(_checked(node) for node in walk(proven.body)) > wanted:
            return careful
    return kernel


def _checked(node: object) -> bool:
    return isinstance(node, (Load, Store, Atomic)) and node.checked


def _rewritten(kernel: Kernel, grid: tuple[int, int, int] | None) -> Kernel:
    """Every access checked; and, for a proof, the numbers of groups with the bounds that the grid gives them."""

    def change(node: Any) -> Any:
        if isinstance(node, tuple):
            return tuple(change(item) for item in cast("tuple[Any, ...]", node))
        if isinstance(node, Index) and node.kind == "group" and grid is not None:
            return _clamped(node, grid[node.axis])
        if not hasattr(node, "__dataclass_fields__") or isinstance(node, (Const, Index)):
            return node
        changes = {
            name: change(value)
            for name in node.__dataclass_fields__
            if isinstance(value := getattr(node, name), tuple) or hasattr(value, "__dataclass_fields__")
        }
        if isinstance(node, (Load, Store, Atomic)):
            changes["checked"] = True
        changes.pop("where", None)
        return replace(node, **changes)

    return replace(kernel, body=change(kernel.body))


def _clamped(index: Index, groups: int) -> Expr:
    dtype = index.dtype
    below = Op("min", (index, Const(groups - 1, dtype)), dtype)
    return Op("max", (below, Const(0, dtype)), dtype)
