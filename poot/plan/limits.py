"""CompileLimits: what one compile may use, and CompileOptions: how it is to compile."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from poot.errors import ArgumentError, ArgumentTypeError, LimitError
from poot.trace.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from poot.kernel.ir import Kernel
    from poot.plan.tune import Tuner

NumericsMode = Literal["fused", "strict"]


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """Bounds of one compile: positive integers, all of them given; there is no unlimited setting.

    max_values: arrays of the graph that any pass leaves, its regions included.
    max_eqns: equations of the graph that any pass leaves, its regions included.
    max_instructions: statements and expressions of one kernel.
    max_locals: locals of one kernel.
    max_artifact_bytes: bytes of one compiled kernel.
    """

    max_values: int
    max_eqns: int
    max_instructions: int
    max_locals: int
    max_artifact_bytes: int

    #: What jit-style calls use.
    STANDARD: ClassVar[CompileLimits]

    def __post_init__(self) -> None:
        for item in fields(self):
            value: object = getattr(self, item.name)
            if type(value) is not int:
                raise ArgumentTypeError(what=item.name, actual=type(value).__name__, expected="a positive int")
            if value <= 0:
                raise ArgumentError(what=item.name, actual=value, expected="a positive int")

    def check(self, resource: str, attempted: int) -> None:
        """LimitError if `attempted` is past the limit called `resource`."""
        limit = getattr(self, resource)
        if attempted > limit:
            raise LimitError(resource=resource, attempted=attempted, limit=limit)

    def check_graph(self, graph: Graph) -> None:
        """LimitError if a graph has more values or equations than allowed."""
        values, equations = graph_size(graph)
        self.check("max_values", values)
        self.check("max_eqns", equations)


CompileLimits.STANDARD = CompileLimits(
    max_values=1 << 24,
    max_eqns=1 << 24,
    max_instructions=1 << 22,
    max_locals=1 << 18,
    max_artifact_bytes=512 << 20,
)


def graph_size(graph: Graph) -> tuple[int, int]:
    """The values and equations of a graph, those of its regions included."""
    values, equations = graph.value_count, len(graph.equations)
    for equation in graph.equations:
        for region in equation.regions:
            inner = graph_size(region)
            values, equations = values + inner[0], equations + inner[1]
    return values, equations


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile.

    `numerics` is "fused" (f32 may be kept inside a fused region, a*b+c may become fma, sums may be reassociated) or
    "strict" (every equation rounds to its dtype, with no contraction); docs/planning.md says what each promises.
    `stable` names the constants and inputs that keep their contents from step to step: what depends on them alone goes
    to the program's prologue.  None stands for the graph's constants.  `tuner` measures alternatives to the schedules
    that the cost model picks.  `ahead` is told of kernels as they are made, so that they can be compiled meanwhile.
    """

    limits: CompileLimits = field(default_factory=lambda: CompileLimits.STANDARD)
    numerics: NumericsMode = "fused"
    stable: frozenset[str] | None = None
    tuner: Tuner | None = field(default=None, compare=False, repr=False)
    ahead: Callable[[Kernel], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, CompileLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(what="limits", actual=type(self.limits).__name__, expected="CompileLimits")
        if self.numerics not in ("fused", "strict"):
            raise ArgumentError(what="numerics", actual=self.numerics, expected='"fused" or "strict"')
