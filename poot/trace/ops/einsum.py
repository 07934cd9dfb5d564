"""einsum: Einstein's summation convention over `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence

from poot.errors import ArgumentError, ArgumentTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, linalg, manipulation, reductions
from poot.trace.ops.axes import shown
from poot.trace.ops.promotion import cast, common_dtype, shape_of
from poot.trace.source import user_location

#: Stand-ins for the axes of an ellipsis, counted from the right.
_DOTS = "0123456789"


def einsum(subscripts: str, /, *operands: ArrayLike) -> Array:
    """Sums of products, axes named by letters: "ij,jk->ik" is the matrix product.

    A letter that is missing after `->` is summed over; without `->` the letters that occur once remain, in alphabetical
    order.  A letter twice in one operand takes the diagonal, and `...` stands for axes that broadcast.  Operands are
    taken from left to right, each pair as one product.
    """
    inputs, output = _parse(subscripts, [shape_of(x) for x in operands])
    dtype = common_dtype(*operands, what="einsum")
    with joined(*operands):
        terms = [(letters, lift(cast(x, dtype))) for letters, x in zip(inputs, operands, strict=True)]
    _check_extents(subscripts, terms)
    left, result = _diagonals(*terms[0])
    for place, term in enumerate(terms[1:], 1):
        later = set(output).union(*(letters for letters, _ in terms[place + 1 :]))
        left, result = _product((left, result), _diagonals(*term), later)
    left, result = _summed(left, result, set(output))
    result = manipulation.permute_dims(result, [left.index(letter) for letter in output if letter in left])
    return result


def _parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    if not isinstance(subscripts, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(
            what="einsum: subscripts", actual=shown(subscripts), expected='text such as "ij,jk->ik", first',
            where=user_location(),
        )  # fmt: skip
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise _invalid(
            subscripts,
            f"subscripts of each operand, of which there {'is 1' if len(shapes) == 1 else f'are {len(shapes)}'}",
        )
    dots = ""
    for place, (letters, shape) in enumerate(zip(inputs, shapes, strict=True)):
        extra = len(shape) - len(letters.replace("...", ""))
        if letters.count("...") > 1 or extra < 0 or (extra and "..." not in letters) or extra > len(_DOTS):
            raise _invalid(subscripts, f"as many letters as axes of operand {place + 1}, {shape}")
        own = _DOTS[:extra][::-1]
        inputs[place] = letters.replace("...", own)
        dots = max(dots, own, key=len)
    joined = "".join(inputs)
    if not arrow:
        output = dots + "".join(sorted(letter for letter in set(joined) - set(dots) if joined.count(letter) == 1))
    output = output.replace("...", dots)
    if any(not (letter.isalpha() or letter in dots) for letter in joined) or len(set(output)) != len(output):
        raise _invalid(subscripts, "letters, commas, `...` and `->`, each letter at most once in the result")
    if not set(output) <= set(joined):
        raise _invalid(subscripts, "letters of the operands alone in the result")
    return inputs, output


def _invalid(subscripts: str, expected: str) -> ArgumentError:
    return ArgumentError(what="einsum", actual=subscripts, expected=expected, where=user_location())


def _check_extents(subscripts: str, terms: Sequence[tuple[str, Array]]) -> None:
    """ShapeError where a letter has two extents; those of `...` may be 1."""
    extents: dict[str, int] = {}
    for letters, array in terms:
        for letter, extent in zip(letters, array.shape, strict=True):
            known = extents.setdefault(letter, extent)
            if letter in _DOTS and 1 in (known, extent):
                extents[letter] = max(known, extent) if 0 not in (known, extent) else 0
            elif known != extent:
                raise ShapeError(
                    what=f"einsum {subscripts!r}",
                    actual=array.shape,
                    expected=f"extent {known} for {letter!r}",
                    where=user_location(),
                )


def _diagonals(letters: str, x: Array) -> tuple[str, Array]:
    """An operand with each of its letters once."""
    for letter in letters:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = linalg.diagonal(manipulation.moveaxis(x, (first, second), (-2, -1)))
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return letters, x


def _summed(letters: str, x: Array, kept: set[str]) -> tuple[str, Array]:
    """An operand summed over the letters that nothing else needs."""
    gone = [axis for axis, letter in enumerate(letters) if letter not in kept]
    if not gone:
        return letters, x
    return "".join(letter for letter in letters if letter in kept), reductions.sum(x, gone, dtype=x.dtype)


def _product(a: tuple[str, Array], b: tuple[str, Array], later: set[str]) -> tuple[str, Array]:
    left, x = _summed(*a, later | set(b[0]))
    right, y = _summed(*b, later | set(left))
    shared = [letter for letter in left if letter in right]
    if any(x.shape[left.index(letter)] != y.shape[right.index(letter)] for letter in shared):
        return _broadcast_product(left, x, right, y, later)
    summed = [letter for letter in shared if letter not in later]
    batch = [letter for letter in shared if letter in later]
    result = linalg.products(x, y, _axes(left, right, summed), _axes(left, right, batch), "einsum")
    free = [letter for letter in left + right if letter not in shared]
    return "".join(batch + free), result


def _axes(left: str, right: str, letters: Sequence[str]) -> tuple[list[int], list[int]]:
    return [left.index(letter) for letter in letters], [right.index(letter) for letter in letters]


def _broadcast_product(left: str, x: Array, right: str, y: Array, later: set[str]) -> tuple[str, Array]:
    """A product in which an axis of an ellipsis has extent 1 on one side: element by element, then summed."""
    letters = left + "".join(letter for letter in right if letter not in left)
    spread = [_aligned(own, array, letters) for own, array in ((left, x), (right, y))]
    return _summed(letters, elementwise.multiply(*spread), later)


def _aligned(own: str, x: Array, letters: str) -> Array:
    ordered = manipulation.permute_dims(x, [own.index(letter) for letter in letters if letter in own])
    extents = iter(ordered.shape)
    return manipulation.reshape(ordered, [next(extents) if letter in own else 1 for letter in letters])
