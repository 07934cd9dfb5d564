"""Work-groups of several vectors whose threads wait for each other.

The statements of a group are cut where its threads wait: at barriers, at collectives, and around branches and loops
that hold one, whose conditions are the same for the whole group and are therefore real branches.  What stands between
two cuts runs part after part, each part a vector.  A local that lives across a cut has a slot for each part; one that
is the same for the whole group is computed once, outside the loops over the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from poot.dtypes import DType
from poot.kernel.ir import Assign, Atomic, Collective, Continue, For, Let, Node, Return, Stmt, Var, While, walk
from poot.kernel.render.llvm_collectives import combine, contribution, identity, reduce, scan
from poot.kernel.render.llvm_cuts import Cuts, Run, expressions
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Value, constant
from poot.kernel.render.llvm_expr import Cell, Expressions
from poot.kernel.render.llvm_faults import Faults
from poot.kernel.render.llvm_flow import Flow
from poot.kernel.render.llvm_grid import Grid, Numbers, Place
from poot.kernel.render.llvm_loops import Loop
from poot.kernel.render.llvm_memory import Array
from poot.kernel.uniform import Affine, Uniformity


class _Slots:
    """The locals of a group's parts that live across cuts; `witness` is a cell with the number of a part that lives."""

    def __init__(self, grid: Grid, crossing: Mapping[str, DType]) -> None:
        self._e = grid.e
        self._forms = grid.plan.uniformity
        self._parts = grid.plan.parts
        self._dtypes = crossing
        self._made: dict[str, str] = {}
        self.witness = self._e.cell("i64")

    def __contains__(self, name: str) -> bool:
        return name in self._dtypes

    def cell(self, name: str, part: str) -> Cell:
        """One part's slot."""
        e, dtype, form = self._e, self._dtypes[name], self._forms.local_form(name)
        t = (e.register if form is None else REGISTER)[dtype]
        if name not in self._made:
            self._made[name] = e.cell(f"[{self._parts} x {t}]", 64)
        pointer = e.emit(f"getelementptr {t}, ptr {self._made[name]}, i64 {part}")
        return Cell(pointer, dtype, form, e.mask)


class _GroupValues(Expressions):
    """Expressions that are the same for the whole group: locals with slots are read from a part that lives."""

    slots: _Slots

    @override
    def _var(self, expr: Var) -> Value:
        if expr.name in self.slots:
            part = self.e.emit(f"load i64, ptr {self.slots.witness}")
            return self.read(self.slots.cell(expr.name, part))
        return super()._var(expr)


class GroupFlow(Flow):
    """Writes one work-group; its own statements are those that all threads do together."""

    def __init__(
        self,
        grid: Grid,
        faults: Faults,
        arrays: Mapping[str, Array],
        place: Place,
        numbers: Numbers,
        scalars: Mapping[str, Value],
    ) -> None:
        e, kernel = grid.e, grid.kernel
        first = dict(numbers)
        for axis in range(3):
            # What is the same for the whole group may be computed with the first thread's numbers.
            start = e.emit(f"mul i64 {place[axis]}, {kernel.workgroup[axis]}")
            first["local", axis] = constant(0, kernel.index_dtype)
            first["thread", axis] = grid.number(start, Affine(0, 1))
        values = _GroupValues(e, faults, arrays, first, scalars)
        super().__init__(e, values, Uniformity(kernel), grid.plan.assigned, e.name("end"))
        self._grid = grid
        self._faults = faults
        self._arrays = arrays
        self._place = place
        self._numbers = numbers
        self._cuts = Cuts(kernel, self.uniformity, {name: array.dtype for name, array in arrays.items()})
        self._slots = values.slots = _Slots(grid, self._cuts.crossing)
        self._live_masks = ""
        e.do(f"store i64 0, ptr {values.slots.witness}")

    def run(self) -> None:
        """The whole body."""
        body = self._grid.kernel.body
        if self.uniformity.masked_exit(body, Return):
            self._live_masks = self._mask_cell()
            self._fill(self._live_masks)
        self.block(body)
        self.e.label(self._end)

    @override
    def block(self, stmts: Sequence[Stmt]) -> None:
        for item in self._cuts.cut(stmts):
            if not self.e.open:
                break
            if isinstance(item, tuple):
                self._run(item)
            else:
                self.statement(item)

    # --- masks that outlive a run ---

    def _mask_cell(self) -> str:
        """A mask for each part."""
        return self.e.cell(f"[{self._grid.plan.parts} x {self.e.mask_type}]")

    def _masks(self) -> list[str]:
        """The masks that lanes are taken out of, the one of returns first."""
        turns = [loop.turn for loop in self._loops if loop.turn is not None]
        return [self._live_masks, *turns] if self._live_masks else turns

    def _fill(self, masks: str) -> None:
        e = self.e
        with self._grid.all_parts() as part:
            slot = e.emit(f"getelementptr {e.mask_type}, ptr {masks}, i64 {part}")
            e.do(f"store {e.mask_type} {e.all_lanes}, ptr {slot}")

    @override
    def _enter(self, stmt: For | While) -> Loop:
        leaves = self.uniformity.masked_exit(stmt.body, Continue)
        turn = self._mask_cell() if leaves else None
        return Loop(self.e.name("exit"), self.e.name("latch"), None, turn, outer=True)

    @override
    def _turn(self, loop: Loop, body: Sequence[Stmt]) -> None:
        self._loops.append(loop)
        if loop.turn is not None:
            self._fill(loop.turn)
        with self.e.scope():
            self.block(body)
        self._loops.pop()
        self.e.label(loop.latch)

    # --- runs ---

    def _run(self, run: Run) -> None:
        """Statements that each part does on its own; then the group goes on if a lane is left."""
        e, uniformity = self.e, self.uniformity
        returns, continues = uniformity.masked_exit(run, Return), uniformity.masked_exit(run, Continue)
        left = e.cell("i1") if returns or continues else ""
        alive = e.cell("i1") if continues and self._live_masks else ""
        for cell in filter(None, (left, alive)):
            e.do(f"store i1 false, ptr {cell}")

        def write(numbers: Numbers, mask: str | None, part: str) -> None:
            with e.scope():
                self._part(run, numbers, mask, part)
                if left:
                    self._note_left(mask, self._masks(), part, left)
                if alive:
                    self._note_left(mask, [self._live_masks], part, alive)

        self._grid.parts(self._place, self._numbers, write, twice=False)
        if left:
            self._unless_left(left, self._loops[-1].latch if continues and not alive else self._end, alive)

    def _unless_left(self, left: str, away: str, alive: str) -> None:
        """Go on where a lane is left; else to the next turn, where one is alive, or away."""
        e = self.e
        on, gone = e.name("on"), e.name("gone")
        e.branch(e.emit(f"load i1, ptr {left}"), on, gone)
        e.label(gone)
        if alive:
            e.branch(e.emit(f"load i1, ptr {alive}"), self._loops[-1].latch, away)
        else:
            e.jump(away)
        e.label(on)

    def _note_left(self, mask: str | None, masks: Sequence[str], part: str, cell: str) -> None:
        """Note a part that has lanes left."""
        e, some, after = self.e, self.e.name("left"), self.e.name("noted")
        for slots in masks:
            mask = e.both(mask, e.emit(f"load {e.mask_type}, ptr {self._mask_slot(slots, part)}"))
        e.branch(e.any(mask or e.all_lanes), some, after)
        e.label(some)
        e.do(f"store i1 true, ptr {cell}")
        e.do(f"store i64 {part}, ptr {self._slots.witness}")
        e.label(after)

    def _part(self, run: Run, numbers: Numbers, mask: str | None, part: str) -> None:
        """One part's share of a run."""
        e, end = self.e, self.e.name("end")
        slots = [self._mask_slot(masks, part) for masks in self._masks()]
        e.mask = self._narrowed(mask, slots, end)
        flow = Flow(e, self._part_values(numbers, part, walk(run)), self._grid.plan.uniformity, self._assigned, end)
        turns = slots[1:] if self._live_masks else slots
        loop = Loop("", end, None, turns[-1], outer=True) if turns else None
        flow.inherit(slots[0] if self._live_masks else None, loop)
        flow.block(run)
        e.label(end)
        e.mask = None

    def _part_values(self, numbers: Numbers, part: str, nodes: Sequence[Node]) -> Expressions:
        """What a part sees: the group's common locals, its own slots of those that it uses, its private arrays."""
        values = Expressions(self.e, self._faults, self._part_arrays(part), numbers, {})
        values.locals = dict(self.values.locals)
        for name in _names(nodes):
            if name in self._slots:
                values.locals[name] = self._slots.cell(name, part)
        return values

    def _narrowed(self, mask: str | None, slots: Sequence[str], end: str) -> str | None:
        """The lanes that are still there; to `end` if none is."""
        e = self.e
        for slot in slots:
            mask = e.both(mask, e.emit(f"load {e.mask_type}, ptr {slot}"))
        if not slots or mask is None:
            return mask
        go = e.name("go")
        e.branch(e.any(mask), go, end)
        e.label(go)
        return mask if e.lanes > 1 else None

    def _mask_slot(self, masks: str, part: str) -> str:
        return self.e.emit(f"getelementptr {self.e.mask_type}, ptr {masks}, i64 {part}")

    def _part_arrays(self, part: str) -> dict[str, Array]:
        """Private arrays at this part's copy."""
        e, arrays = self.e, dict(self._arrays)
        for name, array in arrays.items():
            if array.space == "private":
                offset = e.emit(f"mul i64 {part}, {array.size}")
                base = e.emit(f"getelementptr {MEMORY[array.dtype]}, ptr {array.base}, i64 {offset}")
                arrays[name] = replace(array, base=base, home=e.mask)
        return arrays

    # --- locals and collectives ---

    @override
    def _let(self, stmt: Let) -> None:
        if not isinstance(stmt.value, Collective):
            super()._let(stmt)
        elif stmt.value.op == "scan":
            self._scan(stmt.name, stmt.value)
        else:
            value = self._reduce(stmt.value)
            if stmt.name in self._slots:
                self._spread(stmt.name, value)
            elif stmt.name in self._assigned:
                self.values.write(self.values.declare(stmt.name, value.dtype, Affine(0, 1)), value)
            else:
                self.values.locals[stmt.name] = value

    @override
    def _assign(self, stmt: Assign) -> None:
        if not isinstance(stmt.value, Collective):
            super()._assign(stmt)
        elif stmt.value.op == "scan":
            self._scan(stmt.name, stmt.value)
        elif stmt.name in self._slots:
            self._spread(stmt.name, self._reduce(stmt.value))
        else:
            cell = self.values.locals[stmt.name]
            assert isinstance(cell, Cell)
            self.values.write(cell, self._reduce(stmt.value))

    def _spread(self, name: str, value: Value) -> None:
        """Give every part the same value."""
        with self._grid.all_parts() as part:
            self.values.write(self._slots.cell(name, part), value)

    def _each_part(self, expr: Collective, use: Callable[[Value, str], None]) -> None:
        """Evaluate a collective's operand in each part."""
        e = self.e

        def write(numbers: Numbers, mask: str | None, part: str) -> None:
            with e.scope():
                e.mask = mask
                use(self._part_values(numbers, part, expressions(expr.arg))(expr.arg), part)
                e.mask = None

        self._grid.parts(self._place, self._numbers, write, twice=False)

    def _reduce(self, expr: Collective) -> Value:
        """Vectors combined part by part, then the lanes of the result."""
        e, dtype, op = self.e, expr.dtype, expr.op
        t = e.register[dtype]
        total = e.cell(t)
        e.do(f"store {t} {e.splat(identity(op, dtype), REGISTER[dtype])}, ptr {total}")

        def use(value: Value, part: str) -> None:
            so_far = e.emit(f"load {t}, ptr {total}")
            e.do(f"store {t} {combine(e, op, dtype, t, so_far, contribution(e, op, value))}, ptr {total}")

        self._each_part(expr, use)
        return Value(reduce(e, op, dtype, e.emit(f"load {t}, ptr {total}")), dtype)

    def _scan(self, name: str, expr: Collective) -> None:
        """Sums within each part, on top of the total of those before."""
        e, dtype = self.e, expr.dtype
        t, element = e.register[dtype], REGISTER[dtype]
        carry = e.cell(element)
        e.do(f"store {element} {identity('scan', dtype)}, ptr {carry}")

        def use(value: Value, part: str) -> None:
            before = e.splat(e.emit(f"load {element}, ptr {carry}"), element)
            sums = combine(e, "scan", dtype, t, before, scan(e, dtype, contribution(e, "scan", value)))
            e.do(f"store {element} {e.lane(sums, t, str(e.lanes - 1))}, ptr {carry}")
            self.values.write(self._slots.cell(name, part), Value(sums, dtype, None))

        self._each_part(expr, use)


def _names(nodes: Sequence[Node]) -> Iterator[str]:
    """The locals that are read, declared or changed, each once."""
    names: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, (Var, Let, Assign)):
            names[node.name] = None
        elif isinstance(node, Atomic) and node.result is not None:
            names[node.result] = None
    return iter(names)
