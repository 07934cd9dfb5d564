"""Definitions and specialisations: annotations, sources, and when a change outside a kernel makes it a new one."""

from __future__ import annotations

import linecache
import sys
from types import FunctionType, SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pytest

from poot.api.kernels import Kernel, kernel
from poot.backends.toolchain import compile_count
from poot.dtypes import DType, bool_, f32, f64, i32
from poot.errors import ArgumentError, ArgumentTypeError, KernelError, KernelNameError, KernelSourceError
from poot.kernel.language import Const, In, In2, InOut, Out, Out4, local_index, thread_index
from poot.kernel.parse import Layout, Request, define, specialise
from poot.kernel.parse.annotations import BufferParameter, ConstParameter, ScalarParameter
from poot.kernel.parse.source import function_source
from poot.kernel.text import dump
from tests.errors.kernel_source import PRELUDE, message, module
from tests.unit import kernel_helpers

T = TypeVar("T")
S = TypeVar("S", f32, i32)
FACTOR = 2.0
TILE = (4, 8)
CONFIG = SimpleNamespace(shift=1.0)

# --- parameters -----------------------------------------------------------------------------------------------------


def test_the_kinds_of_parameters() -> None:
    @define
    def k(
        a: In[f32],
        b: In2[T],
        c: InOut[S, Literal[3]],
        d: Out4[np.float64],
        e: f64,
        f: float,
        g: int,
        h: bool,
        j: T,
        m: Const[int] = 4,
        n: Annotated[int, "a note"] = 3,
    ):
        pass

    assert k.parameters.items == (
        BufferParameter("a", "read", f32, 1),
        BufferParameter("b", "read", T, 2),
        BufferParameter("c", "readwrite", S, 3),
        BufferParameter("d", "write", f64, 4),
        ScalarParameter("e", f64),
        ScalarParameter("f", f32),
        ScalarParameter("g", i32),
        ScalarParameter("h", bool_),
        ScalarParameter("j", T),
        ConstParameter("m", int),
        ScalarParameter("n", i32),
    )
    assert k.parameters.defaults == {"m": 4, "n": 3}
    assert k.parameters.variables == (T, S)


def test_annotations_are_found_around_the_function() -> None:
    element = f64

    @define
    def k(a: In[element], b: Out[f32]):
        pass

    def made(dtype: DType) -> Kernel:
        @kernel
        def inner(a: In[dtype], b: Out[dtype]):
            b[0] = a[0] + dtype(1)

        return inner

    assert k.parameters.items[0] == BufferParameter("a", "read", f64, 1)
    assert made(i32).definition.parameters.items[1] == BufferParameter("b", "write", i32, 1)
    assert "i32" in dump(made(i32).ir) and "f64(1.0)" in dump(made(f64).ir)


ANNOTATIONS = {
    "x": "`x` has no annotation",
    "x: str": "`x` is annotated str, which is no parameter of a kernel",
    "x: In": "`x` is annotated In without a dtype",
    "x: list[int]": "`x` is annotated list[int], which is no parameter of a kernel",
    "*x": "`*x` is not part of the kernel language",
    "**x": "`**x` is not part of the kernel language",
    "x: In[f32] = None": "`x` is an array and has a default",
}


@pytest.mark.parametrize(("head", "told"), ANNOTATIONS.items())
def test_annotations_that_say_nothing(head: str, told: str) -> None:
    with pytest.raises(KernelError) as caught:
        module(f"@kernel\ndef k({head}):\n    pass\n")
    assert message(str(caught.value)).startswith(f"kernel k: {told}\n  at k.py:12:")


def test_an_annotation_that_is_not_defined() -> None:
    with pytest.raises(KernelNameError, match="did you mean `f32`"):
        module("@kernel\ndef k(x: 'In[f23]'):\n    pass\n")
    with pytest.raises(ArgumentError, match="rank of In: 5 is not valid, expected 1 to 4"):
        module("@kernel\ndef k(x: In[f32, 5]):\n    pass\n")
    with pytest.raises(ArgumentError, match="rank of In2: 3 is not valid, expected 2"):
        module("@kernel\ndef k(x: In2[f32, 3]):\n    pass\n")


def test_type_parameters() -> None:
    text = "@kernel\ndef k[E](x: In[E], y: Out[E]):\n    y[0] = x[0] * E(3)\n"
    if sys.version_info < (3, 12):
        text = text.replace("[E](", "(").replace("E", "T")
    made = module(text)["k"]
    y = np.zeros(1, np.int32)
    made(np.ones(1, np.int32), y, threads=1, device="interpret")
    assert y[0] == 3


def test_what_cannot_be_a_kernel() -> None:
    with pytest.raises(ArgumentTypeError, match=r"@poot\.kernel: type given, expected a Python function"):
        kernel(int)
    with pytest.raises(ArgumentError, match="workgroup of kernel k: 0 is not valid"):
        module("@kernel(workgroup=0)\ndef k():\n    pass\n")
    with pytest.raises(ArgumentError, match="name of a kernel: 'a b' is not valid"):
        module("@kernel(name='a b')\ndef k():\n    pass\n")
    with pytest.raises(KernelError, match="`threads` is an option of every launch"):
        module("@kernel\ndef k(threads: int):\n    pass\n")
    with pytest.raises(KernelSourceError, match="a lambda cannot be a kernel"):
        kernel(lambda: None)
    with pytest.raises(KernelSourceError, match="an `async def` cannot be a kernel"):
        module("@kernel\nasync def k():\n    pass\n")


# --- sources --------------------------------------------------------------------------------------------------------


def test_text_without_a_source() -> None:
    space: dict[str, Any] = {}
    with pytest.raises(KernelSourceError) as caught:
        exec(PRELUDE + "@kernel\ndef k():\n    pass\n", space)
    assert str(caught.value) == (
        "Python has no source for k (<string>)\n"
        "  Remedy: define the function in a file, in IPython or a notebook cell without a cell magic, or in the REPL "
        "of Python 3.13; for text that you `exec`, register it first: "
        "`linecache.cache[name] = (len(text), None, text.splitlines(True), name)`, then `compile(text, name, 'exec')`."
    )


def test_a_file_that_has_changed() -> None:
    text = PRELUDE + "def k():\n    pass\n"
    linecache.cache["<changed>"] = (1, None, text.replace("k", "other").splitlines(True), "<changed>")
    space: dict[str, Any] = {}
    exec(compile(text, "<changed>", "exec"), space)
    with pytest.raises(KernelSourceError, match="<changed>:11 is not the text of k"):
        kernel(space["k"])


@pytest.mark.parametrize("body", ["v * 4", "v + 2", "w * 2", "float(v) * 2", "v * 2.0", "-v * 2", "(v * 2)"])
def test_a_body_that_has_changed(body: str) -> None:
    """The text of a helper is what runs, or is refused: only what Python compiles to the same is the same."""
    space: dict[str, Any] = {"w": 5}
    text = "def h(v):\n    return v * 2\n"
    exec(compile(text, "<body>", "exec"), space)
    linecache.cache["<body>"] = (1, None, text.replace("v * 2", body).splitlines(True), "<body>")
    if body == "(v * 2)":
        assert function_source(space["h"]).lines[1] == "    return (v * 2)\n"
        return
    with pytest.raises(KernelSourceError, match="<body>:1 is not the text of h"):
        function_source(space["h"])


def test_code_that_a_tool_has_added_to_is_the_same() -> None:
    """pytest rewrites the asserts of this very function, and others wrap what a name is given."""

    def checked(v: int) -> int:
        assert v * 3 > 1, "small"
        return v * 3

    assert function_source(checked).name == "checked"


def test_a_cell_run_again_uses_its_new_body() -> None:
    """As a notebook does: the same names, another file name for each run of a cell."""
    y = np.zeros(1, np.float32)
    for number in (1, 2):
        space = module(
            f"def helper(v):\n    return v * {number}\n@kernel\ndef k(y: Out[f32]):\n    y[0] = helper(3.0)\n"
        )
        space["k"](y, threads=1, device="interpret")
        assert y[0] == 3 * number


def test_columns_count_characters() -> None:
    with pytest.raises(KernelError) as caught:
        module("@kernel\ndef k(y: Out[f32]):\n    é = 1; y[0] = qq\nk.ir\n")
    lines = str(caught.value).split("\n")
    assert lines[2] == "    é = 1; y[0] = qq"
    assert lines[3] == "                  ^^"


# --- meaning --------------------------------------------------------------------------------------------------------


@kernel
def uses(x: In[f32], y: Out[f32]):
    i = thread_index()
    y[i] = kernel_helpers.relu(x[i]) * FACTOR + CONFIG.shift + TILE[1]


def launched(made: Kernel) -> float:
    y = np.zeros(1, np.float32)
    made(np.array([3], np.float32), y, threads=1, device="interpret")
    return float(y[0])


def test_changed_globals_helpers_and_attributes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched(uses) == 3 * 2 + 1 + 8
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert launched(uses) == 3 * 5 + 1 + 8
    monkeypatch.setattr(CONFIG, "shift", -1.0)
    assert launched(uses) == 3 * 5 - 1 + 8
    monkeypatch.setattr(kernel_helpers, "relu", kernel_helpers.steps)
    assert launched(uses) == 3 * 5 - 1 + 8
    monkeypatch.setattr(kernel_helpers, "HALF", 2.0)
    assert launched(uses) == 4 * 5 - 1 + 8
    monkeypatch.setitem(globals(), "TILE", (4, 9))
    assert launched(uses) == 4 * 5 - 1 + 9


def test_equal_constants_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uses.specialise()
    monkeypatch.setitem(globals(), "FACTOR", float("2.0"))
    monkeypatch.setitem(globals(), "TILE", tuple(size for size in (4, 8)))
    assert uses.specialise() is before
    monkeypatch.setitem(globals(), "FACTOR", 2)
    assert uses.specialise() is not before


def test_a_helper_defined_again_compiles_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(uses)
    relu = kernel_helpers.relu
    again = FunctionType(relu.__code__, relu.__globals__, relu.__name__)
    monkeypatch.setattr(kernel_helpers, "relu", again)
    count, before = compile_count(), uses.specialise()
    launched(uses)
    assert uses.specialise() is before
    assert compile_count() == count


def test_a_body_exchanged_in_place_is_parsed_anew() -> None:
    space = module("@kernel\ndef k(y: Out[f32]):\n    y[0] = 1\ndef other(y: Out[f32]):\n    y[0] = 2\n")
    made, y = space["k"], np.zeros(1, np.float32)
    made(y, threads=1, device="interpret")
    made.definition.function.__code__ = space["other"].__code__.replace(co_name="k")
    with pytest.raises(KernelError):
        made(y, threads=1, device="interpret")  # the text there is of a function of another name
    made.definition.function.__code__ = module("def k(y: Out[f32]):\n    y[0] = 7\n")["k"].__code__
    made(y, threads=1, device="interpret")
    assert y[0] == 7


def test_closures_are_seen() -> None:
    factor = 2.0

    @kernel
    def k(y: Out[f32]):
        y[0] = factor

    def run() -> float:
        y = np.zeros(1, np.float32)
        k(y, threads=1, device="interpret")
        return float(y[0])

    assert run() == 2
    factor = 3.0
    assert run() == 3


def test_the_text_of_a_kernel_is_its_meaning() -> None:
    @define
    def one(y: Out[f32], n: Const[float]):
        y[0] = n

    def text(value: float) -> str:
        return dump(specialise(one, Request({}, {"n": value}, [Layout()], (64, 1, 1), False)).kernel)

    assert text(0.5) == text(0.5)
    assert text(0.0) != text(-0.0)
    assert "align=16" in dump(specialise(one, Request({}, {"n": 1.0}, [Layout(True, 16)], (64, 1, 1), False)).kernel)
    assert "strides=(?)" in dump(specialise(one, Request({}, {"n": 1.0}, [Layout(False)], (64, 1, 1), False)).kernel)


# --- looking inside -------------------------------------------------------------------------------------------------


@kernel(workgroup=(32, 4))
def generic(x: In2[T], y: Out[T], n: Const[int] = 2):
    y[local_index("y")] = x[0, 0] + T(n)


def test_specialise_takes_type_variables_and_constants() -> None:
    found = generic.specialise(T=f64, n=5).kernel
    assert (
        str(found)
        == dump(found)
        == (
            "@kernel(workgroup=(32, 4, 1), threads=(?, ?, ?), index=i32)\n"
            "def generic(x: In[f64, (?, ?), strides=(?, 1), align=16], y: Out[f64, (?), strides=(1), align=16]):\n"
            '    checked(y)[local_index("y")] = checked(x)[0, 0] + f64(5.0)\n'
        )
    )
    assert "f32(2.0)" in generic.source("interpret", T=f32)
    assert "define" in generic.source("native", T="f32")
    with pytest.raises(ArgumentTypeError, match="option T= of kernel generic: nothing given"):
        _ = generic.ir
    with pytest.raises(ArgumentError, match="option of kernel generic: 'm' is not valid, expected T or n"):
        generic.specialise(T=f32, m=3)
    with pytest.raises(ArgumentError, match="language: 'cobol' is not valid"):
        generic.source("cobol", T=f32)  # type: ignore[arg-type]


def test_compile_and_resources() -> None:
    compiled = generic.compile("cpu", T=f32)
    assert compiled.kernel.name == "generic" and compiled.language == "native"
    assert generic.resources("cpu", T=f32)["shared_bytes"] == 0
    assert repr(generic) == "<poot.kernel generic>"
    assert generic.__name__ == "generic"
