"""What a trace must not ask for, since the answer would be given once and never again: randomness, clocks, entropy.

Generators are caught by their state: the global ones of `random` and `np.random`, and those that the function's names
lead to.  Clocks and the operating system's entropy (which uuid4, `secrets` and unseeded generators draw on) are caught
as they are called, by a profile hook, which slows a trace down; so it is set only where the code names one of them.
Calls that libraries make for themselves, such as the clock of a log record, pass.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import sys
import time
from collections.abc import Iterator
from types import BuiltinMethodType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, cast

import numpy as np

from poot import forks
from poot.api.captures import Captures, Same
from poot.api.libraries import is_library_file, is_poot
from poot.errors import TraceError
from poot.trace.source import frame_location, user_location

_CLOCKS = tuple(
    f"{clock}{unit}"
    for clock in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for unit in ("", "_ns")
)
_CALENDAR = ("now", "utcnow", "today")
_ENTROPY = ("urandom", "getrandom")

#: The functions of C that are asked in the end, by the names under which people know them.
_SOURCES: dict[object, str] = {
    **{getattr(time, name): f"time.{name}" for name in _CLOCKS if hasattr(time, name)},
    **{getattr(os, name): f"os.{name}" for name in _ENTROPY if hasattr(os, name)},
    **{getattr(datetime.datetime, name): f"datetime.datetime.{name}" for name in _CALENDAR},
    datetime.date.today: "datetime.date.today",
}
#: Modules of Python code between those functions and the user's.
_BETWEEN = frozenset({"random", "secrets", "uuid"})
#: Names in code that may lead to one of them.
_NAMES = frozenset(
    {
        *_CLOCKS, *_CALENDAR, *_ENTROPY, "uuid1", "uuid4", "SystemRandom", "Random", "randbits",
        "randbelow", "token_bytes", "token_hex", "token_urlsafe", "default_rng", "RandomState", "SeedSequence",
        "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64",
    }
)  # fmt: skip
_ONCE = "which would happen once and never again"
_USE_KEY = "use ops.random with an explicit key, or pass the {} as an argument."


class ChanceWatch:
    """Entered around the run of a function on tracers; `check` raises TraceError where it drew or asked.

    `frozen` lists what could not be watched.
    """

    def __init__(self, function: str, captures: Captures) -> None:
        self._function = function
        self._error: TraceError | None = None
        self._hooked = False
        self._before: Any = None
        self.frozen: list[str] = []
        held = list(_held(captures))
        self._generators = [(label, value) for label, value in held if issubclass(type(value), _kinds())]
        named = [label for label, value in held if _may_ask(value)]
        self._suspects = sorted({*named, *(_NAMES & captures.names)})
        self._states: list[object] = []
        self._process = 0

    def __enter__(self) -> ChanceWatch:
        self._states, self._process = self._now(), os.getpid()
        self._before = sys.getprofile()
        self._hooked = bool(self._suspects) and (self._before is None or callable(self._before))
        if self._hooked:
            sys.setprofile(self._event)
        elif self._suspects:
            self.frozen.append(f"what {', '.join(self._suspects)} may have given, since a profiler was at work")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hooked:
            sys.setprofile(self._before)

    def check(self) -> None:
        """TraceError where the function drew from a generator, or asked a clock or for entropy."""
        if self._error is not None:
            raise self._error
        if os.getpid() != self._process:
            return  # the function forked, and Python seeds `random` anew in a child
        labels = ["the global state of `random`", "the global state of `np.random`"]
        labels += [f"`{label}`, a {type(value).__name__}," for label, value in self._generators]
        for label, before, after in zip(labels, self._states, self._now(), strict=True):
            if before != after:
                raise TraceError(
                    message=f"{self._function} drew from {label} while it was traced, {_ONCE}",
                    where=user_location(),
                    remedy=_USE_KEY.format("random array"),
                )

    def _now(self) -> list[object]:
        """The states of the global generators, and of those that the function's names lead to."""
        numpy_state = _generators().get_state(legacy=False)  # the global one
        return [random.getstate(), _plain(numpy_state), *(_state(value) for _, value in self._generators)]

    def _event(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profile hook; what it raises reaches the caller of the function that is about to be called."""
        if self._before is not None:
            self._before(frame, event, arg)
        if event == "c_call":
            if arg in _SOURCES:
                self._ask(frame, _SOURCES[arg])
        elif event == "call" and frame.f_back is not None and _is_between(frame):
            code = frame.f_code
            if code.co_qualname == "uuid1" or (code.co_qualname == "Random.__init__" and frame.f_locals["x"] is None):
                self._ask(frame, code.co_qualname)

    def _ask(self, frame: FrameType, what: str) -> None:
        """TraceError if the user's code asked, itself or through the modules between."""
        asking: FrameType | None = frame
        while asking is not None and _is_between(asking):
            what = f"{asking.f_globals['__name__']}.{asking.f_code.co_qualname}"
            asking = asking.f_back
        if asking is None or _is_internal(asking):
            return
        clock = what.startswith(("time", "datetime"))
        unseeded = "drew on the system's entropy, as generators without a seed do,"
        self._error = TraceError(
            message=f"{self._function} {unseeded if what.startswith('random.') else f'called {what}'} "
            f"while it was traced, {_ONCE}",
            where=frame_location(asking),
            remedy="call it outside, and pass the value as an argument." if clock else _USE_KEY.format("value"),
        )
        raise self._error


@functools.cache
def _generators() -> Any:
    """`np.random`, which NumPy imports at its first use."""
    with forks.imports:
        return np.random


@functools.cache
def _kinds() -> tuple[type, ...]:
    """The classes of generators."""
    numpy = _generators()
    return numpy.Generator, numpy.RandomState, numpy.BitGenerator, random.Random


def _state(generator: Any) -> object:
    """What tells whether a generator has been drawn from; None for those of the system, which have no state."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return _plain(generator.get_state(legacy=False))
    return _plain(getattr(generator, "bit_generator", generator).state)


def _plain(state: Any) -> object:
    """A state that can be compared."""
    if isinstance(state, dict):
        return tuple((name, _plain(value)) for name, value in cast("dict[str, Any]", state).items())
    return cast("np.ndarray[Any, Any]", state).tobytes() if isinstance(state, np.ndarray) else state


def _held(captures: Captures) -> Iterator[tuple[str, Any]]:
    """The objects that the code's names lead to, by label; `isinstance` would ask a proxy for its class."""
    for label, part in captures.parts.items():
        parts = cast("tuple[object, ...]", part) if isinstance(part, tuple) else (part,)
        if not parts or not isinstance(parts[0], Same):
            continue
        value: Any = parts[0].value
        owner = value.__self__ if type(value) is BuiltinMethodType else None
        yield label, owner if issubclass(type(owner), _kinds()) else value


def _may_ask(value: Any) -> bool:
    """Whether a captured object is a clock or a source of entropy, or a function or class that asks one."""
    kind = cast("type[object]", type(value))
    if issubclass(kind, random.SystemRandom) or (kind is BuiltinMethodType and value in _SOURCES):
        return True
    if issubclass(kind, (type, FunctionType)) or kind.__name__ == "cython_function_or_method":
        module = str(value.__module__)
        return module in _BETWEEN or module.startswith("numpy.random")
    return kind is ModuleType and value.__name__ in ("secrets", "uuid")


def _is_between(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in _BETWEEN and is_library_file(frame.f_code.co_filename)


def _is_internal(frame: FrameType) -> bool:
    """Whether a frame runs a library's code, or poot's."""
    return is_library_file(frame.f_code.co_filename) or is_poot(frame.f_globals.get("__name__"))
