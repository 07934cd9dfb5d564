"""An exe with an entry and a state, for tests of who may use it while somebody else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightStore, f32
from poot.api.devices import Device

N = 24


def full(value: float) -> np.ndarray[Any, Any]:
    return np.full(N, value, np.float32)


class Life:
    """An engine with an exe and an entry: y = w * x * 2 + 7, and a state to which x is added."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.engine = Engine(device)
        b = Builder(TraceLimits.STANDARD)
        x, w, total = b.input("x", f32[N]), b.constant("w", f32[N]), b.state("total", f32[N])
        graph = b.finish(w * x * 2.0 + 7.0, updates={"total": total + x})
        self.program = poot.compile(graph, device.target, poot.CompileOptions())
        self.exe, self.entry = self.load()

    def load(self) -> tuple[Any, Any]:
        exe = self.engine.load_weights(WeightStore.from_arrays({"w": full(1)}))
        return exe, self.engine.add_entry(exe, self.program)

    def step(self, x: Any, sync: Callable[[], None] | None = None) -> Any:
        return self.engine.step(self.exe, self.entry, StepInputs().push("x", x), sync=sync)

    def changes(self) -> dict[str, Callable[[], object]]:
        return {
            "step": lambda: self.step(full(100)),
            "step of another entry": lambda: self.engine.step(self.exe, self.other, StepInputs().push("x", full(9))),
            "add_entry": lambda: self.engine.add_entry(self.exe, self.program),
            "remove_entry": lambda: self.engine.remove_entry(self.entry),
            "unload": lambda: self.engine.unload(self.exe),
            "setting": lambda: self.exe.state.__setitem__("total", full(50)),
            "reset": self.exe.state.reset,
        }

    @property
    def other(self) -> Any:
        return next(entry for entry in self.exe.entries.values() if entry is not self.entry)
