"""Every kernel that ships: its PTX is assembled for sm_80 and sm_90, its Triton source compiled for sm_90."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from poot import Target, bf16, f16, f32, f64, i8, i32, i64, u8
from poot.api import library
from poot.backends.cuda.code import CudaCode
from poot.backends.toolchain import CompiledKernel
from poot.errors import Unsupported
from poot.kernel import library as kernels

#: The dtypes and constants that each is compiled with.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "add": [{"T": dtype} for dtype in (f32, f64, bf16, i8, i64)],
    "saxpy": [{}],
    "mandelbrot": [{}],
    "game_of_life": [{}],
    "softmax": [{"T": dtype} for dtype in (f32, f16, bf16)],
    "rmsnorm": [{"T": dtype} for dtype in (f32, f16)],
    "argmax": [{"T": dtype} for dtype in (f32, i32)],
    "gemv": [{"T": dtype} for dtype in (f32, bf16)],
    "reduce": [{"T": f32, "op": "sum"}, {"T": f16, "op": "max"}, {"T": i64, "op": "min"}],
    "scan": [{"T": dtype} for dtype in (f32, i32)],
    "scan_blocks": [{"T": i32}],
    "add_before": [{"T": i32}],
    "histogram": [{}],
    "transpose": [{"T": dtype} for dtype in (f32, u8)],
    "matmul": [{"T": dtype} for dtype in (f32, bf16)],
    "convolution": [{"T": f32}],
    "bitonic_step": [{"T": dtype} for dtype in (f32, i32)],
    "accelerations": [{}],
}
SHARED = ("transpose", "matmul", "histogram", "accelerations")
"""Kernels with shared arrays, which Triton does not have."""

EVERY = [
    pytest.param(name, options, id=f"{name}-{n}") for name, all_ in OPTIONS.items() for n, options in enumerate(all_)
]


def compiled(name: str, options: dict[str, Any], arch: str, *languages: str) -> CompiledKernel:
    target = replace(Target.parse(f"cuda:{arch}"), languages=languages)
    made = getattr(library, name).compile(target, **options)
    assert isinstance(made.artifact, CudaCode) and made.artifact.image[:4] == b"\x7fELF"
    return made


def test_the_library_is_all_here() -> None:
    assert set(OPTIONS) == set(kernels.__all__)
    assert all(hasattr(library, name) for name in OPTIONS)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("name", "options"), EVERY)
def test_ptx_assembles(name: str, options: dict[str, Any], arch: str) -> None:
    made = compiled(name, options, arch, "ptx")
    assert made.language == "ptx"
    assert f".target {arch}" in made.artifact.text
    assert dict(made.resources)["registers"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [each for each in EVERY if each.values[0] not in SHARED])
def test_triton_compiles(name: str, options: dict[str, Any]) -> None:
    assert compiled(name, options, "sm_90", "triton").language == "triton"


@pytest.mark.parametrize("name", SHARED)
def test_what_triton_cannot_express_is_ptx(name: str) -> None:
    (options, *_) = OPTIONS[name]
    with pytest.raises(Unsupported, match="Triton has none"):
        compiled(name, options, "sm_90", "triton")
    assert compiled(name, options, "sm_90", "triton", "ptx").language == "ptx"
