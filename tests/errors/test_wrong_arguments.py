"""Public functions with arguments of wrong kinds: only poot's own errors come out, eagerly and while tracing."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.errors import (
    AllocationError,
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    ConcretizationError,
    IndexFault,
    PootError,
    ShapeError,
    Unsupported,
    UnsupportedDTypeError,
)

ROUNDS = 8
MATRIX = np.ones((3, 4), np.float32)
X = poot.asarray(np.arange(4, dtype=np.float32))
GOOD: list[Any] = [
    MATRIX, np.ones(4, np.float32), np.array([0, 1], np.int32), 0, 1, (0, 1), 2.0, "f32", X, np.uint32([0, 1]),
    np.ones((2, 3, 8, 8), np.float32), np.ones((2, 2), np.float32), True, None, [MATRIX, MATRIX],
]  # fmt: skip
WRONG: list[Any] = [
    None, "x", 2**70, -(2**70), 2**40, -1, [], (), float("nan"), float("inf"), MATRIX, object(), {}, [None], "float32",
    1.5, np.array("a"), b"x", (2**70,), True, np.array([1, 0]), X,
]  # fmt: skip
#: Functions of the user's functions, whose errors are the user's.
CALLING = {"cond", "while_loop", "scan", "fori_loop", "switch"}


def functions() -> dict[str, Callable[..., Any]]:
    spaces: list[ModuleType] = [ops, ops.nn, ops.linalg, ops.random]
    found = {f"{space.__name__}.{name}": getattr(space, name) for space in spaces for name in space.__all__}
    return {
        name: value
        for name, value in found.items()
        if inspect.isroutine(value) and name.rpartition(".")[2] not in CALLING
    }


def arguments(function: Callable[..., Any], rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that Python binds, a part of them wrong."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        value = rng.choice(WRONG if rng.random() < 0.3 else GOOD)
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [value] * rng.randint(0, 2)
        elif parameter.default is not parameter.empty and rng.random() < 0.6:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                break
        elif parameter.kind is parameter.POSITIONAL_ONLY or parameter.default is parameter.empty:
            given.append(value)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            named[parameter.name] = value
    return given, named


@pytest.mark.parametrize("name", functions())
@pytest.mark.filterwarnings("ignore")
def test_only_errors_of_poot_come_out(name: str) -> None:
    function, rng = functions()[name], random.Random(name)
    for turn in range(ROUNDS):
        given, named = arguments(function, rng)
        try:
            if turn % 2:
                poot.trace(lambda given=given, named=named: function(*given, **named)).graph()
            else:
                function(*given, **named)
        except PootError:
            pass
        except BufferError:  # as the standard has it
            assert name.endswith("from_dlpack")


MISTAKES: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (ArgumentTypeError, "einsum: subscripts: an array", lambda: ops.einsum(X, X)),
    (ArgumentTypeError, "dynamic_slice: starts: 1 given", lambda: ops.dynamic_slice(X, 1, 2)),
    (ArgumentError, "transpose: axes|permute_dims: axes", lambda: ops.transpose(MATRIX, 0)),
    (ArgumentTypeError, "stack: 2 given, expected a list or tuple", lambda: ops.stack(2)),
    (ArgumentTypeError, "concat: an array f32", lambda: ops.concat(poot.asarray(1.0))),
    (ArgumentError, "tensordot: axes", lambda: ops.tensordot(MATRIX, MATRIX, axes=(1,))),
    (ArgumentError, "arange: .*inf.*expected finite numbers", lambda: ops.arange(0, float("inf"))),
    (ArgumentError, "arange: .*nan.*expected finite numbers", lambda: ops.arange(0, float("nan"))),
    (ArgumentError, "round: decimals: 400", lambda: ops.round(X, 400)),
    (ArgumentTypeError, "repeat: repeats: list given", lambda: ops.repeat(X, [])),
    (ArgumentTypeError, "linspace: num: tuple given", lambda: ops.linspace(0, 1, ())),
    (ArgumentError, "shape: .* expected fewer elements", lambda: ops.random.normal(ops.random.key(0), 2**70)),
    (ArgumentError, "shape: .* expected fewer elements", lambda: ops.zeros((2**40, 0, 2**40))),
    (ArgumentTypeError, "elu: alpha: 'x' given", lambda: ops.nn.elu(X, "x")),
    (ArgumentTypeError, "eps: 'x' given", lambda: ops.nn.layernorm(X, eps="x")),
    (ArgumentTypeError, "keepdims: an array", lambda: ops.sum(X, keepdims=np.ones(2))),
    (ArgumentTypeError, "descending: an array", lambda: ops.sort(X, descending=X)),
    (ArgumentTypeError, "device: an array", lambda: ops.zeros(3, device=X)),
    (ArgumentError, "indexing: 'an array", lambda: ops.meshgrid(X, indexing=X)),
    (ArgumentError, "side: 'an array", lambda: ops.searchsorted(X, X, side=X)),
    (ArgumentError, "mode: 'an array", lambda: ops.take(X, [0], mode=X)),
    (ArgumentError, "mode: 'an array", lambda: X.at[0].set(1, mode=X)),
    (ArgumentError, "softcap: cap: 0.0", lambda: ops.nn.attention(MATRIX, MATRIX, MATRIX, softcap=0.0)),
    (ArgumentTypeError, "cond: when_true: 1 given", lambda: ops.cond(True, 1, 2)),
    (ArgumentTypeError, "np.mean: dtype=", lambda: np.mean(X, dtype=np.float64)),
    (ArgumentTypeError, "np.sum: initial=3", lambda: np.sum(X, initial=3)),
    (ArgumentTypeError, "np.argsort: kind='stable'", lambda: np.argsort(X, kind="stable")),
]


@pytest.mark.parametrize(("kind", "message", "call"), MISTAKES)
def test_likely_mistakes(kind: type[PootError], message: str, call: Callable[[], object]) -> None:
    for run in (call, lambda: poot.trace(call).graph()):
        with pytest.raises(kind, match=message) as caught:
            run()
        assert caught.value.where is not None
        assert caught.value.where.file == __file__


@pytest.mark.parametrize("step", [2**40, 2**70, -(2**40), -(2**70)])
def test_steps_and_diagonals_past_everything(step: int) -> None:
    for call in (
        lambda: X[::step], lambda: X.at[::step].add(1), lambda: X[2:1:step], lambda: ops.eye(3, k=step),
        lambda: ops.tril(MATRIX, step), lambda: ops.triu(MATRIX, step), lambda: ops.trace(MATRIX, offset=step),
    ):  # fmt: skip
        np.testing.assert_array_equal(call(), poot.trace(call)())
    array, far = np.asarray(X), max(min(step, 99), -99)
    np.testing.assert_array_equal(X[::step], array[::step])
    np.testing.assert_array_equal(ops.tril(MATRIX, step), np.tril(MATRIX, far))
    np.testing.assert_array_equal(ops.triu(MATRIX, step), np.triu(MATRIX, far))
    np.testing.assert_array_equal(ops.eye(3, k=step), np.zeros((3, 3)))


def test_heads_of_no_dimensions_attend_evenly() -> None:
    values = np.float32([[1, 2], [3, 4]])
    found = ops.nn.attention(np.ones((1, 0), np.float32), np.ones((2, 0), np.float32), values)
    np.testing.assert_allclose(found, [[2, 3]])
    with pytest.raises(ShapeError):
        ops.nn.attention(np.ones((1, 0), np.float32), np.ones((2, 1), np.float32), values)


MATRIX_OF_NUMPY = np.ones((4, 4), np.float32).view(np.matrix)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X * MATRIX_OF_NUMPY, lambda: MATRIX_OF_NUMPY * X, lambda: X @ MATRIX_OF_NUMPY,
        lambda: MATRIX_OF_NUMPY @ X, lambda: poot.asarray(MATRIX_OF_NUMPY), lambda: ops.asarray(MATRIX_OF_NUMPY),
        lambda: poot.asarray([MATRIX_OF_NUMPY]), lambda: ops.sum(MATRIX_OF_NUMPY), lambda: ops.full(4, MATRIX_OF_NUMPY),
        lambda: X[MATRIX_OF_NUMPY.astype(np.int32)], lambda: X.at[0].set(MATRIX_OF_NUMPY),
        lambda: ops.where(MATRIX_OF_NUMPY, 1, 0), lambda: ops.stack([MATRIX_OF_NUMPY]), lambda: X == MATRIX_OF_NUMPY,
    ],
)  # fmt: skip
def test_matrices_of_numpy_are_refused(call: Callable[[], object]) -> None:
    for run in (call, lambda: poot.trace(call).graph()):
        with pytest.raises(ArgumentTypeError, match="matrix given, expected an array") as caught:
            run()
        assert "np.asarray" in str(caught.value)
        assert caught.value.where is not None


def test_formats() -> None:
    assert f"{X[1]:.2f}" == "1.00"
    assert f"{X}" == str(X)
    assert f"{ops.astype(X, 'bf16')[1]:.1f}" == "1.0"
    for array in (X, X[:1], X[None]):
        with pytest.raises(ArgumentTypeError, match=r"format '.2f': an array f32\[.* given, expected a 0-d array"):
            f"{array:.2f}"
    with pytest.raises(ArgumentError, match="format: 'x' is not valid"):
        f"{X[0]:x}"
    with pytest.raises(ArgumentTypeError, match=r"format '.2f'"):
        poot.trace(lambda x: f"{x:.2f}")(X)
    with pytest.raises(ConcretizationError, match="as a Python number"):
        poot.trace(lambda x: f"{x[0]:.2f}")(X)


def test_memory_that_is_not_there() -> None:
    for call in (lambda: ops.zeros(2**50), lambda: poot.trace(lambda: ops.zeros(2**50))()):
        with pytest.raises(AllocationError, match="Remedy: use smaller arrays") as caught:
            call()
        assert caught.value.where is not None
        assert caught.value.where.file == __file__


def test_captured_complex_arrays_are_named() -> None:
    turn = np.ones(4, np.complex64)
    with pytest.raises(UnsupportedDTypeError, match=r"captured .*turn.*complex64"):
        poot.trace(lambda x: x * turn)(X)


def test_braces_in_remedies() -> None:
    for remedy in ("call it {x}", "{", "}", "{0}", "{what.no}", "{[}"):
        assert str(ArgumentError(what="a", actual=1, expected="2", remedy=remedy)).endswith(remedy)


def test_items() -> None:
    array = ops.reshape(X, (2, 2))
    assert (array.item(3), array.item(1, 0), array.item(-4), X[1].item()) == (3, 2, 0, 1)
    for index, message in (((4,), "index 4 .* extent 4"), ((1, -3), "index -3 .* axis 1 of extent 2")):
        with pytest.raises(IndexFault, match=rf"item: {message}") as caught:
            array.item(*index)
        assert caught.value.where is not None
    with pytest.raises(ShapeError, match="exactly one element"):
        array.item()
    wrong: Any
    for wrong in ((2**70,), ("x",), (0, 0, 0), (1.5,)):
        with pytest.raises(PootError, match="item"):
            array.item(*wrong)


class Scaled:
    """A class whose traced functions are called with an instance, but not as methods."""

    def __init__(self) -> None:
        self.weight = np.ones(3, np.float32) * 3

    @poot.trace
    def scale(self, x: Any) -> Any:
        return x * self.weight

    @property
    @poot.trace
    def double(self) -> Any:
        return ops.asarray(self.weight) * 2

    @poot.trace
    def _half(self) -> Any:
        return ops.asarray(self.weight) / 2

    @property
    def half(self) -> Any:
        return self._half()


def test_an_instance_that_is_passed_by_hand_says_to_call_a_method() -> None:
    scaled = Scaled()
    for name, call in (
        ("scale", lambda: Scaled.scale(scaled, np.ones(3, np.float32))),
        ("double", lambda: scaled.double),
    ):
        with pytest.raises(CaptureError, match=rf"argument 'self' of Scaled\.{name}: a Scaled is no") as caught:
            call()
        assert f"call it as a method, `self.{name}(…)`" in str(caught.value)
    with pytest.raises(CaptureError, match=r"argument 'x' .*: a Scaled is no") as caught:
        scaled.scale(scaled)
    assert "static_argnames" in str(caught.value)
    assert np.array_equal(np.asarray(scaled.scale(np.ones(3, np.float32))), scaled.weight)
    assert np.array_equal(np.asarray(scaled.half), scaled.weight / 2)


@pytest.mark.parametrize(("value", "named"), [(object(), "an object"), ({1}, "a set"), (1j, "a complex")])
def test_kinds_have_their_articles(value: Any, named: str) -> None:
    with pytest.raises(CaptureError, match=f"argument 'x' .*: {named} is no pytree of arrays"):
        poot.trace(lambda x: 1.0)(value)
    with pytest.raises(CaptureError, match=f"output of .*: {named} is no array"):
        poot.trace(lambda: value)()


@pytest.mark.parametrize("option", ["static_argnames", "donate"])
def test_options_that_are_no_lists_of_names(option: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{option}: 5 given, expected a name or a list of names") as caught:
        poot.trace(**{option: 5})(lambda x: x)  # type: ignore[call-overload]
    assert "test_wrong_arguments.py" in str(caught.value)


@pytest.mark.parametrize("shape", [(0, 2**62), (0, 2**31, 2**30), (2**60,)])
def test_shapes_whose_elements_no_machine_can_address(shape: tuple[int, ...]) -> None:
    for make in (
        ops.zeros,
        lambda shape: ops.broadcast_to(1.0, shape),
        lambda shape: ops.random.normal(ops.random.key(0), shape),
    ):
        with pytest.raises(ArgumentError, match="fewer elements than a machine can address"):
            make(shape)
    assert repr(ops.zeros((0, 2**31, 2**28))) == "Array([], shape=(0, 2147483648, 268435456), dtype=f32)"


@pytest.mark.parametrize("extent", [2**60, 2**62, 2**63, 2**64 + 1])
def test_specs_whose_elements_no_machine_can_address(extent: int) -> None:
    """Those that a program would take, and those that operations make on the way, at the user's line."""

    def grows(x: poot.Array, y: poot.Array) -> poot.Array:
        return ops.sum(x @ y)

    half = 2 ** (extent.bit_length() // 2)
    for make in (
        lambda: f32[extent],
        lambda: poot.bool_[0, extent],
        lambda: poot.trace(lambda x: x + 1)(np.broadcast_to(np.float32(1), (2**60,))),
        lambda: poot.trace(grows).program(f32[half, 1], f32[1, half], device="cpu"),
        lambda: poot.trace(lambda x: ops.concat([x, x])).program(f32[2**60 - 1], device="cpu"),
    ):
        with pytest.raises(ArgumentError, match="fewer elements than a machine can address") as caught:
            make()
        assert caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.parametrize("name", ["cpu", "interpret", "opencl", "wgpu", "cuda:sm_90", "hip:gfx942"])
def test_programs_for_as_many_elements_as_there_may_be(name: str) -> None:
    """They are compiled, or refused with a remedy: nothing overflows on the way."""
    target = poot.Target.parse(name)
    for function in (lambda x: x * 2, ops.sum, lambda x: x[:3], ops.cumulative_sum, lambda x: (x + x[::-1]).mean()):
        graph = poot.trace(function).graph(f32[2**60 - 1])
        try:
            poot.compile(graph, target, poot.CompileOptions())
        except Unsupported as error:
            assert error.remedy and error.where is not None and error.where.file == __file__
