"""Targets made small, one limit at a time: a program keeps to it and gives the same, or is refused by name and line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, i32, ops
from poot.dtypes import ArraySpec
from poot.errors import Unsupported
from poot.kernel.check_target import check_target
from poot.kernel.pipeline import prepare
from poot.plan.compile import compile as plan
from poot.plan.program import Launch, Program
from poot.trace.evaluate import evaluate
from tests.plan_support import INTERPRET, compare, run_program

TRACE: Any = poot.trace

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[ArraySpec, ...]]] = {
    "pointwise": (lambda x, y: ops.tanh(x) * y + 1.0, (f32[5, 13], f32[5, 13])),
    "products": (lambda a, b, c, d: a * b + c * d, (f32[19],) * 4),
    "rows": (lambda x: ops.sum(x, axis=1), (f32[6, 70],)),
    "columns": (lambda x: ops.max(x, axis=0), (f32[70, 6],)),
    "softmax": (lambda x: ops.nn.softmax(x), (f32[5, 70],)),
    "matmul": (lambda x, y: x @ y.mT + 1.0, (f32[7, 20], f32[9, 20])),
    "attention": (lambda q, k, v: ops.nn.attention(q, k, v), (f32[2, 64, 8],) * 3),
    "causal": (lambda q, k, v: ops.nn.attention(q, k, v, causal=True), (f32[64, 8],) * 3),
    "sort": (lambda x: ops.sort(x), (f32[3, 9],)),
    "scatter": (lambda x, i, y: x.at[i].add(y), (f32[9], i32[4], f32[4])),
    "gather": (lambda x, i: x[i], (f32[9, 3], i32[4])),
    "cumsum": (lambda x: ops.cumsum(x, axis=0), (f32[40],)),
    "scan": (lambda x: ops.scan(lambda c, row: (c * 0.5 + ops.sum(row), c), 0.0, x), (f32[6, 9],)),
    "cond": (lambda p, x: ops.cond(p[0] > 0, lambda y: ops.cumsum(y), lambda y: y * 2.0, x), (i32[1], f32[7])),
    "concat": (lambda *xs: ops.concat(xs), (f32[3],) * 5),
    "transpose": (lambda x: (x.T, 1.5), (f32[20, 33],)),
}

#: Each limit at small values, and what a refusal for want of it says.
LIMITS: dict[str, tuple[tuple[int, ...], str]] = {
    "buffers": ((1, 2, 3, 4), r"\d+ buffers and the fault record are more than the {} that the target binds"),
    "binding_bytes": ((4, 64, 256, 2048), r"f32\[.*\] takes \d+ bytes, and its buffers hold {}|i32.* hold {}"),
    "workgroup_invocations": ((1, 2, 4, 8, 16), "never"),
    "workgroup_storage": ((0, 16, 64, 256), "never"),
    "grid": ((1, 2, 3), r"\d+ work-groups are more than its grids hold, {} by {}"),
}


def arrays(graph: poot.Graph) -> dict[Any, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        variable.name: (
            rng.standard_normal(variable.spec.shape)
            if variable.spec.dtype.is_float
            else rng.integers(0, 4, variable.spec.shape)
        ).astype(variable.spec.dtype.dtype)
        for variable in graph.variables
    }


def keeps(program: Program, limits: dict[str, int]) -> None:
    """The program is within its target's limits, after all that kernels go through."""
    target, slots = program.target, program.storage.slots
    for kernel in program.kernels:
        check_target(kernel, target)
        check_target(prepare(kernel, target), target)
    for launch in (*program.launches, *(step for step in program.prologue if isinstance(step, Launch))):
        assert max(launch.groups) <= target.limit("grid")
        largest = limits.get("binding_bytes", 1 << 40)
        assert all(slots[binding.slot].nbytes <= largest for binding in launch.bindings)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_on_small_targets(name: str) -> None:
    function, specs = PROGRAMS[name]
    graph = TRACE(function).graph(*specs)
    bindings = arrays(graph)
    expected = evaluate(graph, bindings).output
    for limit, (values, reason) in LIMITS.items():
        refused = True
        for value in values:
            target = INTERPRET.replace_limits(**{limit: value})
            try:
                program = plan(graph, target)
            except Unsupported as error:
                assert refused, f"{name}: {limit}={value} is refused, and a smaller one is not"
                check_refusal(str(error), reason.format(value, value))
                continue
            refused = False
            keeps(program, {limit: value})
            compare(run_program(program, bindings)[0], expected, exact=False)


def check_refusal(text: str, reason: str) -> None:
    """It names the equation or variable, the target, what it lacks, the user's line, and a remedy."""
    first, *_, last = text.split("\n")
    assert re.fullmatch(rf"(equation \d+ \(\w+\).*|'.*') is not supported by interpret: ({reason})", first), text
    assert "test_plan_small.py" in text and last.startswith("  Remedy: "), text


def test_a_refusal_inside_a_loop_says_so() -> None:
    with pytest.raises(Unsupported) as caught:
        function, specs = PROGRAMS["cond"]
        plan(TRACE(function).graph(*specs), INTERPRET.replace_limits(buffers=3))
    text = str(caught.value)
    assert re.match(
        r"equation \d+ \(\w+\) in the (true|false) branch of equation \d+ \(cond\) is not supported by interpret: ",
        text,
    ), text
