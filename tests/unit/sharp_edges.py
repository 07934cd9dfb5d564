"""The sharp edges of tracing, each a small program that reads as the documentation does, to be run in many settings.

A program uses nothing but what `PRELUDE` defines, and asserts what it shows.  `SHOWS_SOURCE`, which the setting may
define, says that messages can quote the user's line there.
"""

from __future__ import annotations

PRELUDE = """
import enum, itertools, pickle, random, warnings
import numpy as np, poot
from poot import ops, f32

class raises:
    def __init__(self, kind, *texts):
        self.kind, self.texts = kind, texts
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        assert kind is not None and issubclass(kind, self.kind), (kind, error)
        self.message = str(error)
        for text in self.texts:
            assert text in self.message, (text, self.message)
        return True

def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))

ones = np.ones(3, np.float32)
"""

EDGES: dict[str, str] = {
    "bools_strings_enums_and_none_are_static": """
Mode = enum.Enum("Mode", "UP DOWN")

@poot.trace
def f(x, mode, flip=False, note=None):
    y = x + 1.0 if mode is Mode.UP else x - 1.0
    y = -y if flip else y
    return y if note is None else y * len(note)

assert same(f(ones, Mode.UP), ones * 2)
assert same(f(ones, Mode.DOWN), ones * 0)
assert same(f(ones, Mode.UP, True), ones * -2)
assert same(f(ones, Mode.UP, note="four"), ones * 8)
""",
    "numbers_are_run_time_scalars": """
traces = itertools.count()

@poot.trace
def f(x, s):
    next(traces)
    return x * s

assert same(f(ones, 2.0), ones * 2)
assert same(f(ones, 3.5), ones * 3.5)
assert next(traces) == 1
""",
    "a_number_as_axis_shape_or_branch_names_static_argnames": """
@poot.trace
def total(x, axis):
    return x.sum(axis=axis)

with raises(TypeError, 'static_argnames="axis"', "total"):
    total(ones, 0)

@poot.trace
def grid(x, n, m):
    return x.reshape(n * m)

with raises(TypeError, 'static_argnames=("n", "m")'):
    grid(ones, 1, 3)

@poot.trace
def choose(x, n):
    return x if n > 1 else -x

with raises(TypeError, 'static_argnames="n"', "ops.where"):
    choose(ones, 2)

@poot.trace(static_argnames="n")
def repeat(x, n):
    for _ in range(n):
        x = x * 2.0
    return x

assert same(repeat(ones, 3), ones * 8)
assert same(repeat(ones, n=1), ones * 2)
""",
    "objects_are_guarded_by_what_the_code_reads": """
class Model:
    def __init__(self):
        self.gain, self.weight, self.note = 2.0, ones.copy(), "unread"
    @poot.trace
    def __call__(self, x):
        next(traces)
        return x * self.gain + self.weight

traces = itertools.count()
model = Model()
assert same(model(ones), ones * 3)
model.note = "changed, and read by nobody"
model.weight[:] = 5.0
assert same(model(ones), ones * 7)
assert next(traces) == 1
model.gain = 3.0
assert same(model(ones), ones * 8)
""",
    "what_is_no_pytree_of_arrays_is_refused": """
class Config:
    gain = 2.0

@poot.trace
def f(x, config):
    return x * config.gain

with raises(TypeError, "argument 'config' of f", "a Config is no pytree of arrays", "static_argnames"):
    f(ones, Config())

g = poot.trace(static_argnames="config")(f.__poot_function__)
assert same(g(ones, Config()), ones * 2)
""",
    "captured_arrays_are_hidden_inputs": """
weight = ones.copy()
traces = itertools.count()

@poot.trace
def f(x):
    next(traces)
    return (x * weight).sum()

assert float(f(ones)) == 3.0
weight[:] = 2.0
assert float(f(ones)) == 6.0
assert next(traces) == 1
weight = np.ones((2, 3), np.float32)
assert float(f(ones)) == 6.0
assert next(traces) == 3
""",
    "captured_constants_are_part_of_the_key": """
scale = 2.0
table = {"bias": 1.0}

def helper(x):
    return x * scale + table["bias"]

@poot.trace
def f(x, power=1.0):
    return helper(x) ** power

assert same(f(ones), ones * 3)
scale = 4.0
assert same(f(ones), ones * 5)
table["bias"] = 0.0
assert same(f(ones), ones * 4)
f.__poot_function__.__defaults__ = (2.0,)
assert same(f(ones), ones * 16)
""",
    "dynamic_reads_are_frozen_and_listed": """
class Config:
    pass

config, name = Config(), "ga" + "in"
config.gain = 2.0

@poot.trace
def f(x):
    return x * getattr(config, name)

assert same(f(ones), ones * 2)
config.gain = 3.0
assert same(f(ones), ones * 2)
assert "frozen: what getattr gave f" in str(f.explain(ones))
""",
    "explain_says_why_it_traced_again": """
scale = 2.0

@poot.trace
def f(x):
    return x * scale

f(ones)
f(np.ones((2, 3), np.float32))
scale = 3.0
f(np.ones((2, 3), np.float32))
story = str(f.explain(ones))
assert "traced again because of 'x': f32[3] became f32[2,3]" in story
assert "traced again because of 'scale': 2.0 became 3.0" in story
assert "guarded: scale = 3.0" in story
assert "kernel mul, launched 1 time" in story, story
""",
    "global_random_state_is_refused": """
@poot.trace
def f(x):
    return x + random.random()

with raises(TypeError, "the global state of `random`", "ops.random"):
    f(ones)

@poot.trace
def g(x):
    return x + np.random.rand()

with raises(TypeError, "the global state of `np.random`", "ops.random"):
    g(ones)
""",
    "a_tracer_is_no_bool": """
@poot.trace
def f(x):
    if x.sum() > 0:
        return x
    return -x

with raises(TypeError, "while f is being traced", "ops.where", "ops.cond") as caught:
    f(ones)

assert not globals().get("SHOWS_SOURCE") or "if x.sum() > 0:" in caught.message, caught.message
g = poot.trace(lambda x: ops.where(x.sum() > 0, x, -x))
assert same(g(-ones), ones)
""",
    "a_tracer_is_not_changed_in_place": """
@poot.trace
def f(x):
    x[0] = 5.0
    return x

with raises(TypeError, "`x`, f32[3], cannot be changed in place", "x = x.at[i].set(v)") as caught:
    f(ones)

assert not globals().get("SHOWS_SOURCE") or "x[0] = 5.0" in caught.message, caught.message
g = poot.trace(lambda x: x.at[0].set(5.0))
assert same(g(ones), [5, 1, 1])
""",
    "a_tracer_does_not_escape": """
keeper = type("Keeper", (), {})()

@poot.trace
def f(x):
    keeper.last = x * 2.0
    return x

f(ones)
with raises(TypeError, "was made while f was traced and is used after that trace ended", "return it"):
    keeper.last + 1.0
""",
    "user_exceptions_keep_their_type_and_cache_nothing": """
switch = type("Switch", (), {"broken": True})()

@poot.trace
def f(x):
    if switch.broken:
        raise LookupError("mine")
    return x

try:
    f(ones)
except LookupError as error:
    assert "while f was being traced by poot" in error.__notes__
else:
    raise AssertionError("it raised nothing")

switch.broken = False
assert same(f(ones), ones)
""",
    "traced_functions_are_inlined_and_loops_unroll": """
@poot.trace
def inner(x):
    return x * 2.0

@poot.trace
def outer(x):
    for _ in range(4):
        x = inner(x)
    return x

assert same(outer(ones), ones * 16)
assert len(outer.graph(f32[3]).equations) == 4

@poot.trace
def rolled(x):
    return ops.scan(lambda carry, _: (carry * 2.0, None), x, None, length=4)[0]

assert same(rolled(ones), ones * 16)
assert len(rolled.graph(f32[3]).equations) == 1
""",
    "missing_features_refuse_by_name": """
f = poot.trace(lambda x: x)
with raises(AttributeError, "poot has no `grad` yet"):
    f.grad
""",
    "an_identical_lambda_hits_the_cache": """
traces = itertools.count()

def call():
    return poot.trace(lambda x: x * 3.0 + next(traces) * 0.0)(ones)

assert same(call(), ones * 3)
assert same(call(), ones * 3)
assert next(traces) == 1
""",
    "redefinition_uses_the_newest_function": """
@poot.trace
def f(x):
    return x + 1.0

first = f
assert same(f(ones), ones * 2)

@poot.trace
def f(x):
    return x + 2.0

assert same(f(ones), ones * 3)
assert same(first(ones), ones * 2)

def helper(x):
    return x * 2.0

g = poot.trace(lambda x: helper(x))
assert same(g(ones), ones * 2)

def helper(x):
    return x * 3.0

assert same(g(ones), ones * 3)
""",
    "randomness_has_explicit_keys": """
@poot.trace
def f(key):
    first, second = ops.random.split(key)
    return ops.random.uniform(first, (4,)), ops.random.uniform(second, (4,))

a, b = f(ops.random.key(7))
again, _ = f(ops.random.key(7))
assert same(a, again) and not same(a, b)
""",
    "the_device_of_a_call": """
f = poot.trace(lambda x: x + 1.0)
assert f(ones).device == "cpu"
with poot.device("interpret"):
    assert f(ones).device == "interpret"

there = poot.asarray(ones, device="interpret")
assert f(there).device == "interpret"
with raises(RuntimeError, "different devices: argument 'x' on interpret; argument 'y' on cpu"):
    poot.trace(lambda x, y: x + y)(there, poot.asarray(ones, device="cpu"))

def inside(x):
    with poot.device("interpret"):
        return x

with raises(RuntimeError, "cannot change inside a traced function"):
    poot.trace(inside)(ones)
""",
    "arrays_are_immutable_and_numpy_dispatches": """
a = poot.asarray(ones)
with raises(TypeError, "x.at[i].set(v)"):
    a[0] = 2.0

with raises(ValueError, "read-only"):
    np.asarray(a)[0] = 2.0

source = ones.copy()
copied = poot.asarray(source)
source[:] = 9.0
assert same(copied, ones)
assert isinstance(ones + a, poot.Array) and isinstance(np.sum(a), poot.Array)
assert same(pickle.loads(pickle.dumps(a)), a)
""",
    "donation_names_the_call": """
@poot.trace(donate="state")
def step(state, x):
    return state + x

state = poot.asarray(ones)
after = step(state, ones)
assert same(after, ones * 2)
with raises(RuntimeError, "this array was donated to step at ", "keep a copy"):
    state + 1.0

assert "donated to step" in repr(state)
assert same(step(step(after, ones), ones), ones * 4)
""",
}

#: It counts warnings, whose filters belong to the process: not for settings that run several programs at a time.
WARNING_EDGE = """
f = poot.trace(lambda x, y: x.sum() + y)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for n in range(1, 13):
        f(np.ones(n, np.float32), ones)

messages = [str(warning.message) for warning in caught if warning.category.__name__ == "RetraceWarning"]
assert len(messages) == 1 and "'x' keeps changing (now f32[8])" in messages[0], messages
"""
