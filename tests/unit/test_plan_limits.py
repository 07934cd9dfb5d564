"""Limits, options, placements, and what a target cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import poot
from poot.dtypes import f32, f64, i32
from poot.errors import ArgumentError, ArgumentTypeError, LimitError, PlacementError, Unsupported
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileLimits, CompileOptions, graph_size
from poot.plan.passes import PASSES
from poot.plan.staged import (
    DeviceId,
    DevicePlacement,
    ExpertPlacement,
    Partition,
    TargetSet,
    compile_staged,
)
from poot.target import Target
from poot.trace import ops
from poot.trace.builder import Builder
from poot.trace.graph import Graph
from tests.plan_support import LIMITS

CPU = Target.parse("cpu")
SMALL = {"max_values": 100, "max_eqns": 100, "max_instructions": 1000, "max_locals": 100, "max_artifact_bytes": 1000}


def chain(length: int) -> Graph:
    b = Builder(LIMITS)
    x = b.input("x", f32[8])
    for _ in range(length):
        x = ops.exp(x)
    return b.finish(x)


def test_standard_limits() -> None:
    standard = CompileLimits.STANDARD
    assert (standard.max_values, standard.max_eqns) == (1 << 24, 1 << 24)
    assert (standard.max_instructions, standard.max_locals) == (1 << 22, 1 << 18)
    assert standard.max_artifact_bytes == 512 << 20


@pytest.mark.parametrize("name", SMALL)
def test_limits_are_positive_integers(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name}: 0 is not valid, expected a positive int"):
        CompileLimits(**SMALL | {name: 0})
    with pytest.raises(ArgumentTypeError, match=f"{name}: NoneType given"):
        CompileLimits(**SMALL | {name: None})  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=f"{name}: bool given"):
        CompileLimits(**SMALL | {name: True})


@pytest.mark.parametrize("limits", [CompileLimits.STANDARD, LIMITS])
@pytest.mark.parametrize("value", [0, None])
def test_a_limit_that_is_none_names_the_line_and_a_remedy(limits: Any, value: Any) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        replace(limits, max_eqns=value)
    text = str(caught.value)
    assert "test_plan_limits.py" in text and "replace(limits, max_eqns=value)" in text and "dataclasses.py" not in text
    assert f"dataclasses.replace({type(limits).__name__}.STANDARD, max_eqns=…) changes one limit." in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": 5}, "CompileOptions: limits: int given, expected CompileLimits"),
        ({"limits": None}, "CompileOptions: limits: NoneType given, expected CompileLimits"),
        ({"numerics": "fast"}, 'CompileOptions: numerics: \'fast\' is not valid, expected "fused" or "strict"'),
        ({"numerics": ["fused"]}, "CompileOptions: numerics: ['fused'] is not valid"),
        ({"stable": "x"}, "CompileOptions: stable: str given, expected a frozenset of names, or None"),
        ({"stable": ("x",)}, "CompileOptions: stable: tuple given"),
        ({"stable": frozenset({1})}, "CompileOptions: stable: frozenset given"),
        ({"tuner": True}, "CompileOptions: tuner: bool given, expected an object with a method choose, or None"),
        ({"ahead": 3}, "CompileOptions: ahead: int given, expected a function of a kernel, or None"),
    ],
)
def test_options_of_other_types(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        CompileOptions(**options)
    assert str(caught.value).startswith(message) and "CompileOptions(**options)" in str(caught.value)


def test_names_that_are_to_be_stable_are_the_graphs() -> None:
    with pytest.raises(ArgumentError) as caught:
        plan(chain(1), CPU, CompileOptions(stable=frozenset({"w"})))
    assert str(caught.value).startswith(
        "CompileOptions: stable: 'w' is not valid, expected names of constants and inputs of the graph (x)"
    )


def test_what_compile_takes() -> None:
    for arguments, message in (
        ((5, CPU), "compile: graph: int given, expected a Graph"),
        ((chain(1), "cpu"), "compile: target: 'cpu' given, expected a Target"),
        ((chain(1), CPU, 5), "compile: options: int given, expected CompileOptions, or None"),
        ((chain(1), CPU, 0), "compile: options: int given"),
    ):
        with pytest.raises(ArgumentTypeError) as caught:
            plan(*arguments)  # type: ignore[arg-type]
        assert str(caught.value).startswith(message) and "plan(*arguments)" in str(caught.value)


def test_options() -> None:
    assert CompileOptions().limits is CompileLimits.STANDARD and CompileOptions().numerics == "fused"
    with pytest.raises(ArgumentTypeError, match="limits: int given, expected CompileLimits"):
        CompileOptions(5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="numerics: 'fast' is not valid"):
        CompileOptions(numerics="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [
        ("max_values", 10, "max_values: 11 is past the limit of 10, in the graph, reached at equation 9 (exp)\n"),
        ("max_eqns", 9, "max_eqns: 10 is past the limit of 9, in the graph, reached at equation 9 (exp)\n"),
        ("max_locals", 3, "max_locals: 12 is past the limit of 3, in the kernel exp of equation 9 (exp)"),
        ("max_instructions", 20, "max_instructions: "),
    ],
)
def test_a_compile_past_a_limit_is_refused(name: str, limit: int, message: str) -> None:
    options = CompileOptions(CompileLimits(**SMALL | {name: limit}))
    with pytest.raises(LimitError) as caught:
        plan(chain(10), CPU, options)
    text = str(caught.value)
    assert text.startswith(message), text
    assert "equation 9 (exp)\n  at " in text and "    x = ops.exp(x)\n" in text, text
    assert text.endswith(f"  Remedy: raise {name} in the limits, or make the program smaller.")
    plan(chain(10), CPU)


def test_variables_past_a_limit_are_no_equations() -> None:
    b = Builder(LIMITS)
    graph = b.finish([b.input(f"x{number}", f32[1]) for number in range(12)])
    with pytest.raises(LimitError, match=r"^max_values: 12 is past the limit of 10, in the graph\n"):
        plan(graph, CPU, CompileOptions(CompileLimits(**SMALL | {"max_values": 10})))


def test_what_a_pass_makes_past_a_limit_names_pass_equation_and_line() -> None:
    b = Builder(LIMITS)
    graph = b.finish(ops.nn.softmax(ops.concat([b.input(f"x{number}", f32[2]) for number in range(40)])))
    size = graph_size(graph)[1]
    with pytest.raises(LimitError) as caught:
        plan(graph, CPU.replace_limits(buffers=4), CompileOptions(CompileLimits(**SMALL | {"max_eqns": size + 3})))
    text = str(caught.value)
    assert ", in what pass legalise makes, reached at equation 0 (concat)\n" in text
    assert "ops.concat([b.input" in text and "test_plan_limits.py" in text


@pytest.mark.parametrize("name", ["cpu", "interpret"])
def test_an_artifact_past_the_limit_names_kernel_equation_and_line(name: str) -> None:
    engine = poot.Engine(poot.device(name))
    program = plan(
        chain(2), engine.device.target, CompileOptions(replace(CompileLimits.STANDARD, max_artifact_bytes=9))
    )
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    if name == "interpret":  # nothing is compiled
        engine.add_entry(exe, program)
        return
    with pytest.raises(LimitError) as caught:
        engine.add_entry(exe, program)
    text = str(caught.value)
    assert ", in the kernel exp of equation 1 (exp)\n" in text and "x = ops.exp(x)" in text


def test_a_limit_of_a_trace_names_the_line() -> None:
    b = Builder(replace(LIMITS, max_eqns=2))
    x = b.input("x", f32[3])
    with pytest.raises(LimitError, match=r"max_eqns: 3 is past the limit of 2\n  at .*test_plan_limits.py") as caught:
        ops.exp(ops.exp(ops.exp(x)))
    assert "ops.exp(ops.exp(ops.exp(x)))" in str(caught.value)


def test_instructions_of_a_kernel_are_limited() -> None:
    with pytest.raises(LimitError, match="max_instructions"):
        plan(chain(10), CPU, CompileOptions(CompileLimits(**SMALL | {"max_instructions": 20})))


def test_passes_keep_within_limits() -> None:
    options = CompileOptions(CompileLimits(**SMALL | {"max_eqns": 5}))
    for each in PASSES:
        with pytest.raises(LimitError, match="max_"):
            each.run(chain(10), CPU, options)


def test_the_size_of_a_graph_counts_regions() -> None:
    assert graph_size(chain(3)) == (4, 3)


# --- targets ----------------------------------------------------------------------------------------------------------


def test_a_dtype_that_the_target_lacks() -> None:
    target = Target("small", languages=("interpret",), dtypes=frozenset({f32, i32}), limits=CPU.limits)
    b = Builder(LIMITS)
    x = b.input("x", f32[4])
    wide = ops.astype(x, f64)
    g = b.finish(ops.astype(wide + wide, f32))
    with pytest.raises(Unsupported) as caught:
        plan(g, target)
    message = str(caught.value)
    assert message.startswith("equation 0 (cast) is not supported by small: it has no f64")
    assert "test_plan_limits.py" in message and "wide = ops.astype(x, f64)" in message
    assert "Remedy: cast to a dtype that it has: f32, i32." in message
    b = Builder(LIMITS)
    with pytest.raises(Unsupported, match=r"'y' is not supported by small: it has no f64\n  at .*test_plan_limits.py"):
        plan(b.finish(b.input("y", f64[4])), target)


def test_a_buffer_that_the_target_cannot_bind() -> None:
    b = Builder(LIMITS)
    g = b.finish(ops.exp(b.input("x", f32[1 << 20])))
    target = Target.parse("wgpu").replace_limits(binding_bytes=1 << 20)
    with pytest.raises(Unsupported, match=r"'x' is not supported by wgpu: f32\[1048576\] takes 4194304 bytes"):
        plan(g, target)


def test_a_grid_that_the_target_cannot_launch() -> None:
    b = Builder(LIMITS)
    g = b.finish(ops.exp(b.input("x", f32[1 << 20])))
    small = CPU.replace_limits(grid=100)
    with pytest.raises(Unsupported, match="16384 work-groups are more than its grids hold"):
        plan(g, small)
    (launch,) = plan(g, CPU.replace_limits(grid=200)).launches
    assert max(launch.groups) <= 200


# --- placements -------------------------------------------------------------------------------------------------------


def partition(*devices: DeviceId) -> Partition:
    return Partition(experts=ExpertPlacement.ALL_RESIDENT, devices=DevicePlacement(devices))


def test_one_device() -> None:
    device = DeviceId(0)
    assert DevicePlacement.single(device) == DevicePlacement((device,))
    staged = compile_staged(chain(2), TargetSet.single(device, CPU), partition(device))
    assert staged.program == plan(chain(2), CPU) and staged.device == device


def test_several_devices_are_refused() -> None:
    first, second = DeviceId(0), DeviceId(1)
    both = TargetSet(((first, CPU), (second, CPU)))
    with pytest.raises(PlacementError, match="a placement over 2 devices is not supported"):
        compile_staged(chain(1), both, partition(first, second))
    with pytest.raises(PlacementError, match="a set of 2 targets is not supported"):
        compile_staged(chain(1), both, partition(first))
    with pytest.raises(PlacementError, match="device 1 has no target; the set has device 0"):
        compile_staged(chain(1), TargetSet.single(first, CPU), partition(second))
    with pytest.raises(ArgumentError, match="DeviceId: -1"):
        DeviceId(-1)
    with pytest.raises(ArgumentTypeError, match="DeviceId: str given"):
        DeviceId("0")  # type: ignore[arg-type]


def test_public_names() -> None:
    assert poot.CompileLimits is CompileLimits and poot.CompileOptions is CompileOptions
