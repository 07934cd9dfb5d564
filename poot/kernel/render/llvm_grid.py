"""The loops around a body: rows of work-groups, the threads of a row in vectors, the parts of a group."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from poot.kernel.ir import Kernel
from poot.kernel.render.llvm_arguments import Arguments
from poot.kernel.render.llvm_emit import REGISTER, Emitter, Value, constant
from poot.kernel.render.llvm_plan import Plan
from poot.kernel.uniform import Affine

#: The launch's numbers, by kind and axis.
Numbers = dict[tuple[str, int], Value]
#: Writes something for the lanes of a mask (all lanes where it is None) of a part, whose number is an i64.
Write = Callable[[Numbers, str | None, str], None]
#: The place of a work-group: i64 operands.
Place = tuple[str, str, str]

_SAME = Affine(0, 1)
#: Loops over so many parts are LLVM's to unroll, since then what each part keeps need not be an array.
_FEW = 8


class Grid:
    """Writes the loops of one kernel; `numbers` are those that all threads share."""

    def __init__(self, e: Emitter, kernel: Kernel, chosen: Plan, args: Arguments) -> None:
        self.e = e
        self.kernel = kernel
        self.plan = chosen
        self.args = args

    @contextmanager
    def loop(self, start: str, stop: str, step: int, *, few: bool = False) -> Generator[str]:
        """A loop over i64 numbers, `few` where it makes few turns; yields the counter."""
        e = self.e
        body, latch, after = e.name("loop"), e.name("next"), e.name("after")
        counter, following = f"%{e.name('g')}", f"%{e.name('g')}"
        e.branch(e.emit(f"icmp slt i64 {start}, {stop}"), body, after)
        entered = e.block
        e.label(body)
        with e.scope():
            e.do(f"{counter} = phi i64 [ {start}, %{entered} ], [ {following}, %{latch} ]")
            yield counter
            e.label(latch)
            e.do(f"{following} = add nsw i64 {counter}, {step}")
            e.again(e.emit(f"icmp slt i64 {following}, {stop}"), body, after, few=few)
        e.label(after)

    def rows(self, row: Callable[[str, str, str, str], None]) -> None:
        """Walk begin to end in runs of groups that share y and z; only the first is found by division."""
        e, (nx, ny, _) = self.e, self.args.groups
        done, head, latch = e.name("done"), e.name("row"), e.name("next")
        e.branch(e.emit("icmp slt i64 %begin, %end"), "start", done)
        e.label("start")
        x0 = e.emit(f"urem i64 %begin, {nx}")
        above = e.emit(f"udiv i64 %begin, {nx}")
        y0 = e.emit(f"urem i64 {above}, {ny}")
        z0 = e.emit(f"udiv i64 {above}, {ny}")
        e.label(head)
        e.do(f"%g = phi i64 [ %begin, %start ], [ %g.next, %{latch} ]")
        e.do(f"%gx = phi i64 [ {x0}, %start ], [ 0, %{latch} ]")
        e.do(f"%gy = phi i64 [ {y0}, %start ], [ %gy.next, %{latch} ]")
        e.do(f"%gz = phi i64 [ {z0}, %start ], [ %gz.next, %{latch} ]")
        with e.scope():
            run = e.intrinsic("smin", "i64", e.emit(f"sub i64 {nx}, %gx"), e.emit("sub i64 %end, %g"))
            row("%gx", e.emit(f"add i64 %gx, {run}"), "%gy", "%gz")
            e.label(latch)
            e.do(f"%g.next = add i64 %g, {run}")
            up = e.emit("add i64 %gy, 1")
            wrapped = e.emit(f"icmp eq i64 {up}, {ny}")
            e.do(f"%gy.next = select i1 {wrapped}, i64 0, i64 {up}")
            carry = e.emit(f"zext i1 {wrapped} to i64")
            e.do(f"%gz.next = add i64 %gz, {carry}")
            e.again(e.emit("icmp slt i64 %g.next, %end"), head, done)
        e.label(done)

    def number(self, text: str, form: Affine, high: int | None = None) -> Value:
        """An i64 as a number of the index dtype, not negative."""
        e, dtype = self.e, self.kernel.index_dtype
        t = REGISTER[dtype]
        form = form if e.lanes > 1 else Affine(0, form.multiple)
        top = int(dtype.max) if high is None else high
        if t == "i64" or not text.startswith("%"):
            return Value(text, dtype, form, 0, top)
        short = e.known((t, text), f"trunc nsw i64 {text} to {t}")
        e.remember(("i64", short), text)
        return Value(short, dtype, form, 0, top)

    def known(self, axis: int) -> int | None:
        """The number of threads on an axis, where the kernel fixes it."""
        return self.kernel.threads[axis] if self.kernel.threads is not None else None

    def highest(self, axis: int) -> int | None:
        """The greatest thread number on an axis, where the kernel fixes it."""
        count = self.known(axis)
        return None if count is None else max(count - 1, 0)

    def first_lanes(self, count: str) -> str:
        """The mask of the first lanes; `count` is an i64 of at most as many as there are."""
        e = self.e
        short = e.emit(f"trunc i64 {count} to i8")
        return e.emit(f"icmp ult <{e.lanes} x i8> {e.steps('i8', 1)}, {e.splat(short, 'i8')}")

    # --- flat kernels ---

    def flat(self, write: Write, clip: Callable[[str, str, Numbers], tuple[str, str]]) -> None:
        """Every thread of the groups begin to end, in vectors along x; `clip` may narrow the range of a row."""

        def row(start: str, stop: str, y: str, z: str) -> None:
            e, (width, height, depth) = self.e, self.kernel.workgroup
            numbers = dict(self.args.numbers)
            numbers["group", 1], numbers["group", 2] = self.number(y, _SAME), self.number(z, _SAME)
            first, last = e.emit(f"mul i64 {start}, {width}"), e.emit(f"mul i64 {stop}, {width}")
            if self.args.threads[0] is not None:
                last = e.intrinsic("smin", "i64", last, self.args.threads[0])
            with self._along(2, z, depth, numbers), self._along(1, y, height, numbers):
                self._vectors(*clip(first, last, numbers), numbers, write)

        self.rows(row)

    @contextmanager
    def _along(self, axis: int, group: str, size: int, numbers: Numbers) -> Generator[None]:
        """For each thread of a group on an axis that is not the lanes'."""
        e, threads = self.e, self.args.threads[axis]
        if size == 1:
            # A launch has just as many groups as it takes to cover the threads.
            numbers["local", axis] = constant(0, self.kernel.index_dtype)
            numbers["thread", axis] = self.number(group, _SAME, self.highest(axis))
            yield
            return
        first = e.emit(f"mul i64 {group}, {size}")
        last = e.emit(f"add i64 {first}, {size}")
        if threads is not None:
            last = e.intrinsic("smin", "i64", last, threads)
        with self.loop(first, last, 1) as thread:
            numbers["local", axis] = self.number(e.emit(f"sub i64 {thread}, {first}"), _SAME, size - 1)
            numbers["thread", axis] = self.number(thread, _SAME, self.highest(axis))
            yield

    def _vectors(self, first: str, last: str, numbers: Numbers, write: Write) -> None:
        """All threads first <= x < last: full vectors, then what is left over."""
        e, lanes, size = self.e, self.plan.lanes, self.kernel.workgroup[0]
        form = Affine(1, lanes if self.plan.aligned else 1)
        if self.plan.overlap:
            final = e.intrinsic("smax", "i64", e.emit(f"sub i64 {last}, {lanes}"), "0")
            with self.loop(first, last, lanes) as x:
                at = e.intrinsic("smin", "i64", x, final)
                write({**numbers, ("thread", 0): self.number(at, form, self.highest(0))}, None, "0")
            return
        known = self.known(0)
        exact = self.args.threads[0] is None or (known is not None and known % lanes == 0)
        whole = lanes == 1 or (size % lanes == 0 and exact and not self.plan.bounds)
        if self.plan.once and not whole:
            with self.loop(first, last, lanes) as x:
                left = e.intrinsic("smin", "i64", e.emit(f"sub i64 {last}, {x}"), str(lanes))
                write({**numbers, ("thread", 0): self.number(x, form, self.highest(0))}, self.first_lanes(left), "0")
            return
        if known is None or known >= lanes:
            full = last if lanes == 1 else e.emit(f"sub i64 {last}, {lanes - 1}")
            with self.loop(first, full, lanes) as x:
                write({**numbers, ("thread", 0): self.number(x, form, self.highest(0))}, None, "0")
        if whole:
            return
        length = e.intrinsic("smax", "i64", e.emit(f"sub i64 {last}, {first}"), "0")
        rest = e.emit(f"and i64 {length}, {lanes - 1}")
        some, after = e.name("some"), e.name("after")
        e.branch(e.emit(f"icmp ne i64 {rest}, 0"), some, after)
        e.label(some)
        with e.scope():
            x = e.emit(f"sub i64 {last}, {rest}")
            write({**numbers, ("thread", 0): self.number(x, form, self.highest(0))}, self.first_lanes(rest), "0")
        e.label(after)

    # --- groups ---

    def groups(self, write: Callable[[Place], None]) -> None:
        """Every group from begin to end."""

        def row(start: str, stop: str, y: str, z: str) -> None:
            with self.loop(start, stop, 1) as x:
                write((x, y, z))

        self.rows(row)

    def group_numbers(self, place: Place) -> Numbers:
        """The numbers that a work-group's threads share."""
        numbers = dict(self.args.numbers)
        for axis, group in enumerate(place):
            numbers["group", axis] = self.number(group, _SAME)
        return numbers

    def parts(self, place: Place, numbers: Numbers, write: Write, *, twice: bool) -> None:
        """Every part of a group in the order of its threads' linear numbers.

        With `twice` a body that may need a mask is written a second time without one, for parts that are whole.
        """
        with nullcontext("0") if self.plan.parts == 1 else self.all_parts() as part:
            skip = self.e.name("skip")
            numbers = dict(numbers)
            left = self.part(place, part, numbers, skip)
            self._masked(left, numbers, part, write, twice=twice)
            self.e.label(skip)

    def all_parts(self) -> AbstractContextManager[str]:
        """A loop over the parts of a group."""
        return self.loop("0", str(self.plan.parts), 1, few=self.plan.parts <= _FEW)

    def part(self, place: Place, part: str, numbers: Numbers, skip: str) -> str:
        """Fill in the numbers of a part.

        Returns how many lanes are threads (an i64), "" if all are; goes to `skip` if none is.
        """
        e, axis, lanes = self.e, self.plan.axis, self.plan.lanes
        size = self.kernel.workgroup[axis]
        chunks = -(-size // lanes)
        chunk, part = (part, "0") if chunks == self.plan.parts else self._split(part, chunks)
        left = ""
        for a, extent in enumerate(self.kernel.workgroup):
            if a == axis:
                local = "0" if chunks == 1 else e.emit(f"mul i64 {chunk}, {lanes}")
                inner, outer = Affine(1, lanes), Affine(1, lanes if size % lanes == 0 else 1)
            else:
                local, part = ("0", part) if extent == 1 else self._split(part, extent)
                inner = outer = _SAME
            first = e.emit(f"mul i64 {place[a]}, {extent}")
            thread = first if local == "0" else e.emit(f"add i64 {first}, {local}")
            left = self._beyond(a, thread, left, skip)
            numbers["local", a] = self.number(local, inner, extent - 1)
            numbers["thread", a] = self.number(thread, outer, self.highest(a))
            if a == axis and size % lanes:
                inside = e.emit(f"sub i64 {size}, {local}")
                left = e.intrinsic("smin", "i64", left, inside) if left else inside
        return left

    def _beyond(self, axis: int, thread: str, left: str, skip: str) -> str:
        """Skip a part past the grid's end; on the lanes' axis, count the lanes before it."""
        e, threads, known, size = self.e, self.args.threads[axis], self.known(axis), self.kernel.workgroup[axis]
        if threads is None or (known is not None and known % size == 0):
            return left
        beyond = e.emit(f"sub i64 {threads}, {thread}")
        some = e.name("some")
        e.branch(e.emit(f"icmp sgt i64 {beyond}, 0"), some, skip)
        e.label(some)
        return beyond if axis == self.plan.axis and self.plan.lanes > 1 else left

    def _masked(self, left: str, numbers: Numbers, part: str, write: Write, *, twice: bool) -> None:
        e, lanes = self.e, self.plan.lanes
        if not left:
            write(numbers, None, part)
            return
        partial, after = e.name("partial"), e.name("after")
        count = e.intrinsic("smin", "i64", left, str(lanes))
        if twice and self.kernel.workgroup[self.plan.axis] >= lanes:
            whole = e.name("whole")
            e.branch(e.emit(f"icmp eq i64 {count}, {lanes}"), whole, partial)
            e.label(whole)
            with e.scope():
                write(numbers, None, part)
            e.jump(after)
        e.label(partial)
        with e.scope():
            write(numbers, self.first_lanes(count), part)
        e.label(after)

    def _split(self, number: str, size: int) -> tuple[str, str]:
        """The remainder and quotient by a constant."""
        return self.e.emit(f"urem i64 {number}, {size}"), self.e.emit(f"udiv i64 {number}, {size}")
