"""What a launch refuses before anything runs, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import poot
from poot.api.kernels import kernel
from poot.dtypes import f32, f64, i32
from poot.errors import (
    LaunchError,
    PootError,
    Unsupported,
)
from poot.kernel.language import (
    Out,
    Out2,
    barrier,
    local_index,
    shared,
    thread_index,
)
from tests.unit.launch_kernels import READ_ONLY, A, B, C, add, constant, constrained, ones, scaled, totals

T = TypeVar("T")


# --- what is refused ------------------------------------------------------------------------------------------------

ODD = np.zeros(40, np.uint8)[1:33].view(np.float32)
STEPS = np.zeros(8, np.dtype([("a", np.uint8), ("b", np.float32)]))["b"]


@kernel
def ramps(y: Out2[f32]):
    i = thread_index()
    if i < y.size:
        y[i // y.shape[1], i % y.shape[1]] = f32(i)


@kernel
def marks(y: Out[i32]):
    y[thread_index()] = 1


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: add(A, B, C),
        (
            "neither threads= nor groups= is given\n…\n"
            "  Remedy: give one: threads=n starts n threads, groups=n whole work-groups."
        ),
    ),
    (
        lambda: add(A, B, C, threads=8, groups=8),
        (
            "both threads= and groups= are given\n…\n"
            "  Remedy: give one: threads=n starts n threads, groups=n whole work-groups."
        ),
    ),
    (
        lambda: add(A, B, C, threads=-1),
        "threads=-1\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=(1, 2, 3, 4)),
        "threads=(1, 2, 3, 4)\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=2.5),
        "threads=2.5\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=8, workgroup=0),
        "workgroup=0\n…\n  Remedy: give one to three positive integers, x first.",
    ),
    (
        lambda: add(A, B, C, groups=1),
        (
            "groups= without a work-group\n…\n"
            "  Remedy: state one: @poot.kernel(workgroup=256), or workgroup= at the launch."
        ),
    ),
    (lambda: add(A, B, threads=8), "no value is given for `c`\n…\n  Remedy: pass every argument."),
    (lambda: add(A, B, C, A, threads=8), "4 arguments given, 3 expected\n…\n  Remedy: give a, b, c."),
    (lambda: add(A, B, c=C, d=C, threads=8), "it has no parameter `d`\n…\n  Remedy: its parameters are a, b, c."),
    (
        lambda: add.interpret(A, C, C, threads=8),
        (
            "the output `c` shares memory with `b`\n…\n"
            "  Remedy: write to another array, or pass one array as a single InOut."
        ),
    ),
    (
        lambda: add(A, B, as_strided(C, (8,), (0,)), threads=8),
        (
            "elements of the output `c` share memory: its strides are (0,)\n…\n"
            "  Remedy: write to an array that has a place for each element, such as a copy of it."
        ),
    ),
    (
        lambda: add.interpret(A, B, as_strided(C, (8,), (0,)), threads=8),
        (
            "elements of the output `c` share memory: its strides are (0,)\n…\n"
            "  Remedy: write to an array that has a place for each element, such as a copy of it."
        ),
    ),
    (
        lambda: ramps(as_strided(C, (2, 3), (8, 4)), threads=6),
        (
            "elements of the output `y` share memory: its strides are (8, 4)\n…\n"
            "  Remedy: write to an array that has a place for each element, such as a copy of it."
        ),
    ),
    *(
        (
            lambda thread=thread: add.interpret(A, B, C, threads=8, thread=thread),
            f"thread={thread!r}\n…\n  Remedy: give the thread's number, or its x, y and z, as integers.",
        )
        for thread in (1.5, True, (1.0,), (), (0, 0, 0, 0), "a")
    ),
    *(
        (
            lambda thread=thread: add.interpret(A, B, C, threads=8, thread=thread),
            (
                f"thread={thread!r} is outside the (8, 1, 1) threads of the launch\n…\n"
                "  Remedy: they are numbered from 0 to 7."
            ),
        )
        for thread in (-1, 8, (0, 1))
    ),
    (lambda: add(A, B, C, thread=8), "it has no parameter `thread`\n…\n  Remedy: did you mean `threads`?"),
    (lambda: add(A, B, C, a=C, threads=8), "`a` is given twice\n…\n  Remedy: give it once."),
    (
        lambda: add(A, B, ones(8, np.float64), threads=8),
        (
            "`c` is f64, where Out[f32] needs f32\n…\n"
            "  Remedy: convert it: c.astype(np.dtype(f32)); nothing is cast silently."
        ),
    ),
    (
        lambda: add(A, ones(8, "U3"), C, threads=8),
        "`b` has the dtype <U3\n…\n  Remedy: convert it to one of poot's dtypes.",
    ),
    (
        lambda: add(A, ones(8, ">f4"), C, threads=8),
        "`b` is stored in the other byte order\n…\n  Remedy: convert it with .astype(…).",
    ),
    (
        lambda: add(A.reshape(2, 4), B, C, threads=8),
        (
            "`a` has rank 2 and the shape (2, 4), where In[f32] needs rank 1\n"
            "…\n  Remedy: reshape it, or declare In2[f32]."
        ),
    ),
    (
        lambda: add(A.sum(), B, C, threads=8),
        "`a` has rank 0 and the shape (), where In[f32] needs rank 1\n…\n  Remedy: reshape it: a.reshape(1).",
    ),
    (
        lambda: add([1.0], B, C, threads=8),
        "`a` is a list, where In[f32] needs an array\n…\n  Remedy: make it an array: np.array(…, np.float32).",
    ),
    (
        lambda: marks([0, 1], threads=2),
        "`y` is a list, where Out[i32] needs an array\n…\n  Remedy: make it an array: np.array(…, np.int32).",
    ),
    (
        lambda: add(A, B, READ_ONLY, threads=8),
        "the output `c` is read-only\n…\n  Remedy: pass an array that can be written.",
    ),
    (
        lambda: add(A, C, C, threads=8),
        (
            "the output `c` shares memory with `b`\n…\n"
            "  Remedy: write to another array, or pass one array as a single InOut."
        ),
    ),
    (
        lambda: add(A[:7], C[1:], C[:7], threads=8),
        (
            "the output `c` shares memory with `b`\n…\n"
            "  Remedy: write to another array, or pass one array as a single InOut."
        ),
    ),
    (
        lambda: add(ODD, B, C, threads=8),
        "`a` does not lie at multiples of its 4 bytes\n…\n  Remedy: copy it: np.array(x).",
    ),
    (
        lambda: add(STEPS, B, C, threads=8),
        "`a` does not lie at multiples of its 4 bytes\n…\n  Remedy: copy it: np.array(x).",
    ),
    (
        lambda: scaled(A, ones(8, np.float64), 1, threads=8),
        "`y` is f64, where Out[T] needs f32\n…\n  Remedy: every T of one launch is one dtype: convert with .astype(…).",
    ),
    (
        lambda: scaled(A, B, "2", threads=8),
        (
            "`factor` is '2', a str, where a scalar of f32 is needed\n…\n"
            "  Remedy: pass a Python or NumPy number of that kind."
        ),
    ),
    (
        lambda: scaled(A, B, 1e300, threads=8),
        "`factor` is 1e+300, which does not fit f32\n…\n  Remedy: declare a wider dtype.",
    ),
    (
        lambda: scaled(A, B, 1, n=2.0, threads=8),
        (
            "`n` is 2.0, a float, where a scalar of i32 is needed\n…\n"
            "  Remedy: convert it with int(…); nothing is rounded silently."
        ),
    ),
    (
        lambda: scaled(A, B, 1, n=1 << 40, threads=8),
        (
            "`n` is 1099511627776, which does not fit i32\n…\n"
            "  Remedy: i32 holds -2147483648 to 2147483647; declare a wider dtype."
        ),
    ),
    (
        lambda: scaled(A, B, 1, up=1, threads=8),
        "`up` is 1, a int, where a scalar of bool is needed\n…\n  Remedy: pass a Python or NumPy number of that kind.",
    ),
    (
        lambda: constrained(ones(1, np.float16), ones(1, np.float16), threads=1),
        "`x` is f16, and S is one of f32, f64\n…\n  Remedy: convert it.",
    ),
    (lambda: constant(C, 2.5, threads=1), "`n` is 2.5, where Const[int] needs an int\n…\n  Remedy: pass an int."),
    (
        lambda: constant(C, 2, kind=[], threads=1),
        "`kind` is [], where Const[Callable] needs a Callable\n…\n  Remedy: pass a Callable.",
    ),
    (
        lambda: totals(ones(100), C, threads=100),
        (
            "100 threads on axis x are no multiple of the work-group's 64, but the "
            "kernel has barriers, collectives or shared arrays\n…\n"
            "  Remedy: launch whole work-groups: groups=2 on that axis, or threads=128."
        ),
    ),
]


def told(error: PootError) -> str:
    """The message with the place, which is this file's, as "…"."""
    lines = str(error).split("\n")
    places = [line for line in lines if line.startswith("  at ")]
    assert len(places) == 1 and __file__ in places[0]
    return "\n".join("…" if line.startswith("  at ") else line for line in lines if not line.startswith("    "))


@pytest.mark.parametrize(("launch", "text"), REFUSED)
def test_refusals(launch: Callable[[], Any], text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch()
    assert re.sub(r"^kernel \w+: ", "", told(caught.value)) == text
    assert (A == 1).all() and (C == 1).all()


def test_strides_out_of_order_are_no_overlap() -> None:
    memory = np.zeros(8, np.float32)
    y = as_strided(memory, (2, 2), (8, 12))  # places 0, 3, 2, 5
    ramps(y, threads=4)
    assert memory.tolist() == [0, 0, 2, 1, 0, 3, 0, 0]
    ramps(memory.reshape(2, 4)[::-1, ::-2], threads=4)
    single = as_strided(memory, (1, 1), (0, 0))
    ramps(single, threads=1)


@pytest.mark.parametrize("word", ["threads", "groups", "workgroup"])
@pytest.mark.parametrize("several", [False, True])
def test_traced_grids_say_that_they_are_static(word: str, several: bool) -> None:
    @poot.trace
    def launch(x: Any, n: Any) -> Any:
        sizes = {"threads": 8, word: (n, 1) if several else n}
        if word == "groups":
            sizes.pop("threads")
        return add(x, x, f32[8], **sizes)

    with pytest.raises(LaunchError) as caught:
        launch(A, np.int32(8))
    kind = "work-group" if word == "workgroup" else "grid"
    assert f"kernel add: {word}= is a traced value (i32[])" in str(caught.value)
    assert f"Remedy: a {kind} is static: give a Python int" in str(caught.value)


def test_more_than_the_target_can() -> None:
    @kernel(workgroup=512)
    def big(y: Out[f32]):
        own = shared(f32, 100_000)
        own[local_index()] = 1
        barrier()
        y[0] = own[0]

    with pytest.raises(Unsupported, match=r"512 threads in a work-group is not supported by wgpu"):
        big.compile("wgpu")
    with pytest.raises(Unsupported, match="kernel scaled: dtype f64 is not supported by wgpu"):
        scaled.compile("wgpu", T=f64)
    with pytest.raises(Unsupported, match="4096 threads in a work-group is not supported by cpu"):
        totals(ones(4096), C, groups=1, workgroup=4096, device="cpu")
