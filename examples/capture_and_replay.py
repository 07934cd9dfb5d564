"""An engine entry with state: the first step records, 999 later ones replay.

python examples/capture_and_replay.py
"""

from __future__ import annotations

import time

import numpy as np

import poot
from poot import f32

LIMITS = poot.TraceLimits(
    max_tokens=1, max_values=1 << 10, max_eqns=1 << 10, max_literal_bytes=1 << 12, max_owned_bytes=1 << 20
)


def moving_average(n: int, decay: float = 0.9) -> poot.Graph:
    """The state goes to decay * average + (1 - decay) * x, which is also the output."""
    b = poot.Builder(LIMITS, name="moving_average")
    x = b.input("x", f32[n])
    average = b.state("average", f32[n])
    updated = average * decay + x * (1.0 - decay)
    return b.finish({"average": updated}, updates={"average": updated})


def main(n: int = 1024, steps: int = 1000, device: str = "cpu") -> np.ndarray:
    """Step the entry and compare with NumPy; returns the state at the end."""
    backend = poot.device(device)
    engine = poot.Engine(backend)
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    targets = poot.TargetSet.single(poot.DeviceId(0), backend.target)
    part = poot.Partition(
        experts=poot.ExpertPlacement.ALL_RESIDENT, devices=poot.DevicePlacement.single(poot.DeviceId(0))
    )
    staged = poot.compile_staged(moving_average(n), targets, part, poot.CompileOptions(poot.CompileLimits.STANDARD))
    entry = engine.add_entry(exe, staged)

    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((steps, n)).astype(np.float32)
    expected = np.zeros(n, np.float32)
    start = time.perf_counter()
    for x in inputs:
        engine.step(exe, entry, poot.StepInputs().push("x", x))
    elapsed = time.perf_counter() - start
    for x in inputs:
        expected = expected * np.float32(0.9) + x * np.float32(0.1)

    average = exe.state["average"]
    print(f"{steps} steps in {elapsed * 1e3:.1f} ms, {elapsed / steps * 1e6:.1f} us each")
    print(f"recorded {engine.stats.records} time(s), replayed {engine.stats.replays}")
    print("largest difference from NumPy:", np.abs(average - expected).max())
    engine.unload(exe)
    return average


if __name__ == "__main__":
    main()
