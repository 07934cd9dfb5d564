"""The end of a loop's turn, or of a step with donated states: new values into the places of old ones, with few copies.

The body leaves what a turn makes in cells of its own.  Kernels then are made to write what is carried where it is read
from, as soon as nobody needs the old value any more, and each turn's results into their places among those of all
turns.  What is left are copies at the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from poot.dtypes import ArraySpec, i32
from poot.errors import SourceLocation
from poot.kernel.ir import BufferParam, Kernel
from poot.plan import rewire
from poot.plan.flat import FlatGrid
from poot.plan.program import Binding, Branch, Copy, Launch, Loop, Step

if TYPE_CHECKING:
    from poot.plan.assemble import Assembly


@dataclass(frozen=True, slots=True)
class Stack:
    """A cell whose value of each turn goes to its place among those of all turns."""

    source: int
    whole: int
    spec: ArraySpec


@dataclass(slots=True)
class Turn:
    """The steps of one turn in the making.

    `carry` are the cells that the turn starts from, `fresh` those that the body leaves their next values in; both have
    the `specs`.  A scan has `length` turns, numbered in `counter`.  `kept` are cells that are needed afterwards.
    `equations` and `where` are those of the loop, for launches that stand for nothing else.
    """

    assembly: Assembly
    steps: list[Step]
    carry: Sequence[int]
    fresh: Sequence[int]
    specs: Sequence[ArraySpec]
    counter: int = -1
    length: int = 0
    reverse: bool = False
    kept: frozenset[int] = frozenset()
    equations: tuple[int, ...] = ()
    where: SourceLocation | None = None
    copies: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def finish(self, stacks: Sequence[Stack] = ()) -> tuple[Step, ...]:
        """The steps with what ends the turn."""
        for new, old, spec in zip(self.fresh, self.carry, self.specs, strict=True):
            source = self._origin(new)
            if spec.size and source != old:
                self.copies.append((source, old))
        spare = [stack.source for stack in stacks]
        self._merge_copies(spare)
        stacked = [replace(stack, source=self._origin(stack.source)) for stack in stacks if stack.spec.size]
        wholes = [stack for stack in stacked if not self._stack_within(stack)]
        for stack in wholes:
            self.steps.append(self._stack(stack))
        for pair in list(self.copies):
            self._write_in_place(*pair)
        self._drop_unread(spare)
        self.steps += [Copy(source, target) for source, target in self._ordered()]
        return tuple(self.steps)

    def _merge_copies(self, spare: Sequence[int]) -> None:
        """Let an array that is copied, then changed in part, be changed where it is, if nothing needs the old contents.

        It must be needed no more after the copy, and the new one go to its place at the end, or both be of this turn.
        """
        fixed = {*self.carry, *self.kept, *spare}
        for position in reversed(range(len(self.steps))):
            step = self.steps[position]
            if not isinstance(step, Copy) or step.target in fixed or step.source in self.kept:
                continue
            if any(number < position for number in self._all_users(step.target)):
                continue
            if any(number > position for number in self._all_users(step.source)):
                continue
            back = (step.target, step.source)
            own = step.source not in (*self.carry, *spare) and bool(self._users(step.source, writes=True))
            others = [pair for pair in self.copies if pair != back]
            if any(step.source in pair for pair in others) or not (back in self.copies or own):
                continue
            del self.steps[position]
            self.copies = others
            self._rename(step.target, step.source, position)

    def hoist(self, keep: Sequence[int] = ()) -> list[Step]:
        """Take out the launches that do the same in every turn, unless they write a cell of `keep`.

        They go before the loop.
        """
        first: list[Step] = []
        moved = True
        while moved:
            moved = False
            for step in self.steps:
                if isinstance(step, Launch) and self._is_constant(step, keep):
                    self.steps.remove(step)
                    first.append(step)
                    moved = True
                    break
        return first

    def _is_constant(self, launch: Launch, keep: Sequence[int]) -> bool:
        if rewire.can_fault(self._kernel(launch)):
            return False
        uses = list(self._uses(launch))
        reads = {cell for cell, read, _ in uses if read}
        writes = {cell for cell, _, written in uses if written}
        outside = {self.counter, *self.carry, *self.fresh, *keep}
        if writes & reads or (reads | writes) & outside:
            return False
        return not any(self._users(cell, writes=True) for cell in reads) and all(map(self._writer, writes))

    def launch(self, kernel: Kernel, cells: Sequence[int], grid: FlatGrid) -> Launch:
        """A launch of the loop's own."""
        return self.assembly.launch(kernel, cells, grid.groups, self.equations, self.where)

    # --- what steps do ---

    def _kernel(self, launch: Launch) -> Kernel:
        return self.assembly.lowering.kernels[launch.kernel]

    def _uses(self, step: Step) -> Iterator[tuple[int, bool, bool]]:
        """(cell, whether it is read, whether it is written) of a step and all inside it."""
        match step:
            case Launch():
                for binding, param in zip(step.bindings, self._kernel(step).buffers, strict=True):
                    yield binding.slot, param.access != "write", param.access != "read"
            case Copy():
                yield step.source, True, False
                yield step.target, False, True
            case Branch():
                yield step.predicate, True, False
                for block in step.blocks:
                    for each in block:
                        yield from self._uses(each)
            case Loop():
                for cell in (step.predicate, step.counter):
                    if cell >= 0:
                        yield cell, True, True
                for each in (*step.condition, *step.body):
                    yield from self._uses(each)

    def _users(self, cell: int, *, writes: bool) -> list[int]:
        """The positions of the steps that write, or read, a cell."""
        return [
            number
            for number, step in enumerate(self.steps)
            if any(slot == cell and (written if writes else read) for slot, read, written in self._uses(step))
        ]

    def _all_users(self, cell: int) -> list[int]:
        return [*self._users(cell, writes=True), *self._users(cell, writes=False)]

    def _writer(self, cell: int) -> tuple[int, Step] | None:
        """The only step that writes a cell, where there is one."""
        positions = self._users(cell, writes=True)
        return (positions[0], self.steps[positions[0]]) if len(positions) == 1 else None

    def _origin(self, cell: int) -> int:
        """Where a cell's value is copied from, if that is all that happens to it; the copy then goes."""
        found = self._writer(cell)
        if found is None or self._users(cell, writes=False):
            return cell
        position, copy = found
        if not isinstance(copy, Copy):
            return cell
        if any(number > position for number in self._users(copy.source, writes=True)):
            return cell
        del self.steps[position]
        return copy.source

    def _rename(self, old: int, new: int, start: int) -> None:
        """Let everything from a step on use another cell."""

        def cell(number: int) -> int:
            return new if number == old else number

        for number in range(start, len(self.steps)):
            self.steps[number] = renamed(self.steps[number], cell)
        self.copies = [(cell(source), target) for source, target in self.copies]

    def _put(self, position: int, kernel: Kernel, cells: Sequence[int]) -> None:
        launch = cast("Launch", self.steps[position])
        number = self.assembly.lowering.number(kernel)
        if launch.kernel in self.assembly.updating:
            self.assembly.updating.add(number)
        self.steps[position] = replace(launch, kernel=number, bindings=tuple(map(Binding, cells)))

    def _launch_of(self, cell: int) -> tuple[int, Launch, Kernel, str] | None:
        """The only launch that writes a cell, with its kernel and the parameter that the cell alone is bound to.

        None where it changes what is there.
        """
        found = self._writer(cell)
        if found is None or not isinstance(found[1], Launch):
            return None
        launch = found[1]
        kernel = self._kernel(launch)
        params = [param for param, b in zip(kernel.buffers, launch.bindings, strict=True) if b.slot == cell]
        whole = len(params) == 1 and params[0].access != "readwrite"
        if not whole or launch.kernel in self.assembly.foreign or any(b.offset for b in launch.bindings):
            return None
        return found[0], launch, kernel, params[0].name

    # --- results of every turn ---

    def _stack_within(self, stack: Stack) -> bool:
        """Let the kernel that makes a turn's result store it to its place as well."""
        found = self._launch_of(stack.source)
        if found is None:
            return False
        position, launch, kernel, name = found
        param = cast("BufferParam", kernel.param(name))
        if param.access != "write" or len(kernel.buffers) + 2 >= self.assembly.target.limit("buffers"):
            return False
        cells = [binding.slot for binding in launch.bindings]
        turn = kernel.buffers[cells.index(self.counter)].name if self.counter in cells else ""
        made = rewire.also_stored(kernel, name, self.length, turn, reverse=self.reverse)
        if made is None:
            return False
        self._put(position, made, [*cells, *(() if turn else (self.counter,)), stack.whole])
        return True

    def _stack(self, stack: Stack) -> Launch:
        grid = self.assembly.row_of(stack.spec.size)
        kernel = stack_kernel(stack.spec, self.length, grid, reverse=self.reverse)
        return self.launch(kernel, (self.counter, stack.source, stack.whole), grid)

    # --- what is carried ---

    def _write_in_place(self, source: int, old: int) -> None:
        """Let the kernel that makes a value write it over the old one, where that is not needed any more."""
        found = self._launch_of(source)
        others = [pair for pair in self.copies if pair != (source, old)]
        if found is None or source in self.kept or any(old in pair for pair in others):
            return
        position, launch, kernel, name = found
        last = max((*self._users(old, writes=True), *self._users(old, writes=False)), default=-1)
        if last > position:
            return
        cells = [binding.slot for binding in launch.bindings]
        if old in cells:
            reads = [p.name for p, cell in zip(kernel.buffers, cells, strict=True) if cell == old]
            made = rewire.in_place(kernel, reads[0], name) if len(reads) == 1 else None
            if made is None:
                return
            self._put(position, made, [cell for cell in cells if cell != old])
        self.copies.remove((source, old))
        self._rename(source, old, position)

    def _ordered(self) -> list[tuple[int, int]]:
        """The copies that are left, each after those that read what it overwrites."""
        left = list(self.copies)
        done: list[tuple[int, int]] = []
        while left:
            read = {source for source, _ in left}
            free = next((pair for pair in left if pair[1] not in read), None)
            if free is None:  # all of them in circles: one value steps aside
                value = left[0][1]
                aside = self.fresh[self.carry.index(value)]
                done.append((value, aside))
                left = [(aside if source == value else source, target) for source, target in left]
            else:
                left.remove(free)
                done.append(free)
        return done

    def _drop_unread(self, cells: Sequence[int]) -> None:
        """Let kernels not store to cells that nothing reads any more."""
        for cell in cells:
            found = self._launch_of(cell)
            if found is None or self._users(cell, writes=False) or any(cell == source for source, _ in self.copies):
                continue
            position, launch, kernel, name = found
            made = rewire.without(kernel, name)
            if made is not None and len(made.buffers) and any(p.access != "read" for p in made.buffers):
                self._put(position, made, [b.slot for b in launch.bindings if b.slot != cell])


def renamed(step: Step, cell: Callable[[int], int]) -> Step:
    """A step with other cells."""
    match step:
        case Launch():
            return replace(step, bindings=tuple(replace(b, slot=cell(b.slot)) for b in step.bindings))
        case Copy():
            return Copy(cell(step.source), cell(step.target))
        case Branch():
            first, second = (tuple(renamed(each, cell) for each in block) for block in step.blocks)
            return Branch(cell(step.predicate), (first, second))
        case Loop():
            return replace(
                step,
                condition=tuple(renamed(each, cell) for each in step.condition),
                predicate=cell(step.predicate),
                body=tuple(renamed(each, cell) for each in step.body),
                counter=cell(step.counter),
            )


def stack_kernel(spec: ArraySpec, length: int, grid: FlatGrid, *, reverse: bool) -> Kernel:
    """A kernel that copies one turn's result to its place among all turns'."""
    size = spec.size
    k = grid.builder("stack")
    turn = k.buffer("turn", i32, "read", (1,))
    source = k.buffer("in1", spec.dtype, "read", (size,))
    target = k.buffer("out2", spec.dtype, "write", (length, size))
    number = k.let(k.cast(k.load(turn, (k.i(0),)), k.index_dtype), "turn_number")
    with grid.thread(k) as i:
        row = k.op("sub", k.i(length - 1), number) if reverse else number
        k.store(target, (row, i), k.load(source, (i,)))
    return k.finish()


# --- kernels that are left ------------------------------------------------------------------------------------------


def used_kernels(
    kernels: Sequence[Kernel], steps: Sequence[Step], prologue: Sequence[Launch | Copy]
) -> tuple[tuple[Kernel, ...], tuple[Step, ...], tuple[Launch | Copy, ...]]:
    """A program's kernels without those that no launch has any more, and its steps with the new numbers."""
    numbers: dict[int, int] = {}

    def simple(each: Launch | Copy) -> Launch | Copy:
        return each if isinstance(each, Copy) else replace(each, kernel=numbers.setdefault(each.kernel, len(numbers)))

    def step(each: Step) -> Step:
        match each:
            case Branch():
                first, second = (tuple(map(step, block)) for block in each.blocks)
                return replace(each, blocks=(first, second))
            case Loop():
                return replace(each, condition=tuple(map(step, each.condition)), body=tuple(map(step, each.body)))
            case _:
                return simple(each)

    found = tuple(map(step, steps)), tuple(map(simple, prologue))
    return tuple(kernels[number] for number in numbers), *found
