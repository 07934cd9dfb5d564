"""poot: a tensor compute stack for people with mixed hardware.

Decorate functions with `@poot.trace`, call them with arrays, and they run as compiled kernels on the device at hand.
"""

from typing import TYPE_CHECKING, Any

from poot import errors
from poot.api import library
from poot.api import places as places
from poot.api.array import DeviceArray
from poot.api.context import Context, KernelBuffer
from poot.api.creation import asarray
from poot.api.devices import Device, device, devices
from poot.api.eager import eager
from poot.api.kernels import Kernel
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
from poot.kernel.language import (
    Const,
    In,
    In2,
    In3,
    In4,
    InOut,
    InOut2,
    InOut3,
    InOut4,
    Out,
    Out2,
    Out3,
    Out4,
    atomic_add,
    atomic_and,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    barrier,
    bitcast,
    clz,
    group_all,
    group_any,
    group_index,
    group_max,
    group_min,
    group_scan,
    group_size,
    group_sum,
    local_index,
    num_groups,
    popcount,
    private,
    rsqrt,
    shared,
    sign,
    thread_index,
    unroll,
)
from poot.plan.compile import compile as compile  # not in __all__: `from poot import *` keeps the builtin
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
from poot.trace.source import user_location
from poot.trace.text import parse_graph

# Bound last: the packages `poot.kernel` and `poot.trace` have the same names.
from poot.api.kernels import kernel  # isort: skip
from poot.api.traced import trace  # isort: skip

__version__ = "0.1.0"


def __dir__() -> list[str]:
    """The public names; the modules inside are left out."""
    return sorted([*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__", "compile"])


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        """What other libraries have under a name: refused, with where it is here."""
        remedy = _HERE.get(name) or (f"write `ops.{name}`, after `from poot import ops`." if name in _OPS else None)
        if remedy or name in errors.TRANSFORMATIONS:
            raise errors.FeatureError(feature=f"`{name}`", where=user_location(), remedy=remedy)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    _HERE = {"array": "write `poot.asarray`.", "jit": "write `poot.trace`."}
    _OPS = frozenset(ops.__all__)


__all__ = [
    "Array",
    "ArraySpec",
    "Builder",
    "CompileLimits",
    "CompileOptions",
    "Const",
    "Context",
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
    "In",
    "In2",
    "In3",
    "In4",
    "InOut",
    "InOut2",
    "InOut3",
    "InOut4",
    "Kernel",
    "KernelBuffer",
    "Out",
    "Out2",
    "Out3",
    "Out4",
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
    "atomic_add",
    "atomic_and",
    "atomic_compare_exchange",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "barrier",
    "bf16",
    "bitcast",
    "bool_",
    "clz",
    "compile_staged",
    "device",
    "devices",
    "eager",
    "errors",
    "evaluate",
    "f16",
    "f32",
    "f64",
    "group_all",
    "group_any",
    "group_index",
    "group_max",
    "group_min",
    "group_scan",
    "group_size",
    "group_sum",
    "i16",
    "i32",
    "i64",
    "i8",
    "kernel",
    "library",
    "load_program",
    "local_index",
    "num_groups",
    "ops",
    "parse_graph",
    "popcount",
    "private",
    "rsqrt",
    "shared",
    "sign",
    "thread_index",
    "trace",
    "u16",
    "u32",
    "u64",
    "u8",
    "unroll",
]
