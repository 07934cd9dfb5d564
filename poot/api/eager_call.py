"""A traced function run under `poot.eager`: its own code, on the arguments that a traced call would give it.

Arrays become poot arrays on the call's device, in the dtype that `f64=` and `i64=` ask for; Python numbers become weak
scalars, static arguments stay as they are.  The results are poot arrays of their own, as those of a traced call.  What
differs is that everything has a value in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from poot.api.arguments import Arguments, Leaf, Signature
from poot.api.array import DeviceArray, upload
from poot.api.captures import Captures
from poot.api.devices import Device
from poot.api.invoke import weak_value
from poot.api.precision import Precision
from poot.api.recording import no_output
from poot.backends.device import DeviceBackend
from poot.dtypes import ArraySpec, DType
from poot.scopes import Scope
from poot.trace import ops
from poot.trace.array import Array, NumpyArray
from poot.trace.dispatch import taking
from poot.trace.tracer import Tracer, WeakNumber, WeakTracer
from poot.trace.tree import flatten

_RUNNING: ContextVar[bool] = ContextVar("poot_running", default=False)


def is_running() -> bool:
    """Whether this is the code of a traced function that runs eagerly: those that it calls are part of it, and kernels
    give values instead of changing arrays, as in a trace.
    """
    return _RUNNING.get()


class EagerCall:
    """One call of a traced function on concrete arrays."""

    def __init__(
        self,
        signature: Signature,
        arguments: Arguments,
        captures: Captures,
        device: DeviceBackend,
        precision: Precision,
    ) -> None:
        self._signature = signature
        self._arguments = arguments
        self._captures = captures
        self._device = device
        self._precision = precision
        self._captured = {id(array) for array in captures.arrays}

    def run(self, function: Callable[..., Any]) -> Any:
        """The outputs as a traced call gives them."""
        leaves = [self._leaf(leaf) for leaf in self._arguments.leaves]
        given = {id(array.memory) for array in (*leaves, *self._captures.arrays) if isinstance(array, DeviceArray)}
        values = self._arguments.rebuild(leaves)
        with Scope(_RUNNING, True), Device(self._device), taking(self._taken):
            flat = flatten(self._signature.call(function, values), f"outputs of {self._signature.name}")
            outputs = zip(flat.paths, flat.leaves, strict=True)
            return flat.rebuild([self._output(path, leaf, given) for path, leaf in outputs])

    def _taken(self, array: Array | NumpyArray, dtype: DType) -> DType:
        """The dtype of arrays from outside; those that the function has made keep theirs."""
        outside = not isinstance(array, Array) or id(array) in self._captured
        return self._precision.dtype(dtype) if outside else dtype

    def _leaf(self, leaf: Leaf) -> Any:
        match leaf.kind:
            case "array":
                assert isinstance(leaf.key, ArraySpec)
                return self._array(leaf.path, leaf.value, self._precision.spec(leaf.key))
            case "int" | "float":
                return self._number(leaf.path, leaf.value)
            case _:
                return leaf.value

    def _array(self, path: str, value: Any, spec: ArraySpec) -> DeviceArray:
        if isinstance(value, DeviceArray):
            value.buffer_view()  # raises what the array has to raise, before the function begins
            if value.spec == spec:
                return value.to_device(self._device)
        return upload(self._precision.convert(path, np.asarray(value), spec), self._device)

    def _number(self, path: str, number: int | float) -> WeakNumber:
        slots: dict[DType, DeviceArray] = {}

        def slot(dtype: DType) -> DeviceArray:
            if dtype not in slots:
                slots[dtype] = upload(weak_value(path, number, dtype), self._device)
            return slots[dtype]

        kind = "int*" if isinstance(number, int) else "float*"
        return WeakNumber(kind, slot, lambda: np.asarray(number), name=path, function=self._signature.name)

    def _output(self, path: str, leaf: Any, given: set[int]) -> Array:
        if isinstance(leaf, Tracer):
            leaf.check_alive()
        elif isinstance(leaf, WeakTracer):
            return leaf.materialise(leaf.dtype)
        elif isinstance(leaf, DeviceArray):
            spec = ArraySpec(self._taken(leaf, leaf.dtype), leaf.shape)
            if spec != leaf.spec or id(leaf.memory) not in given:
                return self._array(path, leaf, spec)
            return leaf.to_device(self._device).__copy__()  # what is donated, or written to, is not the result
        elif isinstance(leaf, (bool, int, float, np.generic, np.ndarray)):
            return ops.asarray(leaf)
        raise no_output(self._signature.name, path, leaf)
