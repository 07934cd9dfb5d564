"""Arrays on different devices never meet in one operation, whichever argument they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.errors import DeviceMismatchError

Use = Callable[[Any, Callable[[Any], Any]], Any]

X = np.arange(12, dtype=np.float32).reshape(3, 4)
ROW, ROWS = np.ones(4, np.float32), np.ones((3, 4), np.float32)
PICKS, POINT, HALF = np.array([0, 2], np.int32), np.array(1, np.int32), np.array(0.5, np.float32)
MASK, MASKS = np.array([True, False, True]), np.ones((3, 4), bool)

#: Each applies something to x and to an array that `on` puts on a device.
USES: dict[str, Use] = {
    "x[mask]": lambda x, on: x[on(MASK)],
    "x[mask of all axes]": lambda x, on: x[on(MASKS)],
    "x[mask, int]": lambda x, on: x[on(MASK), 0],
    "x[int, mask]": lambda x, on: x[:, 1][on(MASK)],
    "x[integers]": lambda x, on: x[on(PICKS)],
    "x[0-d integer]": lambda x, on: x[on(POINT)],
    "x[integer:]": lambda x, on: x[on(POINT) :],
    "x[:integer]": lambda x, on: x[:, : on(POINT)],
    "x[::integer]": lambda x, on: x[:: on(POINT)],
    "x[[integer]]": lambda x, on: x[[on(POINT), 0]],
    "x.at[mask].set": lambda x, on: x.at[on(MASK)].set(0.0),
    "x.at[masks].add": lambda x, on: x.at[on(MASKS)].add(1.0),
    "x.at[integers].add": lambda x, on: x.at[on(PICKS)].add(1.0),
    "x.at[integer:].set": lambda x, on: x.at[on(POINT) :].set(0.0),
    "values of set": lambda x, on: x.at[0].set(on(ROW)),
    "values of a masked set": lambda x, on: x.at[np.array([True, False, True])].set(on(ROW)),
    "x.at[integers].get": lambda x, on: x.at[on(PICKS)].get(),
    "fill value": lambda x, on: x.at[np.array([9])].get(mode="fill", fill_value=on(HALF)),
    "take": lambda x, on: ops.take(x, on(PICKS), axis=0),
    "take_along_axis": lambda x, on: ops.take_along_axis(x, on(PICKS).reshape(2, 1)[[0, 1, 0]], 1),
    "where": lambda x, on: ops.where(on(MASKS), x, 0.0),
    "operator": lambda x, on: x + on(ROWS),
    "scalar": lambda x, on: x * on(HALF),
    "comparison": lambda x, on: x == on(ROWS),
    "NumPy's function": lambda x, on: np.where(on(MASKS), x, 0),
    "concat": lambda x, on: ops.concat([x, on(ROWS)]),
    "list": lambda x, on: ops.asarray([x, on(ROWS)]),
    "clip": lambda x, on: ops.clip(x, on(HALF), 5),
    "pad": lambda x, on: ops.pad(x, 1, constant_values=on(HALF)),
    "dynamic_slice": lambda x, on: ops.dynamic_slice(x, [on(POINT), 0], [1, 4]),
    "searchsorted": lambda x, on: ops.searchsorted(x[0], on(ROW)),
    "scan": lambda x, on: ops.scan(lambda c, row: (c + row.sum(), c), on(HALF), x),
    "predicate of cond": lambda x, on: ops.cond(on(HALF) > 0, lambda x: x, lambda x: x * 2, x),
    "linspace": lambda x, on: ops.linspace(x[0, 0], on(HALF), 4),
    "embedding": lambda x, on: ops.nn.embedding(on(PICKS), x),
    "attention": lambda x, on: ops.nn.attention(*[x.reshape(1, 1, 3, 4)] * 3, mask=on(np.ones((3, 3), bool))),
    "kernel": lambda x, on: double(x.reshape(12), on(np.zeros(12, np.float32)), threads=12),
}


#: A traced call takes the values of these from captured arrays, and reads nothing of them where it runs.
KNOWN = {kind for kind in USES if kind.startswith("x[") and ("mask" in kind or ":" in kind or "[[" in kind)}
KNOWN |= {"x.at[integer:].set"}


@poot.kernel
def double(x: poot.In[poot.f32], y: poot.Out[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(y):
        y[i] = x[i] + x[i]


@poot.kernel
def both(a: poot.In[poot.f32], b: poot.In[poot.f32], c: poot.Out[poot.f32]) -> None:
    i = poot.thread_index()
    if i < len(c):
        c[i] = a[i] + b[i]


@pytest.mark.parametrize("kind", USES)
def test_no_operation_mixes_devices(kind: str, device_name: str) -> None:
    other, use = "interpret" if device_name == "cpu" else "cpu", USES[kind]
    x = poot.asarray(X, device=device_name)
    use(x, lambda array: poot.asarray(array, device=device_name))  # which is right
    with pytest.raises(
        DeviceMismatchError,
        match=rf"live on different devices: .+ on ({device_name}; .+ on {other}|{other}; .+ on {device_name})\n",
    ) as caught:
        use(x, lambda array: poot.asarray(array, device=other))
    assert caught.value.where is not None and caught.value.where.file == __file__
    named = "device= to the launch" if kind == "kernel" else "x.to_device("  # an operator has no device=
    assert named in caught.value.remedy and ("pass device=" in caught.value.remedy) == (kind == "kernel")


def test_a_traced_call_is_told_of_the_option_of_trace() -> None:
    x, y = (poot.asarray(ROW, device=name) for name in ("cpu", "interpret"))
    add: Any = poot.trace(lambda x, y: x + y)
    with pytest.raises(DeviceMismatchError, match=r"pass device= to poot\.trace\.$"):
        add(x, y)
    with pytest.raises(DeviceMismatchError, match=r"devices: argument 'x' on cpu; argument 'y' on interpret\n"):
        add(x, y)
    fixed: Any = poot.trace(lambda x, y: x + y, device="interpret")
    assert fixed(x, y).device == "interpret"


@pytest.mark.parametrize("kind", [kind for kind in USES if kind != "kernel"])
def test_nor_does_a_call_whose_function_captures_arrays(kind: str) -> None:
    x, use = poot.asarray(X, device="cpu"), USES[kind]
    arrays = (ROW, ROWS, PICKS, POINT, HALF, MASK, MASKS, np.ones((3, 3), bool))
    there = {(array.shape, array.dtype.str): poot.asarray(array, device="interpret") for array in arrays}

    def call(x: Any) -> Any:
        return use(x, lambda array: there[array.shape, array.dtype.str])

    blocks = [eagerly(call)] if kind in KNOWN else [poot.trace(call), eagerly(call)]
    for block in blocks:
        with pytest.raises(DeviceMismatchError):
            block(x)


def test_every_array_is_named() -> None:
    """By its argument, capture, parameter or place, each with its device."""
    x, far = (poot.asarray(ROW, device=name) for name in ("cpu", "interpret"))
    cap = {"w": far, "b": far + 1, "unread": x}
    traced: Any = poot.trace(lambda tree, y: tree["a"] + y + cap["w"] + cap["b"])
    buffer = poot.KernelBuffer.read_only(ROW)
    out = poot.KernelBuffer.write(f32, 4)
    contexts = [poot.Context(name) for name in ("cpu", "interpret")]
    compiled = [double.compile(context.device.target, workgroup=64) for context in contexts]

    def dispatch(number: int) -> None:
        buffers = [buffer, out]
        contexts[number].dispatch("double", compiled[number], workgroup=64, threads=4, buffers=buffers)

    dispatch(0)
    cases: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: traced({"a": x}, x),
            "argument 'tree.a', argument 'y' on cpu; captured cap.w, captured cap.b on interpret",
        ),
        (lambda: traced.program({"a": x}, x), "argument 'tree.a', argument 'y' on cpu; captured cap.w"),
        (lambda: double(x, far, threads=4), "`x` on cpu; `y` on interpret"),
        (lambda: both(x, far, f32[4], threads=4), "`a` on cpu; `b` on interpret"),
        (lambda: x + far, "operand 1 of add, f32[4], on cpu; operand 2 of add, f32[4], on interpret"),
        (lambda: ops.concat([x, x, far, x, x]), "operand 1 of concat, f32[4], operand 2 of concat, f32[4], operand 4"),
        (lambda: ops.concat([x, x, far, x, x]), " and 1 more on cpu; operand 3 of concat, f32[4], on interpret"),
        (lambda: x[poot.asarray(PICKS, device="interpret")], "the array f32[4] on cpu; an index i32[2] on interpret"),
        (lambda: x.at[0].set(far[0]), "the array f32[4] on cpu; the values f32[] on interpret"),
        (lambda: ops.cond(x[0], lambda y: y, lambda y: -y, far), "the predicate f32[] on cpu; an operand f32[4]"),
        (lambda: dispatch(1), "the KernelBuffer of `x` on cpu, the context on interpret"),
    ]
    for call, text in cases:
        with pytest.raises(DeviceMismatchError, match=re.escape(text)) as caught:
            call()
        assert caught.value.remedy and caught.value.where is not None and caught.value.where.file == __file__
    with poot.eager(), pytest.raises(DeviceMismatchError, match=r"argument 'a' on cpu; captured far on interpret"):
        poot.trace(lambda a: a + far)(x)


def test_arrays_that_a_trace_makes_are_on_its_device() -> None:
    for wrong in (
        lambda x: x + poot.asarray(ROW, device="interpret"),
        lambda x: x + ops.asarray(ROW, device="interpret"),
    ):
        with pytest.raises(poot.errors.DeviceError, match="inside a traced function"):
            poot.trace(wrong, device="cpu")(X)


def eagerly(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        with poot.eager():
            return poot.trace(function)(x)

    return call


@pytest.mark.parametrize("name", ["cpu", "interpret", "opencl", "wgpu"])
def test_an_engine_and_arrays_elsewhere(name: str) -> None:
    """A step's inputs and states are not carried from device to device; nothing of a step that is refused is done."""
    there = "interpret" if name == "cpu" else "cpu"
    device = poot.device(name)
    engine = poot.Engine(device)
    program = poot.trace(lambda s, x: (x * 2.0, s + x)).program(f32[4], f32[4], states={"s": 1}, device=device)
    exe = engine.load_weights(poot.WeightStore.from_arrays({"w": poot.asarray(ROW, device=there)}))
    entry = engine.add_entry(exe, program)
    exe.state["s"] = ROW
    elsewhere = poot.asarray(ROW, device=there)
    with pytest.raises(DeviceMismatchError, match=f"input 'x' on {there}, the engine on {name}") as caught:
        engine.step(exe, entry, poot.StepInputs().push("x", elsewhere))
    assert f'x.to_device("{name}")' in str(caught.value)
    with pytest.raises(DeviceMismatchError, match=f"state 's' on {there}, the engine on {name}"):
        exe.state["s"] = elsewhere
    assert exe.state["s"].tolist() == [1.0] * 4
    for array in (ROW, poot.asarray(ROW, device=name), elsewhere.to_device(name), np.asarray(elsewhere)):
        assert engine.step(exe, entry, poot.StepInputs().push("x", array)).read().tolist() == [2.0] * 4
    exe.state["s"] = elsewhere.to_device(name)
    assert exe.state["s"].tolist() == [1.0] * 4
