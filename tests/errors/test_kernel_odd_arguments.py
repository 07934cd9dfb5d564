"""Odd arguments of kernels, of their decorator and of their launches: each has an error that says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poot.api import library
from poot.backends import cache
from poot.errors import KernelError, LaunchError, PootError
from poot.target import Target
from tests.errors.kernel_source import build, message, module
from tests.messages import without_line
from tests.unit.launch_kernels import A, B, C, add, constant, scaled, totals

MASKED = np.ma.array(A, mask=[True] * len(A))  # pyright: ignore[reportUnknownMemberType]
ODD = np.zeros(40, np.uint8)[1:33].view(np.float32)
TARGET = 'target: {} given, expected a target, a device, or the name of a target such as "cpu"'
FEWER = "\n  Remedy: launch fewer than 2**53 at once."
SIZES = "\n  Remedy: give one to three integers that are not negative, x first."
CONST = "\n  Remedy: pass an int."

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: totals(A, C, groups=2**50), f"kernel totals: groups={2**50} starts {2**56} threads{FEWER}"),
    (lambda: add(A, B, C, threads=8.0), f"kernel add: threads=8.0{SIZES}"),  # pyright: ignore[reportArgumentType]
    (lambda: add(A, B, C, threads=True), f"kernel add: threads=True{SIZES}"),
    (lambda: add(A, B, C, threads=(8.0,)), f"kernel add: threads=(8.0,){SIZES}"),  # pyright: ignore[reportArgumentType]
    (
        lambda: scaled(A, B, 10**400, threads=8),
        (
            "kernel scaled: `factor` is an integer of 1329 bits, which does not fit f32\n"
            "  Remedy: pass a number up to 3.4028234663852886e+38."
        ),
    ),
    (
        lambda: add(MASKED, B, C, threads=8),
        (
            "kernel add: `a` is a masked array, whose mask no kernel sees\n"
            "  Remedy: fill it: a.filled(0); or pass the mask too, as an array of bool."
        ),
    ),
    (lambda: constant.source("wgsl", n=[1]), f"kernel constant: `n` is [1], where Const[int] needs an int{CONST}"),
    (lambda: constant.compile("cpu", n=2.5), f"kernel constant: `n` is 2.5, where Const[int] needs an int{CONST}"),
    (lambda: add.compile(None), TARGET.format("NoneType")),  # pyright: ignore[reportArgumentType]
    (lambda: Target.parse(5), TARGET.format("int")),  # pyright: ignore[reportArgumentType]
    (lambda: Target.parse(b"cpu"), TARGET.format("bytes")),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("refused", "text"), REFUSED)
def test_odd_arguments_are_refused_whatever_ran_before(refused: Callable[[], Any], text: str) -> None:
    add(A, B, np.zeros_like(C), threads=8)
    add(A, B, np.zeros_like(C), threads=1)
    add(A, B, np.zeros_like(C), threads=(8,))
    with pytest.raises(PootError) as caught:
        refused()
    assert without_line(caught.value) == text


def test_unknown_processors() -> None:
    with pytest.raises(PootError, match=r"unknown target 'cpu:banana': known processors are aarch64, arm64, x86_64"):
        add.source("native", "cpu:banana")


def test_grids_past_what_is_counted(device_name: str) -> None:
    with pytest.raises(LaunchError) as caught:
        add(A, B, C, threads=2**64, device=device_name)
    assert without_line(caught.value) == f"kernel add: threads={2**64} starts {2**64} threads{FEWER}"
    assert caught.value.where is not None and caught.value.where.file == __file__


def test_one_thread_of_a_wide_grid() -> None:
    add.interpret(A, B, C, threads=2**40, thread=2**39)


@pytest.mark.parametrize("offset", [None, 0, 1])
@pytest.mark.parametrize("place", [0, 2])
def test_arrays_off_their_dtypes_grid_are_refused_everywhere(device_name: str, place: int, offset: int | None) -> None:
    """Whatever was launched before: nothing, arrays that lie as memory does, or one that is an element further on."""
    if offset is not None:
        arrays = [np.zeros(9, np.float32)[offset : offset + 8] for _ in range(3)]
        add(*arrays, threads=8, device=device_name)
    arrays = [A, B, C]
    arrays[place] = ODD
    with pytest.raises(LaunchError) as caught:
        add(*arrays, threads=8, device=device_name)
    assert without_line(caught.value) == (
        f"kernel add: `{'abc'[place]}` does not lie at multiples of its 4 bytes\n  Remedy: copy it: np.array(x)."
    )


HEADS = [
    ("a: 'poot.Inn[f32]'", "AttributeError: module 'poot' has no attribute 'Inn'"),
    ("a: '1/0'", "ZeroDivisionError: division by zero"),
    ("a: \"In['zz']\"", "UnsupportedDTypeError: element of In: dtype 'zz' is not supported"),
    ("a: 'In[f32, 5]'", "ArgumentError: rank of In: 5 is not valid, expected 1 to 4"),
]


@pytest.mark.parametrize(("head", "why"), HEADS)
def test_annotations_that_do_not_evaluate(head: str, why: str) -> None:
    with pytest.raises(KernelError) as caught:
        build("pass", head=head)
    text = message(str(caught.value)).split("\n")
    assert text[0].startswith("kernel k: the annotation of `a`, ") and text[0].endswith(f", raises {why}")
    assert text[1] == "  at k.py:13:7 in k"
    assert text[-1].startswith("  Remedy: annotate it: In[f32], ")


def test_annotations_that_do_not_parse() -> None:
    with pytest.raises(KernelError, match=r"the annotation of `a`, 'In\[', raises SyntaxError"):
        build("pass", head="a: 'In['")


def test_parameters_named_as_options_of_a_launch() -> None:
    with pytest.raises(KernelError) as caught:
        build("pass", head="x: In[f32], threads: int")
    assert message(str(caught.value)) == (
        "kernel k: `threads` is an option of every launch, and cannot be a parameter\n  at k.py:13:19 in k\n"
        "    def k(x: In[f32], threads: int):\n                      ^^^^^^^^^^^^\n  Remedy: give it another name."
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            "(workgroup='a')",
            "workgroup of kernel k: 'a' is not valid, expected one to three positive integers, x first",
        ),
        ("(name=5)", "name of a kernel: 5 is not valid, expected an identifier"),
    ],
)
def test_options_of_the_decorator(options: str, text: str) -> None:
    with pytest.raises(PootError) as caught:
        build("pass", options=options)
    assert message(str(caught.value)) == (
        f"{text}\n  at k.py:13:5 in k\n    def k(x: In[f32], n: In[i32], y: InOut[f32]):\n        ^"
    )


def test_shared_arrays_are_not_for_triton() -> None:
    with pytest.raises(PootError, match=r"Triton has none[\s\S]*Remedy: write it for \"ptx\", which has both"):
        library.matmul.source("triton", T=np.float32)


def test_kernels_of_the_library_are_pickled_by_name() -> None:
    for name in ("softmax", "matmul", "add"):
        made = getattr(library, name)
        assert pickle.loads(pickle.dumps(made)) is made


def test_the_cache_may_stand_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("POOT_CACHE_DIR", "~/kept")
    assert cache.directory() == tmp_path / "kept"


def test_constants_of_a_module_that_change_to_raising(device_name: str) -> None:
    space = module(
        "class V:\n    x = 3\nv = V()\n@kernel\ndef k(y: Out[i32]):\n    y[0] = v.x\n"
        "class W:\n    @property\n    def x(self): raise RuntimeError('gone')\n"
    )
    y = np.zeros(1, np.int32)
    space["k"](y, threads=1, device=device_name)
    space["v"].__class__ = space["W"]
    with pytest.raises(KernelError, match=r"`v\.x` raises RuntimeError: gone"):
        space["k"](y, threads=1, device=device_name)
    assert y[0] == 3
