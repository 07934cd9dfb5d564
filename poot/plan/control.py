"""Equations that take and give whole buffers: conditions, loops, and primitives that bring kernels of their own.

A region becomes a block of steps that shares the program's cells: its inputs are the cells of the operands.  What a
loop carries lives in the cells of its results; the body has cells of its own for the next values, and `turns` says how
these come to the former.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from poot.dtypes import ArraySpec, bool_, i32
from poot.errors import CompileError, Unsupported
from poot.plan.groups import Group
from poot.plan.legal import SMALLER
from poot.plan.program import Branch, Loop, Step
from poot.plan.rounds import Rounds, as_one_kernel
from poot.plan.schedules.common import GroupPlan
from poot.plan.settled import settled
from poot.plan.turns import Stack, Turn
from poot.plan.updates import Carried
from poot.trace.graph import Atom, Equation, Graph, Literal, Params, Value, Variable
from poot.trace.primitives import HostControl, Launches, lookup

if TYPE_CHECKING:
    from poot.plan.assemble import Block

#: Backends that look at a condition without waiting for anything.
_DECIDING = frozenset({"cpu", "interpret"})


def lower_single(block: Block, number: int, group: Group) -> list[Step]:
    """The steps of one equation; Unsupported where it has no schedule."""
    equation = group.members[number]
    match lookup(equation.primitive).lower:
        case HostControl("cond"):
            return _cond(block, number, equation)
        case HostControl("while"):
            return _while(block, number, equation)
        case HostControl("scan"):
            return _scan(block, number, equation)
        case Launches() as rule:
            return _launches(block, number, equation, rule)
        case _:
            raise Unsupported(
                what=f"equation {number} ({equation.primitive})",
                target=block.assembly.target,
                message=block.fusion.declined.get(number, "it has no schedule"),
                where=equation.where,
                remedy=SMALLER,
            )


# --- cells of operands and results ------------------------------------------------------------------------------------


def _operand(block: Block, atom: Atom, steps: list[Step]) -> int:
    """The cell of an operand; a literal gets one of its own."""
    if isinstance(atom, Value):
        return block.cell(atom)
    cell = block.assembly.cells.new("scratch", atom.spec)
    block.fill(atom, cell, steps)
    return cell


def _region(
    block: Block,
    number: int,
    region: Graph,
    inputs: Sequence[int],
    outputs: Sequence[Atom],
    targets: Sequence[int],
    part: str,
    own: int = 0,
    parts: Sequence[tuple[int, int]] = (),
) -> tuple[Step, ...]:
    """The steps of region `own` of an equation, or of a graph that is made of it, whose equations are those of `parts`.

    `part` is what the region is to the equation, `parts` as in `Within`.
    """
    cells = {variable.value.id: cell for variable, cell in zip(region.inputs, inputs, strict=True)}
    parts = parts or ((own, len(region.equations)),)
    within = block.within.deeper(number, block.graph.equations[number].primitive, part, own, parts)
    carried = Carried.of((variable.value for variable in region.inputs), region.outputs)
    inner = replace(block, graph=region, cells=cells, within=within, carried=carried, steps=[])
    return inner.run(outputs, targets)


def _turn(
    block: Block,
    number: int,
    region: Graph,
    fixed: Sequence[int],
    inputs: Sequence[int],
    targets: Sequence[int],
    own: int,
    parts: Sequence[tuple[int, int]] = (),
) -> list[Step]:
    """The steps of a region that is run in turns, which do not change the cells of `fixed`, the first of its inputs."""
    known = set(block.assembly.fixed)
    block.assembly.fixed.update(fixed)
    steps = _region(block, number, region, [*fixed, *inputs], region.outputs, targets, "body", own, parts)
    block.assembly.fixed = known
    return list(steps)


def _new(block: Block, specs: Sequence[ArraySpec]) -> list[int]:
    return [block.assembly.cells.new("scratch", spec) for spec in specs]


# --- conditions and loops ---------------------------------------------------------------------------------------------


def _cond(block: Block, number: int, equation: Equation) -> list[Step]:
    steps: list[Step] = []
    flag, *operands = [_operand(block, atom, steps) for atom in equation.inputs]
    results = [block.cell(value) for value in equation.outputs]
    # A launch within a branch stays there, so none is made for the sake of being run once before a loop.
    known, block.assembly.fixed = block.assembly.fixed, set()
    first, second = (
        _region(block, number, region, operands, region.outputs, results, part, own)
        for own, (region, part) in enumerate(zip(equation.regions, ("false branch", "true branch"), strict=True))
    )
    block.assembly.fixed = known
    return [*steps, Branch(flag, (first, second))]


def _carried(block: Block, equation: Equation, initial: Sequence[Atom], steps: list[Step]) -> list[int]:
    """The cells of the first results, holding the initial values."""
    cells = [block.cell(value) for value in equation.outputs[: len(initial)]]
    for atom, cell in zip(initial, cells, strict=True):
        block.fill(atom, cell, steps)
    return cells


def _while(block: Block, number: int, equation: Equation) -> list[Step]:
    first, second = (cast("int", equation.params[key]) for key in ("condition_consts", "body_consts"))
    condition, body = equation.regions
    steps: list[Step] = []
    consts = [_operand(block, atom, steps) for atom in equation.inputs[: first + second]]
    carry = _carried(block, equation, equation.inputs[first + second :], steps)
    specs = [value.spec for value in equation.outputs]
    (flag,) = _new(block, [ArraySpec(bool_, ())])
    test = _region(block, number, condition, [*consts[:first], *carry], condition.outputs, [flag], "condition")
    fresh = _new(block, specs)
    # The condition of the next turn goes with the body, whose kernels can make it along the way.
    whole = _with_condition(body, condition, first)
    mark = len(block.assembly.declined)
    parts = ((1, len(body.equations)), (0, len(condition.equations)))
    made = _turn(block, number, whole, consts, carry, [*fresh, flag], 1, parts)
    turn = Turn(block.assembly, made, carry, fresh, specs)
    once, merged = turn.hoist([flag]), turn.finish()
    single = _single(block, mark, merged, Rounds([*carry, flag], flag=flag))
    if single is not None:
        return [*steps, *test, *once, *single]
    if block.assembly.target.backend in _DECIDING:
        return [*steps, *test, *once, Loop((), flag, merged)]
    del block.assembly.declined[mark:]
    made = _turn(block, number, body, consts[first:], carry, fresh, 1)
    turn = Turn(block.assembly, made, carry, fresh, specs)
    turn.equations, turn.where = block.within.numbers((number,)), equation.where
    once, plain = turn.hoist(), turn.finish()
    lazy = settled(turn, plain, flag)
    return [*steps, *once, Loop(test, flag, plain if lazy is None else lazy, settles=lazy is not None)]


def _single(block: Block, mark: int, turn: Sequence[Step], rounds: Rounds) -> list[Step] | None:
    """A loop as one kernel, in place of the turn made since declined[mark]; None where it cannot be one."""
    assembly = block.assembly
    if assembly.target.backend == "interpret":
        return None
    found = as_one_kernel(assembly, turn, rounds)
    if found is not None:
        del assembly.declined[mark:]  # nothing in there stands alone
    return found


def _with_condition(body: Graph, condition: Graph, first: int) -> Graph:
    """The body of a loop followed by the condition on its results, on the constants of both and what is carried."""
    taken = max((value.id for value in _values(body)), default=-1) + 1
    consts = [Value(taken + number, variable.spec) for number, variable in enumerate(condition.inputs[:first])]
    atoms: dict[int, Atom] = {v.value.id: value for v, value in zip(condition.inputs, consts, strict=False)}
    atoms.update((v.value.id, atom) for v, atom in zip(condition.inputs[first:], body.outputs, strict=True))
    taken += first

    def moved(value: Value) -> Value:
        return Value(taken + value.id, value.spec)

    def atom(each: Atom) -> Atom:
        return atoms.get(each.id, moved(each)) if isinstance(each, Value) else each

    equations = [
        replace(equation, inputs=tuple(map(atom, equation.inputs)), outputs=tuple(map(moved, equation.outputs)))
        for equation in condition.equations
    ]
    values = [*consts, *(variable.value for variable in body.inputs)]
    inputs = tuple(Variable(f"x{number}", value) for number, value in enumerate(values))
    outputs = (*body.outputs, *map(atom, condition.outputs))
    return replace(body, inputs=inputs, equations=(*body.equations, *equations), outputs=outputs)


def _values(graph: Graph) -> list[Value]:
    inputs = [variable.value for variable in graph.variables]
    return inputs + [value for equation in graph.equations for value in equation.outputs]


def _scan(block: Block, number: int, equation: Equation) -> list[Step]:
    consts, count, length = (cast("int", equation.params[key]) for key in ("consts", "carry", "length"))
    steps: list[Step] = []
    fixed = [_operand(block, atom, steps) for atom in equation.inputs[:consts]]
    carry = _carried(block, equation, equation.inputs[consts : consts + count], steps)
    if length == 0:
        return steps
    scanned = [_operand(block, atom, steps) for atom in equation.inputs[consts + count :]]
    (counter,) = _new(block, [ArraySpec(i32, ())])
    reverse = bool(equation.params["reverse"])
    specs = [atom.spec for atom in equation.inputs[consts + count :]]
    body = _indexed(equation.regions[0], consts + count, specs, length, reverse)
    results = [atom.spec for atom in body.outputs]
    fresh = _new(block, results)
    mark = len(block.assembly.declined)
    count_own = len(equation.regions[0].equations)
    parts = ((-1, len(body.equations) - count_own), (0, count_own))
    made = _turn(block, number, body, fixed, [*carry, *scanned, counter], fresh, 0, parts)
    turn = Turn(block.assembly, made, carry, fresh[:count], results[:count], counter, length, reverse)
    turn.equations, turn.where = block.within.numbers((number,)), equation.where
    wholes = map(block.cell, equation.outputs[count:])
    stacks = [Stack(*each) for each in zip(fresh[count:], wholes, results[count:], strict=True)]
    once, last = turn.hoist(list(fresh)), turn.finish(stacks)
    single = _single(block, mark, last, Rounds(carry, length, counter))
    return [*steps, *once, *(single or [Loop((), -1, last, length, counter)])]


def _indexed(region: Graph, first: int, specs: Sequence[ArraySpec], length: int, reverse: bool) -> Graph:
    """The body of a scan with the whole scanned operands and the turn's number as inputs, in place of slices."""
    fresh = region.value_count
    counter, step, place = (Value(fresh + n, ArraySpec(i32, shape)) for n, shape in enumerate(((), (), (1,))))
    equations: list[Equation] = []
    if reverse:
        equations.append(Equation("sub", (Literal(length - 1, i32), counter), Params(), (step,)))
    equations.append(Equation("reshape", (step if reverse else counter,), Params(shape=(1,)), (place,)))
    wholes: list[Variable] = []
    read = {atom for equation in region.equations for atom in equation.inputs} | set(region.outputs)
    params = Params(axes=(0,), mode="clip")
    for n, (variable, spec) in enumerate(zip(region.inputs[first:], specs, strict=True)):
        whole = Value(fresh + 3 + n, spec)
        wholes.append(Variable(variable.name, whole))
        if variable.value in read:
            equations.append(Equation("gather", (whole, place), params, (variable.value,)))
    inputs = (*region.inputs[:first], *wholes, Variable("turn", counter))
    return replace(region, inputs=inputs, equations=(*equations, *region.equations))


# --- primitives with kernels of their own -----------------------------------------------------------------------------


def _launches(block: Block, number: int, equation: Equation, rule: Launches) -> list[Step]:
    plan: object = rule.body(equation)
    if not isinstance(plan, GroupPlan):
        raise CompileError(
            what=equation.primitive,
            target=block.assembly.target,
            message=f"its Launches rule gives {type(plan).__name__}, not KernelPlan",
            where=equation.where,
            remedy="let the rule return `KernelPlan(setups, temporaries)`.",
        )
    steps: list[Step] = []
    cells = [_operand(block, atom, steps) for atom in equation.inputs]
    cells += [block.cell(value) for value in equation.outputs]
    temporaries = _new(block, plan.temporaries)
    for place, setup in enumerate(plan.setups):
        bound = [cells[a] if a >= 0 else temporaries[-1 - a] for a in setup.arguments]
        numbers, inside = block.within.numbers([number]), block.within.inside(number)
        block.assembly.foreign.add(block.assembly.lowering.number(setup.kernel))
        flops = -1 if plan.is_main(place) else 0  # those before it give buffers their first contents
        launch = block.assembly.launch(setup.kernel, bound, setup.groups, numbers, equation.where, flops, inside)
        steps.append(launch)
    return steps
