"""Traced functions in forked and spawned processes: what pickles, what refuses, and that a child can go on working."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot.errors import DeviceError, EngineError

ROOT = Path(__file__).resolve().parents[2]

MODULE = """
import numpy as np, poot

SCALE = 3.0

@poot.trace
def scaled(x):
    return x * SCALE

class Model:
    def __init__(self, gain):
        self.gain = gain

    @poot.trace
    def forward(self, x):
        return x * self.gain

@poot.kernel
def double(a: poot.In[poot.f32], b: poot.Out[poot.f32]):
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i] * 2.0

def launch(kernel, x):
    out = poot.asarray(np.zeros(3, np.float32))
    kernel(x, out, threads=3)
    return out

def edges():
    from tests.unit.sharp_edges import EDGES, PRELUDE
    for name, edge in EDGES.items():
        exec(compile(PRELUDE + edge, f"<{name}>", "exec"), {"__name__": "child"})
    return len(EDGES)
"""

SCRIPT = """
import multiprocessing, pickle, sys, threading, warnings
import numpy as np, poot
import edge_module as m

def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))

if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork in a threaded process, which is the point here
    x = poot.asarray(np.ones(3, np.float32))
    assert pickle.loads(pickle.dumps(m.scaled)) is m.scaled
    assert pickle.loads(pickle.dumps(m.double)) is m.double
    assert same(m.scaled(x), np.full(3, 3.0))  # the parent has compiled, and has a pool of workers
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            m.scaled(x)
            poot.trace(lambda v: v + 1.0)(x)
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            assert same(pool.apply(m.scaled, (x,)), np.full(3, 3.0))
            assert same(pool.apply(m.Model(5.0).forward, (x,)), np.full(3, 5.0))
            assert same(pool.apply(m.launch, (m.double, x)), np.full(3, 2.0))
            assert pool.apply(m.edges) > 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert same(m.scaled(x), np.full(3, 3.0))
    print("well")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_works_as_its_parent_does(method: str, tmp_path: Path) -> None:
    (tmp_path / "edge_module.py").write_text(MODULE, encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, str(script), method], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.stdout == "well\n", done.stderr


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_devices_and_engines_refuse_to_be_pickled_and_copied(copied: Callable[[Any], Any]) -> None:
    device = poot.device("cpu")
    with pytest.raises(DeviceError, match=r"a device cannot be pickled or copied(.|\n)*keep its name"):
        copied(device)
    engine = poot.Engine(device)
    exe = engine.load_weights(poot.WeightStore.from_arrays({"w": np.ones(3, np.float32)}))
    graph = poot.trace(lambda w: w * 2.0).graph(poot.f32[3], constants=("w",))
    program = poot.compile(graph, device.target, poot.CompileOptions(poot.CompileLimits.STANDARD))
    entry = engine.add_entry(exe, program)
    for each in (engine, exe, exe.state, entry, engine.step(exe, entry)):
        with pytest.raises(EngineError, match="cannot be pickled or copied"):
            copied(each)


def test_a_local_function_says_that_it_cannot_be_pickled() -> None:
    local = poot.trace(lambda x: x)
    with pytest.raises((AttributeError, pickle.PicklingError), match="<lambda>"):
        pickle.dumps(local)
