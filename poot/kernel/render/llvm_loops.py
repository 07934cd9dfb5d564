"""Loops, and the exits that lanes take from them.

A loop whose turns are the same for all lanes is a real loop.  One that lanes may leave one by one keeps the lanes still
inside in a cell, and those still in this turn in another; a masked `break`, `continue` or `return` takes lanes out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from poot.kernel.ir import Break, Continue, For, Return, Stmt, While, walk
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, every
from poot.kernel.render.llvm_expr import Expressions
from poot.kernel.uniform import Affine, LaneForm, Uniformity

#: Nodes of a loop's body that may stand twice: without masks, and with them for the last turns.
_COPIED = 400
#: Loops of a few turns are LLVM's to unroll, up to so many expression nodes in all.
_FEW, _WRITTEN_OUT = 8, 200


@dataclass(slots=True)
class Loop:
    """A loop being written: its labels, and the cells of the lanes still in the loop and in this turn.

    The cells of an `outer` loop outlive the code being written, which is one run of its body.
    """

    exit: str
    latch: str
    live: str | None
    turn: str | None
    outer: bool = False


class LoopFlow(ABC):
    """What a body being written knows of its loops; `end` is the label behind it."""

    def __init__(self, e: Emitter, values: Expressions, uniformity: Uniformity, end: str) -> None:
        self.e = e
        self.values = values
        self.uniformity = uniformity
        self._end = end
        self._loops: list[Loop] = []
        self._live: str | None = None
        self._outlives = False
        self._exits = 0
        self._returns = 0

    @abstractmethod
    def block(self, stmts: Sequence[Stmt]) -> None:
        """Write statements in order, under the current mask."""

    def _enter(self, stmt: For | While) -> Loop:
        e = self.e
        masked = self.uniformity.masked_exit(stmt.body, Break, Continue, Return)
        live = e.cell(e.mask_type) if masked or self.uniformity.divergent_loop(stmt) else None
        loop = Loop(e.name("exit"), e.name("latch"), live, e.cell(e.mask_type) if masked else None)
        if live is not None:
            e.do(f"store {e.mask_type} {e.active()}, ptr {live}")
        return loop

    def _turn(self, loop: Loop, body: Sequence[Stmt]) -> None:
        """One turn under the current mask, up to the latch."""
        e = self.e
        if loop.turn is not None:
            e.do(f"store {e.mask_type} {e.active()}, ptr {loop.turn}")
        self._loops.append(loop)
        with e.scope():
            self.block(body)
        self._loops.pop()
        e.label(loop.latch)

    def _leave(self, loop: Loop, mask: str | None, exits: int, returns: int) -> None:
        """After a loop all lanes that came to it go on, but for those that have returned."""
        self.e.label(loop.exit)
        self.e.mask = mask
        self._exits = exits + (self._returns != returns)

    def _while(self, stmt: While) -> None:
        e, mask, exits, returns = self.e, self.e.mask, self._exits, self._returns
        loop = self._enter(stmt)
        head, body = e.name("head"), e.name("body")
        e.label(head)
        with e.scope():
            if loop.live is not None:
                e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            if self.uniformity.is_uniform(stmt.condition):
                e.branch(self.values.condition(stmt.condition), body, loop.exit)
            else:
                e.mask = e.both(e.mask, e.vector(self.values(stmt.condition)))
                e.do(f"store {e.mask_type} {e.active()}, ptr {loop.live}")
                e.branch(e.any(e.active()), body, loop.exit)
            e.label(body)
            self._turn(loop, stmt.body)
            if loop.turn is None or loop.live is None:
                e.jump(head)
            else:
                left = e.emit(f"load {e.mask_type}, ptr {loop.live}")
                e.branch(e.any(left), head, loop.exit)
        self._leave(loop, mask, exits, returns)

    def _for(self, stmt: For) -> None:
        start, stop = self.values(stmt.start), self.values(stmt.stop)
        divergent = start.form is None or stop.form is None or start.form.stride != stop.form.stride
        mask, exits, returns = self.e.mask, self._exits, self._returns
        loop = self._enter(stmt)
        if divergent and loop.live is not None:
            self._masked_for(stmt, loop, start, stop)
        else:
            self._counted_for(stmt, loop, start, stop)
        self._leave(loop, mask, exits, returns)

    def _counted_for(self, stmt: For, loop: Loop, start: Value, stop: Value) -> None:
        """All lanes make the same number of turns, unless they leave by an exit of their own."""
        e = self.e
        t, signed, inside = REGISTER[start.dtype], start.dtype.kind == "int", _inside(stmt, start)
        body, counter, following = e.name("body"), f"%{e.name('i')}", f"%{e.name('n')}"
        first, last = self.values.scalar(start), self.values.scalar(stop)
        limit = _limit(e, t, last, stmt.step, signed)
        e.branch(e.emit(f"icmp {inside} {t} {first}, {last}"), body, loop.exit)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi {t} [ {first}, %{entered} ], [ {following}, %{loop.latch} ]")
            self.values.locals[stmt.var] = _counter(stmt, counter, start, stop)
            if loop.live is not None:
                e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            self._turn(loop, stmt.body)
            more = e.emit(f"icmp {inside} {t} {counter}, {limit}")
            if loop.live is not None:
                left = e.any(e.emit(f"load {e.mask_type}, ptr {loop.live}"))
                more = e.emit(f"and i1 {more}, {left}")
            e.do(f"{following} = add {'nsw ' if signed else ''}{t} {counter}, {stmt.step}")
            e.again(more, body, loop.exit, few=_is_short(stmt, start, stop))

    def _masked_for(self, stmt: For, loop: Loop, start: Value, stop: Value) -> None:
        """Lanes go on while their own counter is inside."""
        e = self.e
        if self._mostly_full(stmt, loop, start, stop):
            self._full_turns(stmt, loop, start, stop)
            return
        entering = e.emit(f"icmp {_inside(stmt, start)} {e.register[start.dtype]} {e.vector(start)}, {e.vector(stop)}")
        self._masked_turns(stmt, loop, start, stop, start.text, e.both(e.mask, entering) or entering)

    def _masked_turns(self, stmt: For, loop: Loop, start: Value, stop: Value, first: str, entering: str) -> None:
        """Turns from `first` on, for the lanes of `entering`, each as long as its counter is inside."""
        e, dtype, form = self.e, start.dtype, _counter_form(stmt, start)
        t = e.register[dtype]
        own = t if form is None else REGISTER[dtype]
        body, counter, following = e.name("body"), f"%{e.name('i')}", f"%{e.name('n')}"
        limit = _limit(e, t, e.vector(stop), stmt.step, dtype.kind == "int")
        e.do(f"store {e.mask_type} {entering}, ptr {loop.live}")
        e.branch(e.any(entering), body, loop.exit)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi {own} [ {first}, %{entered} ], [ {following}, %{loop.latch} ]")
            value = Value(counter, dtype, form)
            # The first lane is the last to leave where later lanes are ahead of it.
            ahead = form is not None and form.stride >= 0 and stmt.step > 0
            self.values.locals[stmt.var] = _counter(stmt, counter, start, stop) if ahead else value
            e.mask = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            self._turn(loop, stmt.body)
            left = e.emit(f"load {e.mask_type}, ptr {loop.live}")
            going = e.emit(f"icmp {_inside(stmt, start)} {t} {e.vector(value)}, {limit}")
            left = e.emit(f"and {e.mask_type} {left}, {going}")
            e.do(f"store {e.mask_type} {left}, ptr {loop.live}")
            e.do(f"{following} = add {own} {counter}, {every(own, stmt.step)}")
            e.again(e.any(left), body, loop.exit)

    def _mostly_full(self, stmt: For, loop: Loop, start: Value, stop: Value) -> bool:
        """Whether all lanes take most turns together: they step through a range that is the same for all."""
        return (
            self.e.mask is None
            and loop.turn is None
            and start.form is not None
            and start.form.stride > 0
            and stop.uniform
            and stmt.step > 0
            and len(walk(stmt.body)) <= _COPIED
        )

    def _full_turns(self, stmt: For, loop: Loop, start: Value, stop: Value) -> None:
        """Turns without masks while the last lane is inside too, then masked ones for the rest."""
        e, t, form = self.e, REGISTER[start.dtype], _counter_form(stmt, start)
        assert form is not None
        signed, inside, vector = start.dtype.kind == "int", _inside(stmt, start), e.register[start.dtype]
        body, spill, short, rest = e.name("body"), e.name("spill"), e.name("short"), e.name("rest")
        counter, following = f"%{e.name('i')}", f"%{e.name('n')}"
        full = Loop(loop.exit, e.name("latch"), None, None)
        end = _limit(e, t, stop.text, form.stride * (e.lanes - 1), signed)
        limit = _limit(e, t, end, stmt.step, signed)
        e.branch(e.emit(f"icmp {inside} {t} {start.text}, {end}"), body, short)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi {t} [ {start.text}, %{entered} ], [ {following}, %{full.latch} ]")
            self.values.locals[stmt.var] = _counter(stmt, counter, start, stop)
            self._turn(full, stmt.body)
            e.do(f"{following} = add {'nsw ' if signed else ''}{t} {counter}, {stmt.step}")
            e.again(e.emit(f"icmp {inside} {t} {counter}, {limit}"), body, spill)
        e.label(spill)
        with e.scope():
            lasting = _limit(e, vector, e.vector(stop), stmt.step, signed)
            some = e.emit(f"icmp {inside} {vector} {e.vector(Value(counter, start.dtype, form))}, {lasting}")
            after = e.emit(f"add {t} {counter}, {stmt.step}")
            e.jump(rest)
        e.label(short)
        with e.scope():
            few = e.emit(f"icmp {inside} {vector} {e.vector(start)}, {e.vector(stop)}")
            e.jump(rest)
        e.label(rest)
        entering = e.emit(f"phi {e.mask_type} [ {some}, %{spill} ], [ {few}, %{short} ]")
        first = e.emit(f"phi {t} [ {after}, %{spill} ], [ {start.text}, %{short} ]")
        self._masked_turns(stmt, loop, start, stop, first, entering)

    # --- exits ---

    def _break(self, stmt: Break) -> None:
        loop = self._loops[-1]
        if self.uniformity.is_masked(stmt):
            self._take_out(loop.live, loop.turn)
            self._exits += 1
        else:
            self.e.jump(loop.exit)

    def _continue(self, stmt: Continue) -> None:
        loop = self._loops[-1]
        if self.uniformity.is_masked(stmt):
            self._take_out(loop.turn)
            self._exits += 1
            return
        if loop.outer:
            self._take_out(loop.turn)
        self.e.jump(loop.latch)

    def _return(self, stmt: Return) -> None:
        if self.uniformity.is_masked(stmt):
            self._take_out(self._live, *(cell for loop in self._loops for cell in (loop.live, loop.turn)))
            self._exits += 1
            self._returns += 1
            return
        if self._outlives:
            self._take_out(self._live)
        self.e.jump(self._end)

    def _take_out(self, *cells: str | None) -> None:
        """The active lanes leave."""
        e = self.e
        gone = e.emit(f"xor {e.mask_type} {e.active()}, {e.all_lanes}")
        for cell in cells:
            if cell is not None:
                left = e.emit(f"load {e.mask_type}, ptr {cell}")
                left = e.emit(f"and {e.mask_type} {left}, {gone}")
                e.do(f"store {e.mask_type} {left}, ptr {cell}")


def _is_short(stmt: For, start: Value, stop: Value) -> bool:
    """Whether a loop makes a few short turns, as many as its bounds, literals, say."""
    if start.constant is None or stop.constant is None:
        return False
    turns = len(range(start.constant, stop.constant, stmt.step))
    return turns <= _FEW and turns * len(walk(stmt.body)) <= _WRITTEN_OUT


def _inside(stmt: For, start: Value) -> str:
    """The comparison of a counter with its end."""
    return ("s" if start.dtype.kind == "int" else "u") + ("lt" if stmt.step > 0 else "gt")


def _limit(e: Emitter, t: str, stop: str, step: int, signed: bool) -> str:
    """The bound that a counter must be inside for one more step to stay below `stop`: computed without wrapping."""
    name = ("s" if signed else "u") + ("sub" if step > 0 else "add") + ".sat"
    return e.intrinsic(name, t, stop, every(t, abs(step)))


def _counter(stmt: For, text: str, start: Value, stop: Value) -> Value:
    """The loop variable, with the bounds that its range gives it."""
    low, high = (start.low, stop.high) if stmt.step > 0 else (stop.low, start.high)
    form = _counter_form(stmt, start)
    if low is None or high is None:
        return Value(text, start.dtype, form)
    return Value(text, start.dtype, form, low + (stmt.step < 0), high - (stmt.step > 0))


def _counter_form(stmt: For, start: Value) -> LaneForm:
    return start.form and Affine(start.form.stride, gcd(start.form.multiple, stmt.step))
