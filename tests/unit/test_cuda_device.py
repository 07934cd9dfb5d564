"""The CUDA device over a CuPy of host memory: graphs, patched launches, folding, errors, languages."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends import inherited
from poot.backends.cuda import device as child_module
from poot.backends.cuda.code import CudaCode
from poot.backends.cuda.device import CudaDevice, make_device, queried_target
from poot.backends.cuda.launches import Launch, fold
from poot.backends.cuda.nvptx import resources
from poot.backends.device import BufferView, CallLayout, CopySpec, LaunchSpec
from poot.backends.toolchain import CompiledKernel
from poot.dtypes import f32, i32
from poot.errors import AllocationError, CompileError, DeviceError, DeviceLostError, DeviceUnavailableError, LaunchError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel, argument_slots, fault_sites
from poot.kernel.pipeline import prepare
from poot.target import Target
from tests.unit.fake_cupy import CUDARuntimeError, Fake


@pytest.fixture
def device() -> CudaDevice:
    fake = Fake()
    return CudaDevice(0, fake, Target.parse("cuda:sm_90"), fake.driver)


def compiled(device: CudaDevice, kernel: Kernel, *, shared: int = 0, hidden: int = 0, scratch: int = 0) -> Any:
    """A kernel whose image the fake knows; it runs in the interpreter."""
    prepared = prepare(kernel)
    image = f"image {len(device.cupy.kernels)}".encode()
    code = CudaCode(image, kernel.name, 128, shared, hidden, scratch, 128)
    made = CompiledKernel(
        prepared, device.target, "triton", code, kernel.name, "", argument_slots(prepared), fault_sites(prepared)
    )
    device.cupy.kernels[image] = made
    return device.load(made)


def increment(n: int, *, threads: int | None = None) -> Kernel:
    k = KernelBuilder("increment", workgroup=(64, 1, 1), threads=(threads, 1, 1))
    x, i = k.buffer("x", i32, "readwrite", (n,)), k.index("thread", 0)
    k.store(x, (i,), k.op("add", k.load(x, (i,), checked=True), k.const(1, i32)), checked=True)
    return k.finish()


def numbers(device: CudaDevice, view: BufferView, n: int) -> np.ndarray:
    out = np.empty(n, np.int32)
    device.read(view, out)
    return out


def made(device: CudaDevice, array: np.ndarray) -> BufferView:
    view = BufferView(device.allocate(array.nbytes))
    device.write(view, array)
    return view


def test_fixed_recordings_are_graphs(device: CudaDevice) -> None:
    view, copy = made(device, np.zeros(100, np.int32)), made(device, np.zeros(100, np.int32))
    loaded = compiled(device, increment(100, threads=100))
    steps = [*[LaunchSpec(loaded, ((0, 0),), (2, 1, 1))] * 3, CopySpec(0, 1, 400)]
    recording = device.record(steps, [view, copy], (), ())
    for _ in range(3):
        device.replay(recording, ())
    assert (numbers(device, copy, 100) == 12).all()
    assert device.cupy.counts == {"graphs": 1, "graph launches": 4, "launches": 3}


def test_few_steps_are_no_graph(device: CudaDevice) -> None:
    view, copy = made(device, np.zeros(100, np.int32)), made(device, np.zeros(100, np.int32))
    loaded = compiled(device, increment(100, threads=100))
    recording = device.record([LaunchSpec(loaded, ((0, 0),), (2, 1, 1)), CopySpec(0, 1, 400)], [view, copy], (), ())
    device.replay(recording, ())
    assert (numbers(device, copy, 100) == 2).all()
    assert device.cupy.counts == {"graphs": 0, "graph launches": 0, "launches": 2}


def test_rebound_recordings_patch_their_pointers(device: CudaDevice) -> None:
    a, b = made(device, np.zeros(100, np.int32)), made(device, np.full(100, 10, np.int32))
    loaded = compiled(device, increment(50))
    spec = LaunchSpec(loaded, ((0, 200),), (1, 1, 1), (50,))
    recording = device.record([spec], [None], (0,), (a,))
    device.replay(recording, (b,))
    assert numbers(device, a, 100).tolist() == [0] * 50 + [1] * 50
    assert numbers(device, b, 100).tolist() == [10] * 50 + [11] * 50
    assert device.cupy.counts["graphs"] == 0


def test_faults_reach_their_record(device: CudaDevice) -> None:
    view, record = made(device, np.zeros(10, np.int32)), made(device, np.zeros(8, np.int32))
    loaded = compiled(device, increment(10, threads=20))
    device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1), (), 5)], [view, record], (), (), 1)
    assert numbers(device, record, 8).tolist() == [1, 5, 1, 0, 10, 0, 10, 0]


def test_empty_launches_and_scratch(device: CudaDevice) -> None:
    view = made(device, np.zeros(10, np.int32))
    loaded = compiled(device, increment(10, threads=10), hidden=2, scratch=100)
    device.record([LaunchSpec(loaded, ((0, 0),), (0, 1, 1))], [view], (), ())
    recording = device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], [view], (), ())
    (launch,) = recording.steps
    assert isinstance(launch, Launch) and len(launch.arguments) == len(loaded.compiled.slots) + 2
    words, count = recording.list.words, len(launch.arguments)
    scratch, profile = (words[recording.list.argument(0, count - 2 + n)] for n in range(2))
    assert scratch % 128 == 0 and scratch and not profile
    assert (numbers(device, view, 10) == 1).all()
    assert device.elapsed(recording, (), 3) == 0.001


def test_large_shared_memory_is_asked_for(device: CudaDevice) -> None:
    loaded = compiled(device, increment(10, threads=10), shared=100 << 10)
    assert device.cupy.shared == {loaded.function.ptr: 100 << 10}
    device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], [made(device, np.zeros(10, np.int32))], (), ())


def test_failures_are_typed(device: CudaDevice) -> None:
    with pytest.raises(AllocationError):
        device.allocate(1 << 40)
    loaded = compiled(device, increment(10, threads=10))
    device.cupy.kernels.clear()
    with pytest.raises(CompileError, match="CUDA_ERROR_INVALID_IMAGE"):
        device.load(loaded.compiled)
    view = made(device, np.zeros(10, np.int32))
    device.cupy.fail_after = 0
    for rebindable in ((), (0,)):
        views = [None] if rebindable else [view]
        with pytest.raises(DeviceLostError, match=r"CUDA_ERROR_LAUNCH_FAILED\n(.|\n)*Remedy: start the process anew"):
            device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], views, rebindable, [view] if rebindable else [])
    device.cupy.fail_after = -1
    device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], [view], (), ())
    assert (numbers(device, view, 10) == 1).all()


def test_errors_that_stay_say_so(device: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kernel's fault CUDA answers every call with it, even that which gives the thread its own GPU back."""
    loaded = compiled(device, increment(10, threads=10))
    view = made(device, np.zeros(10, np.int32))
    runtime = device.cupy.cuda.runtime

    def sticky(*_: object) -> None:
        raise runtime.CUDARuntimeError("cudaErrorIllegalAddress", 700)

    for name in ("memcpyAsync", "setDevice"):
        monkeypatch.setattr(runtime, name, sticky)
    device.cupy.selected = 1
    uses = (
        lambda: device.load(loaded.compiled),
        device.synchronize,
        lambda: numbers(device, view, 10),
        lambda: device.allocate(64),
    )
    for use in uses:
        with pytest.raises(DeviceLostError, match=r"cudaErrorIllegalAddress\n(.|\n)*Remedy: start the process anew"):
            use()
    device.cupy.selected = 0
    monkeypatch.setattr(runtime, "setDevice", lambda ordinal: None)
    with pytest.raises(DeviceLostError, match="cudaErrorIllegalAddress"):
        numbers(device, view, 10)


@pytest.mark.parametrize(
    ("groups", "grid"),
    [
        ((5, 6, 7), (5, 6, 7)),
        ((1, 65535, 65535), (1, 65535, 65535)),
        ((1, 65536, 1), (1, 65535, 2)),
        ((2, 3, 66000), (2, 65535, 4)),
        ((1, 65535, 32768), (1, 65535, 32768)),
        ((0, 70000, 1), (0, 65535, 2)),
    ],
)
def test_grids_are_folded(groups: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
    assert fold(groups, "k") == grid
    assert grid[1] * grid[2] >= groups[1] * groups[2]


def test_grids_that_do_not_fit() -> None:
    with pytest.raises(LaunchError, match="more than a grid can have"):
        fold((1, 65536, 65536), "k")
    with pytest.raises(LaunchError):
        fold((1 << 31, 1, 1), "k")
    x, y, z = fold((1, 65535, 65536 - 1), "k")
    assert (x, y, z) == (1, 65535, 65535)


def test_languages(device: CudaDevice) -> None:
    other = device.with_language("ptx")
    assert other.target.languages == ("ptx", "triton") and device.target.languages == ("triton", "ptx")
    assert other.target.fingerprint != device.target.fingerprint


def test_targets_of_gpus() -> None:
    attributes = {"MaxThreadsPerBlock": 1024, "MaxSharedMemoryPerBlockOptin": 101376}
    assert queried_target(attributes, "87").name == "cuda:sm_86"
    assert queried_target(attributes, "90").limit("workgroup_storage") == 101376
    with pytest.raises(DeviceUnavailableError, match=r"compute capability 7\.5"):
        queried_target(attributes, "75")


def test_absence_has_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceUnavailableError, match=r"CuPy cannot be imported[^$]*pip install"):
        make_device(0)
    fake = Fake()
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    with pytest.raises(DeviceUnavailableError, match=r"there are 1 GPUs[^$]*nvidia-smi -L"):
        make_device(3)

    def broken() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver")

    fake.cuda.runtime.getDeviceCount = broken
    with pytest.raises(DeviceUnavailableError, match=r"cudaErrorInsufficientDriver[^$]*nvidia-smi"):
        make_device(0)


def test_code_round_trips() -> None:
    code = CudaCode(b"\0\1image", "k", 96, 10, 2, 64, 128, (("registers", 12),), "text")
    assert CudaCode.from_bytes(code.to_bytes()) == code


def test_reports_of_the_assembler() -> None:
    report = "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\nUsed 23 registers, 32 bytes smem"
    assert resources(report) == (("registers", 23), ("spills", 4), ("stack", 8), ("shared", 32))


def test_cross_compiling_needs_no_gpu() -> None:
    from poot.backends.toolchain import compile_kernel

    for arch in ("sm_80", "sm_90"):
        target = Target.parse(f"cuda:{arch}")
        made = compile_kernel(increment(64, threads=64), target)
        assert made.language == "triton" and dict(made.resources)["registers"] > 0
    k = KernelBuilder("tile", workgroup=(32, 1, 1))
    tile = k.alloc("tile", f32, (32,), "shared")
    k.store(tile, (k.index("local", 0),), k.const(1.0, f32))
    k.barrier()
    k.store(k.buffer("y", f32, "write", (32,)), (k.index("local", 0),), k.load(tile, (k.i(3),)))
    assert compile_kernel(k.finish(), Target.parse("cuda:sm_90")).language == "ptx"


def test_a_forked_child_is_refused(device: CudaDevice) -> None:
    loaded = compiled(device, increment(10, threads=10))
    a = made(device, np.zeros(10, np.int32))
    recording = device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], [None], (0,), (a,))
    call = device.direct_call(recording, CallLayout((0,), (), 1, 0))
    call([a.buffer.address])  # type: ignore[attr-defined]
    assert (numbers(device, a, 10) == 2).all()
    child_module._after_fork()  # pyright: ignore[reportPrivateUsage]
    for use in (lambda: device.allocate(4), lambda: call([a.buffer.address]), device.synchronize):  # type: ignore[attr-defined]
        with pytest.raises(DeviceError, match="does not survive a fork"):
            use()


def test_a_child_of_a_process_that_counted_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver that answered does not survive a fork; where there was none, the child says why as its parent did."""
    for name in ("_in_use", "_in_parents", "_known"):
        monkeypatch.setattr(inherited, name, set())
    fake = Fake()
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    count = fake.cuda.runtime.getDeviceCount
    fake.cuda.runtime.getDeviceCount = lambda: 0
    for _ in range(2):
        with pytest.raises(DeviceUnavailableError, match="there are 0 GPUs"):
            make_device(0)
        inherited._after_fork()  # pyright: ignore[reportPrivateUsage]
    fake.cuda.runtime.getDeviceCount = count
    with pytest.raises(DeviceUnavailableError, match="there are 1 GPUs"):
        make_device(3)
    inherited._after_fork()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(DeviceError, match="does not survive a fork") as caught:
        make_device(0)
    assert not isinstance(caught.value, DeviceUnavailableError)


def test_direct_calls_keep_their_memory_apart_by_stream(device: CudaDevice) -> None:
    fake = device.cupy
    first = device.allocate(1000)
    address = first.address
    del first
    with fake.stream():
        other = device.allocate(1000)
        assert other.address != address, "memory that was freed on one stream was used on another"
    again = device.allocate(1000)
    assert again.address == address
    large = device.allocate(5 << 20)
    assert large.nbytes == 5 << 20
    device.reserve.clear()


def test_the_device_is_listed() -> None:
    report = {entry.name: entry for entry in poot.devices()}["cuda"]
    assert report.available or ("NVIDIA" in report.reason and "run `" in report.remedy)
