"""How each function of the array API standard is called in the comparison with array-api-strict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def alike(shape: Shape) -> list[Shape]:
    return [shape]


def broadcasting(shape: Shape) -> list[Shape]:
    """Two shapes that broadcast together."""
    return [shape, tuple(1 if axis % 2 else extent for axis, extent in enumerate(shape))]


@dataclass(frozen=True, slots=True)
class Case:
    """A call in a namespace `xp`; elements lie from `low` to `high`, in arrays of the shapes that `operands` gives."""

    call: Callable[..., Any]
    kinds: Sequence[str] = ("int", "uint", "float")
    low: float = -9.0
    high: float = 9.0
    specials: bool = False
    departs: bool = False
    slack: float = 1.0
    shapes: Sequence[Shape] = ()
    operands: Callable[[Shape], list[Shape]] = alike
    prepare: Callable[[np.random.Generator, list[np.ndarray]], list[np.ndarray]] | None = field(default=None)


FLOAT, INTEGER, EVERY = ("float",), ("int", "uint"), ("bool", "int", "uint", "float")
AXES: list[Shape] = [(5,), (2, 3), (3, 1, 4)]
MATRICES: list[Shape] = [(3, 3), (2, 3), (2, 3, 4)]

CASES: dict[str, Case] = {}


def method(name: str) -> Callable[..., Any]:
    """The function of that name, of the operands alone."""
    return lambda xp, *arrays: getattr(xp, name)(*arrays)


def same(names: str, **options: Any) -> None:
    for name in names.split():
        CASES[name] = Case(method(name), **options)


def nonzero(rng: np.random.Generator, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """No divisor is zero."""
    return [arrays[0], np.where(arrays[1] == 0, np.ones_like(arrays[1]), arrays[1])]


# --- element by element -----------------------------------------------------------------------------------------------

same("asinh atan cos exp expm1 sin sinh cosh tanh reciprocal signbit", kinds=FLOAT, specials=True)
same("acos asin", kinds=FLOAT, low=-1, high=1)
same("acosh", kinds=FLOAT, low=1)
same("atanh log1p", kinds=FLOAT, low=-0.9, high=0.9)
same("log log10 log2 sqrt", kinds=FLOAT, low=0.01, specials=True)
same("tan", kinds=FLOAT, low=-1.4, high=1.4)
same("abs negative positive sign square ceil floor trunc round isfinite isinf isnan", specials=True)
same("add subtract multiply maximum minimum", operands=broadcasting, specials=True)
same("less less_equal greater greater_equal", operands=broadcasting, high=3, low=-3, specials=True)
same("equal not_equal", kinds=EVERY, operands=broadcasting, high=3, low=-3, specials=True)
same("divide atan2 copysign hypot logaddexp nextafter", kinds=FLOAT, operands=broadcasting, specials=True)
same("floor_divide remainder", operands=broadcasting, prepare=nonzero)
same("bitwise_and bitwise_or bitwise_xor", kinds=("bool", *INTEGER), operands=broadcasting)
same("bitwise_left_shift bitwise_right_shift", kinds=INTEGER, operands=broadcasting, low=0, high=5)
same("bitwise_invert", kinds=("bool", *INTEGER))
same("logical_and logical_or logical_xor", kinds=("bool",), operands=broadcasting)
same("logical_not", kinds=("bool",))
same("pow", operands=broadcasting, low=0, high=3)
CASES["clip"] = Case(lambda xp, x: [xp.clip(x, 2, 5), xp.clip(x, max=3), xp.clip(x, min=1), xp.clip(x)])
CASES["where"] = Case(lambda xp, x, y: [xp.where(x < y, x, y), xp.where(x == y, x, 3)], operands=broadcasting)
CASES["where:scalars"] = Case(lambda xp, x: [x + 2, 3 - x, x * 1, x >= 2], kinds=(*INTEGER, "float"))

# --- reductions -------------------------------------------------------------------------------------------------------


def reduction(name: str, *options: dict[str, Any]) -> Callable[..., Any]:
    """The reduction of all, of each axis, of two, and with the axes kept."""

    def call(xp: Any, x: Any) -> Any:
        function, axes = getattr(xp, name), [None, *range(-x.ndim, 0)]
        found = [function(x, axis=axis, keepdims=keep) for axis in axes for keep in (False, True)]
        if name not in ("argmax", "argmin"):
            found.append(function(x, axis=tuple(range(x.ndim))))
        return found + [function(x, **option) for option in options]

    return call


for _name in ("sum", "prod"):
    CASES[_name] = Case(reduction(_name), low=0, high=3, departs=True)
for _name in ("all", "any"):
    CASES[_name] = Case(reduction(_name), kinds=EVERY, low=0, high=1)
for _name in ("max", "min"):
    CASES[_name] = Case(reduction(_name), shapes=[(), *AXES], specials=True)
for _name in ("argmax", "argmin"):
    CASES[_name] = Case(reduction(_name), shapes=AXES, departs=True, high=3, low=-3)
CASES["mean"] = Case(reduction("mean"), kinds=FLOAT, shapes=[(), *AXES])
for _name in ("std", "var"):
    CASES[_name] = Case(reduction(_name, {"correction": 0.5}), kinds=FLOAT, shapes=AXES, slack=5)
CASES["count_nonzero"] = Case(reduction("count_nonzero"), kinds=EVERY, departs=True, high=2, low=-2)


def running(name: str) -> Callable[..., Any]:
    def call(xp: Any, x: Any) -> Any:
        function = getattr(xp, name)
        return [function(x, axis=axis, include_initial=first) for axis in range(x.ndim) for first in (False, True)]

    return call


for _name in ("cumulative_sum", "cumulative_prod"):
    CASES[_name] = Case(running(_name), low=0, high=3, departs=True, shapes=AXES)
CASES["diff"] = Case(
    lambda xp, x, y: [xp.diff(x), xp.diff(x, axis=0, n=2), xp.diff(x, axis=-1, prepend=x, append=y)],
    operands=lambda shape: [shape, shape], kinds=("int", "float"), shapes=AXES,
)  # fmt: skip

# --- shapes -----------------------------------------------------------------------------------------------------------

CASES["broadcast_arrays"] = Case(method("broadcast_arrays"), kinds=EVERY, operands=broadcasting)
CASES["broadcast_to"] = Case(lambda xp, x: xp.broadcast_to(x, (2, *x.shape)), kinds=EVERY)
CASES["concat"] = Case(
    lambda xp, x, y: [xp.concat((x, y)), xp.concat((x, x, y), axis=-1), xp.concat([x, y], axis=None)],
    kinds=EVERY, operands=lambda shape: [shape, shape], shapes=AXES,
)  # fmt: skip
CASES["stack"] = Case(
    lambda xp, x, y: [xp.stack((x, y)), xp.stack([x, y], axis=-1)], kinds=EVERY, operands=lambda shape: [shape, shape]
)
CASES["unstack"] = Case(lambda xp, x: [*xp.unstack(x), *xp.unstack(x, axis=-1)], kinds=EVERY, shapes=AXES)
CASES["expand_dims"] = Case(lambda xp, x: [xp.expand_dims(x, axis=0), xp.expand_dims(x, axis=-1)], kinds=EVERY)
CASES["squeeze"] = Case(lambda xp, x: xp.squeeze(x, axis=1), kinds=EVERY, shapes=[(3, 1), (3, 1, 4)])
CASES["flip"] = Case(lambda xp, x: [xp.flip(x), xp.flip(x, axis=0), xp.flip(x, axis=(-1,))], kinds=EVERY, shapes=AXES)
CASES["roll"] = Case(
    lambda xp, x: [xp.roll(x, 2), xp.roll(x, -1, axis=0), xp.roll(x, (1, 4), axis=(0, -1))],
    kinds=EVERY, shapes=[(2, 3), (3, 1, 4)],
)  # fmt: skip
CASES["moveaxis"] = Case(lambda xp, x: [xp.moveaxis(x, 0, -1), xp.moveaxis(x, -1, 0)], kinds=EVERY, shapes=AXES)
CASES["permute_dims"] = Case(lambda xp, x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))), kinds=EVERY)
CASES["matrix_transpose"] = Case(lambda xp, x: [xp.matrix_transpose(x), x.mT], kinds=EVERY, shapes=MATRICES)
CASES["repeat"] = Case(lambda xp, x: [xp.repeat(x, 2), xp.repeat(x, 3, axis=-1)], kinds=EVERY, shapes=AXES)
CASES["tile"] = Case(lambda xp, x: [xp.tile(x, (2,)), xp.tile(x, (2, 1, 3))], kinds=EVERY)
CASES["reshape"] = Case(lambda xp, x: [xp.reshape(x, (-1,)), xp.reshape(x, (1, *x.shape))], kinds=EVERY, shapes=AXES)
CASES["meshgrid"] = Case(
    lambda xp, x, y: [*xp.meshgrid(x, y), *xp.meshgrid(x, y, indexing="ij")],
    operands=lambda shape: [shape, (3,)], shapes=[(4,), (1,)],
)  # fmt: skip
CASES["tril"] = Case(lambda xp, x: [xp.tril(x), xp.tril(x, k=1), xp.tril(x, k=-1)], kinds=EVERY, shapes=MATRICES)
CASES["triu"] = Case(lambda xp, x: [xp.triu(x), xp.triu(x, k=1), xp.triu(x, k=-1)], kinds=EVERY, shapes=MATRICES)

# --- order and indices ------------------------------------------------------------------------------------------------


def distinct(rng: np.random.Generator, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Elements of which no two are equal."""
    return [rng.permutation(x.size).reshape(x.shape).astype(x.dtype) for x in arrays]


CASES["sort"] = Case(lambda xp, x: [xp.sort(x), xp.sort(x, axis=0, descending=True)], shapes=AXES)
CASES["argsort"] = Case(
    lambda xp, x: [xp.argsort(x), xp.argsort(x, axis=0, descending=True)],
    shapes=AXES, departs=True, prepare=distinct,
)  # fmt: skip
CASES["searchsorted"] = Case(
    lambda xp, x, y: [
        xp.searchsorted(xp.sort(x), y),
        xp.searchsorted(xp.sort(x), y, side="right"),
        xp.searchsorted(x, y, sorter=xp.argsort(x)),
    ],
    shapes=[(5,), (8,)], operands=lambda shape: [shape, (2, 3)], departs=True, high=4, low=-4,
)  # fmt: skip


def positions(xp: Any, x: Any) -> Any:
    return xp.asarray(np.arange(x.shape[0])[::-2].copy(), device=x.device) % x.shape[0]


CASES["take"] = Case(lambda xp, x: xp.take(x, positions(xp, x), axis=0), kinds=EVERY, shapes=AXES)
CASES["take_along_axis"] = Case(
    lambda xp, x: [xp.take_along_axis(x, xp.argsort(x)), xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0)],
    shapes=AXES, prepare=distinct,
)  # fmt: skip
CASES["take:index"] = Case(
    lambda xp, x: [x[0, ...], x[-1, ...], x[::2, ...], x[::-1, :1, ...], x[None, 1:, ..., 0], x[1, 0, ...]],
    kinds=EVERY, shapes=[(2, 3), (3, 1, 4)],
)  # fmt: skip

# --- products ---------------------------------------------------------------------------------------------------------


def matrices(shape: Shape) -> list[Shape]:
    return [shape, (*shape[:-2], shape[-1], 2)]


for _space in ("", "linalg."):

    def _spaced(xp: Any, space: str = _space) -> Any:
        return xp.linalg if space else xp

    CASES[f"{_space}matmul"] = Case(
        lambda xp, x, y, spaced=_spaced: spaced(xp).matmul(x, y), low=0, high=4, shapes=MATRICES, operands=matrices
    )
    CASES[f"{_space}vecdot"] = Case(
        lambda xp, x, y, spaced=_spaced: spaced(xp).vecdot(x, y), low=0, high=3, shapes=AXES, operands=lambda s: [s, s]
    )
    CASES[f"{_space}tensordot"] = Case(
        lambda xp, x, y, spaced=_spaced: [spaced(xp).tensordot(x, y, axes=1), spaced(xp).tensordot(x, y, axes=0)],
        low=0, high=3, shapes=[(2, 3)], operands=matrices,
    )  # fmt: skip
CASES["linalg.matrix_transpose"] = Case(lambda xp, x: xp.linalg.matrix_transpose(x), kinds=EVERY, shapes=MATRICES)
CASES["linalg.outer"] = Case(
    lambda xp, x, y: xp.linalg.outer(x, y), shapes=[(4,), (0,)], operands=lambda shape: [shape, (3,)]
)
CASES["linalg.diagonal"] = Case(
    lambda xp, x: [xp.linalg.diagonal(x), xp.linalg.diagonal(x, offset=1), xp.linalg.diagonal(x, offset=-1)],
    kinds=EVERY, shapes=MATRICES,
)  # fmt: skip
CASES["linalg.cross"] = Case(
    lambda xp, x, y: [xp.linalg.cross(x, y), xp.linalg.cross(xp.reshape(x, (3, -1)), xp.reshape(y, (3, -1)), axis=-2)],
    kinds=("int", "float"), shapes=[(3,), (2, 3), (2, 1, 3)], operands=lambda shape: [shape, shape],
)  # fmt: skip
CASES["linalg.matrix_power"] = Case(
    lambda xp, x: [xp.linalg.matrix_power(x, n) for n in range(6)], kinds=FLOAT, shapes=[(3, 3), (2, 2, 2)], slack=50,
    low=-2, high=2,
)  # fmt: skip
CASES["linalg.trace"] = Case(
    lambda xp, x: [xp.linalg.trace(x), xp.linalg.trace(x, offset=1)], shapes=MATRICES, departs=True
)
CASES["linalg.vector_norm"] = Case(
    lambda xp, x: [xp.linalg.vector_norm(x, ord=ord, axis=-1) for ord in (0, 1, 2, 3, np.inf, -np.inf)]
    + [xp.linalg.vector_norm(x), xp.linalg.vector_norm(x, keepdims=True)],
    kinds=FLOAT, shapes=AXES,
)  # fmt: skip
CASES["linalg.matrix_norm"] = Case(
    lambda xp, x: [xp.linalg.matrix_norm(x, ord=ord) for ord in ("fro", 1, -1, np.inf, -np.inf)],
    kinds=FLOAT, shapes=MATRICES,
)  # fmt: skip

# --- new arrays -------------------------------------------------------------------------------------------------------


CASES["zeros"] = Case(lambda xp, x: [xp.zeros(x.shape, dtype=x.dtype), xp.zeros(3)], kinds=EVERY, departs=True)
CASES["ones"] = Case(lambda xp, x: [xp.ones(x.shape, dtype=x.dtype), xp.ones((2, 3))], kinds=EVERY, departs=True)
CASES["zeros_like"] = Case(lambda xp, x: [xp.zeros_like(x), xp.zeros_like(x, dtype=xp.int8)], kinds=EVERY)
CASES["ones_like"] = Case(lambda xp, x: [xp.ones_like(x), xp.ones_like(x, dtype=xp.float32)], kinds=EVERY)
CASES["full"] = Case(
    lambda xp, x: [xp.full(x.shape, 1, dtype=x.dtype), xp.full(2, 7), xp.full((2,), 0.5), xp.full(2, True)],
    departs=True,
)  # fmt: skip
CASES["full_like"] = Case(lambda xp, x: [xp.full_like(x, 3), xp.full_like(x, 1, dtype=xp.uint8)])
CASES["eye"] = Case(
    lambda xp, x: [xp.eye(3), xp.eye(2, 4, k=1, dtype=x.dtype), xp.eye(3, k=-1, dtype=x.dtype)],
    departs=True,
    shapes=[()],
)
CASES["arange"] = Case(
    lambda xp, x: [xp.arange(5), xp.arange(1, 9, 3, dtype=x.dtype), xp.arange(7, 2, -2), xp.arange(0.0, 1.0, 0.25)],
    departs=True, shapes=[()],
)  # fmt: skip
CASES["linspace"] = Case(
    lambda xp, x: [xp.linspace(0, 1, 5), xp.linspace(-1.0, 3.0, 6, endpoint=False, dtype=x.dtype)],
    kinds=FLOAT, departs=True, shapes=[()],
)  # fmt: skip
CASES["asarray"] = Case(
    lambda xp, x: [xp.asarray(x), xp.asarray(x, copy=True), xp.asarray([[1, 2], [3, 4]]), xp.asarray([0.5, 1])],
    kinds=EVERY, departs=True,
)  # fmt: skip
CASES["astype"] = Case(
    lambda xp, x: [xp.astype(x, getattr(xp, name)) for name in ("int16", "float32", "float64", "bool", "uint64")],
    kinds=EVERY, low=0,
)  # fmt: skip

OTHERWISE = {
    "can_cast", "empty", "empty_like", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type",
    "__array_namespace_info__",
}  # fmt: skip
"""Functions whose results are no arrays, or of any value; tests of their own ask them."""

NAMES_2024 = sorted(
    {name for name in CASES if "." not in name and ":" not in name}
    | OTHERWISE
    | {"conj", "imag", "nonzero", "real", "unique_all", "unique_counts", "unique_inverse", "unique_values"}
)
"""The functions of the standard's main namespace, version 2024.12."""

LINALG_2024 = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
"""Those of its extension linalg."""
