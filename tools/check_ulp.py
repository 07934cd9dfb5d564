"""Sweeps the scalar operations over the f32 bit patterns on a device, against NumPy's and SciPy's f64 functions.

    python tools/check_ulp.py                             every operation on cpu and interpret, every 101st pattern
    python tools/check_ulp.py exp tanh --device cpu --stride 7 --contract

Prints the greatest error of each operation in units in the last place and where it is; exits 1 where one is past its
bound (poot/kernel/expand/bounds.py).  A special case or a signed zero that is not exact counts as an infinite error,
and so does code that calls a mathematical library.  tests/conformance/test_scalar_ulp.py runs a part of this.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from poot.backends.device import BufferView, DeviceBackend, LaunchSpec, open_device
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.dtypes import DType, f32
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.expand.bounds import bound
from poot.kernel.ir import FAULT_WORDS, Kernel, Op, walk

Array = np.ndarray[Any, Any]

REFERENCES: dict[str, Callable[[Array], Array]] = {
    "recip": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": scipy.special.erf,
}
"""Exact enough for f32: in f64 their own errors are about 2^-29 of an f32 ULP."""

CHUNK = 1 << 20
LIBRARY = re.compile(r"@(?:llvm\.)?(?:exp|log|sin|cos|tan|pow|erf|a?sinh?|a?cosh?|a?tanh?)[0-9a-z]*[.(f]")


def ulps(result: Array, exact: Array, dtype: DType = f32) -> Array:
    """Distance of results from exact values (in a wider format), in units in the last place of the exact value.

    Infinite where a special case or the sign of a zero is wrong.
    """
    with np.errstate(all="ignore"):
        target = exact.astype(dtype.dtype)
        same = (result == target) | (np.isnan(result) & np.isnan(target))
        spacing = np.abs(np.spacing(np.abs(target)).astype(exact.dtype))
        distance = np.abs(result.astype(exact.dtype) - exact) / spacing
    distance = np.where(same & ~np.isfinite(distance), 0.0, np.where(np.isnan(distance), np.inf, distance))
    turned = (result == 0) & (target == 0) & (np.signbit(result) != np.signbit(target))
    return np.where(turned, np.inf, distance)


def without_subnormals(name: str, values: Array, result: Array, exact: Array) -> Array:
    """Which results a target may give that takes subnormal numbers for lesser ones, down to zeros of their sign.

    What is lost of intermediate values and of the result is less than the least normal number.
    """
    tiny = float(np.finfo(np.float32).tiny)
    with np.errstate(all="ignore"):
        zeros = np.where(np.abs(values) < tiny, np.copysign(0.0, values), values)
        least = REFERENCES[name](zeros.astype(np.float64))
        return (np.fmin(exact, least) - tiny <= result) & (result <= np.fmax(exact, least) + tiny)


@dataclass(frozen=True)
class Worst:
    """The greatest error of a sweep, the argument and result it was found at, and how many patterns were tried."""

    error: float = -1.0
    argument: float = 0.0
    result: float = 0.0
    exact: float = 0.0
    patterns: int = 0


def pointwise(name: str, count: int) -> Kernel:
    """The kernel y[i] = name(x[i])."""
    k = KernelBuilder(f"sweep_{name}", workgroup=(256, 1, 1), threads=(count, 1, 1))
    x, y = k.buffer("x", f32, "read", (count,)), k.buffer("y", f32, "write", (count,))
    index = k.let(k.index("thread", 0), "i")
    k.store(y, (index,), k.op(name, k.load(x, (index,))))
    return k.finish()


def calls_a_library(compiled: CompiledKernel) -> bool:
    """Whether code takes a transcendental function from anywhere but the expansions."""
    left = any(isinstance(node, Op) and not ops.lookup(node.name).native for node in walk(compiled.kernel.body))
    return left or LIBRARY.search(compiled.source) is not None


class Sweep:
    """One operation on one device, on `count` values at a time."""

    def __init__(self, device: DeviceBackend, name: str, *, count: int = CHUNK, contract: bool = False) -> None:
        self.device = device
        self.count = count
        self.compiled = compile_kernel(pointwise(name, count), device.target, contract=contract)
        self.buffers = [device.allocate(count * 4) for _ in range(2)] + [device.allocate(FAULT_WORDS * 4)]
        self.views = [BufferView(buffer) for buffer in self.buffers]
        device.write(self.views[2], np.zeros(FAULT_WORDS, np.int32))
        launch = LaunchSpec(device.load(self.compiled), ((0, 0), (1, 0)), (-(-count // 256), 1, 1))
        device.write(self.views[0], np.zeros(count, np.float32))
        self.recording = device.record([launch], self.views, (), (), 2)

    def __call__(self, values: Array) -> Array:
        padded = np.resize(values, self.count)
        result = np.empty(self.count, np.float32)
        self.device.write(self.views[0], padded)
        self.device.replay(self.recording, ())
        self.device.read(self.views[1], result)
        return result[: values.size]

    def close(self) -> None:
        """Give the buffers back."""
        for buffer in self.buffers:
            self.device.free(buffer)


def patterns(stride: int, count: int) -> Iterator[Array]:
    """Every `stride`-th f32 bit pattern and the special ones, `count` at a time."""
    special = np.array([0, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
    yield np.concatenate([special, special | 0x80000000]).view(np.float32)
    for first in range(0, 2**32, stride * count):
        numbers = np.arange(first, min(first + stride * count, 2**32), stride, dtype=np.uint64)
        yield numbers.astype(np.uint32).view(np.float32)


def sweep(device: DeviceBackend, name: str, stride: int, *, count: int = CHUNK, contract: bool = False) -> Worst:
    """The greatest error of an operation over every `stride`-th f32 bit pattern and the special ones."""
    run = Sweep(device, name, count=count, contract=contract)
    worst = Worst(error=np.inf) if calls_a_library(run.compiled) else Worst()
    tried = 0
    for values in patterns(stride, count):
        result = run(values)
        with np.errstate(all="ignore"):
            exact = REFERENCES[name](values.astype(np.float64))
        errors = ulps(result, exact)
        if not device.target.has("subnormals"):
            errors = np.where(without_subnormals(name, values, result, exact), 0.0, errors)
        place = int(errors.argmax())
        tried += values.size
        if errors[place] > worst.error:
            found = (float(array[place]) for array in (errors, values, result, exact))
            worst = Worst(*found, patterns=0)
    run.close()
    return replace(worst, patterns=tried)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep what the command line asks for, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="OPERATION", help="default: " + " ".join(REFERENCES))
    parser.add_argument("--device", action="append", help="default: cpu and interpret")
    parser.add_argument("--stride", type=int, default=101, help="take every STRIDE-th bit pattern")
    parser.add_argument("--contract", action="store_true", help="let products and sums become fma")
    options = parser.parse_args(arguments)
    failed = False
    print(f"{'device':10} {'operation':9} {'bound':>5} {'error':>7}  {'at':>24} {'patterns':>10} {'seconds':>7}")
    for device in options.device or ["cpu", "interpret"]:
        for name in options.names or REFERENCES:
            start = time.perf_counter()
            worst = sweep(open_device(device), name, options.stride, contract=options.contract)
            good = worst.error <= bound(name, f32)
            failed |= not good
            print(
                f"{device:10} {name:9} {bound(name, f32):5} {worst.error:7.4f}  {worst.argument:24.17g}"
                f" {worst.patterns:10} {time.perf_counter() - start:7.1f}{'' if good else '  FAILED'}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
