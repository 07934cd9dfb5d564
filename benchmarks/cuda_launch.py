"""What a launch on CUDA costs: steps of many small kernels, jit-style calls, compiling, and memory bandwidth.

    python -m benchmarks.cuda_launch

torch, where it is installed, is timed in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import poot
from benchmarks.harness import parser
from poot import ops
from poot.backends.device import BufferView, DeviceBackend, LaunchSpec
from poot.backends.toolchain import clear_memory, compile_kernel
from poot.dtypes import f32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel

LANGUAGES = ("triton", "ptx")
Row = tuple[str, str, str]


def increment(n: int, step: float = 1.0) -> Kernel:
    """`y[i] = x[i] + step` over n elements."""
    k = KernelBuilder("increment", workgroup=(256, 1, 1), threads=(n, 1, 1))
    x, y = k.buffer("x", f32, "read", (n,), align=16), k.buffer("y", f32, "write", (n,), align=16)
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("add", k.load(x, (i,)), k.const(step, f32)))
    return k.finish()


def median_us(run: Callable[[], object], wait: Callable[[], object], *, inner: int, repeats: int = 15) -> float:
    """The median over repeats of the time of one call in microseconds, `inner` calls between two waits."""
    for _ in range(20):
        run()
    wait()
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            run()
        wait()
        times.append((time.perf_counter() - start) / inner * 1e6)
    return statistics.median(times)


def recording(device: DeviceBackend, count: int, *, fixed: bool) -> tuple[Any, list[BufferView]]:
    """`count` small launches in a chain over two buffers, as a recording."""
    n = 1024
    loaded = device.load(compile_kernel(increment(n), device.target))
    views = [BufferView(device.allocate(4 * n)) for _ in range(2)]
    for view in views:
        device.write(view, np.zeros(n, np.float32))
    specs = [LaunchSpec(loaded, ((i % 2, 0), ((i + 1) % 2, 0)), (4, 1, 1)) for i in range(count)]
    if fixed:
        return device.record(specs, views, (), ()), []
    return device.record(specs, [None, None], (0, 1), views), views


def launches(device: DeviceBackend, language: str) -> list[Row]:
    """Replays of fixed recordings (graphs, where they are long) and of rebound ones."""
    rows: list[Row] = []
    for count, fixed, what in (
        (100, True, "fixed"),
        (1, True, "fixed"),
        (100, False, "rebound"),
        (1, False, "rebound"),
    ):
        made, bindings = recording(device, count, fixed=fixed)
        host = median_us(lambda made=made, b=bindings: device.replay(made, b), device.synchronize, inner=20)
        clock = device.elapsed(made, bindings, 25) * 1e6
        rows.append((f"{what}, {count} small kernels, {language}", f"{host:.1f} us", f"{clock:.1f} us on the device"))
    return rows


def interleaved(
    candidates: dict[str, Callable[[], object]], wait: Callable[[], object], *, inner: int, repeats: int = 25
) -> dict[str, float]:
    """As `median_us`, with the repeats of all candidates in turn."""
    for run in candidates.values():
        for _ in range(20):
            run()
    wait()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            start = time.perf_counter()
            for _ in range(inner):
                run()
            wait()
            times[name].append((time.perf_counter() - start) / inner * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def calls() -> list[Row]:
    """Jit-style calls of one kernel on 1,024 elements that are on the device, in turn with torch eager."""
    x = np.ones(1024, np.float32)
    index = np.arange(1024, dtype=np.int32)
    candidates: dict[str, Callable[[], object]] = {}
    for language in LANGUAGES:
        device = poot.device("cuda", language=language)
        a, b, i = (poot.asarray(value, device=device) for value in (x, x, index))
        one, two = poot.trace(lambda x: x + 1.0), poot.trace(lambda x, y: x + y)
        gather = poot.trace(lambda x, i: x[i])
        chain = poot.trace(chained)
        candidates[f"x + 1, {language}"] = lambda f=one, a=a: f(a)
        candidates[f"x + y, {language}"] = lambda f=two, a=a, b=b: f(a, b)
        candidates[f"x[i], which can fault, {language}"] = lambda f=gather, a=a, i=i: f(a, i)
        candidates[f"100 operations, {language}"] = lambda f=chain, a=a: f(a)
    wait = poot.device("cuda").backend.synchronize
    try:
        import torch
    except ImportError:
        pass
    else:
        t, u, k = (torch.from_numpy(value).cuda() for value in (x, x.copy(), index))
        k = k.long()
        candidates["x + 1, torch eager"] = lambda: t + 1.0
        candidates["x + y, torch eager"] = lambda: t + u
        candidates["x[i], torch eager"] = lambda: t[k]
        shared = poot.trace(lambda x, y: x + y)
        candidates["x + y of torch's tensors, shared"] = lambda: shared(t, u)
        candidates["the same, and the result to torch"] = lambda: torch.from_dlpack(shared(t, u))
    found = interleaved(candidates, wait, inner=100)
    return [(f"jit-style call, {name}", f"{taken:.1f} us", "") for name, taken in found.items()]


def chained(x: Any) -> Any:
    """A hundred operations in a row, which become one kernel."""
    for number in range(50):
        x = x * 0.5 + float(number % 3)
    return x


def bandwidth(device: DeviceBackend, language: str) -> list[Row]:
    """An elementwise kernel over 256 MiB."""
    n = 1 << 26
    loaded = device.load(compile_kernel(increment(n), device.target))
    views = [BufferView(device.allocate(4 * n)) for _ in range(2)]
    made = device.record([LaunchSpec(loaded, ((0, 0), (1, 0)), (n // 256, 1, 1))], views, (), ())
    seconds = device.elapsed(made, (), 25)
    return [(f"x + 1, 2^26 elements, {language}", f"{seconds * 1e6:.0f} us", f"{8 * n / seconds / 1e9:.0f} GB/s")]


def programs(language: str) -> list[Row]:
    """Fused rows and a product, against torch where it is here."""
    device = poot.device("cuda", language=language)
    rng = np.random.default_rng(0)
    x = poot.asarray(rng.standard_normal((4096, 4096)).astype(np.float32), device=device)
    rows: list[Row] = []
    for name, function in (("softmax", lambda x: ops.nn.softmax(x)), ("gelu", lambda x: ops.nn.gelu(x))):
        traced = poot.trace(function, device=device)
        taken = median_us(lambda traced=traced: traced(x), device.backend.synchronize, inner=5, repeats=7)
        rows.append((f"{name} of 4096 x 4096 f32, {language}", f"{taken:.0f} us", ""))
    return rows


def compiling(device: DeviceBackend, language: str) -> list[Row]:
    """A kernel that no cache has seen."""
    times: list[float] = []
    for number in range(6):
        clear_memory()
        start = time.perf_counter()
        device.load(compile_kernel(increment(4096, 1.5 + number + time.time() % 1), device.target))
        times.append(time.perf_counter() - start)
    return [(f"compile and load, {language}", f"{statistics.median(times[1:]) * 1e3:.0f} ms", "")]


def torch_rows() -> list[Row]:
    """torch eager in the same run."""
    try:
        import torch
    except ImportError:
        return []
    large = torch.ones(1 << 26, device="cuda")
    out = torch.empty_like(large)
    add = median_us(lambda: torch.add(large, 1.0, out=out), torch.cuda.synchronize, inner=10)
    table = torch.randn(4096, 4096, device="cuda")
    softmax = median_us(lambda: torch.softmax(table, -1), torch.cuda.synchronize, inner=10)
    return [
        ("torch eager x + 1, 2^26 elements", f"{add:.0f} us", f"{8 * (1 << 26) / add / 1e3:.0f} GB/s"),
        ("torch eager softmax of 4096 x 4096 f32", f"{softmax:.0f} us", ""),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser("cuda_launch", __doc__, written=False).parse_args(arguments)
    rows: list[Row] = []
    failures = 0
    parts: list[Callable[[], list[Row]]] = []
    for language in LANGUAGES:
        device = poot.device("cuda", language=language).backend
        parts += [
            lambda d=device, name=language: launches(d, name),
            lambda d=device, name=language: bandwidth(d, name),
            lambda name=language: programs(name),
            lambda d=device, name=language: compiling(d, name),
        ]
    for part in [calls, *parts, torch_rows]:
        try:
            rows += part()
        except Exception as error:  # one figure that cannot be had must not cost the others
            failures += 1
            rows.append(("failed", type(error).__name__, str(error).splitlines()[0]))
    lines = ["| what | time | |", "| --- | ---: | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    print("\n".join(lines))
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
