"""The WGSL renderer: golden shaders, made into pipelines by wgpu; refusals, and the lines that text came from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from poot.backends.device import open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ALL, DType, f32, f64, i64, u8
from poot.errors import CompileError, DeviceUnavailableError, LaunchError, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.wgsl import render
from poot.kernel.render.wgsl_parameters import FIXED_WORDS, parameter_words
from poot.target import Target
from tests.device_runs import agree
from tests.errors.kernel_source import build
from tests.unit.gpu_kernels import CASES, Written
from tests.unit.threads_support import forked

WIDE = replace(
    Target.parse("wgpu"), dtypes=frozenset(ALL), features=frozenset({"f64", "i64", "int64_atomics", "correct_division"})
).replace_limits(workgroup_storage=1 << 20)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"wgsl/{name}.wgsl", render(CASES[name].make(), WIDE).text)


@pytest.mark.parametrize("name", [name for name in CASES if name != "large_shared"])
def test_golden_kernels_become_pipelines(name: str) -> None:
    device = open_device("wgpu")
    device.load(compile_kernel(CASES[name].make(), device.target))


def test_infinity_and_nan_are_made_at_run_time() -> None:
    k = KernelBuilder("f", workgroup=(1, 1, 1))
    out = k.buffer("out", f32, "write", (3,))
    for place, value in enumerate((float("inf"), float("-inf"), float("nan"))):
        k.store(out, (k.i(place),), k.const(value, f32))
    text = render(prepare(k.finish()), Target.parse("wgpu")).text
    assert re.findall(r"= (bitcast<f32>\(.*\));", text) == [
        f"bitcast<f32>(0x{bits}u ^ params.zero)" for bits in ("7f800000", "ff800000", "7fc00000")
    ]


def test_shared_memory_is_counted_in_words() -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1))
    tile = k.alloc("tile", u8, (5000,), "shared")
    k.store(tile, (k.index("local", 0),), k.const(1, u8))
    k.barrier()
    k.store(k.buffer("out", u8, "write", (8,)), (k.index("local", 0),), k.load(tile, (k.i(0),)))
    with pytest.raises(Unsupported, match="20000 bytes of shared memory is not supported by wgpu: the limit is 16384"):
        render(prepare(k.finish()), Target.parse("wgpu"))


def test_dtypes_that_an_adapter_lacks_are_refused() -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1))
    k.store(k.buffer("x", i64, "write", (1,)), (k.i(0),), k.const(1, i64))
    with pytest.raises(Unsupported, match="dtype i64"):
        compile_kernel(k.finish(), Target.parse("wgpu"))


def test_the_words_of_the_parameters() -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1), threads=(None, 1, 1), index_dtype=i64)
    x, s = k.buffer("x", f32, "readwrite", (None,)), k.scalar("s", f32)
    k.store(x, (k.index("thread", 0),), s, checked=True)
    kernel = prepare(k.finish())
    words = [(slot.kind, count) for slot, count in parameter_words(kernel, faults=True)]
    assert words == [("buffer", 1), ("extent", 2), ("scalar", 1), ("threads", 2), ("launch", 1), ("fault", 1)]
    members = re.findall(r"^    (\w+): ", render(kernel, WIDE).text.partition("}")[0], re.MULTILINE)
    assert len(members) == len(FIXED_WORDS) + sum(count for _, count in words)


def broken() -> Kernel:
    k = Written("broken", workgroup=(8, 1, 1), threads=(8, 1, 1))
    k.at("out[i] = 1.0")
    k.store(k.buffer("out", f32, "write", (8,)), (k.index("thread", 0),), k.const(1.0, f32))
    return k.finish()


def test_a_text_that_does_not_compile_names_the_users_line_and_the_device_goes_on() -> None:
    device, kernel = open_device("wgpu"), broken()
    compiled = compile_kernel(kernel, device.target)
    wrong = replace(compiled.artifact, text=compiled.artifact.text.replace("1.0f", "nothing"))
    with pytest.raises(CompileError, match=r"(?s)kernel broken did not compile for wgpu.*nothing") as caught:
        device.load(replace(compiled, artifact=wrong))
    assert caught.value.where is not None
    assert caught.value.where.line == 1
    agree("wgpu", kernel, {"out": np.zeros(8, np.float32)})


def test_a_view_between_elements_is_refused() -> None:
    from poot.backends.device import BufferView, LaunchSpec

    device = open_device("wgpu")
    loaded = device.load(compile_kernel(broken(), device.target))
    view = BufferView(device.allocate(64), 2)
    with pytest.raises(LaunchError, match="a view starts at byte 2, which is no multiple of its elements' 4 bytes"):
        device.record([LaunchSpec(loaded, ((0, 0),), (1, 1, 1))], [view], (), ())


def test_an_adapter_that_is_not_there() -> None:
    with pytest.raises(DeviceUnavailableError, match="device wgpu:77 is not available: adapters here, from 0 on: "):
        open_device("wgpu:77")


def test_adapters_for_opengl_are_never_taken() -> None:
    from poot.backends.wgpu.adapter import adapters

    assert {adapter.info["backend_type"] for adapter in adapters()} <= {"Vulkan", "Metal", "D3D12"}


@pytest.mark.parametrize("row", range(5))
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_a_device_that_is_off_in_one_width_lacks_the_feature(
    dtype: DType, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the trial: sums, products, quotients, thirds, roots."""
    from poot.backends.wgpu import probe

    def computed(device: object, a: np.ndarray, b: np.ndarray, of: DType) -> np.ndarray:
        del device
        with np.errstate(all="ignore"):
            found = np.stack([a + b, a * b, a / b, a / of.dtype.type(3), np.sqrt(np.abs(a))])
        if of is dtype:
            found[row, -1] = np.nextafter(found[row, -1], 0)
        return found

    monkeypatch.setattr(probe, "_computed", computed)
    left, lost = ({"correct_division"}, {"subnormals"}) if row < 2 else ({"subnormals"}, {"correct_division"})
    assert probe.float_features(None, frozenset(ALL)) == left
    assert probe.float_features(None, frozenset({f32})) == (left if dtype is f32 else left | lost)


def test_a_child_process_does_not_inherit_the_device() -> None:
    device = open_device("wgpu")
    assert "does not survive a fork" in forked(lambda: device.allocate(16))


def test_checks_have_no_atomics_of_their_own() -> None:
    made = build("y[i] = x[i + n[i]] + x[i + 2 * n[i]] + x[i + 3 * n[i]]")
    text = made.source("wgsl")
    assert text.count("record_fault(") == 8  # seven checks and the function
    assert text.count("atomicExchange(") == 1
