"""Legality: what a target can bind and launch, asked of every launch as it is planned.

Schedules keep within a target's limits where they can: fusion counts buffers, grids are folded, work-groups shrink.
What is left over is refused here, with the equation, its line, and the capability that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from poot.dtypes import DType, f64, i64, u64
from poot.errors import SourceLocation, Unsupported, caller
from poot.kernel.check_target import check_target
from poot.kernel.ir import Alloc, Atomic, For, Kernel, Let, walk
from poot.plan.limits import CompileLimits
from poot.plan.program import Slot
from poot.target import Target
from poot.trace.graph import Graph

SMALLER = "write it in several smaller operations, or take another device."
SPLIT = "split it into parts, each computed by itself, or take a device whose buffers are larger."
#: What the options of traced functions and devices convert.
_OPTIONS: dict[DType, str] = {f64: 'f64="f32"', i64: 'i64="i32"', u64: 'i64="i32"'}


def require_supported(graph: Graph, target: Target) -> None:
    """Unsupported unless the target has every dtype of a graph, and can bind its variables."""
    for variable in graph.variables:
        where = variable.where or caller()
        if variable.value.dtype not in target.dtypes:
            raise lacking(f"{variable.name!r}", variable.value.dtype, target, where, given=True)
        largest = dict(target.limits).get("binding_bytes")
        if largest is not None and variable.spec.nbytes > largest:
            message = _too_large(variable.spec.nbytes, variable, largest)
            raise Unsupported(what=f"{variable.name!r}", target=target, message=message, where=where, remedy=SPLIT)
    for number, equation in enumerate(graph.equations):
        for value in (*equation.inputs, *equation.outputs):
            if value.dtype not in target.dtypes:
                what = f"equation {number} ({equation.primitive})"
                raise lacking(what, value.dtype, target, equation.where or caller())
        for region in equation.regions:
            require_supported(region, target)


def lacking(
    what: str, dtype: DType, target: Target, where: SourceLocation | None, *, given: bool = False
) -> Unsupported:
    """The error for a dtype that a target has not; `given` says that the array comes from outside."""
    near = sorted(target.dtypes, key=lambda other: (other.kind != dtype.kind, abs(other.bits - dtype.bits), other.name))
    listed = ", ".join(other.name for other in near)
    remedy = f"cast to a dtype that it has: {listed}."
    if given:
        option = _OPTIONS.get(dtype)
        convert = f"convert it with {option} in @poot.trace or poot.device" if option else "cast it before it is passed"
        remedy = f"make it {near[0]}, or {convert}; it has {listed}." if near else ""
    return Unsupported(what=what, target=target, message=f"it has no {dtype}", where=where, remedy=remedy)


def _too_large(nbytes: int, held: object, largest: int) -> str:
    spec = getattr(held, "spec", held)
    return f"{spec} takes {nbytes} bytes, and its buffers hold {largest}"


@dataclass(slots=True)
class Legality:
    """Asks of each launch whether a target can run it; kernels are looked at once."""

    target: Target
    graph: Graph
    compile_limits: CompileLimits
    _fine: dict[int, Kernel] = field(default_factory=dict[int, Kernel])

    def require(
        self,
        kernel: Kernel,
        slots: Sequence[Slot],
        groups: tuple[int, int, int],
        equations: tuple[int, ...],
        line: SourceLocation | None,
    ) -> None:
        """Unsupported where the kernel, its grid or a buffer that it binds is past a limit of the target."""
        limits = dict(self.target.limits)
        if max(groups) > limits.get("grid", max(groups)):
            size = "x".join(map(str, groups))
            message = f"{size} work-groups are more than its grids hold, {limits['grid']} along an axis"
            raise self._refusal(equations, line, message, SPLIT)
        largest = limits.get("binding_bytes")
        if largest is not None:
            for slot in slots:
                if slot.nbytes > largest:
                    raise self._refusal(equations, line, _too_large(slot.nbytes, slot, largest), SPLIT)
        if id(kernel) not in self._fine:
            try:
                check_target(kernel, self.target)
            except Unsupported as error:
                what = str(error.fields["what"]).partition(": ")[2]
                message = f"its kernel takes {what}, and {error.fields['message']}"
                raise self._refusal(equations, line, message, SMALLER) from error
            self._require_size(kernel, equations, line)
            self._fine[id(kernel)] = kernel

    def fits(self, kernel: Kernel) -> bool:
        """Whether a kernel is within the limits of the compile, as those that loops are made of must be."""
        limits = self.compile_limits
        return all(size <= getattr(limits, resource) for resource, size in _sizes(kernel))

    def _require_size(self, kernel: Kernel, equations: tuple[int, ...], line: SourceLocation | None) -> None:
        """LimitError where a kernel is past a limit of the compile."""
        what, where = self._named(equations, line)
        for resource, size in _sizes(kernel):
            self.compile_limits.check(resource, size, f"in the kernel {kernel.name} of {what}", where)

    def _named(self, equations: tuple[int, ...], line: SourceLocation | None) -> tuple[str, SourceLocation | None]:
        """What a launch is for, and the user's line of that."""
        if not equations:
            return "a copy of a literal", line
        number = max(equations)
        equation = self.graph.equations[number]
        return f"equation {number} ({equation.primitive})", equation.where or line

    def _refusal(
        self, equations: tuple[int, ...], line: SourceLocation | None, message: str, remedy: str
    ) -> Unsupported:
        what, where = self._named(equations, line)
        return Unsupported(what=what, target=self.target, message=message, where=where or caller(), remedy=remedy)


def _sizes(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """What a kernel takes of the limits of a compile."""
    nodes = walk(kernel.body)
    names = sum(isinstance(node, (Let, For, Alloc, Atomic)) for node in nodes)
    return ("max_instructions", len(nodes)), ("max_locals", names)
