"""Loops as one kernel, where no thread needs what another one makes: each goes round by itself.

The kernels of a turn become the body of a loop inside one kernel.  Values of one element, which every thread computes
for itself, and arrays that every thread reads and writes at its own element alone, stay in locals from turn to turn.
A launch makes a bounded number of turns, so that no device is busy with one for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from poot.dtypes import ArraySpec, DType, bool_, i32
from poot.kernel.ir import (
    Access,
    Assign,
    BufferParam,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Stmt,
    Store,
    Var,
    operands,
    walk,
)
from poot.kernel.rebuild import Rebuilder
from poot.plan.parts import ONE, Node, Part, Size, flops_of, parts_of, predicates_of, tree_of
from poot.plan.program import Copy, Loop, Step

if TYPE_CHECKING:
    from poot.plan.assemble import Assembly

#: Nodes that one thread may evaluate in a launch, and all threads together.
_THREAD_WORK = 1 << 18
_LAUNCH_WORK = 1 << 30
#: Turns of a launch that looks at a condition: those after the last cost next to nothing, but not nothing.
_MOST_LOOKS = 256
#: Elements up to which one thread does the work of all, where they would have to wait for each other.
_SERIAL = {"cpu": 8}
_SERIAL_ELSEWHERE = 64
#: Elements beyond which the CPU reads the rows of one turn after the other better than one column after the other.
_WIDE = 1024


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a loop is to the turns: `length` of them, numbered in `counter`, or as long as the bool `flag` is true.

    `kept` are the cells that are read by the next turn, or after the loop.
    """

    kept: Sequence[int]
    length: int = -1
    counter: int = -1
    flag: int = -1


def as_one_kernel(assembly: Assembly, turn: Sequence[Step], rounds: Rounds) -> list[Step] | None:
    """The steps of a loop whose turns run inside a kernel; None where they cannot."""
    tree = tree_of(assembly, turn)
    parts = [] if tree is None else list(parts_of(tree))
    if tree is None or not parts:
        return None
    sizes = {part.size for part in parts if part.threads > 1}
    if len(sizes) <= 1:
        made = _Fusion(assembly, tree, parts, rounds, next(iter(sizes), ONE)).steps()
        if made is not None:
            return made
    least = _SERIAL.get(assembly.target.backend, _SERIAL_ELSEWHERE)
    if sizes and all(part.threads <= least and part.is_line for part in parts):
        return _Fusion(assembly, tree, parts, rounds, ONE).steps()
    return None


# --- one kernel of them -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cell:
    """How the turn uses a cell: `at` are the indices at which it is accessed, locals resolved."""

    param: BufferParam
    read: bool = False
    written: bool = False
    at: set[tuple[Expr, ...]] = field(default_factory=set[tuple[Expr, ...]])
    wide: set[bool] = field(default_factory=set[bool])
    alike: bool = True


@dataclass(slots=True)
class _Fusion:
    """The kernel in the making, for threads of one size."""

    assembly: Assembly
    tree: tuple[Node, ...]
    parts: list[Part]
    rounds: Rounds
    size: Size
    cells: dict[int, _Cell] = field(default_factory=dict[int, _Cell])
    locals: dict[int, Var] = field(default_factory=dict[int, Var])
    aside: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def ordinals(self) -> dict[int, int]:
        """Cells by the order in which the turn uses them: equal turns make equal kernels."""
        return {number: place for place, number in enumerate(self.cells)}

    def name(self, number: int) -> str:
        """The buffer of a cell."""
        return f"m{self.ordinals[number]}"

    @property
    def wide(self) -> bool:
        return self.size != ONE

    def steps(self) -> list[Step] | None:
        """The steps of the loop."""
        self._survey()
        if not self._place():
            return None
        work = 1 + sum(part.work * (1 if self.wide else part.threads) for part in self.parts)
        threads = prod(self.size[0]) * prod(self.size[2])
        most = min(_THREAD_WORK // work, _LAUNCH_WORK // (work * threads))
        rounds = self.rounds
        if rounds.flag >= 0:
            turns = min(most, _MOST_LOOKS)
            launch = None if turns < 4 else self._launch(turns, None)
            return None if launch is None else [Loop((), rounds.flag, tuple(launch), settles=True)]
        if rounds.length <= most:
            return self._launch(rounds.length, Const(0, i32))
        return None if most < 4 else self._chunks(most)

    def _chunks(self, most: int) -> list[Step] | None:
        """As many launches as it takes, of equal numbers of turns where that comes out even, and one for the rest."""
        length = self.rounds.length
        turns = next((n for n in range(most, most // 2, -1) if length % n == 0), most)
        count, rest = divmod(length, turns)
        base = Op("mul", (Load("turn", (Const(0, i32),), i32, checked=False), Const(turns, i32)), i32)
        launch = self._launch(turns, base)
        last = self._launch(rest, Const(count * turns, i32)) if rest else []
        if launch is None or last is None:
            return None
        return [Loop((), -1, tuple(launch), count, self.rounds.counter), *last]

    def _survey(self) -> None:
        for part in self.parts:
            for node in walk(part.kernel.body):
                if not isinstance(node, (Load, Store)):
                    continue
                param = part.kernel.param(node.buffer)
                assert isinstance(param, BufferParam)
                cell = self.cells.setdefault(part.cells[node.buffer], _Cell(param))
                cell.alike &= (cell.param.shape, cell.param.strides) == (param.shape, param.strides)
                cell.read |= isinstance(node, Load)
                cell.written |= isinstance(node, Store)
                cell.at.add(tuple(map(part.resolve, node.indices)))
                cell.wide.add(part.threads > 1)

        for number in predicates_of(self.tree):
            cell = self.cells.setdefault(number, _Cell(BufferParam("", bool_, "read", (1,), (1,))))
            cell.read = True
            cell.at.add(tuple(Const(0, i32) for _ in cell.param.shape))
            cell.wide.add(False)

    def _place(self) -> bool:
        """Decide what stays in locals; False where threads would have to wait for each other."""
        rounds, backend = self.rounds, self.assembly.target.backend
        memory = False
        if self.wide and any(part.launch.kernel in self.assembly.updating for part in self.parts):
            return False  # what one thread changes now another one may change next
        for number, cell in self.cells.items():
            if number == rounds.counter:
                continue
            spec = self.assembly.cells.slots[number].spec
            again = cell.written and (cell.read or number == rounds.flag)
            own = spec.size == 1 or (self.wide and cell.wide == {True} and len(cell.at) == 1 and _is_own(cell.at))
            if again and own and (cell.alike or spec.size == 1):
                if self.wide and spec.size == 1 and True in cell.wide and self._written_wide(number):
                    return False
                self.locals[number] = Var(f"c{self.ordinals[number]}", spec.dtype)
            elif (again and self.wide) or not cell.alike:
                return False
            else:
                memory |= spec.size > 1
        scalar_loops = self.wide and any(part.threads == 1 and part.has_loops for part in self.parts)
        columns = backend == "cpu" and memory and prod(self.size[0]) * prod(self.size[2]) > _WIDE
        return not scalar_loops and not columns and (rounds.flag < 0 or rounds.flag in self.locals)

    def _written_wide(self, number: int) -> bool:
        return any(
            part.threads > 1
            and any(isinstance(n, Store) and part.cells[n.buffer] == number for n in walk(part.kernel.body))
            for part in self.parts
        )

    # --- statements ---

    def _launch(self, turns: int, base: Expr | None) -> list[Step] | None:
        """The launch that makes some turns, and the copies of what threads must not overwrite for each other."""
        turn: Expr = Var("turn_number", i32)
        body: list[Stmt] = []
        body += self._statements(self.tree, turn, iter(range(len(self.parts))))
        flag = self.rounds.flag
        if flag >= 0:
            body = [If(self.locals[flag], tuple(body))]
        elif base == Const(0, i32):
            turn_of: Expr = Var("round", i32)
            body.insert(0, Let("turn_number", turn_of))
        else:
            body.insert(0, Let("turn_number", Op("add", (Var("base", i32), Var("round", i32)), i32)))
        loop = For("round", Const(0, i32), Const(turns, i32), 1, tuple(body))
        first: list[Stmt] = [] if base is None or base == Const(0, i32) else [Let("base", base)]
        kept = [number for number in self.locals if number in self.rounds.kept]
        for number, local in self.locals.items():
            start = self._element(number) if number in kept else Const(_zero(local.dtype), local.dtype)
            first.append(Let(local.name, start))
        kernel, cells = self._kernel((*first, loop, *self._stores(kept)), base)
        limit = self.assembly.target.limit("buffers")
        if len(kernel.buffers) >= limit or not self.assembly.legality.fits(kernel):
            return None
        lead = self.parts[0].launch
        flops = flops_of(self.tree) * (1 if base is None else turns)
        launch = self.assembly.launch(kernel, cells, self.size[2], lead.equations, lead.where, flops)
        return [launch, *(Copy(source, target) for target, source in self.aside.items())]

    def _statements(self, tree: Sequence[Node], turn: Expr, numbers: Iterator[int]) -> list[Stmt]:
        body: list[Stmt] = []
        for node in tree:
            if isinstance(node, Part):
                body += _Inline(self, node, f"p{next(numbers)}_", turn).statements()
            else:
                first, second = (tuple(self._statements(block, turn, numbers)) for block in node.blocks)
                body.append(If(self.locals.get(node.predicate) or self._element(node.predicate), second, first))
        return body

    def _element(self, number: int) -> Load:
        (at,) = self.cells[number].at if len(self.cells[number].at) == 1 else (self._origin(number),)
        spec = self.assembly.cells.slots[number].spec
        return Load(self.name(number), self._origin(number) if spec.size == 1 else at, spec.dtype, checked=False)

    def _origin(self, number: int) -> tuple[Expr, ...]:
        return tuple(Const(0, i32) for _ in self.cells[number].param.shape)

    def _stores(self, kept: Sequence[int]) -> list[Stmt]:
        stores: list[Stmt] = []
        self.aside.clear()
        for number in kept:
            spec, local = self.assembly.cells.slots[number].spec, self.locals[number]
            if spec.size > 1 or not self.wide:
                element = self._element(number)
                stores.append(Store(element.buffer, element.indices, local, checked=False))
                continue
            # Threads that begin later have to find the value of before.
            self.aside[number] = self.assembly.cells.new("scratch", ArraySpec(spec.dtype, spec.shape))
            stores.append(
                If(self.first(), (Store(f"a{self.ordinals[number]}", self._origin(number), local, checked=False),))
            )
        return stores

    def first(self) -> Expr:
        """Whether this is the first of all threads."""
        axes = [axis for axis in range(3) if self.size[0][axis] * self.size[2][axis] > 1]
        tests: list[Expr] = [Op("eq", (Index("thread", axis), Const(0, i32)), bool_) for axis in axes]
        found = tests[0]
        for test in tests[1:]:
            found = Op("and", (found, test), bool_)
        return found

    def _kernel(self, body: tuple[Stmt, ...], base: Expr | None) -> tuple[Kernel, list[int]]:
        access: dict[str, Access] = {}
        for node in walk(body):
            if isinstance(node, (Load, Store)):
                now: Access = "read" if isinstance(node, Load) else "write"
                before = access.get(node.buffer, now)
                access[node.buffer] = now if before == now else "readwrite"
        params: list[BufferParam] = []
        cells: list[int] = []
        numbers = list(self.ordinals)
        for name, how in access.items():
            if name == "turn":
                params.append(BufferParam(name, i32, "read", (1,), (1,)))
                cells.append(self.rounds.counter)
                continue
            number = numbers[int(name[1:])]
            params.append(replace(self.cells[number].param, name=name, access=how))
            cells.append(self.aside[number] if name[0] == "a" else number)
        name = "_".join(dict.fromkeys(part.kernel.name for part in self.parts))[:60]
        workgroup, threads, _ = self.size
        return Kernel(f"turns_of_{name}", tuple(params), body, workgroup, threads, i32), cells  # type: ignore[arg-type]


def _zero(dtype: DType) -> bool | int | float:
    return False if dtype is bool_ else 0.0 if dtype.is_float else 0


def _is_own(at: set[tuple[Expr, ...]]) -> bool:
    """Whether an element is found by the number of the thread alone."""
    ((*indices,),) = at
    pending: list[Expr] = list(indices)
    while pending:
        expr = pending.pop()
        if isinstance(expr, (Var, Load)):
            return False
        pending += operands(expr)
    return True


class _Inline(Rebuilder):
    """A part of the turn as statements of the whole kernel."""

    def __init__(self, fusion: _Fusion, part: Part, prefix: str, turn: Expr) -> None:
        self._fusion = fusion
        self._part = part
        self._prefix = prefix
        self._turn = turn
        self._thread: Expr | None = Const(0, i32) if part.threads == 1 else None
        if part.threads > 1 and not fusion.wide:
            self._thread = Var(f"{prefix}thread", i32)

    def statements(self) -> tuple[Stmt, ...]:
        """The part's statements; one thread does the work of all, where there is one."""
        body = self.block(self._part.kernel.body)
        if isinstance(self._thread, Var):
            return (For(self._thread.name, Const(0, i32), Const(self._part.threads, i32), 1, body),)
        return body

    def leaf(self, expr: Expr) -> Expr | None:
        match expr:
            case Var():
                return replace(expr, name=self._prefix + expr.name)
            case Index():
                return expr if self._thread is None else self._thread if expr.axis == 0 else Const(0, i32)
            case Load():
                cell = self._part.cells[expr.buffer]
                if cell == self._fusion.rounds.counter:
                    return self._turn
                local = self._fusion.locals.get(cell)
                indices = tuple(map(self.expr, expr.indices))
                return replace(expr, buffer=self._fusion.name(cell), indices=indices) if local is None else local
            case _:
                return None

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let() | Assign():
                return replace(stmt, name=self._prefix + stmt.name, value=self.expr(stmt.value))
            case For():
                inner = super().stmt(stmt)
                assert isinstance(inner, For)
                return replace(inner, var=self._prefix + stmt.var)
            case Store():
                cell = self._part.cells[stmt.buffer]
                local = self._fusion.locals.get(cell)
                value = self.expr(stmt.value)
                if local is not None:
                    return Assign(local.name, value)
                store = replace(
                    stmt, buffer=self._fusion.name(cell), indices=tuple(map(self.expr, stmt.indices)), value=value
                )
                if self._part.threads == 1 and self._fusion.wide:
                    return If(self._fusion.first(), (store,))
                return store
            case _:
                return super().stmt(stmt)
