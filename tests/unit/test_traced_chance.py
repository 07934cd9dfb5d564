"""What a trace may not ask for, since it would be frozen: randomness, clocks and the system's entropy."""

from __future__ import annotations

import cProfile
import datetime
import logging
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from random import Random
from secrets import token_hex as some_hex
from time import perf_counter as clock
from types import FrameType
from typing import Any
from uuid import uuid4 as fresh

import numpy as np
import pytest
from numpy.random import default_rng as made

import poot
from poot import ops
from poot.errors import TraceError

ONES = np.ones(3, np.float32)
GENERATOR = np.random.default_rng(0)
STATE = np.random.RandomState(0)
PYTHON = random.Random(0)
BITS = np.random.PCG64(3)
TWISTER = np.random.Generator(np.random.MT19937(1))
SYSTEM = random.SystemRandom()
NORMAL = GENERATOR.normal
UNIFORM = PYTHON.random
HELD = {"a": [GENERATOR]}


class Model:
    def __init__(self) -> None:
        self.generator = np.random.default_rng(1)
        self.several = [random.Random(3)]

    def __call__(self, x: Any) -> Any:
        return x + self.generator.normal()

    def second(self, x: Any) -> Any:
        return x + self.several[0].gauss()


MODEL = Model()


def helper() -> float:
    return GENERATOR.normal()


DRAWS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Generator": ("`GENERATOR`, a Generator", lambda x: x + GENERATOR.normal()),
    "RandomState": ("`STATE`, a RandomState", lambda x: x + STATE.rand()),
    "Random": ("`PYTHON`, a Random", lambda x: x + PYTHON.random()),
    "BitGenerator": ("`BITS`, a PCG64", lambda x: x + float(BITS.random_raw())),
    "MT19937": ("`TWISTER`, a Generator", lambda x: x + TWISTER.integers(3)),
    "shuffle": ("`GENERATOR`, a Generator", lambda x: (GENERATOR.shuffle([1, 2, 3]), x)[1]),
    "method of NumPy": ("a Generator", lambda x: x + NORMAL()),
    "method of Python": ("a Random", lambda x: x + UNIFORM()),
    "attribute": ("`MODEL.generator`, a Generator", lambda x: MODEL(x)),
    "list": ("`MODEL.several.0`, a Random", lambda x: MODEL.second(x)),
    "dict": ("`HELD.a.0`, a Generator", lambda x: x + HELD["a"][0].normal()),
    "helper": ("`helper.GENERATOR`, a Generator", lambda x: x + helper()),
    "random": ("the global state of `random`", lambda x: x + random.random()),
    "np.random": ("the global state of `np.random`", lambda x: x + np.random.rand()),  # noqa: NPY002
}
CLOCKS: dict[str, Callable[[Any], Any]] = {
    "time.time": lambda x: x + time.time(),
    "time.perf_counter": lambda x: x + clock(),
    "time.monotonic_ns": lambda x: x + time.monotonic_ns() % 3,
    "time.process_time": lambda x: x + time.process_time(),
    "datetime.datetime.now": lambda x: x + datetime.datetime.now().second,
    "datetime.date.today": lambda x: x + datetime.date.today().day,
}
ENTROPY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "urandom": ("called os.urandom", lambda x: x + os.urandom(1)[0]),
    "uuid4": ("called uuid.uuid4", lambda x: x + uuid.uuid4().int % 3),
    "uuid4 by name": ("called uuid.uuid4", lambda x: x + fresh().int % 3),
    "uuid1": ("called uuid.uuid1", lambda x: x + uuid.uuid1().int % 3),
    "token_hex": ("called secrets.token_hex", lambda x: x + int(some_hex(1), 16)),
    "randbelow": ("called secrets.randbelow", lambda x: x + secrets.randbelow(3)),
    "choice": ("drew on the system's entropy", lambda x: x + secrets.choice([1, 2])),
    "SystemRandom": ("drew on the system's entropy", lambda x: x + SYSTEM.random()),
    "default_rng()": ("drew on the system's entropy", lambda x: x + np.random.default_rng().normal()),
    "default_rng() by name": ("drew on the system's entropy", lambda x: x + made().normal()),
    "RandomState()": ("drew on the system's entropy", lambda x: x + np.random.RandomState().rand()),
    "Random()": ("drew on the system's entropy", lambda x: x + Random().random()),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_a_generator_drawn_from_in_a_trace_raises(kind: str) -> None:
    what, function = DRAWS[kind]
    with pytest.raises(TraceError) as caught:
        poot.trace(function)(ONES)
    assert f"drew from {what}" in str(caught.value) or (f"{what}," in str(caught.value))
    assert "use ops.random with an explicit key, or pass the random array as an argument." in str(caught.value)
    assert np.isfinite(np.asarray(eagerly(function))).all()


@pytest.mark.parametrize("kind", CLOCKS)
def test_a_clock_asked_in_a_trace_raises(kind: str) -> None:
    function = CLOCKS[kind]
    with pytest.raises(TraceError) as caught:
        poot.trace(function)(ONES)
    assert f"called {kind} while it was traced, which would happen once" in str(caught.value)
    assert "pass the value as an argument." in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.line == function.__code__.co_firstlineno
    assert sys.getprofile() is None
    assert np.isfinite(np.asarray(eagerly(function))).all()


@pytest.mark.parametrize("kind", ENTROPY)
def test_entropy_asked_for_in_a_trace_raises(kind: str) -> None:
    what, function = ENTROPY[kind]
    with pytest.raises(TraceError) as caught:
        poot.trace(function)(ONES)
    assert what in str(caught.value)
    assert "use ops.random with an explicit key, or pass the value as an argument." in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.line == function.__code__.co_firstlineno
    assert sys.getprofile() is None
    assert np.isfinite(np.asarray(eagerly(function))).all()


def test_what_is_imported_inside_is_watched() -> None:
    def f(x: Any) -> Any:
        import secrets as inside
        from time import monotonic

        return x + (inside.randbelow(3) if x.ndim > 1 else monotonic())

    with pytest.raises(TraceError, match=r"called time\.monotonic"):
        poot.trace(f)(ONES)
    with pytest.raises(TraceError, match=r"called secrets\.randbelow"):
        poot.trace(f)(ONES[None])


def eagerly(function: Callable[[Any], Any]) -> Any:
    """What the function gives with values, where asking is meant."""
    with poot.eager():
        return poot.trace(function)(ONES)


def test_an_error_that_the_function_swallows_is_raised_all_the_same() -> None:
    @poot.trace
    def f(x: Any) -> Any:
        try:
            return x + time.time()
        except TypeError:
            return x

    with pytest.raises(TraceError, match=r"called time\.time"):
        f(ONES)


def test_what_is_the_same_at_every_call_passes() -> None:
    def f(x: Any) -> Any:
        logging.getLogger("poot.tests").info("a record asks the clock itself")
        key = ops.random.key(0)
        return x + np.random.default_rng(0).random() + Random(0).random() + ops.random.uniform(key, (3,))

    assert np.array_equal(np.asarray(poot.trace(f)(ONES)), np.asarray(poot.trace(f)(ONES)))


def test_a_generator_that_is_not_drawn_from_passes() -> None:
    f = poot.trace(lambda x, draw=False: x + GENERATOR.normal() if draw else x + 1)
    assert f(ONES).shape == (3,)
    with pytest.raises(TraceError, match="drew from `GENERATOR`"):
        f(ONES, True)


def test_what_cannot_be_caught_is_listed() -> None:
    def made(x: Any) -> Any:
        generator = np.random.default_rng(0)
        return x + generator.normal() + time.localtime(0).tm_year

    line = f"{made.__qualname__} ({__file__}:{made.__code__.co_firstlineno + 2})"
    assert poot.trace(made).explain(ONES).frozen[-2:] == (f"what normal gave {line}", f"what localtime gave {line}")
    key = ops.random.key(0)
    watched = poot.trace(lambda x: x + (0.0 if x.ndim else GENERATOR.normal()) + ops.random.normal(key, (3,)))
    assert not any(what.startswith("what normal") for what in watched.explain(ONES).frozen)


def test_a_profile_function_is_called_and_set_again() -> None:
    seen: list[str] = []

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        seen.append(event)

    sys.setprofile(profile)
    try:
        with pytest.raises(TraceError, match=r"called time\.perf_counter"):
            poot.trace(lambda x: x + clock()).graph(ONES)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "c_call" in seen


def test_a_profiler_of_c_goes_before() -> None:
    f = poot.trace(lambda x: x + clock())
    if sys.version_info >= (3, 12):  # where it is none of `sys.setprofile`'s
        with pytest.raises(TraceError, match=r"called time\.perf_counter"):
            cProfile.Profile().runcall(f.explain, ONES)
    else:
        frozen = cProfile.Profile().runcall(f.explain, ONES).frozen
        assert "what clock may have given, since a profiler was at work" in frozen


def test_a_trace_runs_under_a_profiler() -> None:
    f = poot.trace(lambda x: x * 2.0)
    assert np.asarray(cProfile.Profile().runcall(f, ONES)).tolist() == [2, 2, 2]
