"""Remedies of kernels' messages are followed: what they say to write is written, and compiles."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import poot
from poot.errors import KernelError, LaunchError, PootError, Unsupported, UnsupportedDTypeError
from poot.kernel.parse.calls import MATH
from poot.kernel.parse.foreign import WRITTEN_OUT, spelled
from tests.errors.kernel_source import build, launch, module

#: A body, what its remedy has to say, and the body with the remedy followed; what stands before the kernel.
FOLLOWED: list[tuple[str, str, str, str]] = [
    (
        "s = 0\nfor k in range(8):\n    s += x[k]\ny[i] = s",
        "begin with `s = 0.0` in line",
        "s = 0.0\nfor k in range(8):\n    s += x[k]\ny[i] = s",
        "",
    ),
    (
        "for w in (1.0, 2.0):\n    y[i] += w",
        "write `for j in poot.unroll(range(2))`, and index: `w = (1.0, 2.0)[j]`.",
        "for j in poot.unroll(range(2)):\n    w = (1.0, 2.0)[j]\n    y[i] += w",
        "",
    ),
    (
        "for w in W:\n    y[i] += w",
        "write `for j in poot.unroll(range(2))`, and index: `w = W[j]`.",
        "for j in poot.unroll(range(2)):\n    w = W[j]\n    y[i] += w",
        "W = (1.0, 2.0)",
    ),
    (
        "for w in x:\n    y[i] += w",
        "write `for j in range(len(x))`, and index: `w = x[j]`.",
        "for j in range(len(x)):\n    w = x[j]\n    y[i] += w",
        "",
    ),
    ("y[i] = poot.sqrt(x[i])", "write `math.sqrt`.", "y[i] = math.sqrt(x[i])", ""),
    ("poot.atomic_ad(y, i, 1)", "did you mean `atomic_add`?", "poot.atomic_add(y, i, 1)", ""),
    ("y[i] = np.float32(n[i])", "write `f32(…)`, a cast of poot.", "y[i] = f32(n[i])", ""),
    ("y[i] = np.maximum(x[i], 1)", "write `max`.", "y[i] = max(x[i], 1)", ""),
    ("y[i] = np.arctan2(x[i], 1)", "write `math.atan2`.", "y[i] = math.atan2(x[i], 1)", ""),
    ("y[i] = np.sign(x[i])", "write `poot.sign`.", "y[i] = poot.sign(x[i])", ""),
    (
        "y[i] = h(x[i])",
        "call its `.__wrapped__`",
        "y[i] = h.__wrapped__(x[i])",
        "import functools\n@functools.cache\ndef h(v):\n    return v * 2",
    ),
    (
        "y[i] = h(x[i])",
        "`def g(x): return f(…)`",
        "y[i] = g(x[i])",
        "import functools\ndef f(v, w):\n    return v * w\nh = functools.partial(f, w=2.0)\ndef g(x): return f(x, 2.0)",
    ),
    (
        "y[i] = h(x[i])",
        "write it as a function outside the class",
        "y[i] = g(x[i])",
        "class C:\n    def h(self, v):\n        return v\nh = C().h\ndef g(v):\n    return v",
    ),
    (
        "for j in range(u8(i), u8(250), -300): pass",
        "count in another dtype: `range(i32(u8(i)), i32(u8(250)), -300)`.",
        "for j in range(i32(u8(i)), i32(u8(250)), -300): pass",
        "",
    ),
    (
        "for k in range(3):\n    k += 1\nfor k in range(i64(3)):\n    k += 1",
        "give this loop another name.",
        "for k in range(3):\n    k += 1\nfor m in range(i64(3)):\n    m += 1",
        "",
    ),
    ("y[i] = f32(i << 1.0)", "write `1`.", "y[i] = f32(i << 1)", ""),
    ("y[...] = 0", "index one element: `y[i]`.", "y[i] = 0", ""),
    ("y[i] = f32(poot.atomic_add(n, i, 1))", "declare it InOut", "y[i] = poot.atomic_add(y, i, 1)", ""),
    ("for j in range(2.5): pass", "write `2`.", "for j in range(2): pass", ""),
    ("v = i + u32(1)", "write `u32(i)`.", "v = u32(i) + u32(1)", ""),
    (
        "poot.atomic_min(y, i, x[i])",
        "`poot.atomic_min(y, i, poot.bitcast(value, i32))`",
        "s = poot.shared(i32, 8)\ns[i] = 0\npoot.atomic_min(s, i, poot.bitcast(x[i], i32))",
        "",
    ),
]


@pytest.mark.parametrize(("body", "remedy", "mended", "before"), FOLLOWED, ids=[entry[0] for entry in FOLLOWED])
def test_a_remedy_that_is_followed(body: str, remedy: str, mended: str, before: str) -> None:
    with pytest.raises(KernelError) as caught:
        launch(build(body, before))
    assert remedy in str(caught.value)
    assert caught.value.where is not None
    assert "^" in str(caught.value)
    launch(build(mended, before, "(workgroup=8)"))


@pytest.mark.parametrize("name", sorted(WRITTEN_OUT))
def test_a_function_that_is_written_out(name: str) -> None:
    numbers = "x, a, b, c, low, high = x[i] * 0.5, x[i] * 5.5, x[i] * 2.0, x[i], 0.0, 1.0\nn, condition = i + 2, i > 1"
    integers = name in ("left_shift", "right_shift")
    body = numbers.replace("x[i] * 5.5, x[i] * 2.0", "i, 2") if integers else numbers
    head = "x_: In[f32], n_: In[i32], y: InOut[f32]"
    body = body.replace("x[i]", "x_[i]")
    launch(build(f"{body}\ny[i] = f32({WRITTEN_OUT[name]})", head=head))


def test_what_is_written_out_is_right() -> None:
    space = {"math": math, "f32": float, "f64": float}
    for name, values in {
        "log10": [0.3],
        "isqrt": [17],
        "hypot": [3.0, 4.0],
        "fmod": [-7.5, 2.0],
        "cbrt": [-8.0],
    }.items():
        letters = "ab" if len(values) == 2 else "n" if name == "isqrt" else "x"
        known = eval(WRITTEN_OUT[name], space | dict(zip(letters, values, strict=True)))
        assert math.isclose(known, getattr(math, name, lambda v: -2.0)(*values), rel_tol=1e-12)
    assert spelled("fmin", MATH) == "write `min`."


@pytest.mark.parametrize("name", ["log10", "isclose", "isqrt", "hypot", "fmod", "radians", "erfc", "ldexp"])
def test_no_other_function_is_suggested(name: str) -> None:
    with pytest.raises(KernelError, match=re.escape(f"write `{WRITTEN_OUT[name]}`.")):
        launch(build(f"y[i] = math.{name}(x[i])"))


def test_loops_that_are_written_out_inside_one_another_count_together() -> None:
    before = "def h(v):\n    for j in unroll(range(100)):\n        v += 1\n    return v"
    with pytest.raises(KernelError, match=r"unrolling writes out 5000 turns, 50 times 100\n"):
        launch(build("for k in unroll(range(50)):\n    y[i] = h(x[i])", before))
    launch(
        build("for k in unroll(range(2)):\n    for j in unroll(range(3)):\n        y[i] += 1\ny[i] = h(x[i])", before)
    )


def test_a_kernel_in_a_class() -> None:
    with pytest.raises(KernelError, match="leave `self` out: a kernel in a class is no method"):
        module("class C:\n    @kernel\n    def k(self, y: Out[f32]): pass\n")
    module("class C:\n    @kernel\n    def k(y: Out[f32]): pass\nC().k(np.zeros(1, np.float32), threads=1)\n")


def test_a_grid_as_others_write_it() -> None:
    made = build("pass")
    x, n = np.ones(8, np.float32), np.arange(8, dtype=np.int32)
    with pytest.raises(LaunchError, match="name it at the call"):
        made[10, 1](x, n, x)
    with pytest.raises(LaunchError, match="a grid is threads=n, or groups=n with workgroup="):
        made(x, n, x.copy(), grid=1)
    made(x, n, x.copy(), groups=1, workgroup=8)


def test_a_race_between_work_groups() -> None:
    made = build("y[0] = x[i] * f32(i)", options="(workgroup=4)")
    with pytest.raises(KernelError, match="let each group have elements of its own") as caught:
        made.interpret(np.ones(8, np.float32), np.zeros(8, np.int32), np.zeros(8, np.float32), groups=2)
    assert "barrier" not in str(caught.value)


def test_a_dtype_that_a_target_lacks() -> None:
    made = build("y[i] = 0", head="x: In[f32], h: In[f64], y: InOut[f32]")
    with pytest.raises(Unsupported, match=r"use f32 in place of f64, or launch it on another device") as caught:
        made.compile("wgpu")
    assert caught.value.where is not None
    assert caught.value.where.text[caught.value.where.column :].startswith("h: In[f64]")


def test_a_lambda_and_a_dtype_that_is_none() -> None:
    with pytest.raises(PootError) as caught:
        poot.kernel(lambda x: x)
    assert "^^^^^^" in str(caught.value)
    with pytest.raises(UnsupportedDTypeError, match="did you mean f32") as refused:
        poot.In["f33"]
    assert refused.value.where is not None
    assert refused.value.where.file == __file__


def test_the_way_to_an_error_in_a_helper() -> None:
    before = "def g(v):\n    return v + q\ndef f(v):\n    return g(v) * 2"
    with pytest.raises(KernelError) as caught:
        launch(build("y[i] = f(x[i])", before))
    notes = "\n".join(caught.value.__notes__)
    assert notes.index("in g, inlined at") < notes.index("in f, inlined at")
