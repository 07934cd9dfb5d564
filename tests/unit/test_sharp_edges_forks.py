"""GPU devices in a forked child: a typed error that names the remedy, and nothing of the parent's is given back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import gc, os, sys, traceback, warnings, weakref
import numpy as np, poot
from poot.api import traced
from poot.backends.opencl.recording import ClBuffer
from poot.backends.wgpu.recording import WgpuBuffer

warnings.simplefilter("ignore")  # 3.12: fork in a threaded process, which is the point here
name = sys.argv[1]

@poot.trace(device=name)
def picked(x, i):
    return x[i] * 2.0 + 1.0

@poot.kernel
def doubled(a: poot.In[poot.f32], b: poot.Out[poot.f32]):
    i = poot.thread_index()
    b[i] = a[i] * 2.0

host, index = np.ones(8, np.float32), np.array([0, 1], np.int32)
x, out = (poot.asarray(host, device=name) for _ in range(2))
y = picked(x, index)
doubled(x, out, threads=8)
engine = poot.Engine(poot.device(name))
exe = engine.load_weights(poot.WeightStore.from_arrays({"w": host}))

def refused(use):
    try:
        use()
    except poot.errors.DeviceError as error:
        assert type(error).__name__ == "DeviceError" and 'multiprocessing\\'s "spawn"' in str(error), error
    else:
        raise AssertionError(use)

def child():
    released = []
    if name == "wgpu":
        for kind in (type(x.memory.buffer.memory), *type(x.memory.buffer.memory).__mro__[:-1]):
            kind._release = lambda self: released.append(type(self).__name__)
    for use in (
        lambda: np.asarray(y), lambda: repr(x), lambda: x + 1.0, lambda: picked(x, index), lambda: picked(host, index),
        lambda: doubled(x, out, threads=8), lambda: doubled(host, np.zeros(8, np.float32), threads=8, device=name),
        lambda: poot.asarray([1.0], device=name), x.block_until_ready, lambda: poot.device(name).synchronize(),
        lambda: x.to_device("cpu"), lambda: x.at[0].set(1.0),
        lambda: engine.load_weights(poot.WeightStore.from_arrays({"w": host})),
    ):
        refused(use)
    assert np.asarray(poot.trace(lambda a: a + 1.0, device="cpu")(host)).tolist() == [2.0] * 8
    engine.unload(exe)
    known = weakref.ref(x.memory.buffer)
    for variable in ("x", "y", "out", "picked", "doubled", "engine", "exe"):
        del globals()[variable]
    traced._CACHE.clear()
    gc.collect()
    assert known() is not None and not known().freed and not released, released

pid = os.fork()
if pid == 0:
    status = 1
    try:
        child()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)  # as a child of multiprocessing ends
assert os.waitpid(pid, 0)[1] == 0
assert np.asarray(y).tolist() == [3.0, 3.0] and np.asarray(out).tolist() == [2.0] * 8
assert np.asarray(picked(x, index)).tolist() == [3.0, 3.0]
print("well")
"""


@pytest.mark.parametrize("name", ["opencl", "wgpu"])
def test_a_forked_child_leaves_the_device_alone(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), name], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("well\n", "")
