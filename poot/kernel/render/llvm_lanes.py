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
from dataclasses import dataclass, replace

from poot.errors import Unsupported
from poot.kernel.ir import Alloc, Kernel, Slot, argument_slots, site_numbers
from poot.kernel.render.llvm_arguments import arguments
from poot.kernel.render.llvm_emit import MEMORY, REGISTER, Emitter, constant
from poot.kernel.render.llvm_expr import Expressions
from poot.kernel.render.llvm_faults import RECORD_FUNCTION, Faults
from poot.kernel.render.llvm_flow import Flow
from poot.kernel.render.llvm_grid import Grid, Numbers, Place
from poot.kernel.render.llvm_groups import GroupFlow
from poot.kernel.render.llvm_memory import Array, wide
from poot.kernel.render.llvm_plan import Plan, plan
from poot.kernel.render.llvm_shared import Shared

#: Bytes of arrays, which live on the stack of the thread that runs a work-group: what targets allow it of shared
#: memory, and half as much again for private arrays.  Threads have eight times as much or more.
_STACK = 3 << 19


@dataclass(frozen=True, slots=True)
class NativeSource:
    """A rendered kernel: the module's text, the function's name, what its slots hold, and whether it has `vectors`."""

    text: str
    symbol: str
    slots: tuple[Slot, ...]
    vectors: bool


def render(kernel: Kernel, *, vector_lanes: int | None = None, contract: bool = False) -> NativeSource:
    """LLVM IR of a prepared kernel: native operations alone, f16 and bf16 in memory and conversions only.

    `vector_lanes` (1, 16, 32 or 64) overrides the choice of lanes; `contract` lets a*b + c be one fused operation.
    Unsupported if the kernel's arrays do not fit the stack.
    """
    chosen = plan(kernel, vector_lanes)
    writer = _Writer(kernel, chosen, Emitter(chosen.lanes, contract=contract))
    return NativeSource(writer.module(), writer.symbol, argument_slots(kernel), chosen.lanes > 1)


class _Writer:
    """Writes the function of one kernel."""

    def __init__(self, kernel: Kernel, chosen: Plan, e: Emitter) -> None:
        self.kernel = chosen.kernel
        self.plan = chosen
        self.e = e
        self.e.shared = Shared(chosen.kernel)
        self.e.node('!"branch_weights", i32 1, i32 2000')  # node 0: of branches that are rare
        self.symbol = "kernel." + re.sub(r"\W", "_", kernel.name)
        self.args = arguments(e, kernel)
        self.grid = Grid(e, self.kernel, chosen, self.args)
        self.faults = Faults(e, self.args.fault, self.args.launch, site_numbers(kernel))
        self.stack = 0
        self.arrays = dict(self.args.arrays)
        for stmt in self.kernel.body:
            if isinstance(stmt, Alloc):
                self.arrays[stmt.name] = self.array(stmt)

    def module(self) -> str:
        e, index = self.e, REGISTER[self.kernel.index_dtype]
        if self.plan.flat:
            self.grid.flat(self.body, self.clip)
        else:
            self.grid.groups(self.group)
        head = [
            f"; kernel {self.kernel.name}: {self.plan.lanes} lanes, {index} indices",
            f"define void @{self.symbol}(ptr noalias %args, i64 %begin, i64 %end) #0 {{",
            "entry:",
        ]
        shared = [] if e.shared is None else e.shared.functions
        tail = ["  ret void", "}", *([RECORD_FUNCTION] if self.faults.used else []), *shared]
        # Large frames touch their pages in order, so that running out of stack is noticed.  LLVM must then make the
        # frame before anything else: else its loop over the pages may overwrite a register that is in use.
        large = self.stack > 1 << 12
        probe = ' "probe-stack"="inline-asm"' if large else ""
        head += ["  %frame = alloca i64", "  store volatile i64 0, ptr %frame"] if large else []
        tail += [f'attributes #0 = {{ nounwind "prefer-vector-width"="512"{probe} }}']
        tail += ["attributes #1 = { cold noinline nounwind }"]
        tail += ['attributes #2 = { cold noinline nounwind "prefer-vector-width"="512" }'] if shared else []
        return "\n".join([*head, *e.entry, *e.lines, *tail, *e.metadata]) + "\n"

    def array(self, stmt: Alloc) -> Array:
        """Stack memory for an allocated array; a private one has a copy for each part that runs in turn with others."""
        e, index, chosen = self.e, self.kernel.index_dtype, self.plan
        private = stmt.space == "private"
        laned = private and e.lanes > 1 and not chosen.uniformity.array_is_uniform(stmt.name)
        factor = e.lanes if laned else 1
        size = math.prod(stmt.shape) * factor
        copies = chosen.parts if private and chosen.together else 1
        self.stack += size * copies * stmt.dtype.itemsize
        if self.stack > _STACK:
            raise Unsupported(
                what=f"kernel {self.kernel.name}: {self.stack} bytes of shared and private arrays",
                target="cpu",
                message=f"a work-group may have {_STACK}",
                where=stmt.where,
                remedy="use smaller arrays, or a smaller work-group.",
            )
        base = e.cell(f"[{size * copies} x {MEMORY[stmt.dtype]}]", 64)
        strides = tuple(factor * math.prod(stmt.shape[axis + 1 :]) for axis in range(len(stmt.shape)))
        extents = tuple(constant(extent, index) for extent in stmt.shape)
        return Array(stmt.name, stmt.dtype, base, extents, strides, "", stmt.space, laned, narrow=True, size=size)

    def clip(self, first: str, last: str, numbers: Numbers) -> tuple[str, str]:
        """The range of threads of a row that the kernel's own bounds leave."""
        e = self.e
        values = Expressions(e, self.faults, self.arrays, numbers, self.args.scalars)
        for bound in self.plan.bounds:
            value = wide(e, values(bound.value))
            if bound.upper == bound.inclusive:
                value = e.emit(f"add i64 {value}, 1")
            if bound.upper:
                last = e.intrinsic("smin", "i64", last, value)
            else:
                first = e.intrinsic("smax", "i64", first, value)
        return first, last

    def group(self, place: Place) -> None:
        """One work-group: in parts that run after one another, or in step."""
        numbers = self.grid.group_numbers(place)
        if self.plan.together and self.plan.parts > 1:
            GroupFlow(self.grid, self.faults, self.arrays, place, numbers, self.args.scalars).run()
        else:
            self.grid.parts(place, numbers, self.body, twice=True)

    def body(self, numbers: Numbers, mask: str | None, part: str) -> None:
        """The kernel's statements for one vector."""
        e, end = self.e, self.e.name("end")
        e.mask = mask
        arrays = {name: replace(array, home=mask) for name, array in self.arrays.items()}
        values = Expressions(e, self.faults, arrays, numbers, self.args.scalars)
        Flow(e, values, self.plan.uniformity, self.plan.assigned, end).body(self.kernel.body)
        e.label(end)
        e.mask = None
