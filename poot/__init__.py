"""poot: a tensor compute stack for people with mixed hardware.

Decorate functions with `@poot.trace`, call them with arrays, and they run as compiled kernels on the device at hand.
"""

from poot import errors
from poot.api.array import DeviceArray
from poot.api.creation import asarray
from poot.api.devices import Device, device, devices
from poot.api.eager import eager
from poot.api.traced import Traced
from poot.backends.executor import Engine, StepInputs
from poot.backends.weights import StoredView, WeightMap, WeightStore
from poot.dtypes import (
    ArraySpec,
    DType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from poot.plan.compile import compile
from poot.plan.limits import CompileLimits, CompileOptions
from poot.plan.program import Program
from poot.plan.serial import load_program
from poot.plan.staged import (
    DeviceId,
    DevicePlacement,
    ExpertPlacement,
    Partition,
    Staged,
    TargetSet,
    compile_staged,
)
from poot.target import Target
from poot.trace import ops
from poot.trace.array import Array
from poot.trace.builder import Builder
from poot.trace.evaluate import EvalOptions, Evaluation, evaluate
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits
from poot.trace.text import parse_graph

from poot.api.traced import trace  # isort: skip - bound last: the package `poot.trace` has the same name

__version__ = "0.1.0"

__all__ = [
    "Array",
    "ArraySpec",
    "Builder",
    "CompileLimits",
    "CompileOptions",
    "DType",
    "Device",
    "DeviceArray",
    "DeviceId",
    "DevicePlacement",
    "Engine",
    "EvalOptions",
    "Evaluation",
    "ExpertPlacement",
    "Graph",
    "Partition",
    "Program",
    "Staged",
    "StepInputs",
    "StoredView",
    "Target",
    "TargetSet",
    "TraceLimits",
    "Traced",
    "WeightMap",
    "WeightStore",
    "asarray",
    "bf16",
    "bool_",
    "compile",
    "compile_staged",
    "device",
    "devices",
    "eager",
    "errors",
    "evaluate",
    "f16",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "load_program",
    "ops",
    "parse_graph",
    "trace",
    "u8",
    "u16",
    "u32",
    "u64",
]
