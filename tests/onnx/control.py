"""ONNX's control flow and recurrent layers, by ops.cond, ops.while_loop and ops.scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poot.trace import ops
from poot.trace.ops import nn
from tests.onnx.model import Node, operator


@operator("If")
def branch(node: Node, condition: Any) -> Any:
    if isinstance(condition, np.ndarray):
        return node.call("then_branch" if condition.item() else "else_branch")
    return ops.cond(
        ops.reshape(condition, ()),
        lambda: tuple(map(ops.asarray, node.call("then_branch"))),
        lambda: tuple(map(ops.asarray, node.call("else_branch"))),
    )


@operator("Scan")
def scan(node: Node, *inputs: Any) -> Any:
    inputs = inputs if node.version >= 9 else inputs[1:]  # without the lengths, which are left out
    count = node.get("num_scan_inputs")
    states, rows = inputs[:-count], inputs[-count:]

    def body(carry: Any, items: Any) -> Any:
        results = node.call("body", *carry, *items)
        return results[: len(states)], results[len(states) :]

    if node.version >= 9:
        final, stacked = ops.scan(body, tuple(states), tuple(rows))
        return (*final, *stacked)
    # Before opset 9 every input had a batch axis.
    found = []
    for example in range(states[0].shape[0]):
        final, stacked = ops.scan(body, tuple(s[example] for s in states), tuple(r[example] for r in rows))
        found.append((*final, *stacked))
    return tuple(ops.stack(parts) for parts in zip(*found, strict=True))


@operator("Loop", static=(0,))
def loop(node: Node, trips: Any, condition: Any, *carried: Any) -> Any:
    """A loop that a known number of trips ends: its condition keeps what it carries, and does not stop it."""
    count = int(np.asarray(trips).item())

    def body(carry: Any, number: Any) -> Any:
        going, values = carry
        results = node.call("body", ops.astype(number, np.int64), going, *values)
        kept = results[1 : 1 + len(values)]
        return (ops.reshape(results[0], ()), tuple(kept)), results[1 + len(values) :]

    start = (ops.reshape(condition, ()), tuple(carried))
    (_, final), stacked = ops.scan(body, start, ops.arange(count))
    return (*final, *stacked)


# --- recurrent layers -------------------------------------------------------------------------------------------------

Step = Callable[[Any, Any], Any]


def _shown(step: Step) -> Callable[[Any, Any], tuple[Any, Any]]:
    """The body of a scan: the next states, the first of which is also what the step gives."""

    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        states = step(carry, row)
        return states, states[0]

    return body


def _recurrent(
    node: Node, x: Any, lengths: Any, states: int, make: Callable[[int], tuple[Step, tuple[Any, ...]]]
) -> tuple[Any, ...]:
    """Outputs [steps, directions, batch, hidden], and the last states; `make` gives a direction's step and start."""
    batchwise = bool(node.get("layout", 0))
    rows = ops.swapaxes(x, 0, 1) if batchwise else x
    assert lengths is None or (np.asarray(lengths) == rows.shape[0]).all(), "sequences of different lengths"
    direction = node.get("direction", "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    outputs, last = [], []
    for number, backwards in enumerate(ways):
        step, start = make(number)
        final, stacked = ops.scan(
            lambda carry, row, f=step: ((s := f(carry, row)), s[0]), start, rows, reverse=backwards
        )
        outputs.append(stacked)
        last.append(final)
    whole = ops.stack(outputs, axis=1)
    finals = [ops.stack([way[n] for way in last], axis=0) for n in range(states)]
    if batchwise:
        whole = ops.permute_dims(whole, (2, 0, 1, 3))
        finals = [ops.swapaxes(item, 0, 1) for item in finals]
    return (whole, *finals)[: node.outputs]


def _start(node: Node, x: Any, initial: Any, number: int) -> Any:
    if initial is None:
        batch = x.shape[0] if node.get("layout", 0) else x.shape[1]
        return ops.zeros((batch, node.get("hidden_size")), x.dtype)
    return initial[:, number] if node.get("layout", 0) else initial[number]


def _biases(b: Any, number: int, gates: int, hidden: int) -> tuple[Any, Any]:
    if b is None:
        return 0.0, 0.0
    return b[number, : gates * hidden], b[number, gates * hidden :]


@operator("RNN", static=(4,))
def rnn(node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, initial: Any = None) -> Any:
    hidden = node.get("hidden_size")

    def make(number: int) -> tuple[Step, tuple[Any, ...]]:
        first, second = _biases(b, number, 1, hidden)

        def step(carry: Any, row: Any) -> Any:
            return (ops.tanh(nn.linear(row, w[number]) + nn.linear(carry[0], r[number]) + (first + second)),)

        return step, (_start(node, x, initial, number),)

    return _recurrent(node, x, lengths, 1, make)


@operator("GRU", static=(4,))
def gru(node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, initial: Any = None) -> Any:
    hidden = node.get("hidden_size")

    def make(number: int) -> tuple[Step, tuple[Any, ...]]:
        first, second = _biases(b, number, 3, hidden)

        def step(carry: Any, row: Any) -> Any:
            state = carry[0]
            inputs, before = nn.linear(row, w[number]) + first, nn.linear(state, r[number]) + second
            update, reset = (
                nn.sigmoid(inputs[:, n * hidden : (n + 1) * hidden] + before[:, n * hidden : (n + 1) * hidden])
                for n in range(2)
            )
            if node.get("linear_before_reset", 0):
                recurrent = reset * before[:, 2 * hidden :]
            else:
                offset = 0.0 if b is None else second[2 * hidden :]
                recurrent = nn.linear(reset * state, r[number, 2 * hidden :]) + offset
            new = ops.tanh(inputs[:, 2 * hidden :] + recurrent)
            return ((1 - update) * new + update * state,)

        return step, (_start(node, x, initial, number),)

    return _recurrent(node, x, lengths, 1, make)


@operator("LSTM", static=(4,))
def lstm(
    node: Node,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
) -> Any:
    hidden = node.get("hidden_size")

    def make(number: int) -> tuple[Step, tuple[Any, ...]]:
        first, second = _biases(b, number, 4, hidden)
        peep = ops.zeros(3 * hidden) if peepholes is None else peepholes[number]

        def step(carry: Any, row: Any) -> Any:
            state, cell = carry
            gates = nn.linear(row, w[number]) + nn.linear(state, r[number]) + (first + second)
            i, o, f, c = (gates[:, n * hidden : (n + 1) * hidden] for n in range(4))
            i, f = nn.sigmoid(i + peep[:hidden] * cell), nn.sigmoid(f + peep[2 * hidden :] * cell)
            cell = f * cell + i * ops.tanh(c)
            return nn.sigmoid(o + peep[hidden : 2 * hidden] * cell) * ops.tanh(cell), cell

        return step, (_start(node, x, initial_h, number), _start(node, x, initial_c, number))

    return _recurrent(node, x, lengths, 2, make)
