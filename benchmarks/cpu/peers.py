"""The libraries that are compared: which are here, and how each runs a function as its users would."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.cpu.row import THREADS, Run

PACKAGES = ("poot", "llvmlite", "numpy", "jax", "numba", "torch", "onnxruntime")


@functools.cache
def jax() -> Any:
    """The module jax, or None."""
    return importlib.import_module("jax") if importlib.util.find_spec("jax") else None


@functools.cache
def numba() -> Any:
    """The module numba, or None."""
    return importlib.import_module("numba") if importlib.util.find_spec("numba") else None


@functools.cache
def torch() -> Any:
    """The module torch with its threads set, or None."""
    if not importlib.util.find_spec("torch"):
        return None
    module = importlib.import_module("torch")
    module.set_num_threads(THREADS)
    module.set_grad_enabled(False)
    return module


def with_jax(make: Callable[[Any, Any], Callable[..., Any]], arrays: Sequence[Any]) -> dict[str, Run]:
    """`make(jax, jax.numpy)` compiled by jax.jit, on arrays that are JAX's already."""
    module = jax()
    if module is None:
        return {}
    run = module.jit(make(module, module.numpy))
    own = [module.device_put(array) for array in arrays]
    return {"JAX": lambda: run(*own).block_until_ready()}


def with_torch(make: Callable[[Any], Callable[..., Any]], arrays: Sequence[Any], *, compiled: bool) -> dict[str, Run]:
    """`make(torch)` in eager mode and, where asked for, through torch.compile; on tensors."""
    module = torch()
    if module is None:
        return {}
    run, own = make(module), [tensor(array) for array in arrays]
    runs: dict[str, Run] = {"torch": lambda: run(*own)}
    if compiled:
        module.compiler.reset()
        fast = module.compile(run, dynamic=False)
        runs["torch.compile"] = lambda: fast(*own)
    return runs


def tensor(array: Any) -> Any:
    """A torch tensor of an array, also of bfloat16, which torch does not take from NumPy."""
    if array.dtype.name == "bfloat16":
        return torch().from_numpy(array.view(np.int16)).view(torch().bfloat16)
    return torch().from_numpy(array)


def with_numba(make: Callable[[Any], Callable[..., Any]], arrays: Sequence[Any]) -> dict[str, Run]:
    """`make(numba)`, which compiles its own function, on NumPy arrays."""
    module = numba()
    if module is None:
        return {}
    run = make(module)
    return {"numba": lambda: run(*arrays)}


class OnnxModel:
    """A model for onnxruntime, written operator by operator; `x = model("Add", a, b)` appends a node."""

    def __init__(self, opset: int = 20) -> None:
        from onnx import helper

        self._helper, self._opset = helper, opset
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._constants: list[Any] = []

    def input(self, name: str, array: np.ndarray) -> str:
        """An input of an array's type and shape."""
        kind = self._helper.np_dtype_to_tensor_dtype(array.dtype)
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, array.shape))
        return name

    def constant(self, value: Any) -> str:
        """A weight, or another constant."""
        from onnx import numpy_helper

        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"value_{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def session(self, output: str) -> Callable[[dict[str, Any]], Any]:
        """Compile, and give a function of the inputs by name."""
        import onnxruntime

        result = self._helper.make_empty_tensor_value_info(output)
        graph = self._helper.make_graph(self._nodes, "model", self._inputs, [result], self._constants)
        opsets = [self._helper.make_opsetid("", self._opset)]
        model = self._helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda given: session.run(None, given)[0]


def with_onnxruntime(build: Callable[[OnnxModel], str], given: dict[str, np.ndarray]) -> dict[str, Run]:
    """A model built by `build`, which names the result, run on NumPy arrays."""
    if not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")):
        return {}
    model = OnnxModel()
    for name, array in given.items():
        model.input(name, array)
    run = model.session(build(model))
    return {"onnxruntime": lambda: run(given)}
