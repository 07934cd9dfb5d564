"""Joins: whether an equation may become part of a group, and what that makes of the group.

Each function either adds the equation and returns "", or leaves the group as it was and returns the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from poot.dtypes import i32, i64
from poot.plan import cost
from poot.plan.elements import Probe, probe
from poot.plan.emitter import Emitter
from poot.plan.groups import Group, Places, known_axes
from poot.plan.indexing import ZERO, Affine, Axis, Indices, Space, axes_for, dense, flatten, loops_of, of_axis, whole
from poot.plan.operands import as_operand
from poot.plan.updates import reads_updated
from poot.records import record
from poot.trace.graph import Equation, Literal, Value
from poot.trace.primitives import Contraction, Elementwise, Pull, Reduction, lookup
from poot.trace.primitives.contract import dimension_numbers, free_axes

#: Rules that pull from rules that pull … are evaluated by recursion; a group goes no deeper than this.
_DEPTH = 24
#: Equations looked back through for a reduction.
_LOOK_BACK = 24


@dataclass(frozen=True, slots=True)
class Setting:
    """What joins need to know: index axes, costs, the most buffers of a kernel, and what makes each value."""

    space: Space
    costs: cost.Costs
    buffers: int
    makers: Mapping[int, Equation]


@record
class Reading:
    """One operand of a candidate: where it would be read."""

    value: Value
    places: Places
    checked: bool = False
    conditional: bool = False


# --- what an equation reads ------------------------------------------------------------------------------------------


def probes(setting: Setting, equation: Equation, rule: Pull, places: Iterable[Indices]) -> list[Probe]:
    """What a rule does at each of some places."""
    found: list[Probe] = []
    wide = any(atom.spec.size >= 1 << 31 for atom in (*equation.inputs, *equation.outputs))
    dtype = i64 if wide else i32
    for index in places:
        first = probe(Emitter("probe", setting.space, index_dtype=dtype, probing=True), equation, rule, index)
        if first.imperative:
            k = Emitter("probe", setting.space, index_dtype=dtype, probing=True)
            k.transparent = False
            first = probe(k, equation, rule, index)
        found.append(first)
    return found


def readings_of(
    setting: Setting, group: Group, equation: Equation, places: Sequence[Indices]
) -> tuple[list[Reading], list[Probe]]:
    """The operands of a MAP or Pull, read for results at some places."""
    rule = lookup(equation.primitive).lower
    if isinstance(rule, Elementwise):
        return [Reading(a, list(places) if a.shape else [()]) for a in equation.inputs if isinstance(a, Value)], []
    assert isinstance(rule, Pull)
    found = probes(setting, equation, rule, places)
    readings: list[Reading] = []
    for result in found:
        for read in result.reads:
            value = equation.inputs[read.operand]
            if isinstance(value, Value):
                known = known_axes(group, read.index) and not read.checked
                plain = result.view or result.constant
                readings.append(Reading(value, [read.index] if known else None, read.checked, not plain))
    return readings, found


# --- what every join asks --------------------------------------------------------------------------------------------


def room(setting: Setting, group: Group, equation: Equation, readings: Sequence[Reading], output: bool) -> str:
    """Whether the group has room for an equation's operands and work."""
    reads = set(group.reads) - {value.id for value in equation.outputs}
    reads.update(reading.value.id for reading in readings)
    checked = group.checked | {reading.value.id for reading in readings if reading.checked}
    bindings = len(reads) + len(checked) + len(group.outputs) + output
    if bindings > setting.buffers:
        return f"{bindings} buffers and the fault record are more than the {setting.buffers + 1} that the target binds"
    if group.weight + cost.weight(equation.primitive) > setting.costs.group_weight:
        return "the kernel would be too large"
    if len(group.members) >= setting.costs.group_equations:
        return "the kernel would have too many equations"
    if "fault" in equation.effects and group.faults:
        return "one kernel reports the faults of one equation"
    if group.checked & {value.id for value in equation.outputs}:
        return "it is read with bounds checks"
    return ""


def commit(
    group: Group, number: int, equation: Equation, readings: Sequence[Reading], deeper: int, index: Indices | None
) -> None:
    """Make an equation a member; its operands lie `deeper` by so many rules, its results are stored at `index`."""
    depth = max(group.depth.get(value.id, 0) for value in equation.outputs) + deeper
    conditional = any(value.id in group.conditional for value in equation.outputs)
    group.take(number, equation)
    group.weight += cost.weight(equation.primitive)
    group.faults |= "fault" in equation.effects
    for reading in readings:
        group.read(
            reading.value,
            reading.places,
            depth,
            checked=reading.checked,
            conditional=conditional or reading.conditional,
        )
    if index is not None:
        for value in equation.outputs:
            group.outputs[value] = index


def _recomputed(setting: Setting, group: Group, equation: Equation, places: Places) -> str:
    """Whether computing the result wherever it is read is dearer than storing it."""
    value = equation.outputs[0]
    if group.scores(value):
        return ""  # little beside the products that a score takes, and no matrix of scores is stored
    if places is None:
        return "it is read at indices that are not known" if cost.weight(equation.primitive) > 2 else ""
    size = value.spec.size
    visits = sum(group.visits(index) for index in places)
    if visits <= size:
        return ""
    work = (visits - size) * cost.weight(equation.primitive)
    fastest = (*group.parallel_leaves(), *group.reduced_leaves())[-1:]
    if not any(axis in fastest for index in places for form in index for axis in form.axes):
        work //= setting.costs.lanes
    if work <= setting.costs.launch + 2 * size or _after_rows(setting, group, equation):
        return ""
    return f"its {size} elements would be computed {visits} times"


def _after_rows(setting: Setting, group: Group, equation: Equation) -> bool:
    """Whether a value of one element a row comes from a reduction of whole rows, which will compute it once a row."""
    size = equation.outputs[0].spec.size
    elements = group.rows * max(group.length, 1)
    pending, steps = [equation], 0
    while pending and (steps := steps + 1) <= _LOOK_BACK:
        current = pending.pop()
        if isinstance(lookup(current.primitive).lower, Reduction):
            if current.inputs[0].spec.size == elements:
                return True
            continue
        above = (atom for atom in current.inputs if isinstance(atom, Value) and atom.spec.size == size)
        pending += [setting.makers[atom.id] for atom in above if atom.id in setting.makers]
    return False


# --- MAPs and Pulls --------------------------------------------------------------------------------------------------


def join_element(setting: Setting, group: Group, number: int, equation: Equation, *, output: bool = False) -> str:
    """Let a MAP or Pull of one result be computed wherever the group reads it; with `output` also stored."""
    (value,) = equation.outputs
    places = group.places.get(value.id, [])
    rule = lookup(equation.primitive).lower
    if places is None and (output or equation.effects or not isinstance(rule, Elementwise)):
        return "it is read at indices that are not known"
    if output and (places is None or len(places) != 1 or not group.stores(value, places[0])):
        return "the kernel does not visit each of its elements"
    visited = any(group.covered(value, index) is not None for index in places or ())
    if equation.effects and (value.id in group.conditional or not visited):
        return "the kernel does not visit each of its elements, and it may fault"
    if places is None:
        values = [atom for atom in equation.inputs if isinstance(atom, Value)]
        readings, found = [Reading(atom, None if atom.shape else [()]) for atom in values], list[Probe]()
    else:
        readings, found = readings_of(setting, group, equation, places)
    view = bool(found) and all(result.view or result.constant for result in found)
    deeper = int(isinstance(rule, Pull))
    reason = room(setting, group, equation, readings, output)
    if not view and group.operand_at(places):
        reason = reason or as_operand(group, equation, places, setting.makers, output)
    elif not view:
        reason = reason or _recomputed(setting, group, equation, places)
    if not reason and group.depth.get(value.id, 0) + deeper > _DEPTH:
        reason = "the rules would nest too deeply"
    if reason:
        return reason
    if any(result.imperative for result in found):
        group.imperative.add(value.id)
    if places is not None and not all(result.view for result in found):
        group.pinned += places
    commit(group, number, equation, readings, deeper, places[0] if output and places is not None else None)
    return ""


def join(
    setting: Setting,
    group: Group,
    number: int,
    equation: Equation,
    consumers: Callable[[Value], Iterable[Equation]],
    *,
    output: bool = False,
) -> str:
    """Let a group compute an equation of one result, by whatever its kind asks; with `output` also store it."""
    match lookup(equation.primitive).lower:
        case Reduction():
            return join_reduction(setting, group, number, equation, consumers, output=output)
        case Contraction():
            return join_contraction(setting, group, number, equation, output=output)
        case _ if group.kind == "update" and (output or reads_updated(group, equation, setting.makers)):
            return "its reader changes an array that others read before"
        case Elementwise() | Pull() if group.kind != "single":
            return join_element(setting, group, number, equation, output=output)
        case _:
            return "its reader takes whole buffers"


# --- reductions ------------------------------------------------------------------------------------------------------


def reduced_axes(equation: Equation) -> tuple[int, ...]:
    """The axes of its operand that a REDUCE goes along."""
    return cast("tuple[int, ...]", equation.params["axes"])


def join_reduction(
    setting: Setting,
    group: Group,
    number: int,
    equation: Equation,
    consumers: Callable[[Value], Iterable[Equation]],
    *,
    output: bool = False,
) -> str:
    """Let a group compute a reduction whose result it reads once a row."""
    (value,), (operand,) = equation.outputs, equation.inputs
    places = group.places.get(value.id)
    if not isinstance(operand, Value):
        return "it reduces a literal"
    if group.kind not in ("map", "reduce") or places is None or len(places) != 1:
        return "it is not read once a row"
    covered = group.covered(value, places[0])
    if covered is None or any(axis not in group.parallel_leaves() for axis in covered):
        return "its elements are not the rows of the kernel"
    axes = reduced_axes(equation)
    extents = tuple(operand.shape[axis] for axis in axes)
    shape = _match_rows(setting, group, covered, extents)
    if isinstance(shape, str):
        return shape
    if cost.splits(setting.costs, prod(axis.extent for axis in shape.parallel), prod(extents)):
        reduced = {leaf for form in shape.reduced for axis in form.axes for leaf in axis.leaves()}
        if _read_along(group, value, consumers, reduced):
            return "its few rows are long, and it is read again along them"
    index = operand_index(operand, axes, places[0], shape.reduced)
    readings = [Reading(operand, [index])]
    reason = room(setting, group, equation, readings, output)
    if reason:
        return reason
    group.kind, group.parallel = "reduce", shape.parallel
    group.reduced, group.reduced_shape = shape.reduced, extents
    group.reductions.append(number)
    group.operands[number] = (index,)
    commit(group, number, equation, readings, 1, places[0] if output else None)
    return ""


def _read_along(
    group: Group, value: Value, consumers: Callable[[Value], Iterable[Equation]], reduced: set[Axis]
) -> bool:
    """Whether something that the group computes from a value has an element for each one of a row."""
    pending, seen = [value], {value.id}
    while pending:
        for equation in consumers(pending.pop()):
            for made in equation.outputs:
                places = group.places.get(made.id, [])
                if made.id in seen or (made.id not in group.depth and made not in group.outputs):
                    continue
                if places is None or any(a in reduced for index in places for form in index for a in loops_of(form)):
                    return True
                seen.add(made.id)
                pending.append(made)
    return False


@dataclass(frozen=True, slots=True)
class _Rows:
    parallel: tuple[Axis, ...]
    reduced: Indices


def _match_rows(setting: Setting, group: Group, rows: Sequence[Axis], extents: Sequence[int]) -> _Rows | str:
    """The loop axes after the group has taken a reduction over `extents` with one result for each of `rows`."""
    leaves = group.parallel_leaves()
    if group.reductions:
        if set(rows) != set(leaves):
            return "its rows are not those of the kernel's other reductions"
        if [e for e in extents if e != 1] != [e for e in group.reduced_shape if e != 1]:
            return "it reduces other axes than the kernel's other reductions"
        return _Rows(group.parallel, spread(group.reduced, group.reduced_shape, extents))
    rest = [leaf for leaf in leaves if leaf not in rows]
    if not rest:
        return _Rows(leaves, whole(axes_for("k", extents)))
    forms: list[Affine] = []
    for extent in extents:
        taken: list[Axis] = []
        while prod(axis.extent for axis in taken) < extent and rest:
            taken.append(rest.pop(0))
        if prod(axis.extent for axis in taken) != extent:
            return "its axes are not axes of the kernel"
        forms.append(flatten(whole(taken), [axis.extent for axis in taken]))
    if rest:
        return "the kernel has axes that it does not reduce"
    return _Rows(tuple(leaf for leaf in leaves if leaf in rows), tuple(forms))


def spread(forms: Indices, shape: Sequence[int], extents: Sequence[int]) -> Indices:
    """Forms for `extents`, which equal `shape` but for axes of extent 1."""
    moving = iter([form for form, extent in zip(forms, shape, strict=True) if extent != 1])
    return tuple(ZERO if extent == 1 else next(moving) for extent in extents)


def operand_index(operand: Value, axes: Sequence[int], rows: Indices, reduced: Indices) -> Indices:
    """The index of a reduction's operand, from that of its result and the reduced axes."""
    kept, along = iter(rows), iter(reduced)
    return tuple(next(along) if axis in axes else next(kept) for axis in range(len(operand.shape)))


# --- contractions ----------------------------------------------------------------------------------------------------


def join_contraction(setting: Setting, group: Group, number: int, equation: Equation, *, output: bool = False) -> str:
    """Let a group of MAPs be the epilogue of a contraction."""
    (value,) = equation.outputs
    places = group.places.get(value.id)
    if group.kind != "map" or places is None or len(places) != 1:
        return "it is not read once by a pointwise kernel"
    covered = group.covered(value, places[0])
    if covered is None or set(covered) != set(group.parallel_leaves()):
        return "the kernel does not visit each of its elements once"
    if any(dense(form, extent) is None for form, extent in zip(places[0], value.shape, strict=True)):
        return "the kernel's loops mix its axes"
    left, right = equation.inputs
    if isinstance(left, Literal) or isinstance(right, Literal):
        return "it contracts a literal"
    extents = tuple(left.shape[axis] for axis in dimension_numbers(equation.params)[0])
    axes = axes_for("k", extents)
    readings = contraction_readings(equation, places[0], axes)
    reason = room(setting, group, equation, readings, output)
    if reason:
        return reason
    group.kind, group.contraction = "contract", number
    group.operands[number] = tuple(index for reading in readings for index in reading.places or ())
    group.reduced, group.reduced_shape = tuple(map(of_axis, axes)), extents
    commit(group, number, equation, readings, 1, places[0] if output else None)
    return ""


def contraction_readings(equation: Equation, place: Indices, axes: Sequence[Axis]) -> list[Reading]:
    """Where a contraction of two values reads them, for the result at a place, with axes that run along K."""
    left, right = equation.inputs
    assert isinstance(left, Value) and isinstance(right, Value)
    left_contract, right_contract, left_batch, right_batch = dimension_numbers(equation.params)
    batch, free = place[: len(left_batch)], place[len(left_batch) :]
    left_free = free_axes(len(left.shape), left_contract, left_batch)
    right_free = free_axes(len(right.shape), right_contract, right_batch)
    after = free[len(left_free) :]
    return [
        Reading(left, [_side(left, left_contract, left_batch, left_free, whole(axes), batch, free)]),
        Reading(right, [_side(right, right_contract, right_batch, right_free, whole(axes), batch, after)]),
    ]


def _side(
    operand: Value,
    contract: Sequence[int],
    batch: Sequence[int],
    free: Sequence[int],
    along: Indices,
    batch_index: Indices,
    free_index: Indices,
) -> Indices:
    index: list[Affine] = [ZERO] * len(operand.shape)
    for axes, forms in ((contract, along), (batch, batch_index), (free, free_index)):
        for axis, form in zip(axes, forms, strict=False):
            index[axis] = form
    return tuple(index)
