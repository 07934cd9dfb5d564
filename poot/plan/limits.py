"""CompileLimits: what one compile may use, and CompileOptions: how it is to compile."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from poot.errors import ArgumentError, ArgumentTypeError, LimitError, SourceLocation
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
            remedy = (
                f"nothing is unlimited; dataclasses.replace(CompileLimits.STANDARD, {item.name}=…) changes one limit."
            )
            if type(value) is not int:
                raise ArgumentTypeError(
                    what=item.name, actual=type(value).__name__, expected="a positive int", remedy=remedy
                )
            if value <= 0:
                raise ArgumentError(what=item.name, actual=value, expected="a positive int", remedy=remedy)

    def check(self, resource: str, attempted: int, by: str = "", where: SourceLocation | None = None) -> None:
        """LimitError if `attempted` is past the limit called `resource`; `by` says what would pass it, from `where`."""
        limit = getattr(self, resource)
        if attempted > limit:
            raise LimitError(resource=resource, attempted=attempted, limit=limit, by=by, where=where)

    def check_graph(self, graph: Graph, maker: str = "the graph") -> None:
        """LimitError if a graph has more values or equations than allowed; it names the equation that is too many."""
        values, equations = graph_size(graph)
        for resource, attempted, alone in (("max_values", values, True), ("max_eqns", equations, False)):
            if attempted > getattr(self, resource):
                by, where = self._too_many(graph, resource, alone=alone)
                self.check(resource, attempted, f"in {maker}{by}", where)

    def _too_many(self, graph: Graph, resource: str, *, alone: bool) -> tuple[str, SourceLocation | None]:
        """The equation with which a graph passes a limit, and its line; nothing where its variables do."""
        limit, count = getattr(self, resource), len(graph.variables) if alone else 0
        for number, equation in enumerate(graph.equations):
            count += len(equation.outputs) if alone else 1
            count += sum(graph_size(region)[0 if alone else 1] for region in equation.regions)
            if count > limit:
                return f", reached at equation {number} ({equation.primitive})", equation.where
        return "", None


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
    `donate` names states whose next values may be made where the old ones lie: no memory and no copy, but a step that
    fails or faults loses them (`StateLost`).
    """

    limits: CompileLimits = field(default_factory=lambda: CompileLimits.STANDARD)
    numerics: NumericsMode = "fused"
    stable: frozenset[str] | None = None
    tuner: Tuner | None = field(default=None, compare=False, repr=False)
    ahead: Callable[[Kernel], None] | None = field(default=None, compare=False, repr=False)
    donate: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        def wrong(name: str, expected: str, remedy: str = "") -> ArgumentTypeError:
            actual = type(getattr(self, name)).__name__
            return ArgumentTypeError(what=f"CompileOptions: {name}", actual=actual, expected=expected, remedy=remedy)

        if not isinstance(self.limits, CompileLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong("limits", "CompileLimits")
        if self.numerics not in ("fused", "strict"):
            raise ArgumentError(what="CompileOptions: numerics", actual=self.numerics, expected='"fused" or "strict"')
        if self.stable is not None and not _are_names(self.stable):
            raise wrong("stable", "a frozenset of names, or None", 'write frozenset({{"w"}}), or frozenset() for none.')
        if not _are_names(self.donate):
            raise wrong("donate", "a frozenset of names", 'write frozenset({{"cache"}}).')
        if self.tuner is not None and not callable(getattr(self.tuner, "choose", None)):
            raise wrong("tuner", "an object with a method choose, or None")
        if self.ahead is not None and not callable(self.ahead):
            raise wrong("ahead", "a function of a kernel, or None")


def _are_names(value: object) -> bool:
    return isinstance(value, frozenset) and all(isinstance(name, str) for name in cast("frozenset[object]", value))
