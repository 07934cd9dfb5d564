"""What is fenced in WGSL, where a compiler may take sums for associative, NaN for absent and zeros for unsigned.

The texts are looked at, since few drivers go as far; every form stands for f32 and f64 alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from poot.dtypes import ALL, DType, bool_, f32, f64, i32, i64, u32, u64
from poot.errors import Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.kernel.pipeline import prepare
from poot.kernel.render.wgsl import render
from poot.target import Target

DIVIDES = replace(
    Target.parse("wgpu"), dtypes=frozenset(ALL), features=frozenset({"f64", "i64", "int64_atomics", "correct_division"})
)
OFF = replace(DIVIDES, features=DIVIDES.features - {"correct_division"})
Form = Callable[[KernelBuilder, Expr, Expr], Expr]


def rendered(form: Form, dtype: DType, target: Target = DIVIDES, *, contract: bool = False) -> str:
    """The shader that stores what `form` makes of two elements, called x and y."""
    k = KernelBuilder("f", workgroup=(1, 1, 1))
    x, y = (
        k.let(k.load(k.buffer(name, dtype, "read", (1,)), (k.i(0),)), hint) for name, hint in (("a", "x"), ("b", "y"))
    )
    value = form(k, x, y)
    k.store(k.buffer("out", value.dtype, "write", (1,)), (k.i(0),), value)
    return render(prepare(k.finish(), target), target, contract=contract).text


def stored(form: Form, dtype: DType, *, contract: bool = False) -> str:
    """The text of the value, with the dtype left out of the names of functions."""
    text = rendered(form, dtype, contract=contract)
    (found,) = re.findall(r"^    (?:out\[[^]]*\] = (.*)|store_out\(0, (.*)\));$", text, re.MULTILINE)
    return "".join(found).replace(f"_{dtype.name}", "")


def difference(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    return k.op("sub", x, y)


def chosen(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    """A difference that a selection may give."""
    return k.op("select", k.op("eq", x, y), x, difference(k, x, y))


def held(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    """A difference that a local may hold."""
    local = k.let(x, "local")
    with k.if_(k.op("lt", x, y)):
        k.assign(local, difference(k, x, y))
    return local


def kept(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    """A difference that an array of the kernel may hold."""
    array = k.alloc("tile", x.dtype, (2,), "private")
    k.store(array, (k.i(0),), difference(k, x, y))
    return k.load(array, (k.i(0),))


def product(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    return k.op("mul", x, y)


def negative(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
    return k.op("neg", x)


FORMS: dict[str, tuple[Form, str]] = {
    "the sign of a difference": (lambda k, x, y: k.op("neg", difference(k, x, y)), "-fence(x - y)"),
    "the sign of a product": (lambda k, x, y: k.op("neg", product(k, x, y)), "-fence(x * y)"),
    "the sign of an element": (negative, "-x"),
    "a difference times a negative number": (
        lambda k, x, y: k.op("mul", difference(k, x, y), k.const(-1.0, x.dtype)),
        "fence(x - y) * -1.0",
    ),
    "a difference times a changed sign": (
        lambda k, x, y: k.op("mul", difference(k, x, y), negative(k, x, y)),
        "fence(x - y) * -x",
    ),
    "a changed sign in a sum": (lambda k, x, y: k.op("add", negative(k, x, y), x), "fence(-x) + x"),
    "a difference of a changed sign": (lambda k, x, y: k.op("sub", negative(k, x, y), y), "fence(-x) - y"),
    "roots of one number": (
        lambda k, x, y: product(k, k.op("sqrt", x), k.op("sqrt", x)),
        "fence(sqrt(x)) * fence(sqrt(x))",
    ),
    "the root of a square": (lambda k, x, y: k.op("sqrt", product(k, x, x)), "sqrt(fence(x * x))"),
    "a quotient of a product": (lambda k, x, y: k.op("div", product(k, x, y), y), "fence(x * y) / y"),
    "a changed sign chosen": (
        lambda k, x, y: k.op("select", k.op("lt", x, y), negative(k, x, y), y),
        "select(apart(y), apart(-x), x < y)",
    ),
    "a product that is compared and chosen": (
        lambda k, x, y: k.op("select", k.op("lt", p := product(k, x, y), y), p, y),
        "select(apart(y), apart(x * y), fence(x * y) < y)",
    ),
    "a size that is compared": (
        lambda k, x, y: k.op("gt", k.op("abs", x), k.const(-2.0, x.dtype)),
        "holds(fence(abs(x)) > -2.0)",
    ),
    "whether a difference is 0": (lambda k, x, y: k.cast(difference(k, x, y), bool_), "!(fence(x - y) == 0.0)"),
    "a negative zero": (lambda k, x, y: k.op("sub", k.const(-0.0, x.dtype), x), "bitcast<t>(0x8) - x"),
    "numbers that are there": (lambda k, x, y: k.op("is_finite", x), "(bitcast<u>(x) & 7) < 7"),
    "a sum that may be NaN": (
        lambda k, x, y: k.op("is_finite", k.op("add", x, y)),
        "(bitcast<u>(fence(is_finite_of)) & 7) < 7",
    ),
    "the sign bit of a difference": (
        lambda k, x, y: k.op("copysign", x, difference(k, x, y)),
        "bitcast<t>((bitcast<u>(x) & 7) | (bitcast<u>(fence(copysign_of)) & 8))",
    ),
}


def normal(text: str, dtype: DType) -> str:
    """The text of either width: literals without suffix, masks as their first digit, zeros mixed in left out."""
    text = re.sub(r" \^ (params\.zero|\(u64\(params\.zero\) \* 0x100000001lu\))", "", text)
    text = re.sub(r"(\d)(lf|lu|f|u)\b", r"\1", text)
    sign, infinity = 1 << (dtype.bits - 1), 0x7F800000 if dtype is f32 else 0x7FF0 << 48
    for number, digit in ((f"0x{sign:x}", "0x8"), (sign, "8"), (sign - 1, "7"), (infinity, "7")):
        text = text.replace(str(number), digit)
    return text.replace(f"bitcast<u{dtype.bits}>", "bitcast<u>").replace(f"bitcast<f{dtype.bits}>", "bitcast<t>")


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, dtype: DType) -> None:
    form, expected = FORMS[name]
    assert normal(stored(form, dtype), dtype) == expected


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("form", [chosen, held, kept])
def test_signs_of_what_may_be_a_difference(form: Form, dtype: DType) -> None:
    assert stored(lambda k, x, y: k.op("neg", form(k, x, y)), dtype).startswith("-fence(")


def test_selections_among_selections_are_looked_through_once() -> None:
    def form(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
        for _ in range(60):
            x = k.let(k.op("select", k.op("lt", x, y), k.op("neg", x), x), "x")
        return k.op("neg", x)

    assert stored(form, f32).startswith("-x_")


def test_the_sign_of_a_difference_in_the_other_width() -> None:
    assert stored(lambda k, x, y: k.op("neg", k.cast(difference(k, x, y), f64)), f32) == "-fence_f64(f64(x - y))"


def test_signs_in_contracted_sums() -> None:
    """-(a - b) * c is not (b - a) * c, and -a * b - c not -(a * b + c)."""
    moved = stored(lambda k, x, y: k.op("sub", y, product(k, difference(k, x, y), x)), f32, contract=True)
    assert moved == "fma(-fence(x - y), x, y)"
    outer = stored(lambda k, x, y: k.op("sub", product(k, negative(k, x, y), x), y), f32, contract=True)
    assert outer == "fma(fence(-x), x, -y)"


@pytest.mark.parametrize("to", [i32, u32, i64, u64], ids=str)
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_differences_that_become_integers(dtype: DType, to: DType) -> None:
    assert stored(lambda k, x, y: k.cast(difference(k, x, y), to), dtype).endswith(f"_to_{to.name}(fence(x - y))")


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_a_product_that_is_added_atomically(dtype: DType) -> None:
    """The sum stands in a function, which a compiler writes out where it is called, and may contract."""

    def form(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
        k.atomic("add", k.buffer("total", dtype, "readwrite", (1,)), (k.i(0),), product(k, x, y))
        return x

    assert f"atomic_add_total(0, fence_{dtype.name}(x * y));" in rendered(form, dtype)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -0.0])
def test_both_words_of_f64_are_unknown(value: float) -> None:
    """The upper one holds sign and exponent: a zero that fills the lower one alone would hide neither."""
    text = rendered(lambda k, x, y: k.op("neg", k.op("max", difference(k, x, y), k.const(value, f64))), f64)
    assert "u64(params.zero) * 0x100000001lu" in text
    assert not re.findall(r"u64\(params\.zero\)(?! \* 0x100000001lu)", text)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", ["div", "sqrt"])
def test_quotients_and_roots_are_worked_out_where_a_device_is_off(name: str, dtype: DType) -> None:
    def form(k: KernelBuilder, x: Expr, y: Expr) -> Expr:
        return k.op("div", x, k.const(3.0, x.dtype)) if name == "div" else k.op("sqrt", x)

    function = f"{'divide' if name == 'div' else 'root'}_{dtype.name}("
    assert function in rendered(form, dtype, OFF)
    assert function not in rendered(form, dtype)


def test_quotients_of_f64_need_64_bit_integers() -> None:
    narrow = replace(OFF, dtypes=OFF.dtypes - {i64, u64})
    with pytest.raises(Unsupported, match="it needs 64-bit integers, which the adapter lacks"):
        rendered(lambda k, x, y: k.op("div", x, y), f64, narrow)
