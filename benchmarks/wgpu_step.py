# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""What a step of many small dispatches costs on wgpu, beside the same dispatches written for wgpu by hand.

    python -m benchmarks.wgpu_step
    python -m benchmarks.wgpu_step --write    writes benchmarks/results/wgpu-step.md too

By hand: 19 dispatches in one pass and one submission, then one dispatch and its result read back, with every pipeline
and bind group made before.  A step: 20 dispatches in one submission, and its result read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import wgpu

import poot
from benchmarks.harness import medians, parser, show_table, versions
from poot.backends.device import BufferView, LaunchSpec
from poot.backends.executor import Engine, StepInputs
from poot.backends.toolchain import compile_kernel
from poot.backends.weights import WeightStore
from poot.backends.wgpu.adapter import adapter, open_adapter
from poot.dtypes import f32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel

N, COUNT, GROUP, LIMIT = 1024, 20, 64, 1.3

SHADER = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64, 1, 1)
fn increment(@builtin(global_invocation_id) id: vec3<u32>) {
    y[id.x] = x[id.x] + 1.0;
}
"""


def increment() -> Kernel:
    """`y[i] = x[i] + 1`."""
    k = KernelBuilder("increment", workgroup=(GROUP, 1, 1), threads=(N, 1, 1))
    x, y = k.buffer("x", f32, "read", (N,)), k.buffer("y", f32, "write", (N,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("add", k.load(x, (i,)), k.const(1.0, f32)))
    return k.finish()


def by_hand() -> tuple[Callable[[], None], Callable[[], None]]:
    """19 dispatches and one more with readback, and the latter alone; on a wgpu device of its own."""
    device, _ = open_adapter(adapter(0))
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffers = [device.create_buffer(size=4 * N, usage=usage) for _ in range(2)]
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": device.create_shader_module(code=SHADER), "entry_point": "increment"}
    )
    layout = pipeline.get_bind_group_layout(0)
    groups = [
        device.create_bind_group(
            layout=layout,
            entries=[
                {"binding": place, "resource": {"buffer": buffer, "offset": 0, "size": 4 * N}}
                for place, buffer in enumerate(order)
            ],
        )
        for order in (buffers, buffers[::-1])
    ]

    def dispatches(count: int) -> None:
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        for turn in range(count):
            work.set_bind_group(0, groups[turn % 2])
            work.dispatch_workgroups(N // GROUP)
        work.end()
        device.queue.submit([encoder.finish()])

    def one() -> None:
        dispatches(1)
        device.queue.read_buffer(buffers[1])

    def all_of_them() -> None:
        dispatches(COUNT - 1)
        one()

    return all_of_them, one


def replayed(device: poot.Device) -> Callable[[], None]:
    """A recording of 20 launches, replayed, and its result read."""
    backend = device.backend
    loaded = backend.load(compile_kernel(increment(), device.target))
    views = [BufferView(backend.allocate(4 * N)) for _ in range(2)]
    for view in views:
        backend.write(view, np.zeros(N, np.float32))
    specs = [LaunchSpec(loaded, ((turn % 2, 0), ((turn + 1) % 2, 0)), (N // GROUP, 1, 1)) for turn in range(COUNT)]
    made = backend.record(specs, views, (), ())
    out = np.empty(N, np.float32)

    def run() -> None:
        backend.replay(made, ())
        backend.read(views[0], out)

    run()
    assert (out == 2 * COUNT).all()
    return run


@poot.kernel(workgroup=GROUP)
def plus_one(x: poot.In[f32], y: poot.Out[f32]):
    i = poot.thread_index()
    y[i] = x[i] + 1


def chain(x: poot.Array) -> poot.Array:
    """20 launches: a kernel of the user's stays as it is, and its result is filled with zeros first."""
    for _ in range(COUNT // 2):
        x = plus_one(x, f32[N], groups=N // GROUP)
    return x


def stepped(device: poot.Device) -> Callable[[], None]:
    """A step of an engine with an input of its own, and its result."""
    x = np.zeros(N, np.float32)
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    program = poot.compile(poot.trace(chain).graph(x), device.target, poot.CompileOptions())
    assert len(program.launches) == COUNT
    entry = engine.add_entry(exe, program)
    inputs = StepInputs()
    inputs.push("x", x)

    def run() -> None:
        engine.step(exe, entry, inputs).read()

    assert (np.asarray(engine.step(exe, entry, inputs).read()) == COUNT // 2).all()
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, check and print; with --write, write the table."""
    options = parser("wgpu_step", __doc__).parse_args(arguments)
    device = poot.device("wgpu")
    hand, one = by_hand()
    candidates = {
        "by hand: 19 dispatches in a pass, then one with readback": hand,
        "by hand: one dispatch with readback": one,
        "poot: a recording of 20 replayed, result read": replayed(device),
        "poot: an engine's step of 20, input written, result read": stepped(device),
    }
    times = medians(candidates, 301)
    base = next(iter(times.values()))
    rows = [[name, f"{1e3 * taken:.0f} us", f"{taken / base:.2f}"] for name, taken in times.items()]
    from poot.backends.wgpu.device import hardware

    note = (
        f"Kernels over {N:,} elements; medians of 301 runs in turn; at most {LIMIT} is asked of a step. "
        f"{hardware()[0]}; {versions(['wgpu', 'numpy'])}. Made by `python -m benchmarks.wgpu_step --write`."
    )
    title = "A step of 20 dispatches on wgpu"
    show_table("wgpu-step", title, note, ["what", "time", "ratio"], rows, write=options.write)


if __name__ == "__main__":
    main()
