"""`@poot.trace`: a Python function as a graph, compiled for each combination of specs and replayed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import numpy as np

from poot.api.arguments import Arguments, Signature
from poot.api.array import DeviceArray, give_away
from poot.api.cache import CallCache, MissWatch
from poot.api.captures import Captures, capture
from poot.api.codes import code_token
from poot.api.devices import Device, precision_of, require_name
from poot.api.eager import is_eager
from poot.api.eager_call import EagerCall, is_running
from poot.api.explain import Explanation, watching
from poot.api.fast import MISS, FastCall, ShortWays, call_key
from poot.api.foreign import all_here
from poot.api.homes import Site, captures_decide, device_of, device_to_plan_for, homes_captured, homes_of, key_parts
from poot.api.invoke import Compiled, check_call, host_value
from poot.api.options import Options, names_of
from poot.api.precision import Precision
from poot.api.reach import reachable_names
from poot.api.recording import Recorded, Recorder, Roles
from poot.api.reload import follow_reloads
from poot.api.wrapped import Shared, plain_function
from poot.backends.device import DeviceBackend
from poot.backends.progress import working
from poot.errors import TRANSFORMATIONS, ArgumentError, FeatureError
from poot.plan.compile import compile as compile_graph
from poot.plan.program import Program
from poot.trace.dispatch import active
from poot.trace.evaluate import evaluate
from poot.trace.graph import Graph
from poot.trace.limits import TraceLimits
from poot.trace.source import user_location
from poot.trace.tree import flatten

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_CACHE: CallCache[Compiled] = CallCache()
#: Traces that were made to learn which captured arrays are read.
_READS: CallCache[Recorded] = CallCache()
_WATCH = MissWatch()


class Traced(Generic[R_co]):
    """A traced function.  Called with arrays, it runs the compiled graph; `graph`, `program`, `evaluate` show it."""

    def __init__(self, function: Callable[..., R_co], options: Options) -> None:
        functools.update_wrapper(cast("Any", self), function)
        self.__poot_function__: Callable[..., Any] = function
        self.options = options
        self._signature = Signature(function, options.static_argnames, options.donate)
        self._owner: object = None
        self._shared = Shared()
        self._fast = ShortWays()
        self._latest: FastCall | None = None
        follow_reloads(Traced)

    def __get__(self, instance: object, kind: type | None = None) -> Traced[R_co]:
        if instance is None:
            return self
        bound = copy.copy(self)
        bound._owner = instance
        bound._latest = None
        bound._signature = self._shared.method = self._shared.method or self._signature.method()
        return bound

    def __copy__(self) -> Traced[R_co]:
        other: Traced[R_co] = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    # --- calling ---

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        """Run on concrete arrays; inside another trace, or under `poot.eager`, the function's own code runs."""
        if active() is not None or is_eager():
            inside = active() is not None or is_running()
            return self._function(*args, **kwargs) if inside else self._call_eagerly(args, kwargs)
        fast = self._latest
        if fast is not None and not kwargs:
            result = fast(args)
            if result is not MISS:
                return result
        return self._call_anew(args, kwargs)

    def _call_anew(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        """A call of another kind than the latest: by the short way of its kind, or the long one."""
        key = None
        if kwargs and self._owner is None:
            args, kwargs = self._signature.in_order(args, kwargs)
        if not kwargs and self._owner is None:
            key = call_key(args)
            shared = None if key is not None else all_here(args, f"an argument of {self._signature.name}")
            if shared is not None:
                args, key = shared, call_key(shared)
            if key is None:
                return self._call_with_trees(args)
        fast = None if key is None else self._fast.get(key)
        if fast is not None:
            result = fast(args)
            if result is not MISS:
                self._latest = fast
                return result
        return self._call(args, kwargs, key)

    def _call_with_trees(self, args: tuple[Any, ...]) -> R_co:
        """A call whose arguments are pytrees: its short way takes their leaves."""
        leaves, spec = self._signature.flat(args) or ((), None)
        kinds = None if spec is None else call_key(leaves)
        if kinds is None:
            return self._call(args, {}, None)
        fast = self._fast.get((spec, kinds))
        result = MISS if fast is None else fast(leaves)
        return self._call(args, {}, (spec, kinds), trees=True) if result is MISS else cast("R_co", result)

    def _call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], key: Hashable | None, *, trees: bool = False
    ) -> R_co:
        """The long way; with a `key` it leaves the short one behind, for the leaves of the arguments with `trees`."""
        arguments = self._signature.sort(args, kwargs, self._owner)
        captures = self._captures(arguments)
        site = self._site(arguments, captures, recording=False)
        compiled = None if site is None else _known(_CACHE, site.key, captures)
        if site is None or compiled is None:
            self._learn_names(arguments)
            if site is None or captures.names != self._shared.names:  # as another thread may have learnt them too
                captures = self._captures(arguments)
                site = self._site(arguments, captures, recording=True)
            assert site is not None
            there = site
            compiled = _known(_CACHE, there.key, captures)
            compiled = compiled or _CACHE.get(there.key, lambda: self._compile(arguments, captures, there))
        device = site.device
        result = compiled.run(arguments, captures, device, site.precision)
        if self.options.donate:
            self._give_away(arguments)
        elif key is not None and self._fast.wanted(key, compiled):
            fixed, function = self.options.device is not None, cast("FunctionType", self.__poot_function__)
            fast = FastCall.make(compiled, function, arguments, captures.arrays, device, fixed=fixed, trees=trees)
            self._fast.keep(key, compiled, fast)
            self._latest = self._latest if fast is None or trees else fast
        return cast("R_co", result)

    def _call_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        """The function's own code on the arguments that its trace would see, with values."""
        arguments = self._signature.sort(args, kwargs, self._owner)
        self._learn_names(arguments)
        captures = self._captures(arguments)
        own, captured = homes_of(arguments), homes_captured(captures)
        apart = len({id(home) for home in captured}) > 1 and captures_decide(own, captured)
        device = device_of(self.options.device, arguments, Captures() if apart else captures)
        precision = self._precision(device)
        check_call(self._signature.name, arguments, captures, precision, device)
        result = EagerCall(self._signature, arguments, captures, device, precision).run(self._function)
        if self.options.donate:
            self._give_away(arguments)
        return cast("R_co", result)

    def _give_away(self, arguments: Arguments) -> None:
        """Mark the donated arguments, once the call has succeeded."""
        given = [leaf.value for leaf in arguments.leaves if leaf.path.partition(".")[0] in self.options.donate]
        where = user_location()
        call = self._signature.name if where is None else f"{self._signature.name} at {where.file}:{where.line}"
        give_away([*{id(array): array for array in given if isinstance(array, DeviceArray)}.values()], call)

    @property
    def __self__(self) -> object:
        """The instance that a method is bound to, or None."""
        return self._owner

    @property
    def __code__(self) -> CodeType:
        """The code of the function, by which a debugger sets breakpoints: `b name`."""
        return cast("FunctionType", self.__poot_function__).__code__

    @property
    def _function(self) -> Callable[..., Any]:
        function = self.__poot_function__
        return function if self._owner is None else functools.partial(function, self._owner)

    def _captures(self, arguments: Arguments) -> Captures:
        return capture(self.__poot_function__, self._shared.names, self._owner, arguments.statics)

    def _learn_names(self, arguments: Arguments) -> None:
        """Look anew for the names that the reachable code reads."""
        statics = [value for _, value in arguments.statics]
        self._shared.learn(reachable_names([self.__poot_function__, self._owner, *statics]))

    def _site(self, arguments: Arguments, captures: Captures, *, recording: bool) -> Site | None:
        """Where a call runs; None where only a trace can tell, that is not known and not to be `recording`."""
        parts = key_parts(arguments, captures)
        code = code_token(self.__code__)
        own, captured = homes_of(arguments), homes_captured(captures)
        recorded = None
        if self.options.device is None and captures_decide(own, captured):
            key = (code, *parts.items(), self.options, self._precision(None))
            recorded = _known(_READS, key, captures)
            if recorded is None:
                if not recording:
                    return None
                recorded = _READS.get(key, lambda: self._record(arguments, captures, Roles()))
        device = device_of(self.options.device, arguments, captures, recorded)
        precision = self._precision(device)
        whole = (code, *parts.items(), device.name, id(device), self.options, precision)
        return Site(device, precision, parts, whole, recorded)

    def _precision(self, device: DeviceBackend | None) -> Precision:
        """What becomes of 64-bit arrays in a call on a device."""
        return precision_of(self.options.precision, self.options.device, device)

    def _compile(self, arguments: Arguments, captures: Captures, site: Site) -> Compiled:
        device = site.device
        _WATCH.miss(self._signature.name, code_token(self.__code__), device, site.parts)
        extra: dict[str, Hashable] = {"device": device.name, "code": code_token(self.__code__)}
        self._shared.misses = [*self._shared.misses[-7:], {**site.parts, **extra}]
        check_call(self._signature.name, arguments, captures, site.precision, device)
        recorded = site.recorded
        if recorded is None or self._precision(None) != site.precision:
            recorded = self._record(arguments, captures, Roles(), device)
        stable = recorded.tracked(captures.arrays, device)
        with working(f"planning {self._signature.name}"):
            return Compiled.make(recorded, device, self.options.compiling(device, stable))

    def _plan(self, recorded: Recorded, device: DeviceBackend) -> Program:
        with working(f"planning {self._signature.name}"):
            states = [variable.name for variable in recorded.graph.states]
            return compile_graph(recorded.graph, device.target, self.options.compiling(device, states=states))

    def _record(
        self, arguments: Arguments, captures: Captures, roles: Roles, device: DeviceBackend | None = None
    ) -> Recorded:
        recorder = Recorder(
            self._function,
            self._signature,
            arguments,
            captures,
            self.options.limits,
            roles,
            self._precision(device).spec,
        )
        with working(f"tracing {self._signature.name}"):
            return recorder.record()

    # --- looking inside ---

    def graph(
        self,
        *args: Any,
        constants: str | Sequence[str] = (),
        states: Mapping[str, str | int] | None = None,
        **kwargs: Any,
    ) -> Graph:
        """The graph for arrays or specs.

        Arguments named in `constants` become constants (weights) of the graph, those in `states` states, named by their
        dotted pytree path.  `states` maps an argument to the place of its next value in the outputs ("1", "cache"),
        which is taken out of them; a tuple of which one item is left becomes that item, `(y, s)` becomes `y`.
        """
        recorded, _, _ = self._trace_only(args, kwargs, constants, states)
        return recorded.graph

    def _trace_only(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        constants: str | Sequence[str],
        states: Mapping[str, str | int] | None,
    ) -> tuple[Recorded, Arguments, Captures]:
        arguments = self._signature.sort(args, kwargs, self._owner)
        self._learn_names(arguments)
        captures = self._captures(arguments)
        roles = Roles(frozenset(names_of(constants, "constants")), dict(states or {}))
        for name in (*roles.constants, *roles.states):
            if name not in arguments.names:
                expected = "one of " + ", ".join(arguments.names)
                raise ArgumentError(
                    what=f"constants or states of {self._signature.name}", actual=name, expected=expected
                )
        return self._record(arguments, captures, roles), arguments, captures

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The oracle's answer in NumPy, as the function's own output pytree."""
        recorded, arguments, captures = self._trace_only(args, kwargs, (), None)
        bindings: dict[int | str, Any] = {}
        for variable in recorded.graph.variables:
            value = host_value(recorded.sources[variable.name], arguments, captures)
            bindings[variable.name] = self._precision(None).convert(variable.name, np.asarray(value), variable.spec)
        output = evaluate(recorded.graph, bindings).output
        return recorded.outputs.unflatten(flatten(output).leaves)

    def program(
        self,
        *args: Any,
        device: str | Device | None = None,
        constants: str | Sequence[str] = (),
        states: Mapping[str, str | int] | None = None,
        **kwargs: Any,
    ) -> Program:
        """The program for arrays or specs, for `device` (by the rule of calls, if none is named); see `graph`."""
        recorded, arguments, captures = self._trace_only(args, kwargs, constants, states)
        chosen = device_to_plan_for(device or self.options.device, arguments, captures, recorded)
        return self._plan(recorded, chosen)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments traces, what it captures and freezes, and why earlier calls traced anew."""
        with watching() as ran:
            recorded, arguments, captures = self._trace_only(args, kwargs, (), None)
        device = device_of(self.options.device, arguments, captures, recorded)
        program = self._plan(recorded, device)
        return Explanation(self._signature.name, recorded, captures, program, tuple(self._shared.misses), tuple(ran))

    def __getattr__(self, name: str) -> Any:
        if name in TRANSFORMATIONS:
            raise FeatureError(feature=f"`{name}`")
        raise AttributeError(f"a traced function has no attribute {name!r}")

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._owner is not None:
            return getattr, (self._owner, self.__poot_function__.__name__)
        return self.__poot_function__.__qualname__

    def __repr__(self) -> str:
        return f"<poot.trace of {self._signature.name}>"


def _known(cache: CallCache[Any], key: Hashable, captures: Captures) -> Any:
    """What a cache holds under a key, if what its trace read is still the same; else None."""
    found = cache.find(key)
    if found is None or getattr(found, "recorded", found).holds(captures.arrays):
        return found
    cache.drop(key, found)
    return None


@overload
def trace(function: Callable[..., R], /) -> Traced[R]: ...
@overload
def trace(
    *,
    static_argnames: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: str | Device | None = None,
    limits: TraceLimits = TraceLimits.STANDARD,
    numerics: Literal["fused", "strict"] = "fused",
    f64: Literal["f32"] | None = None,
    i64: Literal["i32"] | None = None,
    autotune: bool = False,
) -> Callable[[Callable[..., R]], Traced[R]]: ...
def trace(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnames: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    device: str | Device | None = None,
    limits: TraceLimits = TraceLimits.STANDARD,
    numerics: Literal["fused", "strict"] = "fused",
    f64: Literal["f32"] | None = None,
    i64: Literal["i32"] | None = None,
    autotune: bool = False,
) -> Any:
    """Make a function run as a compiled graph.

    `static_argnames` are arguments whose values are part of the graph; `donate` are arguments whose poot arrays are
    given away: their memory is free once a call has succeeded, and using them later is an EngineError that names the
    call (other libraries' arrays stay as they are, and so does everything inside another trace).
    `device` fixes where it runs; `limits` bound the trace; `numerics="strict"` rounds after every operation as the
    oracle does; `f64="f32"` and `i64="i32"` convert 64-bit arrays; `autotune=True` measures alternatives to the cost
    model's schedules when a function is compiled, and remembers the winners on disk.

    `function` may be a method, a `functools.partial` of a function, whose arguments are captures, or a traced function,
    which is traced anew with these options.
    """
    if numerics not in ("fused", "strict"):
        raise ArgumentError(what="numerics", actual=numerics, expected='"fused" or "strict"')
    require_name(device)
    statics, donated = names_of(static_argnames, "static_argnames"), names_of(donate, "donate")
    options = Options(statics, device, limits, numerics, Precision(f64, i64), donated, autotune)

    def decorate(wrapped: Callable[..., Any]) -> Traced[Any]:
        function, owner = plain_function(wrapped)
        traced = Traced(function, options)
        return traced if owner is None else traced.__get__(owner)

    return decorate if function is None else decorate(function)
