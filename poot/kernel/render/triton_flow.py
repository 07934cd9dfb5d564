"""Statements as Triton text: real branches and loops where all lanes go the same way, masks where they do not.

A loop that lanes leave one by one, or from its middle, is a `while` over a mask of those that go on.  Lanes that leave
are taken out of the masks of the loops that they leave; statements behind an exit run under what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poot.dtypes import i32, i64
from poot.errors import Unsupported
from poot.kernel.ir import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Store,
    While,
)
from poot.kernel.render.triton_expr import Expressions, any_lane
from poot.kernel.render.triton_kinds import body_leaves, leaves
from poot.kernel.render.triton_ops import Term, plain
from poot.kernel.render.triton_text import Mask, Writer


@dataclass(frozen=True, slots=True)
class _Loop:
    """The masks of a loop: lanes that go on after this turn, and lanes in the rest of this turn (often the same)."""

    going: Mask
    live: Mask


class Flow:
    """Writes the statements of one kernel; `alive` is the mask of lanes that have not returned, if any may."""

    def __init__(self, w: Writer, values: Expressions, alive: Mask | None) -> None:
        self.w = w
        self.values = values
        self._alive = alive
        self._loops: list[_Loop] = []
        self._homes: dict[str, Mask | None] = {}

    def block(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements in turn; those behind an exit of all lanes are left out."""
        w = self.w
        for stmt in stmts:
            w.note(stmt.where)
            self._stmt(stmt)
            if isinstance(stmt, (Break, Continue, Return)):
                return
            if leaves(stmt):
                self._rest()

    def _rest(self) -> None:
        """Go on with the lanes that are left."""
        left = self._loops[-1].live if self._loops else self._alive
        mask = self.w.mask
        if left is None or mask is None or mask.text == left.text:
            return
        self.w.mask = None
        self.w.mask = self.w.with_mask(f"{mask.text} & {left.text}", mask.vector or left.vector)

    def _stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let():
                self._let(stmt)
            case Assign():
                self._assign(stmt)
            case Store():
                self.values.store(stmt)
            case Atomic():
                self.values.atomic(stmt)
            case If():
                self._if(stmt)
            case For():
                self._for(stmt)
            case While():
                self._while(stmt)
            case Break() | Continue() | Return():
                self._leave(stmt)
            case Assert():
                index = None if stmt.index is None else self.values(stmt.index)
                self.values.check(stmt, self.values(stmt.condition), index)
            case Alloc(space="private"):
                self.values.alloc(stmt)
            case Barrier() | Alloc():
                what = "a barrier" if isinstance(stmt, Barrier) else "a shared array"
                raise Unsupported(
                    what=f"kernel {self.values.kernel.name}: {what}",
                    target=self.w.spelling.target,
                    message="Triton has none",
                    where=stmt.where,
                    remedy='write it for "ptx", which has both.',
                )

    # --- locals ---

    def _shaped(self, name: str, value: Term) -> str:
        """A value in the form that the local has everywhere."""
        if self.values.kinds.block(name):
            return plain(self.values.spread(value))
        return plain(value.text)

    def _let(self, stmt: Let) -> None:
        text = self._shaped(stmt.name, self.values(stmt.value))
        self._homes[stmt.name] = self.w.mask
        self.w.line(f"{self.w.name(stmt.name)} = {text}")

    def _assign(self, stmt: Assign) -> None:
        w, name = self.w, self.w.name(stmt.name)
        text = self._shaped(stmt.name, self.values(stmt.value))
        if self.values.kinds.block(stmt.name):
            home = self._homes.get(stmt.name)
            mask = "" if w.mask is None or (home is not None and home.text == w.mask.text) else w.mask.text
        else:
            mask = w.guard()
        w.line(f"{name} = tl.where({mask}, {text}, {name})" if mask else f"{name} = {text}")

    # --- branches and exits ---

    def _if(self, stmt: If) -> None:
        w = self.w
        condition = self.values(stmt.condition)
        if not condition.vector:
            # Where no lane is active, what the branch does is masked or never seen.
            with w.nested(f"if {plain(condition.text)}:"):
                self.block(stmt.then)
            if stmt.orelse:
                with w.nested("else:"):
                    self.block(stmt.orelse)
            return
        outer = w.mask
        name = w.bind("chosen", plain(condition.text))
        w.mask = w.with_mask(name, True)
        self.block(stmt.then)
        if stmt.orelse:
            w.mask = outer
            w.mask = w.with_mask(f"~{name}", True)
            self.block(stmt.orelse)
        w.mask = outer

    def _leave(self, stmt: Break | Continue | Return) -> None:
        """Take the active lanes out of every mask that they leave."""
        masks: list[Mask] = []
        match stmt:
            case Continue():
                masks = [self._loops[-1].live]
            case Break():
                masks = [self._loops[-1].live, self._loops[-1].going]
            case Return():
                masks = [mask for loop in self._loops for mask in (loop.live, loop.going)]
                masks += [self._alive] if self._alive is not None else []
        mask, w = self.w.mask, self.w
        assert mask is not None, "a kernel with exits has a mask"
        # The active lanes' own mask may be among those that change.
        leaving = w.bind("leaving", mask.text) if mask.text in {m.text for m in masks} else mask.text
        for text, vector in dict.fromkeys((m.text, m.vector) for m in masks):
            gone = leaving if vector or not mask.vector else w.spelling.call("any_of", leaving)
            w.line(f"{text} = {text} & ~{gone}")
            w.changed(text)

    # --- loops ---

    def _for(self, stmt: For) -> None:
        w = self.w
        start, stop = self.values(stmt.start), self.values(stmt.stop)
        dtype = stmt.start.dtype
        end = stop.value
        counts = stmt.step == 1 or (stmt.step > 0 and end is not None and int(end) + stmt.step <= int(dtype.max))
        plainly = dtype in (i32, i64) and counts and not (start.vector or stop.vector)
        if not plainly or body_leaves(stmt.body, Break, Continue, Return):
            self._counted(stmt, start, stop)
            return
        bounds = [str(t.value) if t.value is not None and dtype is i32 else plain(t.text) for t in (start, stop)]
        step = "" if stmt.step == 1 else f", {stmt.step}"
        with w.nested(f"for {w.name(stmt.var)} in range({', '.join(bounds)}{step}):"):
            self._homes[stmt.var] = w.mask
            self.block(stmt.body)

    def _counted(self, stmt: For, start: Term, stop: Term) -> None:
        """A counted loop under a mask; how far the end still is says whether a turn follows, so nothing wraps."""
        w, step = self.w, stmt.step
        block = self.values.kinds.block(stmt.var)
        var = w.name(stmt.var)
        w.line(f"{var} = {self._shaped(stmt.var, start)}")
        last = str(stop.value) if stop.value is not None else w.bind("stop", plain(stop.text))
        if last.startswith("-"):
            last = f"({last})"
        entry = f"{var} {'<' if step > 0 else '>'} {last}"
        vector = block or stop.vector
        unsigned = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}[stmt.start.dtype.bits]
        distance = f"({last} - {var})" if step > 0 else f"({var} - {last})"

        def more(going: Mask) -> None:
            w.line(f"{going.text} = {going.text} & ({distance}.to(tl.{unsigned}, bitcast=True) > {abs(step)})")
            w.line(f"{var} = {var} + {step}" if step > 0 else f"{var} = {var} - {-step}")
            w.changed(going.text)

        self._masked(entry, vector, stmt.body, more)

    def _while(self, stmt: While) -> None:
        w = self.w
        before = len(w.lines)
        condition = self.values(stmt.condition)
        if condition.vector or body_leaves(stmt.body, Break, Continue, Return):
            going = plain(condition.text)
            self._masked(going, condition.vector, stmt.body, lambda mask: self._again(stmt.condition, mask))
            return
        simple = len(w.lines) == before
        guard = w.guard()  # where no lane is active, nothing would ever end the loop
        if simple and not guard:
            with w.nested(f"while {plain(condition.text)}:"):
                self.block(stmt.body)
            return
        also = f"{guard} & " if guard else ""
        going = w.bind("going", also + condition.text)
        with w.nested(f"while {going}:"):
            self.block(stmt.body)
            w.line(f"{going} = {also}{self.values(stmt.condition).text}")

    def _again(self, condition: Expr, going: Mask) -> None:
        """Evaluate the condition for the lanes that go on."""
        w = self.w
        w.mask = going
        text = self.values(condition).text
        w.line(f"{going.text} = {going.text} & {text}")
        w.changed(going.text)

    def _masked(self, entry: str, vector: bool, body: tuple[Stmt, ...], more: Callable[[Mask], None]) -> None:
        """A loop over a mask: `entry` is the condition of the first turn, `more` writes that of the next."""
        w, outer = self.w, self.w.mask
        vector = vector or (outer is not None and outer.vector) or self._splits(body)
        first = w.with_mask(f"({entry})" if outer is not None else entry, vector)
        going = Mask(first.text, vector)
        if vector and not (outer is not None and outer.vector):
            w.line(f"{going.text} = {going.text} & tl.full(({self.values.size},), True, tl.int1)")
        with w.nested(f"while {any_lane(w, going)}:"):
            live = Mask(w.bind("live", going.text), vector) if body_leaves(body, Continue) else going
            self._loops.append(_Loop(going, live))
            w.mask = live
            self.block(body)
            self._loops.pop()
            w.mask = going
            more(going)
        w.mask = outer

    def _splits(self, body: tuple[Stmt, ...]) -> bool:
        """Whether a condition inside may let some lanes leave and others stay."""
        return any(
            (isinstance(stmt, If) and leaves(stmt) and self.values.kinds.vector(stmt.condition))
            or (isinstance(stmt, (For, While)) and leaves(stmt, (Return,)))
            or (isinstance(stmt, If) and (self._splits(stmt.then) or self._splits(stmt.orelse)))
            for stmt in body
        )
