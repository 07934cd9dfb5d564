"""The compiler of graphs: passes, fusion, lowering and storage, in a fixed order.

program = compile(graph, Target.parse("cpu"), CompileOptions())
"""

from __future__ import annotations

from collections.abc import Sequence

from poot.errors import ArgumentError, ArgumentTypeError
from poot.plan.assemble import Assembly, Block
from poot.plan.legal import Legality, require_supported
from poot.plan.limits import CompileOptions
from poot.plan.lower import Lowering
from poot.plan.passes import PASSES
from poot.plan.program import EquationPlan, Numerics, PassRecord, Program, Role, Step
from poot.plan.storage import plan_storage
from poot.plan.turns import Turn, used_kernels
from poot.plan.updates import Carried
from poot.target import Target
from poot.trace.graph import Atom, Graph, Value
from poot.trace.primitives import lookup


def compile(graph: Graph, target: Target, options: CompileOptions | None = None) -> Program:
    """Plan a graph for a target.

    Raises LimitError past a limit of `options.limits`, Unsupported where the target cannot run an equation, and
    CompileError where a rule is wrong; each names the equation and the user's line.
    """
    if not isinstance(target, Target):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "pass poot.device(…).target, or Target.parse(name)."
        raise ArgumentTypeError(what="compile: target", actual=repr(target), expected="a Target", remedy=remedy)
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "pass the graph of a traced function, poot.trace(f).graph(…), or what Builder.finish returns."
        raise ArgumentTypeError(what="compile: graph", actual=type(graph).__name__, expected="a Graph", remedy=remedy)
    options = CompileOptions() if options is None else options
    if not isinstance(options, CompileOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        expected = "CompileOptions, or None"
        raise ArgumentTypeError(what="compile: options", actual=type(options).__name__, expected=expected)
    stable = _stable(graph, options)
    options.limits.check_graph(graph)
    planned = graph
    records: list[PassRecord] = []
    for each in PASSES:
        planned, record = each.run(planned, target, options)
        records.append(record)
    require_supported(planned, target)
    lowering = Lowering(target, tuner=options.tuner, contract=options.numerics == "fused")
    if options.tuner is None and not any(equation.regions for equation in planned.equations):
        lowering.ahead = options.ahead  # loops still change their kernels, and a tuner needs the processor
    assembly = Assembly(
        target, lowering, Legality(target, planned, options.limits), streaming=options.numerics == "fused"
    )
    donated = _donated(graph, options)
    block = Block(assembly, planned, {}, carried=_carried(planned, donated))
    roles: Sequence[Role] = ("constant", "input", "state")
    for role, variables in zip(roles, (planned.constants, planned.inputs, planned.states), strict=True):
        for variable in variables:
            block.cells[variable.value.id] = assembly.cells.new(role, variable.spec, variable.name)
            if variable.name in stable:
                assembly.constants.cells.add(block.cells[variable.value.id])
    outputs = [assembly.cells.new("output", atom.spec) for atom in planned.outputs]
    updates = _update_cells(assembly, block, planned, outputs, donated)
    atoms: list[Atom] = [*planned.outputs, *(atom for _, atom in planned.updates)]
    steps = _in_place(block, donated, block.run(atoms, [*outputs, *updates]), outputs, updates)
    kernels, steps, prologue = used_kernels(assembly.lowering.kernels, steps, assembly.constants.steps)
    fates = _fates(graph, records, block.plans)
    records.append(_fusion_record(block, planned))
    if options.tuner is not None:
        count = len(planned.equations)
        records.append(PassRecord("autotune", count, count, tuple(lowering.tuned), tuple(lowering.rejected)))
    return Program(
        graph,
        planned,
        target,
        kernels,
        steps,
        plan_storage(assembly.cells.slots, steps, frozenset(updates), prologue),
        tuple(outputs),
        tuple((name, cell) for (name, _), cell in zip(planned.updates, updates, strict=True)),
        fates,
        _numerics(planned, options),
        options.numerics == "fused",
        tuple(records),
        options.limits.max_artifact_bytes,
        prologue,
    )


def _stable(graph: Graph, options: CompileOptions) -> frozenset[str]:
    """The names of the variables that keep their contents from step to step."""
    if options.stable is None:
        return frozenset(variable.name for variable in graph.constants)
    known = {variable.name for variable in graph.variables}
    for name in sorted(options.stable - known):
        listed = ", ".join(sorted(known)) or "none"
        expected = f"names of constants and inputs of the graph ({listed})"
        raise ArgumentError(what="CompileOptions: stable", actual=name, expected=expected)
    return options.stable - {variable.name for variable in graph.states}


def _update_cells(
    assembly: Assembly, block: Block, graph: Graph, outputs: Sequence[int], donated: frozenset[str]
) -> list[int]:
    """Where each state's next value is made: an output that is the same value, or memory of its own."""
    stored = {atom.id: cell for atom, cell in zip(graph.outputs, outputs, strict=True) if isinstance(atom, Value)}
    variables = {variable.value.id for variable in graph.variables}
    cells: list[int] = []
    for name, atom in graph.updates:
        shared = None
        if isinstance(atom, Value) and atom.id not in variables and name not in donated:
            shared = stored.get(atom.id)
        cells.append(assembly.cells.new("scratch", atom.spec) if shared is None else shared)
    return cells


# --- donated states ---------------------------------------------------------------------------------------------------


def _donated(graph: Graph, options: CompileOptions) -> frozenset[str]:
    """The names of the states that may be changed where they lie."""
    known = {variable.name for variable in graph.states}
    for name in sorted(options.donate - known):
        listed = ", ".join(sorted(known)) or "none"
        expected = f"names of states of the graph ({listed})"
        raise ArgumentError(what="CompileOptions: donate", actual=name, expected=expected)
    return options.donate


def _carried(graph: Graph, donated: frozenset[str]) -> Carried | None:
    if not donated:
        return None
    states = (variable.value for variable in graph.states if variable.name in donated)
    return Carried.of(states, (atom for name, atom in graph.updates if name in donated))


def _in_place(
    block: Block, donated: frozenset[str], steps: Sequence[Step], outputs: Sequence[int], updates: list[int]
) -> tuple[Step, ...]:
    """The steps, with the next values of donated states in the cells of the states, which then stand in `updates`.

    A step is a turn of which the donated states are carried.
    """
    if not donated:
        return tuple(steps)
    variables = {variable.name: variable for variable in block.graph.states}
    taken = {place: variables[name] for place, (name, _) in enumerate(block.graph.updates) if name in donated}
    carry = [block.cells[variable.value.id] for variable in taken.values()]
    fresh = [updates[place] for place in taken]
    kept = frozenset((*outputs, *updates)) - frozenset(fresh)
    turn = Turn(block.assembly, list(steps), carry, fresh, [each.spec for each in taken.values()], kept=kept)
    for place, cell in zip(taken, carry, strict=True):
        updates[place] = cell
    return turn.finish()


# --- what is said of the result ---------------------------------------------------------------------------------------


def _fusion_record(block: Block, planned: Graph) -> PassRecord:
    groups = len(block.fusion.groups)
    count = len(planned.equations)
    notes = (f"equations {count}, groups {groups}, aliases {len(block.fusion.aliases)}",)
    return PassRecord("fuse", count, count, notes, tuple(block.assembly.declined))


def _fates(graph: Graph, records: Sequence[PassRecord], plans: Sequence[EquationPlan]) -> tuple[EquationPlan, ...]:
    """What became of each equation of the caller's graph, through every pass."""
    fates: list[EquationPlan | None] = [None] * len(graph.equations)
    origins = list(range(len(graph.equations)))
    for record in records:
        for removed in record.removed:
            origin = origins[removed.equation]
            fates[origin] = EquationPlan(removed.fate, note=removed.note)
        origins = [origins[number] for number in record.origins]
    for origin, plan in zip(origins, plans, strict=True):
        fates[origin] = plan
    return tuple(fate or EquationPlan("dead") for fate in fates)


def _numerics(graph: Graph, options: CompileOptions) -> Numerics:
    """How the program's results may differ from the oracle's."""
    if _exact(graph):
        return "exact"
    return "unfused" if options.numerics == "strict" else "reassociating"


def _exact(graph: Graph) -> bool:
    for equation in graph.equations:
        floats = any(value.dtype.is_float for value in equation.outputs)
        moves = lookup(equation.primitive).kind in ("view", "index")
        if (floats and not moves) or not all(map(_exact, equation.regions)):
            return False
    return True
