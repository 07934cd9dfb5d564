"""The native renderer: a prepared kernel as LLVM IR text, where vectors of lanes are threads of a work-group.

    source = render(kernel)
    source.text      # a module that defines  void @source.symbol(ptr args, i64 begin, i64 end)

The function runs the work-groups begin <= g < end, counted along x first; `args` points to 8-byte slots in the order of
`argument_slots`.  A row of groups along x is one inner loop, so that what depends on y and z alone is computed once a
row.  Vectors whose lanes are all threads of the grid run a body without masks; where a last vector may stick out, the
body stands a second time, under a mask.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from poot.errors import Unsupported
from poot.kernel.ir import Alloc, Kernel, Slot, argument_slots, site_numbers
from poot.kernel.render.llvm_arguments import Arguments, arguments
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, Value, constant
from poot.kernel.render.llvm_expr import Expressions
from poot.kernel.render.llvm_faults import RECORD_FUNCTION, Faults
from poot.kernel.render.llvm_flow import Flow
from poot.kernel.render.llvm_memory import Array
from poot.kernel.render.llvm_plan import Plan, plan
from poot.kernel.uniform import Affine

#: Arrays live on the stack of a worker, whose size is not ours to choose.
_STACK = 256 << 10


@dataclass(frozen=True, slots=True)
class NativeSource:
    """A rendered kernel: the module's text, the function's name, and what its slots hold."""

    text: str
    symbol: str
    slots: tuple[Slot, ...]


def render(kernel: Kernel, *, vector_lanes: int | None = None, contract: bool = False) -> NativeSource:
    """LLVM IR of a prepared kernel: native operations alone, f16 and bf16 in memory and conversions only.

    `vector_lanes` (a power of two) overrides the choice of lanes; `contract` lets a*b + c be one fused operation.
    Unsupported if the kernel's arrays do not fit the stack.
    """
    chosen = plan(kernel, vector_lanes)
    writer = _Writer(kernel, chosen, Emitter(chosen.lanes, contract=contract))
    return NativeSource(writer.module(), writer.symbol, argument_slots(kernel))


class _Writer:
    """Writes the function of one kernel."""

    def __init__(self, kernel: Kernel, chosen: Plan, e: Emitter) -> None:
        self.kernel = kernel
        self.plan = chosen
        self.e = e
        self.symbol = "kernel." + re.sub(r"\W", "_", kernel.name)
        self.args: Arguments = arguments(e, kernel)
        self.faults = Faults(e, self.args.fault, self.args.launch, site_numbers(kernel))
        self.shared: dict[str, Array] = {}
        self.stack = 0
        for stmt in kernel.body:
            if isinstance(stmt, Alloc) and stmt.space == "shared":
                self.shared[stmt.name] = self.array(stmt)

    def module(self) -> str:
        e, index = self.e, REGISTER[self.kernel.index_dtype]
        self.rows()
        head = [
            f"; kernel {self.kernel.name}: {self.plan.lanes} lanes, {index} indices",
            f"define void @{self.symbol}(ptr noalias %args, i64 %begin, i64 %end) #0 {{",
            "entry:",
        ]
        tail = ["  ret void", "}", *([RECORD_FUNCTION] if self.faults.used else [])]
        tail += [
            'attributes #0 = { nounwind "prefer-vector-width"="512" }',
            "attributes #1 = { cold noinline nounwind }",
        ]
        tail += ['!0 = !{!"branch_weights", i32 1, i32 2000}', *self.args.metadata]
        return "\n".join([*head, *e.entry, *e.lines, *tail]) + "\n"

    # --- arrays ---

    def array(self, stmt: Alloc) -> Array:
        """Stack memory for an allocated array."""
        e, index = self.e, self.kernel.index_dtype
        laned = stmt.space == "private" and e.lanes > 1 and not self.plan.uniformity.array_is_uniform(stmt.name)
        factor = e.lanes if laned else 1
        size = math.prod(stmt.shape)
        self.stack += size * factor * stmt.dtype.itemsize
        if self.stack > _STACK:
            raise Unsupported(
                what=f"kernel {self.kernel.name}: {self.stack} bytes of shared and private arrays",
                target="cpu",
                message=f"a work-group may have {_STACK}",
                where=stmt.where,
                remedy="use smaller arrays, or a smaller work-group.",
            )
        base = e.cell(f"[{size * factor} x {MEMORY[stmt.dtype]}]", 64)
        strides = [factor * math.prod(stmt.shape[axis + 1 :]) for axis in range(len(stmt.shape))]
        extents = tuple(constant(extent, index) for extent in stmt.shape)
        home = e.mask if stmt.space == "private" else None
        return Array(
            stmt.name, stmt.dtype, base, extents, tuple(strides), "", stmt.space, laned, narrow=True, home=home
        )

    # --- the grid ---

    @contextmanager
    def loop(self, start: str, stop: str, step: int) -> Generator[str]:
        """A loop over i64 numbers; yields the counter."""
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
            e.branch(e.emit(f"icmp slt i64 {following}, {stop}"), body, after)
        e.label(after)

    def rows(self) -> None:
        """Walk begin to end in runs of groups that share y and z; only the first is found by division."""
        e, (nx, ny, _) = self.e, self.args.groups
        done, head, latch = e.name("done"), e.name("row"), e.name("next")
        e.branch(e.emit("icmp slt i64 %begin, %end"), "start", done)
        e.label("start")
        x0 = e.emit(f"urem i64 %begin, {nx}")
        above = e.emit(f"udiv i64 %begin, {nx}")
        y0 = e.emit(f"urem i64 {above}, {ny}")
        z0 = e.emit(f"udiv i64 {above}, {ny}")
        g, x, y, z = (f"%{name}" for name in ("g", "gx", "gy", "gz"))
        e.label(head)
        e.do(f"{g} = phi i64 [ %begin, %start ], [ %g.next, %{latch} ]")
        e.do(f"{x} = phi i64 [ {x0}, %start ], [ 0, %{latch} ]")
        e.do(f"{y} = phi i64 [ {y0}, %start ], [ %gy.next, %{latch} ]")
        e.do(f"{z} = phi i64 [ {z0}, %start ], [ %gz.next, %{latch} ]")
        with e.scope():
            run = e.intrinsic("smin", "i64", e.emit(f"sub i64 {nx}, {x}"), e.emit(f"sub i64 %end, {g}"))
            stop = e.emit(f"add i64 {x}, {run}")
            if self.plan.flat:
                self.flat_row(x, stop, y, z)
            else:
                with self.loop(x, stop, 1) as group:
                    self.group((group, y, z))
            e.label(latch)
            e.do(f"%g.next = add i64 {g}, {run}")
            up = e.emit(f"add i64 {y}, 1")
            wrapped = e.emit(f"icmp eq i64 {up}, {ny}")
            e.do(f"%gy.next = select i1 {wrapped}, i64 0, i64 {up}")
            e.do(f"%gz.next = add i64 {z}, {e.emit(f'zext i1 {wrapped} to i64')}")
            e.branch(e.emit("icmp slt i64 %g.next, %end"), head, done)
        e.label(done)

    def number(self, text: str, affine: Affine, high: int | None = None) -> Value:
        """An i64 as a number of the index dtype, not negative."""
        e, dtype = self.e, self.kernel.index_dtype
        t = REGISTER[dtype]
        form = affine if e.lanes > 1 else Affine(0, affine.multiple)
        top = int(dtype.max) if high is None else high
        if t == "i64" or not text.startswith("%"):
            return Value(text, dtype, form, 0, top)
        short = e.known((t, text), f"trunc nsw i64 {text} to {t}")
        e.remember(("i64", short), text)
        return Value(short, dtype, form, 0, top)

    def highest(self, axis: int) -> int | None:
        """The greatest thread number on an axis, where it is known."""
        count = self.kernel.threads[axis] if self.kernel.threads is not None else None
        return None if count is None else max(count - 1, 0)

    # --- flat kernels ---

    def flat_row(self, start: str, stop: str, y: str, z: str) -> None:
        """The threads of groups start <= gx < stop of one row of groups."""
        e, (width, height, depth) = self.e, self.kernel.workgroup
        numbers = dict(self.args.numbers)
        numbers["group", 1] = self.number(y, Affine(0, 1))
        numbers["group", 2] = self.number(z, Affine(0, 1))
        first, last = e.emit(f"mul i64 {start}, {width}"), e.emit(f"mul i64 {stop}, {width}")
        if self.args.threads[0] is not None:
            last = e.intrinsic("smin", "i64", last, self.args.threads[0])
        with self.along(2, z, depth, numbers), self.along(1, y, height, numbers):
            self.flat_vectors(first, last, numbers)

    @contextmanager
    def along(self, axis: int, group: str, size: int, numbers: dict[tuple[str, int], Value]) -> Generator[None]:
        """For each thread of a group on an axis that is not the lanes'."""
        e, threads = self.e, self.args.threads[axis]
        if size == 1:
            numbers["local", axis] = constant(0, self.kernel.index_dtype)
            numbers["thread", axis] = self.number(group, Affine(0, 1), self.highest(axis))
            yield
            return
        first = e.emit(f"mul i64 {group}, {size}")
        last = e.emit(f"add i64 {first}, {size}")
        if threads is not None:
            last = e.intrinsic("smin", "i64", last, threads)
        with self.loop(first, last, 1) as thread:
            local = e.emit(f"sub i64 {thread}, {first}")
            numbers["local", axis] = self.number(local, Affine(0, 1), size - 1)
            numbers["thread", axis] = self.number(thread, Affine(0, 1), self.highest(axis))
            yield

    def flat_vectors(self, first: str, last: str, numbers: dict[tuple[str, int], Value]) -> None:
        """All threads first <= x < last: full vectors, then what is left over."""
        e, chosen = self.e, self.plan
        lanes, size = chosen.lanes, self.kernel.workgroup[0]
        form = Affine(1, lanes if size % lanes == 0 and not chosen.overlap else 1)
        known = self.kernel.threads[0] if self.kernel.threads is not None else None
        if chosen.overlap:
            final = e.intrinsic("smax", "i64", e.emit(f"sub i64 {last}, {lanes}"), "0")
            with self.loop(first, last, lanes) as x:
                at = e.intrinsic("smin", "i64", x, final)
                self.body({**numbers, ("thread", 0): self.number(at, form, self.highest(0))}, None)
            return
        with self.loop(first, e.emit(f"sub i64 {last}, {lanes - 1}"), lanes) as x:
            self.body({**numbers, ("thread", 0): self.number(x, form, self.highest(0))}, None)
        if lanes == 1:
            return
        if size % lanes == 0 and (self.args.threads[0] is None or (known is not None and known % lanes == 0)):
            return
        length = e.intrinsic("smax", "i64", e.emit(f"sub i64 {last}, {first}"), "0")
        rest = e.emit(f"and i64 {length}, {lanes - 1}")
        some, after = e.name("some"), e.name("after")
        e.branch(e.emit(f"icmp ne i64 {rest}, 0"), some, after)
        e.label(some)
        with e.scope():
            x = e.emit(f"sub i64 {last}, {rest}")
            self.body({**numbers, ("thread", 0): self.number(x, form, self.highest(0))}, self.first_lanes(rest))
        e.label(after)

    def first_lanes(self, count: str) -> str:
        """The mask of the first lanes; `count` is an i64 of at most as many as there are."""
        e = self.e
        short = e.emit(f"trunc i64 {count} to i8")
        return e.emit(f"icmp ult <{e.lanes} x i8> {e.steps('i8', 1)}, {e.splat(short, 'i8')}")

    # --- groups ---

    def group(self, place: tuple[str, str, str]) -> None:
        """One work-group."""
        chosen = self.plan
        numbers = dict(self.args.numbers)
        for axis, group in enumerate(place):
            numbers["group", axis] = self.number(group, Affine(0, 1))
        if chosen.together and chosen.parts > 1:
            raise Unsupported(
                what=f"kernel {self.kernel.name}: a group of {self.kernel.group_invocations} threads with barriers",
                target="cpu",
                message="not split into vectors",
            )
        with self.loop("0", str(chosen.parts), 1) as part:
            self.part(place, part, numbers)

    def part(self, place: tuple[str, str, str], part: str, numbers: dict[tuple[str, int], Value]) -> None:
        """One vector of a work-group."""
        e, kernel, axis, lanes = self.e, self.kernel, self.plan.axis, self.plan.lanes
        size = kernel.workgroup[axis]
        chunks = -(-size // lanes)
        skip = e.name("skip")
        chunk, part = (part, "0") if chunks == self.plan.parts else _split(e, part, chunks)
        left = ""
        for a in range(3):
            extent = kernel.workgroup[a]
            if a == axis:
                local = e.emit(f"mul i64 {chunk}, {lanes}")
            elif extent == 1:
                local = "0"
            else:
                local, part = _split(e, part, extent)
            first = e.emit(f"mul i64 {place[a]}, {extent}")
            thread = e.emit(f"add i64 {first}, {local}") if local != "0" else first
            form = Affine(1, lanes if size % lanes == 0 else 1) if a == axis else Affine(0, 1)
            if self.args.threads[a] is not None:
                beyond = e.emit(f"sub i64 {self.args.threads[a]}, {thread}")
                if a == axis:
                    left = beyond
                some = e.name("some")
                e.branch(e.emit(f"icmp sgt i64 {beyond}, 0"), some, skip)
                e.label(some)
            inside = Affine(1, lanes) if a == axis else Affine(0, 1)
            numbers["local", a] = self.number(local, inside, extent - 1)
            numbers["thread", a] = self.number(thread, form, self.highest(a))
        self.masked_part(size, numbers, left, skip)

    def masked_part(self, size: int, numbers: dict[tuple[str, int], Value], left: str, skip: str) -> None:
        """The body for all lanes, or for those that are threads; `left` counts the grid's on the lanes' axis."""
        e, lanes, axis = self.e, self.plan.lanes, self.plan.axis
        known = self.kernel.threads[axis] if self.kernel.threads is not None else None
        if size % lanes:
            local = numbers["local", axis].text
            wide = local if REGISTER[self.kernel.index_dtype] == "i64" else e.emit(f"sext i32 {local} to i64")
            inside = e.emit(f"sub i64 {size}, {wide}")
            left = e.intrinsic("smin", "i64", left, inside) if left else inside
        elif lanes == 1 or (known is not None and known % lanes == 0):
            left = ""
        if left:
            whole, partial = e.name("whole"), e.name("partial")
            e.branch(e.emit(f"icmp sge i64 {left}, {lanes}"), whole, partial)
            e.label(whole)
            if size > lanes or size == lanes:
                with e.scope():
                    self.body(numbers, None)
            e.jump(skip)
            e.label(partial)
            with e.scope():
                self.body(numbers, self.first_lanes(left))
        else:
            self.body(numbers, None)
        e.label(skip)

    # --- the body ---

    def body(self, numbers: dict[tuple[str, int], Value], mask: str | None) -> None:
        """The kernel's statements for one vector."""
        e = self.e
        e.mask = mask
        arrays = {**self.args.arrays, **self.shared}
        for stmt in self.kernel.body:
            if isinstance(stmt, Alloc) and stmt.space == "private":
                arrays[stmt.name] = self.array(stmt)
        end = e.name("end")
        values = Expressions(e, self.faults, arrays, numbers, self.args.scalars)
        Flow(e, values, self.plan.uniformity, self.plan.assigned, end).body(self.kernel.body)
        e.label(end)
        e.mask = None


def _split(e: Emitter, number: str, size: int) -> tuple[str, str]:
    """The remainder and quotient by a constant."""
    return e.emit(f"urem i64 {number}, {size}"), e.emit(f"udiv i64 {number}, {size}")
