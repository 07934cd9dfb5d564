"""GPU devices in a forked child: a typed error that names the remedy, and nothing of the parent's is given back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from numpy.random import bit_generator

ROOT = Path(__file__).resolve().parents[2]

#: The fork in which `child` of a script runs, and ends as a child of multiprocessing does.
FORK = """
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
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
"""

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
total = poot.trace(lambda s, x: (x, s + x)).program(poot.f32[8], poot.f32[8], states={"s": 1}, device=name)
entry = engine.add_entry(exe, total)
engine.step(exe, entry, poot.StepInputs().push("x", host))

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
        lambda: np.asarray(y), lambda: str(x), lambda: x + 1.0, lambda: picked(x, index), lambda: picked(host, index),
        lambda: doubled(x, out, threads=8), lambda: doubled(host, np.zeros(8, np.float32), threads=8, device=name),
        lambda: poot.asarray([1.0], device=name), x.block_until_ready, lambda: poot.device(name),
        lambda: poot.device(f"{name}:0"),
        lambda: x.to_device("cpu"), lambda: x.at[0].set(1.0),
        lambda: exe.state.__setitem__("s", host), lambda: exe.state["s"], exe.state.reset,
        lambda: engine.step(exe, entry, poot.StepInputs().push("x", host)),
        lambda: engine.load_weights(poot.WeightStore.from_arrays({"w": host})),
    ):
        refused(use)
    assert np.asarray(poot.trace(lambda a: a + 1.0, device="cpu")(host)).tolist() == [2.0] * 8
    assert repr(x) == f"Array(in the process that forked this one, shape=(8,), dtype=f32, device='{name}')"
    engine.unload(exe)
    known = weakref.ref(x.memory.buffer)
    for variable in ("x", "y", "out", "picked", "doubled", "engine", "exe", "entry"):
        del globals()[variable]
    traced._CACHE.clear()
    gc.collect()
    assert known() is not None and not known().freed and not released, released

"""
AFTER = """
assert np.asarray(y).tolist() == [3.0, 3.0] and np.asarray(out).tolist() == [2.0] * 8
assert np.asarray(picked(x, index)).tolist() == [3.0, 3.0]
print("well")
"""


#: What a process does before it forks, and whether its child can open the device.
LISTING = """
import os, sys, traceback, warnings
import numpy as np, poot

warnings.simplefilter("ignore")
name, how = sys.argv[1:]
if how == "listed":
    poot.devices()
elif how == "another":
    try:
        poot.device(f"{name}:7")
    except poot.errors.DeviceUnavailableError:
        pass

def child():
    report = {each.name: each for each in poot.devices()}[name]
    assert report.available == (how == "nothing")
    if how == "nothing":
        assert np.asarray(poot.asarray([1.0, 2.0], device=name) + 1.0).tolist() == [2.0, 3.0]
        return
    assert "listed" in report.reason and '"spawn"' in report.remedy
    for use in (lambda: poot.device(name), lambda: poot.asarray([1.0], device=name), lambda: poot.device(f"{name}:7")):
        try:
            use()
        except poot.errors.DeviceError as error:
            assert type(error).__name__ == "DeviceError" and '"spawn"' in str(error), error
        else:
            raise AssertionError(use)

"""
AFTER_LISTING = """
assert np.asarray(poot.asarray([1.0, 2.0], device=name) + 1.0).tolist() == [2.0, 3.0]
print("well")
"""


#: Threads that launch kernels which the driver has not seen, so that it loads libraries in its own threads; meanwhile
#: the process forks, and its children load libraries too.
LOADING = """
import ctypes, os, sys, threading, traceback, warnings
from pathlib import Path
import numpy as np, poot

warnings.simplefilter("ignore")
name, libraries = sys.argv[1], sorted(Path(sys.argv[2]).glob("*.so"))
x = poot.asarray(np.ones(8, np.float32), device=name)
seed, stop, found = np.random.SeedSequence().entropy % 10**6, threading.Event(), []

def launching(thread):
    turn = 0
    while not stop.is_set():
        turn += 1
        number = seed + turn * 7.0 + thread / 4.0
        y = poot.trace(lambda a: a * number + 1.0, device=name)(x)
        if turn % 3 == thread % 3:
            found.append(float(y[3]) == np.float32(number) + 1.0)

threads = [threading.Thread(target=launching, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()

def child():
    for library in libraries:
        ctypes.CDLL(str(library))

for turn in range(6):
    y = poot.trace(lambda a: a + float(seed + turn), device=name)(x)
"""
AFTER_LOADING = """
stop.set()
for thread in threads:
    thread.join()
assert found and all(found)
print("well")
"""


@pytest.mark.parametrize("name", ["opencl", "wgpu"])
def test_forks_while_the_driver_loads_libraries(name: str, tmp_path: Path) -> None:
    for number in range(8):
        shutil.copy(bit_generator.__file__, tmp_path / f"lib{number}.so")
    assert run(LOADING + indent(FORK, "    ") + AFTER_LOADING, tmp_path, name, str(tmp_path)) == ("well\n", "")


#: A kernel that is still running when the process forks, as the driver sees it in the child.
RUNNING = """
import os, sys, traceback, warnings
import numpy as np, poot, pyopencl

warnings.simplefilter("ignore")
device = poot.device("opencl")

@poot.kernel
def slow(a: poot.InOut[poot.i32], turns: poot.i32):
    i = poot.thread_index()
    for turn in range(turns):
        a[i] = a[i] * 3 + turn

a, turns, running = poot.asarray(np.ones(1, np.int32), device="opencl"), 100_000_000, False
while not running:  # on a busy machine this thread may come back when it is over
    slow(a, turns, threads=1)
    marker, turns = pyopencl.enqueue_marker(device.backend._queue), min(turns * 2, 1 << 30)
    running = marker.command_execution_status != 0

def child():
    assert marker.command_execution_status == 0

"""


def test_a_fork_waits_for_what_runs(tmp_path: Path) -> None:
    assert run(RUNNING + FORK + 'print("well")', tmp_path) == ("well\n", "")


@pytest.mark.parametrize("how", ["listed", "another", "nothing"])
@pytest.mark.parametrize("name", ["opencl", "wgpu"])
def test_a_child_of_a_process_that_has_asked_the_driver(name: str, how: str, tmp_path: Path) -> None:
    assert run(LISTING + FORK + AFTER_LISTING, tmp_path, name, how) == ("well\n", "")


@pytest.mark.parametrize("name", ["opencl", "wgpu"])
def test_a_forked_child_leaves_the_device_alone(name: str, tmp_path: Path) -> None:
    assert run(SCRIPT + FORK + AFTER, tmp_path, name) == ("well\n", "")


def run(text: str, folder: Path, *arguments: str) -> tuple[str, str]:
    """What a script of its own process prints, and its errors."""
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout, done.stderr
