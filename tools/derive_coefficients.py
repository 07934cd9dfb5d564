"""Derives the constants of the scalar expansions, poot/kernel/expand/coefficients.py.

    python tools/derive_coefficients.py            writes the file
    python tools/derive_coefficients.py --check    exits 1 where the committed file is not what this script derives

Every polynomial is a weighted minimax fit by the Remez exchange (E. Ya. Remez, 1934; the exchange on a grid as in
W. Fraser, "A Survey of Methods of Computing Minimax and Near-Minimax Polynomial Approximations", 1965).  Roundings are
considered one coefficient at a time: the lowest is rounded to the format, the others are fitted anew around it, and so
on, so that each later coefficient makes up for the roundings before it.  Everything is computed in mpmath with 60
digits and no randomness: the file comes out the same on every machine.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath

mp: Any = mpmath.mp
mpf: Any = mpmath.mpf
mp.dps = 60

TARGET = Path(__file__).resolve().parent.parent / "poot" / "kernel" / "expand" / "coefficients.py"
GRID = 24  # grid points for each coefficient of a fit
REFITTED = 6  # coefficients that are rounded one at a time; the roundings of later ones do not matter

Number = Any  # an mpmath mpf
Function = Callable[[Number], Number]


@dataclass(frozen=True)
class Fit:
    """A polynomial p of `terms` coefficients that makes |weight(x) (p(x) - target(x))| least on [low, high]."""

    name: str
    doc: str
    bits: int
    target: Function
    weight: Function
    low: Number
    high: Number
    terms: int


# --- rounding -------------------------------------------------------------------------------------------------------


def rounded(value: Number, bits: int) -> Number:
    """The nearest float of 32 or 64 bits."""
    if bits == 64:
        return mpf(float(value))
    return mpf(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def short(value: Number, ulp: int) -> Number:
    """The nearest multiple of 2**ulp: a constant of few bits, whose products with small integers are exact."""
    return mp.ldexp(mp.nint(mp.ldexp(value, -ulp)), ulp)


# --- minimax fits ---------------------------------------------------------------------------------------------------


class Grid:
    """A fit's functions on Chebyshev points, dense enough that the greatest error is seen to a percent."""

    def __init__(self, fit: Fit) -> None:
        count = GRID * fit.terms
        middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
        self.points = [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        self.weights = [abs(fit.weight(x)) for x in self.points]
        self.targets = [fit.target(x) for x in self.points]

    def errors(self, coefficients: Sequence[Number]) -> list[Number]:
        return [
            weight * (mp.polyval(list(reversed(coefficients)), x) - target)
            for x, weight, target in zip(self.points, self.weights, self.targets, strict=True)
        ]


def extrema(errors: Sequence[Number], count: int) -> list[int]:
    """Places of `count` alternating extrema of the error, the greatest of each run of one sign."""
    runs: list[int] = []
    for place, error in enumerate(errors):
        if runs and (error >= 0) == (errors[runs[-1]] >= 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = place
        else:
            runs.append(place)
    while len(runs) > count:
        if len(runs) == count + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
            continue
        least = min(range(len(runs) - 1), key=lambda i: max(abs(errors[runs[i]]), abs(errors[runs[i + 1]])))
        del runs[least : least + 2]
    return runs


def levelled(grid: Grid, fixed: Sequence[Number], places: Sequence[int], signs: Sequence[int]) -> list[Number]:
    """The coefficients whose weighted errors at `places` are equal, and alternate in sign beyond `signs`."""
    free = len(places) - 1
    matrix, right = mp.matrix(free + 1, free + 1), mp.matrix(free + 1, 1)
    for row, place in enumerate(places):
        x = grid.points[place]
        for column in range(free):
            matrix[row, column] = x ** (len(fixed) + column)
        matrix[row, free] = (-1) ** row * signs[place] / grid.weights[place]
        right[row] = grid.targets[place] - sum(c * x**power for power, c in enumerate(fixed))
    solution = mp.lu_solve(matrix, right)
    return [*fixed, *(solution[i] for i in range(free))]


def exchanged(places: Sequence[int], errors: Sequence[Number], worst: int) -> list[int]:
    """The places with the worst one taken in for a neighbour, so that the signs still alternate."""
    alike = [abs(i - worst) if (errors[i] >= 0) == (errors[worst] >= 0) else len(errors) for i in places]
    between = [i for i in range(len(places) - 1) if places[i] < worst < places[i + 1]]
    if not between and worst < places[0] and alike[0] == len(errors):
        return [worst, *places[:-1]]
    if not between and worst > places[-1] and alike[-1] == len(errors):
        return [*places[1:], worst]
    near = [between[0], between[0] + 1] if between else [0 if worst < places[0] else len(places) - 1]
    chosen = min(near, key=lambda i: alike[i])
    return [worst if i == chosen else place for i, place in enumerate(places)]


def exchange(grid: Grid, fixed: Sequence[Number], free: int) -> list[Number]:
    """The coefficients of the best fit whose lowest ones are `fixed`, with `free` more to choose.

    A few exchanges of all extrema come near; exchanges of the worst one alone then always converge.  What is free is
    x^k times a polynomial, for k fixed coefficients: where x^k is negative, so are the signs of errors that alternate.
    """
    signs = [-1 if x < 0 and len(fixed) % 2 else 1 for x in grid.points]
    last = len(grid.points) - 1
    places = [round(last * (1 - mp.cos(mp.pi * i / free)) / 2) for i in range(free + 1)]
    best, least = list(fixed), mp.inf
    for turn in range(20 * free):
        coefficients = levelled(grid, fixed, places, signs)
        errors = [sign * error for sign, error in zip(signs, grid.errors(coefficients), strict=True)]
        worst = max(range(len(errors)), key=lambda i: abs(errors[i]))
        if abs(errors[worst]) < least:
            best, least = coefficients, abs(errors[worst])
        if abs(errors[worst]) <= abs(errors[places[0]]) * (1 + mpf(2) ** -10):
            break
        found = extrema(errors, free + 1)
        places = found if turn < 5 and len(found) == free + 1 else exchanged(places, errors, worst)
    return best


def solve(fit: Fit) -> tuple[list[Number], Number]:
    """The rounded coefficients and the greatest weighted error that is left."""
    grid = Grid(fit)
    fixed: list[Number] = []
    while len(fixed) < fit.terms:
        best = exchange(grid, fixed, fit.terms - len(fixed))
        upto = len(fixed) + 1 if len(fixed) < REFITTED else fit.terms
        fixed += [rounded(c, fit.bits) for c in best[len(fixed) : upto]]
    return fixed, max(abs(error) for error in grid.errors(fixed))


# --- what is fitted -------------------------------------------------------------------------------------------------

LN2 = mp.log(2)
ROOT_HALF = mp.sqrt(mpf(1) / 2)
WIDER = 1 + mpf(2) ** -10  # intervals are a little wider than reduction makes them
TANH_SMALL = mpf(5) / 8
ERF_SMALL = mpf(7) / 8
ERF_ONE = {32: mpf(63) / 16, 64: mpf(6)}
root = mp.sqrt


def exponential_fits(bits: int, terms: tuple[int, int, int, int]) -> list[Fit]:
    """For exp, expm1 and exp2, after reduction by powers of two, and for the second half of pow."""
    half = LN2 / 2 * WIDER
    return [
        Fit("EXP", "(exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, relative to exp(r)", bits,
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.exp(r), -half, half, terms[0]),
        Fit("EXPM1", "(expm1(r) - r) / r^2 on |r| <= ln(2)/2, relative to expm1(r)", bits,
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -half, half, terms[1]),
        Fit("EXP2", "(2^r - 1) / r on |r| <= 1/2, relative to 2^r", bits,
            lambda r: mp.expm1(r * LN2) / r, lambda r: r / mp.exp(r * LN2), -mpf(1) / 2, mpf(1) / 2, terms[2]),
        Fit("POW_EXP2", "(2^r - 1 - r ln(2)) / r^2 on |r| <= 1/2, relative to 2^r", bits,
            lambda r: (mp.expm1(r * LN2) - r * LN2) / r**2, lambda r: r**2 / mp.exp(r * LN2),
            -mpf(1) / 2, mpf(1) / 2, terms[3]),
    ]  # fmt: skip


def logarithm_fits(bits: int, terms: tuple[int, int, int]) -> list[Fit]:
    """For the logarithms, within sqrt(2) of 1, and for the logarithm of two words in pow."""
    low, high = (ROOT_HALF - 1) * WIDER, (2 * ROOT_HALF - 1) * WIDER
    top = ((2 * ROOT_HALF - 1) / (2 * ROOT_HALF + 1) * WIDER) ** 2
    return [
        Fit("LOG", "(log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2), relative to log(1 + f)", bits,
            lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / mp.log1p(f), low, high, terms[0]),
        Fit("LOG2", "(log2(1 + f) - f) / f on sqrt(1/2) <= 1 + f <= sqrt(2), relative to log2(1 + f)", bits,
            lambda f: (mp.log1p(f) / LN2 - f) / f, lambda f: f / mp.log1p(f), low, high, terms[1]),
        Fit("POW_LOG2", "(log2((1 + s) / (1 - s)) / s - 2/ln(2) (1 + z/3)) / z^2 in z = s^2, s <= tanh(ln(2)/4)", bits,
            lambda z: (2 * mp.atanh(root(z)) / root(z) - 2 * (1 + z / 3)) / LN2 / z**2, lambda z: z**2,
            mpf(0), top, terms[2]),
    ]  # fmt: skip


def odd(name: str, function: Function, high: Number, bits: int, terms: int) -> Fit:
    """For an odd function f with f'(0) = 1."""
    doc = f"({name}(x) - x) / x^3 in z = x^2 on |x| <= {mp.nstr(high, 6)}, relative to {name}(x)"
    return Fit(
        name.upper(), doc, bits,
        lambda z: (function(root(z)) - root(z)) / root(z) ** 3, lambda z: root(z) ** 3 / function(root(z)),
        mpf(0), (high * WIDER) ** 2, terms,
    )  # fmt: skip


def odd_fits(bits: int, terms: tuple[int, ...]) -> list[Fit]:
    """For sin and tan after reduction by quarter turns, and the hyperbolic and inverse functions near 0."""
    quarter = mp.pi / 4
    return [
        odd("sin", mp.sin, quarter, bits, terms[0]),
        odd("tan", mp.tan, quarter, bits, terms[1]),
        odd("tanh", mp.tanh, TANH_SMALL, bits, terms[2]),
        odd("sinh", mp.sinh, mpf(1), bits, terms[3]),
        odd("asin", mp.asin, mpf(1) / 2, bits, terms[4]),
        odd("atan", mp.atan, mpf(1), bits, terms[5]),
    ]


def cosine_fit(bits: int, terms: int) -> Fit:
    """For cos, after reduction by quarter turns."""
    return Fit(
        "COS", "(cos(r) - 1 + r^2/2) / r^4 in z = r^2 on |r| <= pi/4, relative to cos(r)", bits,
        lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(root(z)),
        mpf(0), (mp.pi / 4 * WIDER) ** 2, terms,
    )  # fmt: skip


def error_function_fits(bits: int, terms: tuple[int, int]) -> list[Fit]:
    """For erf near 0 and beyond."""
    beyond = f"{float(ERF_SMALL)} <= x <= {float(ERF_ONE[bits])}"
    return [
        Fit("ERF_SMALL", f"erf(x) / x - 1 in z = x^2 on |x| <= {float(ERF_SMALL)}, relative to erf(x)", bits,
            lambda z: mp.erf(root(z)) / root(z) - 1, lambda z: root(z) / mp.erf(root(z)),
            mpf(0), (ERF_SMALL * WIDER) ** 2, terms[0]),
        Fit("ERF_LARGE", f"log(erfc(x)) / x on {beyond}, for the error of erf", bits,
            lambda x: mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x) / mp.erf(x),
            ERF_SMALL / WIDER, ERF_ONE[bits] * WIDER, terms[1]),
    ]  # fmt: skip


def fits() -> list[tuple[str, Fit]]:
    """Every fit, with the name that it gets in the file."""
    every = [
        *exponential_fits(32, (5, 5, 6, 5)),
        *logarithm_fits(32, (8, 10, 3)),
        *odd_fits(32, (3, 6, 5, 4, 5, 9)),
        cosine_fit(32, 3),
        *error_function_fits(32, (6, 6)),
        *exponential_fits(64, (10, 10, 12, 11)),
        *logarithm_fits(64, (19, 21, 7)),
        *odd_fits(64, (6, 14, 11, 8, 12, 21)),
        cosine_fit(64, 6),
        *error_function_fits(64, (12, 18)),
    ]
    return [(f"{fit.name}_F{fit.bits}", fit) for fit in every]


# --- other constants ------------------------------------------------------------------------------------------------


def split(value: Number, ulps: Sequence[int], bits: int) -> list[Number]:
    """The value as a sum: parts that are multiples of 2**ulp for each ulp, then the rest as a float."""
    parts: list[Number] = []
    for ulp in ulps:
        parts.append(short(value, ulp))
        value -= parts[-1]
    return [*parts, rounded(value, bits)]


def splits() -> list[tuple[str, str, list[Number]]]:
    """Constants in parts, with names and descriptions."""
    turn = mp.pi / 2
    k = 2 / LN2
    return [
        ("LN2_F32", "ln(2): the first part times |n| < 2^9 is exact", split(LN2, (-15,), 32)),
        ("LN2_F64", "ln(2): the first part times |n| < 2^12 is exact", split(LN2, (-41,), 64)),
        ("PI_2_F32", "pi/2: the first three parts times n <= 2^11 are exact", split(turn, (-12, -24, -37), 32)),
        ("PI_2_F64", "pi/2: the first three parts times n <= 2^20 are exact", split(turn, (-32, -53, -85), 64)),
        ("POW_K_F32", "2/ln(2): the first part has half the format's bits", split(k, (-10,), 32)),
        ("POW_K_F64", "2/ln(2): the first part has half the format's bits", split(k, (-24,), 64)),
        ("POW_K3_F32", "2/(3 ln(2)): the first part has half the format's bits", split(k / 3, (-12,), 32)),
        ("POW_K3_F64", "2/(3 ln(2)): the first part has half the format's bits", split(k / 3, (-26,), 64)),
        ("POW_LN2_F32", "ln(2): the first part has half the format's bits", split(LN2, (-12,), 32)),
        ("POW_LN2_F64", "ln(2): the first part has half the format's bits", split(LN2, (-26,), 64)),
        ("PI_PARTS_F32", "pi, and what its rounding to the format leaves", split(mp.pi, (-22,), 32)),
        ("PI_PARTS_F64", "pi, and what its rounding to the format leaves", split(mp.pi, (-51,), 64)),
    ]


def two_over_pi(words: int, width: int) -> list[int]:
    """2/pi as a binary fraction, in words of `width` bits, most significant first."""
    scaled = int(mp.floor(mp.ldexp(2 / mp.pi, words * width)))
    return [(scaled >> (width * (words - 1 - i))) & ((1 << width) - 1) for i in range(words)]


# --- the file -------------------------------------------------------------------------------------------------------

HEADER = '''"""Constants of the scalar expansions: minimax coefficients, lowest power first, and split constants.

Generated by `python tools/derive_coefficients.py`; do not edit.  Errors are the greatest weighted errors of the
polynomials themselves, in units of the format's rounding unit (2^-24 for f32, 2^-53 for f64).
"""
# size: generated constants, one a line

'''


def tuple_text(values: Sequence[str]) -> str:
    """A tuple, one value a line."""
    return "(\n" + "".join(f"    {value},\n" for value in values) + ")\n"


def generate() -> str:
    """The whole file."""
    parts = [HEADER]
    for name, fit in fits():
        coefficients, error = solve(fit)
        units = mp.nstr(mp.ldexp(error, 24 if fit.bits == 32 else 53), 2)
        parts.append(f"#: {fit.doc}; error {units}.\n{name} = {tuple_text([repr(float(c)) for c in coefficients])}\n")
    for name, doc, values in splits():
        parts.append(f"#: {doc}.\n{name} = {tuple_text([repr(float(v)) for v in values])}\n")
    for name, doc, value in (
        ("TANH_SMALL", "below this tanh is a polynomial", TANH_SMALL),
        ("ERF_SMALL", "below this erf is a polynomial", ERF_SMALL),
        ("ERF_ONE_F32", "from here on erf rounds to 1", ERF_ONE[32]),
        ("ERF_ONE_F64", "from here on erf rounds to 1", ERF_ONE[64]),
    ):
        parts.append(f"#: {doc}.\n{name} = {float(value)!r}\n\n")
    mp.dps, saved = 400, mp.dps
    for name, words, width in (("TWO_OVER_PI_F32", 7, 32), ("TWO_OVER_PI_F64", 19, 64)):
        texts = [f"0x{word:0{width // 4}X}" for word in two_over_pi(words, width)]
        parts.append(f"#: 2/pi as a binary fraction, {width} bits a word.\n{name} = {tuple_text(texts)}\n")
    mp.dps = saved
    return "".join(parts).rstrip("\n") + "\n"


def main() -> int:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    check = parser.parse_args().check
    text = generate()
    if not check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} is not what tools/derive_coefficients.py derives: run it and commit the file")
    return 1


if __name__ == "__main__":
    sys.exit(main())
